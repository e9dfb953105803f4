# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All machines of a hypervisor in few calls.

What libvirt tells in bulk is asked in bulk: the list, the marks autostart and persistent, and the block sizes are four
calls, however many machines there are. Only the XML (metadata, MAC addresses, paths) is one call a machine,
and these go side by side on the one connection. libvirt multiplexes them.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.machines.addresses import (
    AgentLimits,
    best_first,
    find_addresses,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import (
    ACTIVE_STATES,
    KnownPools,
    bare_record,
    nics_to_ask,
    record_from_xml,
    state_name,
)
from ansible_collections.brine.virt.plugins.module_utils._host.parallel import map_in_threads
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import agent_is_connected
from ansible_collections.brine.virt.plugins.module_utils._model.reserved_names import is_flush_name

VirDomain = t.Any
# Names what a running machine lacks of its definition. Given by whoever wants it: it takes all tables of options along.
PendingOf = t.Callable[["etree._Element", "etree._Element"], list[str]]


@dataclass(frozen=True)
class BulkAnswer:
    """What the bulk calls said: per machine by UUID, and what they could not say."""

    domains: Sequence[VirDomain]
    stats: Mapping[str, Mapping[str, t.Any]]
    autostart: frozenset[str]
    persistent: frozenset[str]
    pools: KnownPools
    errors: tuple[str, ...]


def observe_machines(
    conn: VirConnect,
    *,
    addresses: bool,
    names: Iterable[str] | None = None,
    threads: int = 8,
    agent_timeout_seconds: int = 2,
    sizes: bool = True,
    pending: PendingOf | None = None,
    arriving: bool = False,
    timeout_seconds: float | None = None,
) -> list[dict[str, t.Any]]:
    """The records of the hypervisor's machines, sorted by name.

    addresses: ask for the addresses of running machines also; needs a connection that is not read-only for the agent.
    names: only these machines; names that do not exist are left out. sizes: ask for the sizes of
    disks and the pools that they lie in. pending: what compares running machines with their definitions
    (``pending_of``), one call more for each. arriving: with the machines that another hypervisor is sending here just
    now, marked ``arriving``; until they run here they are that one's.
    agent_timeout_seconds: for one answer of one guest agent; nobody is asked after half of ``timeout_seconds``.
    timeout_seconds: limit for the calls that go to single machines, together.
    A machine that cannot be read stays in the list, with what is known and the reason in its ``errors``. Raises
    VirtError only when the list itself cannot be had.
    """
    bulk = _ask_in_bulk(conn, names, sizes)
    ask_until = None if timeout_seconds is None else time.monotonic() + timeout_seconds / 2
    limits = AgentLimits(agent_timeout_seconds, ask_until)

    def read(domain: VirDomain) -> dict[str, t.Any] | None:
        return _read_machine(domain, bulk, addresses=addresses, sizes=sizes, pending=pending, limits=limits)

    records = []
    outcomes = map_in_threads(read, bulk.domains, threads=threads, timeout_seconds=timeout_seconds)
    for domain, outcome in zip(bulk.domains, outcomes):
        if outcome.error is not None:
            records.append(_unread_record(domain, bulk, f"the machine could not be read: {outcome.error}"))
        elif outcome.value is not None and (arriving or "arriving" not in outcome.value):
            records.append(outcome.value)
    return sorted(records, key=lambda record: record["name"])


def _ask_in_bulk(conn: VirConnect, names: Iterable[str] | None, sizes: bool) -> BulkAnswer:
    with translate_errors("cannot list the machines"):
        domains = [domain for domain in conn.listAllDomains() if not is_flush_name(domain.name())]
        autostart = _uuids(conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART))
        persistent = _uuids(conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT))
    if names is not None:
        wanted = set(names)
        domains = [domain for domain in domains if domain.name() in wanted]
    errors: list[str] = []
    stats: dict[str, Mapping[str, t.Any]] = {}
    pools = KnownPools({}, {})
    if domains:
        # vCPUs and memory stand in the XML, which is asked for anyway; as statistics they would make libvirt
        # question each running QEMU. NOWAIT: a machine that is busy with a job must not hold up the others.
        wanted_stats = libvirt.VIR_DOMAIN_STATS_STATE | (libvirt.VIR_DOMAIN_STATS_BLOCK if sizes else 0)
        try:
            with translate_errors("cannot read the states and disk sizes of the machines in one call"):
                answer = _stats(conn, domains if names is not None else None, wanted_stats)
                stats = {domain.UUIDString(): values for domain, values in answer}
        except VirtError as exc:
            errors.append(str(exc))
    if domains and sizes:
        try:
            pools = read_known_pools(conn)
        except VirtError as exc:
            errors.append(str(exc))
    return BulkAnswer(domains, stats, autostart, persistent, pools, tuple(errors))


def _stats(conn: VirConnect, domains: Sequence[VirDomain] | None, wanted: int) -> list[tuple[VirDomain, t.Any]]:
    flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    if domains is None:
        return conn.getAllDomainStats(wanted, flags)
    return conn.domainListGetStats(domains, wanted, flags)


def _uuids(domains: Iterable[VirDomain]) -> frozenset[str]:
    return frozenset(domain.UUIDString() for domain in domains)


def read_known_pools(conn: VirConnect) -> KnownPools:
    """Which pool a path or a network disk belongs to: two calls and one a pool, none a volume."""
    by_path: dict[str, str] = {}
    by_source_name: dict[str, str] = {}
    with translate_errors("cannot list the storage pools"):
        for pool in conn.listAllStoragePools():
            try:
                root = parse_xml(pool.XMLDesc())
            except libvirt.libvirtError as exc:
                if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_POOL:
                    continue  # gone since it was listed
                raise
            path = root.findtext("target/path")
            if path:
                by_path[path.rstrip("/")] = pool.name()
            source_name = root.findtext("source/name")
            if source_name:
                by_source_name[f"{root.get('type')}:{source_name}"] = pool.name()
    return KnownPools(by_path, by_source_name)


