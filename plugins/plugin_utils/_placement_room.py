# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one hypervisor has room for, counted along while a run places its machines."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Machine

POLICIES = ("spread", "pack")
UNSEEN = ("refuse", "place")


@dataclass(frozen=True)
class Terms:
    """What the user lays down for all machines of a run.

    memory_reserve_mib stays free on each hypervisor for the host itself; vcpu_ratio is how many virtual CPUs may share
    one real CPU; unseen says what becomes of a machine that may live on a hypervisor which did not answer; image_pool
    is the pool of the image store.
    """

    policy: str = "spread"
    memory_reserve_mib: int = 256
    vcpu_ratio: float = 8.0
    unseen: str = "refuse"
    image_pool: str = "images"

    def __post_init__(self) -> None:
        for key, words in (("policy", POLICIES), ("unseen", UNSEEN)):
            if getattr(self, key) not in words:
                raise InputError(
                    f"{getattr(self, key)!r} is not a choice", where=key, hint=f"Choose {' or '.join(words)}"
                )
        if self.memory_reserve_mib < 0:
            raise InputError("a reserve cannot be negative", where="memory_reserve_mib")
        if self.vcpu_ratio <= 0:
            raise InputError("the ratio must be above 0", where="vcpu_ratio")


class Room:
    """What one hypervisor has left, after what earlier picks of this run took."""

    def __init__(self, facts: Mapping[str, t.Any], terms: Terms) -> None:
        self._terms = terms
        memory, vcpus = facts["memory"], facts["vcpus"]
        self.memory_mib: int = memory["total_mib"] - memory["committed_mib"] - terms.memory_reserve_mib
        self._cpus: int = vcpus["total"]
        self._vcpus: float = vcpus["total"] * terms.vcpu_ratio - vcpus["committed"]
        self._pools: dict[str, Mapping[str, t.Any]] = {pool["name"]: pool for pool in facts["pools"]}
        self._taken_mib: dict[str, int] = {}
        self._bridges: Sequence[str] | None = facts.get("bridges")
        networks = facts.get("networks")
        self._networks: dict[str, bool] | None = (
            None if networks is None else {network["name"]: bool(network["active"]) for network in networks}
        )
        self._images: list[Mapping[str, t.Any]] = list(facts.get("images") or [])
        self.machines: dict[str, Mapping[str, t.Any]] = {m["name"]: m for m in facts.get("machines") or []}

    @property
    def image_names(self) -> set[str]:
        """The plain names in the store."""
        return {item["name"] for item in self._images}

    def stored(self, image: str) -> list[Mapping[str, t.Any]]:
        """The images of the store that a wish means by this name, which may also be a volume's."""
        exact = [item for item in self._images if item["volume"] == image]
        return exact or [item for item in self._images if item["name"] == image]

    def take(self, machine: Machine) -> None:
        """Count a machine into this hypervisor; of one that lives here already, only what it grows by."""
        now = self.machines.get(machine.name)
        if now is None:
            self.memory_mib -= machine.memory_mib
            self._vcpus -= machine.vcpus
            for pool, size_mib in self._disk_space(machine).items():
                self._taken_mib[pool] = self._taken_mib.get(pool, 0) + size_mib
        else:
            self.memory_mib -= max(0, machine.memory_mib - now["memory_mib"])
            self._vcpus -= max(0, machine.vcpus - now["vcpus"])

    def refusals(self, machine: Machine, brought: t.Container[str]) -> list[str]:
        """Why a new machine cannot be made here; empty when it can. brought: images that the run itself brings."""
        reasons = []
        if machine.memory_mib > self.memory_mib:
            free_mib = max(0, self.memory_mib)
            reasons.append(f"needs {machine.memory_mib} MiB of memory, {free_mib} MiB are free")
        if machine.vcpus > self._cpus:
            reasons.append(f"needs {machine.vcpus} CPUs, it has {self._cpus}")
        elif machine.vcpus > self._vcpus:
            reasons.append(
                f"needs {machine.vcpus} vCPUs, {max(0, int(self._vcpus))} are free "
                f"({self._terms.vcpu_ratio:g} for each of its {self._cpus} CPUs)"
            )
        reasons += self._pool_refusals(machine)
        reasons += self._nic_refusals(machine)
        for image in images_of(machine):
            found = self.stored(image)
            if image not in brought and len(found) != 1:
                volumes = ", ".join(item["volume"] for item in found)
                reasons.append(
                    f"has {len(found)} images called {image} in its store ({volumes})"
                    if found
                    else f"has no image {image} in its store"
                )
        return reasons

    def doubts(self, machine: Machine) -> list[str]:
        """What could not be checked for a machine, and did not speak against this hypervisor."""
        bridges = _sources(machine, "bridge") if self._bridges is None else []
        networks = _sources(machine, "network") if self._networks is None else []
        unknown = [f"bridge {name}" for name in bridges] + [f"network {name}" for name in networks]
        doubts = [f"whether it has {', '.join(unknown)} cannot be known"] if unknown else []
        pools = [name for name in self._disk_space(machine) if self._pools[name].get("available_mib") is None]
        doubts += [f"how much room pool {name} has cannot be known" for name in pools]
        return doubts

    def _pool_refusals(self, machine: Machine) -> list[str]:
        reasons = []
        space = self._disk_space(machine)
        needed = list(space)
        if machine.seed.method == "nocloud":
            needed.append(machine.seed.pool)
        if images_of(machine):
            needed.append(self._terms.image_pool)
        for name in dict.fromkeys(needed):
            pool = self._pools.get(name)
            if pool is None:
                reasons.append(f"has no pool {name} ({_has(self._pools)})")
            elif not pool["active"]:
                reasons.append(f"pool {name} is not active")
            elif name in space and pool.get("available_mib") is not None:
                free_mib = pool["available_mib"] - self._taken_mib.get(name, 0)
                if space[name] > free_mib:
                    reasons.append(f"needs {space[name]} MiB in pool {name}, {max(0, free_mib)} MiB are free")
        return reasons

    def _nic_refusals(self, machine: Machine) -> list[str]:
        reasons = []
        for name in _sources(machine, "bridge"):
            if self._bridges is not None and name not in self._bridges:
                reasons.append(f"has no bridge {name} ({_has(self._bridges)})")
        for name in _sources(machine, "network"):
            if self._networks is not None and name not in self._networks:
                reasons.append(f"has no network {name} ({_has(self._networks)})")
            elif self._networks is not None and not self._networks[name]:
                reasons.append(f"network {name} is not active")
        return reasons

    def _disk_space(self, machine: Machine) -> dict[str, int]:
        """MiB by pool. A disk without a size is as large as its image, which counts once it is known here."""
        space: dict[str, int] = {}
        for disk in machine.disks:
            size_mib = disk.size_mib
            if size_mib is None:
                stored = self.stored(disk.image) if disk.image else []
                size_mib = max([item.get("virtual_size_mib") or 0 for item in stored], default=0)
            for pool in disk.pools:
                space[pool] = space.get(pool, 0) + (size_mib if pool == disk.pool else 0)
        return space


def images_of(machine: Machine) -> list[str]:
    """The images that the machine's disks stand on, each once."""
    return list(dict.fromkeys(disk.image for disk in machine.disks if disk.present and disk.image is not None))


def _sources(machine: Machine, kind: str) -> list[str]:
    return list(dict.fromkeys(nic.source for nic in machine.nics if nic.present and nic.type == kind))


def _has(names: t.Collection[str]) -> str:
    return f"has {', '.join(sorted(names))}" if names else "has none"
