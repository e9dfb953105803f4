# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes that a backup's disks are restored into: planned, filled, and compared with the backup."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import threading
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, HostError, InputError, NotFoundError, UnsupportedError
from ..._base.files import allocated_bytes, sync_file
from ..._host.backup import images
from ..._host.backup.directory import Backups
from ..._host.backup.verify import check_header
from ..._host.connection import host_name, translate_errors
from ..._host.progress import ProgressMeter
from ..._host.storage.ceph import qemu_name
from ..._host.storage.full_disk import disk_full
from ..._host.storage.pools import Pool, require_free_space
from ..._host.storage.proof import deletion, has_marks, mark_volume, unfinished_of
from ..._host.storage.shared_pools import shared_because
from ..._host.storage.transfer.upload import new_upload, sending
from ..._host.storage.volumes import create_empty, space_request
from ..._model.backup.manifest import SEED, DiskEntry, Manifest
from ..._model.backup.restored_domain import NewDisk
from ..._model.image.marks import Upload
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.xml.disk_source import FILE, NETWORK
from ..disks.new_volume import VolumeOwner, mark_for, volume_step
from ..hypervisor import Hypervisor
from ..plan import Step
from ..volumes.task import is_stored_image
from .leftover import Leftover, find_leftover


@dataclass(frozen=True)
class RestoredVolume:
    """A disk of the backup, and the volume that it becomes.

    upload: what marks it as unfinished, where no machine's notes do. leftover: what a killed run has left of it.
    """

    entry: DiskEntry
    pool: Pool
    volume: str
    format: str
    mark: str
    upload: Upload | None = None
    leftover: Leftover | None = None

    @property
    def note(self) -> VolumeNote:
        """As long as it is not whole."""
        making = CreationNote(self.mark, self.entry.size_bytes)
        return VolumeNote(self.pool.name, self.volume, self.entry.role, True, self.format, making)

    @property
    def disk(self) -> NewDisk:
        """What the machine has of it."""
        return NewDisk(self.pool.source_of(self.volume), self.format)


def plan_volume(
    entry: DiskEntry,
    hypervisor: Hypervisor,
    *,
    pool: str | None,
    name: str,
    machine: str,
    where: str,
    going: t.Container[tuple[str, str]] = (),
    definition: str = "",
) -> RestoredVolume:
    """The volume of one disk. pool: None for the one that it was in. name: of the volume, without its ending.
    machine: whose it is to be; empty for a disk beside its machine, of which nobody has notes. going: pools and names
    of volumes that are removed before it is made. definition: the file in the backup that has the machine's; empty
    where that has another name.

    Raises VirtError when it cannot be made.
    """
    wanted = pool or entry.pool
    if not wanted:
        raise NotFoundError(f"disk {entry.target} was in no storage pool", hint="Name one with pool")
    try:
        found = hypervisor.pools.get(wanted, "pool" if pool else None)
    except NotFoundError as exc:
        if pool:
            raise
        what = f"disk {entry.target} cannot go into the pool that it was in: {exc.what}"
        raise NotFoundError(what, hint=f"Name another one with pool. {exc.hint or ''}".strip()) from exc
    found.require_new_volumes("pool" if pool else None)
    if not found.local or (found.source_type == NETWORK and not found.clones_images):
        raise UnsupportedError(
            f"storage pool {found.name} is of type {found.type}, into which no backup is restored here",
            where="pool",
            hint="Choose a pool of files, of logical volumes or of Ceph",
        )
    image_format = entry.format if entry.format in found.formats else found.default_format
    ending = "" if found.source_type != FILE else ".iso" if entry.role == SEED else f".{image_format}"
    volume = name if name.endswith(ending) else f"{name}{ending}"
    if is_stored_image(found, volume):
        raise InputError(
            f"{volume} is the name of a stored image", where=where or None, hint="Choose another name for the volume"
        )
    has_path = found.source_type != NETWORK
    there = volume in hypervisor.volumes(found) or (has_path and os.path.lexists(f"{found.path}/{volume}"))
    leftover = None
    if there and (found.name, volume) not in going:
        if not machine:
            leftover = find_leftover(found, volume, entry.size_bytes, image_format, hypervisor, where or None)
        if leftover is None:
            raise ConflictError(
                f"pool {found.name!r} has a volume {volume!r} already",
                where=where or None,
                hint=_of_volume_there(found, volume, entry, machine, definition),
            )
    other = hypervisor.reserve_volume(found, volume, machine)
    if other is not None:
        raise ConflictError(f"the name of volume {volume!r} in pool {found.name!r} is reserved for machine {other}")
    if machine or not has_marks(found):
        return RestoredVolume(entry, found, volume, image_format, mark_for(found, volume, ()))
    upload = new_upload(host_name(hypervisor.conn))
    return RestoredVolume(entry, found, volume, image_format, upload.to_mark(), upload, leftover)


