# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a move between pools of one hypervisor."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...._base.errors import ConflictError, HostError, UnsupportedError, VirtError, stopped
from ...._host.connection import VirConnect, libvirt
from ...._host.storage.file_chain import FileId, file_id
from ...._host.storage.pool_refresh import refresh_pool
from ...._host.storage.transfer.block_copy import (
    BlockCopy,
    BlockCopyError,
    begin_block_copy,
    cancel_block_copies,
    pivot,
    wait_until_mirrored,
)
from ...._host.storage.transfer.upload import new_upload
from ...._host.storage.volume_facts import find_volume
from ...._model.metadata.migration import MigrationNote, VolumeIdentity, VolumeRef
from ...._model.spec.fields.units import format_size
from ...._model.xml.disk_source import FILE
from ...plan import Step
from ..context import MigrationContext, MigrationPlan, NoteWriter, ProgressCallback, hold_hypervisor
from ..endpoints.location import find, write_note
from ..endpoints.source_and_target import SourceMachine
from ..recheck import WriteGuard, recheck_definition, with_definition_of_now
from ..steps import handle_of, make_and_note, send_content, source_ref
from ..storage.disks import CONTENT, MIRROR, DiskMigration
from ..storage.volume_identity import identify_made, identify_source, identify_whole
from .copied import CopiedVolume, arrived_volumes, copied_volumes, places_of
from .settle import record, settle

_MIB = 1024 * 1024


