# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each disk of a machine gets to another hypervisor, decided and checked before anything is changed."""

from __future__ import annotations

import os
import posixpath
import typing as t
from dataclasses import dataclass

from ...._base.errors import ConflictError, InputError, NotFoundError, UnsupportedError, VirtError, inside, one_of_these
from ...._base.xml import etree, need
from ...._host.connection import translate_errors
from ...._host.storage.pools import Pool
from ...._host.storage.shared_pools import is_shared
from ...._host.storage.volume_facts import Volume, find_volume
from ...._model.image.name import parse_image_volume
from ...._model.metadata.migration import VolumeIdentity, VolumeRef
from ...._model.xml.disk_source import FILE, NETWORK, DiskSource, driver_format
from ...hypervisor_view import HypervisorView
from ..endpoints.options import ALL, NONE, MigrationOptions
from ..endpoints.source_and_target import MigrationTarget, SourceMachine
from .cleanup import manual_deletion
from .volume_identity import is_the_one

# SHARED: both hypervisors see it. MIRROR: QEMU copies it while the machine runs. CONTENT: we copy it, nobody writes to
# it. THERE: the target has it already, and nobody writes to it.
SHARED, MIRROR, CONTENT, THERE = "shared", "mirror", "content", "there"


@dataclass(frozen=True)
class BaseImage:
    """A stored image that backs a disk: its path at the source, and on the target. pool: the target's."""

    pool: str
    volume: str
    path: str
    path_there: str
    size_bytes: int
    virtual_size_bytes: int
    format: str


@dataclass(frozen=True)
class DiskMigration:
    """How one disk is migrated.

    device: its name in the guest's hardware (``vda``). here, there: the place at the source and on the target. format:
    what the machine takes it for, never what the guest may have written into it. own: it belongs to this machine alone
    and goes when the machine has arrived. base: the image that backs it. flattened: it has no backing file there.
    """

    device: str
    method: str
    here: DiskSource
    there: DiskSource
    volume: Volume
    source_pool: Pool
    target_pool: Pool
    format: str
    capacity_bytes: int
    own: bool = False
    base: BaseImage | None = None
    flattened: bool = False

    @property
    def ref(self) -> VolumeRef:
        """The volume at the source."""
        return VolumeRef(self.volume.pool, self.volume.name)

    @property
    def ref_there(self) -> VolumeRef:
        """The volume of the same name on the target, which may be in another pool."""
        return VolumeRef(self.target_pool.name, self.volume.name)

    @property
    def travels(self) -> bool:
        """Whether a volume is made for it on the target."""
        return self.method in (MIRROR, CONTENT)


def plan_disks(
    machine: SourceMachine,
    source: HypervisorView,
    target: MigrationTarget,
    options: MigrationOptions,
    where: str,
    *,
    probe: bool,
) -> list[DiskMigration]:
    """The method of every disk; empty drives have none.

    probe: whether it may be tried out if both hypervisors see the same files, by making one for a moment.
    Raises an error of ours for a disk that cannot be moved.
    """
    check_disk_names(machine, options, where)
    moves: list[DiskMigration] = []
    for disk, in_use in machine.disks():
        device = device_of(disk)
        planner = DiskPlanner(machine, source, target, options, disk_place(where, device))
        if disk.find("source") is None:
            planner.check_drive_is_not_named(device)
            continue
        move = planner.plan(disk, device, in_use, probe)
        planner.check_names_differ(move, moves)
        moves.append(move)
    return moves


def device_of(disk: etree._Element) -> str:
    """A disk's name in the guest's hardware."""
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


def disk_place(where: str, device: str) -> str:
    """The place of an error about a disk."""
    return inside(where, f"disks[{device}]") if where else f"disk {device}"


def _names_of(machine: SourceMachine, device: str) -> list[str]:
    """What a task may call a disk: our name for it, and its name in the guest's hardware."""
    noted = machine.notes.disks if machine.notes is not None else ()
    return [*(note.name for note in noted if note.target == device), device]


def named_pool(machine: SourceMachine, options: MigrationOptions, device: str) -> str | None:
    """The pool that the task names for a disk; None where it names none."""
    named = (options.disks[name] for name in _names_of(machine, device) if name in options.disks)
    return next(named, options.pool)


def is_named(machine: SourceMachine, options: MigrationOptions, device: str) -> bool:
    """Whether the task names this very disk."""
    return any(name in options.disks for name in _names_of(machine, device))


