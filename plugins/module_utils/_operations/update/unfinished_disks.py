# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that an interrupted run was adding to a machine: what the machine has is whole, what it has not is removed."""

from __future__ import annotations

from dataclasses import replace

from ..._base.errors import ConflictError
from ..._host.storage.pools import Pool
from ..._host.storage.proof import by_hand, is_proven, require_proven
from ..._host.storage.usage import USED, Usage, delete_unused, require_unused, volume_exists
from ..._model.metadata.machine import VolumeNote
from ..plan import Step
from .draft import Draft


def clear_half_added(draft: Draft) -> list[VolumeNote]:
    """Plan to remove what a killed run left while it added disks; the volumes that are gone then.

    What others have come to use is theirs, and no more the machine's own; so is what nothing proves to be that run's
    work. Raises ConflictError where it is not known whether any do. Where the other hypervisors were not asked, what
    they are to be asked about and the error are noted in this one instead: what else they are to be asked about is
    found as well then.
    """
    cleared = []
    for note in draft.known_notes.volumes:
        if not note.building:
            continue
        pool = draft.hypervisor.pools.get(note.pool)
        use = _usage(draft).of(pool, note.name, owner=draft.name)
        if draft.name in use.machines:
            continue
        draft.drop_volume(note)
        what = f"volume {note.name} that an interrupted run left in pool {note.pool}"
        if use.state == USED:
            draft.volume_steps.append(Step(f"leave {what} to {', '.join(use.users)}", lambda: None))
        elif volume_exists(pool, note.name) and not is_proven(pool, note):
            draft.volume_steps.append(Step(_left(note), lambda: None))
        else:
            draft.volume_steps.append(_clear_step(draft, pool, note, what))
            cleared.append(note)
            draft.leaving.append(note)
    present = {target.get("dev") for target in draft.domain.xml.iterfind("devices/disk/target")}
    draft.notes = replace(draft.notes, disks=tuple(note for note in draft.notes.disks if note.target in present))
    return cleared


def _left(note: VolumeNote) -> str:
    return (
        f"leave volume {note.name} of pool {note.pool}, as nothing proves that it was created by an interrupted run. "
        f"{by_hand(note)}"
    )


def _clear_step(draft: Draft, pool: Pool, note: VolumeNote, what: str) -> Step:
    conn, owner, volume = draft.hypervisor.conn, draft.name, (pool, note.name)
    elsewhere = draft.hypervisor.left_elsewhere
    if volume_exists(*volume):
        shared = draft.hypervisor.ask_about([volume])
        try:
            require_unused(_usage(draft), [volume], owner=owner)
        except ConflictError as exc:
            if not shared or elsewhere is not None:
                raise
            draft.hypervisor.unasked.append(exc)

    def clear() -> None:
        if volume_exists(*volume):
            require_proven(pool, note)
            delete_unused(conn, [volume], owner=owner, elsewhere=elsewhere)

    return Step(f"remove {what}", clear)


def _usage(draft: Draft) -> Usage:
    return draft.hypervisor.usage.told(draft.hypervisor.left_elsewhere)
