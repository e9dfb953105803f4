# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All machines of a hypervisor in few calls.

What libvirt tells in bulk is asked in bulk: the list, the marks autostart, persistent and saved, and the block sizes
are five calls, however many machines there are. Only the XML (metadata, MAC addresses, paths) is one call a machine.
All calls that do not need each other's answers go side by side on the one connection, where libvirt multiplexes them.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._base.errors import HostError, NotFoundError, VirtError
from ..._base.xml import etree, read_description
from ..._model.attachments import agent_is_connected
from ..._model.metadata.machine import read_notes
from ..._model.metadata.migration import is_flush_name
from ..connection import ItemResult, VirConnect, libvirt, map_in_threads, run_in_time, suppress_codes, translate_errors
from .addresses import AddressSearch, AgentLimits, Leases, best_first
from .record import (
    ACTIVE_STATES,
    NO_POOLS,
    KnownPools,
    PendingOf,
    bare_record,
    known_pools,
    nics_to_ask,
    record_from_xml,
    sizes_by_target,
    state_name,
)

# One answer takes as long as the line is: the more machines, the more of them are asked at once.
_FEWEST_THREADS, _MACHINES_A_THREAD = 8, 20
# virDomainPausedReason, https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainPausedReason
_TROUBLES = {
    "VIR_DOMAIN_PAUSED_IOERROR": "because of an I/O error",
    "VIR_DOMAIN_PAUSED_WATCHDOG": "by its watchdog",
    "VIR_DOMAIN_PAUSED_CRASHED": "because it crashed",
    "VIR_DOMAIN_PAUSED_API_ERROR": "because of an error in libvirt",
}
VirDomain = t.Any
Answer = t.TypeVar("Answer")


@dataclass(frozen=True)
class BulkAnswer:
    """What the bulk calls said: per machine by UUID, and what they could not say."""

    domains: Sequence[VirDomain]
    stats: Mapping[str, Mapping[str, t.Any]]
    autostart: frozenset[str]
    persistent: frozenset[str]
    saved: frozenset[str]
    pools: KnownPools
    errors: tuple[str, ...]


