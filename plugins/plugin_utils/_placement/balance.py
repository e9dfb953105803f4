# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves that bring the hypervisors' loads close enough to each other.

The load of a hypervisor is what its machines may take of the memory that it may allocate, in percent; the spread is the
difference between the fullest and the emptiest. All plans of one move are tried, then all of two, and so on: what
is found first has the fewest moves. Where that would take too long, the best single move is taken, again and again.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._base.errors import InputError
from .capacity import HostCapacity
from .choice import notes_on
from .fleet import Fleet, PlacedMachine
from .moves import as_plan, move_of, needed, stay_of

# How many plans are tried before the search gives way to one good move after the other: some seconds.
SEARCH_LIMIT = 100_000


class _TooMany(Exception):
    """There are more plans than can be tried."""


@dataclass(frozen=True)
class _Move:
    machine: PlacedMachine
    target: str


def plan_balance(
    fleet: Fleet, limit: float, *, refused: Mapping[str, str] | None = None, search_limit: int = SEARCH_LIMIT
) -> dict[str, t.Any]:
    """Moves after which the spread is at most limit, in percent points, in an order in which each of them fits.

    Machines that can be moved nowhere stay, and so does all that is on a hypervisor in maintenance; each other machine
    moves at most once. Where no moves reach the limit, those that bring the spread nearest to it by the way described
    above. refused: machines that stay as well, with the reason. Gives plain data as plan_moves does, with ``spread``
    and ``loads``. Raises InputError.
    """
    if not 0 < limit <= 100:
        raise InputError(
            f"{limit:g} is not a valid percentage", where="limit", hint="Give percentage points, above 0 and up to 100"
        )
    fleet = fleet.keeping(refused or {})
    tracker = _LoadTracker(fleet)
    before = dict(tracker.loads)
    moves = [
        move_of(step.machine, fleet, step.target, why, {})
        for step, why in _explained(tracker, _steps(tracker, limit, search_limit))
    ]
    after = dict(tracker.loads)
    reason = _reason(fleet, tracker, limit, moved=bool(moves))
    stay = [
        stay_of(placed, "; ".join(placed.ties))
        for homes in fleet.machines.values()
        for placed in homes
        if placed.ties and placed.host in tracker.capacities
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
            host: {"before": round(before[host], 1), "after": round(after[host], 1)}
            for host in sorted(tracker.capacities)
        },
        "reason": reason,
    }


def _reason(fleet: Fleet, tracker: _LoadTracker, limit: float, *, moved: bool) -> str | None:
    """Why nothing is moved, or no more than is; None where the moves bring the loads as near as they are to be."""
    loads = tracker.loads
    if len(loads) < 2:
        resting = sorted(set(fleet.capacities) - set(loads))
        out = f" (left out, in maintenance or without memory for machines: {', '.join(resting)})" if resting else ""
        return f"No machine needs to be moved: machines cannot be moved between fewer than two hypervisors{out}"
    fullest, emptiest = max(loads, key=lambda host: (loads[host], host)), min(loads, key=lambda h: (loads[h], h))
    apart = (
        f"{fullest} ({loads[fullest]:.1f}%) is {_spread(loads):.1f} points above {emptiest} ({loads[emptiest]:.1f}%)"
    )
    if _spread(loads) <= limit:
        return None if moved else f"No machine needs to be moved: {apart}, within the limit of {limit:g}"
    if moved:
        no_more = f"The limit of {limit:g} points is not reached: {apart}, and no further move brings them nearer"
        return no_more + tracker.refused_move(fullest, emptiest)
    if not any(machine.host == fullest for machine in tracker.free):
        return f"No machine can be moved: {apart}, but no machine of {fullest} can be moved elsewhere"
    return (
        f"No machine can be moved: {apart}, but each move would leave hypervisors as far apart as they are, or has a "
        f"target that refuses the machine{tracker.refused_move(fullest, emptiest)}"
    )


class _LoadTracker:
    """Loads as they change with moves that are made and undone."""

    def __init__(self, fleet: Fleet) -> None:
        self.capacities: Mapping[str, HostCapacity] = {
            host: capacity
            for host, capacity in fleet.capacities.items()
            if capacity.maintenance is None and capacity.capacity_mib > 0
        }
        self.loads = {host: capacity.load_with(0) for host, capacity in self.capacities.items()}
        self.free = [
            homes[0]
            for _name, homes in sorted(fleet.machines.items())
            if len(homes) == 1 and homes[0].need is not None and homes[0].host in self.capacities
        ]

    def move(self, machine: PlacedMachine, source: str, target: str) -> None:
        """Count a machine as moved."""
        need = needed(machine)
        self.capacities[source].release(need)
        self.capacities[target].take(need)
        for host in (source, target):
            self.loads[host] = self.capacities[host].load_with(0)

    def loads_after(self, machine: PlacedMachine, target: str) -> dict[str, float]:
        """The loads as they would be."""
        memory_mib, loads = needed(machine).memory_mib, dict(self.loads)
        for host, sign in ((machine.host, -1), (target, 1)):
            loads[host] += sign * 100 * memory_mib / self.capacities[host].capacity_mib
        return loads

    def fits(self, machine: PlacedMachine, target: str) -> bool:
        """Whether the target can take it now, and has no more of its anti-affinity groups than it is among already."""
        need = needed(machine)
        together = [len(self.capacities[host].group_members(need)) for host in (target, machine.host)]
        return together[0] <= together[1] and not self.capacities[target].refusals(need)

    def refused_move(self, source: str, target: str) -> str:
        """The first move between two hypervisors that would make the loads more equal and is not possible, and why;
        empty without one."""
        capacity = self.capacities[target]
        for machine in self.free:
            if machine.host != source or machine.name not in self.capacities[source].machines:
                continue
            nearer = _imbalance(self.loads_after(machine, target)) < _imbalance(self.loads)
            if nearer and not self.fits(machine, target):
                need = needed(machine)
                reasons = capacity.refusals(need) or capacity.shared_with(need)
                return f" ({machine.name} does not fit on {target}: {', '.join(reasons)})"
        return ""


