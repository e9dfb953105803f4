# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a machine that is replaced by its backup: which of them go, and why others stay. Deletes nothing."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, VirtError
from ..._base.xml import attribute, etree
from ..._host.storage.pools import Pool
from ..._model.attachments import disks_by_target, written_disks
from ..._model.metadata.machine import VolumeNote
from ..._model.xml.disk_source import DiskSource
from ..hypervisor import Hypervisor
from ..ownership import OTHER, UNTOLD, identify
from .plan import RestorePlan

# Does what is to be done with a volume that may go. Raises VirtError for one that may not.
Clear = t.Callable[[Pool, str], t.Any]


def marked(hypervisor: Hypervisor, plan: RestorePlan) -> list[VolumeNote]:
    """The notes of the volumes that the machine had. Those that are replaced say so: once its definition is the
    backup's, a later run could not tell it any more."""
    if plan.existing is None or plan.existing.notes is None:
        return []
    places = _replaced_places(hypervisor, plan)
    return [
        replace(note, replaced=True) if _place(hypervisor, note.pool, note.name) in places else note
        for note in plan.existing.notes.volumes
    ]


def staying(hypervisor: Hypervisor, plan: RestorePlan, clear: Clear) -> tuple[list[VolumeNote], list[str]]:
    """The notes of those that stay, with a remark about each: what cannot be told to be them, what the backup does not
    have, and what clear refuses. And a remark about each that has no note."""
    stay, remarks = [], []
    places = _replaced_places(hypervisor, plan)
    for note in marked(hypervisor, plan):
        try:
            pool = hypervisor.pools.get(note.pool)
            known = identify(pool, note)
            if known == OTHER:
                raise ConflictError(f"another volume may have the name {note.name} in pool {note.pool} now")
            # An earlier run has noted it when the machine still had it as a disk, or somebody else has.
            if known == UNTOLD and note.replaced and pool.volume_path(note.name) not in places:
                raise ConflictError("nothing proves that it is the volume that was created for this machine")
            # One that was never whole is what an interrupted run has left. Where no mark is known, as after a move, its
            # definition tells that it is its own, as for virt_purge.
            if note.making is None and not note.replaced:
                raise ConflictError(f"backup {plan.manifest.id} has no disk in its place")
            clear(pool, note.name)
        except VirtError as exc:
            stay.append(note)
            remarks.append(f"the volume {note.name} of before stays: {exc}")
    return stay, remarks + _not_its_own(hypervisor, plan)


def _place(hypervisor: Hypervisor, pool: str, volume: str) -> str:
    """Its path; empty where there is no such pool."""
    with contextlib.suppress(VirtError):
        return hypervisor.pools.get(pool).volume_path(volume)
    return ""


def _replaced_places(hypervisor: Hypervisor, plan: RestorePlan) -> set[str]:
    """Where the disks were, before, that the backup has."""
    targets = {entry.target for entry in plan.manifest.disks}
    places = {} if plan.existing is None else _disk_places(hypervisor, disks_by_target(plan.existing.xml))
    return {place for target, place in places.items() if target in targets}


def _not_its_own(hypervisor: Hypervisor, plan: RestorePlan) -> list[str]:
    """A remark about each disk that the machine could write to and has no more, and that was not made for it."""
    if plan.existing is None or plan.restored is None:
        return []
    notes = plan.existing.notes.volumes if plan.existing.notes is not None else ()
    known = {_place(hypervisor, note.pool, note.name) for note in notes}
    known.update(_disk_places(hypervisor, disks_by_target(plan.restored.root)).values())
    places = _disk_places(hypervisor, written_disks(plan.existing.xml))
    return [
        f"the disk {target} of before, {place}, stays: it was not created for this machine"
        for target, place in places.items()
        if place not in known
    ]


def _disk_places(hypervisor: Hypervisor, disks: t.Mapping[str, etree._Element]) -> dict[str, str]:
    """Where disks are, by target, without those of which nobody can tell."""
    found = {}
    for target, disk in disks.items():
        if disk.get("type") == "volume":
            pool, volume = (attribute(disk, "source", word) or "" for word in ("pool", "volume"))
            found[target] = _place(hypervisor, pool, volume)
        else:
            place = None if disk.find("source") is None else DiskSource.read(disk)
            found[target] = place.place if place is not None else ""
    return {target: place for target, place in found.items() if place}
