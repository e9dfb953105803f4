# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose turn it is to start, among the machines that a run of virt_provision makes on several hypervisors. Pure.

virt_init keeps to the order of its own hypervisor. Where that is not enough, a first task does all there is to do, and
starts the machines of the first turn alone; each further one starts those of the next.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ..module_utils._base.errors import InputError
from ..module_utils._model.spec.machine_state import PRESENT
from ..module_utils._model.spec.start_order import in_start_order

Result = Mapping[str, t.Any]


def start_turns(checked: t.Any, by_host: Mapping[str, Sequence[t.Any]]) -> list[dict[str, dict[str, list[t.Any]]]]:
    """The turns: by hypervisor, who starts in it, and who starts later (``held``); none where nobody waits for another
    hypervisor's machines.

    checked: registered results of virt_init in check mode by the hypervisors' names; one without machines is of one
    that has nothing to start. by_host: the names of the machines that are still to be made, as they are to be returned.
    Raises InputError for what is no such mapping.
    """
    starts = list(_starts(checked, by_host))
    groups = in_start_order(starts, lambda start: start[2])
    if len(groups) < 2 or len({host for host, _name, _order in starts}) < 2:  # noqa: PLR2004 - one waits for no other
        return []
    turns = [_by_host(group) for group in groups]
    later = [_by_host([start for group in groups[number + 1 :] for start in group]) for number in range(len(groups))]
    return [{"starts": turn, "held": held} for turn, held in zip(turns, later, strict=True)]


def _starts(checked: t.Any, by_host: Mapping[str, Sequence[t.Any]]) -> Iterator[tuple[str, t.Any, int | None]]:
    """The machines that would be started: hypervisor, name and order. One that runs already is not started."""
    if not isinstance(checked, Mapping):
        raise InputError("the input is not a mapping", hint="Give the registered results, by the hypervisors' names")
    for host, names in by_host.items():
        found = {one["name"]: one for one in _machines(checked.get(host))}
        for name in names:
            one = found.get(str(name), {})
            if "order" in one and not one.get("failed"):
                yield host, name, one["order"]


def _by_host(starts: Sequence[tuple[str, t.Any, int | None]]) -> dict[str, list[t.Any]]:
    names: dict[str, list[t.Any]] = {}
    for host, name, _order in starts:
        names.setdefault(host, []).append(name)
    return names


def held_back(machines: Sequence[Mapping[str, t.Any]], names: Sequence[t.Any]) -> list[Mapping[str, t.Any]]:
    """The requested machines, of which the named ones are created or changed, and not started."""
    return [
        {**{key: value for key, value in machine.items() if key != "start"}, "state": PRESENT}
        if machine.get("name") in names
        else machine
        for machine in machines
    ]


def joined_results(later: t.Any, before: t.Any, names: Sequence[t.Any]) -> dict[str, t.Any]:
    """The results of two runs of virt_init on one hypervisor as one, with one result of each machine.

    later: of the second one, for the machines of these names. Where it says nothing of one of them, because the whole
    task failed, that is the machine's error. Raises InputError where before is no result.
    """
    if not isinstance(before, Mapping) or not isinstance(later, Mapping):
        raise InputError("that is not the registered result of virt_init")
    found = {one["name"]: one for one in _machines(later)}
    silent = {str(name): _failure(later) for name in names if str(name) not in found}
    machines = [
        _joined(one, found[one["name"]]) if one["name"] in found else {**one, **silent.get(one["name"], {})}
        for one in _machines(before)
    ]
    return {
        **before,
        "changed": any(one.get("changed") for one in machines),
        "failed": any(one.get("failed") for one in machines),
        "machines": machines,
    }


def _machines(result: t.Any) -> Sequence[Result]:
    return (result.get("machines") if isinstance(result, Mapping) else None) or ()


def _failure(result: Result) -> dict[str, t.Any]:
    return {"failed": True, "msg": str(result.get("msg") or "its hypervisor did not say what became of it")}


def _joined(before: Result, later: Result) -> dict[str, t.Any]:
    pending = list(dict.fromkeys([*(before.get("pending") or ()), *(later.get("pending") or ())]))
    return {
        **before,
        **later,
        "changed": bool(before.get("changed") or later.get("changed")),
        "created": bool(before.get("created") or later.get("created")),
        "actions": [*(before.get("actions") or ()), *(later.get("actions") or ())],
        "pending": pending,
        "restart_required": bool(pending),
        "seconds": round((before.get("seconds") or 0) + (later.get("seconds") or 0), 1),
    }
