# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a libvirt network by their places in its XML. https://libvirt.org/formatnetwork.html"""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....._base.errors import InputError
from ....._base.xml import etree
from ...fields import validators
from ...fields.shapes import DeviceField, GroupField, ListField
from ...fields.table import ON_OFF, AttributeField, Field, ValueEncoding, Values, check_table, drop, make
from ...network import domain
from ...nic import NIC_OPTIONS, RateField
from .addressing import ADDRESS, AddressesField, address, interface_of
from .dhcp import DhcpField
from .names import DnsField
from .rows import RowsField, in_order, said, same

MODES = ("nat", "route", "open", "isolated", "bridge")
# What others call them.
_OTHER_WORDS = {"routed": "route", "bridged": "bridge"}
# Modes in which libvirt makes the bridge, has the addresses and runs dnsmasq.
OWN_BRIDGE = ("nat", "route", "open", "isolated")
_DNSMASQ = "http://libvirt.org/schemas/network/dnsmasq/1.0"

# IFNAMSIZ of Linux is 16, with the zero at the end.
interface_name = validators.pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", "the name of an interface", "virbr1")


@dataclass(frozen=True)
class _ModeField:
    """Where the network leads; isolated is the absence of ``<forward>``."""

    key: str = "mode"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> str:
        word = _OTHER_WORDS.get(value, value) if isinstance(value, str) else value
        return validators.choice(*MODES)(word, where)

    def write(self, parent: etree._Element, value: str) -> None:
        if value == "isolated":
            for old in parent.findall("forward"):
                drop(old)
            return
        forward = make(parent, "forward")
        forward.set("mode", value)
        if value != "nat":
            for old in forward.findall("nat"):
                drop(old)

    def read(self, parent: etree._Element) -> str:
        forward = parent.find("forward")
        return "isolated" if forward is None else forward.get("mode", "nat")


@dataclass(frozen=True)
class _DeviceField:
    """The uplinks of ``<forward>``."""

    key: str = "device"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        found: tuple[str, ...] = validators.list_of(interface_name)(value, where)
        for index, name in enumerate(found):
            if name in found[:index]:
                raise InputError(f"{name} is given twice", where=f"{where}[{index}]")
        return found

    def write(self, parent: etree._Element, value: Sequence[str]) -> None:
        forward = make(parent, "forward")
        # libvirt writes the first one here as well, and wants the two to be the same.
        forward.attrib.pop("dev", "")
        there = {element.get("dev"): element for element in forward.findall("interface")}
        for old in there.values():
            drop(old)
        for name in value:
            kept = there.get(name)
            forward.append(etree.Element("interface", dev=name) if kept is None else kept)

    def read(self, parent: etree._Element) -> tuple[str, ...]:
        names = [element.get("dev", "") for element in parent.findall("forward/interface")]
        forward = parent.find("forward")
        first = None if forward is None else forward.get("dev")
        return tuple(names if names or first is None else [first])


def _destination(value: t.Any, where: str) -> str:
    try:
        if "%" in str(value):
            raise ValueError
        network = ipaddress.ip_network(str(value))
    except ValueError as exc:
        raise InputError(f"{value!r} is not a network", where=where, hint="Write it like 198.51.100.0/24") from exc
    if network.prefixlen == 0:
        raise InputError(
            f"{value!r} is the default route", where=where, hint="The host's own default route stays as it is"
        )
    return str(network)


@dataclass(frozen=True)
class _DestinationField:
    """The network that a route leads to: an address and a prefix, or a netmask."""

    key: str = "to"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> str:
        return _destination(value, where)

    def write(self, parent: etree._Element, value: str) -> None:
        network = ipaddress.ip_network(value)
        parent.attrib.pop("netmask", "")
        parent.set("family", f"ipv{network.version}")
        parent.set("address", str(network.network_address))
        parent.set("prefix", str(network.prefixlen))

    def read(self, parent: etree._Element) -> str | None:
        found = interface_of(parent)
        return None if found is None else str(ipaddress.ip_interface(found).network)


@dataclass(frozen=True)
class _DnsmasqField:
    """Lines for dnsmasq's own configuration, in a namespace of the XML."""

    key: str = "dnsmasq_options"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        found: tuple[str, ...] = validators.list_of(validators.line)(value, where)
        return found

    def write(self, parent: etree._Element, value: Sequence[str]) -> None:
        for old in parent.findall(f"{{{_DNSMASQ}}}options"):
            drop(old)
        if value:
            home = etree.SubElement(parent, f"{{{_DNSMASQ}}}options", nsmap={"dnsmasq": _DNSMASQ})
            for line in value:
                etree.SubElement(home, f"{{{_DNSMASQ}}}option", value=line)

    def read(self, parent: etree._Element) -> tuple[str, ...]:
        return tuple(
            element.get("value", "") for element in parent.findall(f"{{{_DNSMASQ}}}options/{{{_DNSMASQ}}}option")
        )


