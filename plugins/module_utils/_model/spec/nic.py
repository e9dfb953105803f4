# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a nic: its words, their checks, and where the plain ones stand in libvirt's XML."""

from __future__ import annotations

import hashlib
import typing as t
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import InputError, inside
from ..._base.xml import etree
from .fields import validators
from .fields.given import GivenOptions
from .fields.shapes import GroupField, ListField, NamedListField
from .fields.table import AttributeField, Field, Values, rules_beside
from .network import NETWORK_RULES, check_network

NIC_MODELS = ("virtio", "e1000e", "e1000", "rtl8139")
# Variables of libvirt's network filters that hold the machine's own address, whatever the filter:
# https://libvirt.org/formatnwfilter.html#usage-of-variables-in-filters
FILTER_ADDRESSES = frozenset({"IP", "IPV6", "MAC"})
# What a nic can be plugged into, and the attribute of <source> that names it.
SOURCE_ATTRIBUTES = {"bridge": "bridge", "network": "network", "direct": "dev"}


@dataclass(frozen=True)
class Nic:
    """One network interface.

    type and source: what it is plugged into. model: empty, as source is, where the nic of an existing machine has none
    and is to have none. gateway: at most one of each family. dhcp4 None: the guest asks DHCP
    exactly when it has no addresses. present False: it is to be taken out of the machine. options: what stands in the
    XML as it was written, by the fields of NIC_OPTIONS. given: where all this comes from.
    """

    name: str
    type: str = "bridge"
    source: str = "br0"
    model: str = "virtio"
    mac: str = ""
    addresses: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    routes: tuple[dict[str, t.Any], ...] = ()
    dhcp4: bool | None = None
    dhcp6: bool | None = None
    accept_ra: bool | None = None
    mtu: int | None = None
    present: bool = True
    options: dict[str, t.Any] = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)


@dataclass(frozen=True)
class _ShortGroup(GroupField):
    """A mapping of which a plain word stands for one key."""

    short: str = ""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        return super().check(value if isinstance(value, Mapping) else {self.short: value}, where, have)


class RateField(GroupField):
    """The limits of one direction. libvirt takes no peak and no burst without a rate that counts all the time."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        clean = super().check(value, where, have)
        after = {*(have or {}), *clean}
        if clean and "average" not in after and after != {"floor"}:
            raise InputError("average is missing", where=where, hint="Give the rate in kB per second")
        return clean


class _FilterField(_ShortGroup):
    """Variables alone are for a nic that has a filter."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        clean = super().check(value, where, have)
        if clean and "name" not in clean and not (have or {}).get("name"):
            raise InputError("name is missing", where=where, hint="Give the name of the filter")
        return clean


# https://libvirt.org/formatdomain.html#virtual-port-types; what each has is in libvirt's schema networkcommon.rng.
_PORT_WORDS: dict[str, tuple[str, ...]] = {
    "802.1Qbg": ("managerid", "typeid", "typeidversion", "instanceid"),
    "802.1Qbh": ("profileid",),
    "openvswitch": ("interfaceid", "profileid"),
    "midonet": ("interfaceid",),
}
_MIDONET = "midonet"
# What libvirt takes none of these without, unless a network may have it (virNetDevVPortProfileCheckComplete in its
# src/util/virnetdevvportprofile.c).
_NEEDED = {"802.1Qbg": _PORT_WORDS["802.1Qbg"][:3], "802.1Qbh": _PORT_WORDS["802.1Qbh"]}


class _VirtualPortField(_ShortGroup):
    """Each type has words of its own; without a type, the network that the nic is in has one."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        clean = super().check(value, where, have)
        there = have or {}
        kind = str(clean.get("type", there.get("type", "")))
        words = _PORT_WORDS.get(kind, clean)
        wrong = next((word for word in clean if word not in ("type", *words)), None)
        if wrong is not None:
            raise InputError(
                f"a virtualport of type {kind} has no {wrong}",
                where=inside(where, wrong),
                hint=f"It has {', '.join(words)}",
            )
        if kind == _MIDONET and "interfaceid" not in {**there, **clean}:
            raise InputError("interfaceid is missing", where=where, hint=f"A virtualport of type {kind} needs it")
        return clean

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        parameters = parent.find(f"{self.path}/parameters")
        if parameters is not None and "type" in value:
            # libvirt refuses what another type has had.
            for word in set(parameters.attrib) - set(_PORT_WORDS.get(value["type"], parameters.attrib)):
                del parameters.attrib[word]
        super().write(parent, value)


@dataclass(frozen=True)
class _LinkStateField(AttributeField):
    """``up`` or ``down``; YAML's words for true and false do as well."""

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> str:
        if isinstance(value, bool):
            return "up" if value else "down"
        return str(super().check(value, where))


