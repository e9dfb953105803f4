# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the option ``keep`` comes to: backups that go, and kept ones that are merged so that others can go."""

from __future__ import annotations

import threading
import typing as t
from dataclasses import replace
from datetime import datetime, timezone

from ..._base.errors import ConflictError, HostError, stopped
from ..._base.files import allocated_bytes
from ..._host.backup import directory
from ..._host.backup.damage import DamagedError
from ..._host.backup.directory import Backups, list_backups
from ..._host.backup.merge import merge_backup, needed_bytes, require_free
from ..._host.backup.verify import look_for_damage, problem_of, verify_chain
from ..._host.connection import VirConnect
from ..._host.locks import hypervisor_lock
from ..._host.progress import ProgressMeter
from ..._host.storage.disk_lock import first_open
from ..._host.storage.full_disk import free_in
from ..._host.storage.usage import unseen_program
from ..._model.backup.manifest import DISK, INCREMENTAL, DiskEntry, Manifest, next_id, time_text
from ..._model.backup.merging import Merge, merges
from ..._model.backup.retention import removable
from .kept import KeptBackups
from .make import file_of
from .options import BackupOptions
from .plan import BackupPlan
from .result import BackupResult, noted

STAY = "backups that are not to be kept stay"


def removable_of(backups: Backups, uuid: str, options: BackupOptions) -> list[Manifest]:
    """The backups that can go at once. Those of another machine that had this name stay, and those that one which
    cannot be read may be built on."""
    if options.keep is None:
        return []
    unread, damaged = last_unread(backups), _damaged(backups)
    # What is built on others is later than they are.
    return [manifest for manifest in removable(_own(backups, uuid), options.keep, damaged) if manifest.id > unread]


def merges_of(backups: Backups, uuid: str, options: BackupOptions) -> list[Merge]:
    """What is merged so that more can go, with the same limits."""
    if options.keep is None:
        return []
    return merges(_own(backups, uuid), options.keep, options.most_besides, last_unread(backups), _damaged(backups))


def _own(backups: Backups, uuid: str) -> list[Manifest]:
    return [manifest for manifest in backups.by_id.values() if manifest.uuid == uuid]


def _damaged(backups: Backups) -> set[str]:
    return {name for name in backups.by_id if backups.damage_of(name)}


def last_unread(backups: Backups) -> str:
    """The latest incremental backup that cannot be read, so that nobody knows what it is built on; empty for none."""
    return max((name for name in backups.broken if name.endswith(INCREMENTAL)), default="")


def foresee(
    conn: VirConnect, result: BackupResult, plan: BackupPlan, options: BackupOptions, ended: t.Container[str] = ()
) -> None:
    """Add to a result in check mode what retain would do when the planned backup is there.

    ended: the ids of the backups whose interrupted merge has been ended by then. Raises VirtError.
    """
    coming = _coming(plan)
    # Before it is among them: it has no files yet.
    look_for_damage(plan.backups)
    there = {name: one.after_merge() if name in ended else one for name, one in plan.backups.by_id.items()}
    backups = replace(plan.backups, by_id={**there, coming.id: coming})
    going, merging = removable_of(backups, plan.uuid, options), merges_of(backups, plan.uuid, options)
    if not going and not merging:
        return
    kept = KeptBackups(conn, backups, result.kept)
    gone = kept.going(going)
    _foresee_removal(result, [one.id for one in gone])
    # The backup is made first, and takes its room.
    free = free_in(options.destination) + plan.backups.unfinished_bytes - plan.needed_bytes
    free += sum(allocated_bytes(f"{backups.path_of(one.id)}/{file}") for one in gone for file in one.files)
    for merge in merging:
        if any(backups.by_id[name].merging for name in merge.merged) or not kept.can_merge(merge):
            continue
        with noted(result, STAY):
            for name in merge.merged:
                needed = needed_bytes(backups, backups.chain(name), merge.onto)
                needed += plan.needed_bytes if name == coming.id else 0
                require_free(_failure(name), options.destination, needed, free)
            for name in merge.merged:
                if name != coming.id:
                    result.merged.append(name)
                what = "the new backup" if name == coming.id else f"backup {name}"
                result.actions.append(merge_words(what, merge, result.name))
            _foresee_removal(result, [one.id for one in kept.going(backups.by_id[name] for name in merge.gone)])


def _foresee_removal(result: BackupResult, names: t.Iterable[str]) -> None:
    for name in names:
        result.removed.append(name)
        result.actions.append(removal_words(name, result.name))


def _coming(plan: BackupPlan) -> Manifest:
    """The planned backup, as far as it is known. Raises ConflictError."""
    now = datetime.now(timezone.utc)
    parent = plan.parent.id if plan.parent else None
    disks = tuple(
        DiskEntry(disk.target, file_of(disk), parent if disk.role == DISK else None, disk.size_bytes, disk.format)
        for disk in plan.disks
    )
    return Manifest(
        id=next_id(plan.backups.names, plan.kind, now),
        machine=plan.domain.name,
        uuid=plan.uuid,
        series="",
        kind=plan.kind,
        parent=parent,
        checkpoint="",
        reason=plan.reason,
        running=plan.domain.active,
        quiesced=False,
        disks=disks,
        files={},
        made_at=time_text(now),
    )


