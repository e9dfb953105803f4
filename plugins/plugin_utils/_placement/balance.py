# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves that bring the hypervisors' loads close enough to each other.

The load of a hypervisor is what its machines may take of the memory that it may promise, in percent; the spread is the
difference between the fullest and the emptiest. All plans of one move are looked at, then all of two, and so on: what
is found first has the fewest moves. Where that would take too long, the best single move is taken, again and again.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.capacity import Room
from ansible_collections.brine.virt.plugins.plugin_utils._placement.choice import Choice, notes_on
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import Fleet, Living
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import as_plan, move_of, needed, stay_of

# How many plans are looked at before the search gives way to one good move after the other: some seconds.
SEARCH_LIMIT = 100_000


class _TooMany(Exception):
    """There are more plans than can be looked at."""


@dataclass(frozen=True)
class _Step:
    machine: Living
    target: str


def plan_balance(fleet: Fleet, limit: float, *, search_limit: int = SEARCH_LIMIT) -> dict[str, t.Any]:
    """Moves after which the spread is at most limit, in percent points, in an order in which each of them fits.

    Machines that can be moved nowhere stay, and so does all that is on a hypervisor in maintenance; each other machine
    moves at most once. Where no moves reach the limit, those that bring the spread nearest to it by the way described
    above. Gives plain data as plan_moves does, with ``spread`` and ``loads``. Raises InputError.
    """
    if not 0 < limit <= 100:
        raise InputError(
            f"{limit:g} is not a valid percentage", where="limit", hint="Give percentage points, above 0 and up to 100"
        )
    cloud = _Cloud(fleet)
    before = dict(cloud.loads)
    moves = []
    for step, why in _explained(cloud, _steps(cloud, limit, search_limit)):
        choice = Choice(step.target, why, {})
        moves.append(move_of(step.machine, fleet, choice))
    after = dict(cloud.loads)
    stay = [
        stay_of(living, "; ".join(living.ties))
        for homes in fleet.machines.values()
        for living in homes
        if living.ties and living.host in cloud.rooms
    ]
    return {
        **as_plan(moves, stay, [], fleet),
        "spread": {
            "before": round(_spread(before), 1),
            "after": round(_spread(after), 1),
            "limit": limit,
            "reached": _spread(after) <= limit,
        },
        "loads": {
            host: {"before": round(before[host], 1), "after": round(after[host], 1)} for host in sorted(cloud.rooms)
        },
    }


class _Cloud:
    """Loads as they change with moves that are made and taken back."""

    def __init__(self, fleet: Fleet) -> None:
        self.rooms: Mapping[str, Room] = {
            host: room for host, room in fleet.rooms.items() if room.maintenance is None and room.capacity_mib > 0
        }
        self.loads = {host: _load(room) for host, room in self.rooms.items()}
        self.free = [
            homes[0]
            for _name, homes in sorted(fleet.machines.items())
            if len(homes) == 1 and homes[0].need is not None and homes[0].host in self.rooms
        ]

    def move(self, machine: Living, source: str, target: str) -> None:
        """Count a machine as moved."""
        need = needed(machine)
        self.rooms[source].release(need)
        self.rooms[target].take(need)
        for host in (source, target):
            self.loads[host] = _load(self.rooms[host])

    def loads_after(self, machine: Living, target: str) -> dict[str, float]:
        """The loads as they would be."""
        memory_mib, loads = needed(machine).memory_mib, dict(self.loads)
        for host, sign in ((machine.host, -1), (target, 1)):
            loads[host] += sign * 100 * memory_mib / self.rooms[host].capacity_mib
        return loads

    def fits(self, machine: Living, target: str) -> bool:
        """Whether the target can take it now."""
        return not self.rooms[target].refusals(needed(machine))


def _steps(cloud: _Cloud, limit: float, search_limit: int) -> list[_Step]:
    """The moves, which are not made yet."""
    if not cloud.loads or _spread(cloud.loads) <= limit:
        return []
    search = _Search(cloud, limit, search_limit)
    try:
        # Each machine moves at most once, so that there are no more moves than machines.
        for count in range(1, len(cloud.free) + 1):
            found = search.exactly(count)
            if found is not None:
                return found
    except _TooMany:
        pass
    return _one_by_one(cloud, limit)


