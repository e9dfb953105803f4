# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_init did, or would do, as lines for people. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import POWER_CYCLE, printable_line


def changes_text(results: t.Any) -> str:
    """A line for each machine that was changed or failed, and one for what it waits for; empty where there is none.

    results: registered results of virt_init by the hypervisors' names. One that has no machines, because the task was
    skipped or failed early, says nothing. Raises InputError for what is no such mapping.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "the input is not a mapping", hint="Give the registered results of virt_init, by the hypervisors' names"
        )
    lines: list[str] = []
    for hypervisor, result in results.items():
        machines = result.get("machines") if isinstance(result, Mapping) else None
        for machine in machines or ():
            lines += _lines(machine, f"{machine['name']} on {hypervisor}")
    return "\n".join(printable_line(line) for line in lines)


def _lines(machine: Mapping[str, t.Any], who: str) -> list[str]:
    if machine.get("failed"):
        return [f"{who}: failed: {machine.get('msg')}"]
    pending, outdated = machine.get("pending") or [], machine.get("outdated") or []
    if not (machine.get("changed") or pending):
        return []
    lines = []
    if machine.get("changed"):
        lines.append(f"{who}: {'new' if machine.get('created') else _actions(machine.get('actions') or [])}")
    if pending:
        lines.append(f"{who}: pending until {POWER_CYCLE}: {', '.join(pending)}")
    if outdated:
        lines.append(f"{who}: stays as it was created: {', '.join(map(_outdated, outdated))}")
    return lines


def _outdated(what: str) -> str:
    return "seed (seed_policy: refresh gives it the new one)" if what == "seed" else what


def _actions(actions: Sequence[str]) -> str:
    # Every change is noted in the machine's own notes, which is of no interest to people unless it is all that changed.
    shown = [
        action for action in actions if not action.startswith(("write the metadata of ", "record the new disks of "))
    ]
    return "; ".join(shown or actions)
