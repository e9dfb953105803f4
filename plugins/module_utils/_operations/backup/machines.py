# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backups of several machines, one after the other; one that fails says so, and the others go on."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    InputError,
    VirtError,
    as_virt_error,
    stopped,
)
from ansible_collections.brine.virt.plugins.module_utils._host.backup import directory
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import Backups, list_backups, locked
from ansible_collections.brine.virt.plugins.module_utils._host.backup.job import end_job_of_killed_run
from ansible_collections.brine.virt.plugins.module_utils._host.backup.verify import verify_backup, verify_chain
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect
from ansible_collections.brine.virt.plugins.module_utils._host.locks import machine_lock
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest
from ansible_collections.brine.virt.plugins.module_utils._model.meter import ProgressMeter
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.make import BackupMaker
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.plan import (
    BackupPlan,
    last_unread,
    plan_backup,
    removable_after,
    removable_of,
    removal_words,
    require_room,
    tidy_words,
)


@dataclass
class BackupResult:
    """What became of one machine. remarks: what the user should know though nothing has failed. to_verify: what would
    be read back, in check mode."""

    name: str
    plan: BackupPlan | None = None
    made: Manifest | None = None
    backups: Backups | None = None
    verified: list[str] = field(default_factory=list)
    to_verify: list[str] | None = None
    removed: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    error: VirtError | None = None
    seconds: float = 0.0

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        result: dict[str, t.Any] = {
            "name": self.name,
            "changed": bool(self.actions),
            "failed": self.error is not None,
            "actions": self.actions,
            "removed": self.removed,
            "verified": self.verified,
            "backups": [] if self.backups is None else [_entry(one) for one in self.backups.newest_first()],
            "broken": {} if self.backups is None else {name: str(why) for name, why in self.backups.broken.items()},
            "path": None if self.backups is None else self.backups.path,
            "remarks": self.remarks,
            "seconds": round(self.seconds, 1),
        }
        if self.to_verify is not None:
            result["to_verify"] = self.to_verify
        if self.plan is not None:
            parent = self.plan.parent
            result.update(
                id=self.made.id if self.made else None,
                kind=self.plan.kind,
                parent=parent.id if parent else None,
                reason=self.plan.reason,
                no_checkpoint=self.plan.no_checkpoint,
                left_out=self.plan.left_out,
                quiesced=self.made.quiesced if self.made else None,
                bytes=self.made.total_bytes if self.made else None,
            )
        if self.error is not None:
            result["msg"] = str(self.error)
        return result


def _entry(manifest: Manifest) -> dict[str, t.Any]:
    return {
        "id": manifest.id,
        "kind": manifest.kind,
        "parent": manifest.parent,
        "made": manifest.made.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uuid": manifest.uuid,
        "bytes": manifest.total_bytes,
        "quiesced": manifest.quiesced,
        "disks": [disk.target for disk in manifest.disks],
    }


def preview(conn: VirConnect, names: Sequence[str], options: BackupOptions) -> list[BackupResult]:
    """What backing up the machines would come to, for check mode."""
    results = []
    for name in dict.fromkeys(names):
        result = BackupResult(name)
        try:
            plan = result.plan = plan_backup(conn, name, options)
            require_room(plan, options)
            result.backups = plan.backups
            result.removed = [one.id for one in removable_after(plan, options)]
            result.actions = [
                *(tidy_words(plan.backups, left) for left in plan.backups.unfinished),
                plan.words,
                *(removal_words(one, name) for one in result.removed),
            ]
        except Exception as exc:  # whatever it is, it is not the other machines' fault
            result.error = as_virt_error(exc)
        results.append(result)
    return results


def back_up(
    conn: VirConnect, names: Sequence[str], options: BackupOptions, stop: threading.Event, progress: ProgressFile
) -> list[BackupResult]:
    """Back up the machines."""
    results = []
    for name in dict.fromkeys(names):
        result = BackupResult(name)
        began = time.monotonic()
        try:
            if stop.is_set():
                raise stopped()
            _back_up(conn, result, options, stop, ProgressMeter(progress.write_line, name))
        except Exception as exc:  # as above
            result.error = as_virt_error(exc)
        result.seconds = time.monotonic() - began
        results.append(result)
    return results


