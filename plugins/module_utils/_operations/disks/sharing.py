# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a disk may have a volume that is there, or be backed by it: who else uses it, or will.

The users are those that deletions ask for, by whatever names the volume has (storage/users.py). What only a machine's
notes list is free to be taken: the machine has lost it, and asks as everybody does before it takes it back.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, InputError, VirtError, inside
from ..._base.xml import etree
from ..._host.storage.pools import Pool
from ..._host.storage.users import VolumeUser
from ..._host.storage.volume_facts import is_busy
from ..._model.image.name import parse_image_volume
from ..._model.spec.disk import Disk
from ..._model.spec.fragment import fragment_disks
from ..._model.spec.machine import Machine
from ..._model.xml.disk_source import BLOCK, FILE, DiskSource
from ..hypervisor import Hypervisor
from ..shared_volumes.units import rbd_paths
from ..task_volumes import BACKED, READS, SHARES, WRITES, VolumeUseByDisk
from .elsewhere import check_elsewhere

# What a disk does with its volume, each more than the one before.
_MORE_AND_MORE = (READS, SHARES, WRITES)
_TWO_SYSTEMS = "Two systems that use one file system destroy it. lsblk shows what uses it"


def require_shareable(disk: Disk, image_format: str, options: t.Mapping[str, t.Any]) -> None:
    """Raise InputError for a disk that is to be shared by machines that write to it, and cannot be.

    options: of the disk as it will be.
    """
    if image_format == "qcow2" and options.get("shareable") and not options.get("readonly"):
        # Each QEMU would keep a map of the file of its own, so libvirt refuses it.
        raise InputError(
            "a qcow2 volume cannot be shared by machines that write to it",
            where=disk.given.at("shareable"),
            hint="Set format: raw",
        )


def how_used(disk: Disk) -> str:
    """What a disk does with the volume that it names as its source."""
    if disk.device == "cdrom" or disk.options.get("readonly"):
        return READS
    return SHARES if disk.options.get("shareable") else WRITES


def how_attached(element: etree._Element) -> str:
    """What a disk that a machine has does with its volume."""
    if element.get("device") == "cdrom" or element.find("readonly") is not None:
        return READS
    return SHARES if element.find("shareable") is not None else WRITES


def how_requested(disk: Disk, element: etree._Element) -> str:
    """The same when it has been changed as the task asks for; what that does not name stays."""
    has = {"readonly": element.find("readonly") is not None, "shareable": element.find("shareable") is not None}
    return how_used(replace(disk, device=element.get("device", "disk"), options={**has, **disk.options}))


def check_source(disk: Disk, pool: Pool, volume: str, machine: Machine, hypervisor: Hypervisor) -> None:
    """Raise ConflictError when a machine would write to a volume that others have, or are backed by."""
    how, where = how_used(disk), disk.given.at("source")
    if how != READS:
        _require_not_the_hosts(pool.source_of(volume), hypervisor, where)
        _require_no_image(pool, volume, hypervisor, where)
        users = hypervisor.usage.users_of(pool, volume)
        rolled_back = _made_for(machine, pool, volume, hypervisor)
        _require_unshared(how, users, volume, machine, hypervisor, where, rolled_back=rolled_back)
    plan_use(how, disk, pool, volume, machine, hypervisor, where)
    if how == WRITES:
        check_elsewhere(pool, volume, hypervisor, where)


def check_more_use(disk: Disk, element: etree._Element, machine: Machine, hypervisor: Hypervisor) -> None:
    """Raise ConflictError when a disk that is there would do more with its volume than it did, and others have that."""
    how, had = how_requested(disk, element), how_attached(element)
    where = disk.given.at("readonly" if had == READS else "shareable")
    if _MORE_AND_MORE.index(how) > _MORE_AND_MORE.index(had):
        _check_attached(element, how, disk.name, machine, hypervisor, where, takes_back=True)


def check_fragment_disks(machine: Machine, hypervisor: Hypervisor, where: str) -> None:
    """Raise ConflictError when a disk of the machine's ``xml`` would write to what others have, or are backed by.

    They are put into the machine as they are, and get no volume that others have either.
    """
    for element in fragment_disks(machine.xml) if machine.xml else ():
        how, target = how_attached(element), element.find("target")
        if how != READS:
            device = "" if target is None else target.get("dev", "")
            _check_attached(element, how, device, machine, hypervisor, inside(where, "xml"), takes_back=False)


