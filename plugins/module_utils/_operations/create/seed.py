# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into a machine before its first boot: a volume beside its disks, or its first disk itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.errors import ConflictError, InputError, inside
from ..._host.storage import volumes
from ..._host.storage.ceph import require_bindings
from ..._host.storage.pools import Pool
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.spec.machine import Machine
from ..._model.xml.disk_source import FILE, DiskSource
from ..._seeding.guestfs import GUESTFISH, seed_disk
from ..._seeding.host_keys import HostKey
from ..._seeding.nocloud import BSDTAR, seed_documents, seed_image
from ..._seeding.offline import seed_archive
from ..disks.new_volume import VolumeOwner, free_name, mark_for, volume_step
from ..disks.planned import PlannedDisk
from ..hypervisor import Hypervisor
from ..plan import Step
from ..task_volumes import WRITES, VolumeUseByDisk


@dataclass(frozen=True)
class PlannedSeed:
    """A seed with all that is decided about it: a volume of its own, or the disk that it goes into."""

    method: str
    pool: Pool | None = None
    volume: str = ""
    disk: PlannedDisk | None = None
    mark: str = ""

    @property
    def source(self) -> DiskSource | None:
        """Where the machine finds it; None for one inside a disk."""
        return self.pool.source_of(self.volume) if self.pool else None

    @property
    def note(self) -> VolumeNote | None:
        """The note of the volume that is made, if one is."""
        if self.pool is None:
            return None
        return VolumeNote(self.pool.name, self.volume, "seed", format="raw", making=CreationNote(self.mark))


def plan_seed(
    machine: Machine,
    disks: Sequence[PlannedDisk],
    hypervisor: Hypervisor,
    where: str,
    own: Sequence[VolumeNote] = (),
) -> PlannedSeed | None:
    """Decide where the seed goes; None where the spec has none. own: volumes that an unfinished run of ours left."""
    method = machine.seed.method
    if method == "none":
        return None
    place = inside(where, "seed")
    if method == "guestfs":
        system = next((planned for planned in disks if planned.image or planned.base), None)
        if system is None or system.source is None or not system.source.path:
            raise InputError(
                "no disk of this machine contains an operating system",
                where=f"{place}.method",
                hint="guestfs writes into a disk that is created from an image, in a pool of files or of block devices",
            )
        GUESTFISH.require(place)
        return PlannedSeed(method, disk=system)
    BSDTAR.require(place)
    pool = hypervisor.pools.get(machine.seed.pool, f"{place}.pool")
    pool.require_format("raw", f"{place}.pool")
    if pool.clones_images:
        require_bindings(pool, f"{place}.pool", "choose another pool for the seed")
    name = seed_volume(machine, pool)
    same = next((one.disk for one in disks if one.source and one.source.place == pool.volume_path(name)), None)
    if same is not None:
        raise ConflictError(
            f"disk {same.name} has volume {name} of pool {pool.name}, which is what the seed's volume is called",
            where=same.given.place,
            hint="Give the disk another name, or choose another pool for it or for the seed",
        )
    volume = free_name(name, machine.name, pool, hypervisor, place, own)
    hypervisor.task_volumes.add(
        VolumeUseByDisk(
            machine.name, "seed", volume, WRITES, place, lambda: hypervisor.usage.identity(pool, volume), made=True
        )
    )
    return PlannedSeed(method, pool, volume, mark=mark_for(pool, volume, own))


def seed_volume(machine: Machine, pool: Pool) -> str:
    """The name of a machine's seed volume."""
    return f"{machine.name}-seed.iso" if pool.source_type == FILE else f"{machine.name}-seed"


def seed_step(machine: Machine, seed: PlannedSeed, keys: Sequence[HostKey], maker: VolumeOwner) -> Step:
    """The step that seeds the machine."""
    hypervisor = maker.hypervisor
    pool, disk, note = seed.pool, seed.disk, seed.note
    if pool is not None and note is not None:

        def make() -> None:
            content = seed_image(seed_documents(machine, keys))
            volumes.create_filled(pool, seed.volume, content, hypervisor.conn, seed.mark)

        what = f"seed {machine.name} ({seed.method}, {seed.volume} in pool {pool.name})"
        return volume_step(what, make, pool, note, maker)

    def write() -> None:
        if disk is not None and disk.source is not None:
            archive = seed_archive(machine, keys)
            seed_disk(disk.source.path, disk.format, archive, emulated=hypervisor.guests.emulated)

    # What is written into the disk goes with the disk when it is rolled back.
    return Step(f"seed {machine.name} ({seed.method}, into disk {disk.disk.name if disk else ''})", write)
