# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors as data, and as a table with a row for each. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

from ...module_utils._base.errors import InputError
from ...module_utils._base.xml import MIB
from ...module_utils._model.spec.fields.units import format_size
from .._placement.hosts import is_whole, listed_twice, read_hosts
from .._placement.options import PlacementOptions
from .machines import NOBODY_ANSWERED, UNKNOWN
from .table import Column, printable_line, table_lines
from .text import split_answers

# A certificate that is kept up to date does not come as near to its end as this.
CERTIFICATE_WARNING_DAYS = 29
# Of a pool it is enough to know 73G of 73.6G: there are several in a cell.
_TENTHS = re.compile(r"(?<=\d\d)\.\d")
_COLUMNS = (
    Column("NAME"),
    Column("RELEASE"),
    Column("LIBVIRT"),
    Column("KVM"),
    Column("MACHINES", right=True),
    Column("CPU", right=True),
    Column("FREE", right=True),
    Column("MEMORY", right=True),
    Column("FREE", right=True),
    Column("POOLS (FREE)", least=16),
    Column("BRIDGES", least=8),
    Column("CERTS", right=True),
    Column("MAINT"),
)


def hypervisors_data(results: t.Any, settings: t.Any = None) -> dict[str, t.Any]:
    """The facts of all hypervisors, each with what is free for new machines (``placement``).

    results: registered results of virt_host_info by the hypervisors' names. settings: their inventory variables, which
    say how much of a hypervisor may be allocated. Raises InputError.
    """
    hosts, silent = split_answers(results, "host")
    for hypervisor, host in hosts.items():
        if not is_whole(host):
            raise InputError(
                "these are not the facts of a hypervisor",
                where=hypervisor,
                hint="Give what virt_host_info returned, with machines and pools in its gather_subset",
            )
    capacities, _none = read_hosts(hosts, settings, PlacementOptions()) if hosts else ({}, {})
    return {
        "hypervisors": {
            hypervisor: {
                **host,
                "placement": {
                    "free_mib": max(0, capacities[hypervisor].memory_mib),
                    "free_vcpus": max(0, capacities[hypervisor].free_vcpus),
                },
            }
            for hypervisor, host in hosts.items()
        },
        "silent": silent,
        "failures": [] if hosts else [NOBODY_ANSWERED],
    }


def hypervisors_table(data: t.Any) -> str:
    """A row for each hypervisor; after them its maintenance, certificates that end soon, errors, and who is silent.

    data: what hypervisors_data gave. Raises InputError.
    """
    if not isinstance(data, Mapping) or not {"hypervisors", "silent"} <= data.keys():
        raise InputError(
            "the input is not a list of hypervisors", hint="Give what brine.virt.hypervisors_data returned"
        )
    hosts = data["hypervisors"]
    lines = table_lines(_COLUMNS, [_row(name, host) for name, host in hosts.items()])
    whole: list[str] = []
    # Where machines have room, and what they can be attached to, is what the table is read for, so that what was cut
    # there stands below it in full.
    for (name, host), line in zip(hosts.items(), lines[1:], strict=True):
        cells = {"pools": printable_line(_pools(host)), "bridges": printable_line(_bridges(host))}
        cut = [f"{word} {cell}" for word, cell in cells.items() if cell not in line]
        whole += [f"{name}: {'; '.join(cut)}"] if cut else []
    lines += whole
    lines += [f"{name}{words}" for name, host in hosts.items() for words in _remarks(host)]
    lines += listed_twice(hosts)
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in data["silent"].items()]
    return "\n".join(map(printable_line, lines))


def _row(name: str, host: Mapping[str, t.Any]) -> list[t.Any]:
    vcpus, memory, placement = host["vcpus"], host["memory"], host["placement"]
    release = host.get("release") or {}
    days = [one["days_left"] for one in host.get("certificates") or ()]
    return [
        name,
        " ".join(filter(None, [release.get("id"), release.get("version")])),
        host.get("libvirt_version"),
        UNKNOWN if host.get("kvm") is None else "yes" if host["kvm"] else "no",
        len(host.get("machines") or ()),
        f"{vcpus['committed']}/{vcpus['total']}",
        placement["free_vcpus"],
        f"{_size(memory['committed_mib'])}/{_size(memory['total_mib'])}",
        _size(placement["free_mib"]),
        _pools(host),
        _bridges(host),
        min(days) if days else None,
        "yes" if host.get("maintenance") else None,
    ]


def _pools(host: Mapping[str, t.Any]) -> str:
    return ", ".join(map(_pool, host["pools"]))


def _bridges(host: Mapping[str, t.Any]) -> str:
    bridges = host.get("bridges")
    return UNKNOWN if bridges is None else ", ".join(bridges)


def _pool(pool: Mapping[str, t.Any]) -> str:
    if not pool["active"]:
        return f"{pool['name']} not active"
    free_mib = pool.get("available_mib")
    return f"{pool['name']} {UNKNOWN if free_mib is None else _TENTHS.sub('', _size(free_mib))}"


def _size(size_mib: int) -> str:
    """As people read it; a whole number without its decimal, to save room."""
    return format_size(size_mib * MIB).replace(".0", "")


def _remarks(host: Mapping[str, t.Any]) -> Iterator[str]:
    """What follows the hypervisor's name in a line of its own."""
    maintenance = host.get("maintenance")
    if maintenance:
        since, reason = maintenance.get("since"), maintenance.get("reason")
        yield f" is in maintenance since {since or 'an unknown time'}" + (f" ({reason})" if reason else "")
    for one in host.get("certificates") or ():
        if one["days_left"] < CERTIFICATE_WARNING_DAYS:
            yield f": certificate {one['kind']} ends {one['not_after'][:10]} ({one['path']})"
    for error in host.get("errors") or ():
        yield f": {error}"
