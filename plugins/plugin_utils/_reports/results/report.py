# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module that works on several machines said of each, on all hypervisors, as a report. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import Column, printable_line, table_lines

Machine = Mapping[str, t.Any]


def results_report(
    results: t.Any,
    left_out: Mapping[str, str] | None,
    module: str,
    columns: Sequence[Column],
    row: Callable[[Machine], Sequence[t.Any]],
    failure: Callable[[Machine], str],
) -> dict[str, t.Any]:
    """The text, with a row for each machine, the same as data, and what failed, a sentence each.

    results: registered results of the module by the hypervisors' names, one or a list of them each; one that was
    skipped says nothing. left_out: by their names, why hypervisors and machines were left out. row, failure: of a
    machine, which has its ``hypervisor`` beside what the module said. Raises InputError for what is no such mapping.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "the input is not a mapping", hint=f"Give the registered results of {module}, by the hypervisors' names"
        )
    heard = [
        (host, result)
        for host, found in results.items()
        for result in (found if isinstance(found, (list, tuple)) else [found])
        if isinstance(result, Mapping) and not result.get("skipped")
    ]
    machines = [{**machine, "hypervisor": host} for host, result in heard for machine in result.get("machines") or ()]
    silent = {host: str(result["msg"]) for host, result in heard if "machines" not in result and "msg" in result}
    silent.update(left_out or {})
    reasons = [printable_line(f"{who}: {reason}") for who, reason in silent.items()]
    broken = [
        printable_line(f"{one['name']} on {one['hypervisor']}: {failure(one)}") for one in machines if one["failed"]
    ]
    return {
        "text": "\n".join([*table_lines(columns, map(row, machines)), *reasons] or ["No machine is selected."]),
        "data": {"machines": machines, "left_out": silent},
        "failed": broken + reasons,
    }


def seconds_taken(machine: Machine) -> str | None:
    """In check mode it takes none."""
    return f"{machine['seconds']:g}" if machine["seconds"] else None


def words_done(machine: Machine, otherwise: str) -> str:
    """What was done to a machine, and why it failed; otherwise: the words where nothing was."""
    done = ", ".join(machine["actions"])
    if machine["failed"]:
        return f"{done}, then failed: {machine['msg']}" if done else f"failed: {machine['msg']}"
    return done or otherwise
