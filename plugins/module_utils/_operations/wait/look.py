# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking at machines that are waited for: all in one call for their states, and only what is missing of each."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable, Sequence

from ..._base.errors import NotFoundError
from ..._host.connection import VirConnect, libvirt, map_in_threads, translate_errors
from ..._host.machines.addresses import NEIGHBOURS_UNREAD, AgentLimits, best_first, find_addresses
from ..._host.machines.domains import description_of
from ..._host.machines.record import nics_to_ask, record_from_xml, state_name
from ..._model.attachments import AGENT_CHANNEL, agent_is_connected
from ..._model.metadata.machine import read_notes
from ..wait import ssh
from .state import BOOTING, ORIGINS, WaitState
from .stopped import is_passing, state_words

# A connection to an address that nobody has yet takes its time, and must not hold up the others.
_THREADS = 32
_AGENT_SECONDS = 2
# So often the addresses of a machine are asked for: while it has none, and while SSH does not answer at the one it has.
_ADDRESS_SECONDS = 1.0
_ADDRESS_AGAIN_SECONDS = 3.0
# From this many machines on, half as often.
_MANY = 20
# States out of which a machine does not come by itself, so that waiting longer is waiting in vain.
_HOPELESS = ("shutoff", "crashed", "paused")


def find_domains(conn: VirConnect, wait_states: Sequence[WaitState]) -> None:
    """Give each its libvirt domain. Raises NotFoundError for a name that does not exist."""
    with translate_errors("cannot list the machines"):
        domains = {domain.name(): domain for domain in conn.listAllDomains()}
    for wait_state in wait_states:
        if wait_state.name not in domains:
            raise NotFoundError(f"there is no machine {wait_state.name!r} on this hypervisor")
        wait_state.domain = domains[wait_state.name]


def look(conn: VirConnect, wait_states: Sequence[WaitState], port: int | None, clock: Callable[[], float]) -> None:
    """See how far they are by now, and fill that in. port: of SSH, None where an address is enough."""
    if not wait_states:
        return
    powers = _ask_powers(conn, [wait_state.domain for wait_state in wait_states])
    for wait_state in wait_states:
        wait_state.power = powers.get(wait_state.domain.UUIDString())
    work = functools.partial(_look_at_one, port=port, clock=clock, slower=2 if len(wait_states) >= _MANY else 1)
    outcomes = map_in_threads(work, wait_states, threads=_THREADS, timeout_seconds=None)
    for wait_state, outcome in zip(wait_states, outcomes):  # noqa: B905 - Python 3.9 has no strict
        if outcome.error is not None:
            wait_state.ssh_answers = None
            wait_state.seen = f"it cannot be inspected ({outcome.error})"
    if port is not None:
        _check_host_keys([s for s in wait_states if s.ssh_answers and not s.ready], port, clock())


def _ask_powers(conn: VirConnect, domains: Sequence[t.Any]) -> dict[str, tuple[int, int]]:
    """State and reason by UUID, in one call. A machine that has gone is left out."""
    flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    try:
        with translate_errors("cannot read the states of the machines"):
            answer = conn.domainListGetStats(domains, libvirt.VIR_DOMAIN_STATS_STATE, flags)
    except NotFoundError:
        # Drivers leave out one that has gone, or take it for an error in the whole list.
        with translate_errors("cannot list the machines"):
            there = {domain.UUIDString() for domain in conn.listAllDomains()}
        left = [domain for domain in domains if domain.UUIDString() in there]
        return _ask_powers(conn, left) if left and len(left) < len(domains) else {}
    return {domain.UUIDString(): (v.get("state.state", 0), v.get("state.reason", 0)) for domain, v in answer}


