# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of a move in which libvirt moves the machine, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Sequence

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import read_description
from ..._host.connection import libvirt, translate_errors
from ..._host.locks import hypervisor_lock
from ..._host.machines.migration import MigrationControls, migrate
from ..._host.storage.pools import Pools
from ..._model.metadata.migration import VolumeRef
from ..._model.xml.migrated_domain import migrated_domain_xml
from ..plan import Step
from .broken_off import settle_switch
from .context import MigrationContext, MigrationPlan, ProgressCallback
from .endpoints.location import find, find_location, find_location_after_switch, see
from .endpoints.options import flags, parameters
from .endpoints.source_and_target import SourceMachine
from .recheck import TargetRecheck, WriteGuard, recheck_definition
from .storage.disks import MIRROR, DiskMigration
from .storage.images import is_stored

# How long a run that makes or changes machines at the source may take.
PROVISION_SECONDS = 300
# What was seen of the target so long ago still counts.
_SHORT_SECONDS = 1.0


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
        controls = MigrationControls(
            migration.noted(on_progress),
            context.stop,
            migration.timed_out(),
            migration.left_seconds(),
            options.max_downtime_ms,
            options.postcopy and machine.active,
            reached=lambda: bool(context.target.hypervisor.conn.isAlive()),
        )
        wanted = flags(
            options,
            active=machine.active,
            copied=bool(mirrored),
            whole=any(disk.flattened for disk in mirrored),
        )
        with contextlib.ExitStack() as held:
            began = time.monotonic()
            held.enter_context(hypervisor_lock("init", wait_seconds=PROVISION_SECONDS))
            if time.monotonic() - began > _SHORT_SECONDS:
                recheck.outdate()
            # Whoever had the lock may have taken minutes.
            recheck.check(machine)
            guard.check()
            _require_images(migration, context)
            recheck_definition(machine)
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
    renewed: dict[VolumeRef, VolumeRef | None] = {disk.ref: disk.ref_there for disk in disks if disk.travels}
    renewed.update(dict.fromkeys(left))
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
    new_running_xml = migrated_domain_xml(running_xml, places, renewed, flattened)
    new_defined_xml = migrated_domain_xml(defined_xml, places, renewed, flattened) if machine.active else None
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
