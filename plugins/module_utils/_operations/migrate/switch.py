# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of a move in which libvirt moves the machine, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours, libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.migration import Oversight, migrate
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._model.xml.migrated_domain import moved_xml
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import Journey, Road, Tell
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.location import (
    find,
    is_up,
    look,
    look_until_left,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.options import flags, parameters
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.recheck import (
    TargetLook,
    look_again_at_record,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.source_and_target import Traveller
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import MIRROR, DiskMove
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.images import is_stored
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.write_lock import WriteGuard
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step

# How long a run that makes or changes machines at the source may take.
PROVISION_SECONDS = 300
# What was seen of the target so long ago still counts.
_SHORT_SECONDS = 1.0


def move_step(
    journey: Journey, traveller: Traveller, road: Road, tell: Tell, guard: WriteGuard, look_again: TargetLook
) -> Step:
    """The step that has libvirt move the machine; the point of no return lies in it."""
    terms = road.terms
    mirrored = [disk for disk in journey.disks if disk.way == MIRROR]

    def move() -> None:
        look_again.check(traveller)
        options = parameters(
            terms,
            address=terms.migration_address or road.target.address,
            active=traveller.active,
            disks=[disk.device for disk in mirrored],
        )
        oversight = Oversight(
            tell,
            road.stop,
            journey.too_late(),
            journey.left_seconds(),
            terms.max_downtime_ms,
            terms.postcopy and traveller.active,
            reached=lambda: bool(road.target.hypervisor.conn.isAlive()),
        )
        wanted = flags(
            terms,
            active=traveller.active,
            copied=bool(mirrored),
            whole=any(disk.flattened for disk in mirrored),
        )
        with contextlib.ExitStack() as held:
            began = time.monotonic()
            held.enter_context(hypervisor_lock("init", patience_seconds=PROVISION_SECONDS))
            if time.monotonic() - began > _SHORT_SECONDS:
                look_again.outdate()
            # Whoever had the lock may have taken minutes.
            look_again.check(traveller)
            guard.check()
            _require_images(journey, road)
            look_again_at_record(traveller)
            options.update(_documents(traveller, journey.disks))
            if traveller.active:
                # It may take hours. From now on the note, which was not there when it was planned, keeps others away.
                held.close()
            try:
                migrate(traveller.handle, road.ends.target, options, wanted, oversight)
            except VirtError as exc:
                # It may have arrived all the same, when only the answer was lost.
                if not _has_arrived(exc, traveller, road):
                    raise _as_told(exc, traveller, road) from exc
        journey.switched = True
        # Whether it is up there is its guest's affair by now, which may have powered it off at once.
        if not look_until_left(road.ends, traveller.uuid).left:
            raise HostError(
                f"libvirt has moved {traveller.name}, but it is not to be found on {road.target.name}",
                hint="Look at both hypervisors: virsh list --all",
            )

    how = "move" if traveller.active else "move the record of"
    return Step(f"{how} {traveller.name} to {road.target.name}", move)


def _require_images(journey: Journey, road: Road) -> None:
    """Raise ConflictError when an image that disks stand on has gone from the target.

    Nothing there used it before all of its overlay was there, and so somebody may have removed it.
    """
    for base in {disk.base for disk in journey.disks if disk.travels and disk.base is not None}:
        if not is_stored(base, Pools(road.target.hypervisor.conn).get(base.pool)):
            raise ConflictError(
                f"image {base.volume}, which backs {journey.name}, is no longer on {road.target.name}",
                hint="Nothing was changed here. Run it again: the image is then copied there",
            )


def _has_arrived(failure: VirtError, traveller: Traveller, road: Road) -> bool:
    """Whether it is on the target although libvirt reports a failure. Raises HostError when nobody can know."""
    if traveller.active and is_up(road.ends.anew(), traveller.uuid):
        return False
    try:
        found = look(road.ends.anew(), traveller.uuid)
    except VirtError as exc:
        raise HostError(
            f"{traveller.name} is on its way to {road.target.name}, which does not answer ({failure.what}; {exc.what})",
            hint="Run it again when both answer; nothing was deleted",
        ) from exc
    if found.target is not None and found.source is None:
        # It is forgotten here only after all of it has come there, whatever its guest has done since.
        return True
    # One that is off can be defined on both sides.
    in_two_places = not traveller.active and road.terms.undefine_source and found.source is not None
    return found.arrived(traveller.active) and not in_two_places


def _as_told(exc: VirtError, traveller: Traveller, road: Road) -> VirtError:
    return type(exc)(
        f"{traveller.name} was not moved to {road.target.name} and {_how_it_stays(traveller, road)} here: {exc.what}",
        where=exc.where,
        hint=exc.hint,
    )


def _how_it_stays(traveller: Traveller, road: Road) -> str:
    """Whether it runs at the source, whatever it did when the move began; asked of libvirt, if that answers."""
    with contextlib.suppress(VirtError):
        if is_up(road.ends, traveller.uuid):
            return "runs on" if traveller.active else "runs"
        return "stays"
    return "stays"


def _documents(traveller: Traveller, disks: Sequence[DiskMove]) -> dict[str, str]:
    """The XML for the target, where it is another than here."""
    places = {disk.here.place: disk.there for disk in disks}
    flattened = {disk.here.place for disk in disks if disk.flattened}
    attached = {disk.ref for disk in disks}
    notes = traveller.notes
    left = {VolumeRef(n.pool, n.name) for n in notes.volumes} - attached if notes else set()
    stay: dict[VolumeRef, VolumeRef | None] = dict.fromkeys(left)
    secure = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE
    documents = {}
    with errors_as_ours(f"cannot read the XML of {traveller.name}"):
        record = parse_xml(traveller.handle.XMLDesc(secure | libvirt.VIR_DOMAIN_XML_INACTIVE))
        living = parse_xml(traveller.handle.XMLDesc(secure)) if traveller.active else record
    new_living = moved_xml(living, places, stay, flattened)
    new_record = moved_xml(record, places, stay, flattened)
    if new_living is not None:
        documents[libvirt.VIR_MIGRATE_PARAM_DEST_XML] = new_living
    if new_record is not None and traveller.active:
        documents[libvirt.VIR_MIGRATE_PARAM_PERSIST_XML] = new_record
    return documents


def figures(road: Road, traveller: Traveller) -> dict[str, t.Any]:
    """What libvirt says of the migration that has ended; nothing of an offline one, or where it says nothing."""
    if not traveller.active:
        return {}
    with road.ends.open_target() as conn:
        domain = find(conn, traveller.uuid)
        if domain is None:
            return {}
        try:
            stats = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
        except libvirt.libvirtError:
            return {}
    names = {
        "time_elapsed": "duration_ms",
        "downtime": "downtime_ms",
        "memory_processed": "memory_bytes",
        "disk_processed": "disk_bytes",
    }
    return {ours: stats[theirs] for theirs, ours in names.items() if theirs in stats}
