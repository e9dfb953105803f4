# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes go with a machine, and which stay and why."""

from __future__ import annotations

import os
import shlex
import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError, InputError, VirtError, one_of_these
from ..._host.images.clustered import users_in_cluster
from ..._host.machines.domains import Domain
from ..._host.machines.undefine import kept_files, own_files
from ..._host.storage.ceph import has_bindings
from ..._host.storage.pools import Pool
from ..._host.storage.proof import by_hand
from ..._host.storage.usage import USED, AskElsewhere, PoolVolume, Usage, volume_exists, why_kept
from ..._model.metadata.machine import MachineNotes, VolumeNote
from ..._model.xml.disk_source import FILE, DiskSource
from ..hypervisor_view import HypervisorView
from ..ownership import OTHER, UNTOLD, identify
from ..power.plan import STOPPED, PowerRequest
from ..shared_volumes.volume import SharedVolume, shared_volume
from .disks import MachineDisk, identity_of_note, read_disks
from .snapshot_files import files_of_snapshots, is_memory_of

DELETE, KEEP = "delete", "keep"

NOT_CREATED = "it was not created for this machine"
_UNPROVEN = "nothing proves that it is the volume that was created for this machine"


@dataclass(frozen=True)
class PurgeOptions:
    """What the task asks for. disks: volumes that go beside the machine's own, by target device or ``pool/volume``.

    elsewhere: what all other hypervisors say of volumes in shared pools; None when they were not asked. stop: a machine
    that is active is shut down by its operating system, which has stop_seconds for that; then, with force, it is
    powered off.
    """

    force: bool = False
    keep_disks: bool = False
    adopt: bool = False
    disks: tuple[str, ...] = ()
    elsewhere: AskElsewhere | None = None
    stop: bool = False
    stop_seconds: float = 180

    @property
    def shut_down(self) -> PowerRequest:
        """What is asked for where an active machine is shut down."""
        return PowerRequest(STOPPED, self.stop_seconds, self.force)


@dataclass(frozen=True)
class VolumeDecision:
    """What becomes of a volume. pool: None for what is in no active pool; volume is its path then.

    found: the pool, where it is known. note: what the metadata say of it, when it goes because of them. shared: what
    other hypervisors are to be asked about it, where it would go as far as is known here.
    """

    pool: str | None
    volume: str
    action: str
    reason: str
    found: Pool | None = field(default=None, compare=False, repr=False)
    note: VolumeNote | None = field(default=None, compare=False, repr=False)
    shared: SharedVolume | None = field(default=None, compare=False, repr=False)

    @property
    def words(self) -> str:
        """The volume in words."""
        return f"volume {self.volume}" + ("" if self.pool is None else f" of pool {self.pool}")

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        return {"pool": self.pool, "volume": self.volume, "action": self.action, "reason": self.reason}


def decide(domain: Domain, view: HypervisorView, options: PurgeOptions) -> list[VolumeDecision]:
    """What becomes of each volume of a machine that is there: those of its metadata, then its other disks, its image.

    Those that go stand in the order in which they are to be deleted, as far as one is backed by another. Raises
    InputError for a disk that the machine does not have.
    """
    disks = read_disks(domain, view)
    notes = domain.notes or MachineNotes()
    noted = [(note, identity_of_note(note, view)) for note in notes.volumes]
    named = _read_named(options.disks, disks, noted, domain.name)
    attached = {disk.identity for disk in disks}
    seen = {identity for _note, identity in noted}
    if domain.notes is not None and not options.keep_disks:
        _require_noted_snapshots(
            domain, view, {disk.identity: disk for disk in disks if disk.identity not in seen | named}
        )
    decisions = []
    for note, identity in noted:
        decision = _decide_own(note, view, options, domain, attached=identity in attached, named=identity in named)
        if decision is None and identity in attached:
            decision = _decide_away(view.pools.get(note.pool), note.name, notes, disks)
        if decision is not None:
            decisions.append(decision)
    for disk in disks:
        if disk.identity in seen:
            continue
        seen.add(disk.identity)
        decision = _decide_other(disk, named=disk.identity in named)
        if decision is None and disk.pool is not None:
            decision = _decide_away(disk.pool, disk.volume, notes, disks)
        if decision is not None:
            decisions.append(decision)
    of_snapshots = _decide_snapshots(domain, view, options, seen)
    decisions += [decision for decision in of_snapshots if decision.pool is not None]
    decisions = [_with_shared(decision) for decision in _without_kept_by_cluster(decisions)]
    decisions = _without_used(decisions, view.usage, domain.name)
    return [
        *_overlays_first(decisions, view.usage),
        *_image_of(notes, view, seen),
        *(decision for decision in of_snapshots if decision.pool is None),
        *_files_of_others(domain, view),
    ]


