# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the DHCP server of a network hands out.

In a spec, DHCP is one thing of the network; in the XML each range and lease stands below the address in whose prefix it
is. https://libvirt.org/formatnetwork.html#addressing
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....._base.errors import InputError
from ....._base.xml import etree
from ...fields import validators
from ...fields.table import (
    AttributeField,
    Field,
    Table,
    ValueEncoding,
    Values,
    check_table,
    drop,
    make,
    read_table,
    write_table,
)
from ...network import domain
from .addressing import ADDRESS, address, boot_home, house
from .dnsmasq import in_dnsmasq
from .rows import same, same_row

# The shortest that dnsmasq takes; 0 is for ever (virNetworkDHCPLeaseTimeDefParseXML in src/conf/network_conf.c).
LEAST_LEASE_SECONDS = 120
_SECONDS_PER_UNIT = {"seconds": 1, "minutes": 60, "hours": 3600}


def duid(value: t.Any, where: str) -> str:
    """The DHCPv6 unique identifier of a client, in lower case."""
    clean: str = validators.pattern(
        r"[0-9A-Fa-f]{1,2}(:[0-9A-Fa-f]{1,2})+", "a DUID", "00:01:00:01:2a:3b:4c:5d:52:54:00:12:34:56"
    )(value, where)
    return clean.lower()


def lease_seconds(value: t.Any, where: str) -> int:
    """For how long an address is handed out, 0 for ever."""
    seconds = validators.whole_number(0, 2**31 - 1)(value, where)
    if 0 < seconds < LEAST_LEASE_SECONDS:
        raise InputError(
            f"{seconds} is too short", where=where, hint=f"Give at least {LEAST_LEASE_SECONDS}, or 0 for no end"
        )
    return seconds


_LOWER = ValueEncoding(str, str.lower)
RANGE: Table = (
    AttributeField("start", address, "@start", ADDRESS),
    AttributeField("end", address, "@end", ADDRESS),
)
LEASE: Table = (
    AttributeField("mac", validators.mac, "@mac", _LOWER),
    AttributeField("duid", duid, "@id", _LOWER),
    AttributeField("name", domain, "@name"),
    AttributeField("address", address, "@ip", ADDRESS),
)


def read_lease_seconds(element: etree._Element) -> int | None:
    """Of a range or a lease; None where libvirt's default stands."""
    lease = element.find("lease")
    try:
        return None if lease is None else int(lease.get("expiry", "")) * _SECONDS_PER_UNIT[lease.get("unit", "minutes")]
    except (KeyError, ValueError):
        return None


def _write_lease_seconds(element: etree._Element, seconds: int) -> None:
    if read_lease_seconds(element) != seconds:
        lease = make(element, "lease")
        lease.set("expiry", str(seconds))
        lease.set("unit", "seconds")


@dataclass(frozen=True)
class _Entries:
    """Ranges or leases, wherever they stand. identity: what no two of them have in common."""

    key: str
    tag: str
    table: Table
    required: tuple[str, ...]

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[Values, ...]:
        rows = value if isinstance(value, (list, tuple)) else [value]
        return tuple(check_table(row, f"{where}[{index}]", self.table, self.required) for index, row in enumerate(rows))

    def elements(self, parent: etree._Element) -> list[etree._Element]:
        return list(parent.findall(f"ip/dhcp/{self.tag}"))

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        there = self.elements(parent)
        for element in there:
            drop(element)
        wanted = []
        for row in value:
            kept = next((element for element in there if same_row(read_table(element, self.table), row)), None)
            if kept is None:
                kept = etree.Element(self.tag)
                write_table(kept, self.table, row)
            wanted.append(kept)
        house(parent, wanted)

    def read(self, parent: etree._Element) -> tuple[Values, ...]:
        return tuple(read_table(element, self.table) for element in self.elements(parent))


@dataclass(frozen=True)
class _BootField:
    """What a guest loads over the network: libvirt has it for IPv4 alone, beside DHCP."""

    key: str
    path: str
    name: str
    rule: validators.Rule

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> t.Any:
        return self.rule(value, where)

    def write(self, parent: etree._Element, value: str) -> None:
        home = boot_home(parent)
        if home is not None:
            make(home, self.path).set(self.name, value)

    def read(self, parent: etree._Element) -> str | None:
        found = parent.find(f"ip/{self.path}")
        return None if found is None else found.get(self.name)


@dataclass(frozen=True)
class _LeaseSecondsField:
    """For how long addresses are handed out, said at each range and lease of the XML."""

    key: str = "lease_seconds"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> int:
        return lease_seconds(value, where)

    def write(self, parent: etree._Element, value: int) -> None:
        for element in _all_entries(parent):
            _write_lease_seconds(element, value)

    def read(self, parent: etree._Element) -> int | None:
        found = {read_lease_seconds(element) for element in _all_entries(parent)}
        return found.pop() if len(found) == 1 else None


def _all_entries(parent: etree._Element) -> list[etree._Element]:
    return [*parent.findall("ip/dhcp/range"), *parent.findall("ip/dhcp/host")]


# The time stands in the entries, so it is written after them.
DHCP: tuple[Field, ...] = (
    _Entries("ranges", "range", RANGE, ("start", "end")),
    _Entries("leases", "host", LEASE, ("address",)),
    _BootField("boot_file", "dhcp/bootp", "file", in_dnsmasq(validators.filled_line)),
    _BootField("boot_server", "dhcp/bootp", "server", address),
    _BootField("tftp_root", "tftp", "root", in_dnsmasq(validators.path)),
    _LeaseSecondsField(),
)


@dataclass(frozen=True)
class DhcpField:
    """All of DHCP: a mapping with a table whose fields look below all addresses."""

    key: str = "dhcp"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> Values:
        return check_table(value, where, DHCP)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        # New entries get the time of those that are there.
        seconds = value.get("lease_seconds", _LeaseSecondsField().read(parent))
        for field in DHCP:
            want = seconds if field.key == "lease_seconds" else value.get(field.key)
            if want is not None and not same(field.read(parent), want, field.key):
                field.write(parent, want)
        for home in parent.findall("ip/dhcp"):
            if not len(home):
                drop(home)

    def read(self, parent: etree._Element) -> Values | None:
        return {key: value for key, value in read_table(parent, DHCP).items() if value != ()} or None
