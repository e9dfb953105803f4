# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hypervisor is still what it was when it was chosen for machines: checked again under its lock."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, inside
from ..._base.xml import MIB
from ..._host.connection import VirConnect, is_local
from ..._host.facts.maintenance import Maintenance, read_maintenance
from ..._host.machines.domains import Domain, group_members
from ..._host.storage.pools import Pools
from ..._model.spec.fields import validators
from .claims import Claim, new_claims

_KIB_PER_MIB = 1024


@dataclass(frozen=True)
class PlacementDecision:
    """What a hypervisor was chosen by, for all new machines of a run together.

    memory_mib, vcpus: how much of each may be allocated to machines in all, None for no limit; pools_mib: the free
    capacity that the new machines need in each pool. shared_pools_mib: for pools that other hypervisors share, what the
    run needs there for all of them. machines: those of the run that were there, by name the UUID, None where that is
    not known. leaving: machines that are removed before others are created. new: names that no machine had, and that
    the run is to create or nobody. apart: by the names of new machines, the anti-affinity groups of which nobody else
    may be here.
    """

    memory_mib: int | None = None
    vcpus: int | None = None
    pools_mib: Mapping[str, int] = field(default_factory=dict)
    shared_pools_mib: Mapping[str, int] = field(default_factory=dict)
    machines: Mapping[str, str | None] = field(default_factory=dict)
    leaving: Collection[str] = ()
    new: Collection[str] = ()
    apart: Mapping[str, Sequence[str]] = field(default_factory=dict)


_COUNT = validators.whole_number(0, 2**53)
_UUID = validators.pattern(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a UUID", "4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55"
)


def _pools_mib(value: t.Any, where: str) -> dict[str, int]:
    return {pool: _COUNT(size, inside(where, pool)) for pool, size in validators.any_mapping(value, where).items()}


def _machines(value: t.Any, where: str) -> dict[str, str | None]:
    found = validators.any_mapping(value, where).items()
    return {name: None if uuid is None else _UUID(uuid, inside(where, name)) for name, uuid in found}


def _groups(value: t.Any, where: str) -> dict[str, Sequence[str]]:
    groups = validators.list_of(validators.text)
    return {name: groups(own, inside(where, name)) for name, own in validators.any_mapping(value, where).items()}


def read_decision(value: t.Any, where: str) -> PlacementDecision:
    """The decision as the filter place gives it. Raises InputError with the place."""
    known: dict[str, validators.Rule] = {
        "memory_mib": _COUNT,
        "vcpus": _COUNT,
        "pools_mib": _pools_mib,
        "shared_pools_mib": _pools_mib,
        "machines": _machines,
        "leaving": validators.list_of(validators.text),
        "new": validators.list_of(validators.text),
        "apart": _groups,
    }
    return PlacementDecision(**validators.read_mapping(value, where, known))


def machines_gone(decision: PlacementDecision, domains: Mapping[str, Domain]) -> dict[str, str]:
    """What has become of the machines that were there when the run looked and are not any more, in words, by name.

    Nobody has claimed their names, so that a machine that has been moved must not be made again here.
    """
    gone = {}
    for name, uuid in decision.machines.items():
        domain = domains.get(name)
        now = None if domain is None else domain.handle.UUIDString()
        if now is None:
            gone[name] = "it was on this hypervisor when this run checked, and has since been moved or undefined"
        elif uuid not in (None, now):
            gone[name] = f"since this run checked, another machine has this name here: its UUID is {now}, it was {uuid}"
    return gone


def check_hypervisor(
    new: Sequence[Claim],
    decision: PlacementDecision,
    conn: VirConnect,
    domains: Mapping[str, Domain],
    pools: Pools,
    *,
    ahead: bool,
    growth: Sequence[Claim] = (),
) -> None:
    """Raise ConflictError when a hypervisor is not any more what it was when it was chosen for these new machines.

    new: those among them, too, whose names are claimed already; domains: all that are defined; ahead, growth: see
    check_decision.
    """
    names = [claim.name for claim in new]
    check_maintenance(names, read_maintenance() if is_local(conn.getURI()) else None)
    check_decision(new_claims(new, domains), decision, domains, pools, names, ahead=ahead, growth=growth)