def _require_noted_snapshots(domain: Domain, view: HypervisorView, unnoted: Mapping[t.Hashable, MachineDisk]) -> None:
    """Raise ConflictError when a disk is the file of a snapshot that this collection has taken, and nothing notes it as
    the machine's own: it would stay, and so would all that it is backed by. unnoted: the disks that nothing notes."""
    for file in files_of_snapshots(domain) if unnoted else ():
        disk = unnoted.get(view.usage.identity_at(file.path))
        if not file.own or file.memory or disk is None or disk.pool is None:
            continue
        # libvirt creates it past its pools, and lists it when it may look again.
        if volume_exists(disk.pool, disk.volume) or (view.pools.local and os.path.lexists(file.path)):
            raise ConflictError(
                f"{disk.words}, a file of snapshot {file.snapshot} of {domain.name}, is not noted as its own yet, so "
                "all of its disks would stay behind: a run is taking that snapshot, or was interrupted",
                hint="Wait for that run. If there is none: virt_snapshot with state: present and name: "
                f"{file.snapshot}, which notes it",
            )


def _read_named(
    words: Sequence[str],
    disks: Sequence[MachineDisk],
    noted: Sequence[tuple[VolumeNote, t.Hashable]],
    machine: str,
) -> set[t.Hashable]:
    """The identities of the disks that the task names. noted: volumes of the metadata, with their identities."""
    known = {f"{note.pool}/{note.name}": identity for note, identity in noted}
    targets: dict[str, MachineDisk] = {}
    twice: dict[str, str] = {}
    for disk in disks:
        known[disk.words] = known[disk.target] = disk.identity
        first = targets.setdefault(disk.target, disk)
        if first.identity != disk.identity:
            twice[disk.target] = f"{first.words} in the definition of machine {machine} and {disk.words} while it runs"
    for number, word in enumerate(words):
        if word in twice:
            raise InputError(
                f"{word!r} is {twice[word]}", where=f"disks[{number}]", hint="Give the pool and the volume"
            )
        if word not in known:
            raise InputError(
                f"{word!r} is not a disk of machine {machine}", where=f"disks[{number}]", hint=one_of_these(word, known)
            )
    return {known[word] for word in words}


def _decide_own(
    note: VolumeNote, view: HypervisorView, options: PurgeOptions, domain: Domain, *, attached: bool, named: bool
) -> VolumeDecision | None:
    """A volume that the metadata list; None when it is not there. Who uses it is not looked at yet."""

    def keep(reason: str) -> VolumeDecision:
        return VolumeDecision(note.pool, note.name, KEEP, reason)

    try:
        pool = view.pools.get(note.pool)
    except VirtError as exc:
        return keep(exc.what)
    if not volume_exists(pool, note.name):
        return None
    if options.keep_disks and note.role != "seed":
        return keep("keep_disks is set")
    if named:
        return VolumeDecision(note.pool, note.name, DELETE, "disks names it", pool)
    told = identify(pool, note)
    if told == OTHER:
        return keep(f"{_UNPROVEN}: another one may have its name now. {by_hand(note)}")
    if told == UNTOLD and not attached and not _is_memory(pool, note.name, domain):
        return keep(f"the machine does not have it as a disk, and {_UNPROVEN}. {by_hand(note)}")
    return VolumeDecision(note.pool, note.name, DELETE, "it belongs to this machine", pool, note)


