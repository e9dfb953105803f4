# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a list that are to be removed (``state: absent``): where each of them is, before any is placed."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from ...module_utils._base.errors import ConflictError, InputError, VirtError
from ...module_utils._model.spec.machine import Machine
from .._one_home import one_home
from .capacity import HostCapacity
from .homes import between_two, homes_of, may_have_moved, namesake, no_answer, not_removed, silent_among
from .options import PlacementOptions


@dataclass
class Removals:
    """Where machines are that are to be removed.

    by_host: their names. not_there: those that no hypervisor has. problems: what is wrong, by the machine's index.
    refused: by the index, why it is not known whether a machine is there, after the hypervisor that may have it, where
    it is one.
    """

    by_host: dict[str, list[str]] = field(default_factory=dict)
    not_there: list[str] = field(default_factory=list)
    problems: dict[int, VirtError] = field(default_factory=dict)
    refused: dict[int, tuple[str | None, str]] = field(default_factory=dict)


def find_removals(
    machines: Sequence[Machine],
    capacities: Mapping[str, HostCapacity],
    silent: Mapping[str, str],
    options: PlacementOptions,
    homes: Mapping[str, str],
    titles: Sequence[str],
    last_seen: Mapping[str, Sequence[str]] | None = None,
) -> Removals:
    """The machines that are to be removed; what they take on their hypervisors is free for the others.

    silent: hypervisors that did not answer, and why. homes: where machines were when the inventory was read. titles:
    what messages call the machines. last_seen: by machine, the hypervisors that it is known on by other means.
    """
    found = Removals()
    for index, machine in enumerate(machines):
        if not machine.absent:
            continue
        moving = between_two(machine, homes_of(machine, capacities)[0], capacities)
        if moving is not None and machine.hypervisor is None:
            found.refused[index] = moving
            continue
        try:
            home = _home(machine, capacities, silent, titles[index])
        except VirtError as exc:
            found.problems[index] = exc
            continue
        seen = [homes.get(machine.name), *(last_seen or {}).get(machine.name, ())]
        hosts = {*capacities, *silent}
        unseen = _unseen(machine, home, hosts, silent, options, seen)
        if unseen is None and home is None:
            unseen = not_removed(machine, hosts, options, seen)
        if unseen is not None:
            found.refused[index] = unseen
        elif home is None:
            found.not_there.append(machine.name)
        else:
            found.by_host.setdefault(home, []).append(machine.name)
            capacities[home].leave(machine.name)
    return found


def _home(
    machine: Machine, capacities: Mapping[str, HostCapacity], silent: Mapping[str, str], where: str
) -> str | None:
    """The hypervisor that has the machine; None where none has. Raises VirtError where that is open."""
    asked = machine.hypervisor
    if asked is not None and asked not in capacities and asked not in silent:
        known = ", ".join(sorted({*capacities, *silent}))
        raise InputError(f"unknown hypervisor {asked!r}", where=where, hint=f"Known: {known}")
    homes, _left = homes_of(machine, capacities)
    if asked in homes:
        return asked
    home = one_home(machine.name, homes, where, option="hypervisor: ")
    if home is not None and asked is not None:
        raise ConflictError(
            f"it is on {home}, and hypervisor says {asked}",
            where=where,
            hint=f"To have it removed, set hypervisor: {home}",
        )
    return home


def _unseen(
    machine: Machine,
    found: str | None,
    hosts: Container[str],
    silent: Mapping[str, str],
    options: PlacementOptions,
    seen: Sequence[str | None],
) -> tuple[str | None, str] | None:
    """Why it is not known whether a machine is there, or which one of its name is meant; None where it is known.

    found: the hypervisor that has it, of those which answered. hosts: all hypervisors. seen: where it was when the
    inventory was read, None where that had it nowhere, and then where it is known to be by other means.
    """
    asked, home = machine.hypervisor, next(iter(seen), None)
    placed = options.places_unseen(machine.name)
    if asked is None and placed:
        return None
    if asked is not None and asked not in silent:
        # The entry may be older than a move.
        lost = found is None and not placed
        hosts = list(silent) if lost and may_have_moved(seen, silent) else silent_among(seen, silent) if lost else []
    elif found is not None:
        other = None if asked is not None else namesake(found, seen, hosts, silent)
        if other is None:
            return None
        return None, (
            f"it is to be removed, and is on {found}, but {other}: there may be two of this name. Set hypervisor: "
            f"{found} if that one is to go"
        )
    else:
        hosts = [asked] if asked is not None else [home] if home in silent and home is not None else list(silent)
    if not hosts:
        return None
    words = f"it is to be removed, and may be on {' or '.join(hosts)}, {no_answer(hosts, silent)}"
    return (hosts[0] if len(hosts) == 1 else None), words
