# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of a task: what is known of their hypervisor, and what is there under a volume's name."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field

from ..._base.errors import ConflictError
from ..._host.connection import VirConnect
from ..._host.images.stream import ProgressCallback, no_progress
from ..._host.locks import hypervisor_lock
from ..._host.storage.pools import Pool
from ..._host.storage.usage import AskElsewhere
from ..._host.storage.volume_facts import Volume
from ..._model.image.name import parse_image_volume
from ..._model.xml.disk_source import FILE
from ..hypervisor_view import HypervisorView
from ..resources import ResourcePlan
from ..shared_volumes.answers import ASK_THE_OTHERS
from ..shared_volumes.volume import SharedVolume

# What virt_init holds from its first look at the volumes until its machines use what it saw there.
_MACHINES_LOCK = "init"


@dataclass(frozen=True)
class VolumeTask:
    """One run on one hypervisor.

    lock_seconds: how long another run that holds its lock is waited for. progress: what is told how far long work on a
    volume of this name is.
    """

    conn: VirConnect
    lock_seconds: float
    elsewhere: AskElsewhere | None = None
    progress: Callable[[str], ProgressCallback] = field(default=lambda _name: no_progress)

    def look(self) -> HypervisorView:
        """The hypervisor as it is now."""
        return HypervisorView(self.conn, elsewhere=self.elsewhere)

    def alone(self) -> t.ContextManager[None]:
        """No other run makes machines, changes their disks or makes volumes during the block."""
        return hypervisor_lock(_MACHINES_LOCK, wait_seconds=self.lock_seconds)


@dataclass(frozen=True)
class VolumePlan:
    """What is to be done to one volume, and what the module says of it besides.

    refusal: why it may not be done as far as is known; nothing is done to any volume then. shared: what other
    hypervisors are to be asked about it. unchecked: in words, why its content was not compared. needs_file: its content
    has yet to be sent here. loses: the place of what is there under its name, if that is deleted.
    """

    plan: ResourcePlan
    refusal: ConflictError | None = None
    shared: SharedVolume | None = None
    unchecked: str | None = None
    needs_file: bool = False
    loses: str | None = None

    def as_result(self) -> dict[str, t.Any]:
        """What stands beside the result of the plan."""
        return {"unchecked": self.unchecked, "shared": self.shared.as_result() if self.shared else None}


def shown(pool: Pool, volume: Volume) -> dict[str, t.Any]:
    """A volume that is there, in the words of the module's result."""
    return as_shown(pool, volume.name, volume.format, volume.capacity_bytes, volume.source.place)


def as_shown(pool: Pool, name: str, image_format: str, size_bytes: int, place: str | None = None) -> dict[str, t.Any]:
    """A volume in the words of the module's result. place: of one that is there."""
    return {
        "pool": pool.name,
        "path": pool.volume_path(name) if place is None else place,
        "format": image_format,
        "size_bytes": size_bytes,
    }


def is_stored_image(pool: Pool, name: str) -> bool:
    """Whether a volume has the name of a stored image, which says what is in it, and which virt_image looks after."""
    return (pool.source_type == FILE or pool.clones_images) and parse_image_volume(name) is not None


def owner_of(view: HypervisorView, pool: Pool, name: str) -> str | None:
    """The machine whose metadata list a volume as its own, if one does."""
    owners = [
        domain.name
        for domain in view.domains.values()
        for note in (domain.notes.volumes if domain.notes else ())
        if (note.pool, note.name) == (pool.name, name)
    ]
    return min(owners, default=None)


def unasked(pool: Pool, name: str, what: str, because: str, where: str) -> ConflictError:
    """The error for a volume that machines of other hypervisors may use, which have not been asked. what: what is not
    done to it, in a word; because: why they may, as seen_elsewhere says it."""
    return ConflictError(
        f"volume {name} of pool {pool.name} is not {what}: {because}",
        where=where,
        hint=ASK_THE_OTHERS,
    )


def require_nobodys(view: HypervisorView, pool: Pool, name: str, what: str, where: str, hint: str) -> None:
    """Raise ConflictError for a stored image and for a volume that belongs to a machine. what: what is not done to it,
    in a word; hint: how that is done to a machine's own."""
    words = f"volume {name} of pool {pool.name} is not {what}"
    if is_stored_image(pool, name):
        raise ConflictError(f"{words}: it is a stored image", where=where, hint="virt_image brings and removes images")
    owner = owner_of(view, pool, name)
    if owner is not None:
        raise ConflictError(f"{words}: it belongs to machine {owner}", where=where, hint=hint.format(machine=owner))
