# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One backup made: into a directory of its own, which gets its name when all of it is on the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import typing as t
from datetime import datetime, timezone

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.files import allocated_bytes, root_hint, write_whole
from ..._base.xml import read_description
from ..._host.backup import directory, images, state_files
from ..._host.backup.checkpoints import described_checkpoints, own_checkpoints, remove_checkpoint, snapshots
from ..._host.backup.job import run_backup
from ..._host.backup.paused import OnRemark
from ..._host.backup.qemu_user import closed_error
from ..._host.backup.quiesce import freeze, thawed, thawed_on_error
from ..._host.backup.source_file import source_file
from ..._host.backup.verify import check_header, digest_file
from ..._host.connection import VirConnect, reconnected_domain, translate_errors, version_text
from ..._host.machines.start_watch import last_start
from ..._host.progress import ProgressMeter
from ..._host.storage.cluster.unchanged import UnchangedVolumes
from ..._host.storage.disk_lock import DiskLock
from ..._model.backup.backup_xml import backup_xml, checkpoint_xml
from ..._model.backup.manifest import (
    DISK,
    DOMAIN_XML,
    DiskEntry,
    FileEntry,
    Manifest,
    checkpoint_name,
    checkpoint_words,
    next_id,
    time_text,
)
from .disks import BackupDisk, attached_targets
from .options import BackupOptions
from .plan import BackupPlan, definition_of

_NVRAM = "nvram.fd"
_NO_ACCESS = "Permission denied"
_SERIES_BYTES = 8


