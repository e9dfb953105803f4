# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backups of several machines, one after the other; one that fails says so, and the others go on."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from ..._base.errors import HostError, InputError, VirtError, own_error, stopped
from ..._host.backup import directory
from ..._host.backup.damage import DamagedError, forget_damage, note_damage
from ..._host.backup.directory import Backups, list_backups, locked, require_writable
from ..._host.backup.job import end_job_of_killed_run, left_job
from ..._host.backup.merge import end_merge
from ..._host.backup.paused import paused_by_error
from ..._host.backup.verify import OnBytes, verify_backup, verify_chain
from ..._host.connection import OPEN_SECONDS, VirConnect, reconnected
from ..._host.locks import machine_lock
from ..._host.progress import ProgressFile, ProgressMeter
from ..._model.backup.manifest import Manifest
from .kept import KeptBackups
from .make import BackupMaker
from .options import BackupOptions
from .plan import BackupPlan, plan_backup, require_ready
from .result import BackupResult, noted
from .retain import STAY, end_words, foresee, retain, tidy_words

_LEFT_STAYS = "what an interrupted run has left stays"


def preview(conn: VirConnect, names: Sequence[str], options: BackupOptions) -> list[BackupResult]:
    """What backing up the machines would come to, for check mode."""
    results = [BackupResult(name) for name in dict.fromkeys(names)]
    for result in results:
        with own_error(result):
            plan = result.plan = plan_backup(conn, result.name, options)
            # What locks, and what ends the job of a killed run, find out in the real one.
            require_writable(options.destination, result.name)
            ended_first = plan.domain.active and left_job(plan.domain.handle, plan.backups.path)
            if not ended_first:
                _note_paused(result, plan)
            require_ready(plan, options, plan.backups.unfinished_bytes)
            result.backups = plan.backups
            ended: list[str] = []
            if plan.backups.merging or plan.backups.unfinished:
                with noted(result, _LEFT_STAYS):
                    kept = KeptBackups(conn, plan.backups, result.kept)
                    ended = [left.id for left in plan.backups.merging if kept.can_change(left)]
                    result.actions += [end_words(left, result.name) for left in ended]
                    result.actions += [tidy_words(plan.backups, left) for left in kept.unfinished()]
            result.actions.append(plan.words)
            with noted(result, STAY):
                foresee(conn, result, plan, options, ended)
            result.note_broken()
    return results


def back_up(
    conn: VirConnect, names: Sequence[str], options: BackupOptions, stop: threading.Event, progress: ProgressFile
) -> list[BackupResult]:
    """Back up the machines."""
    results = [BackupResult(name) for name in dict.fromkeys(names)]
    for result in results:
        began = time.monotonic()
        with own_error(result):
            if stop.is_set():
                raise stopped()
            # libvirt may have been restarted during the backup of the one before.
            with reconnected(conn, conn.getURI(), OPEN_SECONDS) as now:
                _back_up(now, result, options, stop, ProgressMeter(progress.write_line, result.name))
        result.seconds = time.monotonic() - began
    return results


def _back_up(
    conn: VirConnect, result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter
) -> None:
    name, seconds = result.name, options.lock_seconds
    # Before anything is made: a machine that is not there gets no directory.
    plan_backup(conn, name, options)
    with contextlib.ExitStack() as held:
        held.enter_context(machine_lock(name, wait_seconds=seconds))
        with locked(options.destination, name, seconds, options.owner):
            plan = _make(conn, result, options, stop, meter)
            # What follows is between the backups alone, and may take long.
            held.close()
            with noted(result, STAY):
                retain(conn, result, plan.uuid, options, stop, meter)
            result.backups = list_backups(options.destination, name, options.owner)
            result.note_broken()


def _make(
    conn: VirConnect, result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter
) -> BackupPlan:
    """The backup, under both locks; what it was planned to be."""
    name = result.name
    _tidy(conn, result, options, stop, meter)
    # Without what a killed run has left.
    plan = result.plan = plan_backup(conn, name, options)
    # First: what has paused it, such as a full directory, may keep this backup from beginning as well.
    _note_paused(result, plan)
    require_ready(plan, options)
    maker = BackupMaker(conn, plan, options, stop, meter, result.remarks.append)
    result.made = maker.make()
    result.plan = replace(plan, no_checkpoint=maker.no_checkpoint)
    result.actions.append(f"{plan.words}: {result.made.id}")
    if options.verify:
        # Before anything goes: an earlier one may be all that there is.
        result.backups = list_backups(options.destination, name, options.owner)
        chain = result.backups.chain(result.made.id)
        read = meter.counter("verify", sum(one.total_bytes for one in chain))
        try:
            verify_chain(result.backups, chain, stop, read)
        except HostError:
            # Whatever is built on it would be damaged as well.
            with noted(result, "the checkpoints of the damaged backups stay"):
                maker.drop_checkpoints()
                result.plan = replace(plan, no_checkpoint=maker.no_checkpoint)
            raise
        result.verified = [one.id for one in chain]
    # What follows does not make the backup any worse: it is there.
    with noted(result, "the checkpoint of the backup before it stays"):
        maker.drop_old_checkpoints()
    return plan


