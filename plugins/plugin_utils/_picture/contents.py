# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page shows, from the facts of all hypervisors. Pure."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._base.errors import InputError
from .._placement.capacity import SHARED_POOLS
from .._placement.hosts import read_hosts, was_asked
from .._placement.options import HostOptions, PlacementOptions
from .._placement.shared_storage import SharedStorage
from .._reports.remarks import remarks_on
from .bars import (
    NOTHING,
    Bar,
    Space,
    memory_allocation,
    memory_amounts,
    memory_bar,
    space_bar,
    spaces_of,
    storage_bar,
    total_of,
    vcpu_allocation,
    vcpu_amounts,
    vcpu_bar,
)
from .facts import certificates_of, is_emulating, release_of, uptime_of
from .machine import Note, ShownMachine, machine_of
from .words import counted, natural, visible

Record = Mapping[str, t.Any]
# With more machines than this, those of each hypervisor are folded away at first.
_OPEN_MACHINES = 80


@dataclass(frozen=True)
class ShownHypervisor:
    """A hypervisor on the page. anchor: its id there. free_mib: for sorting."""

    anchor: str
    name: str
    facts: tuple[str, ...]
    uptime: str | None
    certificates: str
    badges: tuple[Note, ...]
    notes: tuple[Note, ...]
    bars: tuple[Bar, ...]
    machines: tuple[ShownMachine, ...]
    states: str
    memory_percent: int
    vcpu_percent: int
    free_mib: int


@dataclass(frozen=True)
class Remark:
    """A sentence for the top of the page. anchor: where it leads to, empty where it is about several."""

    anchor: str
    name: str
    text: str


@dataclass(frozen=True)
class Picture:
    """The whole page. silent: name and reason of hypervisors without facts."""

    hypervisors: tuple[ShownHypervisor, ...]
    silent: tuple[tuple[str, str], ...]
    totals: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    warnings: tuple[Remark, ...]
    states: tuple[str, ...]
    tags: tuple[str, ...]
    machine_count: int
    has_pending: bool
    folded: bool


def picture_of(fleet: t.Any, settings: t.Any) -> Picture:
    """The page's contents.

    fleet: by hypervisor, its facts as ``host`` and the records of its machines as ``machines``, or the sentence that
    says why it did not answer. settings: the hypervisors' inventory variables, or None. Raises InputError.
    """
    facts, records = _read(fleet)
    reasons = {str(name): answer for name, answer in fleet.items() if isinstance(answer, str)}
    capacities, silent = read_hosts({**facts, **reasons}, settings, PlacementOptions())
    names = sorted(capacities, key=natural)
    shared = SharedStorage(facts[name] for name in names)
    spaces = {name: spaces_of(facts[name]["pools"], records[name], SHARED_POOLS, shared.name_of) for name in names}
    hypervisors = tuple(
        _hypervisor(f"h{number}", name, facts[name], records[name], capacities[name].options, spaces[name])
        for number, name in enumerate(names, 1)
    )
    machines = [machine for hypervisor in hypervisors for machine in hypervisor.machines]
    unanswered = tuple(
        (visible(name), visible(f"did not answer: {why}" if was_asked(why) else why))
        for name, why in sorted(silent.items())
    )
    warnings = [
        Remark(hypervisor.anchor, hypervisor.name, note.text)
        for hypervisor in hypervisors
        for note in (*hypervisor.notes, *_full(hypervisor.bars))
        if note.kind == "warning"
    ]
    warnings += [Remark("", "", visible(remark)) for remark in remarks_on(records)]
    warnings += [
        Remark(hypervisor.anchor, machine.name, f"{machine.condition} on {hypervisor.name}")
        for hypervisor in hypervisors
        for machine in hypervisor.machines
        if machine.style == "bad"
    ]
    return Picture(
        hypervisors=hypervisors,
        silent=unanswered,
        totals=tuple(_totals(len(names), len(unanswered), machines)),
        bars=tuple(_total_bars([(facts[name], capacities[name].options) for name in names], spaces)),
        warnings=tuple(warnings),
        states=tuple(sorted({machine.state for machine in machines})),
        tags=tuple(sorted({tag for machine in machines for tag in machine.tags})),
        machine_count=len(machines),
        has_pending=any(machine.has("pending") for machine in machines),
        folded=len(machines) > _OPEN_MACHINES,
    )


