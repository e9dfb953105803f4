# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has to reach a hypervisor at which ports. Values only."""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

Source = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

# libvirt's daemon with TLS (https://libvirt.org/remote.html).
TLS_PORT = 16514
# The first of QEMU's consoles (remote_display_port_min in src/qemu/qemu.conf.in). None is ever opened.
CONSOLE_PORT = 5900
_LAST_PORT = 65535
# All addresses, and one far away that no list of networks without routes has: a root name server's.
EVERYBODY: dict[int, tuple[Source, Source]] = {
    4: (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv4Network("198.41.0.4/32")),
    6: (ipaddress.IPv6Network("::/0"), ipaddress.IPv6Network("2001:503:ba3e::2:30/128")),
}


class Ports(t.NamedTuple):
    """TCP ports from the first to the last, both included."""

    first: int
    last: int

    def text(self, joint: str) -> str:
        """«16514», or «49152-49215» with what joins the two."""
        return str(self.first) if self.first == self.last else f"{self.first}{joint}{self.last}"


@dataclass(frozen=True)
class Opening:
    """A source, an address being a network of one, that may connect to these TCP ports; ascending, without overlaps."""

    source: Source
    ports: tuple[Ports, ...]

    @property
    def source_text(self) -> str:
        """The source as people write it: an address without its prefix length, a network with it."""
        return source_text(self.source)

    def ports_text(self, joint: str = "-", comma: str = ",") -> str:
        """All ports on one line."""
        return comma.join(ports.text(joint) for ports in self.ports)


def source_text(source: Source) -> str:
    """A source as people write it: an address without its prefix length, a network with it."""
    return str(source.network_address) if source.prefixlen == source.max_prefixlen else str(source)


def in_order(openings: Iterable[Opening]) -> list[Opening]:
    """The order in which they are written: IPv4 first, then by address, so that a second run finds the same."""
    return sorted(
        openings,
        key=lambda one: (one.source.version, int(one.source.network_address), one.source.prefixlen, one.ports),
    )


def needed_openings(
    hypervisors: Iterable[Source], operators: Iterable[Source], migration: Ports, *, tls: bool
) -> tuple[Opening, ...]:
    """What has to be open, in order.

    migration: where QEMU listens for machines and disks that come (migration_port_min and _max of qemu.conf; its NBD
    servers have their ports from the same range, qemuMigrationDstStartNBDServer in libvirt's qemu_migration.c).
    tls: whether libvirt serves TLS. Operators call libvirt alone: what a machine is made of goes from host to host.
    """
    of_libvirt = (Ports(TLS_PORT, TLS_PORT),) if tls else ()
    wanted: dict[Source, tuple[Ports, ...]] = {}
    if of_libvirt:
        wanted.update((source, of_libvirt) for source in operators)
    wanted.update((source, _joined((*of_libvirt, migration))) for source in hypervisors)
    return tuple(
        in_order(
            Opening(source, ports)
            for source, ports in wanted.items()
            # An address of a network that may do the same already.
            if not any(
                other != source and is_within(source, other) and set(ports) <= set(more)
                for other, more in wanted.items()
            )
        )
    )


def _joined(ports: tuple[Ports, ...]) -> tuple[Ports, ...]:
    """The ports in order, each once."""
    joined: list[Ports] = []
    for one in sorted(ports):
        if joined and one.first <= joined[-1].last + 1:
            joined[-1] = Ports(joined[-1].first, max(one.last, joined[-1].last))
        else:
            joined.append(one)
    return tuple(joined)


def other_ports(ports: Iterable[Ports]) -> tuple[Ports, ...]:
    """All ports but these."""
    left: list[Ports] = []
    first = 0
    for one in sorted(ports):
        left += [Ports(first, one.first - 1)] if one.first > first else []
        first = max(first, one.last + 1)
    return (*left, *([Ports(first, _LAST_PORT)] if first <= _LAST_PORT else []))


def is_within(inner: Source, outer: Source) -> bool:
    """Whether all addresses of one are in the other."""
    return inner.version == outer.version and outer.prefixlen <= inner.prefixlen and inner.network_address in outer


def is_opened_by(wanted: Opening, openings: Iterable[Opening]) -> bool:
    """Whether one of these openings has all of this source and its ports."""
    return any(is_within(wanted.source, one.source) and set(wanted.ports) <= set(one.ports) for one in openings)


def overlaps(one: Source, other: Source) -> bool:
    """Whether an address is in both."""
    return is_within(one, other) or is_within(other, one)


def complement(sources: tuple[Source, ...], version: int) -> tuple[Source, ...]:
    """All addresses of a version but these."""
    left: list[Source] = [EVERYBODY[version][0]]
    for source in sources:
        remaining: list[Source] = []
        for one in left:
            if source.subnet_of(one):  # type: ignore[arg-type]
                remaining += one.address_exclude(source)  # type: ignore[arg-type]
            elif not one.subnet_of(source):  # type: ignore[arg-type]
                remaining.append(one)
        left = remaining
    return tuple(left)
