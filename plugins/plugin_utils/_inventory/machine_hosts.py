# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host of the inventory each machine of a run is, or becomes. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...module_utils._model.reserved_names import reserved_meaning
from .host_vars import MACHINES_GROUP, counting_address

# Hosts of these groups that have no machine's UUID are the user's, or an earlier task's, own mention of a machine.
_MENTIONED = (MACHINES_GROUP, "virt_provisioned")


def machine_hosts(
    records: Mapping[str, Sequence[Mapping[str, t.Any]]],
    assignments: Iterable[Mapping[str, t.Any]],
    hosts: Mapping[str, Mapping[str, t.Any]],
    groups: Mapping[str, Collection[str]],
) -> list[dict[str, t.Any]]:
    """The machines of a run, each with the name of its host; see machine_hosts.yml for what comes in and out.

    The live inventory may list a machine as ``<name>_<hypervisor>``, and a host that is merely called like the machine
    is another one: a machine is known by its UUID.
    """
    listed: dict[str, dict[str, str]] | None = None
    mentioned = {name for group in _MENTIONED for name in groups.get(group) or ()}
    found = []
    for assignment in assignments:
        name, hypervisor = assignment["name"], assignment["hypervisor"]
        for record in records.get(hypervisor) or ():
            if record["name"] != name:
                continue
            host = _called_like(record, hypervisor, hosts)
            if host is None:
                # To look at every host takes long where there are thousands.
                listed = listed_hosts(hosts) if listed is None else listed
                host = listed_host(listed, record["uuid"], hypervisor)
            found.append(
                {
                    "host": host or _new_host(record, hypervisor, hosts, groups, mentioned),
                    "hypervisor": hypervisor,
                    "listed": host is not None,
                    "machine": record,
                }
            )
    return found


def listed_hosts(hosts: Mapping[str, Mapping[str, t.Any]]) -> dict[str, dict[str, str]]:
    """The names of hosts that are machines of the live inventory, by UUID and hypervisor."""
    listed: dict[str, dict[str, str]] = {}
    for host, variables in hosts.items():
        if "virt_uuid" in variables:
            listed.setdefault(str(variables["virt_uuid"]), {})[str(variables.get("virt_hypervisor"))] = host
    return listed


def listed_host(listed: Mapping[str, Mapping[str, str]], uuid: str, hypervisor: str) -> str | None:
    """The name of a machine's host of those of listed_hosts(), if need be as it was on another hypervisor; or None."""
    known = listed.get(uuid) or {}
    return known.get(hypervisor) or next(iter(known.values()), None)


def _called_like(record: Mapping[str, t.Any], hypervisor: str, hosts: Mapping[str, Mapping[str, t.Any]]) -> str | None:
    """The machine's host, if it has one of the two names that the live inventory gives by itself."""
    for name in (record["name"], f"{record['name']}_{hypervisor}"):
        if name in hosts:
            variables = hosts[name]
            own = [str(variables[word]) for word in ("virt_uuid", "virt_hypervisor") if word in variables]
            if own == [str(record["uuid"]), hypervisor]:
                return str(name)
    return None


def _new_host(
    record: Mapping[str, t.Any],
    hypervisor: str,
    hosts: Mapping[str, Mapping[str, t.Any]],
    groups: Mapping[str, Collection[str]],
    mentioned: Collection[str],
) -> str:
    """A name for a machine that the inventory does not list: its own, unless that means something else."""
    name = record["name"]
    if reserved_meaning(name) is None and name not in groups:
        is_mention = name in mentioned and name in hosts and "virt_uuid" not in hosts[name]
        if name not in hosts or is_mention or _is_at(hosts[name], record):
            return str(name)
    qualified = f"{name}_{hypervisor}"
    return qualified if qualified not in hosts and qualified not in groups else f"{qualified}_{record['uuid']}"


def _is_at(variables: Mapping[str, t.Any], record: Mapping[str, t.Any]) -> bool:
    """Whether a host that the user has written down is the machine, by its address."""
    if "virt_uuid" in variables or "ansible_host" not in variables:
        return False
    try:
        address = variables["ansible_host"]
    except Exception:  # a template that cannot be rendered, which is for who uses it to complain about
        return False
    own = counting_address(record)
    return own is not None and bool(address == own)