def _steps(tracker: _LoadTracker, limit: float, search_limit: int) -> list[_Move]:
    """The moves, which are not made yet."""
    if not tracker.loads or _spread(tracker.loads) <= limit:
        return []
    search = _Search(tracker, limit, search_limit)
    try:
        # Each machine moves at most once, so that there are no more moves than machines.
        for count in range(1, len(tracker.free) + 1):
            found = search.exactly(count)
            if found is not None:
                return found
    except _TooMany:
        pass
    return _one_by_one(tracker, limit)


class _Search:
    """All plans of a number of moves, without those that cannot do."""

    def __init__(self, tracker: _LoadTracker, limit: float, search_limit: int) -> None:
        self._tracker = tracker
        self._limit = limit
        self._left = search_limit

    def exactly(self, count: int) -> list[_Move] | None:
        """The plan of so many moves that moves the least memory, of equal ones with the fewest that run."""
        best: tuple[tuple[int, int, float], list[_Move]] | None = None
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
        self, count: int, made: list[_Move], seen: set[frozenset[tuple[str, str]]]
    ) -> Iterator[tuple[list[_Move], float]]:
        """The plans that begin with what is made already. Each state of the cloud is gone on from once."""
        tracker = self._tracker
        if count == 0:
            if _spread(tracker.loads) <= self._limit:
                yield list(made), _spread(tracker.loads)
            return
        if _moves_at_least(tracker.loads, self._limit) > count:
            return
        state = frozenset((step.machine.name, step.target) for step in made)
        if state in seen:
            return
        seen.add(state)
        moved = {step.machine.name for step in made}
        for machine in tracker.free:
            if machine.name in moved:
                continue
            for target in tracker.capacities:
                if target == machine.host:
                    continue
                self._left -= 1
                if self._left < 0:
                    raise _TooMany
                # The last move has to reach the limit.
                if count == 1 and _spread(tracker.loads_after(machine, target)) > self._limit:
                    continue
                if not tracker.fits(machine, target):
                    continue
                made.append(_Move(machine, target))
                tracker.move(machine, machine.host, target)
                try:
                    yield from self._plans(count - 1, made, seen)
                finally:
                    tracker.move(machine, target, machine.host)
                    made.pop()


def _one_by_one(tracker: _LoadTracker, limit: float) -> list[_Move]:
    """The best single move, again and again, as long as it makes the loads more equal."""
    made: list[_Move] = []
    while _spread(tracker.loads) > limit:
        moved = {step.machine.name for step in made}
        step = _best_single(tracker, [machine for machine in tracker.free if machine.name not in moved])
        if step is None:
            break
        made.append(step)
        tracker.move(step.machine, step.machine.host, step.target)
    for step in reversed(made):
        tracker.move(step.machine, step.target, step.machine.host)
    return made


def _best_single(tracker: _LoadTracker, free: Sequence[PlacedMachine]) -> _Move | None:
    """The move that leaves the least spread, and of those the least unrest; None when none makes things better."""
    most, least = max(tracker.loads.values()), min(tracker.loads.values())
    now = round(_spread(tracker.loads), 6), round(_imbalance(tracker.loads), 6)
    best: tuple[tuple[float, float, int, bool], _Move] | None = None
    for machine in free:
        for target in tracker.capacities:
            # A move between two others leaves the spread as it is.
            if target == machine.host or (tracker.loads[machine.host] < most and tracker.loads[target] > least):
                continue
            loads = tracker.loads_after(machine, target)
            memory_mib = needed(machine).memory_mib
            rank = (round(_spread(loads), 6), round(_imbalance(loads), 6), memory_mib, machine.runs)
            better = rank[0] <= now[0] and rank[1] < now[1]
            if better and (best is None or rank < best[0]) and tracker.fits(machine, target):
                best = rank, _Move(machine, target)
    return best[1] if best else None


def _explained(tracker: _LoadTracker, steps: list[_Move]) -> Iterator[tuple[_Move, str]]:
    """The moves, one after the other, each with its reason; they are made in the cloud meanwhile."""
    for step in steps:
        machine, capacity = step.machine, tracker.capacities[step.target]
        notes = notes_on(needed(machine), capacity)
        words = {host: tracker.loads[host] for host in (machine.host, step.target)}
        tracker.move(machine, machine.host, step.target)
        changes = [f"{host} from {load:.0f} to {tracker.loads[host]:.0f}%" for host, load in words.items()]
        yield step, "; ".join([", ".join(changes), *notes])


def _spread(loads: Mapping[str, float]) -> float:
    # Sums of fractions are not exact; nobody means a billionth of a percent.
    return round(max(loads.values()) - min(loads.values()), 9) if loads else 0.0


def _imbalance(loads: Mapping[str, float]) -> float:
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
