# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that is to be moved, and the hypervisor that it is to be moved to, as they are now."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...._base.errors import ConflictError
from ...._base.xml import attribute, etree, read_description
from ...._host.connection import VirConnect, translate_errors
from ...._host.facts.guest_capabilities import GuestCapabilities
from ...._host.facts.maintenance import Maintenance, find_maintenance
from ...._host.facts.networks import read_network
from ...._host.machines.domains import Domain
from ...._model.metadata.machine import MachineNotes
from ...._model.metadata.migration import MigrationNote, read_migration_note
from ...hypervisor_view import HypervisorView
from .location import has_job


class MigrationTarget:
    """A hypervisor that machines are moved to: what it has, and what this run has allocated of it already.

    hypervisor: what is known of it already.
    """

    def __init__(self, uri: str, conn: VirConnect, hypervisor: HypervisorView | None = None) -> None:
        self.uri = uri
        self.hypervisor = hypervisor or HypervisorView(conn)
        with translate_errors(f"cannot ask {uri} for its name"):
            self.name: str = conn.getHostname()
        # By machine, what memory those have, and of which anti-affinity groups they are, that are planned and not
        # there yet.
        self.allocations: dict[str, int] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.images: set[str] = set()
        self.volumes: set[tuple[str, str]] = set()

    @property
    def address(self) -> str:
        """The address in the URI, which the target's certificates are for."""
        return urlsplit(self.uri).hostname or self.name

    @functools.cached_property
    def maintenance(self) -> Maintenance | None:
        """The maintenance that it is in."""
        return find_maintenance(self.hypervisor.conn)

    @functools.cached_property
    def guests(self) -> GuestCapabilities:
        """What guests can be there."""
        return GuestCapabilities(self.hypervisor.conn)

    def is_of(self, note: MigrationNote) -> bool:
        """Whether it is the target of the move that a note is of."""
        return note.uri == self.uri or note.target == self.name

    def taken_mib(self, besides: str) -> int:
        """The memory that the machines defined there may take, and what this run has allocated to others.

        besides: the name of a machine that is not counted where it is defined.
        """
        defined = [domain.xml for domain in self.hypervisor.domains.values() if domain.name != besides]
        return sum(map(_memory_mib, defined)) + sum(self.allocations.values())


@dataclass(frozen=True)
class SourceMachine:
    """A machine at the source.

    running_xml: the XML of the machine as it runs now, of one that is off the same as record, its XML at the next
    start.
    """

    name: str
    uuid: str
    handle: t.Any
    active: bool
    running_xml: etree._Element
    defined_xml: etree._Element
    notes: MachineNotes | None
    moving: MigrationNote | None
    autostart: bool

    @property
    def memory_mib(self) -> int:
        """The most memory that it may take, now or after its next start."""
        return max(_memory_mib(self.running_xml), _memory_mib(self.defined_xml))

    @property
    def groups(self) -> tuple[str, ...]:
        """Its anti-affinity groups."""
        return self.notes.anti_affinity if self.notes else ()

    @property
    def nics(self) -> list[etree._Element]:
        """Its nics, those of the running machine and those of its next start."""
        return list(self._both("devices/interface"))

    @functools.cached_property
    def networks(self) -> dict[str, etree._Element]:
        """The libvirt networks that its nics are on, as they are at the source, without those that are gone."""
        names = {attribute(nic, "source", "network") for nic in self.nics}
        return {
            name: xml
            for name in names
            if name
            for xml in [read_network(self.handle.connect(), name)]
            if xml is not None
        }

    @property
    def macs(self) -> list[str]:
        """The addresses of its nics."""
        return list(dict.fromkeys(mac.get("address", "").lower() for mac in self._both("devices/interface/mac")))

    def _both(self, path: str) -> Iterator[etree._Element]:
        """Elements of the running machine, then those of its next start."""
        for xml in (self.running_xml, self.defined_xml):
            yield from xml.iterfind(path)

    def disks(self) -> Iterator[tuple[etree._Element, bool]]:
        """Its disks, and whether each is in use now: those of the running machine, then those for its next start."""
        seen = set()
        for disk in self.running_xml.iterfind("devices/disk"):
            seen.add(source_words(disk))
            yield disk, self.active
        for disk in self.defined_xml.iterfind("devices/disk"):
            if source_words(disk) not in seen:
                yield disk, False


def read_source_machine(domain: Domain, where: str) -> SourceMachine:
    """The machine as it is. Raises ConflictError for one that nobody may touch now."""
    what = f"cannot inspect machine {domain.name}"
    with translate_errors(what, where):
        running_xml = (
            read_description(f"machine {domain.name}", domain.handle.XMLDesc(0)) if domain.active else domain.xml
        )
        busy = domain.active and has_job(domain.handle)
        if not domain.handle.isPersistent():
            raise ConflictError(
                f"{domain.name} is transient: libvirt forgets it when it stops, and so it is not moved", where=where
            )
        autostart = bool(domain.handle.autostart())
    if busy:
        raise ConflictError(
            f"{domain.name} is busy with another job (a migration, a snapshot or a save)",
            where=where,
            hint=f"virsh domjobinfo {domain.name} shows which; wait until it ends",
        )
    return SourceMachine(
        name=domain.name,
        uuid=domain.handle.UUIDString(),
        handle=domain.handle,
        active=domain.active,
        running_xml=running_xml,
        defined_xml=domain.xml,
        notes=domain.notes,
        moving=read_migration_note(domain.xml),
        autostart=autostart,
    )


def source_words(disk: etree._Element) -> str:
    """What a disk's source says, to tell one from another."""
    source = disk.find("source")
    if source is None:
        return ""
    return " ".join(f"{key}={source.get(key)}" for key in ("file", "dev", "protocol", "name", "pool", "volume", "dir"))


def _memory_mib(domain: etree._Element) -> int:
    """libvirt writes memory in KiB. https://libvirt.org/formatdomain.html#memory-allocation"""
    return int(domain.findtext("memory") or 0) // 1024