def _group(key: str, path: str, rule: validators.Rule, kind: ValueEncoding | None = None) -> GroupField:
    """The first and the last of a row of addresses or ports."""
    row = (AttributeField("start", rule, "@start", kind), AttributeField("end", rule, "@end", kind))
    return GroupField(key, path, row, ("start", "end"))


_KIB_PER_SECOND = validators.whole_number(1, 2**32 - 1)
_RATES = tuple(AttributeField(word, _KIB_PER_SECOND, f"@{word}") for word in ("average", "peak", "burst"))
_BANDWIDTH = DeviceField(
    "bandwidth", "bandwidth", (RateField("inbound", "inbound", _RATES), RateField("outbound", "outbound", _RATES))
)
# They mean the same here as at a nic, whose own they become.
_OF_NICS = {field.key: field for field in NIC_OPTIONS}
_VIRTUALPORT = _OF_NICS["virtualport"]


class _VlansField(RowsField):
    """Checked as those of a nic."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        return t.cast("tuple[Values, ...]", _OF_NICS["vlan"].check(value, where, have))


_VLAN = _VlansField("vlan", "vlan/tag", t.cast(ListField, _OF_NICS["vlan"]).table, short="id")
PORTGROUP: tuple[Field, ...] = (
    AttributeField("name", validators.name, "@name"),
    AttributeField("default", validators.yes_or_no, "@default"),
    _VLAN,
    _VIRTUALPORT,
    _BANDWIDTH,
    AttributeField("trust_guest_rx_filters", validators.yes_or_no, "@trustGuestRxFilters"),
)


@dataclass(frozen=True)
class _PortgroupsField(RowsField):
    """The port groups, each with a name of its own and at most one for nics that name none."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        rows = super().check(value, where, have)
        names = [row["name"] for row in rows]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise InputError(f"the port group {name} is given twice", where=f"{where}[{index}].name")
        defaults = [row["name"] for row in rows if row.get("default")]
        if len(defaults) > 1:
            raise InputError(f"{' and '.join(defaults)} are both the default", where=where, hint="Only one can be")
        return rows


# Below <network>. The mode goes first, as others stand in its element, and addresses before DHCP.
NETWORK: tuple[Field, ...] = (
    _ModeField(),
    AttributeField("bridge", interface_name, "bridge@name"),
    _DeviceField(),
    DeviceField(
        "domain",
        "domain",
        (AttributeField("name", domain, "@name"), AttributeField("local_only", validators.yes_or_no, "@localOnly")),
        short="name",
    ),
    AttributeField("mac", validators.mac, "mac@address", ValueEncoding(str, str.lower)),
    AttributeField("mtu", validators.whole_number(68, 65535), "mtu@size"),
    AttributeField("stp", validators.yes_or_no, "bridge@stp", ON_OFF),
    AttributeField("zone", validators.word, "bridge@zone"),
    AddressesField(),
    DhcpField(),
    DnsField(),
    RowsField(
        "routes",
        "route",
        (
            _DestinationField(),
            AttributeField("via", address, "@gateway", ADDRESS),
            AttributeField("metric", validators.whole_number(1, 2**32 - 1), "@metric"),
        ),
        required=("to", "via"),
    ),
    _group("nat_ports", "forward/nat/port", validators.whole_number(1, 65535)),
    _group("nat_addresses", "forward/nat/address", address, ADDRESS),
    AttributeField("nat_ipv6", validators.yes_or_no, "forward/nat@ipv6"),
    _PortgroupsField("portgroups", "portgroup", PORTGROUP, required=("name",)),
    _VIRTUALPORT,
    _VLAN,
    AttributeField("isolated_ports", validators.yes_or_no, "port@isolated"),
    _BANDWIDTH,
    _DnsmasqField(),
)


def read_xml(xml: etree._Element) -> Values:
    """All that a network's XML says, by the users' words. What is not there is left out."""
    return dict(said({field.key: in_order(field.read(xml), field.key) for field in NETWORK}))


def write_xml(xml: etree._Element, values: Mapping[str, t.Any]) -> None:
    """Write the options that differ from what the XML says; all else stays in it."""
    for field in NETWORK:
        want = values.get(field.key)
        if want is not None and not same(field.read(xml), want, field.key):
            field.write(xml, want)


def check_options(value: t.Any, where: str) -> Values:
    """The options of a network that stand in its XML, each by its own rule. Raises InputError."""
    return check_table(value, where, NETWORK)
