# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All hypervisors with their capacity and the machines that live on them: what moves are planned from."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...module_utils._base.errors import InputError, one_of_these
from .capacity import HostCapacity
from .hosts import is_left_over, is_one_hypervisor, read_hosts, require_listed_once, was_asked
from .need import Need, need_of_record, ties_of
from .options import PlacementOptions

Record = Mapping[str, t.Any]


@dataclass(frozen=True)
class PlacedMachine:
    """A machine where it lives. need None: it can be moved nowhere, for these reasons."""

    name: str
    host: str
    record: Record
    need: Need | None
    ties: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether it holds memory and CPUs now."""
        return self.record.get("state") != "shutoff"


@dataclass(frozen=True)
class Fleet:
    """capacities: the hypervisors that answered, by name; silent: the others with the reason.

    hosts_by_own_name: those that answered, by the name that each has for itself. own_names: these names by hypervisor.
    """

    capacities: Mapping[str, HostCapacity]
    silent: Mapping[str, str]
    machines: Mapping[str, Sequence[PlacedMachine]]
    hosts_by_own_name: Mapping[str, str]
    own_names: Mapping[str, str | None]

    def unfinished(self) -> dict[str, list[dict[str, str]]]:
        """By the hypervisor that they came from, machines that have arrived and left something behind there."""
        found: dict[str, list[dict[str, str]]] = {}
        for homes in self.machines.values():
            for placed in homes:
                move = placed.record.get("moving") or {}
                source = self.hosts_by_own_name.get(move.get("source", ""))
                if source is not None and source != placed.host and len(homes) == 1:
                    found.setdefault(source, []).append({"name": placed.name, "target": placed.host})
        return found

    def keeping(self, refused: Mapping[str, str]) -> Fleet:
        """The same with machines that can be moved nowhere. refused: why, by their names."""
        machines = {
            name: [replace(placed, need=None, ties=(refused[name],)) for placed in homes] if name in refused else homes
            for name, homes in self.machines.items()
        }
        return replace(self, machines=machines)

    def on(self, host: str) -> list[PlacedMachine]:
        """The machines of one hypervisor. Raises InputError unless it is one that answered."""
        self.check_host(host, "from")
        return [placed for homes in self.machines.values() for placed in homes if placed.host == host]

    def is_listed_twice(self, homes: Sequence[PlacedMachine]) -> bool:
        """Whether these, where one machine is, look like one hypervisor under several names of the inventory."""
        return is_one_hypervisor(
            [self.own_names.get(placed.host) for placed in homes], [placed.record.get("uuid") for placed in homes]
        )

    def check_host(self, host: t.Any, where: str) -> None:
        """Raise InputError unless this is a hypervisor that answered."""
        if not isinstance(host, str):
            raise InputError(f"{host!r} is not the name of one hypervisor", where=where)
        if host in self.silent:
            why = self.silent[host]
            raise InputError(f"{host} did not answer: {why}" if was_asked(why) else f"{host}: {why}", where=where)
        if host not in self.capacities:
            raise InputError(
                f"unknown hypervisor {host!r}", where=where, hint=one_of_these(host, [*self.capacities, *self.silent])
            )


def read_fleet(hosts: t.Any, settings: t.Any, options: PlacementOptions) -> Fleet:
    """The fleet from what the modules returned.

    hosts: by hypervisor, its facts as ``host`` and the records of its machines as ``machines``, or the sentence that
    says why it did not answer. settings: their inventory variables by hypervisor, or None. Raises InputError;
    ConflictError for one that the inventory has twice.
    """
    facts, records = hosts, {}
    if isinstance(hosts, Mapping):
        facts = {}
        for host, answer in hosts.items():
            if isinstance(answer, Mapping):
                facts[host] = answer.get("host", answer)
                records[str(host)] = _records(answer.get("machines"), str(host))
            else:
                facts[host] = answer
    require_listed_once(facts)
    capacities, silent = read_hosts(facts, settings, options)
    machines: dict[str, list[PlacedMachine]] = {}
    for host, capacity in capacities.items():
        for record in sorted(records[host], key=lambda item: item["name"]):
            ties = tuple(ties_of(record))
            need = None if ties else need_of_record(record, capacity.images, capacity.storage_of)
            need = need and _at_next_start(need, capacity.machines.get(record["name"]))
            if need is not None and record["name"] not in capacity.machines:
                # It has come since the facts were asked for.
                capacity.take(need)
            machines.setdefault(record["name"], []).append(PlacedMachine(record["name"], host, record, need, ties))
    own_names = {str(facts[host].get("name")): host for host in capacities}
    for name, homes in machines.items():
        copies = {placed.host: placed.record for placed in homes}
        left_over = [placed for placed in homes if is_left_over(placed.host, placed.record, copies, own_names)]
        machines[name] = [placed for placed in homes if placed not in left_over]
        for placed in left_over:
            if placed.need is not None:
                capacities[placed.host].release(placed.need)
    return Fleet(capacities, silent, machines, own_names, {host: facts[host].get("name") for host in capacities})


def _at_next_start(need: Need, counted: Record | None) -> Need:
    """The need with what the machine gets when it is powered off and on, which counts where it goes.

    counted: what it takes of the hypervisor that it is on, by the facts of that.
    """
    more = {key: value for key in ("memory_mib", "vcpus") if (value := (counted or {}).get(key))}
    return replace(need, **{key: max(value, getattr(need, key)) for key, value in more.items()})


def _records(machines: t.Any, host: str) -> Sequence[Record]:
    if not isinstance(machines, (list, tuple)) or not all(
        isinstance(record, Mapping) and "name" in record for record in machines
    ):
        raise InputError(
            "the machines of this hypervisor are missing",
            where=f"hosts[{host!r}].machines",
            hint="Give what virt_info returned as machines",
        )
    return machines