def observe_machines(
    conn: VirConnect,
    *,
    addresses: bool,
    names: Iterable[str] | None = None,
    threads: int = 32,
    agent_timeout_seconds: int = 2,
    sizes: bool = True,
    pending: PendingOf | None = None,
    placement: bool = False,
    timeout_seconds: float | None = None,
) -> list[dict[str, t.Any]]:
    """The records of the hypervisor's machines, sorted by name.

    addresses: ask for the addresses of running machines also; needs a connection that is not read-only for the agent.
    names: only these machines; names that do not exist are left out. sizes: ask for the sizes of
    disks and the pools that they lie in. pending: what compares running machines with their definitions
    (``pending_of``), one call more for each. placement: for who chooses hypervisors: with the machines that another one
    is sending here just now, marked ``arriving``; until they run here they are that one's. And of each with
    ``noted_disks``, also those that it gets with its next start. threads: how many machines are asked at once at most;
    fewer where there are few. timeout_seconds: limit for all but the lists of machines, together, half of it for sizes
    and pools; agent_timeout_seconds: for one answer of one guest agent, and none is asked after half of what is left.
    A machine that cannot be read stays in the list, with what is known and the reason in its ``errors``. Raises
    VirtError only when the list itself cannot be had.
    """
    end = timeout_seconds and time.monotonic() + timeout_seconds
    bulk = _ask_in_bulk(conn, names, sizes, timeout_seconds and timeout_seconds / 2)
    left = end and max(0.1, end - time.monotonic())
    limits = AgentLimits(agent_timeout_seconds, left and time.monotonic() + left / 2)
    leases = Leases(conn) if addresses else None
    threads = min(threads, max(_FEWEST_THREADS, len(bulk.domains) // _MACHINES_A_THREAD))

    def read(domain: VirDomain) -> dict[str, t.Any] | None:
        return _read_machine(
            domain,
            bulk,
            searches=searches,
            leases=leases,
            sizes=sizes,
            pending=pending,
            placement=placement,
            limits=limits,
        )

    records = []
    searches: dict[str, AddressSearch] = {}
    outcomes = map_in_threads(read, bulk.domains, threads=threads, timeout_seconds=left)
    for domain, outcome in zip(bulk.domains, outcomes):
        if outcome.error is not None:
            records.append(_unread_record(domain, bulk, f"the machine could not be read: {outcome.error}"))
        elif outcome.value is not None and (placement or "arriving" not in outcome.value):
            records.append(outcome.value)
    _add_addresses(records, searches, threads, end and max(0.0, end - time.monotonic()))
    return sorted(records, key=lambda record: record["name"])


def _add_addresses(
    records: list[dict[str, t.Any]], searches: Mapping[str, AddressSearch], threads: int, seconds: float | None
) -> None:
    """Ask the machines that no DHCP server of libvirt knows; a few whose agents are busy keep nothing but addresses
    from the others, as these have been read before."""
    asked = [uuid for record in records if (uuid := record["uuid"]) in searches and not searches[uuid].is_over]
    outcomes = map_in_threads(
        lambda uuid: searches[uuid].ask_machine(), asked, threads=threads, timeout_seconds=seconds
    )
    late = {uuid: outcome.error for uuid, outcome in zip(asked, outcomes)}
    for record in records:
        search = searches.get(record["uuid"])
        if search is None:
            continue
        found, reasons = search.result()
        for nic, nic_addresses in zip(record["nics"], found):
            nic["addresses"] = [address.as_dict() for address in nic_addresses]
        record["addresses"] = best_first(found)
        record["address"] = record["addresses"][0] if record["addresses"] else None
        record["errors"].extend(reasons)
        error = late.get(record["uuid"])
        if error is not None and not search.is_over:
            record["errors"].append(f"its addresses are not known: {'no time left' if seconds == 0 else error}")


def _ask_in_bulk(
    conn: VirConnect, names: Iterable[str] | None, sizes: bool, timeout_seconds: float | None = None
) -> BulkAnswer:
    """timeout_seconds: limit for what can be done without, all but the lists."""
    if timeout_seconds and names is not None:
        timeout_seconds /= 2  # one question comes after the other then

    def in_time(what: str, ask: t.Callable[[], Answer]) -> Answer:
        return run_in_time(ask, timeout_seconds, f"{what}: no answer") if timeout_seconds else ask()

    def list_domains(flags: int) -> list[VirDomain]:
        with translate_errors("cannot list the machines"):
            return [domain for domain in conn.listAllDomains(flags) if not is_flush_name(domain.name())]

    # vCPUs and memory stand in the XML, which is asked for anyway; as statistics they would make libvirt question each
    # running QEMU. NOWAIT: a machine that is busy with a job must not hold up the others. One whose QEMU hangs would:
    # who asks it first waits without end. So does a pool whose file server is away.
    wanted_stats = libvirt.VIR_DOMAIN_STATS_STATE | (libvirt.VIR_DOMAIN_STATS_BLOCK if sizes else 0)

    nowait = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT

    def stats_of(domains: Sequence[VirDomain] | None) -> dict[str, Mapping[str, t.Any]]:
        what = "cannot read the states and disk sizes of the machines in one call"

        def ask() -> dict[str, Mapping[str, t.Any]]:
            with translate_errors(what):
                if domains is None:
                    found = conn.getAllDomainStats(wanted_stats, nowait)
                else:
                    found = conn.domainListGetStats(domains, wanted_stats, nowait)
                return {domain.UUIDString(): values for domain, values in found}

        return in_time(what, ask)

    questions: list[t.Callable[[], t.Any]] = [
        lambda: list_domains(0),
        lambda: list_domains(libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART),
        lambda: list_domains(libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT),
        lambda: list_domains(libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE),
        lambda: in_time("cannot read the storage pools", lambda: read_known_pools(conn)) if sizes else NO_POOLS,
        *([lambda: stats_of(None)] if names is None else []),
    ]
    answers = map_in_threads(lambda ask: ask(), questions, threads=len(questions))
    for error in filter(None, (answer.error for answer in answers[:4])):  # the lists must not fail
        raise error
    domains, *marked = [t.cast("list[VirDomain]", answer.value) for answer in answers[:4]]
    autostart, persistent, saved = (frozenset(domain.UUIDString() for domain in found) for found in marked)
    if names is not None:
        wanted = set(names)
        domains = [domain for domain in domains if domain.name() in wanted]
        answers += map_in_threads(stats_of, [domains], threads=1) if domains else []
    pools, stats = answers[4], answers[5] if len(answers) > 5 else ItemResult({})
    errors = tuple(str(answer.error) for answer in (stats, pools) if answer.error is not None) if domains else ()
    return BulkAnswer(domains, stats.value or {}, autostart, persistent, saved, pools.value or NO_POOLS, errors)


@contextlib.contextmanager
def noted(errors: list[str], what: str = "") -> Iterator[None]:
    """An error of ours in the block is noted, and ends it."""
    try:
        yield
    except VirtError as exc:
        errors.append(f"{what}{exc}")


def read_known_pools(conn: VirConnect) -> KnownPools:
    """Which pool a path or a network disk belongs to: one call and one a pool, none a volume."""

    def describe(pool: t.Any) -> tuple[str, etree._Element] | None:
        # It may have gone since it was listed.
        with translate_errors("cannot read the storage pools"), suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL):
            return pool.name(), read_description(f"storage pool {pool.name()}", pool.XMLDesc())
        return None

    with translate_errors("cannot list the storage pools"):
        found = map_in_threads(describe, conn.listAllStoragePools(), threads=_FEWEST_THREADS)
    for error in filter(None, (outcome.error for outcome in found)):
        raise error
    return known_pools(outcome.value for outcome in found if outcome.value is not None)


def words_of(reason: int | None, words: Mapping[str, str]) -> str | None:
    """Those for a reason that libvirt gives. By name, because an older libvirt lacks the newest ones."""
    return next((text for name, text in words.items() if getattr(libvirt, name, None) == reason), None)


def paused_by(state: str, reason: int | None) -> str | None:
    """What has paused a machine that nobody paused, after «it is paused»; None for any other."""
    return words_of(reason, _TROUBLES) if state == "paused" else None


def _state(domain: VirDomain, bulk: BulkAnswer) -> str:
    known = bulk.stats.get(domain.UUIDString(), {}).get("state.state")
    if known is None:
        with translate_errors("cannot read the state"):
            known = domain.state()[0]
    return state_name(known)


def is_arriving(domain: VirDomain) -> bool:
    """Whether another hypervisor is sending this machine here; it is paused as long.

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


def _marks(uuid: str, bulk: BulkAnswer) -> dict[str, t.Any]:
    stats = bulk.stats.get(uuid, {})
    return {
        "paused_by": paused_by(state_name(stats.get("state.state")), stats.get("state.reason")),
        "autostart": uuid in bulk.autostart,
        "persistent": uuid in bulk.persistent,
        "saved": uuid in bulk.saved,
    }


def _unread_record(domain: VirDomain, bulk: BulkAnswer, error: str) -> dict[str, t.Any]:
    """The record of a machine that has no answer of its own: what the bulk calls said, and the reason. Asks nobody."""
    uuid = domain.UUIDString()
    record = bare_record(domain.name(), uuid, state_name(bulk.stats.get(uuid, {}).get("state.state")))
    record.update(_marks(uuid, bulk), errors=[*bulk.errors, error])
    return record


def _record_without_xml(domain: VirDomain, bulk: BulkAnswer, error: str) -> dict[str, t.Any]:
    """The record of a machine whose XML nobody can read, with the memory and vCPUs that it is to be counted with."""
    record = _unread_record(domain, bulk, error)
    with translate_errors("cannot read its memory and vCPUs"):
        _state_now, most_kib, now_kib, vcpus, _time = domain.info()
    record.update(vcpus=vcpus, vcpus_max=vcpus, memory_mib=now_kib // 1024, memory_max_mib=most_kib // 1024)
    record["tied_by"] = ["a description that cannot be read as XML"]
    return record


def _read_machine(
    domain: VirDomain,
    bulk: BulkAnswer,
    *,
    searches: dict[str, AddressSearch],
    leases: Leases | None,
    sizes: bool,
    limits: AgentLimits,
    pending: PendingOf | None = None,
    placement: bool = False,
) -> dict[str, t.Any] | None:
    """One machine's record; None when it was removed, or migrated away, since it was listed.

    leases: of its hypervisor; without them no addresses are asked for. searches: gets what is left to be asked for
    them, by UUID.
    """
    try:
        with translate_errors("libvirt does not show its XML"):
            text = domain.XMLDesc()
        state = _state(domain, bulk)
    except NotFoundError:
        return None
    try:
        root = read_description(f"machine {domain.name()}", text)
    except HostError as exc:
        return _record_without_xml(domain, bulk, str(exc))
    try:
        notes = read_notes(root)
        record = record_from_xml(root, state, bulk.pools, notes)
    except ValueError as exc:
        raise HostError(f"its XML is invalid: {exc}") from exc
    uuid = domain.UUIDString()
    errors = list(bulk.errors)
    record.update(_marks(uuid, bulk), errors=errors)
    if state == "paused" and not record["persistent"] and is_arriving(domain):
        record["arriving"] = True
    running = state in ACTIVE_STATES
    if placement:
        record["noted_disks"] = [disk.name for disk in notes.disks] if notes else []
        if running and record["persistent"]:
            with noted(errors), contextlib.suppress(NotFoundError):
                record["next_start"] = _next_start(domain)
    if pending is not None:
        with noted(errors):
            record["pending"] = _pending(domain, root, pending, running=running and record["persistent"])
    if sizes:
        _add_sizes(record["disks"], domain, bulk.stats.get(uuid, {}), running, errors)
    if leases is not None:
        searches[uuid] = AddressSearch(
            domain,
            nics_to_ask(root, notes),
            running=state == "running",
            agent_connected=agent_is_connected(root),
            limits=limits,
            leases=leases,
        )
        searches[uuid].ask_network()
    return record


def _next_start(domain: VirDomain) -> dict[str, t.Any]:
    """What a running machine may take at most when it is powered off and on, in the words of its record."""
    with translate_errors("what it gets at its next start is unknown"):
        defined = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    record = record_from_xml(read_description(f"machine {domain.name()}", defined), "")
    return {key: record[key] for key in ("memory_max_mib", "vcpus_max")}


def _pending(domain: VirDomain, live: etree._Element, compare: PendingOf, *, running: bool) -> list[str]:
    """What waits for power off and on; a machine that is off, or goes away when it stops, waits for nothing."""
    if not running:
        return []
    with translate_errors("what changes after power off and on is unknown"):
        defined = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    return compare(live, read_description(f"machine {domain.name()}", defined))


def _add_sizes(
    disks: list[dict[str, t.Any]], domain: VirDomain, stats: Mapping[str, t.Any], running: bool, errors: list[str]
) -> None:
    """Fill in the sizes of disks in place; errors: gets what could not be found out."""
    known = sizes_by_target(stats)
    for disk in disks:
        if not disk["source"]:
            continue  # an empty drive
        target = disk["target"]
        with noted(errors, f"disk {target}: "):
            disk["size_bytes"], disk["allocation_bytes"] = known.get(target) or _ask_size(domain, target, running)


def _ask_size(domain: VirDomain, target: str, running: bool) -> tuple[int, int | None]:
    """Capacity and allocation of a stopped machine's disk. A running one would have to be waited for: it is busy."""
    if running:
        raise HostError("its size is unknown for now: the machine is busy")
    with translate_errors("cannot read its size"):
        capacity, allocation, _physical = domain.blockInfo(target)
    return capacity, allocation
