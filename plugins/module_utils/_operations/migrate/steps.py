# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a move beside the switch: what comes before it on the target, and what is left to do after it."""

from __future__ import annotations

import contextlib
import os
import threading
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._base.errors import HostError, NotFoundError, UnreachableError, VirtError
from ..._base.files import file_errors
from ..._host.connection import VirConnect, translate_errors
from ..._host.locks import hypervisor_lock
from ..._host.machines.domains import description_of
from ..._host.machines.set_aside import put_back
from ..._host.machines.undefine import remove_left_nvram
from ..._host.storage import volumes
from ..._host.storage.pool_refresh import refresh_pool
from ..._host.storage.pools import full_pool_named
from ..._host.storage.transfer.flush import SentFile, flushed
from ..._host.storage.transfer.upload import new_upload, send_file
from ..._model.metadata.migration import MigrationNote, VolumeIdentity, VolumeRef
from ..._model.xml.disk_source import FILE
from ..plan import Step
from .context import MigrationContext, MigrationPlan, NoteWriter, ProgressCallback
from .endpoints.location import Endpoints, find, find_location, set_autostart, write_note
from .endpoints.source_and_target import SourceMachine
from .recheck import TargetRecheck, WriteGuard
from .snapshots import remove_note
from .storage.cleanup import clear_target, delete_proven
from .storage.disks import CONTENT, BaseImage, DiskMigration
from .storage.images import copy_image_to_target
from .storage.volume_identity import identify_made, identify_source, identify_whole
from .switch import forget_left_over

# How long a run that makes or changes machines at the source may take, where nothing is lost if it takes longer.
_PROVISION_SECONDS = 300


@dataclass(frozen=True)
class PreparingSteps:
    """The steps up to the switch, and all that they have in common. on_progress ends a copy when the time is up."""

    migration: MigrationPlan
    machine: SourceMachine
    context: MigrationContext
    writer: NoteWriter
    guard: WriteGuard
    recheck: TargetRecheck
    on_progress: ProgressCallback

    @property
    def _conn(self) -> VirConnect:
        """The task's connection to the target."""
        return self.context.target.hypervisor.conn

    def clear(self, old: MigrationNote) -> Step:
        """What an earlier run has left on the target goes."""

        def clear() -> None:
            endpoints = Endpoints(self.context.endpoints.source, old.uri)
            try:
                self.migration.kept += clear_target(endpoints, self.machine.uuid, old)
            except UnreachableError as exc:
                # One that never comes back would keep the machine here for ever.
                raise UnreachableError(
                    f"an interrupted run may have left volumes of {self.machine.name} on {old.target}, which does not "
                    f"answer: {exc.what}",
                    hint=f"Run it again when it does. If {old.target} is gone for good: "
                    + old.removal(self.machine.name, active=self.machine.active),
                ) from exc
            except NotFoundError as exc:
                raise NotFoundError(
                    f"an interrupted run may have left volumes of {self.machine.name} on {old.target}, where they "
                    f"cannot be looked for: {exc.what}",
                    hint="Define the pool there again, and run it again. If it is gone for good, with what was in it: "
                    + old.removal(self.machine.name, active=self.machine.active),
                ) from exc
            if old.autostart:
                set_autostart(self.machine.handle, True)
            put_back(self.machine.handle)
            write_note(self.machine.handle, None)
            self.recheck.outdate()

        return Step(f"remove what an interrupted run left on {old.target}", clear)

    def bring_image(self, base: BaseImage) -> Step:
        """An image that disks are backed by comes to the target."""
        context = self.context

        def bring() -> None:
            copy_image_to_target(
                base, context.endpoints, self._conn, context.source_name, self.on_progress, context.stop
            )
            self.recheck.outdate()

        return Step(f"copy image {base.volume} to {context.target.name}", bring)

    def make_volumes(self) -> Step:
        """The note first: whoever finds it knows what may be there."""
        disks = [disk for disk in self.migration.disks if disk.travels]
        machine, context, writer = self.machine, self.context, self.writer
        made: list[VolumeRef] = []

        def make() -> None:
            self.recheck.check_free_space(machine, disks)
            upload = new_upload(context.source_name)
            writer.begin(machine.handle, [source_ref(disk, upload.token) for disk in disks if disk.own], upload.token)
            for disk in disks:
                make_and_note(disk, made)
                filled = disk.method == CONTENT
                identity = identify_made(disk.target_pool, handle_of(disk), self._conn, upload, filled=filled)
                writer.know(machine.handle, disk.ref_there, identity)

        def undo() -> None:
            if self.migration.switched or self.migration.undecided:
                return
            # The note stays when the target cannot be cleaned up now: the next run does it.
            endpoints = context.endpoints.reconnected()
            note = writer.note_of(made)
            kept = clear_target(endpoints, machine.uuid, note, trusted=writer.unmarked)
            if kept:
                raise HostError("; ".join(kept))
            with endpoints.open_source() as source:
                domain = find(source, machine.uuid)
                if domain is not None:
                    remove_note(domain)

        names = ", ".join(disk.ref.name for disk in disks)
        words = f"create {names}" if names else f"record that {machine.name} is moving"
        return Step(f"{words} {'on' if names else 'to'} {context.target.name}", make, undo)

    def hold_autostart(self) -> Step:
        """A host that loses its power at the switch is not to start the machine on disks that the target writes to.

        For the time of the move, as libvirt changes nothing of a machine on its way. One whose disks all travel is not
        held back: a move may take hours then, and each side has disks of its own.
        """
        name = self.machine.name

        def undo() -> None:
            if self.migration.switched or self.migration.undecided:
                return
            with self.context.endpoints.reconnected().open_source() as source:
                domain = find(source, self.machine.uuid)
                if domain is not None:
                    set_autostart(domain, True)

        return Step(
            f"disable autostart of {name} on {self.context.source_name}",
            lambda: set_autostart(self.machine.handle, False),
            undo,
        )

    def copy_content(self, disk: DiskMigration) -> Step:
        """The bytes of a disk that nobody writes to come to the target."""

        def copy() -> None:
            self.guard.begin(disk.volume.path)
            send_content(disk, self._conn, self.on_progress, self.context.stop)
            self.recheck.outdate()
            # What is there now has the mark no more, and its own last change is not known yet.
            self.writer.forget(disk.ref_there)
            self.writer.know(self.machine.handle, disk.ref_there, _settle_content(disk))

        return Step(f"copy {disk.ref.name} to {self.context.target.name}", copy)

    def flush(self, disks: Sequence[DiskMigration]) -> Step:
        """The source lets go of nothing that the target has in its memory only."""

        def flush() -> None:
            # It counts as a change: from then on, the time of the last one does not tell the volume any more.
            for disk in disks:
                self.writer.forget(disk.ref_there)
            with flushed(self._conn, [sent_file(disk) for disk in disks]):
                pass
            self.recheck.outdate()
            for disk in disks:
                self.writer.know(self.machine.handle, disk.ref_there, _settle_content(disk))

        names = ", ".join(disk.ref.name for disk in disks)
        return Step(f"flush {names} to the disk of {self.context.target.name}", flush)