def _look_at_one(wait_state: WaitState, *, port: int | None, clock: Callable[[], float], slower: int) -> None:
    wait_state.ssh_answers = None
    if wait_state.power is None:
        wait_state.hopeless, wait_state.stage = True, "no longer defined"
        wait_state.seen = "it is no longer defined on this hypervisor"
        return
    state, passing = state_name(wait_state.power[0]), is_passing(*wait_state.power)
    wait_state.hopeless = state in _HOPELESS and not passing
    if wait_state.hopeless or _is_due(wait_state, clock(), slower):
        read_machine(wait_state)
        wait_state.asked_at = clock()
    if state in _HOPELESS:
        wait_state.seen, wait_state.stage = f"it is {state_words(*wait_state.power)}", state
    elif wait_state.address is None:
        wait_state.seen = why_no_address(wait_state.agent, wait_state.errors)
        wait_state.stage = "guest agent, no address yet" if wait_state.agent else BOOTING
    elif port is None:
        wait_state.ready, wait_state.stage = True, "ready"
        wait_state.seen = f"it has the address {wait_state.address}"
    else:
        wait_state.ssh_answers, wait_state.seen = ssh.greeting(wait_state.address, port)
        origin = dict(reversed(wait_state.origins))[wait_state.address]
        wait_state.stage = f"{ORIGINS[origin]}, no SSH yet"


def _is_due(wait_state: WaitState, now: float, slower: int) -> bool:
    every = _ADDRESS_SECONDS if wait_state.address is None else _ADDRESS_AGAIN_SECONDS
    return wait_state.asked_at is None or now - wait_state.asked_at >= every * slower


def read_machine(wait_state: WaitState) -> None:
    """Ask for what stands in its description, and for its addresses. Raises VirtError."""
    domain, number = wait_state.domain, wait_state.power[0] if wait_state.power else 0
    root = description_of(domain)
    notes = read_notes(root)
    record, asked = record_from_xml(root, state_name(number), notes=notes), nics_to_ask(root, notes)
    connected = agent_is_connected(root)
    has_channel = any(target.get("name") == AGENT_CHANNEL for target in root.iterfind("devices/channel/target"))
    running = state_name(number) == "running"
    found, errors = find_addresses(
        domain, asked, running=running, agent_connected=connected, limits=AgentLimits(_AGENT_SECONDS)
    )
    for nic, addresses in zip(record["nics"], found):  # noqa: B905 - Python 3.9 has no strict
        nic["addresses"] = [address.as_dict() for address in addresses]
    wait_state.nics, wait_state.errors = record["nics"], errors
    wait_state.address = next(iter(best_first(found)), None)
    wait_state.agent = connected if has_channel else None
    wait_state.serial_log, wait_state.host_keys = record["serial_log"], record["host_keys"]


def why_no_address(agent: bool | None, errors: Sequence[str]) -> str:
    """Who was asked for an address in vain. errors: what could not be asked."""
    said = "reports none" if agent else "is not connected"
    asked = "no address was found for it: no static one, no DHCP lease of a libvirt network"
    # That libvirt cannot read the kernel's table helps nobody, and only the guest can tell more of its addresses.
    others = [error for error in errors if not error.startswith(NEIGHBOURS_UNREAD)]
    if others:
        return f"{asked}, its guest agent {said}; besides, {'; '.join(others)}"
    if errors:
        return f"{asked}, and its guest agent {said}"
    table = "and the hypervisor's neighbour table does not know its MAC address"
    return f"{asked}, its guest agent {said}, {table}"


def _check_host_keys(wait_states: Sequence[WaitState], port: int, now: float) -> None:
    """Those that SSH answers for are ready, unless it is another machine that answers."""
    # One by one: two may claim the same address.
    same = ssh.compare_host_keys([(s.address or "", s.host_keys) for s in wait_states], port)
    for wait_state, is_same in zip(wait_states, same):  # noqa: B905 - Python 3.9 has no strict
        address, wait_state.host_key = wait_state.address, is_same
        if wait_state.host_key is False:
            wait_state.other_key_since = now if wait_state.other_key_since is None else wait_state.other_key_since
            wait_state.stage = "SSH with another host key"
            wait_state.seen = (
                f"SSH answers at {address} port {port}, but not with a host key of this machine: another machine has "
                "that address, or the key was changed in the guest"
            )
        else:
            wait_state.other_key_since = None
            wait_state.ready, wait_state.stage = True, "ready"
