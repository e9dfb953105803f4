# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules that work on several machines did of each, or would do, on all hypervisors, as a report. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from ...module_utils._base.errors import InputError
from ...module_utils._model.spec.fields.units import format_size
from .._placement.options import unseen_option
from .table import Column, printable_line, printable_text, table_lines
from .text import machines_of

Machine = Mapping[str, t.Any]
_COLUMNS = (Column("MACHINE"), Column("ON"), Column("STATE"), Column("SECONDS", right=True), Column("DONE"))
_BACKUP_COLUMNS = (
    *(Column("MACHINE"), Column("ON"), Column("KIND"), Column("SIZE", right=True), Column("SECONDS", right=True)),
    Column("DONE"),
)
_LIST_COLUMNS = (
    *(Column("MACHINE"), Column("ON"), Column("BACKUP"), Column("MADE"), Column("KIND"), Column("SIZE", right=True)),
    Column("QUIESCED"),
)


def power_report(results: t.Any, left_out: Mapping[str, str]) -> dict[str, t.Any]:
    """The text, the same as data, and what failed, a sentence each; see _report."""
    return _report(results, left_out, "virt_power", _COLUMNS, _row_with(_power_words), _power_words)


def snapshot_report(results: t.Any, left_out: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """As power_report, of virt_snapshot."""
    return _report(results, left_out, "virt_snapshot", _COLUMNS, _row_with(_snapshot_words), _snapshot_words)


def backup_report(results: t.Any, left_out: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """As power_report, of virt_backup. Of backups that would be verified, each has a row in a table of its own."""
    report = _report(
        results, left_out, "virt_backup", _BACKUP_COLUMNS, _backup_row, lambda machine: str(machine["msg"])
    )
    rows = [
        (one["name"], one["hypervisor"], *_listed(backup))
        for one in report["data"]["machines"]
        if one.get("to_verify") is not None
        for backup in one.get("backups") or ()
    ]
    if rows:
        report["text"] = "\n".join([report["text"], "", *table_lines(_LIST_COLUMNS, rows)])
    return report


def _report(
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
    # Of guests that have not done in time what they were asked.
    blocks = [printable_text(str(result["report"])) for _host, result in heard if result.get("report")]
    lines = [*table_lines(columns, map(row, machines)), *blocks, *reasons]
    return {
        "text": "\n".join(lines or ["No machine is selected."]),
        "data": {"machines": machines, "left_out": silent},
        "failed": broken + reasons,
    }


def _seconds_taken(machine: Machine) -> str | None:
    """In check mode it takes none."""
    return f"{machine['seconds']:g}" if machine["seconds"] else None


def _row_with(words: Callable[[Machine], str]) -> Callable[[Machine], Sequence[t.Any]]:
    """A row of the usual columns."""
    return lambda one: (one["name"], one["hypervisor"], one["state"], _seconds_taken(one), words(one))


def _words_done(machine: Machine, otherwise: str) -> str:
    """What was done to a machine, and why it failed; otherwise: the words where nothing was."""
    done = ", ".join(machine["actions"])
    if machine["failed"]:
        return f"{done}, then failed: {machine['msg']}" if done else f"failed: {machine['msg']}"
    return done or otherwise


def _power_words(machine: Machine) -> str:
    words = _words_done(machine, f"{machine['state']} already")
    moved = machine["actions"] and not machine["failed"] and machine["before"] != machine["state"]
    return f"{words} (was {machine['before']})" if moved else words


def _snapshot_words(machine: Machine) -> str:
    name = machine["snapshot"]
    have = ", ".join(one["name"] for one in machine.get("snapshots") or ())
    nothing = f"nothing to delete: it has {have}" if have else "nothing to delete"
    return _words_done(machine, f"snapshot {name} exists already" if name else nothing)


def _backup_row(one: Machine) -> tuple[t.Any, ...]:
    return one["name"], one["hypervisor"], one.get("kind"), _size(one), _seconds_taken(one), _backup_words(one)


def _listed(backup: Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    quiesced = "yes" if backup["quiesced"] else "no"
    kind = f"{backup['kind']}, damaged" if backup.get("damaged") else backup["kind"]
    return backup["id"], backup["made"], kind, format_size(backup["bytes"]), quiesced


def _size(machine: Machine) -> str | None:
    return format_size(machine["bytes"]) if machine.get("bytes") is not None else None


def _backup_words(machine: Machine) -> str:
    if machine["failed"]:
        return f"failed: {machine['msg']}"
    if machine.get("to_verify") is not None:
        return f"{len(machine['to_verify'])} would be verified"
    if not machine["actions"]:
        return f"{len(machine['verified'])} verified"
    parts = [machine.get("id") or "would be backed up"]
    if machine.get("unsaved_disks"):
        parts.append(f"without {' and '.join(machine['unsaved_disks'])}")
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


def restore_twins(
    results: t.Any, target: str, name: str | None, uuid: str | None, *, unseen: bool = False
) -> list[str]:
    """Why a machine is not to be restored: another hypervisor has it, or may have it. A sentence each.

    results: registered results of virt_info by the hypervisors' names. target: the hypervisor that it is restored to.
    name, uuid: of the restored machine, None for a single disk. unseen: the user knows that it is not where nobody
    answers. Raises InputError.
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
        if host != target and not unseen:
            may_have = printable_line(f"{host} may have {name} already: {reason}.")
            found.append(f"{may_have} If you know that it is not there, add {unseen_option(name)}.")
    return found