def _decide_away(pool: Pool, volume: str, notes: MachineNotes, disks: Sequence[MachineDisk]) -> VolumeDecision | None:
    """A disk that is not there; None where others of the machine are in its pool. Where none is, the file system of the
    pool may only be missing, and then nobody else knows any more whose the disk is."""
    others = [one.name for one in notes.volumes if one.pool == pool.name]
    others += [disk.volume for disk in disks if disk.pool is not None and disk.pool.name == pool.name]
    if pool.source_type != FILE or any(volume_exists(pool, other) for other in others):
        return None
    hint = by_hand(VolumeNote(pool.name, volume, "disk"))
    return VolumeDecision(
        pool.name, volume, KEEP, f"it is not there: it has been deleted, or {pool.path} is not mounted. {hint}"
    )


def _decide_other(disk: MachineDisk, *, named: bool) -> VolumeDecision | None:
    """A disk of the machine on something that was not created for it; None when it is not there."""
    if disk.pool is None:
        return VolumeDecision(None, disk.volume, KEEP, "it is in no active storage pool")
    if not volume_exists(disk.pool, disk.volume):
        return None
    if named:
        return VolumeDecision(disk.pool.name, disk.volume, DELETE, "disks names it", disk.pool)
    return VolumeDecision(disk.pool.name, disk.volume, KEEP, NOT_CREATED)


def _decide_snapshots(
    domain: Domain, view: HypervisorView, options: PurgeOptions, seen: Collection[t.Hashable]
) -> list[VolumeDecision]:
    """What the machine's external snapshots need, and neither its metadata list nor its disks are on."""
    found = []
    for file in files_of_snapshots(domain):
        if view.usage.identity_at(file.path) in seen:
            continue
        pool, volume = view.locate(DiskSource(FILE, path=file.path)) or (None, file.path)
        if pool is None:
            if not view.pools.local or os.path.lexists(file.path):
                reason = f"{file.words}. If nobody needs it: rm {shlex.quote(file.path)}"
                found.append(VolumeDecision(None, file.path, KEEP, reason))
        elif options.keep_disks:
            found.append(VolumeDecision(pool.name, volume, KEEP, "keep_disks is set"))
        elif file.own and file.memory and domain.notes is not None and _is_memory(pool, volume, domain):
            found.append(VolumeDecision(pool.name, volume, DELETE, "it belongs to this machine", pool))
        else:
            reason = f"{file.words}. {by_hand(VolumeNote(pool.name, volume, 'disk'))}"
            found.append(VolumeDecision(pool.name, volume, KEEP, reason))
    return found


def _is_memory(pool: Pool, volume: str, domain: Domain) -> bool:
    """Whether a volume holds the machine's memory, as libvirt has written it for a snapshot."""
    if not pool.local or pool.source_type != FILE:
        return False
    return is_memory_of(pool.volume_path(volume), domain.handle.UUIDString())


def _with_shared(decision: VolumeDecision) -> VolumeDecision:
    """The decision with what others are to be asked about it, where it goes."""
    if decision.action != DELETE or decision.found is None:
        return decision
    return replace(decision, shared=shared_volume(decision.found, decision.volume))


def _without_kept_by_cluster(decisions: Sequence[VolumeDecision]) -> list[VolumeDecision]:
    """The same, but what has clones or somebody else's snapshots in its Ceph cluster stays, as nobody can delete it.
    Raises VirtError."""

    def keep(decision: VolumeDecision) -> VolumeDecision:
        pool = decision.found
        if decision.action != DELETE or pool is None or not pool.clones_images or not has_bindings():
            return decision
        users = users_in_cluster(pool, [decision.volume]).get(decision.volume, ())
        return _kept(decision, f"it is used by {', '.join(users)}") if users else decision

    return [keep(decision) for decision in decisions]


