# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes that a machine has already: under another name of a disk, or noted as its own without a way to them any
more (``virsh detach-disk``)."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Sequence

from ..._base.errors import ConflictError, VirtError
from ..._base.xml import etree
from ..._host.storage.volumes import volume_exists
from ..._model.metadata.machine import VolumeNote
from ..._model.spec.disk import Disk
from ..._model.xml.disk_source import DiskSource
from ..disks.planned import PlannedDisk
from ..disks.sharing import how_attached, how_requested, how_used, users_of_source
from ..task_volumes import READS, exclude
from .draft import Draft


def require_other_volumes(new: Sequence[PlannedDisk], draft: Draft, leaving: Collection[str]) -> None:
    """Raise ConflictError when a new disk lies on a volume that another disk of this machine has, and writes to it.

    leaving: the names of the disks that are taken out at the same time.
    """
    for planned in new:
        how = how_used(planned.disk)
        if planned.pool is not None or planned.source is None or how == READS:
            continue
        wanted = draft.hypervisor.usage.identity_at(planned.source.place)
        for name, element, in_definition in _present(draft, leaving):
            if _identity(element, draft) == wanted and exclude(how, how_attached(element)):
                raise _had_already(planned, name, in_definition)


def require_not_twice(disk: Disk, element: etree._Element, draft: Draft) -> None:
    """Raise ConflictError when a disk that this machine has is to write to what another disk of it has as well."""
    how = how_requested(disk, element)
    if how in (READS, how_attached(element)):
        return
    wanted = _identity(element, draft)
    for name, other, _in_definition in _present(draft, [disk.name]):
        if wanted is not None and _identity(other, draft) == wanted and exclude(how, how_attached(other)):
            raise ConflictError(
                f"disk {name} of this machine has the same volume",
                where=disk.given.at("readonly" if "readonly" in disk.given.values else "shareable"),
                hint=f"Remove {name} first (state: absent)",
            )


def _present(draft: Draft, leaving: Collection[str]) -> t.Iterator[tuple[str, etree._Element, bool]]:
    """All disks that stay, with their names; and whether each is in the definition, else it is there until the next
    boot."""
    names = {note.target: note.name for note in draft.notes.disks}
    names.update((note.target, note.name) for note in draft.known_notes.disks)
    for in_definition, xml in ((True, draft.domain.xml), (False, draft.live)):
        for element in xml.iterfind("devices/disk") if xml is not None else ():
            target = element.find("target")
            device = "" if target is None else target.get("dev", "")
            name = names.get(device, device)
            if name not in leaving:
                yield name, element, in_definition


def _identity(element: etree._Element, draft: Draft) -> t.Hashable:
    try:
        found = users_of_source(element, draft.hypervisor, "")
    except VirtError:
        # Of a pool that is gone or not active, nothing can be told. A place needs no pool.
        if DiskSource.read(element) is not None:
            raise
        return None
    return found[1] if found else None


def _had_already(planned: PlannedDisk, name: str, in_definition: bool) -> ConflictError:
    disk = planned.disk
    volume, where = f"volume {disk.source}", disk.given.at("source")
    if not in_definition:
        return ConflictError(
            f"the running machine has {volume} as {name}, until its next boot", where=where, hint="Restart it first"
        )
    return ConflictError(
        f"disk {name} of this machine is already {volume}",
        where=where,
        hint=f"To have it under the name {disk.name} alone, remove {name} (state: absent) in the same task; its "
        "content is kept",
    )


def find_lost(disk: Disk, draft: Draft) -> Disk | None:
    """The disk that has only lost the way to its volume, on that; None for one that is to have another source, or whose
    volume is gone.

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
