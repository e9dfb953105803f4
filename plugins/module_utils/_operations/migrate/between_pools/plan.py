# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a machine's disks are in other pools of its hypervisor.

QEMU copies the disks of a running machine and goes on with the copies; those of one that is off are copied, and then it
is defined with them. Until then all of it can be rolled back. The old volumes go when the machine has the new ones.
"""

from __future__ import annotations

import dataclasses

from ...._base.errors import ConflictError, NotFoundError, UnsupportedError
from ...._host.connection import translate_errors
from ...._host.identity import host_identity
from ...._host.machines.domains import read_domain
from ...._host.machines.set_aside import all_snapshots
from ...._host.storage.pools import Pools, require_free_space
from ...._host.storage.transfer.block_copy import wait_for_pivot
from ...._model.metadata.migration import MigrationNote
from ..context import MigrationContext, MigrationPlan, NoteWriter, ProgressCallback
from ..endpoints.source_and_target import SourceMachine, read_source_machine
from ..preflight import check_finished, check_free_space_on_target, check_source_volumes, is_saved, space_requests
from ..recheck import WriteGuard, recheck_source
from ..storage.disks import DiskMigration
from .disks import plan_pool_disks
from .steps import PoolMoveSteps


def plan_between_pools(
    name: str, context: MigrationContext, where: str, on_progress: ProgressCallback
) -> MigrationPlan:
    """All that has to be done; nothing when the disks are where the task wants them.

    context: with this hypervisor as the target. on_progress: takes phase, bytes done and all bytes, while it is done.
    Raises an error of ours, with what speaks against it.
    """
    domain = context.source.domains.get(name)
    if domain is None:
        raise ConflictError(
            f"there is no machine {name} here", where=where, hint="Run this on the hypervisor that it is on"
        )
    domain.require_readable(where)
    machine = read_source_machine(domain, where)
    target, options, old = context.target, context.options, machine.moving
    if not options.names_pools and (old is None or not old.stays):
        # It is where it is to be. What another move has left behind is for a run on its old hypervisor.
        return MigrationPlan(name)
    if old is not None:
        _check_earlier_move(machine, old, context, where)
        _require_pools(machine, old, context, where)
        # Who was killed may have asked for it a moment ago.
        wait_for_pivot(machine.handle)
        with translate_errors(f"cannot inspect machine {name}", where):
            machine = read_source_machine(read_domain(machine.handle), where)
    disks = plan_pool_disks(machine, context.source, target, options, where)
    migration = MigrationPlan(
        name,
        disks=disks,
        timeout_seconds=options.timeout_seconds,
        switched_words="has its disks in the new pools",
        timeout_hint="Raise timeout or bandwidth",
    )
    if not disks and old is None:
        return migration
    check_staying(machine, where)
    check_source_volumes(machine, disks, context.source, where)
    if old is None:
        # What an interrupted run has left takes room, and goes first.
        check_free_space_on_target(disks, target, where)
    target.hypervisor.space_requests = space_requests(disks, target)
    target.volumes.update((disk.target_pool.name, disk.volume.name) for disk in disks)
    writer, guard = NoteWriter(_note_of(machine, disks, context, old)), WriteGuard(machine, context.source.conn)

    def check_space() -> None:
        pools = Pools(context.source.conn)
        now = [dataclasses.replace(disk, target_pool=pools.get(disk.target_pool.name)) for disk in migration.disks]
        mine = space_requests(now, target)[len(target.hypervisor.space_requests) :]
        require_free_space(mine, where or None)

    steps = PoolMoveSteps(
        migration,
        dataclasses.replace(machine, moving=None),
        context,
        writer,
        guard,
        check_space,
        migration.limit(on_progress),
    )
    migration.recheck = lambda: recheck_source(machine, lambda now: check_staying(now, where), where)
    migration.release = guard.end
    if old is not None:
        migration.before.append(steps.finish_earlier(old))
    steps.plan_disks()
    return migration


def check_staying(machine: SourceMachine, where: str) -> None:
    """Raise when something ties the machine to the volumes that it has now."""
    check_finished(machine, where)
    names = ", ".join(sorted(one.name for one in all_snapshots(machine.handle)))
    if names:
        raise UnsupportedError(
            f"{machine.name} has snapshots ({names}), which name the volumes that its disks are on now",
            where=where,
            hint="Delete them first: virt_snapshot with state: absent",
        )
    if is_saved(machine, where):
        raise UnsupportedError(
            f"the state of {machine.name} is saved, and names the volumes that its disks are on now",
            where=where,
            hint="Start it first, and move its disks while it runs",
        )


def _check_earlier_move(machine: SourceMachine, old: MigrationNote, context: MigrationContext, where: str) -> None:
    """Raise ConflictError unless what was interrupted is such a move as well, and was on this hypervisor."""
    if old.stays and old.source == context.source_name and old.source_id == host_identity():
        return
    raise ConflictError(
        f"{machine.name} {old.words}, or that was interrupted",
        where=where,
        hint=f"Finish that first: virt_migrate on {old.source}"
        f"{'' if old.stays else f', with {old.target} as its target'}. If {old.source} is gone for good: "
        f"{old.removal(machine.name, active=machine.active)}",
    )


def _require_pools(machine: SourceMachine, old: MigrationNote, context: MigrationContext, where: str) -> None:
    """Raise NotFoundError when a pool that an interrupted run was copying to is not there any more."""
    for made in old.made:
        try:
            context.source.pools.get(made.pool)
        except NotFoundError as exc:
            raise NotFoundError(
                f"an interrupted run may have left volume {made.name} of {machine.name} in pool {made.pool}, which is "
                "not there any more",
                where=where,
                hint="Define the pool again, and run it again. If it is gone for good, with what was in it: "
                + old.removal(machine.name, active=machine.active),
            ) from exc


def _note_of(
    machine: SourceMachine, disks: list[DiskMigration], context: MigrationContext, old: MigrationNote | None
) -> MigrationNote:
    """old: of a run that was interrupted, which may have switched its autostart off; it is on again by then."""
    return MigrationNote(
        source=context.source_name,
        target=context.source_name,
        uri=context.endpoints.source,
        made=tuple(dataclasses.replace(disk.ref_there, origin=disk.ref.pool) for disk in disks),
        left=tuple(disk.ref for disk in disks if disk.own),
        autostart=machine.autostart or (old is not None and old.holds_autostart),
        running=machine.active,
        source_id=host_identity(),
    )
