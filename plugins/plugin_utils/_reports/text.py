# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of queries and lists, from records. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import format_size
from ansible_collections.brine.virt.plugins.plugin_utils._reports.remarks import unfinished

KIB_PER_MIB = 1024
# A certificate that is kept up to date does not come as near to its end as this.
CERTIFICATE_WARNING_DAYS = 29
# When a running machine gets what only its definition has.
POWER_CYCLE = "power off and on (a reboot in the guest is not enough)"

Records = Sequence[Mapping[str, t.Any]]


def split_answers(results: t.Any, key: str) -> tuple[dict[str, t.Any], dict[str, str]]:
    """What hypervisors answered, and why others did not, from registered results by the hypervisors' names.

    key: the return value that is wanted. It may also stand there itself, without its result. The reasons are sentences
    that go with the hypervisor's name and a colon. Raises InputError.
    """
    if not isinstance(results, Mapping):
        raise InputError(
            "the input is not a mapping", hint="Give the registered results of the module, by the hypervisors' names"
        )
    answered: dict[str, t.Any] = {}
    silent: dict[str, str] = {}
    for hypervisor, result in results.items():
        is_result = isinstance(result, Mapping) and (key in result or "msg" in result)
        if is_result and (result.get("failed") or result.get("unreachable") or key not in result):
            reason = printable_line(result.get("msg", "no reason given")).strip()
            silent[hypervisor] = reason if result.get("missing_library") else f"did not answer: {reason}"
        else:
            answered[hypervisor] = result[key] if is_result else result
    return answered, silent


def machines_of(results: t.Any) -> tuple[dict[str, Records], dict[str, str]]:
    """The records that hypervisors answered with, and why others did not answer. Raises InputError."""
    answered, silent = split_answers(results, "machines")
    for hypervisor, records in answered.items():
        if not isinstance(records, (list, tuple)) or not all(
            isinstance(record, Mapping) and "name" in record and "state" in record for record in records
        ):
            raise InputError("this is not a list of machines", where=hypervisor, hint="Give what virt_info returned")
    return answered, silent


def silent_lines(silent: Mapping[str, str]) -> list[str]:
    """A line about each hypervisor that did not answer."""
    return [printable_line(f"{hypervisor} did not answer: {reason}") for hypervisor, reason in silent.items()]


def query_text(machines_by_hypervisor: Mapping[str, Records]) -> str:
    """Every machine of every hypervisor, in the layout that Salt Virt's query had.

    Hypervisors stand in the order of the mapping, machines in that of the lists. Memory is in KiB. A line whose value
    is not known, or that makes no sense now (the port of a machine that does not run), is left out. What
    Salt's query did not say stands after the nics.
    """
    return "\n".join(
        "\n".join(_machine_lines(record, hypervisor))
        for hypervisor, records in machines_by_hypervisor.items()
        for record in records
    )


