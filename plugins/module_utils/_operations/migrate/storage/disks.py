# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each disk of a machine gets to another hypervisor, decided and checked before anything is changed."""

from __future__ import annotations

import os
import posixpath
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.connection import translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume, find_volume
from ansible_collections.brine.virt.plugins.module_utils._model.disk_format import driver_format
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import parse_image_volume
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeIdentity, VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import inside
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import FILE, NETWORK, DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.elements import need
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import (
    ALL,
    NONE,
    MigrationOptions,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    MigrationTarget,
    SourceMachine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import manual_deletion
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.shared import is_shared
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import is_the_one

# SHARED: both hypervisors see it. MIRROR: QEMU copies it while the machine runs. CONTENT: we copy it, nobody writes to
# it. THERE: the target has it already, and nobody writes to it.
SHARED, MIRROR, CONTENT, THERE = "shared", "mirror", "content", "there"


@dataclass(frozen=True)
class BaseImage:
    """A stored image that backs a disk: its path at the source, and on the target."""

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
        """The volume, at both ends."""
        return VolumeRef(self.volume.pool, self.volume.name)

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
    moves = []
    for disk, in_use in machine.disks():
        if disk.find("source") is None:
            continue
        device = _device(disk)
        planner = _Planner(
            machine, source, target, options, inside(where, f"disks[{device}]") if where else f"disk {device}"
        )
        moves.append(planner.plan(disk, device, in_use, probe))
    return moves


def _device(disk: etree._Element) -> str:
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


@dataclass(frozen=True)
class _Planner:
    machine: SourceMachine
    source: HypervisorView
    target: MigrationTarget
    options: MigrationOptions
    place: str

    def plan(self, disk: etree._Element, device: str, in_use: bool, probe: bool) -> DiskMigration:
        self._check_kind(disk)
        here = self._source_of(disk)
        pool, volume = self._find(here, driver_format(disk))
        there_pool = self._pool_there(pool.name)
        self._check_format(volume)
        image_format, capacity_bytes, backing_path = volume.format, volume.capacity_bytes, volume.backing_path

        def move(method: str, **more: t.Any) -> DiskMigration:
            there = there_pool.source_of(volume.name)
            return DiskMigration(
                device, method, here, there, volume, pool, there_pool, image_format, capacity_bytes, **more
            )

        readonly = disk.find("readonly") is not None
        known = self.target.hypervisor.volumes(there_pool)
        if is_shared(pool, there_pool, seen=volume.name in known, probe=probe):
            return move(SHARED)
        if disk.find("shareable") is not None:
            raise ConflictError("it is shared with other machines, and the target does not see it", where=self.place)
        if self.options.copy_storage == NONE:
            raise ConflictError(
                f"copy_storage is none, and {self.target.name} does not see this volume {volume.name}",
                where=self.place,
                hint="To have it copied: copy_storage: auto",
            )
        own = self._is_own(volume)
        if readonly and not own:
            self._require_same(there_pool, volume, volume.name in known)
            return move(THERE)
        self._require_free(there_pool, volume, known)
        there_pool.require_format(image_format, self.place)
        base = None if self.options.copy_storage == ALL else self._base(backing_path)
        flattened = backing_path is not None and base is None
        method = MIRROR if in_use and not readonly else CONTENT
        self._check_method(method, pool, backing_path, base)
        return move(method, own=self._goes(own), base=base, flattened=flattened)

    def _check_method(self, method: str, pool: Pool, backing_path: str | None, base: BaseImage | None) -> None:
        """Raise where a copy of the file itself would not do, and nothing but QEMU can make another."""
        if method == CONTENT and pool.source_type == NETWORK:
            raise UnsupportedError(
                f"pool {pool.name} is of type {pool.type}, whose volumes cannot be copied while the machine is off",
                where=self.place,
                hint="Start the machine and move it running",
            )
        if backing_path is None:
            return
        there = None
        if base is not None:
            store = self._pool_there(base.pool)
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

    def _check_format(self, volume: Volume) -> None:
        """The machine's own word for the format counts. A guest can write the mark of another one into a raw disk."""
        if volume.format != "raw" and volume.looks_like != volume.format:
            raise ConflictError(
                f"it should be {volume.format}, but the volume looks like {volume.looks_like}", where=self.place
            )

    def _check_kind(self, disk: etree._Element) -> None:
        if disk.find("mirror") is not None:
            raise ConflictError(
                "a block job is running on it", where=self.place, hint="Wait until it ends (virsh blockjob)"
            )
        if disk.get("device") == "lun":
            raise UnsupportedError("it is a LUN that is passed through, and cannot be moved", where=self.place)

    def _source_of(self, disk: etree._Element) -> DiskSource:
        if disk.get("type") == "volume":
            source = need(disk, "source")
            return self.source.pools.get(source.get("pool", ""), self.place).source_of(source.get("volume", ""))
        found = DiskSource.read(disk)
        if found is None:
            raise UnsupportedError(f"its source is of type {disk.get('type')}, which cannot be moved", where=self.place)
        return found

    def _find(self, here: DiskSource, image_format: str) -> tuple[Pool, Volume]:
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

    def _pool_there(self, name: str) -> Pool:
        try:
            return self.target.hypervisor.pools.get(name)
        except VirtError as exc:
            raise type(exc)(f"on {self.target.name}, {exc.what}", where=self.place, hint=exc.hint) from exc

    def _is_own(self, volume: Volume) -> bool:
        notes = self.machine.notes
        return notes is not None and any((n.pool, n.name) == (volume.pool, volume.name) for n in notes.volumes)

    def _goes(self, own: bool) -> bool:
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

    def _require_free(self, there: Pool, volume: Volume, known: t.Container[str]) -> None:
        if (volume.name in known or (there.name, volume.name) in self.target.volumes) and not self._is_cleared(
            there, volume
        ):
            raise self._taken(there, volume.name)

    def _taken(self, there: Pool, name: str) -> ConflictError:
        words = f"pool {there.name} of {self.target.name} has a volume {name} already"
        ref = self._noted(there, name)
        if ref is None:
            hint = "Nothing is ever overwritten: check what it is, and remove or rename it"
            return ConflictError(words, where=self.place, hint=hint)
        why = ", as a raw volume has no place for a mark" if ref.identity == VolumeIdentity() else ""
        return ConflictError(
            f"{words}. The move that was interrupted may have created it, but nothing proves that{why}, "
            "and so it is kept",
            where=self.place,
            hint=manual_deletion(self.target.hypervisor.conn, ref),
        )

    def _noted(self, there: Pool, name: str) -> VolumeRef | None:
        """The volume of this name that an earlier move of this machine has made on the target, by that move's note."""
        stale = self.machine.moving
        if stale is None or (stale.uri != self.target.uri and stale.target != self.target.name):
            return None
        return next((ref for ref in stale.made if ref == VolumeRef(there.name, name)), None)

    def _is_cleared(self, there: Pool, volume: Volume) -> bool:
        """Whether the target's volume of this name was left by a move of this machine, which is removed first.

        A volume that only has the name of one that was left there may be somebody else's.
        """
        if (there.name, volume.name) in self.target.volumes:
            return False
        left = self._noted(there, volume.name)
        return left is not None and is_the_one(there, left, self.target.hypervisor.conn) is not False

    def _base(self, backing_path: str | None) -> BaseImage | None:
        """The stored image that backs an overlay; None when nothing does, or something else."""
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
        path_there = self._pool_there(pool.name).volume_path(image.volume)
        return BaseImage(
            pool.name, image.volume, found.path, path_there, size_bytes, found.capacity_bytes, image.format
        )