def check_disk_names(machine: SourceMachine, options: MigrationOptions, where: str) -> None:
    """Raise NotFoundError when the task names a disk that the machine does not have, InputError when it has one disk
    go to two pools, by both of its names."""
    names_of_each = [_names_of(machine, device_of(disk)) for disk, _in_use in machine.disks()]
    for names in names_of_each:
        pools = {name: options.disks[name] for name in names if name in options.disks}
        if len(set(pools.values())) > 1:
            raise InputError(
                f"{' and '.join(pools)} are one disk of {machine.name}, which cannot go to "
                f"{' and '.join(pools.values())}",
                where=inside(where, "disks") if where else "disks",
                hint="Name it once",
            )
    known = {name for names in names_of_each for name in names}
    for name in options.disks:
        if name not in known:
            raise NotFoundError(
                f"{machine.name} has no disk {name!r}",
                where=inside(where, "disks") if where else "disks",
                hint=one_of_these(name, known),
            )


@dataclass(frozen=True)
class DiskPlanner:
    """How one disk gets to another hypervisor, and what is asked of it before. place: where errors are."""

    machine: SourceMachine
    source: HypervisorView
    target: MigrationTarget
    options: MigrationOptions
    place: str

    def plan(self, disk: etree._Element, device: str, in_use: bool, probe: bool) -> DiskMigration:
        """The method of a disk that has a source. in_use: by a running machine. Raises an error of ours."""
        self.check_kind(disk)
        here = self.source_of(disk)
        pool, volume = self.find(here, driver_format(disk))
        own, readonly = self.is_own(volume), disk.find("readonly") is not None
        named = named_pool(self.machine, self.options, device)
        # What many machines read is where it is on every hypervisor.
        if readonly and not own and named != pool.name:
            self.check_medium_is_not_named(device)
        there_pool = self.pool_there(pool.name if named is None or (readonly and not own) else named)
        if there_pool.name != pool.name:
            self.check_named_by_place(disk)
        self.check_format(volume)
        image_format, capacity_bytes, backing_path = volume.format, volume.capacity_bytes, volume.backing_path

        def move(method: str, **more: t.Any) -> DiskMigration:
            there = there_pool.source_of(volume.name)
            return DiskMigration(
                device, method, here, there, volume, pool, there_pool, image_format, capacity_bytes, **more
            )

        known = self.target.hypervisor.volumes(there_pool)
        if is_shared(pool, there_pool, volume.name, seen=volume.name in known, probe=probe):
            return move(SHARED)
        if disk.find("shareable") is not None:
            raise ConflictError("it is shared with other machines, and the target does not see it", where=self.place)
        if self.options.copy_storage == NONE:
            raise ConflictError(
                f"copy_storage is none, and {self.target.name} does not see this volume {volume.name}",
                where=self.place,
                hint="To have it copied: copy_storage: auto",
            )
        if not there_pool.makes_named_volumes:
            raise ConflictError(
                f"{self.target.name} does not see this volume {volume.name}, and none can be created in its pool "
                f"{there_pool.name} of type {there_pool.type}",
                where=self.place,
                hint="Have its server show both hypervisors the same device under the same number, or name another "
                "pool, into which it is copied",
            )
        if readonly and not own:
            self._require_same(there_pool, volume, volume.name in known)
            return move(THERE)
        self.require_free(there_pool, volume, known)
        there_pool.require_format(image_format, self.place)
        base = None if self.options.copy_storage == ALL else self.base(backing_path, there_pool)
        flattened = backing_path is not None and base is None
        method = MIRROR if in_use and not readonly else CONTENT
        if method == MIRROR:
            self.check_not_encrypted(disk)
        self.check_method(method, pool, there_pool, backing_path, base)
        return move(method, own=self.goes(own), base=base, flattened=flattened)

    def check_not_encrypted(self, disk: etree._Element) -> None:
        """Raise UnsupportedError for an encrypted disk of a running machine.

        QEMU sends what is in it, and finds no encrypted volume to write that into. A copy of the file itself is one.
        """
        if disk.find(".//encryption") is not None:
            raise UnsupportedError(
                "it is encrypted, and not copied while the machine runs",
                where=self.place,
                hint="Shut the machine down first",
            )

    def check_drive_is_not_named(self, device: str) -> None:
        """Raise ConflictError for an empty drive that the task names."""
        if is_named(self.machine, self.options, device):
            raise ConflictError("the drive is empty, so there is nothing to move", where=self.place)

    def check_medium_is_not_named(self, device: str) -> None:
        """Raise UnsupportedError for what the machine only reads, and does not own, if the task names it."""
        if is_named(self.machine, self.options, device):
            raise UnsupportedError(
                "it is read-only and not the machine's own: others may read it, so it stays where it is",
                where=self.place,
                hint="Leave it out",
            )

    def check_names_differ(self, move: DiskMigration, others: t.Iterable[DiskMigration]) -> None:
        """Raise ConflictError for a second volume of one name on its way to one pool."""
        if move.travels and any(other.travels and other.ref_there == move.ref_there for other in others):
            raise ConflictError(
                f"two of its volumes are called {move.volume.name}, and cannot both go to pool {move.target_pool.name}",
                where=self.place,
                hint="Name another pool for one of the two, with disks",
            )

    def check_named_by_place(self, disk: etree._Element) -> None:
        """Raise UnsupportedError for a disk that its machine knows by pool and volume, and not by its place."""
        if disk.get("type") == "volume":
            raise UnsupportedError(
                "it is defined by its pool and volume (type='volume'), and stays in that pool",
                where=self.place,
                hint=f"Define it by its path: virsh edit {self.machine.name}",
            )

    def check_method(
        self, method: str, pool: Pool, there_pool: Pool, backing_path: str | None, base: BaseImage | None
    ) -> None:
        """Raise where a copy of the file itself would not do, and nothing but QEMU can make another."""
        if method == CONTENT and pool.source_type == NETWORK:
            raise UnsupportedError(
                f"pool {pool.name} is of type {pool.type}, whose volumes cannot be copied while the machine is off",
                where=self.place,
                hint="Start the machine and move it running",
            )
        if method == CONTENT and there_pool.source_type == NETWORK:
            raise UnsupportedError(
                f"pool {there_pool.name} is of type {there_pool.type}, whose volumes cannot be written while the "
                "machine is off",
                where=self.place,
                hint="Start the machine and move it running",
            )
        if backing_path is None:
            return
        there = None
        if base is not None:
            store = self.pool_there(base.pool)
            there = base.path_there
            if base.format == "raw" and base.volume not in self.target.hypervisor.volumes(store):
                # A raw image has no mark that could tell a whole one from one that was cut off.
                raise NotFoundError(
                    f"{self.target.name} does not have the image {base.volume} that it is backed by",
                    where=self.place,
                    hint="Store it there first, with virt_image",
                )
        if method == CONTENT and there != backing_path:
            raise UnsupportedError(
                f"it is backed by {backing_path}, which would be at another place there; that works "
                "only while the machine runs",
                where=self.place,
                hint="Start the machine and move it running",
            )

    def check_format(self, volume: Volume) -> None:
        """The machine's own word for the format counts. A guest can write the mark of another one into a raw disk."""
        if volume.format != "raw" and volume.looks_like != volume.format:
            raise ConflictError(
                f"it should be {volume.format}, but the volume looks like {volume.looks_like}", where=self.place
            )

    def check_kind(self, disk: etree._Element) -> None:
        """Raise for a disk that nothing can move now."""
        if disk.find("mirror") is not None:
            raise ConflictError(
                "a block job is running on it", where=self.place, hint="Wait until it ends (virsh blockjob)"
            )
        if disk.get("device") == "lun":
            raise UnsupportedError("it is a LUN that is passed through, and cannot be moved", where=self.place)

    def source_of(self, disk: etree._Element) -> DiskSource:
        """The place of a disk."""
        if disk.get("type") == "volume":
            source = need(disk, "source")
            return self.source.pools.get(source.get("pool", ""), self.place).source_of(source.get("volume", ""))
        found = DiskSource.read(disk)
        if found is None:
            raise UnsupportedError(f"its source is of type {disk.get('type')}, which cannot be moved", where=self.place)
        return found

    def find(self, here: DiskSource, image_format: str) -> tuple[Pool, Volume]:
        """The pool and the volume at this place."""
        found = self.source.locate(here)
        volume = find_volume(*found, self.place, image_format=image_format) if found else None
        if found is None or volume is None:
            raise NotFoundError(
                f"{here.place} is not in any storage pool of this hypervisor",
                where=self.place,
                hint="Only volumes of pools are moved: define a pool for its folder on both hypervisors",
            )
        return found[0], volume

    def pool_there(self, name: str) -> Pool:
        """A pool of the target. Raises an error of ours that says where it is missing."""
        try:
            return self.target.hypervisor.pools.get(name)
        except VirtError as exc:
            place = "pool" if name == self.options.pool else self.place
            raise type(exc)(f"on {self.target.name}, {exc.what}", where=place, hint=exc.hint) from exc

    def is_own(self, volume: Volume) -> bool:
        """Whether this collection has made a volume for the machine."""
        notes = self.machine.notes
        return notes is not None and any((n.pool, n.name) == (volume.pool, volume.name) for n in notes.volumes)

    def goes(self, own: bool) -> bool:
        """Whether the old volume goes when the new one is in use."""
        if not self.options.undefine_source or self.options.source_volumes == "none":
            return False
        return own or self.options.source_volumes == "all"

    def _require_same(self, there: Pool, volume: Volume, seen: bool) -> None:
        found = find_volume(there, volume.name, self.place, image_format=volume.format) if seen else None
        if found is None or found.capacity_bytes != volume.capacity_bytes:
            raise NotFoundError(
                f"{self.target.name} has no {volume.name} of the same size in pool {there.name}",
                where=self.place,
                hint="Copy it there, or remove the medium from the drive",
            )

    def require_free(self, there: Pool, volume: Volume, known: t.Container[str]) -> None:
        """Raise ConflictError when the pool has a volume of this name, which is not going."""
        if (volume.name in known or (there.name, volume.name) in self.target.volumes) and not self.is_cleared(
            there, volume
        ):
            raise self._taken(there, volume.name)

    def _taken(self, there: Pool, name: str) -> ConflictError:
        words = f"pool {there.name} of {self.target.name} has a volume {name} already"
        ref = self.noted(there, name)
        if ref is None:
            # Not every two folders that are one can be recognised: where root may not write to them, for one.
            same = "" if self.target.hypervisor is self.source else ", in storage that both hypervisors see"
            hint = (
                f"It may be this very disk{same}: find that out first. Nothing is ever overwritten; if it is another "
                "volume, remove or rename it"
            )
            return ConflictError(words, where=self.place, hint=hint)
        why = ", as a raw volume has no place for a mark" if ref.identity == VolumeIdentity() else ""
        return ConflictError(
            f"{words}. The move that was interrupted may have created it, but nothing proves that{why}, "
            "and so it is kept",
            where=self.place,
            hint=manual_deletion(self.target.hypervisor.conn, ref),
        )

    def noted(self, there: Pool, name: str) -> VolumeRef | None:
        """The volume of this name that an earlier move of this machine has made on the target, by that move's note."""
        stale = self.machine.moving
        if stale is None or not self.target.is_of(stale):
            return None
        return next((ref for ref in stale.made if ref == VolumeRef(there.name, name)), None)

    def is_cleared(self, there: Pool, volume: Volume) -> bool:
        """Whether the target's volume of this name was left by a move of this machine, which is removed first.

        A volume that only has the name of one that was left there may be somebody else's.
        """
        if (there.name, volume.name) in self.target.volumes:
            return False
        left = self.noted(there, volume.name)
        return left is not None and is_the_one(there, left, self.target.hypervisor.conn) is not False

    def base(self, backing_path: str | None, there_pool: Pool) -> BaseImage | None:
        """The stored image that backs an overlay; None when nothing does, or something else. there_pool: the disk's."""
        if backing_path is None:
            return None
        image = parse_image_volume(posixpath.basename(backing_path))
        folder = posixpath.dirname(backing_path)
        pool = next((p for p in self.source.pools.all() if p.source_type == FILE and p.path == folder), None)
        if image is None or pool is None:
            return None
        found = find_volume(self.source.pools.get(pool.name), image.volume, self.place, image_format=image.format)
        if found is None:
            raise NotFoundError(f"the image {backing_path} that backs it does not exist", where=self.place)
        if found.backing_path is not None:
            return None
        with translate_errors(f"cannot inspect image {image.volume}", self.place):
            size_bytes = os.stat(found.path).st_size
        store = self._store_there(pool.name, there_pool)
        path_there = store.volume_path(image.volume)
        return BaseImage(
            store.name, image.volume, found.path, path_there, size_bytes, found.capacity_bytes, image.format
        )

    def _store_there(self, name: str, there_pool: Pool) -> Pool:
        """The pool of an image on the target: that of the same name, else the one that is named for the disk."""
        if there_pool.name == name or not self.options.names_pools:
            return self.pool_there(name)
        try:
            return self.target.hypervisor.pools.get(name)
        except NotFoundError:
            return there_pool
