# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of a move in which libvirt moves the machine, and what is known of it afterwards.

It may have broken off, so that both hypervisors have the machine: it is finished where that is safe, which is where
the target runs the machine. Else nothing is touched, and what each side has is said: neither is to run before somebody
knows which has the latest data.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Sequence

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import read_description
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.domains import description_of
from ..._host.machines.migration import MigrationControls, migrate
from ..._host.machines.undefine import undefine
from ..._host.storage.disk_lock import DiskLock
from ..._host.storage.pools import Pools
from ..._model.metadata.migration import VolumeRef
from ..._model.xml.migrated_domain import migrated_domain_xml
from ..plan import Step
from .context import MigrationContext, MigrationPlan, ProgressCallback, hold_hypervisor
from .endpoints.location import (
    Endpoints,
    Presences,
    find,
    find_location,
    find_location_after_switch,
    see,
    see_both,
    set_autostart,
    shared_files,
    written_files,
)
from .endpoints.options import flags, parameters
from .endpoints.source_and_target import SourceMachine
from .recheck import TargetRecheck, WriteGuard, recheck_definition, recheck_running_disks
from .storage.disks import MIRROR, SHARED, DiskMigration
from .storage.images import is_stored

# What was seen of the target so long ago still counts.
_SHORT_SECONDS = 1.0
# A daemon that has just started looks after one machine after the other.
_SETTLE_SECONDS = 15.0
# One that was killed starts again.
_ANSWER_SECONDS = 60.0


def move_step(
    migration: MigrationPlan,
    machine: SourceMachine,
    context: MigrationContext,
    on_progress: ProgressCallback,
    guard: WriteGuard,
    recheck: TargetRecheck,
) -> Step:
    """The step that has libvirt move the machine; the point of no return lies in it."""
    options = context.options
    mirrored = [disk for disk in migration.disks if disk.method == MIRROR]

    def move() -> None:
        recheck.check(machine)
        libvirt_parameters = parameters(
            options,
            address=options.migration_address or context.target.address,
            active=machine.active,
            disks=[disk.device for disk in mirrored],
        )
        wanted = flags(
            options,
            active=machine.active,
            copied=bool(mirrored),
            whole=any(disk.flattened for disk in mirrored),
        )
        with contextlib.ExitStack() as held:
            began = time.monotonic()
            held.enter_context(hold_hypervisor(migration, context.stop))
            # The time that is left counts from here.
            controls = MigrationControls(
                migration.noted(on_progress),
                context.stop,
                migration.timed_out(),
                migration.left_seconds(),
                options.max_downtime_ms,
                options.postcopy and machine.active,
                reached=lambda: bool(context.target.hypervisor.conn.isAlive()),
            )
            if time.monotonic() - began > _SHORT_SECONDS:
                recheck.outdate()
            # Whoever had the lock may have taken hours.
            recheck.check(machine)
            guard.check()
            _require_images(migration, context)
            recheck_definition(machine)
            recheck_running_disks(machine)
            libvirt_parameters.update(target_xml(machine, migration.disks))
            if machine.active:
                # It may take hours. From now on the note, which was not there when it was planned, keeps others away.
                held.close()
            try:
                migrate(machine.handle, context.endpoints.target, libvirt_parameters, wanted, controls)
            except VirtError as exc:
                # It may have arrived all the same, when only the answer was lost.
                if not _has_migrated(exc, machine, context, migration):
                    raise _as_reported(exc, machine, context) from exc
        migration.switched = True
        # Whether it is up there is its guest's affair by now, which may have powered it off at once.
        if not find_location_after_switch(context.endpoints, machine.uuid).left:
            raise HostError(
                f"libvirt has moved {machine.name}, but it cannot be found on {context.target.name}",
                hint="Check both hypervisors: virsh list --all",
            )

    how = "move" if machine.active else "move the record of"
    return Step(f"{how} {machine.name} to {context.target.name}", move)


