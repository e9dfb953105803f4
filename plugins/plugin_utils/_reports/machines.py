# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of all hypervisors as data, and as a table. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ...module_utils._base.errors import InputError, one_of_these
from ...module_utils._base.xml import MIB
from ...module_utils._model.spec.fields.units import format_size
from .remarks import remarks_on
from .table import Column, printable_line, table_lines
from .text import Records, machines_of

NOBODY_ANSWERED = "No hypervisor answered."
UNKNOWN = "?"
# More reasons why something is unknown would hide the table.
_MOST_ERRORS = 10
_MOST_NAMES = 5
_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("ON"),
    Column("ADDRESS"),
    Column("CPU", right=True),
    Column("MEM", right=True),
    Column("DISK", right=True),
    Column("TAGS", least=8),
    Column("PENDING", least=8),
)


def machines_data(results: t.Any, names: Sequence[t.Any] = ()) -> dict[str, t.Any]:
    """The machines of all hypervisors in one list, as the filter brine.virt.machines_data returns it.

    results: registered results of virt_info by the hypervisors' names. names: those that were asked for.
    Raises InputError.
    """
    machines, silent = machines_of(results)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{names!r} is not a list of names", where="names")
    return {
        "machines": sorted(
            ({**record, "hypervisor": hypervisor} for hypervisor, records in machines.items() for record in records),
            key=lambda record: (record["name"], record["hypervisor"]),
        ),
        "hypervisors": sorted(machines),
        "silent": silent,
        "failures": _failures(results, machines, list(map(str, names))),
    }


def _failures(results: Mapping[str, t.Any], machines: Mapping[str, Records], names: Sequence[str]) -> list[str]:
    """Why the playbook that asked ends with an error, although it shows what there is."""
    if not machines:
        return [NOBODY_ANSWERED]
    known = {record["name"] for records in machines.values() for record in records}
    nowhere = set(names)
    for hypervisor, records in machines.items():
        result = results[hypervisor] if isinstance(results[hypervisor], Mapping) else {}
        missing = result.get("missing")
        # Without it, as in a list of records alone, who has no record is not there.
        nowhere &= set(names) - {record["name"] for record in records} if missing is None else set(missing)
        known.update(result.get("known") or ())
    return [
        f"There is no machine {name} on the hypervisors that answered. {one_of_these(name, known)}"
        for name in dict.fromkeys(names)
        if name in nowhere
    ]


def machines_table(data: t.Any) -> str:
    """A row for each machine, sorted by name; after them what is unusual, and why hypervisors did not answer.

    data: what machines_data gave. Raises InputError.
    """
    if not isinstance(data, Mapping) or not {"machines", "hypervisors", "silent"} <= data.keys():
        raise InputError("the input is not a list of machines", hint="Give what brine.virt.machines_data returned")
    records = data["machines"]
    lines = table_lines(_COLUMNS, map(_row, records))
    if not records and data["hypervisors"]:
        lines = [f"No machines found on {', '.join(data['hypervisors'])}."]
    lines += remarks_on({host: [r for r in records if r["hypervisor"] == host] for host in data["hypervisors"]})
    errors = _errors(records)
    lines += errors[:_MOST_ERRORS]
    if len(errors) > _MOST_ERRORS:
        lines.append(f"{len(errors) - _MOST_ERRORS} more are unknown: brine.virt.query says what and why")
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in data["silent"].items()]
    return "\n".join(map(printable_line, lines))


def _errors(records: Records) -> list[str]:
    """A sentence for each thing that could not be found out on a hypervisor, with the machines that it is said of."""
    said: dict[tuple[str, str], list[str]] = {}
    for record in records:
        for error in record.get("errors") or ():
            said.setdefault((record["hypervisor"], error), []).append(record["name"])
    return [f"{_first(names)} on {hypervisor}: {error}" for (hypervisor, error), names in said.items()]


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_MOST_NAMES])} and {more} more"


def _row(record: Mapping[str, t.Any]) -> list[t.Any]:
    memory_mib = record.get("memory_mib")
    pending = record.get("pending")
    return [
        record["name"],
        _state(record),
        record["hypervisor"],
        record.get("address"),
        UNKNOWN if record.get("vcpus") is None else record["vcpus"],
        UNKNOWN if memory_mib is None else format_size(memory_mib * MIB),
        _disk_size(record),
        ",".join(map(str, record.get("tags") or ())),
        UNKNOWN if pending is None else ",".join(pending),
    ]


def _state(record: Mapping[str, t.Any]) -> str:
    state = "unfinished" if record.get("building") else "saved" if record.get("saved") else str(record["state"])
    state = " ".join(filter(None, [state, record.get("paused_by")]))
    return f"{state}, moving" if record.get("moving") else state


def _disk_size(record: Mapping[str, t.Any]) -> str | None:
    """What its disks hold together; what is only read, such as a seed or a CD-ROM, is none of its own."""
    disks = [
        disk
        for disk in record.get("disks") or ()
        if disk.get("device") in (None, "disk", "lun") and not disk.get("readonly") and disk.get("source")
    ]
    sizes = [disk.get("size_bytes") for disk in disks]
    if None in sizes:
        return UNKNOWN
    return format_size(sum(sizes)) if sizes else None
