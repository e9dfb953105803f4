# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How full a hypervisor is: memory, vCPUs and storage as bars of parts. Pure.

Memory and vCPUs are counted as placement counts them: what may be allocated is the hypervisor's own, less the reserve,
times the ratio.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .._placement.options import HostOptions
from .words import counted, decimal, number_of, size, size_of, visible

Record = Mapping[str, t.Any]
# Of two directories with as much capacity, free space that differs by less than this is that of one file system, asked
# twice.
_SAME_SPACE_SHARE = 0.001
# Types of pools that are a part of a file system of the hypervisor.
_DIRECTORIES = frozenset({"dir"})
HIGH_PERCENT = 90
_WIDTH = 100.0


@dataclass(frozen=True)
class Amounts:
    """What there is of one thing and how much of it is taken, in one unit.

    used: by running machines, or written; committed: used, and what is promised beyond that; total: what may be
    committed.
    """

    total: float
    used: float
    committed: float

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.total + other.total, self.used + other.used, self.committed + other.committed)


NOTHING = Amounts(0, 0, 0)


@dataclass(frozen=True)
class Bar:
    """One bar. used_width, promised_width: percent of its length. level: ok, high or over.

    short: what is taken of what; free: what is left; whole: all of it in a sentence.
    """

    label: str
    short: str
    free: str
    whole: str
    percent: int
    level: str
    used_width: float
    promised_width: float
    is_storage: bool = False


def memory_allocation(amounts: Amounts, note: str = "") -> Bar:
    """The bar of memory in MiB, which is allocated to machines when they are defined."""
    return _allocation("Memory", amounts, size, size_of(amounts.committed, amounts.total), note)


def vcpu_allocation(amounts: Amounts, note: str = "") -> Bar:
    """The bar of vCPUs, which are allocated in the same way."""
    return _allocation("vCPUs", amounts, decimal, number_of(amounts.committed, amounts.total), note)


def _allocation(label: str, amounts: Amounts, text: t.Callable[[float], str], short: str, note: str) -> Bar:
    over = amounts.committed - amounts.total
    free = f"{text(over)} over" if over > 0 else f"{text(-over)} free"
    percent = _percent(amounts.committed, amounts.total)
    level = "over" if over > 0 else "high" if percent >= HIGH_PERCENT else "ok"
    running = f"{text(amounts.used)} of that by running machines"
    whole = f"{label}: {short} committed, {running}, {free}{f' ({note})' if note else ''}"
    return Bar(label, short, free, whole, percent, level, *_widths(amounts))


def storage_bar(label: str, amounts: Amounts, note: str = "") -> Bar:
    """The bar of some storage, in MiB. Disks may be promised more than there is, so that only what is used is full."""
    over = amounts.committed - amounts.total
    free = f"{size(max(0.0, amounts.total - amounts.used))} free"
    short = size_of(amounts.used, amounts.total)
    percent = _percent(amounts.used, amounts.total)
    grown = f"disks may grow by {size(amounts.committed - amounts.used)}"
    beyond = f", {size(over)} more than there is" if over > 0 else ""
    whole = f"{label}: {short} used, {free}, {grown}{beyond}{f' ({note})' if note else ''}"
    level = "high" if percent >= HIGH_PERCENT else "ok"
    return Bar(label, short, free, whole, percent, level, *_widths(amounts), is_storage=True)


def _percent(part: float, whole: float) -> int:
    if whole <= 0:
        return 100 if part > 0 else 0
    return round(100 * part / whole)


def _widths(amounts: Amounts) -> tuple[float, float]:
    """How long the parts are; a bar is as long as what there is, or as what is committed where that is more."""
    length = max(amounts.total, amounts.committed)
    used = _share(amounts.used, length)
    return round(used, 2), round(min(_share(amounts.committed - amounts.used, length), _WIDTH - used), 2)


def _share(part: float, whole: float) -> float:
    return min(_WIDTH, max(0.0, _WIDTH * part / whole)) if whole > 0 else 0.0


def memory_amounts(host: Record, options: HostOptions) -> Amounts:
    """Memory in MiB."""
    memory = host["memory"]
    total = max(0, int((memory["total_mib"] - options.memory_reserve_mib) * options.memory_ratio))
    return Amounts(total, memory.get("running_mib") or 0, memory["committed_mib"])


def memory_bar(host: Record, options: HostOptions) -> Bar:
    """The bar of the memory, with what makes the total differ from the hypervisor's own."""
    parts = [f"{size(host['memory']['total_mib'])} in the hypervisor"]
    parts += [f"{size(options.memory_reserve_mib)} reserved"] if options.memory_reserve_mib else []
    parts += [f"ratio {decimal(options.memory_ratio)}"] if options.memory_ratio != 1 else []
    return memory_allocation(memory_amounts(host, options), ", ".join(parts))