class BackupMaker:
    """Makes what a plan says. The locks of the machine and of its directory are held. on_remark: called with what the
    user should know of the machine, also where there is no backup in the end."""

    def __init__(
        self,
        conn: VirConnect,
        plan: BackupPlan,
        options: BackupOptions,
        stop: threading.Event,
        meter: ProgressMeter,
        on_remark: OnRemark,
    ) -> None:
        self._conn = conn
        self._plan = plan
        self._options = options
        self._stop = stop
        self._meter = meter
        self._on_remark = on_remark
        self._path = plan.backups.path
        now = datetime.now(timezone.utc)
        self._made_at = time_text(now)
        self._name = next_id(plan.backups.names, plan.kind, now)
        self._series = self._find_series()
        tracks = plan.domain.active and not plan.no_checkpoint
        self._checkpoint = checkpoint_name(self._series, self._name) if tracks else ""
        # Why none is there in the end.
        self.no_checkpoint = plan.no_checkpoint
        self._partial = ""
        self._quiesced = False
        self._states: dict[str, t.Any] = {}

    def make(self) -> Manifest:
        """The backup. Raises VirtError; then there is no new backup, and nothing is left of it."""
        try:
            self._partial = directory.begin(self._path, self._name)
            manifest = self._fill()
            directory.complete(self._path, self._partial, manifest)
        except (OSError, HostError) as exc:
            # Asked before what there is of it is removed, which makes room.
            error = self._named(exc)
            self._clear()
            if error is exc:
                raise
            raise error from exc
        except BaseException:
            self._clear()
            raise
        return manifest

    def _named(self, exc: OSError | HostError) -> OSError | HostError:
        """An error of the system, and that of a full disk, in words that say what was being done."""
        what = self._plan.cannot_write
        if images.is_full(exc):
            return images.full(what, self._options.destination, self._plan.needed_bytes)
        closed = directory.closed_above(self._path) if _NO_ACCESS in str(exc) and self._plan.domain.active else None
        if closed is not None:
            return closed_error(what, closed)
        return HostError(f"{what}: {exc.strerror}", hint=root_hint(exc)) if isinstance(exc, OSError) else exc

    def _clear(self) -> None:
        """Remove what there is of it. What stays for any reason is removed by the next run."""
        with contextlib.suppress(VirtError, OSError):
            if self._partial:
                directory.remove(self._path, os.path.basename(self._partial))
        with contextlib.suppress(VirtError):
            if self._checkpoint:
                # libvirt was waited for already.
                with reconnected_domain(self._plan.domain.handle, wait_seconds=0) as handle:
                    remove_checkpoint(handle, self._checkpoint)

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints of all backups in this directory, this one and those before it, as of a damaged chain:
        so the next one is a full one. Raises VirtError."""
        # What is made of a machine that is off is built on nothing.
        if self._plan.domain.active:
            for name in own_checkpoints(self._plan.domain.handle, self._series):
                remove_checkpoint(self._plan.domain.handle, name)
            self.no_checkpoint = f"{self._name} is damaged, or one that it is built on"

    def drop_old_checkpoints(self) -> None:
        """Delete the checkpoints of earlier backups in this directory, when a newer one is there. Raises VirtError.

        Of one that cannot be read nobody knows the series.
        """
        handle = self._plan.domain.handle
        if self._checkpoint:
            unread = [checkpoint_words(name, self._path) for name in self._plan.backups.broken]
            for name in (*own_checkpoints(handle, self._series), *described_checkpoints(handle, unread)):
                if name != self._checkpoint:
                    remove_checkpoint(handle, name)

    def _find_series(self) -> str:
        own = [one for one in self._plan.backups.newest_first() if one.uuid == self._plan.uuid]
        return own[0].series if own else secrets.token_hex(_SERIES_BYTES)

    def _fill(self) -> Manifest:
        plan = self._plan
        definition = definition_of(plan.domain)
        if plan.domain.active:
            self._back_up_running()
        else:
            self._back_up_stopped()
            self._states = self._copy_states()
        write_whole(f"{self._partial}/{DOMAIN_XML}", definition.encode(), 0o600)
        entries = []
        for disk in plan.disks:
            parent = plan.parent.id if plan.parent is not None and disk.role == DISK else None
            entry = DiskEntry(
                disk.target,
                file_of(disk),
                parent,
                disk.size_bytes,
                disk.format,
                disk.pool,
                disk.volume,
                disk.name,
                disk.role,
                source_file=disk.source_file,
            )
            if parent is not None:
                images.set_backing(self._partial, entry.file, parent)
            check_header(self._partial, entry)
            entries.append(entry)
        return Manifest(
            id=self._name,
            machine=plan.domain.name,
            uuid=plan.uuid,
            series=self._series,
            kind=plan.kind,
            parent=plan.parent.id if plan.parent else None,
            checkpoint=self._checkpoint,
            reason=plan.reason,
            running=plan.domain.active,
            quiesced=self._quiesced,
            disks=tuple(entries),
            files=self._digests(),
            left_out=plan.left_out,
            made_by=self._programs(),
            made_at=self._made_at,
            **self._states,
        )

    def _back_up_running(self) -> None:
        plan, handle = self._plan, self._plan.domain.handle
        files = {disk.target: f"{self._partial}/{file_of(disk)}" for disk in plan.by_job}
        others = [*plan.left_out, *(disk.target for disk in plan.disks if disk not in plan.by_job)]
        # Those that it has only from the next start on are unknown to a job.
        others = [target for target in others if target in attached_targets(plan.domain)]
        since = plan.parent.checkpoint if plan.parent else None
        checkpoint = None
        if self._checkpoint:
            words = checkpoint_words(self._name, self._path)
            checkpoint = checkpoint_xml(self._checkpoint, words, list(files), others)
        frozen = freeze(handle, self._options.quiesce, self._options.freeze_seconds)

        def begun() -> None:
            self._quiesced = thawed(frozen, self._options.quiesce, plan.domain.name)
            self._require_same_files()
            self._states = self._copy_states()

        def on_progress(done: int, total: int) -> None:
            self._meter.at("disks", done, total)

        xml = backup_xml(files, others, since)
        with thawed_on_error(frozen, plan.domain.name):
            run_backup(self._conn, handle, xml, checkpoint, self._stop, on_progress, self._on_remark, begun)
        self._require_checkpoint_to_be_of_use()
        for disk in plan.disks:
            if disk not in plan.by_job:
                self._copy(disk, 0)

    def _require_same_files(self) -> None:
        """Raise ConflictError where a disk is another file than when the plan was made, whose bitmap is of no use then.
        As the job has begun, QEMU has its files open."""
        for disk in self._plan.by_job:
            if disk.path and source_file(disk.path) != disk.source_file:
                raise ConflictError(
                    f"the file of disk {disk.target} was replaced while the backup began", hint="Run it again"
                )

    def _require_checkpoint_to_be_of_use(self) -> None:
        """Delete the checkpoint where somebody has taken a snapshot since the plan was made. It may be the older of the
        two, and what going back to it changes is in no bitmap."""
        found = snapshots(self._plan.domain.handle) if self._checkpoint else []
        if found:
            remove_checkpoint(self._plan.domain.handle, self._checkpoint)
            self._checkpoint = ""
            self.no_checkpoint = f"the machine got the snapshot {found[0]} while the backup began"

    def _back_up_stopped(self) -> None:
        """Under QEMU's own locks on the files: until the end the machine cannot be started. There are none of these in
        a cluster: that is asked again and again who has its volumes open, and when they were written to."""
        locks = [DiskLock(disk.path) for disk in self._plan.disks if disk.path]
        volumes = [(disk.cluster, disk.volume) for disk in self._plan.disks if disk.cluster is not None]
        in_cluster = UnchangedVolumes(volumes)
        try:
            for lock in locks:
                lock.hold()
            self._require_off()
            in_cluster.begin()
            started = last_start(self._plan.domain.name)
            done = 0
            for disk in self._plan.disks:
                done += self._copy(disk, done, in_cluster)
            for lock in locks:
                lock.check()
            self._require_off()
            in_cluster.check()
            # QEMU has nodes of its own for devices, whose locks and times tell nothing.
            if last_start(self._plan.domain.name) != started:
                raise ConflictError(
                    f"machine {self._plan.domain.name} was started, and stopped again, while it was being backed up",
                    hint="Run it again",
                )
        finally:
            for lock in locks:
                lock.release()

    def _require_off(self) -> None:
        name = self._plan.domain.name
        with translate_errors(f"cannot inspect machine {name}"):
            if self._plan.domain.handle.isActive():
                raise ConflictError(f"machine {name} was started while it was being backed up", hint="Run it again")

    def _copy(self, disk: BackupDisk, before: int, in_cluster: UnchangedVolumes | None = None) -> int:
        target = f"{self._partial}/{file_of(disk)}"

        def on_bytes(done: int) -> None:
            self._meter.at("disks", before + done, self._plan.needed_bytes)
            if in_cluster is not None:
                in_cluster.look(None if disk.cluster is None else (disk.cluster, disk.volume))

        images.convert(disk.image, disk.format, target, self._stop, on_bytes)
        return allocated_bytes(target)

    def _copy_states(self) -> dict[str, t.Any]:
        """NVRAM and the state of the TPM. What a machine that has never run has not got yet, is not in its backup."""
        found: dict[str, t.Any] = {}
        definition = read_description(f"machine {self._plan.domain.name}", definition_of(self._plan.domain))
        nvram = state_files.nvram_path(definition)
        if nvram is not None and os.path.exists(nvram):
            state_files.copy_in(nvram, f"{self._partial}/{_NVRAM}")
            found["nvram"] = _NVRAM
        tpm = state_files.tpm_state(definition, self._plan.uuid) if state_files.has_tpm(definition) else None
        if tpm is not None:
            path, place, files = tpm
            for file in files:
                state_files.copy_in(f"{path}/{file}", f"{self._partial}/{state_files.tpm_name(file)}")
            found["tpm"] = tuple(state_files.tpm_name(file) for file in files)
            found["tpm_directory"] = place
        return found

    def _digests(self) -> dict[str, FileEntry]:
        names = sorted(name for name in os.listdir(self._partial) if name != directory.MARKER)
        total = sum(os.lstat(f"{self._partial}/{name}").st_size for name in names)
        read = self._meter.counter("checksums", total)
        found = {}
        for name in names:
            images.settle(f"{self._partial}/{name}")
            found[name] = digest_file(self._partial, name, self._stop, read)
        return found

    def _programs(self) -> dict[str, str]:
        with translate_errors("cannot ask libvirt for its version"):
            found = {"libvirt": self._conn.getLibVersion(), "qemu": self._conn.getVersion()}
            host = self._conn.getHostname()
        return {**{name: version_text(number) for name, number in found.items()}, "hypervisor": host}


def file_of(disk: BackupDisk) -> str:
    return f"{disk.target}.qcow2"