def _check_attached(
    element: etree._Element,
    how: str,
    name: str,
    machine: Machine,
    hypervisor: Hypervisor,
    where: str,
    *,
    takes_back: bool,
) -> None:
    """Raise ConflictError when a ``<disk>`` may not do this with what it lies on.

    name: the disk's. takes_back: of a volume that was made for this machine, only a use that is seen counts.
    """
    found = users_of_source(element, hypervisor, where)
    if found is None:
        return
    volume, identity, users = found
    place = hypervisor.volume_of(element)
    lies_on = DiskSource.read(element) if place is None else place[0].source_of(place[1])
    _require_not_the_hosts(lies_on, hypervisor, where)
    if place is not None:
        _require_no_image(*place, hypervisor, where)
    rolled_back = takes_back and place is not None and _made_for(machine, *place, hypervisor)
    _require_unshared(how, users, volume, machine, hypervisor, where, rolled_back=rolled_back)
    hypervisor.task_volumes.add(VolumeUseByDisk(machine.name, name, volume, how, where, lambda: identity))
    if place is not None:
        hypervisor.want(*place, how, machine.name, where)
        if how == WRITES:
            check_elsewhere(*place, hypervisor, where)


def check_growth(
    disk: Disk, element: etree._Element, pool: Pool, volume: str, machine: Machine, hypervisor: Hypervisor
) -> None:
    """Raise ConflictError when a disk that is to grow lies on a volume that was not made for it, and is not its own; or
    that another machine, as one that was copied by its XML, has as well."""
    how, where = how_attached(element), disk.given.at("size")
    if _made_for(machine, pool, volume, hypervisor):
        # Where QEMU locks the file against qemu-img while that machine runs.
        users = hypervisor.usage.users_of(pool, volume) if how == WRITES and pool.source_type == FILE else ()
        for user in sorted(users, key=lambda user: user.words):
            if user.words == f"machine {user.machine}" and user.machine != machine.name and user.writes:
                raise _taken(volume, user, where)
        return
    if how == READS:
        raise ConflictError(
            f"the disk is read-only, and its volume {volume} was not created for this machine",
            where=where,
            hint="Leave size out; this collection does not change volumes that it did not create",
        )
    _require_no_image(pool, volume, hypervisor, where)
    users = hypervisor.usage.users_of(pool, volume)
    # A larger volume costs nobody anything, so that only a use that is seen counts.
    _require_unshared(how, users, volume, machine, hypervisor, where, rolled_back=True)


def users_of_source(
    element: etree._Element, hypervisor: Hypervisor, where: str
) -> tuple[str, t.Hashable, set[VolumeUser]] | None:
    """What a ``<disk>`` lies on: its name, what is the same for all names of it, and who uses it. None for an empty
    drive."""
    source, found = element.find("source"), DiskSource.read(element)
    if found is not None:
        usage = hypervisor.usage
        return found.place, usage.identity_at(found.place), usage.users_at(found.place)
    if source is not None and source.get("pool") and source.get("volume"):
        name, pool = source.get("volume", ""), hypervisor.pools.get(source.get("pool", ""), where)
        return name, hypervisor.usage.identity(pool, name), hypervisor.usage.users_of(pool, name)
    return None


def check_backing(disk: Disk, pool: Pool, volume: str, machine: Machine, hypervisor: Hypervisor) -> None:
    """Raise ConflictError when something writes to the volume that a disk is to be an overlay on, or may do so."""
    where = disk.given.at("backing")
    writer = writer_of(pool, volume, hypervisor)
    if writer is not None:
        raise ConflictError(f"{writer} volume {volume}, which would break every overlay on it", where=where)
    plan_use(BACKED, disk, pool, volume, machine, hypervisor, where)


def writer_of(pool: Pool, volume: str, hypervisor: Hypervisor) -> str | None:
    """Who writes to a volume or may do so, as the subject and verb of a sentence; None when nobody does."""
    users = [user for user in hypervisor.usage.users_of(pool, volume) if user.writes]
    if users:
        user = min(users, key=lambda user: user.words)
        return f"{user.words} {'writes' if user.words == f'machine {user.machine}' else 'may write'} to"
    unseen = [unknown.words for unknown in hypervisor.usage.unknown if unknown.writes]
    return f"{'; '.join(unseen)}, so that it cannot be determined whether something writes to" if unseen else None


