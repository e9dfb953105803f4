# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of one machine to another hypervisor: planned as a whole, then walked step by step.

Until the switch everything can be taken back, and is when something fails. After the switch there is only forward: what
is still to be done at the source stands in the machine's own note, so that a later run can finish it.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.identity import host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.flush import flushed
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.uploader import new_upload
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import AlreadyThereError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    MoveNote,
    VolumeIdentity,
    VolumeRef,
    read_move_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import (
    Journey,
    NoteWriter,
    Road,
    Tell,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.location import (
    Ends,
    find,
    look,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.preflight import (
    check_room,
    check_source_volumes,
    check_target,
    check_traveller,
    room_wishes,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.recheck import (
    TargetLook,
    look_again_at_room,
    look_again_at_source,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.source_and_target import (
    Target,
    Traveller,
    look_at,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import (
    clear_target,
    delete_proven,
    require_none,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import (
    CONTENT,
    Base,
    DiskMove,
    plan_disks,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.images import (
    bring_image,
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
            hint="Give each its own host name",
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
        running=traveller.active,
        source_id=host_identity(),
    )
    writer, guard = NoteWriter(note), WriteGuard(traveller, road.source.conn)
    journey = Journey(name, disks=disks, timeout_seconds=road.terms.timeout_seconds)
    limited = journey.limit(tell)

    planned, look = traveller, TargetLook(road, where)

    def look_again() -> None:
        look_again_at_source(planned, where)
        look.outdate()
        look.check(planned)

    journey.look_again, journey.release = look_again, guard.end
    journey.measure = lambda: figures(road, traveller)
    if traveller.moving is not None:
        journey.before.append(_clear_step(journey, traveller, traveller.moving, road, look))
        # From then on, nothing there is taken for a left-over any more.
        traveller = dataclasses.replace(traveller, moving=None)
    bases = {(d.base.pool, d.base.volume): d.base for d in disks if d.travels and d.base is not None}
    for base in bases.values():
        if not is_stored(base, road.target.hypervisor.pools.get(base.pool)):
            journey.before.append(_image_step(base, road, limited, look))
    journey.before.append(_volumes_step(journey, traveller, writer, road, where, look))
    journey.before += [
        _content_step(disk, traveller, writer, guard, road, limited, look) for disk in disks if disk.way == CONTENT
    ]
    sent = [disk for disk in disks if disk.way == CONTENT and not (traveller.active and _is_seed(disk, traveller))]
    if sent:
        journey.before.append(_flush_step(sent, traveller, writer, road, look))
    journey.before.append(move_step(journey, traveller, road, tell, guard, look))
    journey.after += _finishing_steps(journey, traveller.uuid, writer, road, trusted=True)
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
        if note.source_id not in ("", host_identity()):
            raise ConflictError(
                f"{name} is on {road.target.name}, and came there from another hypervisor that calls itself "
                f"{note.source}, where a run that was interrupted has left its old volumes",
                where=where,
                hint=f"Finish that there. If it was this one before a new installation: virsh -c {road.ends.target} "
                f"metadata {name} {NAMESPACE} {_now(there.active)} --remove",
            )
        writer = NoteWriter(note)
        journey.after += _finishing_steps(journey, there.handle.UUIDString(), writer, road, trusted=False)
    return journey


def _check_earlier_move(traveller: Traveller, road: Road, where: str) -> None:
    """Raise ConflictError for a machine that came here, and whose old hypervisor has not been cleared yet.

    Its note speaks of volumes there, and of those that it has here now: none of them may be taken for left-overs.
    """
    old = traveller.moving
    if old is not None and (old.source != road.source_name or old.target == road.source_name):
        raise ConflictError(
            f"{traveller.name} came here from {old.source}, where a run that was interrupted has left its old volumes",
            where=where,
            hint=f"Finish that first: virt_migrate on {old.source}, with this hypervisor as its target. If "
            f"{old.source} is gone for good: virsh metadata {traveller.name} {NAMESPACE} {_now(traveller.active)} "
            "--remove",
        )


def _now(active: bool) -> str:
    """Of virsh metadata, the options that leave no note behind."""
    return "--live --config" if active else "--config"


def _promise(traveller: Traveller, disks: Sequence[DiskMove], target: Target) -> None:
    """Count it in for the machines that are planned after it."""
    target.hypervisor.room_wishes = room_wishes(disks, target)
    target.promised[traveller.name] = traveller.memory_mib
    target.volumes.update((disk.target_pool.name, disk.ref.name) for disk in disks if disk.travels)
    target.images.update(disk.base.volume for disk in disks if disk.base is not None)


def _clear_step(journey: Journey, traveller: Traveller, old: MoveNote, road: Road, look: TargetLook) -> Step:
    def clear() -> None:
        journey.kept += clear_target(Ends(road.ends.source, old.uri), traveller.uuid, old)
        write_note(traveller.handle, None)
        look.outdate()

    return Step(f"clear what an interrupted run left on {old.target}", clear)


def _image_step(base: Base, road: Road, tell: Tell, look: TargetLook) -> Step:
    def bring() -> None:
        bring_image(base, road.ends, road.target.hypervisor.conn, road.source_name, tell, road.stop)
        look.outdate()

    return Step(f"bring image {base.volume} to {road.target.name}", bring)


def _volumes_step(
    journey: Journey, traveller: Traveller, writer: NoteWriter, road: Road, where: str, look: TargetLook
) -> Step:
    """The note first: whoever finds it knows what may be there."""
    disks, conn = [disk for disk in journey.disks if disk.travels], road.target.hypervisor.conn
    made: list[VolumeRef] = []

    def make() -> None:
        look_again_at_room(disks, look.check(traveller), where)
        upload = new_upload(road.source_name)
        writer.begin(traveller.handle, [_source_ref(disk, upload.token) for disk in disks if disk.own], upload.token)
        for disk in disks:
            # A volume that could not be made whole is to go, one that is somebody else's is not.
            made.append(disk.ref)
            try:
                volumes.make_volume_for(disk)
            except AlreadyThereError:
                made.remove(disk.ref)
                raise
            writer.know(traveller.handle, disk.ref, volumes.mark_volume_of(disk, conn, upload))

    def undo() -> None:
        if journey.switched:
            return
        # The note stays when the target cannot be cleared now: the next run does it.
        ends = road.ends.anew()
        note = writer.note_of(made)
        require_none(clear_target(ends, traveller.uuid, note, trusted=writer.unmarked))
        with ends.open_source() as source:
            domain = find(source, traveller.uuid)
            if domain is not None:
                write_note(domain, None)

    names = ", ".join(disk.ref.name for disk in disks)
    words = f"make {names} on {road.target.name}" if names else f"note that {traveller.name} goes to {road.target.name}"
    return Step(words, make, undo)


def _source_ref(disk: DiskMove, mark: str) -> VolumeRef:
    return VolumeRef(disk.ref.pool, disk.ref.name, identify_source(disk.source_pool, disk.ref.name, mark))


def _content_step(
    disk: DiskMove,
    traveller: Traveller,
    writer: NoteWriter,
    guard: WriteGuard,
    road: Road,
    tell: Tell,
    look: TargetLook,
) -> Step:
    def copy() -> None:
        guard.begin(disk.volume.path)
        volumes.send_content(disk, road.target.hypervisor.conn, tell, road.stop)
        look.outdate()
        # What is there now has the mark no more, and its own last change is not known yet.
        writer.forget(disk.ref)
        writer.know(traveller.handle, disk.ref, volumes.settle_content(disk))

    return Step(f"copy {disk.ref.name} to {road.target.name}", copy)


def _is_seed(disk: DiskMove, traveller: Traveller) -> bool:
    """Whether it is the seed, which a guest reads at its first boot, and no live move waits for."""
    volumes_noted = traveller.notes.volumes if traveller.notes else ()
    return any((note.pool, note.name, note.role) == (disk.ref.pool, disk.ref.name, "seed") for note in volumes_noted)


def _flush_step(
    disks: Sequence[DiskMove], traveller: Traveller, writer: NoteWriter, road: Road, look: TargetLook
) -> Step:
    """The source lets go of nothing that the target has in its memory only."""

    def flush() -> None:
        # It counts as a change: from then on, the time of the last one does not tell the volume any more.
        for disk in disks:
            writer.forget(disk.ref)
        with flushed(road.target.hypervisor.conn, [volumes.sent_file(disk) for disk in disks]):
            pass
        look.outdate()
        for disk in disks:
            writer.know(traveller.handle, disk.ref, volumes.settle_content(disk))

    names = ", ".join(disk.ref.name for disk in disks)
    return Step(f"see that the disk of {road.target.name} has {names}", flush)


def _finishing_steps(journey: Journey, uuid: str, writer: NoteWriter, road: Road, *, trusted: bool) -> list[Step]:
    """What is left to do when the machine is on the target; each may be done twice.

    trusted: this very run has copied the volumes at the source; those that nothing marks need no proof.
    """
    name, note, steps = journey.name, writer.note, []

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
                left = writer.note.left
                unmarked = [ref for ref in left if ref.identity == VolumeIdentity()] if trusted else []
                # Nobody is to make a machine with one of them meanwhile.
                with hypervisor_lock("init", patience_seconds=PROVISION_SECONDS):
                    journey.kept += delete_proven(conn, left, trusted=unmarked)

    if note.autostart and road.terms.persistent:
        steps.append(Step(f"have {name} start with {note.target}", on_target(start_with_host)))
    names = ", ".join(ref.name for ref in note.left)
    words = f"delete {names} on {note.source}" if names else f"see that {name} has left {note.source}"
    steps.append(Step(words, leave_source))
    steps.append(Step(f"note that {name} has arrived", on_target(lambda domain: write_note(domain, None))))
    return steps