def _require_images(migration: MigrationPlan, context: MigrationContext) -> None:
    """Raise ConflictError when an image that backs disks has gone from the target.

    Nothing there used it before all of its overlay was there, and so somebody may have removed it.
    """
    for base in {disk.base for disk in migration.disks if disk.travels and disk.base is not None}:
        if not is_stored(base, Pools(context.target.hypervisor.conn).get(base.pool)):
            raise ConflictError(
                f"image {base.volume}, which backs {migration.name}, is no longer on {context.target.name}",
                hint="Nothing was changed here. Run it again: the image is then copied there",
            )


def _has_migrated(
    failure: VirtError, machine: SourceMachine, context: MigrationContext, migration: MigrationPlan
) -> bool:
    """Whether it is on the target although libvirt reports a failure. Raises HostError when nobody can know."""
    if machine.active:
        try:
            arrived = settle_switch(machine, context)
        except VirtError as exc:
            # Whatever is deleted now may be the only one of its kind.
            migration.undecided = True
            words = f"{exc.what} ({failure.what})"
            raise type(exc)(words, where=exc.where, hint=exc.hint) from exc
        if arrived is not None:
            return arrived
    try:
        found = find_location(context.endpoints.reconnected(), machine.uuid)
    except VirtError as exc:
        raise HostError(
            f"{machine.name} is being moved to {context.target.name}, which does not answer ({failure.what}; "
            f"{exc.what})",
            hint="Run it again when both answer; nothing was deleted",
        ) from exc
    if found.target is not None and found.source is None:
        # It is forgotten here only after all of it has come there, whatever its guest has done since.
        return True
    # One that is off can be defined on both hypervisors.
    in_two_places = not machine.active and context.options.undefine_source and found.source is not None
    return found.target is machine.active and not found.source and not in_two_places


def _as_reported(exc: VirtError, machine: SourceMachine, context: MigrationContext) -> VirtError:
    return type(exc)(
        f"{machine.name} was not moved to {context.target.name} and {_how_it_stays(machine, context)} here: {exc.what}",
        where=exc.where,
        hint=exc.hint,
    )


def _how_it_stays(machine: SourceMachine, context: MigrationContext) -> str:
    """Whether it runs at the source, whatever it did when the move began; asked of libvirt, if that answers."""
    with contextlib.suppress(VirtError), context.endpoints.open_source() as source:
        here = see(find(source, machine.uuid))
        if here.runs:
            return "runs on" if machine.active else "runs"
        return "stays paused" if here.paused else "stays"
    return "stays"


def target_xml(machine: SourceMachine, disks: Sequence[DiskMigration]) -> dict[str, str]:
    """The XML for the target, where it is another than here."""
    places = {disk.here.place: disk.there for disk in disks}
    flattened = {disk.here.place for disk in disks if disk.flattened}
    attached = {disk.ref for disk in disks}
    notes = machine.notes
    left = {VolumeRef(n.pool, n.name) for n in notes.volumes} - attached if notes else set()
    # What both hypervisors see may be in a pool of another name there.
    named: dict[VolumeRef, VolumeRef | None] = {
        disk.ref: disk.ref_there for disk in disks if disk.travels or disk.ref != disk.ref_there
    }
    named.update(dict.fromkeys(left))
    shared = {disk.ref for disk in disks if disk.method == SHARED}
    secure = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE
    with translate_errors(f"cannot read the XML of {machine.name}"):
        defined_xml = read_description(
            f"machine {machine.name}", machine.handle.XMLDesc(secure | libvirt.VIR_DOMAIN_XML_INACTIVE)
        )
        running_xml = (
            read_description(f"machine {machine.name}", machine.handle.XMLDesc(secure))
            if machine.active
            else defined_xml
        )
    new_running_xml = migrated_domain_xml(running_xml, places, named, flattened, shared)
    new_defined_xml = migrated_domain_xml(defined_xml, places, named, flattened, shared) if machine.active else None
    documents = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: new_running_xml,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: new_defined_xml,
    }
    return {parameter: xml for parameter, xml in documents.items() if xml is not None}