def plan_use(
    how: str,
    disk: Disk,
    pool: Pool,
    volume: str,
    machine: Machine,
    hypervisor: Hypervisor,
    where: str,
    *,
    made: bool = False,
) -> None:
    """Raise ConflictError when another disk of this task excludes this use of a volume. made: the task makes it."""

    def identity() -> t.Hashable:
        return hypervisor.usage.identity(pool, volume)

    if not made:
        hypervisor.want(pool, volume, how, machine.name, where)
    hypervisor.task_volumes.add(VolumeUseByDisk(machine.name, disk.name, volume, how, where, identity, made))


def _require_unshared(
    how: str,
    users: set[VolumeUser],
    volume: str,
    machine: Machine,
    hypervisor: Hypervisor,
    where: str,
    *,
    rolled_back: bool = False,
) -> None:
    """Raise ConflictError when one of the users keeps a machine from writing to a volume, or may be unseen.

    how: WRITES or SHARES. rolled_back: it is the machine's own, where only a use that is seen counts.
    """
    for user in sorted(users, key=lambda user: (user.below, user.words)):
        if user.is_host:
            raise ConflictError(f"volume {volume} is used by {user.words}", where=where, hint=_TWO_SYSTEMS)
        if user.below:
            whose = f"a disk of {user.words}" if user.volume is None else user.words
            raise ConflictError(
                f"volume {volume} backs {whose}, and must not be written to",
                where=where,
                hint="Use it as backing, or set readonly",
            )
        listed = user.noted and not user.moving
        if user.machine != machine.name and how != SHARES and not listed:
            raise _taken(volume, user, where)
    unseen = [unknown.words for unknown in hypervisor.usage.unknown if unknown.machine != machine.name]
    if unseen and not rolled_back:
        raise ConflictError(
            f"it cannot be determined whether something uses volume {volume}: {'; '.join(unseen)}",
            where=where,
            hint="Resolve that first, or set readonly for the disk",
        )


def _require_not_the_hosts(source: DiskSource | None, hypervisor: Hypervisor, where: str) -> None:
    """Raise ConflictError for a device that the host itself uses, such as the logical volume with its own root, or a
    volume of Ceph that the kernel has mapped."""
    paths: list[str] = []
    if source is not None and hypervisor.pools.local:
        paths = [source.path] if source.type == BLOCK else rbd_paths(source.place) if source.protocol == "rbd" else []
    busy = next(filter(is_busy, paths), None)
    if busy is not None:
        raise ConflictError(
            f"{busy} is in use on this host (mounted, swap, RAID, LVM, multipath)",
            where=where,
            hint=_TWO_SYSTEMS,
        )


def _require_no_image(pool: Pool, volume: str, hypervisor: Hypervisor, where: str) -> None:
    """What an image is called says what is in it, also where no machine is made from it yet; by whatever name."""
    usage = hypervisor.usage
    try:
        store = hypervisor.pools.get(hypervisor.image_pool)
        images = {usage.identity(store, name) for name in hypervisor.volumes(store) if parse_image_volume(name)}
    except VirtError:
        # Without a store there are no images.
        return
    if usage.identity(pool, volume) in images:
        raise ConflictError(
            f"volume {volume} is an image of the store, and must not be written to",
            where=where,
            hint="Use it as image, or set readonly",
        )


def _taken(volume: str, user: VolumeUser, where: str) -> ConflictError:
    if user.moving:
        return ConflictError(
            f"volume {volume} belongs to a move of {user.words} that has not finished",
            where=where,
            hint="Let it finish first, or start it again",
        )
    if user.words == f"machine {user.machine}":
        return ConflictError(
            f"volume {volume} is a disk of {user.words}",
            where=where,
            hint="Two machines may share it only if both are shareable or readonly",
        )
    return ConflictError(
        f"volume {volume} is used by {user.words}",
        where=where,
        hint=f"Machine {user.machine} may resume with that volume as long as that exists",
    )


def _made_for(machine: Machine, pool: Pool, volume: str, hypervisor: Hypervisor) -> bool:
    """Whether the volume was made for this machine, which takes it back."""
    domain = hypervisor.domains.get(machine.name)
    notes = domain.notes if domain else None
    return notes is not None and any((note.pool, note.name) == (pool.name, volume) for note in notes.volumes)
