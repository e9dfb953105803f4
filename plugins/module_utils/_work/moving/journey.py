# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of one machine to another hypervisor: planned as a whole, then walked step by step.

Until the switch everything can be taken back, and is when something fails. After the switch there is only forward: what
is still to be done at the source stands in the machine's own note, so that a later run can finish it.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError, HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours, libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.migrate import Oversight, migrate
from ansible_collections.brine.virt.plugins.module_utils._host.volumes import AlreadyThereError
from ansible_collections.brine.virt.plugins.module_utils._model.move_note import MoveNote, VolumeRef, read_move_note
from ansible_collections.brine.virt.plugins.module_utils._model.moved_xml import moved_xml
from ansible_collections.brine.virt.plugins.module_utils._work.moving import volumes
from ansible_collections.brine.virt.plugins.module_utils._work.moving.preflight import (
    check_room,
    check_source_volumes,
    check_target,
    check_traveller,
    room_wishes,
)
from ansible_collections.brine.virt.plugins.module_utils._work.moving.storage import (
    CONTENT,
    MIRROR,
    Base,
    DiskMove,
    plan_disks,
)
from ansible_collections.brine.virt.plugins.module_utils._work.moving.survey import Target, Traveller, look_at
from ansible_collections.brine.virt.plugins.module_utils._work.moving.terms import Terms, flags, parameters
from ansible_collections.brine.virt.plugins.module_utils._work.moving.whereabouts import (
    Ends,
    find,
    is_up,
    look,
    look_until_arrived,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._work.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._work.side import Side
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml

# How long a run that makes machines at the source may take.
_PROVISION_SECONDS = 300
Tell = t.Callable[[str, int, int], t.Any]


@dataclass
class Journey:
    """A planned move. before: steps up to and with the switch; after: what is left to do then, never taken back."""

    name: str
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    disks: Sequence[DiskMove] = ()
    figures: dict[str, t.Any] = field(default_factory=dict)
    timeout_seconds: float | None = None
    began: float | None = None

    @property
    def actions(self) -> list[str]:
        """What is done, in words."""
        return [step.description for step in (*self.before, *self.after)]

    def left_seconds(self) -> float | None:
        """What is left of the time limit, which begins with the first step; None without a limit."""
        if self.timeout_seconds is None:
            return None
        return self.timeout_seconds - (time.monotonic() - (self.began or time.monotonic()))

    def too_late(self) -> HostError:
        """The error of a journey that took longer than its limit."""
        words = f"it was not done within {self.timeout_seconds or 0:g} s"
        return HostError(words, hint="Raise timeout, or allow postcopy")

    def limit(self, tell: Tell) -> Tell:
        """The same teller, which ends a copy of ours when the time is up."""

        def limited(phase: str, done: int, total: int) -> None:
            tell(phase, done, total)
            left = self.left_seconds()
            if left is not None and left <= 0:
                raise self.too_late()

        return limited


@dataclass(frozen=True)
class Road:
    """What all journeys of a task from one hypervisor to another have in common."""

    ends: Ends
    source: Side
    source_name: str
    target: Target
    terms: Terms
    stop: threading.Event
    check_mode: bool = False


def plan_journey(name: str, road: Road, where: str, tell: Tell) -> Journey:
    """All that has to be done to move a machine; nothing when it is on the target already.

    Everything is checked here. tell: takes phase, bytes done and all bytes, while it is done.
    Raises an error of ours, with what speaks against it.
    """
    domain = road.source.domains.get(name)
    if domain is None:
        return _arrived_before(name, road, where)
    traveller = look_at(domain, where)
    if road.target.name == road.source_name:
        if traveller.uuid in {there.handle.UUIDString() for there in road.target.hypervisor.domains.values()}:
            return Journey(name)
        raise ConflictError(
            f"both hypervisors call themselves {road.target.name}, and libvirt takes them for one",
            where=where,
            hint="Give each a host name of its own",
        )
    _check_earlier_move(traveller, road, where)
    check_traveller(traveller, where)
    check_target(traveller, road.target, road.terms, where)
    disks = plan_disks(traveller, road.source, road.target, road.terms, where, probe=not road.check_mode)
    check_source_volumes(traveller, disks, road.source, where)
    check_room(disks, road.target, where)
    _promise(traveller, disks, road.target)
    note = MoveNote(
        source=road.source_name,
        target=road.target.name,
        uri=road.ends.target,
        made=tuple(disk.ref for disk in disks if disk.travels),
        left=tuple(disk.ref for disk in disks if disk.travels and disk.own),
        autostart=traveller.autostart,
    )
    journey = Journey(name, disks=disks, timeout_seconds=road.terms.timeout_seconds)
    limited = journey.limit(tell)
    if traveller.moving is not None:
        journey.before.append(_clear_step(traveller, traveller.moving, road))
    bases = {(d.base.pool, d.base.volume): d.base for d in disks if d.travels and d.base is not None}
    for base in bases.values():
        if base.volume not in road.target.hypervisor.volumes(road.target.hypervisor.pools.get(base.pool)):
            journey.before.append(_image_step(base, road, limited))
    journey.before.append(_volumes_step(traveller, disks, note, road))
    journey.before += [_content_step(disk, road, limited) for disk in disks if disk.way == CONTENT]
    journey.before.append(_move_step(journey, traveller, road, tell))
    journey.after += _finishing_steps(name, traveller.uuid, note, road)
    return journey


def _arrived_before(name: str, road: Road, where: str) -> Journey:
    """A machine that is not at the source: it may be on the target, and a run that brought it may have been cut off."""
    there = road.target.hypervisor.domains.get(name)
    if there is None:
        raise ConflictError(
            f"there is no machine {name} here, nor on {road.target.name}",
            where=where,
            hint="virt_migrate runs on the hypervisor that the machine is on",
        )
    note = read_move_note(there.xml)
    journey = Journey(name)
    if note is not None and note.source == road.source_name:
        journey.after += _finishing_steps(name, there.handle.UUIDString(), note, road)
    return journey


def _check_earlier_move(traveller: Traveller, road: Road, where: str) -> None:
    """Raise ConflictError for a machine that came here, and whose old hypervisor has not been cleared yet.

    Its note speaks of volumes there, and of those that it has here now: none of them may be taken for left-overs.
    """
    old = traveller.moving
    if old is not None and (old.source != road.source_name or old.target == road.source_name):
        raise ConflictError(
            f"{traveller.name} came here from {old.source}, where a run that was cut off has left its old volumes",
            where=where,
            hint=f"Finish that first: virt_migrate on {old.source}, with this hypervisor as its target",
        )


def _promise(traveller: Traveller, disks: Sequence[DiskMove], target: Target) -> None:
    """Count it in for the machines that are planned after it."""
    target.hypervisor.room_wishes = room_wishes(disks, target)
    target.promised_mib += traveller.memory_mib
    target.volumes.update((disk.target_pool.name, disk.ref.name) for disk in disks if disk.travels)
    target.images.update(disk.base.volume for disk in disks if disk.base is not None)


def _clear_step(traveller: Traveller, old: MoveNote, road: Road) -> Step:
    def clear() -> None:
        volumes.clear_target(Ends(road.ends.source, old.uri), traveller.uuid, old.made)
        write_note(traveller.handle, None)

    return Step(f"clear what an interrupted run left on {old.target}", clear)


def _image_step(base: Base, road: Road, tell: Tell) -> Step:
    conn = road.target.hypervisor.conn
    return Step(
        f"bring image {base.volume} to {road.target.name}",
        lambda: volumes.bring_image(base, road.ends, conn, tell, road.stop),
    )


def _volumes_step(traveller: Traveller, disks: Sequence[DiskMove], note: MoveNote, road: Road) -> Step:
    """The note first: whoever finds it knows what may be there."""
    made: list[VolumeRef] = []

    def make() -> None:
        write_note(traveller.handle, note)
        for disk in disks:
            if disk.travels:
                # A volume that could not be made whole is to go, one that is somebody else's is not.
                made.append(disk.ref)
                try:
                    volumes.make_volume_for(disk)
                except AlreadyThereError:
                    made.remove(disk.ref)
                    raise

    def undo() -> None:
        # The note stays when the target cannot be cleared now: the next run does it.
        ends = road.ends.anew()
        volumes.clear_target(ends, traveller.uuid, made, fresh=True)
        with ends.open_source() as source:
            domain = find(source, traveller.uuid)
            if domain is not None:
                write_note(domain, None)

    names = ", ".join(disk.ref.name for disk in disks if disk.travels)
    words = f"make {names} on {road.target.name}" if names else f"note that {traveller.name} goes to {road.target.name}"
    return Step(words, make, undo)


def _content_step(disk: DiskMove, road: Road, tell: Tell) -> Step:
    return Step(
        f"copy {disk.ref.name} to {road.target.name}",
        lambda: volumes.send_content(disk, road.target.hypervisor.conn, tell, road.stop),
    )


def _move_step(journey: Journey, traveller: Traveller, road: Road, tell: Tell) -> Step:
    terms = road.terms
    mirrored = [disk for disk in journey.disks if disk.way == MIRROR]

    def move() -> None:
        options = parameters(
            terms,
            address=terms.migration_address or road.target.address,
            active=traveller.active,
            disks=[disk.device for disk in mirrored],
        )
        options.update(_documents(traveller, journey.disks))
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
        try:
            migrate(traveller.handle, road.ends.target, options, wanted, oversight)
        except VirtError as exc:
            # It may have arrived all the same, when only the answer was lost.
            if not _has_arrived(exc, traveller, road):
                raise _as_told(exc, traveller, road) from exc
        found = look_until_arrived(road.ends, traveller.uuid, traveller.active)
        if not found.arrived(traveller.active):
            raise HostError(
                f"libvirt has moved {traveller.name}, but it is not to be found on {road.target.name} as it was",
                hint="Look at both hypervisors: virsh list --all",
            )
        journey.figures.update(_figures(road, traveller))

    how = "move" if traveller.active else "move the record of"
    return Step(f"{how} {traveller.name} to {road.target.name}", move)


def _has_arrived(failure: VirtError, traveller: Traveller, road: Road) -> bool:
    """Whether it is on the target although libvirt reports a failure. Raises HostError when nobody can know."""
    if traveller.active and is_up(road.ends.anew(), traveller.uuid):
        return False
    try:
        return look(road.ends.anew(), traveller.uuid).arrived(traveller.active)
    except VirtError as exc:
        raise HostError(
            f"{traveller.name} is on its way to {road.target.name}, which does not answer ({failure.what}; {exc.what})",
            hint="Run it again when both answer; nothing was deleted",
        ) from exc


def _as_told(exc: VirtError, traveller: Traveller, road: Road) -> VirtError:
    state = "runs on" if traveller.active else "stays"
    return type(exc)(
        f"{traveller.name} was not moved to {road.target.name} and {state} here: {exc.what}",
        where=exc.where,
        hint=exc.hint,
    )


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


def _figures(road: Road, traveller: Traveller) -> dict[str, t.Any]:
    """What libvirt says of the migration that has ended; nothing of an offline one."""
    with road.ends.open_target() as conn:
        domain = find(conn, traveller.uuid)
        try:
            stats = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED) if traveller.active else {}
        except libvirt.libvirtError:
            return {}
    names = {
        "time_elapsed": "time_ms",
        "downtime": "downtime_ms",
        "memory_processed": "memory_bytes",
        "disk_processed": "disk_bytes",
    }
    return {ours: stats[theirs] for theirs, ours in names.items() if theirs in stats}


