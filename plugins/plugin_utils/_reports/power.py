# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_power did, or would do, as a table with a row for each machine. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import Column, printable_line, table_lines

_COLUMNS = (Column("MACHINE"), Column("ON"), Column("STATE"), Column("SECONDS", right=True), Column("DONE"))


def power_report(results: t.Any, left_out: Mapping[str, str]) -> dict[str, t.Any]:
    """The text, the same as data, and what failed, a sentence each.

    results: registered results of virt_power by the hypervisors' names, one or a list of them each; one that was
    skipped says nothing.
    left_out: by their names, why hypervisors and machines were left out. Raises InputError for what is no such mapping.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "the input is not a mapping", hint="Give the registered results of virt_power, by the hypervisors' names"
        )
    heard = [
        (host, result)
        for host, found in results.items()
        for result in (found if isinstance(found, (list, tuple)) else [found])
        if isinstance(result, Mapping) and not result.get("skipped")
    ]
    machines = [{**machine, "hypervisor": host} for host, result in heard for machine in result.get("machines") or ()]
    silent = {host: str(result["msg"]) for host, result in heard if "machines" not in result and "msg" in result}
    silent.update(left_out)
    lines = table_lines(
        _COLUMNS,
        [(one["name"], one["hypervisor"], one["state"], _time(one["seconds"]), _words(one)) for one in machines],
    )
    reasons = [printable_line(f"{who}: {reason}") for who, reason in silent.items()]
    broken = [
        printable_line(f"{one['name']} on {one['hypervisor']}: {_words(one)}") for one in machines if one["failed"]
    ]
    return {
        "text": "\n".join([*lines, *reasons] or ["No machine is selected."]),
        "data": {"machines": machines, "left_out": silent},
        "failed": broken + reasons,
    }


def _words(machine: Mapping[str, t.Any]) -> str:
    done = ", ".join(machine["actions"])
    if machine["failed"]:
        return f"{done}, then failed: {machine['msg']}" if done else f"failed: {machine['msg']}"
    if not done:
        return f"{machine['state']} already"
    return f"{done} (was {machine['before']})" if machine["before"] != machine["state"] else done


def _time(seconds: float) -> str | None:
    """In check mode it takes none."""
    return f"{seconds:g}" if seconds else None