def capacity_of(host: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The facts of a hypervisor that people look for first, under names that people read."""
    vcpus, memory = host["vcpus"], host["memory"]
    capacity: dict[str, t.Any] = {
        "CPUs": vcpus["total"],
        "CPUs committed": vcpus["committed"],
        "CPUs of running machines": vcpus["running"],
        "Memory": f"{memory['total_mib']} MiB",
        "Memory free": f"{memory['free_mib']} MiB",
        "Memory committed": f"{memory['committed_mib']} MiB",
        "Memory of running machines": f"{memory['running_mib']} MiB",
        "Machines": len(host["machines"]),
    }
    for pool in host["pools"]:
        space = f"{pool['available_mib']} MiB free of {pool['capacity_mib']} MiB" if pool["active"] else "not active"
        capacity[f"Pool {pool['name']}"] = space
    if host.get("maintenance"):
        since, reason = host["maintenance"].get("since"), host["maintenance"].get("reason")
        capacity["In maintenance"] = f"since {since or 'an unknown time'}" + (f" ({reason})" if reason else "")
    ending = [c for c in host.get("certificates", []) if c["days_left"] < CERTIFICATE_WARNING_DAYS]
    if ending:
        capacity["Certificates"] = [f"{c['kind']} ends {c['not_after'][:10]} ({c['path']})" for c in ending]
    if host.get("errors"):
        capacity["Errors"] = list(host["errors"])
    return capacity


def _machine_lines(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    memory_mib = record.get("memory_mib")
    lines = [printable_line(record["name"])]
    lines += _field(1, "CPU", record.get("vcpus"))
    lines += _field(1, "Memory", None if memory_mib is None else memory_mib * KIB_PER_MIB)
    lines += _field(1, "State", ", ".join(filter(None, [record.get("state"), unfinished(record)])))
    for graphics in record.get("graphics") or []:
        port = graphics.get("port") or graphics.get("tls_port")
        lines += _field(1, "Graphics", f"{graphics.get('type')} - {hypervisor}:{port}" if port else None)
    for disk in record.get("disks") or []:
        size = disk.get("size_bytes")
        lines.append(f"  Disk - {printable_line(disk.get('target'))}:")
        lines += _field(2, "Size", None if size is None else format_size(size))
        lines += _field(2, "File", disk.get("source"))
        lines += _field(2, "File Format", disk.get("format"))
    for nic in record.get("nics") or []:
        lines.append(f"  Nic - {printable_line(nic.get('mac'))}:")
        lines += _field(2, "Source", nic.get("source"))
        lines += _field(2, "Type", nic.get("type"))
    lines += _field(1, "Hypervisor", hypervisor)
    for key, name in (("addresses", "Addresses"), ("tags", "Tags")):
        lines += _field(1, name, ", ".join(map(str, record.get(key) or [])) or None)
    image = record.get("image") or {}
    lines += _field(1, "Image", f"{image['name']} ({image.get('volume')})" if image.get("name") else None)
    for disk in record.get("disks") or []:
        lines += _field(1, f"In the guest - {printable_line(disk.get('target'))}", disk.get("guest_path"))
    lines += _field(1, f"Pending until {POWER_CYCLE}", ", ".join(record.get("pending") or []) or None)
    for error in record.get("errors") or []:
        lines += _field(1, "Error", error)
    return lines


def _field(depth: int, name: str, value: t.Any) -> list[str]:
    return [] if value is None else [f"{'  ' * depth}{name}: {printable_line(value)}"]


def names_by_state(records: Iterable[Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """The names of machines by their states, both sorted. What is not finished is that, whatever libvirt calls it."""
    states: dict[str, list[str]] = {}
    for record in records:
        states.setdefault("unfinished" if record.get("building") else record["state"], []).append(record["name"])
    return {state: sorted(states[state]) for state in sorted(states)}


def moves_text(plan: t.Any) -> str:
    """Planned moves as a table: who goes where and why, then who stays and why. Raises InputError."""
    if not isinstance(plan, Mapping) or not {"moves", "stay", "silent"} <= plan.keys():
        raise InputError("the input is not a plan of moves", hint="Give what brine.virt.moves or balance returned")
    rows: list[tuple[t.Any, ...]] = [("MACHINE", "STATE", "MEMORY", "FROM", "TO", "WHY")]
    for kind, word in (("moves", None), ("there", "there"), ("stay", "-")):
        for item in plan.get(kind) or []:
            memory = None if item["memory_mib"] is None else f"{item['memory_mib']} MiB"
            home, target = item.get("source") or item["hypervisor"], word or item["target"]
            rows.append((item["name"], item["state"], memory, home, target, item["why"]))
    lines = _columns(rows) if len(rows) > 1 else ["No machine needs to be moved."]
    lines += [
        f"{host}: {load['before']:g} % of its memory is committed, {load['after']:g} % after the moves"
        for host, load in (plan.get("loads") or {}).items()
    ]
    return "\n".join([*lines, *silent_lines(plan["silent"])])


def _columns(rows: Sequence[Sequence[t.Any]]) -> list[str]:
    """Rows of cells as lines; all columns but the last are as wide as their widest cell."""
    cells = [[printable_line("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def tree_text(value: t.Any, depth: int = 0) -> str:
    """Mappings and lists as indented text, for people."""
    indent = "  " * depth
    if isinstance(value, Mapping):
        lines = []
        for key, item in value.items():
            if isinstance(item, (Mapping, list, tuple)):
                lines.append(f"{indent}{printable_line(key)}:" if item else f"{indent}{printable_line(key)}: none")
                if item:
                    lines.append(tree_text(item, depth + 1))
            else:
                lines.append(f"{indent}{printable_line(key)}: {printable_line(item)}")
        return "\n".join(lines)
    if isinstance(value, (list, tuple)):
        return "\n".join(f"{indent}{printable_line(item)}" for item in value)
    return f"{indent}{printable_line(value)}"


def printable_line(value: t.Any) -> str:
    """Any text as one line of visible characters: what a machine says must not draw on the terminal."""
    return "".join(char if char.isprintable() else " " for char in str(value))
