# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The migration of one machine to another hypervisor: planned as a whole, then run step by step.

Until the switch everything can be rolled back, and is when something fails. After the switch there is only forward:
what is still to be done at the source stands in the machine's own note, so that a later run can finish it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..._base.errors import ConflictError
from ..._host.identity import host_identity
from ..._host.machines.start_watch import last_start
from ..._host.storage.pools import SpaceRequest
from ..._model.metadata.migration import MigrationNote, read_migration_note
from ..._model.metadata.snapshots import read_set_aside
from ..plan import Step
from .context import MigrationContext, MigrationPlan, NoteWriter, ProgressCallback
from .endpoints.source_and_target import MigrationTarget, SourceMachine, read_source_machine
from .preflight import (
    check_source_machine,
    check_source_volumes,
    check_target,
    left_over_space,
    require_space_on,
    space_requests,
)
from .recheck import TargetRecheck, WriteGuard, recheck_source
from .snapshots import check_snapshots_on_target, has_snapshots, set_aside_step
from .steps import PreparingSteps, finishing_steps
from .storage.cleanup import volumes_left_aside
from .storage.disks import CONTENT, SHARED, DiskMigration, plan_disks
from .storage.images import is_stored
from .switch import end_at_source, figures, is_taken_over, move_step


def plan_migration(name: str, context: MigrationContext, where: str, on_progress: ProgressCallback) -> MigrationPlan:
    """All that has to be done to move a machine; nothing when it is on the target already.

    Everything is checked here. on_progress: takes phase, bytes done and all bytes, while it is done.
    Raises an error of ours, with what speaks against it.
    """
    domain = context.source.domains.get(name)
    if domain is None:
        return _migrated_before(name, context, where)
    domain.require_readable(where)
    machine = read_source_machine(domain, where)
    if context.target.name == context.source_name:
        if machine.uuid in {there.handle.UUIDString() for there in context.target.hypervisor.domains.values()}:
            return MigrationPlan(name)
        raise ConflictError(
            f"both hypervisors have the host name {context.target.name}, so libvirt treats them as one",
            where=where,
            hint="Give each its own host name",
        )
    _check_earlier_move(machine, context, where)
    if is_taken_over(machine, context, where) and machine.moving is not None:
        return _taken_over(machine, machine.moving, context)
    check_source_machine(machine, context.options, where)
    check_target(machine, context.target, context.options, where)
    disks = plan_disks(machine, context.source, context.target, context.options, where, probe=not context.check_mode)
    places = [(disk.here.place, disk.there.place) for disk in disks]
    check_snapshots_on_target(name, machine.handle, context.target.hypervisor.conn, places, where)
    check_source_volumes(machine, disks, context.source, where)
    # What an interrupted run has left takes room, and goes first.
    space = [*space_requests(disks, context.target), *left_over_space(machine.moving, context.target)]
    require_space_on(context.target, space, where)
    _allocate(machine, disks, context.target, space)
    note = MigrationNote(
        source=context.source_name,
        target=context.target.name,
        uri=context.endpoints.target,
        made=tuple(disk.ref_there for disk in disks if disk.travels),
        left=tuple(disk.ref for disk in disks if disk.travels and disk.own),
        # An interrupted run may have switched it off.
        autostart=machine.autostart or (machine.moving is not None and machine.moving.autostart),
        running=machine.active,
        source_id=host_identity(),
        start=last_start(name) if machine.active else "",
    )
    writer, guard = NoteWriter(note), WriteGuard(machine, context.source.conn)
    migration = MigrationPlan(name, disks=disks, timeout_seconds=context.options.timeout_seconds)
    if context.options.postcopy or not machine.active:
        # What takes too long then is a copy of ours, which post-copy does not shorten.
        migration.timeout_hint = "Raise timeout"
    target_recheck = TargetRecheck(context, where)
    # Once the first step is done, nothing there is taken for a left-over any more.
    moving = dataclasses.replace(machine, moving=None)
    steps = PreparingSteps(migration, moving, context, writer, guard, target_recheck, migration.limit(on_progress))

    def recheck() -> None:
        recheck_source(machine, lambda now: check_source_machine(now, context.options, where), where)
        target_recheck.outdate()
        target_recheck.check(machine)

    migration.recheck, migration.release = recheck, guard.end
    if context.options.undefine_source:
        migration.kept += volumes_left_aside(machine, {disk.ref for disk in disks}, context.source)
    migration.measure = lambda: figures(migration, context, machine)
    if machine.moving is not None:
        migration.before.append(steps.clear(machine.moving))
    bases = {(d.base.pool, d.base.volume): d.base for d in disks if d.travels and d.base is not None}
    migration.before += [
        steps.bring_image(base)
        for base in bases.values()
        if not is_stored(base, context.target.hypervisor.pools.get(base.pool))
    ]
    migration.before.append(steps.make_volumes())
    if machine.active and note.autostart and any(disk.method == SHARED for disk in disks):
        migration.before.append(steps.hold_autostart())
    sent = [disk for disk in disks if disk.method == CONTENT]
    migration.before += [steps.copy_content(disk) for disk in sent]
    awaited = [disk for disk in sent if not (machine.active and _is_seed(disk, machine))]
    if awaited:
        migration.before.append(steps.flush(awaited))
    carried = has_snapshots(machine.handle, machine.defined_xml)
    if carried:
        migration.before.append(
            set_aside_step(machine, context.endpoints, lambda: migration.switched or migration.undecided)
        )
    migration.before.append(move_step(migration, moving, context, on_progress, guard, target_recheck))
    migration.after += finishing_steps(migration, machine.uuid, writer, context, trusted=True, snapshots=carried)
    return migration


