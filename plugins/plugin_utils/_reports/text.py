# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of queries and of plans of moves. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from datetime import timedelta

from ...module_utils._base.errors import InputError
from ...module_utils._model.spec.fields.units import format_size
from .._inventory.machine_hosts import listed_host, listed_hosts
from .._placement.hosts import was_asked
from .access import access_lines
from .remarks import on_its_way, unfinished
from .table import Column, printable_line, table_lines

KIB_PER_MIB = 1024
# When a running machine gets what only its definition has.
POWER_CYCLE = "power off and on (a reboot in the guest is not enough)"

_MOVES = tuple(map(Column, ("MACHINE", "STATE", "MEMORY", "FROM", "TO", "WHY")))

Records = Sequence[Mapping[str, t.Any]]

# What Ansible says of a task that its keyword ``timeout`` has ended.
_TIMED_OUT = re.compile(r"Timed out after (\d+) second\(s\)\.?")
# What newer versions of it put before an error.
_FAILED = re.compile(r"^(?:(?:Task|Action|Module) failed: )+")
# And where nobody has given a password for sudo.
_SUDO_PASSWORD = "Missing sudo password"


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
            reason = _FAILED.sub("", printable_line(result.get("msg", "no reason given")).strip())
            late = _TIMED_OUT.fullmatch(reason)
            if late:
                silent[hypervisor] = f"did not answer within {late[1]} s"
            elif reason.endswith(_SUDO_PASSWORD):
                silent[hypervisor] = "sudo asks for a password there: add --ask-become-pass (-K), or log in as root"
            else:
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