def vcpu_amounts(host: Record, options: HostOptions) -> Amounts:
    """Virtual CPUs."""
    vcpus = host["vcpus"]
    return Amounts(int(vcpus["total"] * options.vcpu_ratio), vcpus.get("running") or 0, vcpus["committed"])


def vcpu_bar(host: Record, options: HostOptions) -> Bar:
    """The bar of the vCPUs."""
    ratio = f", ratio {decimal(options.vcpu_ratio)}" if options.vcpu_ratio != 1 else ""
    note = f"{counted(host['vcpus']['total'], 'CPU')} in the hypervisor{ratio}"
    return vcpu_allocation(vcpu_amounts(host, options), note)


@dataclass(frozen=True)
class Space:
    """Pools that share one space. shared: whether several hypervisors may see it. keys: spaces with one in common are
    the same."""

    names: tuple[str, ...]
    amounts: Amounts
    keys: frozenset[t.Any]
    shared: bool


def spaces_of(
    pools: Iterable[Record],
    machines: Sequence[Record],
    shared_types: t.Container[str],
    storage_of: t.Callable[[Record], str | None] = lambda pool: pool.get("shared_storage"),
) -> list[Space]:
    """The storage of a hypervisor by what it is, not by how many pools look into it.

    shared_types: of pools that several hypervisors see, where nothing says which storage it is. storage_of: the name of
    the shared storage behind a pool, None where none is known.
    Directories with the same capacity and the same free space are taken for one file system. A pool that is not active
    is left out.
    """
    growth = _growth_mib(machines)
    spaces: list[list[Record]] = []
    for pool in pools:
        if pool.get("active") and pool.get("capacity_mib") is not None:
            same = next((group for group in spaces if _same_space(group[0], pool, storage_of)), None)
            if same is None:
                spaces.append([pool])
            else:
                same.append(pool)
    found = []
    for group in spaces:
        first = group[0]
        capacity, available = first["capacity_mib"], first.get("available_mib") or 0
        used = max(0, capacity - available)
        promised = sum(growth.get(pool["name"], 0.0) for pool in group)
        names = tuple(str(pool["name"]) for pool in group)
        storages = frozenset(filter(None, map(storage_of, group)))
        found.append(
            Space(
                names,
                Amounts(capacity, used, used + promised),
                storages or frozenset({(first.get("type"), names, capacity)}),
                bool(storages) or first.get("type") in shared_types,
            )
        )
    return found


def total_of(spaces: Iterable[Space]) -> Amounts:
    """The storage of several hypervisors. What they share counts once, but for what the machines of each may add."""
    total = NOTHING
    seen: set[t.Any] = set()
    # Who sees most of a storage knows what belongs together.
    for space in sorted(spaces, key=lambda one: -len(one.keys)):
        amounts = space.amounts
        if space.shared and not seen.isdisjoint(space.keys):
            amounts = Amounts(0, 0, amounts.committed - amounts.used)
        seen |= space.keys
        total += amounts
    return total


def space_bar(space: Space) -> Bar:
    """The bar of some storage, named after its pools."""
    kind = "shared" if space.shared else "one file system" if len(space.names) > 1 else ""
    return storage_bar(visible(", ".join(space.names)), space.amounts, kind)


def _same_space(one: Record, other: Record, storage_of: t.Callable[[Record], str | None]) -> bool:
    here, there = storage_of(one), storage_of(other)
    if here is not None and here == there:
        return True
    if (here is None) != (there is None) or not {one.get("type"), other.get("type")} <= _DIRECTORIES:
        return False
    capacity = one["capacity_mib"]
    apart = abs((one.get("available_mib") or 0) - (other.get("available_mib") or 0))
    return bool(capacity == other["capacity_mib"] and apart <= capacity * _SAME_SPACE_SHARE)


def _growth_mib(machines: Iterable[Record]) -> dict[str, float]:
    """By pool, how much its volumes may still grow while the machines write; each volume counts once."""
    growth: dict[tuple[str, str], float] = {}
    for machine in machines:
        for disk in machine.get("disks") or []:
            whole, written = disk.get("size_bytes"), disk.get("allocation_bytes")
            if disk.get("readonly") or None in (disk.get("pool"), disk.get("volume"), whole, written):
                continue
            growth[(disk["pool"], disk["volume"])] = max(0, whole - written) / 1024**2
    pools: dict[str, float] = {}
    for (pool, _volume), mib in growth.items():
        pools[pool] = pools.get(pool, 0.0) + mib
    return pools