def check_maintenance(names: Sequence[str], maintenance: Maintenance | None) -> None:
    """Raise ConflictError when new machines would come onto a hypervisor in maintenance."""
    if names and maintenance is not None:
        since = f" since {maintenance.since}" if maintenance.since else ""
        reason = f" ({maintenance.reason})" if maintenance.reason else ""
        raise ConflictError(
            f"this hypervisor is in maintenance{since}{reason} and gets no new machines: {', '.join(names)}",
            hint="Run it again to have another one chosen, or end it with brine.virt.maintenance -e end=NAME",
        )


def check_decision(
    new: Sequence[Claim],
    decision: PlacementDecision,
    domains: Mapping[str, Domain],
    pools: Pools,
    names: Sequence[str],
    *,
    ahead: bool,
    growth: Sequence[Claim] = (),
) -> None:
    """Raise ConflictError when what a hypervisor was chosen by does not hold any more.

    new: the machines that are not defined yet; names: those and the ones that are only claimed; domains: all that are
    defined. ahead: the run has not created machines on any hypervisor yet. A pool that others share needs space for
    what the run creates on all of them then, and later only for what it creates here: how much of the rest is there
    already, and taken from what is free, cannot be seen from here. growth: of machines that are there already, what
    they are to get more than they have.
    """
    changed = []
    memory_mib = sum(map(_memory_mib, domains.values()))
    vcpus = sum(map(_vcpus, domains.values()))
    for what, limit, taken, needed in (
        ("MiB of memory", decision.memory_mib, memory_mib, sum(claim.memory_mib for claim in (*new, *growth))),
        ("vCPUs", decision.vcpus, vcpus, sum(claim.vcpus for claim in (*new, *growth))),
    ):
        if needed and limit is not None and needed > limit - taken:
            changed.append(f"{needed} {what} are needed, {max(0, limit - taken)} are free")
    for name, here_mib in decision.pools_mib.items() if names else ():
        free_mib = pools.get(name).available_bytes // MIB
        needed_mib = max(here_mib, decision.shared_pools_mib.get(name, 0)) if ahead else here_mib
        if needed_mib > free_mib:
            shared = "" if needed_mib == here_mib else " by this run, on all hypervisors that share it"
            changed.append(f"{needed_mib} MiB are needed in pool {name}{shared}, {free_mib} are free")
    changed += _together(decision, domains, names)
    if changed:
        wanted = [*names, *(one.name for one in growth)]
        raise ConflictError(
            f"this hypervisor has changed since it was chosen for {', '.join(wanted)}: {'; '.join(changed)}",
            hint="Nothing was created. Run it again to have the hypervisors chosen again",
        )


def _together(decision: PlacementDecision, domains: Mapping[str, Domain], names: Sequence[str]) -> list[str]:
    """Who has come here, and is of a group with a new machine. The machines of the run itself were placed together."""
    others = [domain for name, domain in domains.items() if name not in (*names, *decision.machines)]
    return [
        f"it has {member}, of the same anti-affinity group {group} as {name}"
        for name in names
        for member, group in group_members(decision.apart.get(name, ()), others).items()
    ]


def _memory_mib(domain: Domain) -> int:
    """What the machine may take at most. libvirt always says it in KiB."""
    return int(domain.xml.findtext("memory") or 0) // _KIB_PER_MIB


def _vcpus(domain: Domain) -> int:
    return int(domain.xml.findtext("vcpu") or 0)


def growth_of(name: str, memory_mib: int, vcpus: int, domain: Domain) -> Claim | None:
    """What a machine that is there is to get more than it has at most; None where it is nothing."""
    more = Claim(name, max(0, memory_mib - _memory_mib(domain)), max(0, vcpus - _vcpus(domain)))
    return more if more.memory_mib or more.vcpus else None
