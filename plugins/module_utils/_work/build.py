# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is not there yet: everything checked first, then the steps that build it.

The order is what makes a killed run harmless. The domain is defined first, marked ``building``, with the list of
volumes that will be made; it is marked ``ready`` when they all stand. Whoever finds ``building`` can clear exactly that
list.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host import domains as host_domains
from ansible_collections.brine.virt.plugins.module_utils._host import volume_copy, volumes
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.domains import Domain
from ansible_collections.brine.virt.plugins.module_utils._host.images import StoredImage
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.domain_xml import Placed, disk_targets, domain_xml
from ansible_collections.brine.virt.plugins.module_utils._model.metadata import (
    BUILDING,
    READY,
    DiskNote,
    ImageNote,
    MachineNotes,
    NicNote,
    SeedNote,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.rules import inside
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Disk, Machine
from ansible_collections.brine.virt.plugins.module_utils._model.units import MIB
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import HostKey, make_host_keys
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import (
    seed_digest,
    seed_documents,
    seed_image,
)
from ansible_collections.brine.virt.plugins.module_utils._work.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._work.plan import Step


@dataclass(frozen=True)
class _NewDisk:
    """A disk to make: where, how large, from which image."""

    disk: Disk
    pool: Pool
    volume: str
    size_bytes: int
    image: StoredImage | None

    @property
    def path(self) -> str:
        return self.pool.volume_path(self.volume)


@dataclass(frozen=True)
class _NewSeed:
    """A seed volume to make."""

    pool: Pool
    volume: str

    @property
    def path(self) -> str:
        return self.pool.volume_path(self.volume)


def steps_to_build(machine: Machine, hypervisor: Hypervisor, where: str, unfinished: Domain | None) -> list[Step]:
    """The steps from nothing, or from what a killed run left, to the running machine.

    All checks happen here, before the first step. where: the machine's place in the input.
    Raises an error of ours when the hypervisor cannot have this machine.
    """
    own_volumes = unfinished.notes.volumes if unfinished and unfinished.notes else ()
    _check_hypervisor(machine, hypervisor, where)
    disks = [_new_disk(disk, machine, hypervisor, where, own_volumes) for disk in machine.disks]
    seed = _new_seed(machine, hypervisor, where, own_volumes)
    _check_room(disks)
    keys = make_host_keys() if seed else ()
    notes = _notes(machine, disks, seed, keys)
    xml = domain_xml(
        machine,
        notes=notes,
        host=hypervisor.guests.choices(machine, where),
        disks=[
            Placed(new.disk, note.target, "file", new.path)
            for new, note in zip(disks, notes.disks)  # noqa: B905 - Python 3.9 has no strict
        ],
        seed=seed.path if seed else None,
    )
    steps = steps_to_clear(unfinished, hypervisor) if unfinished else []
    steps.append(_define_step(machine.name, xml, notes, hypervisor))
    steps.extend(_disk_step(new, hypervisor) for new in disks)
    if seed:
        steps.append(_seed_step(machine, seed, keys, hypervisor))
    steps.append(_ready_step(machine.name, notes, hypervisor))
    if machine.autostart:
        steps.append(autostart_step(machine.name, True, hypervisor))
    if machine.start:
        steps.append(start_step(machine.name, hypervisor))
    return steps


def steps_to_clear(unfinished: Domain, hypervisor: Hypervisor) -> list[Step]:
    """The steps that take away what a killed run left: the volumes that its domain lists, then the domain.

    A listed volume that another machine has come to use is an error: nothing is deleted under anybody.
    """
    notes = unfinished.notes or MachineNotes()
    pools = {volume.pool: hypervisor.pools.get(volume.pool) for volume in notes.volumes}
    others = {domain.name: domain for domain in hypervisor.domains.values() if domain.name != unfinished.name}
    used = host_domains.paths_in_use(others.values())
    for volume in notes.volumes:
        user = used.get(pools[volume.pool].volume_path(volume.name))
        if user:
            raise ConflictError(
                f"machine {unfinished.name} was never finished, and its volume {volume.name} is in use by {user}",
                hint=f"Look at both and remove one of them: virsh undefine {unfinished.name}",
            )

    def clear() -> None:
        for volume in notes.volumes:
            volumes.delete_volume(pools[volume.pool], volume.name)
        host_domains.undefine(hypervisor.conn, unfinished.name)

    return [Step(f"clear what an interrupted run left of {unfinished.name}", clear)]


def _check_hypervisor(machine: Machine, hypervisor: Hypervisor, where: str) -> None:
    if machine.memory_mib > hypervisor.memory_mib:
        raise ConflictError(
            f"{machine.name} wants {machine.memory_mib} MiB of memory, this hypervisor has {hypervisor.memory_mib} MiB",
            where=inside(where, "memory"),
        )
    for nic in machine.nics:
        place = inside(where, f"nics[{nic.name}]")
        hypervisor.check_nic(nic, place)
        owner = hypervisor.macs.get(nic.mac)
        if owner and owner != machine.name:
            raise ConflictError(
                f"the MAC address {nic.mac} belongs to machine {owner}", where=place, hint="Name another one with mac"
            )


def _free_name(volume: str, pool: Pool, hypervisor: Hypervisor, where: str, own: Sequence[VolumeNote]) -> str:
    """The volume's name, if no volume has it but one that an unfinished run of this same machine made."""
    if volume in hypervisor.volumes(pool) and not any(v.pool == pool.name and v.name == volume for v in own):
        raise ConflictError(
            f"pool {pool.name!r} has a volume {volume!r} already, which belongs to no machine of this name",
            where=where,
            hint=f"If nobody needs it: virsh vol-delete {volume} --pool {pool.name}",
        )
    return volume


def _new_disk(disk: Disk, machine: Machine, hypervisor: Hypervisor, where: str, own: Sequence[VolumeNote]) -> _NewDisk:
    place = inside(where, f"disks[{disk.name}]")
    pool = hypervisor.pools.get(disk.pool, f"{place}.pool")
    volume = _free_name(f"{machine.name}-{disk.name}.{disk.format}", pool, hypervisor, place, own)
    image = None
    if disk.image is not None:
        try:
            image = hypervisor.image(disk.image)
        except VirtError as exc:
            named = inside(where, "image") if disk.image == machine.image else f"{place}.image"
            raise type(exc)(exc.what, where=exc.where or named, hint=exc.hint) from exc
    wanted = (disk.size_mib or 0) * MIB
    if image and disk.size_mib and wanted < image.virtual_size_bytes:
        raise InputError(
            f"{disk.size_mib} MiB is less than the {-(-image.virtual_size_bytes // MIB)} MiB of image {image.name}",
            where=f"{place}.size",
            hint="A disk cannot be smaller than its image",
        )
    return _NewDisk(disk, pool, volume, wanted or (image.virtual_size_bytes if image else 0), image)


def _new_seed(machine: Machine, hypervisor: Hypervisor, where: str, own: Sequence[VolumeNote]) -> _NewSeed | None:
    if machine.seed.method == "none":
        return None
    place = inside(where, "seed")
    pool = hypervisor.pools.get(machine.seed.pool, f"{place}.pool")
    return _NewSeed(pool, _free_name(f"{machine.name}-seed.iso", pool, hypervisor, place, own))


def _check_room(disks: Sequence[_NewDisk]) -> None:
    """A full copy is written whole; overlays and empty disks begin with nothing."""
    for pool in {new.pool.name: new.pool for new in disks}.values():
        needed = sum(
            new.image.virtual_size_bytes
            for new in disks
            if new.image and new.disk.clone == "copy" and new.pool.name == pool.name
        )
        if needed > pool.available_bytes:
            raise ConflictError(
                f"pool {pool.name!r} has {pool.available_bytes // MIB} MiB free, the copies need {needed // MIB} MiB"
            )


def _notes(machine: Machine, disks: Sequence[_NewDisk], seed: _NewSeed | None, keys: Sequence[HostKey]) -> MachineNotes:
    targets = disk_targets(machine.disks)
    image = next((new.image for new in disks if new.image), None)
    made = [VolumeNote(new.pool.name, new.volume, "disk") for new in disks]
    if seed:
        made.append(VolumeNote(seed.pool.name, seed.volume, "seed"))
    return MachineNotes(
        status=BUILDING,
        image=ImageNote(image.name, image.volume, image.pool) if image else None,
        volumes=tuple(made),
        disks=tuple(DiskNote(disk.name, targets[disk.name]) for disk in machine.disks),
        nics=tuple(NicNote(nic.name, nic.mac, nic.addresses) for nic in machine.nics),
        tags=machine.tags or (),
        variables=machine.variables or {},
        seed=SeedNote(machine.seed.method, seed_digest(machine), machine.seed.user) if seed else None,
        host_keys=tuple(key.public for key in keys),
    )


def _define_step(name: str, xml: str, notes: MachineNotes, hypervisor: Hypervisor) -> Step:
    def undo() -> None:
        """Somebody may have defined a machine of this name since the plan was made; that one has not our notes."""
        domain = host_domains.list_domains(hypervisor.conn).get(name)
        if domain and domain.notes and domain.notes.volumes == notes.volumes:
            host_domains.undefine(hypervisor.conn, name)

    return Step(f"define machine {name}", lambda: host_domains.define(hypervisor.conn, xml, name), undo)


def _volume_step(what: str, make: t.Callable[[], None], pool: Pool, volume: str) -> Step:
    """The step that makes a volume; taking it back deletes it, unless it turned out to be somebody else's."""
    theirs: list[VirtError] = []

    def apply() -> None:
        try:
            make()
        except volumes.AlreadyThereError as exc:
            theirs.append(exc)
            raise

    def undo() -> None:
        if not theirs:
            volumes.delete_volume(pool, volume)

    return Step(what, apply, undo)


def _disk_step(new: _NewDisk, hypervisor: Hypervisor) -> Step:
    size = f"{new.size_bytes // MIB} MiB"
    if new.image is None:
        what = f"make empty disk {new.disk.name} ({size}, {new.volume} in pool {new.pool.name})"
    elif new.disk.clone == "copy":
        what = f"copy image {new.image.volume} to disk {new.disk.name} ({size}, {new.volume} in pool {new.pool.name})"
    else:
        what = f"make disk {new.disk.name} on image {new.image.volume} ({size}, {new.volume} in pool {new.pool.name})"

    def apply() -> None:
        if new.image is None:
            volumes.create_empty(new.pool, new.volume, size_bytes=new.size_bytes, image_format=new.disk.format)
        elif new.disk.clone == "copy":
            source = hypervisor.pools.get(new.image.pool).handle.storageVolLookupByName(new.image.volume)
            volume_copy.create_copy(
                new.pool, new.volume, size_bytes=new.size_bytes, image_format=new.disk.format, source=source
            )
        else:
            volumes.create_overlay(
                new.pool,
                new.volume,
                size_bytes=new.size_bytes,
                image_path=new.image.path,
                image_format=new.image.format,
            )

    return _volume_step(what, apply, new.pool, new.volume)


def _seed_step(machine: Machine, seed: _NewSeed, keys: Sequence[HostKey], hypervisor: Hypervisor) -> Step:
    def apply() -> None:
        volumes.create_filled(seed.pool, seed.volume, seed_image(seed_documents(machine, keys)), hypervisor.conn)

    what = f"seed {machine.name} ({machine.seed.method}, {seed.volume} in pool {seed.pool.name})"
    return _volume_step(what, apply, seed.pool, seed.volume)


def _ready_step(name: str, notes: MachineNotes, hypervisor: Hypervisor) -> Step:
    def mark(status: str) -> None:
        with errors_as_ours(f"cannot find machine {name}"):
            handle = hypervisor.conn.lookupByName(name)
        host_domains.write_notes(handle, replace(notes, status=status))

    # Taking it back marks it unfinished again, so that a run killed while undoing is recognised as well.
    return Step(f"mark {name} as ready", lambda: mark(READY), lambda: mark(BUILDING))


def autostart_step(name: str, wanted: bool, hypervisor: Hypervisor) -> Step:
    """The step that makes a machine start with its hypervisor, or not."""

    def switch(on: bool) -> None:
        with errors_as_ours(f"cannot switch the autostart of machine {name}"):
            hypervisor.conn.lookupByName(name).setAutostart(int(on))

    return Step(
        f"switch autostart of {name} {'on' if wanted else 'off'}", lambda: switch(wanted), lambda: switch(not wanted)
    )


def start_step(name: str, hypervisor: Hypervisor) -> Step:
    """The step that starts a machine; taking it back pulls its plug again."""

    def start() -> None:
        with errors_as_ours(f"cannot start machine {name}"):
            hypervisor.conn.lookupByName(name).create()

    def stop() -> None:
        with errors_as_ours(f"cannot stop machine {name}"):
            handle: t.Any = hypervisor.conn.lookupByName(name)
            if handle.isActive():
                handle.destroy()

    return Step(f"start {name}", start, stop)
