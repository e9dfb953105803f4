# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is unusual about machines: unfinished, on their way, on several hypervisors, of one address. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from .._placement.hosts import LISTED_TWICE

_BUILT_WHILE = frozenset({"shutoff", "nostate"})

Records = Mapping[str, Sequence[Mapping[str, t.Any]]]


def unfinished(record: Mapping[str, t.Any]) -> str | None:
    """The words about a machine whose making is not finished, with what to do; None for any other."""
    if not record.get("building"):
        return None
    if record["state"] in _BUILT_WHILE:
        return "unfinished: a run is creating it, or was interrupted; run provision again to finish it"
    return (
        f"unfinished: a run was interrupted, but it is {record['state']} now; run provision again to see how to keep it"
    )


def on_its_way(record: Mapping[str, t.Any]) -> str | None:
    """The words about a machine that is being moved, or whose move was interrupted; None for any other.

    The hypervisors are called as they call themselves, which may not be by their names in the inventory.
    """
    move = record.get("moving")
    if not move:
        return None
    source, target = (move.get("source"), move.get("target")) if isinstance(move, Mapping) else (None, None)
    if source and source == target:
        return "having its disks moved"
    return f"being moved from {source or '?'} to {target or '?'}"


def remarks_on(machines_by_hypervisor: Records) -> list[str]:
    """A sentence about each unfinished machine, each that several hypervisors have, and each address of several ones.

    A name that is only claimed counts as unfinished, not as a second machine. Hypervisors that have the very same
    machines are named first: a machine that really runs on two of them has to be seen nevertheless.
    """
    remarks = [
        f"{' and '.join(names)} have the same machines, and {LISTED_TWICE}" for names in _twins(machines_by_hypervisor)
    ]
    homes: dict[str, list[str]] = {}
    moving = set()
    for hypervisor, records in machines_by_hypervisor.items():
        for record in records:
            words = unfinished(record)
            if words:
                remarks.append(f"{record['name']} on {hypervisor} is {words}")
            if not record.get("claimed"):
                homes.setdefault(record["name"], []).append(hypervisor)
            if record.get("moving"):
                moving.add(record["name"])
    for name, where in homes.items():
        if len(where) > 1:
            what = (
                "it is being moved, or a move was interrupted; run migrate again to finish it"
                if name in moving
                else f"the live inventory lists them as {', '.join(f'{name}_{one}' for one in where)}"
            )
            remarks.append(f"There is a machine {name} on each of {', '.join(where)}: {what}")
    return remarks + _shared_addresses(machines_by_hypervisor)


def _shared_addresses(machines_by_hypervisor: Records) -> list[str]:
    """Addresses by which several running machines are to be reached on one bridge, or on one network of a hypervisor.

    Networks of libvirt are each hypervisor's own, and may well have the same addresses on all of them. What is plugged
    into nothing that has a name has nobody beside it: QEMU gives each machine on a network of its own 10.0.2.15.
    """
    holders: dict[tuple[str, str, str], dict[str, str]] = {}
    for hypervisor, records in machines_by_hypervisor.items():
        for record in records:
            address = record.get("address") if record["state"] == "running" else None
            for nic in record.get("nics") or ():
                there = [found["address"] for found in nic.get("addresses") or () if nic["source"]]
                if address and address in there:
                    where = "" if nic["type"] == "bridge" else hypervisor
                    # One name on several hypervisors has its own remark.
                    holders.setdefault((address, where, str(nic["source"])), {})[record["name"]] = hypervisor
    return [
        f"{' and '.join(f'{name} on {hypervisor}' for name, hypervisor in found.items())} have the same address "
        f"{address} on {source}: unless they are in different VLANs, give all but one of them another"
        for (address, _where, source), found in holders.items()
        if len(found) > 1
    ]


def _twins(machines_by_hypervisor: Records) -> list[list[str]]:
    """Hypervisors that all have the same machines, by their names and UUIDs, and none of them on its way.

    One alone proves nothing: a move may have left it behind.
    """
    same: dict[frozenset[tuple[str, str]], list[str]] = {}
    for hypervisor, records in machines_by_hypervisor.items():
        if len(records) > 1 and all(record.get("uuid") and not record.get("moving") for record in records):
            same.setdefault(frozenset((record["name"], record["uuid"]) for record in records), []).append(hypervisor)
    return [names for names in same.values() if len(names) > 1]
