# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one hypervisor has capacity for, counted along while a run places its machines."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .need import DiskNeed, Need, Origin
from .options import HostOptions, PlacementOptions
from .shared_storage import SharedStorage

# The parts of a hypervisor's facts that a decision cannot do without.
NEEDED_FACTS = ("memory", "vcpus", "pools")
# Pools that grow with what is written: a disk that is moved there takes no more than is written of it.
_SPARSE_POOLS = frozenset({"dir", "fs", "netfs"})
# Pools that several hypervisors look into. Where the facts do not say which storage is behind one, a disk that is moved
# stays where it is.
SHARED_POOLS = frozenset({"netfs", "rbd", "gluster", "iscsi", "iscsi-direct", "sheepdog", "scsi", "mpath", "vstorage"})

_SEVERAL_HINT = "name one of them in full, or remove those that nothing uses with virt_image, state: pruned"


class HostCapacity:
    """What one hypervisor has left, after what earlier picks of this run took.

    shared: the storage that it has together with others, counted for all of them.
    """

    def __init__(
        self, facts: Mapping[str, t.Any], options: PlacementOptions, own: HostOptions, shared: SharedStorage
    ) -> None:
        self.options = own
        self.own_name: str | None = facts.get("name")
        self._shared = shared
        self.anti_affinity = options.anti_affinity
        self._hard_apart = options.anti_affinity == "require"
        self.maintenance: Mapping[str, t.Any] | None = facts.get("maintenance")
        memory, vcpus = facts["memory"], facts["vcpus"]
        self._memory_total_mib: int = memory["total_mib"]
        self.capacity_mib = int((memory["total_mib"] - own.memory_reserve_mib) * own.memory_ratio)
        self.memory_mib: int = self.capacity_mib - memory["committed_mib"]
        self._cpus: int = vcpus["total"]
        self._vcpu_capacity = int(vcpus["total"] * own.vcpu_ratio)
        self._vcpus: float = vcpus["total"] * own.vcpu_ratio - vcpus["committed"]
        self._pools: dict[str, Mapping[str, t.Any]] = {pool["name"]: pool for pool in facts["pools"]}
        self._taken_mib: dict[str, int] = {}
        # What the machines of this run take in the pools, and the images that come with them.
        self._space: dict[str, Mapping[str, int]] = {}
        self._coming: dict[str, str] = {}
        # The new machines of this run that are alone of their anti-affinity groups here, and have to be.
        self._apart: dict[str, Sequence[str]] = {}
        self._bridges: Sequence[str] | None = facts.get("bridges")
        networks = facts.get("networks")
        self._networks: dict[str, bool] | None = (
            None if networks is None else {network["name"]: bool(network["active"]) for network in networks}
        )
        self.images: list[Mapping[str, t.Any]] = list(facts.get("images") or [])
        self._domain_types: t.Collection[str] = facts.get("domain_types") or ()
        self.arch: str | None = facts.get("arch")
        self.machine_types: frozenset[str] = frozenset(facts.get("machine_types") or ())
        self.default_machine_type: str | None = facts.get("default_machine_type")
        self.machines: dict[str, Mapping[str, t.Any]] = {m["name"]: m for m in facts.get("machines") or []}
        self._leaving: list[str] = []
        # They are none of the machines yet, and take memory and vCPUs already.
        self._arriving: set[str] = set(facts.get("arriving") or ())
        self._arriving_groups: dict[str, Sequence[str]] = dict(facts.get("arriving_anti_affinity") or {})

    @property
    def image_names(self) -> set[str]:
        """The plain names in the store."""
        return {item["name"] for item in self.images}

    @property
    def committed_mib(self) -> int:
        """The memory that is allocated to machines."""
        return self.capacity_mib - self.memory_mib

    @property
    def free_vcpus(self) -> int:
        """How many more virtual CPUs machines may have."""
        return int(self._vcpus)

    def load_with(self, memory_mib: int) -> float:
        """What machines are allocated of the memory that may be, with so much more, in percent; infinite of nothing."""
        if self.capacity_mib <= 0:
            return float("inf")
        # Sums of fractions are not exact; nobody means a billionth of a percent.
        return round(100 * (self.committed_mib + memory_mib) / self.capacity_mib, 9)

    def decision(self, placed: Mapping[str, str | None]) -> dict[str, t.Any]:
        """What the machines of this run were placed here by, to be checked again where they are created.

        placed: of the machines that live here already, the UUIDs by name.
        """
        pools_mib = {
            name: size_mib
            for name, size_mib in self._taken_mib.items()
            if size_mib > 0 and self._pools.get(name, {}).get("available_mib") is not None
        }
        together_mib = {name: self._taken_in(name) for name in pools_mib}
        shared_mib = {name: size_mib for name, size_mib in together_mib.items() if size_mib > pools_mib[name]}
        leaving = {"leaving": list(self._leaving)} if self._leaving else {}
        return {
            **leaving,
            "memory_mib": max(0, self.capacity_mib),
            "vcpus": self._vcpu_capacity,
            "pools_mib": pools_mib,
            **({"shared_pools_mib": shared_mib} if shared_mib else {}),
            **({"apart": {name: list(groups) for name, groups in self._apart.items()}} if self._apart else {}),
            "machines": dict(placed),
        }

    def stored(self, image: str) -> list[Mapping[str, t.Any]]:
        """The images of the store that a spec means by this name, which may also be a volume's."""
        exact = [item for item in self.images if item["volume"] == image]
        return exact or [item for item in self.images if item["name"] == image]

    def take(self, need: Need) -> None:
        """Count a machine into this hypervisor; of one that lives here already, what it grows by and its new disks."""
        now = self.machines.get(need.name)
        groups = list(need.groups or ()) if need.groups is not None or now is None else now.get("anti_affinity") or []
        is_new = now is None or bool(now.get("building"))
        if is_new and need.groups and self._hard_apart and not self.group_members(need):
            self._apart[need.name] = need.groups
        if now is None:
            self._space[need.name] = space = self._disk_space(need)
            for volume, (pool, _size_mib) in self._missing(need).items():
                storage = self.storage_of(pool)
                if storage is None:
                    self._coming[volume] = need.name
                else:
                    self._shared.coming[(storage, volume)] = need.name
            self._count(need, space, 1)
            if need.name in self._arriving:
                self._arriving.remove(need.name)
                self.memory_mib += need.memory_mib
                self._vcpus += need.vcpus
        else:
            more = self._more(need)
            self._count(more, self._disk_space(more), 1)
        self.machines[need.name] = {
            "name": need.name,
            "memory_mib": need.memory_mib or (now or {}).get("memory_mib"),
            "vcpus": need.vcpus or (now or {}).get("vcpus"),
            "anti_affinity": groups,
        }

    def _more(self, need: Need) -> Need:
        """What a machine needs beside what it has here already.

        Of a machine that nobody can read, and of facts without its disks, it is not known, and counts as nothing. What
        an interrupted run has begun is begun again: its disks take nothing so far where volumes grow with what is
        written, and all of it where they do not, if they were created.
        """
        now = self.machines.get(need.name)
        if now is None:
            return need
        has = now.get("disks")
        disks = tuple(disk for disk in need.disks if has is not None and disk.name not in has)
        if now.get("claimed"):
            disks = need.disks
        elif now.get("building"):
            disks = tuple(disk for disk in need.disks if self._pools.get(disk.pool, {}).get("type") in _SPARSE_POOLS)
        memory_mib, vcpus = now.get("memory_mib"), now.get("vcpus")
        return replace(
            need,
            memory_mib=0 if memory_mib is None else max(0, need.memory_mib - memory_mib),
            vcpus=0 if vcpus is None else max(0, need.vcpus - vcpus),
            disks=disks,
        )

    def growth_refusals(self, need: Need) -> list[str]:
        """Why a machine that lives here cannot become what the spec says, for want of room; empty when it can."""
        now, more = self.machines[need.name], self._more(need)
        half_built = now.get("building") and not now.get("claimed")
        reasons = self._memory_refusals(more, "more memory")
        if more.vcpus:
            reasons += self._cpu_refusals(need, more.vcpus, "more vCPUs")
        return reasons if half_built else reasons + self._pool_refusals(replace(more, pools=()))

    def release(self, need: Need) -> None:
        """Count a machine out that leaves this hypervisor."""
        space = self._space.pop(need.name) if need.name in self._space else self._disk_space(need)
        self._count(need, space, -1)
        self._coming = {volume: name for volume, name in self._coming.items() if name != need.name}
        coming = self._shared.coming
        self._shared.coming = {image: name for image, name in coming.items() if name != need.name}
        del self.machines[need.name]

    def leave(self, name: str) -> None:
        """Count out a machine of this hypervisor that is removed before others come: its memory and vCPUs.

        How much of its disks is deleted, and what that frees, shows only afterwards.
        """
        now = self.machines.pop(name)
        self._leaving.append(name)
        self.memory_mib += now["memory_mib"] or 0
        self._vcpus += now["vcpus"] or 0

    def _count(self, need: Need, space: Mapping[str, int], sign: int) -> None:
        self.memory_mib -= sign * need.memory_mib
        self._vcpus -= sign * need.vcpus
        for pool, size_mib in space.items():
            self._taken_mib[pool] = self._taken_mib.get(pool, 0) + sign * size_mib
            storage = self.storage_of(pool)
            if storage is not None:
                self._shared.taken_mib[storage] = self._shared.taken_mib.get(storage, 0) + sign * size_mib

    def storage_of(self, pool: str) -> str | None:
        """The storage behind a pool that other hypervisors share; None where none is known."""
        return self._shared.name_of(self._pools.get(pool))

    def _taken_in(self, pool: str) -> int:
        """What this run takes of the space that a pool has: here, and wherever else the same storage is seen."""
        storage = self.storage_of(pool)
        return self._taken_mib.get(pool, 0) if storage is None else self._shared.taken_mib.get(storage, 0)

    def group_members(self, need: Need) -> dict[str, str]:
        """The machines here, and on their way here, that are of one anti-affinity group with this one, each with the
        group."""
        wanted = need.groups
        if not wanted:
            return {}
        groups = {**self._arriving_groups, **{name: m.get("anti_affinity") or () for name, m in self.machines.items()}}
        return {
            name: next(group for group in wanted if group in own)
            for name, own in sorted(groups.items())
            if name != need.name and not set(wanted).isdisjoint(own)
        }

    def shared_with(self, need: Need) -> list[str]:
        """The same in words."""
        return [
            f"has {member}, of the same anti-affinity group {group}"
            for member, group in self.group_members(need).items()
        ]

    def lacks(self, need: Need) -> list[str]:
        """The labels that the machine asks for and this hypervisor has not, in words."""
        lacking = [label for label in need.labels if label not in self.options.labels]
        return [f"has no label {label} ({_has(self.options.labels)})" for label in lacking]

    def refusals(self, need: Need, brought: t.Container[str] = ()) -> list[str]:
        """Why a machine cannot come here; empty when it can. brought: images that the run itself brings."""
        reasons = []
        if self.maintenance is not None:
            reasons.append(_in_maintenance(self.maintenance))
        if need.origin is not None:
            reasons += self._origin_refusals(need.name, need.origin)
        reasons += self.lacks(need)
        if self._hard_apart:
            reasons += self.shared_with(need)
        # What a claim of this name has taken is the machine's own.
        more = self._more(need) if self.machines.get(need.name, {}).get("claimed") else need
        reasons += self._memory_refusals(more)
        reasons += self._cpu_refusals(need, more.vcpus)
        reasons += self._pool_refusals(need)
        reasons += self._nic_refusals(need)
        for image in need.images:
            found = self.stored(image)
            if image not in brought and len(found) != 1:
                volumes = ", ".join(item["volume"] for item in found)
                reasons.append(
                    f"has {len(found)} images called {image} in its store ({volumes}; {_SEVERAL_HINT})"
                    if found
                    else f"has no image {image} in its store"
                )
        return reasons

    def only_apart(self, need: Need, brought: t.Container[str] = ()) -> bool:
        """Whether nothing but its anti-affinity keeps the machine from here."""
        together = len(self.group_members(need)) if self._hard_apart else 0
        return together > 0 and len(self.refusals(need, brought)) == together

    def doubts(self, need: Need) -> list[str]:
        """What could not be checked for a machine, and did not speak against this hypervisor."""
        bridges = need.bridges if self._bridges is None else ()
        networks = need.networks if self._networks is None else ()
        unknown = [f"bridge {name}" for name in bridges] + [f"network {name}" for name in networks]
        doubts = [f"whether it has {', '.join(unknown)} cannot be determined"] if unknown else []
        pools = [name for name in self._disk_space(need) if self._pools[name].get("available_mib") is None]
        doubts += [f"how much free space pool {name} has cannot be determined" for name in pools]
        if self._has_leftovers_of(need) and self._space_refusals(need):
            doubts.append(
                "whether there is room in its pools shows when what a move that broke off has left there is removed"
            )
        return doubts

    def _origin_refusals(self, name: str, origin: Origin) -> list[str]:
        reasons = []
        if name in self.machines:
            reasons.append(f"has a machine {name} of its own")
        if origin.arch and self.arch and origin.arch != self.arch:
            reasons.append(f"is {self.arch}, the machine {origin.arch}")
            return reasons
        if origin.domain_type and self._domain_types and origin.domain_type not in self._domain_types:
            reasons.append(f"cannot run machines with {origin.domain_type} ({_has(self._domain_types)})")
        if origin.machine_type and self.machine_types and origin.machine_type not in self.machine_types:
            reasons.append(f"does not know the machine type {origin.machine_type}")
        return reasons

    def _memory_refusals(self, need: Need, what: str = "of memory") -> list[str]:
        # What needs none, such as a disk by itself, may come where too much is allocated.
        if need.memory_mib > max(0, self.memory_mib):
            ratio = self.options.memory_ratio
            counted = "" if ratio == 1 else f" (its memory counts {ratio:g} times)"
            return [
                f"needs {need.memory_mib} MiB {what}, {max(0, self.memory_mib)} MiB are free{counted}",
            ]
        if need.memory_mib > self._memory_total_mib:
            return [f"needs {need.memory_mib} MiB of memory, it has {self._memory_total_mib} MiB"]
        return []

    def _cpu_refusals(self, need: Need, vcpus: int, what: str = "vCPUs") -> list[str]:
        """vcpus: how many of those that the machine needs are to be free."""
        if need.vcpus > self._cpus:
            return [f"needs {need.vcpus} CPUs, it has {self._cpus}"]
        if vcpus > max(0, self._vcpus):
            return [
                f"needs {vcpus} {what}, {max(0, int(self._vcpus))} are free "
                f"({self.options.vcpu_ratio:g} for each of its {self._cpus} CPUs)"
            ]
        return []

    def _pool_refusals(self, need: Need) -> list[str]:
        reasons = []
        for name in dict.fromkeys([*self._disk_space(need), *need.pools]):
            pool = self._pools.get(name)
            if pool is None:
                reasons.append(f"has no pool {name} ({_has(self._pools)})")
            elif not pool["active"]:
                reasons.append(f"pool {name} is not active")
        # What it has left here itself takes room, and goes before it comes.
        return reasons if self._has_leftovers_of(need) else reasons + self._space_refusals(need)

    def _has_leftovers_of(self, need: Need) -> bool:
        return need.origin is not None and need.origin.left_on is not None and need.origin.left_on == self.own_name

    def _space_refusals(self, need: Need) -> list[str]:
        """The pools that have too little room, of those that are there and whose room is known."""
        reasons = []
        space = self._disk_space(need)
        counted: set[str] = set()
        for name in space:
            pool = self._pools.get(name)
            if pool is None or not pool["active"] or name in counted or pool.get("available_mib") is None:
                continue
            together = self._of_one_space(name, space)
            counted.update(together)
            needed_mib = sum(space[one] for one in together)
            free_mib = pool["available_mib"] - self._taken_beside(name)
            if needed_mib > free_mib:
                names = " and pool ".join(together)
                reasons.append(f"needs {needed_mib} MiB in pool {names}, {max(0, free_mib)} MiB are free")
        return reasons

    def _taken_beside(self, pool: str) -> int:
        """What this run takes of the space that a pool has together with others of this hypervisor."""
        # Pools of one storage have the same count.
        counts = {self.storage_of(one) or one: self._taken_in(one) for one in self._of_one_space(pool, self._pools)}
        return sum(counts.values())

    def _of_one_space(self, pool: str, others: t.Iterable[str]) -> list[str]:
        """The pools among others, this one too, that are on the same file system or have the same shared storage."""
        storage, system = self.storage_of(pool), self._file_system_of(pool)
        return [
            one
            for one in others
            if one == pool
            or (storage is not None and self.storage_of(one) == storage)
            or (system is not None and self._file_system_of(one) == system)
        ]

    def _file_system_of(self, pool: str) -> str | None:
        return self._pools.get(pool, {}).get("file_system")

    def _nic_refusals(self, need: Need) -> list[str]:
        reasons = []
        for name in need.bridges:
            if self._bridges is not None and name not in self._bridges:
                reasons.append(f"has no bridge {name} ({_has(self._bridges)})")
        for name in need.networks:
            if self._networks is not None and name not in self._networks:
                reasons.append(f"has no network {name} ({_has(self._networks)})")
            elif self._networks is not None and not self._networks[name]:
                reasons.append(f"network {name} is not active")
        return reasons

    def _disk_space(self, need: Need) -> dict[str, int]:
        """MiB by pool."""
        space: dict[str, int] = {}
        for disk in need.disks:
            space[disk.pool] = space.get(disk.pool, 0) + self._disk_mib(disk, need.origin is not None)
        for pool, size_mib in self._missing(need).values():
            space[pool] = space.get(pool, 0) + size_mib
        return space

    def _missing(self, need: Need) -> dict[str, tuple[str, int]]:
        """The images that come with a machine, because nothing has brought them yet: pool and MiB by volume."""
        there = {image["volume"] for image in self.images}.union(self._coming)
        brought = need.origin.images if need.origin else ()
        return {
            volume: (pool, size_mib)
            for pool, volume, size_mib in brought
            if volume not in there and not self._shared.has_image(self.storage_of(pool), volume)
        }

    def _disk_mib(self, disk: DiskNeed, moved: bool) -> int:
        """A disk without a size is as large as its image, which counts once it is known here."""
        if moved:
            kind, storage = self._pools.get(disk.pool, {}).get("type"), self.storage_of(disk.pool)
            if storage == disk.storage and (storage is not None or kind in SHARED_POOLS):
                return 0
            if kind in _SPARSE_POOLS and disk.written_mib is not None:
                return disk.written_mib
        if disk.size_mib is not None:
            return disk.size_mib
        stored = self.stored(disk.image) if disk.image else []
        return max([item.get("virtual_size_mib") or 0 for item in stored], default=0)


def _in_maintenance(maintenance: Mapping[str, t.Any]) -> str:
    since = f" since {maintenance['since']}" if maintenance.get("since") else ""
    reason = f" ({maintenance['reason']})" if maintenance.get("reason") else ""
    return f"is in maintenance{since}{reason}"


def _has(names: t.Collection[str]) -> str:
    return f"has {', '.join(sorted(names))}" if names else "has none"
