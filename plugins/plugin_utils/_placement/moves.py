# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where machines that are there already can be moved: some of them by name, or all of one hypervisor."""

from __future__ import annotations

import shlex
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...module_utils._base.errors import InputError, Mistakes, inside, one_of_these
from ...module_utils._model.spec.fields.validators import any_mapping, read_mapping
from ...module_utils._model.spec.names import pool_name
from .._one_home import one_home
from .choice import HostChoice, choose
from .fleet import Fleet, PlacedMachine
from .homes import OFF_STATES
from .hosts import LISTED_TWICE, is_of_a_move, reasons_against
from .need import Need, in_other_pools
from .options import PlacementOptions


def plan_moves(
    fleet: Fleet,
    options: PlacementOptions,
    *,
    names: Sequence[str] | None = None,
    source: str | None = None,
    target: str | None = None,
    pool: str | None = None,
    disks: Mapping[str, Mapping[str, t.Any]] | None = None,
) -> dict[str, t.Any]:
    """Moves of the named machines, or of all that live on source, to target, or to where they fit best.

    pool, disks: the pools that their disks go to, as in_other_pools has them; those of a machine that is on target
    already go there without it.

    Gives plain data with ``moves``, ``stay``, ``there``, ``by_source`` and ``silent``; the filter's documentation
    describes them. Raises InputError for a machine or a hypervisor that is not there.
    """
    if (names is None) == (source is None):
        raise InputError("name either machines or one hypervisor to empty", where="names")
    if target is not None:
        fleet.check_host(target, "to")
        if target == source:
            raise InputError(f"{target} is the hypervisor to empty", where="to", hint="Give another one")
    found = fleet.on(source) if source is not None else _find(fleet, names or [])
    placed = [
        machine
        if machine.need is None
        else replace(machine, need=in_other_pools(machine.need, machine.record, pool, disks or {}))
        for machine in found
    ]
    moves, stay, there = [], [], []
    in_pools = pool is not None or bool(disks)
    # The largest first: it has the fewest places to go to.
    for machine in sorted(placed, key=lambda item: (-(item.need.memory_mib if item.need else 0), item.name)):
        if target == machine.host and len(fleet.machines[machine.name]) == 1:
            also = "; its disks go to the pools that are named" if in_pools else ""
            there.append(stay_of(machine, f"it is already there{also}"))
            continue
        choice = _decide(machine, fleet, options, target)
        if isinstance(choice, str):
            stay.append(stay_of(machine, choice))
        else:
            moves.append(move_of(machine, fleet, str(choice.host), choice.why, choice.refused))
            fleet.capacities[moves[-1]["target"]].take(needed(machine))
    plan = as_plan(moves, stay, there, fleet)
    waiting = _waiting(fleet)
    for item in there if in_pools else []:
        plan["by_source"][item["hypervisor"]].append({"name": item["name"]})
        if item["name"] not in waiting:
            plan["ahead"][item["hypervisor"]].append({"name": item["name"]})
    return plan


