# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that a machine is to get: its name, what tells it from others, the step that makes it and its undoing."""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.errors import ConflictError
from ..._host.machines.redefine import is_defined
from ..._host.storage import volumes
from ..._host.storage.pools import Pool
from ..._host.storage.proof import by_hand, deletion, has_marks
from ..._host.storage.shared_pools import shared_because
from ..._host.storage.usage import Usage, delete_unused
from ..._model.metadata.machine import VolumeNote
from ..hypervisor import Hypervisor
from ..ownership import was_replaced
from ..plan import Step


def mark_for(pool: Pool, volume: str, own: Sequence[VolumeNote]) -> str:
    """What is to tell a new volume from others of its name.

    Nothing where it could not be written: a volume without the mark that the notes have would be taken for another's.
    It is that of the one that it replaces: whenever this run is killed, the notes know the one that is there.
    """
    if pool.clones_images and not has_marks(pool):
        return ""
    marks = (v.making.mark for v in own if v.making and (v.pool, v.name) == (pool.name, volume))
    return next(marks, None) or uuid.uuid4().hex


def free_name(
    volume: str, machine: str, pool: Pool, hypervisor: Hypervisor, where: str, own: Sequence[VolumeNote] = ()
) -> str:
    """The volume's name, if no volume has it but one that an unfinished run of this same machine made.

    Nor may another machine count on it: the names of different machines and disks can come to the same (disk ``b-c`` of
    ``a`` and disk ``c`` of ``a-b``), and the other one's volume may not be made yet.
    """
    there = volume in hypervisor.volumes(pool)
    ours = any(v.pool == pool.name and v.name == volume for v in own)
    if there and not ours:
        raise ConflictError(
            f"pool {pool.name!r} has a volume {volume!r} already, which belongs to no machine of this name",
            where=where,
            hint=_way_out(pool, volume, hypervisor),
        )
    other = hypervisor.reserve_volume(pool, volume, machine)
    # Who uses a volume that is to be removed is checked there.
    if other is not None and not (there and ours):
        raise ConflictError(
            f"the name of volume {volume!r} in pool {pool.name!r} is reserved for machine {other}",
            where=where,
            hint="Choose another name here, or another pool",
        )
    return volume


def _way_out(pool: Pool, volume: str, hypervisor: Hypervisor) -> str:
    """What to do about a volume that has the name of a new one."""
    # Such as a running machine that a disk was plugged into, and that would not give it back when the run failed.
    users = {user.words for user in Usage(hypervisor.conn).users_of(pool, volume) if not user.noted}
    if users:
        return f"It is used by {', '.join(sorted(users))}. Detach it there first, or give the disk another name here"
    delete = deletion(pool.name, volume)
    because = shared_because(pool)
    if because is not None:
        # It may be a disk of a machine there, or what a killed run has left, which the next one there clears.
        return (
            f"A machine of another hypervisor may have it, as {because}. Choose another name, or another pool. Only if "
            f"nobody needs what is in it: {delete}"
        )
    if pool.type == "logical":
        return (
            "If it was left by an interrupted run, it may have what deleted volumes had; use it as it is with source: "
            f"{volume} only if it was not, or if nobody needs it: {delete}"
        )
    return f"Use it as it is with source: {volume}, or if nobody needs it: {delete}"


@dataclass(frozen=True)
class VolumeOwner:
    """The machine that a volume is made for.

    new: it is made with the machine, and goes with it when that fails. uuid: of the machine; another one of its name
    may have come meanwhile.
    """

    hypervisor: Hypervisor
    machine: str
    new: bool
    uuid: str | None = None

    def delete(self, pool: Pool, note: VolumeNote) -> None:
        """Delete a volume that this run has made, unless somebody has taken it into use or replaced it meanwhile.

        A machine that has left may have taken it along, in a pool that its new hypervisor shares.
        """
        volume = note.name
        if self.uuid is not None and not is_defined(self.hypervisor.conn, self.uuid):
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is kept, as machine {self.machine} may still use it elsewhere",
                hint=f"If it does not: {deletion(pool.name, volume)}",
            )
        if was_replaced(pool, note):
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is kept, as nothing proves that it is the one that this run has "
                "created",
                hint=by_hand(note),
            )
        clearing = self.machine if self.new else None
        delete_unused(self.hypervisor.conn, [(pool, volume)], owner=self.machine, clearing=clearing, fresh=True)


def volume_step(what: str, make: t.Callable[[], None], pool: Pool, note: VolumeNote, maker: VolumeOwner) -> Step:
    """The step that makes a volume; undoing it deletes it, unless it turned out to be somebody else's."""
    ours: list[VolumeNote] = []

    def apply() -> None:
        # Whatever fails before the volume is made, what is there then is somebody else's.
        volumes.require_not_there(pool, note.name)
        ours.append(note)
        try:
            make()
        except volumes.VolumeExistsError:
            ours.clear()
            raise

    def undo() -> None:
        if ours:
            maker.delete(pool, note)

    return Step(what, apply, undo)