def source_ref(disk: DiskMigration, mark: str) -> VolumeRef:
    """The volume at the source, with what tells it from others; mark: what it gets for that, where it can."""
    return VolumeRef(disk.ref.pool, disk.ref.name, identify_source(disk.source_pool, disk.ref.name, mark))


def make_and_note(disk: DiskMigration, made: list[VolumeRef]) -> None:
    """As make_volume_for. made: what an undo has to delete; a volume that could not be made whole is to go, one that is
    somebody else's is not."""
    # Whatever fails before the volume is made, what is there then is somebody else's.
    volumes.require_not_there(disk.target_pool, disk.ref.name)
    made.append(disk.ref_there)
    try:
        make_volume_for(disk)
    except volumes.VolumeExistsError:
        made.remove(disk.ref_there)
        raise
    except VirtError:
        # libvirt lists what it has made, and drops what it could not make whole. What an undo would find there, once
        # libvirt has looked again, may be a file that it did not know of. Without an answer, it may be this run's.
        with contextlib.suppress(VirtError):
            if not volumes.volume_exists(disk.target_pool, disk.ref.name):
                made.remove(disk.ref_there)
        raise


def make_volume_for(disk: DiskMigration) -> None:
    """A volume on the target for a disk that travels. Raises VolumeExistsError instead of touching another's."""
    pool = disk.target_pool
    volumes.require_not_there(pool, disk.ref.name)
    if disk.method == CONTENT:
        # The file is sent as it is; its own header will say its format.
        size_bytes = _size_of(disk.volume.path)
        volumes.create_empty(pool, disk.ref.name, size_bytes=size_bytes, image_format="raw", wipe=False)
    elif disk.base is not None:
        volumes.create_overlay(
            pool,
            disk.ref.name,
            size_bytes=disk.capacity_bytes,
            image_path=disk.base.path_there,
            image_format=disk.base.format,
        )
    else:
        # All of the disk comes.
        volumes.create_empty(pool, disk.ref.name, size_bytes=disk.capacity_bytes, image_format=disk.format, wipe=False)


