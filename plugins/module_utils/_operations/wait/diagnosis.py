# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a machine that did not come up has got, stage by stage, and what its operator can do next."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Sequence

from ..._base.errors import VirtError
from ..._host.agent import ask_agent
from ..._host.connection import VirConnect, map_in_threads
from ..._host.facts.networks import read_network
from ..._host.machines.record import state_name
from .cloud_init import read_status
from .state import Stage, WaitState
from .stopped import is_passing, qemu_log_end, state_words

_THREADS = 8
_AGENT_SECONDS = 2
_OFF = ("shutoff", "crashed")


def diagnose(conn: VirConnect, wait_states: Sequence[WaitState], port: int | None) -> None:
    """Fill in their stages, what to do next and, of those that stopped, the end of QEMU's log."""
    outcomes = map_in_threads(_ask_cloud_init, wait_states, threads=_THREADS)
    for wait_state, outcome in zip(wait_states, outcomes):  # noqa: B905 - Python 3.9 has no strict
        cloud_init = outcome.value or Stage("cloud-init", None, f"not known: {outcome.error}")
        wait_state.stages = [*_stages(conn, wait_state, port), cloud_init]
        wait_state.next_step = next_step(wait_state)
        if cloud_init.ok is False and not wait_state.seen.endswith(cloud_init.seen):
            wait_state.seen += f"; cloud-init reports: {cloud_init.seen}"
        if wait_state.power is not None and state_name(wait_state.power[0]) in _OFF:
            lines, why_none = qemu_log_end(conn, wait_state.name)
            wait_state.qemu_log = lines or [why_none or ""]


def _stages(conn: VirConnect, wait_state: WaitState, port: int | None) -> list[Stage]:
    if wait_state.power is None:
        return [Stage("defined", False, "it has been moved or undefined since the wait began")]
    on = _running(wait_state.power)
    stages = [Stage("defined", True, "yes"), on, _boot(wait_state)]
    if wait_state.asked_at is None:
        return [*stages, *(Stage(name, None, "not known") for name in ("lease", "agent", "address", "SSH"))]
    stages += [_lease(conn, wait_state, on.ok), _agent(wait_state), _address(wait_state, on.ok)]
    return stages if port is None else [*stages, _ssh(wait_state)]


def _running(power: tuple[int, int]) -> Stage:
    state = state_name(power[0])
    ok = state not in (*_OFF, "paused") or is_passing(*power)
    return Stage("running", ok, "yes" if state == "running" else state_words(*power))


def _boot(wait_state: WaitState) -> Stage:
    console = wait_state.console
    make = functools.partial(Stage, "boot")
    if console.dead_end is not None:
        return make(False, f"the serial console shows {console.dead_end}")
    if console.booted:
        return make(True, "ended, according to the serial console")
    if console.lines:
        return make(None, "not ended, according to the serial console")
    return make(None, "the serial console shows nothing" if wait_state.serial_log else "no serial console with a log")


def _lease(conn: VirConnect, wait_state: WaitState, on: bool | None) -> Stage:
    make = functools.partial(Stage, "lease")
    leases = [address for address, origin in wait_state.origins if origin == "lease"]
    networks = [nic["source"] for nic in wait_state.nics if nic["type"] == "network" and _has_dhcp(conn, nic["source"])]
    others = [str(nic["source"]) for nic in wait_state.nics if nic["source"]]
    if leases:
        return make(True, ", ".join(leases))
    if any(origin == "static" for _address_text, origin in wait_state.origins):
        return make(None, "not needed: it has a static address")
    unread = [error for error in wait_state.errors if "DHCP leases" in error]
    if unread:
        return make(None, f"not known: {unread[0]}")
    if networks:
        return make(False if on else None, f"no DHCP lease on network {', '.join(networks)}")
    if others:
        return make(None, f"not known: libvirt has no DHCP server on {', '.join(others)}")
    return make(None, "it has no nic on a network or bridge")