def retain(
    conn: VirConnect,
    result: BackupResult,
    uuid: str,
    options: BackupOptions,
    stop: threading.Event,
    meter: ProgressMeter,
) -> None:
    """Remove what is not to be kept, and merge what holds more of it than may be there. The directory is locked.

    What cannot be done is a remark in the result. Raises VirtError where nothing more can be done.
    """
    if options.keep is None:
        return
    backups = _listed(result, options)
    unread = last_unread(backups)
    if unread:
        result.remarks.append(
            f"backups before {unread} are all kept, as it cannot be read and may be built on them: "
            f"{backups.broken[unread].what}"
        )
    _remove(conn, result, backups, uuid, options)
    verified = set(result.verified)
    backups = _listed(result, options)
    for merge in merges_of(backups, uuid, options):
        if stop.is_set():
            raise stopped()
        if any(backups.by_id[name].merging for name in merge.merged):
            # It could not be ended, and a remark says so.
            continue
        if not KeptBackups(conn, backups, result.kept).can_merge(merge):
            continue
        with noted(result, STAY):
            for name in merge.merged:
                _merge(conn, result, name, merge, verified, options, stop, meter)
            backups = _listed(result, options)
            for name in merge.merged:
                problem = problem_of(backups, backups.chain(name)[0])
                if problem is not None:
                    raise problem
            _remove(conn, result, backups, uuid, options)


def _merge(
    conn: VirConnect,
    result: BackupResult,
    name: str,
    merge: Merge,
    verified: set[str],
    options: BackupOptions,
    stop: threading.Event,
    meter: ProgressMeter,
) -> None:
    """One kept backup. verified: the ids of those that were read back in this run, and are whole."""
    backups = _listed(result, options)
    chain = backups.chain(name)
    needed = needed_bytes(backups, chain, merge.onto)
    require_free(_failure(name), options.destination, needed)
    unseen = [one for one in chain if one.id not in verified]
    total = sum(one.total_bytes for one in unseen)
    try:
        verify_chain(backups, unseen, stop, meter.counter("verify", total))
    except DamagedError as exc:
        raise HostError(exc.what, hint=exc.hint or "The next backup is a full one") from exc
    verified.update(one.id for one in unseen)
    merge_backup(
        backups,
        name,
        merge.onto,
        stop,
        meter,
        lambda: _require_unused(conn, result, backups, name),
    )
    result.merged.append(name)
    result.actions.append(merge_words(f"backup {name}", merge, result.name))


def _require_unused(conn: VirConnect, result: BackupResult, backups: Backups, name: str) -> None:
    """Raise ConflictError when a machine has begun to use the files of a backup since its merge began."""
    manifest = backups.by_id[name]
    opened = first_open([f"{backups.path_of(name)}/{file}" for file in manifest.files])
    if opened is not None or not KeptBackups(conn, backups, result.kept).can_change(manifest):
        raise ConflictError(
            f"backup {name} is not merged, as its files came into use while that was prepared"
            + ("" if opened is None else f": {unseen_program(opened)}")
        )


def _remove(conn: VirConnect, result: BackupResult, backups: Backups, uuid: str, options: BackupOptions) -> None:
    removable = removable_of(backups, uuid, options)
    if not removable:
        return
    # Whoever makes a machine meanwhile might take a file of a backup for its disk.
    with hypervisor_lock("init", wait_seconds=options.lock_seconds):
        for manifest in KeptBackups(conn, backups, result.kept).going(removable):
            directory.remove(backups.path, manifest.id, manifest.files)
            result.removed.append(manifest.id)
            result.actions.append(removal_words(manifest.id, result.name))


def _listed(result: BackupResult, options: BackupOptions) -> Backups:
    backups = list_backups(options.destination, result.name, options.owner)
    look_for_damage(backups)
    return backups


def _failure(name: str) -> str:
    return f"cannot merge backup {name} with those that it is built on"


def removal_words(name: str, machine: str) -> str:
    """How the removal of a backup is described."""
    return f"remove backup {name} of {machine}"


def merge_words(backup: str, merge: Merge, machine: str) -> str:
    """How the merge of a backup is described. backup: the words for it."""
    becomes = "a full one" if merge.onto is None else f"one that is built on {merge.onto}"
    return f"merge {backup} of {machine} with those that it is built on, into {becomes}"


def end_words(name: str, machine: str) -> str:
    """How the end of an interrupted merge is described."""
    return f"end the interrupted merge of backup {name} of {machine}"


def tidy_words(backups: Backups, name: str) -> str:
    """How the removal of what a killed run has left is described."""
    return f"remove what an interrupted run has left: {backups.path}/{name}"