def _finishing_steps(name: str, uuid: str, note: MoveNote, road: Road) -> list[Step]:
    """What is left to do when the machine is on the target; each may be done twice."""
    steps = []

    def on_target(work: Callable[[t.Any], None]) -> Callable[[], None]:
        def apply() -> None:
            with road.ends.open_target() as conn:
                domain = find(conn, uuid)
                if domain is None:
                    raise HostError(f"{name} is not on {road.target.name} any more")
                work(domain)

        return apply

    def start_with_host(domain: t.Any) -> None:
        with errors_as_ours(f"cannot switch the autostart of {name} on"):
            domain.setAutostart(1)

    def leave_source() -> None:
        if not look(road.ends, uuid).left:
            raise HostError(f"{name} is not only on {road.target.name}, so nothing is deleted here")
        with road.ends.open_source() as conn:
            kept = find(conn, uuid)
            if kept is not None:
                with errors_as_ours(f"cannot switch the autostart of {name} off"):
                    kept.setAutostart(0)
                write_note(kept, None)
            elif note.left:
                # Nobody is to make a machine with one of them meanwhile.
                with hypervisor_lock("init", patience_seconds=_PROVISION_SECONDS):
                    volumes.delete_unused(conn, note.left)

    if note.autostart and road.terms.persistent:
        steps.append(Step(f"have {name} start with {note.target}", on_target(start_with_host)))
    names = ", ".join(ref.name for ref in note.left)
    words = f"delete {names} on {note.source}" if names else f"see that {name} has left {note.source}"
    steps.append(Step(words, leave_source))
    steps.append(Step(f"note that {name} has arrived", on_target(lambda domain: write_note(domain, None))))
    return steps