def send_content(disk: DiskMigration, conn: VirConnect, on_progress: ProgressCallback, stop: threading.Event) -> None:
    """The bytes of a disk that nobody writes to, to the volume that was made for it."""
    pool = disk.target_pool
    with full_pool_named(pool, f"cannot copy disk {disk.device} to volume {disk.ref.name}", _size_of(disk.volume.path)):
        send_file(
            disk.volume.path,
            handle_of(disk),
            conn,
            sparse=pool.source_type == FILE,
            on_progress=lambda done, total: on_progress(f"disk {disk.device}", done, total),
            stop=stop,
        )


def sent_file(disk: DiskMigration) -> SentFile:
    """The volume on the target whose content was sent."""
    return SentFile(disk.target_pool, disk.ref.name, _size_of(disk.volume.path))


def _settle_content(disk: DiskMigration) -> VolumeIdentity:
    """Have libvirt read a volume whose content was sent; what identifies it from now on."""
    if disk.format != "raw":
        # Until libvirt looks again, it knows a raw volume.
        refresh_pool(disk.target_pool.handle, disk.target_pool.name)
    return identify_whole(disk.target_pool, handle_of(disk))


def handle_of(disk: DiskMigration) -> t.Any:
    """libvirt's handle of the volume on the target."""
    pool = disk.target_pool
    with translate_errors(f"cannot find volume {disk.ref.name} of pool {pool.name}"):
        return pool.handle.storageVolLookupByName(disk.ref.name)


def _size_of(path: str) -> int:
    with file_errors(f"cannot read {path}"), open(path, "rb", buffering=0) as file:
        return file.seek(0, os.SEEK_END)


def finishing_steps(
    migration: MigrationPlan,
    uuid: str,
    writer: NoteWriter,
    context: MigrationContext,
    *,
    trusted: bool,
    snapshots: bool = False,
) -> list[Step]:
    """What is left to do when the machine is on the target; each may be done twice.

    trusted: this very run has copied the volumes at the source; those that nothing marks need no proof. snapshots: some
    were set aside for the move.
    """
    name, note, steps = migration.name, writer.note, []

    def on_target(work: Callable[[t.Any], object]) -> Callable[[], None]:
        def apply() -> None:
            with context.endpoints.open_target() as conn:
                domain = find(conn, uuid)
                if domain is None:
                    raise HostError(f"{name} is not on {context.target.name} any more")
                work(domain)

        return apply

    def forget_at_source() -> None:
        there = None
        if not find_location(context.endpoints, uuid).left:
            raise HostError(f"{name} is not only on {context.target.name}, so nothing is deleted here")
        with context.endpoints.open_source() as conn:
            if context.options.undefine_source:
                with context.endpoints.open_target() as target:
                    forget_left_over(conn, target, uuid)
                    domain = find(target, uuid)
                    there = None if domain is None else description_of(domain)
            kept = find(conn, uuid)
            if kept is not None:
                set_autostart(kept, False)
                write_note(kept, None)
                return
            left = writer.note.left
            unmarked = [ref for ref in left if ref.identity == VolumeIdentity()] if trusted else []
            # Nobody is to make a machine with one of them, or of its name, meanwhile.
            with hypervisor_lock("init", wait_seconds=_PROVISION_SECONDS):
                if left:
                    migration.kept += delete_proven(conn, left, trusted=unmarked)
                if there is not None:
                    remove_left_nvram(conn, there)

    if snapshots:
        steps.append(Step(f"put back the snapshots of {name} on {note.target}", on_target(put_back)))
    if note.autostart and context.options.persistent:
        steps.append(
            Step(f"enable autostart of {name} on {note.target}", on_target(lambda domain: set_autostart(domain, True)))
        )
    names = ", ".join(ref.name for ref in note.left)
    words = f"delete {names} on {note.source}" if names else f"check that {name} has left {note.source}"
    steps.append(Step(words, forget_at_source))
    steps.append(Step(f"record that {name} has arrived", on_target(lambda domain: write_note(domain, None))))
    return steps
