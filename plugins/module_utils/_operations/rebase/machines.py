# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several machines get other images below their disks: all are planned before the first is changed.

A disk is made anew beside itself while nobody can write to it, and takes its own place under the hypervisor's lock,
where the image is looked for again: from then on it is seen to be in use, and nobody removes it. It is noted as taken
into use before, for a run on another hypervisor that shares the store and does not look here any more.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError, HostError, VirtError, outcome, own_error, stopped
from ..._base.files import allocated_bytes
from ..._host.connection import VirConnect
from ..._host.images.listing import note_use
from ..._host.locks import hypervisor_lock, machine_lock
from ..._host.machines.domains import write_notes
from ..._host.progress import HowFar, ProgressFile, ProgressMeter
from ..._host.storage.disk_lock import DiskLock
from ..._host.storage.file_chain import file_id
from ..._host.storage.pool_refresh import refresh_pool
from ..._host.storage.transfer.rebase import RebasedFile
from ..snapshot.view import SnapshotView
from .plan import DiskRebase, RebasePlan, RebaseRequest, plan_rebase, removal_words, with_image


@dataclass
class RebaseResult:
    """One machine: what is to be done (plan; None where it cannot be), and what became of it.

    done: the actions that are finished. disks: those that were done, or would be, as the result shows them.
    """

    name: str
    plan: RebasePlan | None = None
    error: VirtError | None = None
    done: list[str] = field(default_factory=list)
    disks: list[dict[str, t.Any]] = field(default_factory=list)
    seconds: float = 0.0

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        more = {
            "actions": self.done,
            "disks": self.disks,
            "remarks": list(self.plan.remarks) if self.plan is not None else [],
            "seconds": round(self.seconds, 1),
        }
        return outcome(self.name, bool(self.done), self.error, more)


def plan_machines(conn: VirConnect, names: Sequence[str], request: RebaseRequest) -> list[RebaseResult]:
    """A plan for each machine, in order; nothing is changed. What keeps one from being done is its own error."""
    results = [RebaseResult(name) for name in dict.fromkeys(names)]
    for result in results:
        with own_error(result):
            plan = plan_rebase(conn, result.name, request)
            plan.require_room()
            result.plan = plan
    return results


def preview(results: Sequence[RebaseResult]) -> None:
    """What carrying the plans out would come to, for check mode."""
    for result in results:
        if result.plan is not None:
            result.done = result.plan.actions
            result.disks = [_shown(disk) for disk in result.plan.disks]


def carry_out(
    conn: VirConnect,
    results: Sequence[RebaseResult],
    request: RebaseRequest,
    stop: threading.Event,
    progress: ProgressFile,
    *,
    lock_seconds: float,
) -> None:
    """Do what is planned, one machine after the other: each of them reads and writes whole disks. One machine's failure
    is its own; the others go on.

    lock_seconds: how long to wait for another run that works on this hypervisor.
    """
    for result in results:
        if result.plan is None or not result.plan.actions:
            continue
        began = time.monotonic()
        with own_error(result):
            if stop.is_set():
                raise stopped()
            meter = ProgressMeter(progress.write_line, result.name)
            _Rebase(conn, result, request, stop, meter, lock_seconds).carry_out()
        result.seconds = time.monotonic() - began


def _shown(disk: DiskRebase) -> dict[str, t.Any]:
    return {
        "target": disk.target,
        "name": disk.name,
        "pool": disk.pool.name,
        "volume": disk.volume,
        "from": os.path.basename(disk.base.path),
        "to": None if disk.image is None else disk.image.volume,
        "allocation_bytes_before": allocated_bytes(disk.path),
        "allocation_bytes": None,
    }


@dataclass
class _Rebase:
    """Carries out what one machine needs."""

    conn: VirConnect
    result: RebaseResult
    request: RebaseRequest
    stop: threading.Event
    meter: ProgressMeter
    lock_seconds: float

    def carry_out(self) -> None:
        name = self.result.name
        # Nobody starts, moves or changes the machine meanwhile who asks for this lock.
        with machine_lock(name, wait_seconds=self.lock_seconds):
            plan = self.result.plan = plan_rebase(self.conn, name, self.request)
            plan.require_room()
            for path, part in plan.left:
                self._remove(path, part)
            for disk in plan.disks:
                self._carry_out(disk)

    def _remove(self, path: str, part: str) -> None:
        """Remove what a killed run has left: none is at work there who could still need it."""
        file = RebasedFile(path, None, self.stop, lambda _far: None)
        try:
            file.begin()
            os.unlink(part)
        except OSError as exc:
            raise HostError(f"cannot remove {part}: {exc.strerror}") from exc
        finally:
            file.end()
        self.result.done.append(removal_words(part))

    def _carry_out(self, disk: DiskRebase) -> None:
        shown = _shown(disk)
        # Who starts it in another way is refused by QEMU.
        lock = DiskLock(disk.path)
        file = RebasedFile(disk.path, disk.new_base, self.stop, self._progress_of(disk))
        image = None if disk.image is None else file_id(disk.image.path)
        try:
            file.begin()
            lock.hold()
            file.make()
            with hypervisor_lock("init", wait_seconds=self.lock_seconds):
                if disk.image is not None:
                    note_use(disk.image.path)
                now = self._require_unchanged(disk, image)
                lock.check()
                self._put_in_place(file, now, disk)
            self.result.done.append(disk.words)
            self.result.disks.append({**shown, "allocation_bytes": allocated_bytes(disk.path)})
        finally:
            lock.release()
            file.end()
            # It may have been seen beside the other volumes. A pool that is busy is looked through another time.
            with contextlib.suppress(VirtError):
                refresh_pool(disk.pool.handle, disk.pool.name)

    def _put_in_place(self, file: RebasedFile, machine: SnapshotView, disk: DiskRebase) -> None:
        """The note first: killed after it, the machine's disk itself still says that it needs the old image."""
        notes = with_image(machine, disk)
        if notes is not None:
            write_notes(machine.power.handle, notes)
        try:
            file.put_in_place()
        except VirtError:
            if notes is not None and machine.notes is not None:
                write_notes(machine.power.handle, machine.notes)
            raise

    def _require_unchanged(self, disk: DiskRebase, image: t.Hashable) -> SnapshotView:
        """The machine now. Raises ConflictError when it is not what it was, or the image is not there any more."""
        volume = None if disk.image is None else disk.image.volume
        request = replace(self.request, image=volume, disks=(disk.target,))
        now = plan_rebase(self.conn, self.result.name, request)
        if not any((one.path, one.base, one.new_base) == (disk.path, disk.base, disk.new_base) for one in now.disks):
            raise ConflictError(f"disk {disk.target} or its image has changed meanwhile", hint="Run it again")
        if disk.image is not None and file_id(disk.image.path) != image:
            raise ConflictError(f"image {disk.image.volume} was replaced meanwhile", hint="Run it again")
        return now.machine

    def _progress_of(self, disk: DiskRebase) -> t.Callable[[HowFar], None]:
        def show(far: HowFar) -> None:
            self.meter.show(replace(far, phase=f"disk {disk.target}, {far.phase}"))

        return show