def _tidy(
    conn: VirConnect, result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter
) -> None:
    """End and remove what a killed run has left of its backup, and end a merge that it had begun."""
    plan = plan_backup(conn, result.name, options)
    if plan.domain.active:
        end_job_of_killed_run(plan.domain.handle, plan.backups.path, result.remarks.append)
    if not plan.backups.merging and not plan.backups.unfinished:
        return
    going: list[str] = []
    with noted(result, _LEFT_STAYS):
        kept = KeptBackups(conn, plan.backups, result.kept)
        going = kept.unfinished()
        for manifest in plan.backups.merging:
            with noted(result, "an interrupted merge stays as it is"):
                if kept.can_change(manifest):
                    end_merge(plan.backups, manifest, stop, meter)
                    result.actions.append(end_words(manifest.id, result.name))
    for name in going:
        directory.remove(plan.backups.path, name)
        result.actions.append(tidy_words(plan.backups, name))


def _note_paused(result: BackupResult, plan: BackupPlan) -> None:
    """Remark that an I/O error has paused the machine, before its backup begins: it is not resumed, as nobody knows why
    that was."""
    if plan.domain.active and paused_by_error(plan.domain.handle):
        result.remarks.append(
            "an I/O error has paused it before this backup, such as that of a full directory in a backup that was "
            f"killed, and it stays paused: remove the cause, and resume it (virsh resume {shlex.quote(result.name)})"
        )


def preview_verify(names: Sequence[str], options: BackupOptions) -> list[BackupResult]:
    """What verify_all would read back, for check mode."""
    results = [BackupResult(name) for name in dict.fromkeys(names)]
    for result in results:
        with own_error(result):
            result.to_verify = [one.id for one in _there(result, options).newest_first()]
            result.note_broken()
    return results


def verify_all(
    names: Sequence[str], options: BackupOptions, stop: threading.Event, progress: ProgressFile
) -> list[BackupResult]:
    """Read all backups of the machines back. The machines themselves need not be there."""
    results = [BackupResult(name) for name in dict.fromkeys(names)]
    for result in results:
        began = time.monotonic()
        with own_error(result):
            _verify(result, options, stop, ProgressMeter(progress.write_line, result.name))
        result.seconds = time.monotonic() - began
    return results


def _there(result: BackupResult, options: BackupOptions) -> Backups:
    backups = result.backups = list_backups(options.destination, result.name, options.owner)
    if not backups.by_id and not backups.broken:
        raise InputError(f"there is no backup of machine {result.name} in {options.destination}")
    return backups


def _verify(result: BackupResult, options: BackupOptions, stop: threading.Event, meter: ProgressMeter) -> None:
    backups = _there(result, options)
    read = meter.counter("verify", sum(one.total_bytes for one in backups.by_id.values()))
    problems = [str(error) for error in backups.broken.values()]
    bad: set[str] = set()
    # The oldest first: what is built on a bad one is bad as well.
    for name in sorted(backups.by_id):
        manifest, problem = _read_back(result, options, name, stop, read)
        if manifest is not None and not problem and manifest.parent in bad:
            problem = f"backup {name} is built on {manifest.parent}, which is damaged"
        if problem:
            bad.add(name)
            problems.append(problem)
        elif manifest is not None:
            result.verified.append(name)
    if problems:
        raise VirtError("; ".join(problems))


def _read_back(
    result: BackupResult, options: BackupOptions, name: str, stop: threading.Event, read: OnBytes
) -> tuple[Manifest | None, str]:
    """One backup: what it is, None where it has gone meanwhile; and what is wrong with it, empty where nothing is.

    Nobody is kept from making, merging and removing backups for as long as it takes to read all: where something is
    wrong, and they have changed meanwhile, it is read again.
    """
    backups = result.backups or _there(result, options)
    while True:
        manifest = backups.by_id.get(name)
        if manifest is None:
            return None, str(backups.broken.get(name, ""))
        try:
            backups.chain(name)
            verify_backup(backups, manifest, stop, read)
        except VirtError as exc:
            if stop.is_set():
                raise
            problem = exc
        else:
            with noted(result, f"that backup {name} was damaged stays noted, though it is whole"):
                forget_damage(backups, manifest)
            return manifest, ""
        before = backups
        backups = result.backups = list_backups(options.destination, result.name, options.owner)
        if (before.by_id, before.broken.keys()) == (backups.by_id, backups.broken.keys()):
            if isinstance(problem, DamagedError):
                problem = note_damage(backups, manifest, problem)
            return manifest, str(problem)