def figures(migration: MigrationPlan, context: MigrationContext, machine: SourceMachine) -> dict[str, t.Any]:
    """What libvirt says of the migration that has ended; nothing of an offline one, or where it says nothing."""
    if not machine.active:
        return {}
    with context.endpoints.open_target() as conn:
        domain = find(conn, machine.uuid)
        if domain is None:
            return {}
        try:
            return migration.figures_from(domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED))
        except libvirt.libvirtError:
            return {}


def is_taken_over(machine: SourceMachine, context: MigrationContext, where: str) -> bool:
    """Whether an earlier move has brought the machine to the target, so that only the source is left to be cleaned up.

    Raises ConflictError for a machine of which nobody knows, after an earlier move, which hypervisor is to run it.
    """
    here, old, target = see(machine.handle), machine.moving, context.target
    there = see(find(target.hypervisor.conn, machine.uuid))
    if here.held and old is not None and (old.source, old.target) != (context.source_name, target.name):
        raise ConflictError(
            f"{machine.name} is paused, as its move from {old.source} to {old.target} broke off",
            where=where,
            hint=f"Run that one again first: it says what {old.target} has. If {old.target} is gone for good: virsh "
            f"resume {machine.name}",
        )
    both = Presences(here, there)
    if both.taken_over:
        _require_own_files(machine.handle.connect(), machine, both, target.name, where)
        return True
    if here.held or (both.same_move and not here.runs):
        what, hint = _words(machine.name, both, target.name)
        raise ConflictError(what, where=where, hint=hint)
    return False


def settle_switch(machine: SourceMachine, context: MigrationContext) -> bool | None:
    """Whether a machine is on the target whose live move libvirt calls a failure; then it is ended at the source.

    None when the source has forgotten it, as it does at the end of a move. Raises an error of ours when it stays
    undecided, also because one of the two does not answer.
    """
    endpoints = context.endpoints.reconnected()
    seen_since = None
    began = time.monotonic()
    while True:
        try:
            found = _look_at_switch(endpoints, machine, context)
        except ConflictError:
            raise
        except VirtError as exc:
            # A daemon that is dying still takes connections.
            if time.monotonic() - began > _ANSWER_SECONDS:
                raise HostError(
                    f"{machine.name} was being moved to {context.target.name}, and it is not known whether it has "
                    f"arrived: {exc.what}",
                    hint="Run the move again when both answer; nothing was deleted",
                ) from exc
        else:
            if not isinstance(found, Presences):
                return found
            seen_since = seen_since or time.monotonic()
            if time.monotonic() - seen_since > _SETTLE_SECONDS:
                what, hint = _words(machine.name, found, context.target.name)
                raise HostError(what, hint=hint)
        time.sleep(0.3)


def _look_at_switch(endpoints: Endpoints, machine: SourceMachine, context: MigrationContext) -> bool | Presences | None:
    """As settle_switch, at this moment; what both have where that is undecided."""
    with endpoints.open_source() as source:
        here = see(find(source, machine.uuid))
        if not here.paused and not here.off:
            return None if here.state is None else False
        with endpoints.open_target() as target:
            both = Presences(here, see(find(target, machine.uuid)))
            if both.taken_over:
                _require_own_files(source, machine, both, context.target.name, None)
                end_at_source(endpoints, machine.uuid, machine.name, undefine_source=context.options.undefine_source)
                return True
    if both.there.state is None and not here.held and not here.busy:
        return False
    return both