def _kept(decision: VolumeDecision, reason: str) -> VolumeDecision:
    return replace(decision, action=KEEP, reason=reason, found=None, note=None)


def _without_used(decisions: Sequence[VolumeDecision], usage: Usage, machine: str) -> list[VolumeDecision]:
    """The same, but what something else uses, or may use, stays; and so does what backs one that stays."""
    now = list(decisions)
    outside = [decision.volume for decision in now if decision.pool is None]
    while True:
        going = volumes_of(now)
        kept = 0
        for index, decision in enumerate(now):
            if decision.action != DELETE or decision.found is None:
                continue
            use = usage.of(decision.found, decision.volume, owner=machine, besides=machine, together=going)
            reason = why_kept(use)
            if reason is None and outside and _is_below_own(decision.found, decision.volume, usage, machine):
                reason = f"it may back {', '.join(outside)}, which is kept"
            if reason is None and usage.backs_own_disk(decision.found, decision.volume, machine, going):
                reason = "it backs a file that the machine needs in a snapshot, and that is kept"
            if reason is None:
                continue
            if use.state != USED:
                reason = f"{reason}. {by_hand(VolumeNote(decision.pool or '', decision.volume, 'disk'))}"
            now[index] = _kept(decision, reason)
            kept += 1
        if not kept:
            return now


def _is_below_own(pool: Pool, volume: str, usage: Usage, machine: str) -> bool:
    """Whether a disk of the machine itself is backed by the volume, or may be.

    Its own use is none, but a disk in no pool stays, as after a snapshot into another folder. One in a pool is a user
    as a volume.
    """
    below = any(user.machine == machine and user.below for user in usage.users_of(pool, volume))
    return below or any(unknown.machine == machine for unknown in usage.unknown)


def volumes_of(decisions: Collection[VolumeDecision]) -> list[PoolVolume]:
    """The volumes that go."""
    return [(d.found, d.volume) for d in decisions if d.action == DELETE and d.found is not None]


def _overlays_first(decisions: Sequence[VolumeDecision], usage: Usage) -> list[VolumeDecision]:
    """The same with every overlay before what backs it.

    Killed in between the other way round, a run would leave an overlay on nothing, of which no later run can tell what
    it is backed by.
    """
    waiting = [decision for decision in decisions if decision.action == DELETE]
    ordered = []
    while waiting:
        names = {(decision.pool, decision.volume) for decision in waiting}
        free = [d for d in waiting if d.found is None or not _volumes_on(d.found, d.volume, usage) & names]
        # A circle cannot be; if there were one, no order of it would be better than another.
        ordered += free or waiting
        waiting = [decision for decision in waiting if free and decision not in free]
    return [*ordered, *(decision for decision in decisions if decision.action != DELETE)]


def _volumes_on(pool: Pool, volume: str, usage: Usage) -> set[tuple[str | None, str]]:
    found = {user.volume for user in usage.users_of(pool, volume) if user.volume is not None}
    return {name for name in found if name != (pool.name, volume)}


def _files_of_others(domain: Domain, view: HypervisorView) -> list[VolumeDecision]:
    """What libvirt would delete with the machine, and something else uses: its UEFI variables, or the state of its
    TPM."""
    if not own_files(domain.xml):
        return []
    kept = kept_files(domain.xml, domain.name, view.usage)
    return [VolumeDecision(None, path, KEEP, reason) for path, reason in kept.items()]


def _image_of(notes: MachineNotes, view: HypervisorView, seen: Collection[t.Hashable]) -> list[VolumeDecision]:
    """The stored image that the machine was made from, which is never a machine's own."""
    if notes.image is None:
        return []
    image = VolumeNote(notes.image.pool, notes.image.volume, "disk")
    if identity_of_note(image, view) in seen:
        return []
    try:
        there = volume_exists(view.pools.get(image.pool), image.name)
    except VirtError:
        return []
    reason = "it is a stored image, which virt_image removes when nothing uses it"
    return [VolumeDecision(image.pool, image.name, KEEP, reason)] if there else []
