# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk of a machine that has only lost the way to it (``virsh detach-disk``): its volume is noted as its own."""

from __future__ import annotations

from ..._base.errors import VirtError
from ..._host.storage.volumes import volume_exists
from ..._model.metadata.machine import VolumeNote
from ..._model.spec.disk import Disk
from ..._model.xml.disk_source import DiskSource
from .draft import Draft


def find_lost(disk: Disk, draft: Draft) -> Disk | None:
    """The disk on its own volume; None for one that is to have another source, or whose volume is gone.

    It is opened as before: the notes know its format.
    """
    note = _noted(disk, draft) if disk.made else None
    if note is None:
        return None
    if not volume_exists(draft.hypervisor.pools.get(note.pool, disk.given.place), note.name):
        draft.drop_volume(note)
        return None
    return Disk(
        disk.name,
        model=disk.model,
        pool=note.pool,
        device=disk.device,
        source=note.name,
        options=disk.options,
        given=disk.given,
    )


def forget_lost(disk: Disk, draft: Draft) -> None:
    """Its volume is no longer the machine's own, unless another disk of the machine lies on it."""
    note, place = _noted(disk, draft), noted_place(disk, draft)
    if note is None or place is None:
        return
    for xml in (draft.domain.xml, draft.live):
        for element in xml.iterfind("devices/disk") if xml is not None else ():
            source = DiskSource.read(element)
            if source is None and element.find("source") is not None:
                return
            if source is not None and source.place == place:
                return
    draft.drop_volume(note)


def noted_place(disk: Disk, draft: Draft) -> str | None:
    """Where its own volume is; None where none is noted, and of a pool that is gone or not active."""
    note = _noted(disk, draft)
    if note is None:
        return None
    try:
        return draft.hypervisor.pools.get(note.pool).source_of(note.name).place
    except VirtError:
        return None


def _noted(disk: Disk, draft: Draft) -> VolumeNote | None:
    stem = f"{draft.name}-{disk.name}"
    names = (stem, f"{stem}.qcow2", f"{stem}.raw")
    ours = (note for note in draft.known_notes.volumes if note.role == "disk" and not note.building)
    return next((note for note in ours if note.name in names), None)
