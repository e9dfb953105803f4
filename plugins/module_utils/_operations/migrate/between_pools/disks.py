# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks of a machine go to other pools of its hypervisor, and how: decided before anything is changed."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass

from ...._base.errors import ConflictError, UnsupportedError
from ...._base.xml import etree
from ...._host.storage.file_chain import file_id
from ...._host.storage.pools import Pool
from ...._host.storage.volume_facts import Volume
from ...._model.xml.disk_source import FILE, DiskSource, driver_format
from ...hypervisor_view import HypervisorView
from ..endpoints.options import ALL, MigrationOptions
from ..endpoints.source_and_target import MigrationTarget, SourceMachine
from ..storage.disks import (
    CONTENT,
    MIRROR,
    DiskMigration,
    DiskPlanner,
    check_disk_names,
    device_of,
    disk_place,
    named_pool,
)
from .copied import arrived_volumes, copied_volumes, mirrors_of
from .settle import is_empty_copy


def plan_pool_disks(
    machine: SourceMachine, source: HypervisorView, target: MigrationTarget, options: MigrationOptions, where: str
) -> list[DiskMigration]:
    """The disks that are not where the task wants them. Raises an error of ours for one that cannot get there.

    target: this same hypervisor. What the machine only reads, and what is not its own, stays unless it is named itself.
    """
    check_disk_names(machine, options, where)
    noted = machine.moving.made if machine.moving is not None else ()
    cancelled = {source.pools.get(ref.pool).volume_path(ref.name) for ref in noted}
    left = _left_places(machine, source)
    moves: list[DiskMigration] = []
    for disk, in_use in machine.disks():
        pool = named_pool(machine, options, device_of(disk))
        if pool is None or _place(disk) in left:
            continue
        planner = _Planner(machine, source, target, options, disk_place(where, device_of(disk)))
        move = planner.plan_here(disk, pool, in_use, cancelled)
        if move is not None:
            planner.check_names_differ(move, moves)
            moves.append(move)
    return moves


def _left_places(machine: SourceMachine, source: HypervisorView) -> set[str | None]:
    """Where an interrupted run has switched the running machine away from, whatever its definition says as yet."""
    if machine.moving is None or not machine.active:
        return set()
    return {one.old_place for one in arrived_volumes(machine.handle, copied_volumes(source.conn, machine.moving))}


def _place(disk: etree._Element) -> str:
    source = DiskSource.read(disk)
    return "" if source is None else source.place


@dataclass(frozen=True)
class _Planner(DiskPlanner):
    def plan_here(
        self, disk: etree._Element, pool_name: str, in_use: bool, cancelled: Collection[str]
    ) -> DiskMigration | None:
        """cancelled: where an interrupted run has been copying disks to, which is ended before anything else."""
        device = device_of(disk)
        if disk.find("source") is None:
            self.check_drive_is_not_named(device)
            return None
        if mirrors_of(disk, cancelled):
            disk = copy.deepcopy(disk)
            for mirror in disk.findall("mirror"):
                disk.remove(mirror)
        here = self.source_of(disk)
        pool, volume = self.find(here, driver_format(disk))
        there_pool = self.pool_there(pool_name)
        if there_pool.name == pool.name or _is_there(pool, there_pool, volume):
            return None
        own = self.is_own(volume)
        if disk.find("readonly") is not None and not own:
            self.check_medium_is_not_named(device)
            return None
        self.check_kind(disk)
        self.check_named_by_place(disk)
        self._check_copyable(disk, in_use)
        self.check_format(volume)
        if here.place != pool.source_of(volume.name).place:
            raise UnsupportedError(
                f"the machine has it by the path {here.place}, which leads to {pool.source_of(volume.name).place}",
                where=self.place,
                hint=f"Have the machine name the latter: virsh edit {self.machine.name}",
            )
        self.require_free(there_pool, volume, self.target.hypervisor.volumes(there_pool))
        if there_pool.volume_path(volume.name) == here.place:
            # Of two clusters: what has arrived, and what is left, are told by it.
            raise UnsupportedError(
                f"it is {here.place} in pool {pool.name} and in pool {there_pool.name}, which are in two clusters, and "
                "could not be told apart while it is copied",
                where=self.place,
                hint="Choose a pool that has another name in its cluster",
            )
        there_pool.require_format(volume.format, self.place)
        base = None if self.options.copy_storage == ALL else self.base(volume.backing_path, there_pool)
        # The source of a copy on this hypervisor is reached by QEMU, also while it is only read.
        method = MIRROR if in_use else CONTENT
        if method == CONTENT and volume.backing_path is not None and base is None:
            raise UnsupportedError(
                f"it is backed by {volume.backing_path}, and would have to be copied together with that, which works "
                "only while the machine runs",
                where=self.place,
                hint="Start the machine first",
            )
        self.check_method(method, pool, there_pool, volume.backing_path, base)
        return DiskMigration(
            device,
            method,
            here,
            there_pool.source_of(volume.name),
            volume,
            pool,
            there_pool,
            volume.format,
            volume.capacity_bytes,
            own=self.goes(own),
            base=base,
            flattened=volume.backing_path is not None and base is None,
        )

    def is_cleared(self, there: Pool, volume: Volume) -> bool:
        """As of any move; a volume that holds nothing yet, as a killed run has left it, is cleared too."""
        left = self.noted(there, volume.name)
        if left is None or (there.name, volume.name) in self.target.volumes:
            return False
        return super().is_cleared(there, volume) or is_empty_copy(there, left, volume)

    def _check_copyable(self, disk: etree._Element, in_use: bool) -> None:
        if disk.find("shareable") is not None:
            raise ConflictError(
                "it is shared with other machines, which would stay on the old volume", where=self.place
            )
        if disk.find("transient") is not None:
            raise UnsupportedError("what is written to it is dropped when the machine stops", where=self.place)
        if in_use:
            self.check_not_encrypted(disk)


def _is_there(here: Pool, there: Pool, volume: Volume) -> bool:
    """Whether two pools are one folder."""
    if not (here.local and there.local) or {here.source_type, there.source_type} != {FILE}:
        return False
    return file_id(there.volume_path(volume.name)) == file_id(here.volume_path(volume.name))