def _of_volume_there(pool: Pool, volume: str, entry: DiskEntry, machine: str, definition: str) -> str:
    """What to do about a volume that is there. To delete it comes last: it may have newer data than the backup."""
    delete = deletion(pool.name, volume)
    if machine and (entry.pool, entry.volume) == (pool.name, volume):
        again = (
            "If no hypervisor has the machine any more, read its definition, which nothing checks then (see "
            f"trust_definition), and define it on its own disks again: virsh define {shlex.quote(definition)}. "
        )
        return (
            "It may be the machine's own disk, with newer data than the backup. To keep it, restore into another pool "
            f"(pool) or under another name (new_name). {again if definition else ''}Only if nobody needs what is in "
            f"it: {delete}"
        )
    unsure = "" if machine or has_marks(pool) else "An interrupted restore may have left it without all of it. "
    because = shared_because(pool)
    if because is not None:
        other = "another pool (pool) or another name (new_name)" if machine else "another name (volume)"
        return (
            f"{unsure}A machine of another hypervisor may have it, as {because}. Choose {other}. Only if nobody needs "
            f"what is in it: {delete}"
        )
    return f"{unsure}If nobody needs it: {delete}"


def require_room(volumes: t.Sequence[RestoredVolume], backups: Backups, chain: t.Sequence[Manifest]) -> None:
    """Raise ConflictError when the pools have less room than the volumes take."""
    requests = []
    for one in volumes:
        copied = copied_bytes(one, backups, chain)
        requests.append(space_request(one.pool, size_bytes=one.entry.size_bytes, copied_bytes=copied))
    require_free_space(requests)


def copied_bytes(one: RestoredVolume, backups: Backups, chain: t.Sequence[Manifest]) -> int:
    """As much as a volume takes at most where it takes what is written to it."""
    copied = sum(_held_bytes(backups, manifest, one.entry.target) for manifest in chain)
    # What goes first makes room.
    freed = 0 if one.leftover is None else allocated_bytes(one.pool.volume_path(one.volume))
    return max(0, min(copied, one.entry.size_bytes) - freed)


def _held_bytes(backups: Backups, manifest: Manifest, target: str) -> int:
    entry = manifest.disk(target)
    return 0 if entry is None else allocated_bytes(f"{backups.path_of(manifest.id)}/{entry.file}")


class VolumeFiller:
    """Makes volumes from one backup.

    chain: the backup, and those that it is built on. lock: a context manager that keeps others from making volumes. It
    is held while a volume is made, and not for the hours that filling it may take.
    """

    def __init__(
        self,
        backups: Backups,
        chain: t.Sequence[Manifest],
        stop: threading.Event,
        meter: ProgressMeter,
        lock: t.Callable[[], t.ContextManager[None]],
    ) -> None:
        self._lock = lock
        self._backups = backups
        self._chain = chain
        self._stop = stop
        self._meter = meter

    def step(self, one: RestoredVolume, owner: VolumeOwner) -> Step:
        """The step that makes a volume, and compares it with the backup; undoing it deletes the volume."""
        what = f"restore disk {one.entry.target} to volume {one.volume} of pool {one.pool.name}"

        def make() -> None:
            with contextlib.nullcontext() if one.upload is None else sending(one.upload):
                self._fill(one)

        step = volume_step(what, make, one.pool, one.note, owner)

        def undo() -> None:
            with self._lock():
                if step.undo is not None:
                    step.undo()

        return Step(what, step.apply, undo)

    def _fill(self, one: RestoredVolume) -> None:
        backup = f"{self._backups.path_of(self._chain[0].id)}/{one.entry.file}"
        with self._lock():
            # All of the disk comes, and is compared.
            create_empty(
                one.pool,
                one.volume,
                size_bytes=one.entry.size_bytes,
                image_format=one.format,
                mark=one.mark,
                wipe=False,
            )
        place = one.pool.volume_path(one.volume)
        target = qemu_name(one.pool, one.volume) if one.pool.source_type == NETWORK else place
        # Just before QEMU follows the names in there.
        self._check_headers(one)
        try:
            images.convert(
                backup,
                "qcow2",
                target,
                self._stop,
                into=one.format,
                # A device reads as what was on it before.
                fresh=one.pool.source_type in (FILE, NETWORK),
                on_percent=functools.partial(self._meter.at_percent, f"disk {one.entry.target}"),
            )
        except HostError as exc:
            if images.is_full(exc):
                raise disk_full(f"cannot restore disk {one.entry.target}", one.pool.path, None, one.pool.name) from exc
            raise
        compared = functools.partial(self._meter.at_percent, f"comparing disk {one.entry.target}")
        if not images.same_content(backup, target, one.format, self._stop, compared):
            raise HostError(f"volume {one.volume} of pool {one.pool.name} differs from backup {backup}")
        _put_on_disk(one)
        if one.upload is not None:
            _mark_as_whole(one, one.upload)
            _put_on_disk(one)

    def _check_headers(self, one: RestoredVolume) -> None:
        for manifest in self._chain:
            entry = manifest.disk(one.entry.target)
            if entry is None:
                return
            check_header(self._backups.path_of(manifest.id), entry)
            if entry.backing is None:
                return


def _put_on_disk(one: RestoredVolume) -> None:
    if one.pool.source_type != NETWORK:
        sync_file(one.pool.volume_path(one.volume))


def _mark_as_whole(one: RestoredVolume, upload: Upload) -> None:
    """Another mark instead of the one that says that it is not. Raises HostError."""
    with translate_errors(f"cannot look up volume {one.volume} of pool {one.pool.name}"):
        handle = one.pool.handle.storageVolLookupByName(one.volume)
    mark_volume(one.pool, handle, one.format, upload.token)
    if unfinished_of(one.pool, one.volume) is not None:
        raise HostError(f"volume {one.volume} of pool {one.pool.name} is whole, but cannot be marked as whole")