@dataclass(frozen=True)
class _SourceMode(AttributeField):
    """How a nic is on a device of the hypervisor; the sockets of other types have a mode of another kind."""

    def read(self, parent: etree._Element) -> t.Any:
        return super().read(parent) if parent.get("type", "direct") == "direct" else None


class _VlanField(ListField):
    """One VLAN is that of an access port, several make a trunk port.

    libvirt marks the latter with an attribute (https://libvirt.org/formatdomain.html#setting-vlan-tag-on-supported-network-types),
    and a mark that stays makes a trunk port of one VLAN."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        rows = super().check(value, where, have)
        first, *others = [index for index, row in enumerate(rows) if "native" in row] or [0]
        if others:
            raise InputError(
                "a port has one native VLAN", where=f"{where}[{others[0]}].native", hint=f"{where}[{first}] has it too"
            )
        return rows

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        home = parent.find("vlan")
        if home is not None and len(value) < 2 and not any("native" in row for row in value):
            home.attrib.pop("trunk", "")
        super().write(parent, value)


class _UuidRule(validators.pattern):
    """A UUID, as libvirt gives it back."""

    def __call__(self, value: t.Any, where: str) -> str:
        return str(uuid.UUID(super().__call__(value, where)))


class _NumberRule(validators.pattern):
    """A number in decimal or hexadecimal digits, as libvirt gives it back; to it, 010 would be octal."""

    def __call__(self, value: t.Any, where: str) -> str:
        digits = super().__call__(value, where)
        return str(int(digits, 16 if digits.startswith("0x") else 10))


# What libvirt's schema takes; a refusal of its own names no place.
_UUID = _UuidRule(
    r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "a UUID",
    "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa3b",
)
_BYTE = _NumberRule(r"0x[0-9a-fA-F]{1,2}|[0-9]{1,2}|1[0-9]{2}|2[0-4][0-9]|25[0-5]", "a number up to 255", "11")
_THREE_BYTES = _NumberRule(
    r"0x[0-9a-fA-F]{1,6}|[0-9]{1,7}|1[0-5][0-9]{6}|16[0-6][0-9]{5}|167[0-6][0-9]{4}|1677[0-6][0-9]{3}"
    r"|16777[01][0-9]{2}|1677720[0-9]|1677721[0-5]",
    "a number up to 16777215",
    "1193047",
)
_PORT_RULES: dict[str, validators.Rule] = {
    "interfaceid": _UUID,
    "profileid": validators.pattern(r"[A-Za-z0-9_.:-]{1,39}", "an identifier of up to 39 characters", "prof1"),
    "managerid": _BYTE,
    "typeid": _THREE_BYTES,
    "typeidversion": _BYTE,
    "instanceid": _UUID,
}
_FILTER = validators.pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", "the name of a filter", "clean-traffic")
_VARIABLE = validators.pattern(r"[A-Za-z0-9_]+", "the name of a variable", "IP")
_VARIABLE_VALUE = validators.pattern(r"[A-Za-z0-9_.:]+", "the value of a variable", "192.0.2.1")

_KIB_PER_SECOND = validators.whole_number(1, 2**32)
_BANDWIDTH = tuple(AttributeField(word, _KIB_PER_SECOND, f"@{word}") for word in ("average", "peak", "burst", "floor"))
# Lines below <interface>.
NIC_OPTIONS: tuple[Field, ...] = (
    _SourceMode("mode", validators.choice("bridge", "vepa", "private", "passthrough"), "source@mode"),
    AttributeField("portgroup", validators.name, "source@portgroup"),
    _VlanField(
        "vlan",
        "vlan/tag",
        (
            AttributeField("id", validators.whole_number(1, 4094), "@id"),
            AttributeField("native", validators.choice("tagged", "untagged"), "@nativeMode"),
        ),
        short="id",
        required=("id",),
    ),
    _VirtualPortField(
        "virtualport",
        "virtualport",
        (
            AttributeField("type", validators.choice(*_PORT_WORDS), "@type"),
            *(AttributeField(word, rule, f"parameters@{word}") for word, rule in _PORT_RULES.items()),
        ),
        short="type",
    ),
    AttributeField("mtu", validators.whole_number(68, 65535), "mtu@size"),
    _LinkStateField("link", validators.choice("up", "down"), "link@state"),
    _FilterField(
        "filter",
        "filterref",
        (
            AttributeField("name", _FILTER, "@filter"),
            NamedListField(
                "parameters",
                "parameter",
                "name",
                _VARIABLE,
                (AttributeField("value", _VARIABLE_VALUE, "@value"),),
                short="value",
                required=("value",),
            ),
        ),
        short="name",
    ),
    AttributeField("boot_order", validators.whole_number(1, 4096), "boot@order"),
    GroupField(
        "bandwidth",
        "bandwidth",
        (RateField("inbound", "inbound", _BANDWIDTH), RateField("outbound", "outbound", _BANDWIDTH[:3])),
    ),
    AttributeField("queues", validators.whole_number(1, 256), "driver@queues"),
    AttributeField("trust_guest_rx_filters", validators.yes_or_no, "@trustGuestRxFilters"),
)
# What libvirt changes in a running machine (qemuDomainChangeNet in its src/qemu/qemu_hotplug.c); source as well.
LIVE_OPTIONS = ("link", "filter", "bandwidth")

NIC_RULES: dict[str, validators.Rule] = {
    "bridge": validators.name,
    "network": validators.name,
    "direct": validators.name,
    "type": validators.choice(*SOURCE_ATTRIBUTES),
    "source": validators.name,
    "model": validators.choice(*NIC_MODELS),
    "mac": validators.mac,
    **NETWORK_RULES,
    "state": validators.choice("present", "absent"),
    **{field.key: field.check for field in NIC_OPTIONS},
}


def read_nic(device: GivenOptions, machine_name: str, have: Mapping[str, t.Any] | None = None) -> Nic:
    """A nic out of its profile and overrides, what it is plugged into as type and source.

    have: the nic as the machine has it, None for a new one. What is the same is accepted, whatever it is, and what is
    not named stays as it is.
    """
    there = have or {}
    given = device.read(rules_beside(NIC_RULES, NIC_OPTIONS, have))
    check_network(given, device.at)
    if have is not None and all(given.get(word, have.get(word)) == have.get(word) for word in ("type", "source")):
        given.update({word: have.get(word, "") for word in ("type", "source")})
        given.setdefault("model", have.get("model", ""))
    kind = given.get("type", "bridge")
    if kind != "bridge" and "source" not in given:
        raise InputError(f"the {kind} has no name", where=device.place, hint=f"Set {kind}: NAME")
    # What the machine has is accepted where it keeps what goes with it: another type or model would lose it.
    for word, needed in (("mode", "direct"), ("portgroup", "network")):
        if word in given and kind != needed and (given[word], kind) != (there.get(word), there.get("type")):
            raise InputError(
                f"{word} is for nics of type {needed}", where=device.at(word), hint=f"This one is of type {kind}"
            )
    floor, floor_there = (((nic.get("bandwidth") or {}).get("inbound") or {}).get("floor") for nic in (given, there))
    if floor is not None and kind != "network" and (floor, kind) != (floor_there, there.get("type")):
        raise InputError(
            "floor is for nics of type network",
            where=f"{device.at('bandwidth')}.inbound.floor",
            hint=f"This one is of type {kind}",
        )
    port_there = there.get("virtualport") or {}
    port = {**port_there, **given.get("virtualport", {})}
    if port and kind != "network" and (port, kind) != (port_there, there.get("type")):
        _check_port(port, device.at("virtualport"))
    model = given.get("model", "virtio")
    known = (there.get("queues"), there.get("model"))
    if "queues" in given and model != "virtio" and (given["queues"], model) != known:
        raise InputError("only a virtio nic has queues", where=device.at("queues"))
    given["present"] = given.pop("state", "present") == "present"
    mtu = given.get("mtu")
    given["options"] = {field.key: given.pop(field.key) for field in NIC_OPTIONS if field.key in given}
    given.setdefault("mac", there.get("mac") or stable_mac(machine_name, device.name))
    # Both ends of the wire have it: the hypervisor's by the XML, the guest's by its seed.
    return Nic(name=device.name, given=device, mtu=mtu, **given)


def _check_port(port: Mapping[str, t.Any], where: str) -> None:
    for word in ("type", *_NEEDED.get(port.get("type", ""), ())):
        if word not in port:
            kind = f" of type {port['type']}" if "type" in port else ""
            raise InputError(
                f"{word} is missing", where=where, hint=f"A virtualport{kind} needs it, unless a network has it"
            )


def stable_mac(machine_name: str, nic_name: str) -> str:
    """The MAC address of a nic for which nobody named one: the same for the same names, on any hypervisor.

    The prefix 52:54:00 is the one that QEMU and libvirt use.
    """
    digest = hashlib.sha256(f"{machine_name}/{nic_name}".encode()).hexdigest()
    return "52:54:00:" + ":".join(digest[i : i + 2] for i in (0, 2, 4))