class _Search:
    """All plans of a number of moves, without those that cannot do."""

    def __init__(self, cloud: _Cloud, limit: float, search_limit: int) -> None:
        self._cloud = cloud
        self._limit = limit
        self._left = search_limit

    def exactly(self, count: int) -> list[_Step] | None:
        """The plan of so many moves that moves the least memory, of equal ones with the fewest that run."""
        best: tuple[tuple[int, int, float], list[_Step]] | None = None
        seen: set[frozenset[tuple[str, str]]] = set()
        try:
            for steps, spread in self._plans(count, [], seen):
                memory_mib = sum(needed(step.machine).memory_mib for step in steps)
                rank = (memory_mib, sum(step.machine.runs for step in steps), round(spread, 6))
                if best is None or rank < best[0]:
                    best = rank, steps
        except _TooMany:
            # What has been found by then has no more moves than any other plan.
            if best is None:
                raise
        return best[1] if best else None

    def _plans(
        self, count: int, made: list[_Step], seen: set[frozenset[tuple[str, str]]]
    ) -> Iterator[tuple[list[_Step], float]]:
        """The plans that begin with what is made already. Each state of the cloud is gone on from once."""
        cloud = self._cloud
        if count == 0:
            if _spread(cloud.loads) <= self._limit:
                yield list(made), _spread(cloud.loads)
            return
        if _moves_at_least(cloud.loads, self._limit) > count:
            return
        state = frozenset((step.machine.name, step.target) for step in made)
        if state in seen:
            return
        seen.add(state)
        moved = {step.machine.name for step in made}
        for machine in cloud.free:
            if machine.name in moved:
                continue
            for target in cloud.rooms:
                if target == machine.host:
                    continue
                self._left -= 1
                if self._left < 0:
                    raise _TooMany
                if count == 1 and not self._ends_well(machine, target):
                    continue
                if not cloud.fits(machine, target):
                    continue
                made.append(_Step(machine, target))
                cloud.move(machine, machine.host, target)
                try:
                    yield from self._plans(count - 1, made, seen)
                finally:
                    cloud.move(machine, target, machine.host)
                    made.pop()

    def _ends_well(self, machine: Living, target: str) -> bool:
        """Whether the last move reaches the limit."""
        return _spread(self._cloud.loads_after(machine, target)) <= self._limit


def _one_by_one(cloud: _Cloud, limit: float) -> list[_Step]:
    """The best single move, again and again, as long as it makes the loads more equal."""
    made: list[_Step] = []
    while _spread(cloud.loads) > limit:
        moved = {step.machine.name for step in made}
        step = _best_single(cloud, [machine for machine in cloud.free if machine.name not in moved])
        if step is None:
            break
        made.append(step)
        cloud.move(step.machine, step.machine.host, step.target)
    for step in reversed(made):
        cloud.move(step.machine, step.target, step.machine.host)
    return made


def _best_single(cloud: _Cloud, free: Sequence[Living]) -> _Step | None:
    """The move that leaves the least spread, and of those the least unrest; None when none makes things better."""
    most, least = max(cloud.loads.values()), min(cloud.loads.values())
    now = round(_spread(cloud.loads), 6), round(_unrest(cloud.loads), 6)
    best: tuple[tuple[float, float, int, bool], _Step] | None = None
    for machine in free:
        for target in cloud.rooms:
            # A move between two others leaves the spread as it is.
            if target == machine.host or (cloud.loads[machine.host] < most and cloud.loads[target] > least):
                continue
            loads = cloud.loads_after(machine, target)
            memory_mib = needed(machine).memory_mib
            rank = (round(_spread(loads), 6), round(_unrest(loads), 6), memory_mib, machine.runs)
            better = rank[0] <= now[0] and rank[1] < now[1]
            if better and (best is None or rank < best[0]) and cloud.fits(machine, target):
                best = rank, _Step(machine, target)
    return best[1] if best else None


def _explained(cloud: _Cloud, steps: list[_Step]) -> Iterator[tuple[_Step, str]]:
    """The moves, one after the other, each with its reason; they are made in the cloud meanwhile."""
    for step in steps:
        machine, room = step.machine, cloud.rooms[step.target]
        notes = notes_on(needed(machine), room)
        words = {host: cloud.loads[host] for host in (machine.host, step.target)}
        cloud.move(machine, machine.host, step.target)
        changes = [f"{host} from {load:.0f} to {cloud.loads[host]:.0f} %" for host, load in words.items()]
        yield step, "; ".join([", ".join(changes), *notes])


def _load(room: Room) -> float:
    return 100 * room.committed_mib / room.capacity_mib


def _spread(loads: Mapping[str, float]) -> float:
    # Sums of fractions are not exact; nobody means a billionth of a percent.
    return round(max(loads.values()) - min(loads.values()), 9) if loads else 0.0


def _unrest(loads: Mapping[str, float]) -> float:
    mean = sum(loads.values()) / len(loads)
    return sum((load - mean) ** 2 for load in loads.values())


def _moves_at_least(loads: Mapping[str, float], limit: float) -> int:
    """No plan has fewer moves: a move changes two loads, and all have to come to lie within the limit."""
    ordered = sorted(loads.values())
    inside, first = 0, 0
    for last, load in enumerate(ordered):
        while load - ordered[first] > limit + 1e-9:
            first += 1
        inside = max(inside, last - first + 1)
    return -(-(len(ordered) - inside) // 2)