@dataclass
class PoolMoveSteps:
    """The steps, and all that they have in common.

    machine: as it was planned; what an interrupted run had left undone changes it. check_space: raises when a pool has
    no room for the disks any more. on_progress ends a copy when the time is up. files: those that were created to copy
    to.
    """

    migration: MigrationPlan
    machine: SourceMachine
    context: MigrationContext
    writer: NoteWriter
    guard: WriteGuard
    check_space: Callable[[], None]
    on_progress: ProgressCallback
    files: dict[VolumeRef, FileId] = field(default_factory=dict)

    @property
    def _conn(self) -> VirConnect:
        return self.context.source.conn

    @property
    def _disks(self) -> Sequence[DiskMigration]:
        return self.migration.disks

    def finish_earlier(self, old: MigrationNote) -> Step:
        """What an interrupted run has left is ended: by where the disks are."""

        def finish() -> None:
            self.migration.kept += settle(self._conn, self.machine.uuid, old)
            write_note(self.machine.handle, None)
            self.machine = with_definition_of_now(self.machine)
            self._leave_out_arrived(finishing)

        finishing = Step(f"finish or undo what an interrupted run did to the disks of {self.machine.name}", finish)
        return finishing

    def plan_disks(self) -> None:
        """Have the plan go on with what is done to the disks."""
        if not self._disks:
            return
        self.migration.before.append(self.make_volumes())
        self.migration.before += [self.copy_content(disk) for disk in self._disks if disk.method == CONTENT]
        if any(disk.method == MIRROR for disk in self._disks):
            self.migration.before.append(self.mirror())
        self.migration.before.append(self.switch())
        self.migration.after.append(self.finish())

    def _leave_out_arrived(self, done: Step) -> None:
        """Only now the machine, or its definition, may name a volume that an interrupted run had switched it to."""
        places = places_of(self.machine.handle, libvirt.VIR_DOMAIN_XML_INACTIVE)
        if self.machine.active:
            places |= places_of(self.machine.handle, 0)
        if all(disk.here.place in places for disk in self._disks):
            return
        left = [disk for disk in self._disks if disk.there.place not in places]
        if any(disk.here.place not in places for disk in left):
            raise ConflictError(
                f"{self.machine.name} has got the volumes that an interrupted run had switched it to, which are in "
                "another pool than this run wants them in",
                hint="Run it again",
            )
        self.migration.disks = left
        self.writer.keep_only([disk.ref_there for disk in left])
        self.migration.after.clear()
        self.migration.before[:] = [done]
        self.plan_disks()

    def make_volumes(self) -> Step:
        """The note first: whoever finds it knows what may be there."""
        made: list[VolumeRef] = []

        def make() -> None:
            self.check_space()
            upload = new_upload(self.context.source_name)
            left = [source_ref(disk, upload.token) for disk in self._disks if disk.own]
            self.writer.begin(self.machine.handle, left, upload.token)
            for disk in self._disks:
                make_and_note(disk, made)
                self.files[disk.ref_there] = file_id(disk.there.place)
                check_size(disk)
                identity = identify_source(disk.target_pool, disk.volume.name, upload.token)
                if identity == VolumeIdentity():
                    filled = disk.method == CONTENT
                    identity = identify_made(disk.target_pool, handle_of(disk), self._conn, upload, filled=filled)
                self.writer.know(self.machine.handle, disk.ref_there, identity)

        def undo() -> None:
            # The note stays when it cannot be done now: the next run does it.
            note = self.writer.note_of(made)
            self._require_reachable()
            with self.context.endpoints.reconnected().open_source() as conn:
                kept = self._settle(conn, note)
                if kept:
                    raise HostError("; ".join(kept))
                domain = find(conn, self.machine.uuid)
                if domain is not None:
                    write_note(domain, None)

        return Step(f"create {_names(self._disks)}", make, undo)

    def copy_content(self, disk: DiskMigration) -> Step:
        """The bytes of a disk that nobody writes to."""

        def copy() -> None:
            self._require_same_file(disk)
            self.guard.begin(disk.volume.path)
            send_content(disk, self._conn, self.on_progress, self.context.stop)
            known = next(ref.identity for ref in self.writer.note.made if ref == disk.ref_there)
            refresh_pool(disk.target_pool.handle, disk.target_pool.name)
            _require_same_backing(disk)
            whole = identify_whole(disk.target_pool, handle_of(disk))
            # A mark beside the content is still there, one in it is not.
            mark = known.mark if identify_source(disk.target_pool, disk.volume.name, known.mark).mark else ""
            self.writer.forget(disk.ref_there)
            self.writer.know(self.machine.handle, disk.ref_there, dataclasses.replace(whole, mark=mark))

        return Step(f"copy {disk.ref} to pool {disk.target_pool.name}", copy)

    def mirror(self) -> Step:
        """QEMU copies the disks of a running machine, and keeps the copies up to date."""
        copies = [(disk, self._block_copy(disk)) for disk in self._disks if disk.method == MIRROR]
        done: dict[str, int] = {}

        def progress(device: str, now: int, total: int) -> None:
            if self.context.stop.is_set():
                raise stopped()
            done[device] = total
            self.migration.figures["disk_bytes"] = sum(done.values())
            self.on_progress(f"disk {device}", now, total)

        def copy() -> None:
            for disk, one in copies:
                self._require_same_file(disk)
                begin_block_copy(self.machine.handle, one)
            try:
                wait_until_mirrored(self.machine.handle, [one for _disk, one in copies], progress)
            except BlockCopyError as exc:
                raise HostError(f"{exc.what}{_free_words(self._disks)}", where=exc.where, hint=exc.hint) from exc

        def undo() -> None:
            with self.context.endpoints.reconnected().open_source() as conn:
                domain = find(conn, self.machine.uuid)
                if domain is not None:
                    cancelled = cancel_block_copies(domain, {one.there.place for _disk, one in copies})
                    self.writer.cancelled(
                        domain, [disk.ref_there for disk, one in copies if one.there.place in cancelled]
                    )

        names = ", ".join(str(disk.ref) for disk in self._disks if disk.method == MIRROR)
        return Step(f"copy {names} while {self.machine.name} runs", copy, undo)

    def switch(self) -> Step:
        """The machine goes on with the new volumes, and so does its definition."""
        copies = [(disk, self._block_copy(disk)) for disk in self._disks if disk.method == MIRROR]

        def switch() -> None:
            with hold_hypervisor(self.migration, self.context.stop):
                self.guard.check()
                recheck_definition(self.machine)
                copied = copied_volumes(self._conn, self.writer.note)
                # All of them before the first one, and each once more: the others may have taken a while.
                for disk in self._disks:
                    self._require_same_file(disk)
                words = self.migration.switched_words
                self.migration.switched_words = "has some of its disks in the new pools"
                for disk, one in copies:
                    self._require_same_file(disk)
                    self.writer.pivots(self.machine.handle, disk.ref_there)
                    try:
                        pivot(self.machine.handle, one)
                    except VirtError:
                        # It may have been done all the same, when only the answer was lost.
                        if not self._has_arrived(one, copied):
                            raise
                    self.migration.switched = True
                # The guard has an eye on the machine over the task's connection, and libvirt gives each only one.
                with self.context.endpoints.reconnected().open_source() as conn:
                    domain = find(conn, self.machine.uuid)
                    record(conn, domain, copied)
                    if copies:
                        self.writer.switched(domain)
                self.migration.switched, self.migration.switched_words = True, words

        return Step(f"switch {self.machine.name} to {_names(self._disks)}", switch)

    def _require_same_file(self, disk: DiskMigration) -> None:
        """Raise ConflictError when the path of a volume leads to another file than was created, or to none."""
        if file_id(disk.there.place) != self.files[disk.ref_there]:
            raise ConflictError(
                f"{disk.there.place} is not there any more, or not the file that was created for the copy of disk "
                f"{disk.device}",
                hint=f"{self.machine.name} keeps its old disk. Mount what belongs to pool {disk.target_pool.name}, and "
                "run it again",
            )

    def _require_reachable(self) -> None:
        """Raise HostError when no path leads to a volume that was created: without its note nobody would ever delete
        it."""
        for disk in self._disks:
            if self.files.get(disk.ref_there, file_id(disk.there.place)) != file_id(disk.there.place):
                raise HostError(
                    f"{disk.there.place} is not there any more, or another file",
                    hint=f"Once what belongs to pool {disk.target_pool.name} is mounted, the next run deletes it",
                )

    def _has_arrived(self, copy: BlockCopy, copied: Sequence[CopiedVolume]) -> bool:
        with self.context.endpoints.reconnected().open_source() as conn:
            domain = find(conn, self.machine.uuid)
            if domain is None:
                return False
            return copy.there.place in {one.there.place for one in arrived_volumes(domain, copied)}

    def finish(self) -> Step:
        """The old volumes go, and then the note."""

        def finish() -> None:
            note = self.writer.note
            with self.context.endpoints.open_source() as conn:
                domain = find(conn, self.machine.uuid)
                if domain is None:
                    raise HostError(f"{self.machine.name} is not on this hypervisor any more")
                self.migration.kept += self._settle(conn, note)
                write_note(domain, None)

        left = ", ".join(str(disk.ref) for disk in self._disks if disk.own)
        return Step(f"delete {left}" if left else f"record that the disks of {self.machine.name} have moved", finish)

    def _settle(self, conn: VirConnect, note: MigrationNote) -> list[str]:
        """As settle does it; what this run has made or copied and nothing marks needs no proof."""
        unmarked = [ref for ref in note.left if ref.identity == VolumeIdentity()]
        return settle(conn, self.machine.uuid, note, trusted_made=self.writer.unmarked, trusted_left=unmarked)

    def _block_copy(self, disk: DiskMigration) -> BlockCopy:
        limit_mib = self.context.options.parameters.get("bandwidth")
        number = sum(1 for one in self._disks if one.method == MIRROR)
        limit = 0 if limit_mib is None else max(1, limit_mib * _MIB // number)
        return BlockCopy(disk.device, disk.there, disk.format, disk.base is not None, limit)


def check_size(disk: DiskMigration) -> None:
    """Raise UnsupportedError when the pool has rounded the size: the disk would be another one."""
    found = find_volume(disk.target_pool, disk.volume.name, image_format=disk.format)
    if disk.method == CONTENT and disk.target_pool.source_type == FILE:
        # Its size is what its content will say.
        return
    if found is not None and found.capacity_bytes != disk.capacity_bytes:
        raise UnsupportedError(
            f"disk {disk.device} has {format_size(disk.capacity_bytes)}, and pool {disk.target_pool.name} makes "
            f"{format_size(found.capacity_bytes)} of that",
            hint="Grow the disk to that size first, or choose another pool",
        )


def _require_same_backing(disk: DiskMigration) -> None:
    """What is named relative to the volume's folder would be something else in another one."""
    found = find_volume(disk.target_pool, disk.volume.name, image_format=disk.format)
    backing_path = None if found is None else found.backing_path
    if backing_path != disk.volume.backing_path:
        raise UnsupportedError(
            f"disk {disk.device} is backed by {disk.volume.backing_path}, and would be backed by {backing_path} in "
            f"pool {disk.target_pool.name}",
            hint="Start the machine, and move its disk while it runs",
        )


def _names(disks: Sequence[DiskMigration]) -> str:
    return ", ".join(str(disk.ref_there) for disk in disks)


def _free_words(disks: Sequence[DiskMigration]) -> str:
    """What is free now in the pools of files that QEMU was writing to, which is mostly why it has given up."""
    words = []
    for pool in {disk.target_pool.name: disk.target_pool for disk in disks}.values():
        if pool.local and pool.source_type == FILE:
            found = os.statvfs(pool.path)
            words.append(f"pool {pool.name} has {format_size(found.f_bavail * found.f_frsize)} free")
    return f"; {', '.join(words)}" if words else ""