def _back_up(
    conn: VirConnect, result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter
) -> None:
    name, seconds = result.name, options.lock_seconds
    # Before anything is made: a machine that is not there gets no directory.
    plan_backup(conn, name, options)
    with machine_lock(name, wait_seconds=seconds), locked(options.destination, name, seconds, options.owner):
        _tidy(conn, result, options)
        # Under the locks, and without what a killed run has left.
        plan = result.plan = plan_backup(conn, name, options)
        require_room(plan, options)
        maker = BackupMaker(conn, plan, options, stop, meter)
        result.made = maker.make()
        result.plan = replace(plan, no_checkpoint=maker.no_checkpoint)
        result.actions.append(f"{plan.words}: {result.made.id}")
        if options.verify:
            # Before anything goes: an earlier one may be all that there is.
            result.backups = list_backups(options.destination, name, options.owner)
            chain = result.backups.chain(result.made.id)
            verify_chain(result.backups, chain, stop)
            result.verified = [one.id for one in chain]
        # What follows does not make the backup any worse: it is there.
        with _as_warning(result, "the checkpoint of the backup before it stays"):
            maker.drop_old_checkpoints()
        with _as_warning(result, "backups that are not to be kept stay"):
            _remove_old(result, plan, options)
        result.backups = list_backups(options.destination, name, options.owner)


def _tidy(conn: VirConnect, result: BackupResult, options: BackupOptions) -> None:
    """End and remove what a killed run has left of its backup."""
    plan = plan_backup(conn, result.name, options)
    if plan.domain.active:
        end_job_of_killed_run(plan.domain.handle, plan.backups.path)
    for name in plan.backups.unfinished:
        directory.remove(plan.backups.path, name)
        result.actions.append(tidy_words(plan.backups, name))


def _remove_old(result: BackupResult, plan: BackupPlan, options: BackupOptions) -> None:
    backups = list_backups(options.destination, result.name, options.owner)
    unread = last_unread(backups) if options.keep else ""
    if unread:
        result.remarks.append(
            f"backups before {unread} are all kept, as it cannot be read and may be built on them: "
            f"{backups.broken[unread].what}"
        )
    for manifest in removable_of(backups, plan.uuid, options):
        directory.remove(plan.backups.path, manifest.id)
        result.removed.append(manifest.id)
        result.actions.append(removal_words(manifest.id, result.name))


class _as_warning:  # noqa: N801 - used like contextlib.suppress
    """An error of ours in the block is only noted."""

    def __init__(self, result: BackupResult, what: str) -> None:
        self._result = result
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: t.Any, exc: BaseException | None, _trace: t.Any) -> bool:
        if not isinstance(exc, VirtError):
            return False
        self._result.remarks.append(f"{self._what}: {exc}")
        return True


def preview_verify(names: Sequence[str], options: BackupOptions) -> list[BackupResult]:
    """What verify_all would read back, for check mode."""
    results = []
    for name in dict.fromkeys(names):
        result = BackupResult(name)
        try:
            result.to_verify = [one.id for one in _there(result, options).newest_first()]
        except Exception as exc:  # as above
            result.error = as_virt_error(exc)
        results.append(result)
    return results


def verify_all(
    names: Sequence[str], options: BackupOptions, stop: threading.Event, progress: ProgressFile
) -> list[BackupResult]:
    """Read all backups of the machines back. The machines themselves need not be there."""
    results = []
    for name in dict.fromkeys(names):
        result = BackupResult(name)
        began = time.monotonic()
        try:
            _verify(result, options, stop, ProgressMeter(progress.write_line, name))
        except Exception as exc:  # as above
            result.error = as_virt_error(exc)
        result.seconds = time.monotonic() - began
        results.append(result)
    return results


def _there(result: BackupResult, options: BackupOptions) -> Backups:
    backups = result.backups = list_backups(options.destination, result.name, options.owner)
    if not backups.by_id and not backups.broken:
        raise InputError(f"there is no backup of machine {result.name} in {options.destination}", where="name")
    return backups


def _verify(result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter) -> None:
    backups = _there(result, options)
    total, done = sum(one.total_bytes for one in backups.by_id.values()), 0
    problems = [str(error) for error in backups.broken.values()]

    def read(length: int) -> None:
        nonlocal done
        done += length
        meter.at("verify", done, total)

    bad: set[str] = set()
    # The oldest first: what is built on a bad one is bad as well.
    for manifest in reversed(backups.newest_first()):
        try:
            backups.chain(manifest.id)
            verify_backup(backups, manifest, stop, read)
            if manifest.parent in bad:
                problems.append(f"backup {manifest.id} is built on {manifest.parent}, which is damaged")
                bad.add(manifest.id)
            else:
                result.verified.append(manifest.id)
        except VirtError as exc:
            if stop.is_set():
                raise
            bad.add(manifest.id)
            problems.append(str(exc))
    if problems:
        raise VirtError("; ".join(problems))
