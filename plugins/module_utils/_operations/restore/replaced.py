# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a machine that is replaced by its backup: which of them go, and why others stay. Deletes nothing."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, VirtError
from ..._base.xml import attribute
from ..._host.storage.pools import Pool
from ..._model.metadata.machine import VolumeNote
from ..._model.xml.disk_source import DiskSource
from ..hypervisor import Hypervisor
from ..ownership import OTHER, identify
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
    have, and what clear refuses."""
    stay, remarks = [], []
    for note in marked(hypervisor, plan):
        try:
            pool = hypervisor.pools.get(note.pool)
            if identify(pool, note) == OTHER:
                raise ConflictError(f"another volume may have the name {note.name} in pool {note.pool} now")
            # One that was never whole is what an interrupted run has left. Where no mark is known, as after a move, its
            # definition tells that it is its own, as for virt_purge.
            if note.making is None and not note.replaced:
                raise ConflictError(f"backup {plan.manifest.id} has no disk in its place")
            clear(pool, note.name)
        except VirtError as exc:
            stay.append(note)
            remarks.append(f"the volume {note.name} of before stays: {exc}")
    return stay, remarks


def _place(hypervisor: Hypervisor, pool: str, volume: str) -> str:
    """Its path; empty where there is no such pool."""
    with contextlib.suppress(VirtError):
        return hypervisor.pools.get(pool).volume_path(volume)
    return ""


def _replaced_places(hypervisor: Hypervisor, plan: RestorePlan) -> set[str]:
    """Where the disks were, before, that the backup has."""
    if plan.existing is None:
        return set()
    targets = {entry.target for entry in plan.manifest.disks}
    found = set()
    for element in plan.existing.xml.iterfind("devices/disk"):
        source = element.find("source")
        if attribute(element, "target", "dev") not in targets or source is None:
            continue
        if element.get("type") == "volume":
            found.add(_place(hypervisor, source.get("pool", ""), source.get("volume", "")))
        else:
            place = DiskSource.read(element)
            found.update([] if place is None else [place.place])
    return found - {""}