def _state(domain: VirDomain, bulk: BulkAnswer) -> str:
    known = bulk.stats.get(domain.UUIDString(), {}).get("state.state")
    if known is None:
        with translate_errors("cannot read the state"):
            known = domain.state()[0]
    return state_name(known)


def _is_arriving(domain: VirDomain) -> bool:
    """Whether another hypervisor is sending this machine here, of one that is paused and not defined.

    libvirt tells how far a migration is on the hypervisor that sends, and on the other one that it does not tell it
    here.
    """
    try:
        if domain.state()[1] != libvirt.VIR_DOMAIN_PAUSED_MIGRATION:
            return False
        domain.jobInfo()
    except libvirt.libvirtError as exc:
        return bool(exc.get_error_code() == libvirt.VIR_ERR_OPERATION_UNSUPPORTED)
    return False


def _unread_record(domain: VirDomain, bulk: BulkAnswer, error: str) -> dict[str, t.Any]:
    """The record of a machine that has no answer of its own: what the bulk calls said, and the reason. Asks nobody."""
    uuid = domain.UUIDString()
    record = bare_record(domain.name(), uuid, state_name(bulk.stats.get(uuid, {}).get("state.state")))
    record.update(autostart=uuid in bulk.autostart, persistent=uuid in bulk.persistent, errors=[*bulk.errors, error])
    return record


def _read_machine(
    domain: VirDomain,
    bulk: BulkAnswer,
    *,
    addresses: bool,
    sizes: bool,
    limits: AgentLimits,
    pending: PendingOf | None = None,
) -> dict[str, t.Any] | None:
    """One machine's record; None when it was removed, or migrated away, since it was listed."""
    try:
        with translate_errors("libvirt does not show its XML"):
            text = domain.XMLDesc()
        state = _state(domain, bulk)
    except NotFoundError:
        return None
    try:
        root = parse_xml(text)
        record = record_from_xml(root, state, bulk.pools)
    except (etree.XMLSyntaxError, ValueError) as exc:
        raise HostError(f"its XML is invalid: {exc}") from exc
    uuid = domain.UUIDString()
    errors = list(bulk.errors)
    record.update(autostart=uuid in bulk.autostart, persistent=uuid in bulk.persistent, errors=errors)
    if state == "paused" and not record["persistent"] and _is_arriving(domain):
        record["arriving"] = True
    running = state in ACTIVE_STATES
    if pending is not None:
        try:
            record["pending"] = _pending(domain, root, pending, running=running and record["persistent"])
        except VirtError as exc:
            errors.append(str(exc))
    if sizes:
        errors.extend(_add_sizes(record["disks"], domain, bulk.stats.get(uuid, {}), running))
    if addresses:
        asked = nics_to_ask(root)
        found, reasons = find_addresses(
            domain, asked, running=state == "running", agent_connected=agent_is_connected(root), limits=limits
        )
        for nic, nic_addresses in zip(record["nics"], found):
            nic["addresses"] = [address.as_dict() for address in nic_addresses]
        record["addresses"] = best_first(found)
        record["address"] = record["addresses"][0] if record["addresses"] else None
        errors.extend(reasons)
    return record


def _pending(domain: VirDomain, live: etree._Element, compare: PendingOf, *, running: bool) -> list[str]:
    """What waits for power off and on; a machine that is off, or goes away when it stops, waits for nothing."""
    if not running:
        return []
    with translate_errors("what changes after power off and on is unknown"):
        defined = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    return compare(live, parse_xml(defined))


def _add_sizes(
    disks: list[dict[str, t.Any]], domain: VirDomain, stats: Mapping[str, t.Any], running: bool
) -> list[str]:
    """Fill in the sizes of disks in place; returns what could not be found out."""
    errors = []
    known = _sizes_by_target(stats)
    for disk in disks:
        if not disk["source"]:
            continue  # an empty drive
        try:
            sizes = known.get(disk["target"]) or _ask_size(domain, disk["target"], running)
        except VirtError as exc:
            errors.append(f"disk {disk['target']}: {exc}")
            continue
        disk["size_bytes"], disk["allocation_bytes"] = sizes
    return errors


def _sizes_by_target(stats: Mapping[str, t.Any]) -> dict[str, tuple[int, int | None]]:
    """Capacity and allocation by target device, from the block group of the bulk statistics.

    ``allocation`` is the highest offset written so far, which QEMU only knows once the guest has written something;
    until then ``physical`` (the size of the file or device) says it.
    Source: https://libvirt.org/html/libvirt-libvirt-domain.html#VIR_DOMAIN_STATS_BLOCK
    """
    sizes: dict[str, tuple[int, int | None]] = {}
    for number in range(stats.get("block.count", 0)):
        name, capacity = stats.get(f"block.{number}.name"), stats.get(f"block.{number}.capacity")
        if name and capacity:
            sizes[name] = capacity, stats.get(f"block.{number}.allocation") or stats.get(f"block.{number}.physical")
    return sizes


def _ask_size(domain: VirDomain, target: str, running: bool) -> tuple[int, int | None]:
    """Capacity and allocation of a stopped machine's disk. A running one would have to be waited for: it is busy."""
    if running:
        raise HostError("its size is unknown for now: the machine is busy")
    with translate_errors("cannot read its size"):
        capacity, allocation, _physical = domain.blockInfo(target)
    return capacity, allocation