def _has_dhcp(conn: VirConnect, network: str) -> bool:
    """Whether libvirt runs a DHCP server on a network of its own; in doubt it does, as on most."""
    with contextlib.suppress(VirtError):
        found = read_network(conn, network)
        return found is None or found.find("ip/dhcp") is not None
    return True


def _agent(wait_state: WaitState) -> Stage:
    make = functools.partial(Stage, "agent")
    if wait_state.agent is None:
        return make(None, "its definition has no channel for the guest agent")
    if not wait_state.agent:
        return make(None, "not connected")
    trouble = [error for error in wait_state.errors if "guest agent" in error]
    return make(False, trouble[0]) if trouble else make(True, "connected")


def _address(wait_state: WaitState, on: bool | None) -> Stage:
    make = functools.partial(Stage, "address")
    if wait_state.address is not None:
        return make(True, wait_state.address)
    if not wait_state.nics:
        return make(False, "none: it has no nic")
    macs = ", ".join(str(nic["mac"]) for nic in wait_state.nics)
    return make(False if on else None, f"none known for {macs}")


def _ssh(wait_state: WaitState) -> Stage:
    make = functools.partial(Stage, "SSH")
    if wait_state.address is None or wait_state.ssh_answers is None:
        return make(None, "not tried")
    if not wait_state.ssh_answers:
        return make(False, wait_state.seen.partition(", but ")[2] or wait_state.seen)
    if wait_state.host_key is False:
        return make(False, "a server answers, but not with a host key of this machine")
    return make(True, "a server answers")


def _ask_cloud_init(wait_state: WaitState) -> Stage:
    """From the serial console, and from the guest itself where that says nothing of an error."""
    make = functools.partial(Stage, "cloud-init")
    console = wait_state.console
    if console.cloud_init_errors:
        return make(False, "; ".join(console.cloud_init_errors))
    why = ""
    if console.cloud_init_warns:
        why = "; it warns of its configuration, to be checked in the guest: cloud-init schema --system"
    if wait_state.agent and wait_state.power is not None and state_name(wait_state.power[0]) == "running":
        try:
            ok, seen = read_status(
                lambda name, given: ask_agent(wait_state.domain, {"execute": name, "arguments": given}, _AGENT_SECONDS)
            )
            return make(ok, f"{seen}{why}")
        except VirtError as exc:
            why += f"; by the guest agent: {exc.what}"
    if console.cloud_init_over:
        return make(True, f"ended, according to the serial console{why}")
    if console.cloud_init:
        return make(None, f"running, according to the serial console{why}")
    return make(None, f"not known: nothing of it is in the serial console's log{why}")


def next_step(wait_state: WaitState) -> str:
    """One command that gets the operator on; most are for the hypervisor."""
    failed = wait_state.failed_stage
    name = shlex.quote(wait_state.name)
    stage = None if failed is None else failed.name
    if stage == "defined":
        return "Run provision again: it finds the machine where it is now, or creates it"
    if stage == "running" and wait_state.power is not None:
        if state_name(wait_state.power[0]) == "paused":
            return f"To resume it: ansible-playbook brine.virt.power -e vm={name} -e state=running"
        return f"To start it: ansible-playbook brine.virt.power -e vm={name} -e state=running"
    if stage == "boot" and wait_state.serial_log:
        return f"To see all of it, on the hypervisor: less {shlex.quote(wait_state.serial_log)}"
    if stage == "SSH" and wait_state.host_key is False and wait_state.address:
        macs = ", ".join(str(nic["mac"]) for nic in wait_state.nics)
        return f"To see whose it is, on the hypervisor: ip neigh show {wait_state.address} (this machine has {macs})"
    if stage == "address" and not wait_state.nics:
        return "Give it a nic, or do not wait for it"
    return f"To log in without a network, on the hypervisor: virsh console {name}"
