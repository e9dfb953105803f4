# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a machine that is to be removed, with the volumes behind them."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ..._base.errors import VirtError
from ..._base.xml import etree, read_description
from ..._host.connection import translate_errors
from ..._host.machines.domains import Domain, description_of
from ..._host.storage.pools import Pool
from ..._model.metadata.machine import VolumeNote
from ..._model.xml.disk_source import DiskSource
from ..hypervisor_view import HypervisorView


@dataclass(frozen=True)
class MachineDisk:
    """A disk that a machine has, now or at its next start.

    target: ``vda``. identity: the same for all names of what it is on. pool, volume: the volume that it is on, be it
    there or not; without a pool, the volume is a path or ``protocol:name``.
    """

    target: str
    identity: t.Hashable
    pool: Pool | None
    volume: str

    @property
    def words(self) -> str:
        """The name that a user has for its volume."""
        return self.volume if self.pool is None else f"{self.pool.name}/{self.volume}"


def read_disks(domain: Domain, view: HypervisorView) -> list[MachineDisk]:
    """All disks of a machine that are on something, each once: those of its definition, then those it has only now."""
    disks: list[MachineDisk] = []
    for xml in _descriptions(domain):
        for element in xml.iterfind("devices/disk"):
            disk = _read_disk(element, view)
            if disk is not None and all((disk.target, disk.identity) != (d.target, d.identity) for d in disks):
                disks.append(disk)
    return disks


def _descriptions(domain: Domain) -> list[etree._Element]:
    if not domain.active:
        return [domain.xml]
    return [domain.xml, description_of(domain.handle)]


def _read_disk(element: etree._Element, view: HypervisorView) -> MachineDisk | None:
    source, found, target = element.find("source"), DiskSource.read(element), element.find("target")
    device = "" if target is None else target.get("dev", "")
    if source is None:
        return None
    if found is not None:
        pool, volume = _volume_at(found, view) or (None, found.place)
        return MachineDisk(device, view.usage.identity_at(found.place), pool, volume)
    name, volume = source.get("pool", ""), source.get("volume", "")
    if not (name and volume):
        return MachineDisk(device, ("", device), None, f"the source of {device}")
    try:
        pool = view.pools.get(name)
    except VirtError:
        return MachineDisk(device, (name, volume), None, f"{name}/{volume}")
    return MachineDisk(device, view.usage.identity(pool, volume), pool, volume)


def _volume_at(source: DiskSource, view: HypervisorView) -> tuple[Pool, str] | None:
    """The volume at a place, be it there or not; None for a place that is in no active pool."""
    found = view.locate(source)
    if found is not None:
        return found
    for pool in view.pools.all():
        name = pool.name_at(source)
        if name:
            return pool, name
    return None


def identity_of_note(note: VolumeNote, view: HypervisorView) -> t.Hashable:
    """What a disk on a noted volume has as its identity, as far as that can be told when its pool is not active."""
    try:
        return view.usage.identity(view.pools.get(note.pool), note.name)
    except VirtError:
        pass
    with contextlib.suppress(VirtError), translate_errors(f"cannot inspect storage pool {note.pool}"):
        text = view.conn.storagePoolLookupByName(note.pool).XMLDesc(0)
        path = read_description(f"storage pool {note.pool}", text).findtext("target/path")
        if path:
            return view.usage.identity_at(f"{path.rstrip('/')}/{note.name}")
    return note.pool, note.name