def _read(fleet: t.Any) -> tuple[dict[str, Record], dict[str, Sequence[Record]]]:
    """The facts, and the records, of those that answered. Raises InputError."""
    if not isinstance(fleet, Mapping):
        raise InputError(
            "the input is not a mapping of hypervisors", hint="Give NAME: {host: FACTS, machines: RECORDS} for each"
        )
    facts: dict[str, Record] = {}
    records: dict[str, Sequence[Record]] = {}
    for name, answer in fleet.items():
        if isinstance(answer, str):
            continue
        host, machines = (answer.get("host"), answer.get("machines")) if isinstance(answer, Mapping) else (None, None)
        if not isinstance(host, Mapping):
            raise InputError(
                "this is neither the facts of a hypervisor nor a sentence that says why it did not answer",
                where=str(name),
                hint="Give what virt_host_info returned as host, and what virt_info returned as machines",
            )
        if not isinstance(machines, (list, tuple)) or not all(
            isinstance(record, Mapping) and "name" in record and "state" in record for record in machines
        ):
            raise InputError(
                "this is not a list of machines", where=f"{name}.machines", hint="Give what virt_info returned"
            )
        facts[str(name)] = host
        records[str(name)] = sorted(machines, key=lambda record: natural(str(record["name"])))
    return facts, records


def _hypervisor(
    anchor: str, name: str, host: Record, records: Sequence[Record], options: HostOptions, spaces: Sequence[Space]
) -> ShownHypervisor:
    machines = tuple(machine_of(record) for record in records)
    certificates, ending = certificates_of(host)
    memory, vcpus = memory_bar(host, options), vcpu_bar(host, options)
    amounts = memory_amounts(host, options)
    storage = [space_bar(space) for space in spaces]
    maintenance = host.get("maintenance")
    warnings = []
    if maintenance:
        since = maintenance.get("since") or "an unknown time"
        reason = f": {maintenance['reason']}" if maintenance.get("reason") else ""
        warnings.append(f"In maintenance since {since}{reason}")
    warnings += ending
    inactive = [str(pool["name"]) for pool in host["pools"] if not pool.get("active")]
    if inactive:
        warnings.append(f"Not active: {counted(len(inactive), 'pool')} {', '.join(inactive)}")
    warnings += host.get("errors") or []
    notes = [Note("warning", visible(text)) for text in warnings]
    arriving = ", ".join(map(str, host.get("arriving") or []))
    if arriving:
        notes.append(Note("move", visible(f"Being moved here: {arriving}")))
    texts = (
        release_of(host),
        f"libvirt {host['libvirt_version']}" if host.get("libvirt_version") else None,
        f"QEMU {host['qemu_version']}" if host.get("qemu_version") else None,
        host.get("arch"),
        "no KVM: machines are emulated" if is_emulating(host) else None,
        f"labels {', '.join(options.labels)}" if options.labels else None,
    )
    return ShownHypervisor(
        anchor=anchor,
        name=visible(name),
        facts=tuple(visible(text) for text in texts if text),
        uptime=uptime_of(host),
        certificates=visible(certificates),
        badges=(Note("warning", "In maintenance"),) if maintenance else (),
        notes=tuple(notes),
        bars=(memory, vcpus, *storage),
        machines=machines,
        states=", ".join(_counted_states(machines)),
        memory_percent=memory.percent,
        vcpu_percent=vcpus.percent,
        free_mib=int(amounts.total - amounts.committed),
    )


def _full(bars: t.Iterable[Bar]) -> t.Iterator[Note]:
    """What the bars of a hypervisor show of too little space, for the list of warnings."""
    for shown in bars:
        if shown.level == "over":
            yield Note("warning", f"{shown.label}: {shown.short} committed")
        elif shown.is_storage and shown.level == "high":
            yield Note("warning", f"Pool {shown.label}: {shown.short} used")


def _counted_states(machines: t.Iterable[ShownMachine]) -> list[str]:
    """``18 running`` and so on, the most frequent first."""
    counts = Counter(machine.state for machine in machines)
    return [f"{number} {state}" for state, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]


def _totals(answered: int, silent: int, machines: Sequence[ShownMachine]) -> t.Iterator[tuple[str, str]]:
    yield "Hypervisors", str(answered + silent)
    if silent:
        yield "Without answer", str(silent)
    yield "Machines", str(len(machines))
    yield "Running", str(sum(machine.style == "on" for machine in machines))
    yield "Pending changes", str(sum(machine.has("pending") for machine in machines))
    # During a move both hypervisors may have it.
    yield "Being moved", str(len({machine.name for machine in machines if machine.has("move")}))
    yield "With warnings", str(sum(machine.has("warning") for machine in machines))


def _total_bars(hosts: Sequence[tuple[Record, HostOptions]], spaces: Mapping[str, Sequence[Space]]) -> list[Bar]:
    """The bars of the whole cloud. Storage that several hypervisors share counts once."""
    if not hosts:
        return []
    memory = sum((memory_amounts(*host) for host in hosts), NOTHING)
    vcpus = sum((vcpu_amounts(*host) for host in hosts), NOTHING)
    storage = total_of(space for of_host in spaces.values() for space in of_host)
    return [memory_allocation(memory), vcpu_allocation(vcpus), storage_bar("Storage", storage)]
