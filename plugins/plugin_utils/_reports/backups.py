# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_backup did, or would do, as a table with a row for each machine; who else has a machine. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import format_size
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import Column, printable_line, table_lines
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import machines_of

_COLUMNS = (
    *(Column("MACHINE"), Column("ON"), Column("KIND"), Column("SIZE", right=True), Column("SECONDS", right=True)),
    Column("DONE"),
)


def backup_report(results: t.Any, left_out: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """The text, the same as data, and what failed, a sentence each.

    results: registered results of virt_backup by the hypervisors' names; one that was skipped says nothing.
    left_out: by their names, why hypervisors and machines were left out. Raises InputError for what is no such mapping.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "the input is not a mapping", hint="Give the registered results of virt_backup, by the hypervisors' names"
        )
    heard = {
        host: result for host, result in results.items() if isinstance(result, Mapping) and not result.get("skipped")
    }
    machines = [
        {**machine, "hypervisor": host} for host, result in heard.items() for machine in result.get("machines") or ()
    ]
    silent = {
        host: str(result["msg"]) for host, result in heard.items() if "machines" not in result and "msg" in result
    }
    silent.update(left_out or {})
    rows = [(one["name"], one["hypervisor"], one.get("kind"), _size(one), _time(one), _words(one)) for one in machines]
    reasons = [printable_line(f"{who}: {reason}") for who, reason in silent.items()]
    broken = [
        printable_line(f"{one['name']} on {one['hypervisor']}: {one['msg']}") for one in machines if one["failed"]
    ]
    return {
        "text": "\n".join([*table_lines(_COLUMNS, rows), *reasons] or ["No machine is selected."]),
        "data": {"machines": machines, "left_out": silent},
        "failed": broken + reasons,
    }


def _size(machine: Mapping[str, t.Any]) -> str | None:
    return format_size(machine["bytes"]) if machine.get("bytes") is not None else None


def _time(machine: Mapping[str, t.Any]) -> str | None:
    """In check mode it takes none."""
    return f"{machine['seconds']:g}" if machine["seconds"] else None


def _words(machine: Mapping[str, t.Any]) -> str:
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
