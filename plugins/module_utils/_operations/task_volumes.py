# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the disks of one task use of the volumes that are there, or that it makes: no machine has any of it yet."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._base.errors import ConflictError

# What a disk does with a volume: it alone writes to it, it writes to it as others do, it reads it, it is backed by it.
WRITES, SHARES, READS, BACKED = "writes", "shares", "reads", "backed"


@dataclass(frozen=True)
class VolumeUseByDisk:
    """A disk that a task asks for and its volume. how: one of the words above; where: the disk's place in the input;
    identity: what is the same for all names of the volume, worked out only when it is needed; made: the task makes the
    volume, and no volume that is there can be the same."""

    machine: str
    disk: str
    volume: str
    how: str
    where: str
    identity: t.Callable[[], t.Hashable]
    made: bool = False


class TaskVolumes:
    """All disks of a task so far."""

    def __init__(self) -> None:
        self._by_identity: dict[t.Hashable, list[VolumeUseByDisk]] = {}
        # As long as nobody writes to what is there, nothing can collide, and the volumes need not be told apart.
        self._waiting: list[VolumeUseByDisk] = []
        self._written = False

    def add(self, use: VolumeUseByDisk) -> None:
        """One more. Raises ConflictError when it and an earlier one exclude each other."""
        self._written = self._written or (use.how in (WRITES, SHARES) and not use.made)
        self._waiting.append(use)
        if not self._written:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            same = self._by_identity.setdefault(each.identity(), [])
            for earlier in same:
                _check(each, earlier)
            same.append(each)


def exclude(one: str, other: str) -> bool:
    """Whether two disks cannot have the same volume. one, other: what each does with it."""
    return WRITES in (one, other) or {one, other} == {SHARES, BACKED}


def _check(use: VolumeUseByDisk, earlier: VolumeUseByDisk) -> None:
    if not exclude(use.how, earlier.how):
        return
    there = f" ({earlier.where})" if earlier.where else ""
    who = "this machine" if use.machine == earlier.machine else f"machine {earlier.machine}"
    if use.how == BACKED:
        raise ConflictError(
            f"disk {earlier.disk} of {who}{there} would write to volume {use.volume} and break every overlay on it",
            where=use.where,
        )
    if earlier.how == BACKED:
        raise ConflictError(
            f"volume {use.volume} is to back disk {earlier.disk} of {who}{there}, and must not be written to",
            where=use.where,
            hint="Use it as backing, or set readonly",
        )
    raise ConflictError(
        f"volume {use.volume} is also requested as disk {earlier.disk} of {who}{there}",
        where=use.where,
        hint=f"Two {'disks' if use.machine == earlier.machine else 'machines'} may share it only if both are shareable "
        "or readonly",
    )