def query_text(machines_by_hypervisor: Mapping[str, Records], settings: t.Any = None) -> str:
    """Every machine of every hypervisor, in the layout that Salt Virt's query had.

    settings: the inventory variables of the hypervisors, for how to log in there; and those of machines that the live
    inventory lists, for how to log in to these.

    Hypervisors stand in the order of the mapping, machines in that of the lists. Memory is in KiB. A line whose value
    is not known, or that makes no sense now (the port of a machine that does not run), is left out. What
    Salt's query did not say stands after the nics. Where there is no machine at all, each hypervisor has «none».
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(f"{settings!r} is not a mapping of hypervisors", where="settings", hint="Give hostvars")
    # Ansible's own hostvars have no get() that knows who is not there.
    variables = {host: settings[host] for host in machines_by_hypervisor if settings is not None and host in settings}
    if not any(machines_by_hypervisor.values()):
        return tree_text(machines_by_hypervisor)
    listed = listed_hosts(settings) if settings is not None else {}

    def own(record: Mapping[str, t.Any], hypervisor: str) -> Mapping[str, t.Any]:
        host = listed_host(listed, str(record.get("uuid")), hypervisor)
        return {} if host is None or settings is None else settings[host]

    return "\n".join(
        "\n".join(_machine_lines(record, hypervisor, variables.get(hypervisor, {}), own(record, hypervisor)))
        for hypervisor, records in machines_by_hypervisor.items()
        for record in records
    )


def _machine_lines(
    record: Mapping[str, t.Any], hypervisor: str, variables: Mapping[str, t.Any], own: Mapping[str, t.Any]
) -> list[str]:
    memory_mib = record.get("memory_mib")
    lines = [printable_line(record["name"])]
    lines += _field(1, "CPU", record.get("vcpus"))
    lines += _field(1, "Memory", None if memory_mib is None else memory_mib * KIB_PER_MIB)
    state = " ".join(filter(None, [record.get("state"), record.get("paused_by")]))
    saved = "with its memory saved" if record.get("saved") else None
    lines += _field(1, "State", ", ".join(filter(None, [state, saved, on_its_way(record), unfinished(record)])))
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
    lines += _field(1, "Start order", _start_order(record))
    image = record.get("image") or {}
    lines += _field(1, "Image", f"{image['name']} ({image.get('volume')})" if image.get("name") else None)
    if record.get("firmware") == "efi":
        lines += _field(1, "Firmware", "UEFI with secure boot" if record.get("secure_boot") else "UEFI")
    tpm = record.get("tpm")
    lines += _field(1, "TPM", " ".join(filter(None, [tpm.get("model"), tpm.get("version")])) or "yes" if tpm else None)
    system = record.get("os") or {}
    lines += _field(1, "Operating system", system.get("name") or system.get("id"))
    seconds = record.get("uptime_seconds")
    lines += _field(1, "Up", None if seconds is None else str(timedelta(seconds=seconds)))
    for disk in record.get("disks") or []:
        target = printable_line(disk.get("target"))
        lines += _field(1, f"In the guest - {target}", disk.get("guest_path"))
        chain = [str(layer.get("source")) for layer in disk.get("backing_chain") or ()]
        lines += _field(1, f"Backed by - {target}", ", ".join(chain) or None)
    lines += _field(1, "Snapshots", ", ".join(map(_snapshot, record.get("snapshots") or ())) or None)
    for job in record.get("jobs") or ():
        lines += _field(1, "Job", _job(job))
    for title, command in access_lines(record, hypervisor, variables, own):
        lines += _field(1, title, command)
    lines += _field(1, f"Pending until {POWER_CYCLE}", ", ".join(record.get("pending") or []) or None)
    for error in record.get("errors") or []:
        lines += _field(1, "Error", error)
    return lines


def _snapshot(snapshot: Mapping[str, t.Any]) -> str:
    return f"{snapshot['name']} (current)" if snapshot.get("current") else str(snapshot["name"])


def _job(job: Mapping[str, t.Any]) -> str:
    percent, seconds = job.get("percent"), job.get("elapsed_seconds")
    where = f"{job['type']} of {job['disk']}" if job.get("disk") else str(job["type"])
    known = (None if percent is None else f"{percent}%", None if seconds is None else f"for {seconds} s")
    return ", ".join(filter(None, [where, *known]))


def _start_order(record: Mapping[str, t.Any]) -> str | None:
    """Nobody comes after those without an order, so that their delay does not count."""
    order, delay = record.get("order"), record.get("delay_seconds")
    return None if order is None else f"{order}, {delay} s before the next ones" if delay else str(order)


def _field(depth: int, name: str, value: t.Any) -> list[str]:
    return [] if value is None else [f"{'  ' * depth}{name}: {printable_line(value)}"]


def moves_text(plan: t.Any) -> str:
    """Planned moves as a table: who goes where and why, then who stays and why. Raises InputError."""
    if not isinstance(plan, Mapping) or not {"moves", "stay", "silent"} <= plan.keys():
        raise InputError("the input is not a plan of moves", hint="Give what brine.virt.moves or balance returned")
    rows: list[tuple[t.Any, ...]] = []
    for kind, word in (("moves", None), ("there", "-"), ("stay", "-")):
        for item in plan.get(kind) or []:
            memory = None if item["memory_mib"] is None else f"{item['memory_mib']} MiB"
            home, target = item.get("source") or item["hypervisor"], word or item["target"]
            rows.append((item["name"], item["state"], memory, home, target, item["why"]))
    lines = table_lines(_MOVES, rows)
    if plan.get("reason"):
        lines.append(printable_line(f"{plan['reason']}."))
    elif not rows:
        lines.append("No machine needs to be moved.")
    lines += [
        f"{host}: {load['before']:g}% of its memory is committed, {load['after']:g}% after the moves"
        for host, load in (plan.get("loads") or {}).items()
    ]
    lines += [
        printable_line(f"{host} did not answer: {why}" if was_asked(why) else f"{host}: {why}")
        for host, why in plan["silent"].items()
    ]
    return "\n".join(lines)


def _one_line(item: t.Any) -> t.Any:
    """An item of a list, without the braces and quotes of a mapping, such as a range from start to end."""
    if isinstance(item, Mapping):
        return ", ".join(f"{key}: {_one_line(value)}" for key, value in item.items())
    return ", ".join(str(_one_line(one)) for one in item) if isinstance(item, (list, tuple)) else item


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
        return "\n".join(f"{indent}{printable_line(_one_line(item))}" for item in value)
    return f"{indent}{printable_line(value)}"
