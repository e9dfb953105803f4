# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_backup did, or would do, as a table with a row for each machine; who else has a machine. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import format_size
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results.report import (
    Machine,
    results_report,
    seconds_taken,
)
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import Column, printable_line
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import machines_of

_COLUMNS = (
    *(Column("MACHINE"), Column("ON"), Column("KIND"), Column("SIZE", right=True), Column("SECONDS", right=True)),
    Column("DONE"),
)


def backup_report(results: t.Any, left_out: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """The text, the same as data, and what failed, a sentence each; see results_report."""
    return results_report(results, left_out, "virt_backup", _COLUMNS, _row, lambda machine: str(machine["msg"]))


def _row(one: Machine) -> tuple[t.Any, ...]:
    return one["name"], one["hypervisor"], one.get("kind"), _size(one), seconds_taken(one), _words(one)


def _size(machine: Machine) -> str | None:
    return format_size(machine["bytes"]) if machine.get("bytes") is not None else None


def _words(machine: Machine) -> str:
    if machine["failed"]:
        return f"failed: {machine['msg']}"
    if machine.get("to_verify") is not None:
        return f"{len(machine['to_verify'])} would be verified"
    if not machine["actions"]:
        return f"{len(machine['verified'])} verified"
    parts = [machine.get("id") or "would be backed up"]
    if machine.get("reason"):
        parts.append(f"full because {machine['reason']}")
    if machine.get("quiesced") is False:
        parts.append("not quiesced")
    done = bool(machine.get("id"))
    if machine.get("merged"):
        parts.append(f"{len(machine['merged'])} {'merged' if done else 'would be merged'}")
    if machine["removed"]:
        parts.append(f"{len(machine['removed'])} {'removed' if done else 'would be removed'}")
    return ", ".join(parts)


def restore_twins(results: t.Any, target: str, name: str | None, uuid: str | None) -> list[str]:
    """Why a machine is not to be restored: another hypervisor has it, or may have it. A sentence each.

    results: registered results of virt_info by the hypervisors' names. target: the hypervisor that it is restored to.
    name, uuid: of the restored machine, None for a single disk. Raises InputError.
    """
    if name is None:
        return []
    machines, silent = machines_of(results)
    found = []
    for host, records in machines.items():
        for record in records:
            if host != target and (record["name"] == name or (uuid and record.get("uuid") == uuid)):
                what = f"machine {name}" if record["name"] == name else f"machine {record['name']}, with the same UUID,"
                found.append(f"{what} is on {host}, so {name} is not restored on {target}.")
    for host, reason in silent.items():
        if host != target:
            found.append(printable_line(f"{host} may have {name} already: {reason}."))
    return found