def end_at_source(endpoints: Endpoints, uuid: str, name: str, *, undefine_source: bool) -> None:
    """End what the source still has in memory of a machine that the target runs, and undefine it there if wanted: once
    it is off, nobody knows any more that it has not run since.

    Raises HostError when it does not run there, ConflictError when the source may still write to a disk.
    """
    with endpoints.open_source() as source, endpoints.open_target() as target:
        both = see_both(source, target, uuid)
        _require_taken_over(both, name)
        if both.here.paused:
            handle = find(source, uuid)
            with contextlib.ExitStack() as held, translate_errors(f"cannot end the paused copy of {name}"):
                # A QEMU that has handed its machine over has let go of the disks; and none gets them back meanwhile.
                for path in written_files(read_description(f"machine {name}", handle.XMLDesc(0))).values():
                    if path.startswith("/"):
                        lock = DiskLock(path)
                        held.callback(lock.release)
                        lock.hold()
                # The host may start again before it is undefined.
                set_autostart(handle, False)
                handle.destroy()
                if undefine_source:
                    undefine(source, name, moved=True)


def forget_left_over(source: VirConnect, target: VirConnect, uuid: str) -> None:
    """Undefine at the source what a finished move would have. Raises HostError when the target does not run it."""
    handle = find(source, uuid)
    if handle is None:
        return
    with translate_errors("cannot inspect the machine"):
        name = handle.name()
    both = see_both(source, target, uuid)
    _require_taken_over(both, name)
    if not both.here.off:
        raise HostError(f"{name} {both.here.words} here, so nothing is deleted here")
    undefine(source, name, moved=True)


def _require_taken_over(both: Presences, name: str) -> None:
    if not both.taken_over:
        raise HostError(
            f"{name} {both.here.words} here and {both.there.words} on the target, so nothing is ended or deleted here",
            hint="Run it again: it says what to do",
        )


def _require_own_files(
    source: VirConnect, machine: SourceMachine, both: Presences, target: str, where: str | None
) -> None:
    """Raise ConflictError for a copy in memory that cannot be ended without harm to the one that runs."""
    if both.here.off or both.here.note is None:
        return
    shared = shared_files(description_of(find(source, machine.uuid), where=where), both.here.note)
    if shared:
        raise ConflictError(
            f"{machine.name} runs on {target}, but its move there broke off and left a paused copy here, whose end "
            f"could take the files of the disks that both have open ({', '.join(shared)}) from the one that runs",
            where=where,
            hint=f"Never resume the one here. Shut {machine.name} down on {target}, run virsh destroy {machine.name} "
            f"and virsh undefine {machine.name} --keep-nvram here, start it on {target}, and run the move again",
        )


def _words(name: str, both: Presences, target: str) -> tuple[str, str]:
    """What is said of a machine that is undecided, and what to do."""
    here, there = both.here, both.there
    what = f"{name} {here.words} here and {there.words} on {target}, as its move there broke off; nothing was changed"
    again = "run the move again"
    if there.state is None:
        return what, f"It can only go on here: virsh resume {name}, and {again}"
    if here.busy or there.busy:
        return what, f"libvirt is at work on it (virsh domjobinfo {name}): wait until that ends, and {again}"
    if there.runs and not here.held:
        end = f"virsh undefine {name} --keep-nvram"
        end = end if here.off else f"virsh destroy {name}, {end}"
        return what, (
            "It may have run here since, so each side may have data of its own: compare the two. If what is here is "
            f"not needed: {end} here, and {again}"
        )
    if not there.off and not there.paused:
        return what, (
            f"Never resume it here. Compare the two; if virsh domstate --reason {name} on {target} says nothing of "
            f"post-copy, all of it is there: virsh destroy {name} here, and {again}"
        )
    verb = "resume" if there.paused else "start"
    return what, (
        f"Neither resume nor start it here before you know which has the latest data. If it ever ran on {target} "
        f"(/var/log/libvirt/qemu/{name}.log there), {target} has: virsh {verb} {name} there, and {again}, which ends "
        f"the one here. Only if it never did, remove it there, and {'resume' if here.paused else 'start'} it here"
    )
