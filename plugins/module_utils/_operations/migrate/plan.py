# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The migration of one machine to another hypervisor: planned as a whole, then run step by step.

Until the switch everything can be rolled back, and is when something fails. After the switch there is only forward:
what is still to be done at the source stands in the machine's own note, so that a later run can finish it.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.identity import host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.flush import flushed
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.uploader import new_upload
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import VolumeExistsError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import (
    MigrationContext,
    MigrationPlan,
    NoteWriter,
    ProgressCallback,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.location import (
    Endpoints,
    find,
    find_location,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.preflight import (
    check_free_space_on_target,
    check_source_machine,
    check_source_volumes,
    check_target,
    space_requests,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.recheck import (
    TargetRecheck,
    recheck_free_space,
    recheck_source,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.source_and_target import (
    MigrationTarget,
    SourceMachine,
    read_source_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import (
    clear_target,
    delete_proven,
    require_none,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import (
    CONTENT,
    BaseImage,
    DiskMigration,
    plan_disks,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.images import (
    copy_image_to_target,
    is_stored,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import (
    identify_source,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.switch import (
    PROVISION_SECONDS,
    figures,
    move_step,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.write_lock import WriteGuard
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step


def plan_migration(name: str, context: MigrationContext, where: str, on_progress: ProgressCallback) -> MigrationPlan:
    """All that has to be done to move a machine; nothing when it is on the target already.

    Everything is checked here. on_progress: takes phase, bytes done and all bytes, while it is done.
    Raises an error of ours, with what speaks against it.
    """
    domain = context.source.domains.get(name)
    if domain is None:
        return _migrated_before(name, context, where)
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
    check_source_machine(machine, where)
    check_target(machine, context.target, context.options, where)
    disks = plan_disks(machine, context.source, context.target, context.options, where, probe=not context.check_mode)
    check_source_volumes(machine, disks, context.source, where)
    check_free_space_on_target(disks, context.target, where)
    _allocate(machine, disks, context.target)
    note = MigrationNote(
        source=context.source_name,
        target=context.target.name,
        uri=context.endpoints.target,
        made=tuple(disk.ref for disk in disks if disk.travels),
        left=tuple(disk.ref for disk in disks if disk.travels and disk.own),
        autostart=machine.autostart,
        running=machine.active,
        source_id=host_identity(),
    )
    writer, guard = NoteWriter(note), WriteGuard(machine, context.source.conn)
    migration = MigrationPlan(name, disks=disks, timeout_seconds=context.options.timeout_seconds)
    limited = migration.limit(on_progress)

    planned, target_recheck = machine, TargetRecheck(context, where)

    def recheck() -> None:
        recheck_source(planned, where)
        target_recheck.outdate()
        target_recheck.check(planned)

    migration.recheck, migration.release = recheck, guard.end
    migration.measure = lambda: figures(context, machine)
    if machine.moving is not None:
        migration.before.append(_clear_step(migration, machine, machine.moving, context, target_recheck))
        # From then on, nothing there is taken for a left-over any more.
        machine = dataclasses.replace(machine, moving=None)
    bases = {(d.base.pool, d.base.volume): d.base for d in disks if d.travels and d.base is not None}
    for base in bases.values():
        if not is_stored(base, context.target.hypervisor.pools.get(base.pool)):
            migration.before.append(_image_step(base, context, limited, target_recheck))
    migration.before.append(_volumes_step(migration, machine, writer, context, where, target_recheck))
    migration.before += [
        _content_step(disk, machine, writer, guard, context, limited, target_recheck)
        for disk in disks
        if disk.method == CONTENT
    ]
    sent = [disk for disk in disks if disk.method == CONTENT and not (machine.active and _is_seed(disk, machine))]
    if sent:
        migration.before.append(_flush_step(sent, machine, writer, context, target_recheck))
    migration.before.append(move_step(migration, machine, context, on_progress, guard, target_recheck))
    migration.after += _finishing_steps(migration, machine.uuid, writer, context, trusted=True)
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
    note = read_migration_note(there.xml)
    migration = MigrationPlan(name)
    if note is not None and note.source == context.source_name:
        if note.source_id not in ("", host_identity()):
            raise ConflictError(
                f"{name} is on {context.target.name}, and came there from another hypervisor with the host name "
                f"{note.source}, where a run that was interrupted has left its old volumes",
                where=where,
                hint="Finish that there. If it was this one before it was reinstalled: virsh -c "
                f"{context.endpoints.target} "
                f"metadata {name} {NAMESPACE} {_now(there.active)} --remove",
            )
        writer = NoteWriter(note)
        migration.after += _finishing_steps(migration, there.handle.UUIDString(), writer, context, trusted=False)
    return migration


def _check_earlier_move(machine: SourceMachine, context: MigrationContext, where: str) -> None:
    """Raise ConflictError for a machine that came here, and whose old hypervisor has not been cleared yet.

    Its note speaks of volumes there, and of those that it has here now: none of them may be taken for left-overs.
    """
    old = machine.moving
    if old is not None and (old.source != context.source_name or old.target == context.source_name):
        raise ConflictError(
            f"{machine.name} came here from {old.source}, where a run that was interrupted has left its old volumes",
            where=where,
            hint=f"Finish that first: virt_migrate on {old.source}, with this hypervisor as its target. If "
            f"{old.source} is gone for good: virsh metadata {machine.name} {NAMESPACE} {_now(machine.active)} "
            "--remove",
        )


def _now(active: bool) -> str:
    """Of virsh metadata, the options that leave no note behind."""
    return "--live --config" if active else "--config"


def _allocate(machine: SourceMachine, disks: Sequence[DiskMigration], target: MigrationTarget) -> None:
    """Count it in for the machines that are planned after it."""
    target.hypervisor.space_requests = space_requests(disks, target)
    target.allocations[machine.name] = machine.memory_mib
    target.volumes.update((disk.target_pool.name, disk.ref.name) for disk in disks if disk.travels)
    target.images.update(disk.base.volume for disk in disks if disk.base is not None)


def _clear_step(
    migration: MigrationPlan,
    machine: SourceMachine,
    old: MigrationNote,
    context: MigrationContext,
    target_recheck: TargetRecheck,
) -> Step:
    def clear() -> None:
        migration.kept += clear_target(Endpoints(context.endpoints.source, old.uri), machine.uuid, old)
        write_note(machine.handle, None)
        target_recheck.outdate()

    return Step(f"remove what an interrupted run left on {old.target}", clear)


def _image_step(
    base: BaseImage, context: MigrationContext, on_progress: ProgressCallback, target_recheck: TargetRecheck
) -> Step:
    def bring() -> None:
        copy_image_to_target(
            base, context.endpoints, context.target.hypervisor.conn, context.source_name, on_progress, context.stop
        )
        target_recheck.outdate()

    return Step(f"copy image {base.volume} to {context.target.name}", bring)


def _volumes_step(
    migration: MigrationPlan,
    machine: SourceMachine,
    writer: NoteWriter,
    context: MigrationContext,
    where: str,
    target_recheck: TargetRecheck,
) -> Step:
    """The note first: whoever finds it knows what may be there."""
    disks, conn = [disk for disk in migration.disks if disk.travels], context.target.hypervisor.conn
    made: list[VolumeRef] = []

    def make() -> None:
        recheck_free_space(disks, target_recheck.check(machine), where)
        upload = new_upload(context.source_name)
        writer.begin(machine.handle, [_source_ref(disk, upload.token) for disk in disks if disk.own], upload.token)
        for disk in disks:
            # A volume that could not be made whole is to go, one that is somebody else's is not.
            made.append(disk.ref)
            try:
                volumes.make_volume_for(disk)
            except VolumeExistsError:
                made.remove(disk.ref)
                raise
            writer.know(machine.handle, disk.ref, volumes.mark_volume_of(disk, conn, upload))

    def undo() -> None:
        if migration.switched:
            return
        # The note stays when the target cannot be cleared now: the next run does it.
        endpoints = context.endpoints.reconnected()
        note = writer.note_of(made)
        require_none(clear_target(endpoints, machine.uuid, note, trusted=writer.unmarked))
        with endpoints.open_source() as source:
            domain = find(source, machine.uuid)
            if domain is not None:
                write_note(domain, None)

    names = ", ".join(disk.ref.name for disk in disks)
    words = (
        f"create {names} on {context.target.name}"
        if names
        else f"record that {machine.name} is moving to {context.target.name}"
    )
    return Step(words, make, undo)


def _source_ref(disk: DiskMigration, mark: str) -> VolumeRef:
    return VolumeRef(disk.ref.pool, disk.ref.name, identify_source(disk.source_pool, disk.ref.name, mark))


def _content_step(
    disk: DiskMigration,
    machine: SourceMachine,
    writer: NoteWriter,
    guard: WriteGuard,
    context: MigrationContext,
    on_progress: ProgressCallback,
    target_recheck: TargetRecheck,
) -> Step:
    def copy() -> None:
        guard.begin(disk.volume.path)
        volumes.send_content(disk, context.target.hypervisor.conn, on_progress, context.stop)
        target_recheck.outdate()
        # What is there now has the mark no more, and its own last change is not known yet.
        writer.forget(disk.ref)
        writer.know(machine.handle, disk.ref, volumes.settle_content(disk))

    return Step(f"copy {disk.ref.name} to {context.target.name}", copy)


def _is_seed(disk: DiskMigration, machine: SourceMachine) -> bool:
    """Whether it is the seed, which a guest reads at its first boot, and no live move waits for."""
    volumes_noted = machine.notes.volumes if machine.notes else ()
    return any((note.pool, note.name, note.role) == (disk.ref.pool, disk.ref.name, "seed") for note in volumes_noted)


def _flush_step(
    disks: Sequence[DiskMigration],
    machine: SourceMachine,
    writer: NoteWriter,
    context: MigrationContext,
    target_recheck: TargetRecheck,
) -> Step:
    """The source lets go of nothing that the target has in its memory only."""

    def flush() -> None:
        # It counts as a change: from then on, the time of the last one does not tell the volume any more.
        for disk in disks:
            writer.forget(disk.ref)
        with flushed(context.target.hypervisor.conn, [volumes.sent_file(disk) for disk in disks]):
            pass
        target_recheck.outdate()
        for disk in disks:
            writer.know(machine.handle, disk.ref, volumes.settle_content(disk))

    names = ", ".join(disk.ref.name for disk in disks)
    return Step(f"flush {names} to the disk of {context.target.name}", flush)


def _finishing_steps(
    migration: MigrationPlan, uuid: str, writer: NoteWriter, context: MigrationContext, *, trusted: bool
) -> list[Step]:
    """What is left to do when the machine is on the target; each may be done twice.

    trusted: this very run has copied the volumes at the source; those that nothing marks need no proof.
    """
    name, note, steps = migration.name, writer.note, []

    def on_target(work: Callable[[t.Any], None]) -> Callable[[], None]:
        def apply() -> None:
            with context.endpoints.open_target() as conn:
                domain = find(conn, uuid)
                if domain is None:
                    raise HostError(f"{name} is not on {context.target.name} any more")
                work(domain)

        return apply

    def start_with_host(domain: t.Any) -> None:
        with translate_errors(f"cannot switch the autostart of {name} on"):
            domain.setAutostart(1)

    def forget_at_source() -> None:
        if not find_location(context.endpoints, uuid).left:
            raise HostError(f"{name} is not only on {context.target.name}, so nothing is deleted here")
        with context.endpoints.open_source() as conn:
            kept = find(conn, uuid)
            if kept is not None:
                with translate_errors(f"cannot switch the autostart of {name} off"):
                    kept.setAutostart(0)
                write_note(kept, None)
            elif note.left:
                left = writer.note.left
                unmarked = [ref for ref in left if ref.identity == VolumeIdentity()] if trusted else []
                # Nobody is to make a machine with one of them meanwhile.
                with hypervisor_lock("init", wait_seconds=PROVISION_SECONDS):
                    migration.kept += delete_proven(conn, left, trusted=unmarked)

    if note.autostart and context.options.persistent:
        steps.append(Step(f"enable autostart of {name} on {note.target}", on_target(start_with_host)))
    names = ", ".join(ref.name for ref in note.left)
    words = f"delete {names} on {note.source}" if names else f"check that {name} has left {note.source}"
    steps.append(Step(words, forget_at_source))
    steps.append(Step(f"record that {name} has arrived", on_target(lambda domain: write_note(domain, None))))
    return steps