def plan_disk_moves(fleet: Fleet, names: Sequence[str], disks: Mapping[str, Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The named machines by the hypervisors that they are on, in plain data with ``by_hypervisor``.

    disks: the pools of single disks, as read_disk_pools gives them; they stand with each machine. Raises InputError,
    with a line for each machine that is not there, or that several hypervisors have.
    """
    by_hypervisor: dict[str, list[t.Any]] = {host: [] for host in fleet.capacities}
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes.noted():
            homes = [placed.host for placed in _find(fleet, [name])]
            home = one_home(name, homes, option="--limit ")
            by_hypervisor[str(home)].append({"name": name, **({"disks": dict(disks)} if disks else {})})
    mistakes.conclude()
    return {"by_hypervisor": by_hypervisor}


def read_disk_pools(disks: t.Any) -> dict[str, dict[str, t.Any]]:
    """The pools that single disks go to, by the disks' names; empty for None. Raises InputError."""
    if disks is not None and not isinstance(disks, Mapping):
        name = disks if isinstance(disks, str) and disks.isalnum() else "NAME"
        raise InputError(
            f"{disks!r} is not a mapping of disks to their pools",
            where="disks",
            hint=f'Give {{"disks": {{"{name}": {{"pool": "POOL"}}}}}}, on the command line in quotes behind -e, or '
            "pool for all disks",
        )
    return {
        name: read_mapping(value, inside("disks", name), {"pool": pool_name})
        for name, value in any_mapping({} if disks is None else disks, "disks").items()
    }


def needed(machine: PlacedMachine) -> Need:
    """What a machine that can be moved needs."""
    if machine.need is None:
        raise InputError("; ".join(machine.ties), where=machine.name)
    return machine.need


def move_of(
    machine: PlacedMachine, fleet: Fleet, target: str, why: str, refused: Mapping[str, str]
) -> dict[str, t.Any]:
    """One move in plain data."""
    refused = {**refused, **reasons_against(fleet.silent)}
    return {
        "name": machine.name,
        "source": machine.host,
        "target": target,
        "state": machine.record.get("state"),
        "memory_mib": needed(machine).memory_mib,
        "why": why,
        "refused": dict(sorted(refused.items())),
        "memory_ratio": fleet.capacities[target].options.memory_ratio,
        "memory_reserve_mib": fleet.capacities[target].options.memory_reserve_mib,
        "anti_affinity": fleet.capacities[target].anti_affinity,
    }


def stay_of(machine: PlacedMachine, why: str) -> dict[str, t.Any]:
    """A machine that is not moved, in plain data."""
    record = machine.record
    return {
        "name": machine.name,
        "hypervisor": machine.host,
        "state": record.get("state"),
        "memory_mib": record.get("memory_max_mib"),
        "why": why,
    }


def as_plan(
    moves: Sequence[Mapping[str, t.Any]],
    stay: Sequence[Mapping[str, t.Any]],
    there: Sequence[Mapping[str, t.Any]],
    fleet: Fleet,
) -> dict[str, t.Any]:
    """A plan in plain data; the order of the moves stays."""
    by_source: dict[str, list[t.Any]] = {host: [] for host in fleet.capacities}
    for move in moves:
        by_source[move["source"]].append(
            {key: move[key] for key in ("name", "target", "memory_ratio", "memory_reserve_mib", "anti_affinity")}
        )
    certain = _certain_ahead(moves, fleet)
    return {
        "moves": list(moves),
        "stay": sorted(stay, key=lambda item: (item["name"], item["hypervisor"])),
        "there": sorted(there, key=lambda item: item["name"]),
        "by_source": by_source,
        "ahead": {host: [item for item in items if item["name"] in certain] for host, items in by_source.items()},
        "unfinished": fleet.unfinished(),
        "silent": dict(fleet.silent),
    }


def _certain_ahead(moves: Sequence[Mapping[str, t.Any]], fleet: Fleet) -> set[str]:
    """The machines whose moves can be checked before any is made: none that waits for another move to end."""
    waiting = _waiting(fleet)
    names, left = set(), set()
    for move in moves:
        if move["name"] not in waiting and move["target"] not in left:
            names.add(move["name"])
        left.add(move["source"])
    return names


def _waiting(fleet: Fleet) -> set[str]:
    """The machines whose earlier moves are to be finished first."""
    return {item["name"] for items in fleet.unfinished().values() for item in items}


def _find(fleet: Fleet, names: Sequence[str]) -> list[PlacedMachine]:
    found: list[PlacedMachine] = []
    for name in dict.fromkeys(names):
        if name not in fleet.machines:
            silent = "; ".join(f"{host}: {reason}" for host, reason in reasons_against(fleet.silent).items())
            near = one_of_these(name, fleet.machines)
            raise InputError(
                f"there is no machine {name!r} on the hypervisors that answered",
                hint=f"{near}. {silent}".replace("?.", "?") if silent else near,
            )
        found += fleet.machines[name]
    return found


def _decide(machine: PlacedMachine, fleet: Fleet, options: PlacementOptions, target: str | None) -> HostChoice | str:
    """Where the machine goes, or why it stays."""
    if len(fleet.machines[machine.name]) > 1:
        return _on_several(machine.name, fleet)
    if machine.need is None:
        return "; ".join(machine.ties)
    candidates = [target] if target is not None else [host for host in fleet.capacities if host != machine.host]
    choice = choose(machine.need, fleet.capacities, candidates, options, asked=target is not None)
    return choice if choice.host is not None else _nowhere(choice, fleet, target)


def _on_several(name: str, fleet: Fleet) -> str:
    """Why a machine that several hypervisors have stays."""
    found = fleet.machines[name]
    homes = [placed.host for placed in found]
    if fleet.is_listed_twice(found):
        return f"{' and '.join(homes)} have it at once, and {LISTED_TWICE}"
    copies = {placed.host: placed.record for placed in found}
    runs = [host for host, copy in copies.items() if copy.get("state") not in (*OFF_STATES, "paused")]
    for host, copy in copies.items():
        if not runs and is_of_a_move(host, copy, copies, fleet.hosts_by_own_name):
            # One that came running: the others are finished by virt_migrate.
            others = [other for other in homes if other != host]
            again = "resume" if all(copies[other].get("state") == "paused" for other in others) else "start"
            return (
                f"a move to {host} was interrupted as it arrived there, and it runs on none of {', '.join(homes)}. If "
                f"it ever ran on {host}, that has its latest data: virsh start {shlex.quote(name)} there, and run the "
                f"move again, with to={host}. Only if it never did, remove it there, and "
                f"{again} it on {' or '.join(others)}"
            )
    on = f", and runs on {' and '.join(runs)}" if runs else ""
    return (
        f"it is on {' and '.join(homes)} at once{on}. Find out which of them is the right one, and rename or purge the "
        "other"
    )


def _nowhere(choice: HostChoice, fleet: Fleet, target: str | None) -> str:
    reasons = dict(choice.refused)
    if target is None:
        reasons.update(reasons_against(fleet.silent))
    if not reasons:
        return "there is no other hypervisor"
    listed = "; ".join(f"{host}: {reasons[host]}" for host in sorted(reasons))
    where = f"does not fit on {listed}" if target is not None else f"fits on no other hypervisor: {listed}"
    return f"{where}. {choice.hint}" if choice.hint else where