def _migrated_before(name: str, context: MigrationContext, where: str) -> MigrationPlan:
    """A machine that is not at the source: it may be on the target, and a run that brought it may have been cut off."""
    there = context.target.hypervisor.domains.get(name)
    if there is None:
        raise ConflictError(
            f"there is no machine {name} here or on {context.target.name}",
            where=where,
            hint="virt_migrate runs on the hypervisor that the machine is on",
        )
    there.require_readable(where)
    note = read_migration_note(there.xml)
    migration = MigrationPlan(name)
    if note is not None and note.source == context.source_name:
        if note.source_id not in ("", host_identity()):
            raise ConflictError(
                f"{name} is on {context.target.name}, and came there from another hypervisor with the host name "
                f"{note.source}, where a run that was interrupted has left its old volumes",
                where=where,
                hint="Finish that there. If it was this one before it was reinstalled: "
                + note.removal(name, active=there.active, virsh=f"virsh -c {context.endpoints.target}"),
            )
        writer = NoteWriter(note)
        carried = bool(read_set_aside(there.xml))
        migration.after += finishing_steps(
            migration, there.handle.UUIDString(), writer, context, trusted=False, snapshots=carried
        )
    return migration


def _taken_over(machine: SourceMachine, note: MigrationNote, context: MigrationContext) -> MigrationPlan:
    """A machine that runs on the target, and that the source has not let go of when the move broke off."""
    name, uuid, endpoints = machine.name, machine.uuid, context.endpoints
    migration = MigrationPlan(name)
    if machine.active:
        words = f"end the paused copy of {name} on {note.source}"
        gone = context.options.undefine_source
        migration.before.append(Step(words, lambda: end_at_source(endpoints, uuid, name, undefine_source=gone)))
    carried = bool(read_set_aside(machine.defined_xml))
    # One that stays defined here keeps its volumes.
    writer = NoteWriter(note if context.options.undefine_source else dataclasses.replace(note, left=()))
    migration.after += finishing_steps(migration, uuid, writer, context, trusted=False, snapshots=carried)
    return migration


def _check_earlier_move(machine: SourceMachine, context: MigrationContext, where: str) -> None:
    """Raise ConflictError for a machine that came here, and whose old hypervisor has not been cleaned up yet.

    Its note speaks of volumes there, and of those that it has here now: none of them may be taken for left-overs.
    """
    old = machine.moving
    if old is not None and old.stays and old.source == context.source_name:
        raise ConflictError(
            f"{machine.name} {old.words} to other pools of {old.source}, or that was interrupted",
            where=where,
            hint="Finish that first: virt_migrate with the same pools and no target",
        )
    if old is not None and (old.source != context.source_name or old.target == context.source_name):
        raise ConflictError(
            f"{machine.name} came here from {old.source}, where a run that was interrupted has left its old volumes",
            where=where,
            hint=f"Finish that first: virt_migrate on {old.source}, with this hypervisor as its target. If "
            f"{old.source} is gone for good: {old.removal(machine.name, active=machine.active)}",
        )


def _allocate(
    machine: SourceMachine, disks: Sequence[DiskMigration], target: MigrationTarget, space: list[SpaceRequest]
) -> None:
    """Count it in for the machines that are planned after it. space: all that the plans so far take of the storage."""
    target.hypervisor.space_requests = space
    target.allocations[machine.name] = machine.memory_mib
    target.groups[machine.name] = machine.groups
    target.volumes.update((disk.target_pool.name, disk.ref.name) for disk in disks if disk.travels)
    target.images.update(disk.base.volume for disk in disks if disk.base is not None)


def _is_seed(disk: DiskMigration, machine: SourceMachine) -> bool:
    """Whether it is the seed, which a guest reads at its first boot, and no live move waits for."""
    volumes_noted = machine.notes.volumes if machine.notes else ()
    return any((note.pool, note.name, note.role) == (disk.ref.pool, disk.ref.name, "seed") for note in volumes_noted)
