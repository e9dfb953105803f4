# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for machines to answer, and saying what was seen when they do not."""

from __future__ import annotations

import socket
import time
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.machines.addresses import NEIGHBOURS_UNREAD
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.parallel import map_in_threads
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import agent_is_connected
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.console_log import (
    ConsoleLog,
    read_console_log,
)

_PAUSE_SECONDS = 2.0
_CONNECT_SECONDS = 3.0
# A line about a wait in which nothing changes comes this often.
_LINE_SECONDS = 10.0
# After a panic or the like, the console is given this long to go on after all, as a guest does that restarts itself.
_SILENT_SECONDS = 10.0
# So long may a machine have booted, as its console says, and have no address.
_ADDRESS_SECONDS = 60.0
_MOST_NAMES = 6
_BOOTING = "booting"
_ORIGINS = {
    "static": "static address",
    "lease": "DHCP lease",
    "agent": "address from the guest agent",
    "arp": "address seen on the network",
}
# States out of which a machine does not come by itself, so that waiting longer is waiting in vain.
_HOPELESS = ("shutoff", "crashed", "paused")


@dataclass
class WaitState:
    """One machine on its way; ready says that it answers, seen what was seen last."""

    name: str
    ready: bool = False
    address: str | None = None
    seen: str = "nothing"
    hopeless: bool = False
    waited_seconds: float = 0.0
    serial_log: str | None = None
    stage: str = "not seen yet"
    console: ConsoleLog = ConsoleLog()
    # When its console said something new, and since when it has booted and has no address, by the clock of the wait.
    console_new_at: float = 0.0
    without_address_since: float | None = None


def wait_for_machines(
    conn: VirConnect,
    names: Sequence[str],
    *,
    port: int | None,
    timeout_seconds: float,
    on_progress: Callable[[str], t.Any] = lambda _line: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], t.Any] = time.sleep,
) -> list[WaitState]:
    """Wait until all machines have an address and, with a port, greet there as SSH does; or until the time is over.

    Asks all of them together, once in a while. A machine that has stopped, or whose console says that nothing comes any
    more, is not waited for. on_progress: takes a line about the stages that they are in, whenever that changes, and
    every ten seconds. Raises NotFoundError for a name that does not exist.
    """
    begun = clock()
    wait_states = {name: WaitState(name, console_new_at=begun) for name in names}
    last_line, last_line_at = "", begun
    while True:
        on_the_way = [a for a in wait_states.values() if not a.ready and not a.hopeless]
        _look(conn, on_the_way, port)
        now = clock()
        for wait_state in on_the_way:
            _look_at_console(wait_state, now)
            wait_state.waited_seconds = round(now - begun, 1)
        line = stages_line(list(wait_states.values()))
        if line != last_line or now - last_line_at >= _LINE_SECONDS:
            on_progress(f"{now - begun:.0f} s: {line}")
            last_line, last_line_at = line, now
        if all(a.ready or a.hopeless for a in wait_states.values()) or clock() - begun > timeout_seconds:
            return list(wait_states.values())
        pause(_PAUSE_SECONDS)


def stages_line(wait_states: Sequence[WaitState]) -> str:
    """Which machines are in which stage, in a line."""
    stages: dict[str, list[str]] = {}
    for wait_state in wait_states:
        stages.setdefault(wait_state.stage, []).append(wait_state.name)
    return "; ".join(f"{stage}: {_some(names)}" for stage, names in stages.items())


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _look_at_console(wait_state: WaitState, now: float) -> None:
    """What the console says beside the rest, and whether the wait is in vain by that."""
    before, wait_state.console = wait_state.console, read_console_log(wait_state.serial_log)
    if wait_state.ready or wait_state.hopeless:
        return
    console = wait_state.console
    if console.size_bytes != before.size_bytes:
        wait_state.console_new_at = now
    if not (console.booted and wait_state.address is None):
        wait_state.without_address_since = None
    elif wait_state.without_address_since is None:
        wait_state.without_address_since = now
    since = wait_state.without_address_since
    if console.dead_end is not None and now - wait_state.console_new_at >= _SILENT_SECONDS:
        wait_state.hopeless, wait_state.stage = True, "given up"
        wait_state.seen = f"its serial console shows {console.dead_end}; {wait_state.seen}"
    elif since is not None and now - since >= _ADDRESS_SECONDS:
        wait_state.hopeless, wait_state.stage = True, "given up"
        wait_state.seen = (
            f"according to its serial console it booted {now - since:.0f} s ago or more, but {wait_state.seen}"
        )
    elif console.dead_end is not None:
        wait_state.stage = f"its console shows {console.dead_end}"
    elif console.cloud_init or since is not None:
        rest = "no address yet" if wait_state.stage == _BOOTING else wait_state.stage
        wait_state.stage = f"{'cloud-init' if console.cloud_init else 'booted'}, {rest}"


def _look(conn: VirConnect, wait_states: Sequence[WaitState], port: int | None) -> None:
    records = {
        r["name"]: r for r in observe_machines(conn, addresses=True, sizes=False, names=[a.name for a in wait_states])
    }
    for wait_state in wait_states:
        if wait_state.name not in records:
            raise NotFoundError(f"there is no machine {wait_state.name!r} on this hypervisor")

    def look(wait_state: WaitState) -> None:
        record = records[wait_state.name]
        wait_state.address, wait_state.serial_log = record["address"], record["serial_log"]
        wait_state.hopeless = record["state"] in _HOPELESS
        if wait_state.hopeless:
            wait_state.seen, wait_state.stage = f"it is {record['state']}", record["state"]
        elif wait_state.address is None:
            wait_state.seen, wait_state.stage = _why_no_address(conn, record)
        elif port is None:
            wait_state.ready, wait_state.seen = True, f"it has the address {wait_state.address}"
        else:
            wait_state.ready, wait_state.seen = _greeting(wait_state.address, port)
            wait_state.stage = f"{_ORIGINS[_origin(record)]}, no SSH yet"
        if wait_state.ready:
            wait_state.stage = "ready"

    outcomes = map_in_threads(look, wait_states, threads=8, timeout_seconds=None)
    for wait_state, outcome in zip(wait_states, outcomes):  # noqa: B905 - Python 3.9 has no strict
        if outcome.error is not None:
            wait_state.seen = f"it cannot be inspected ({outcome.error})"


def _origin(record: Mapping[str, t.Any]) -> str:
    """Who told the address that is used."""
    origins = [a["origin"] for nic in record["nics"] for a in nic["addresses"] if a["address"] == record["address"]]
    return str(origins[0])


def _why_no_address(conn: VirConnect, record: dict[str, t.Any]) -> tuple[str, str]:
    """A sentence, and the stage that the machine is in by that."""
    with translate_errors(f"cannot inspect machine {record['name']}"):
        agent = agent_is_connected(parse_xml(conn.lookupByName(record["name"]).XMLDesc(0)))
    said = "reports none" if agent else "is not connected"
    stage = "guest agent, no address yet" if agent else _BOOTING
    asked = "no address was found for it: no static one, no DHCP lease of a libvirt network"
    # That libvirt cannot read the kernel's table helps nobody, and only the guest can tell more of its addresses.
    errors = [error for error in record["errors"] if not error.startswith(NEIGHBOURS_UNREAD)]
    if errors:
        return f"{asked}, its guest agent {said}; besides, {'; '.join(errors)}", stage
    if record["errors"]:
        return f"{asked}, and its guest agent {said}", stage
    table = "and the hypervisor's neighbour table does not know its MAC address"
    return f"{asked}, its guest agent {said}, {table}", stage


def _greeting(address: str, port: int) -> tuple[bool, str]:
    """Whether an SSH server says its first line there; an open port alone may be somebody else's."""
    place = f"{address} port {port}"
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            first = connection.recv(64)
    except OSError as exc:
        return False, f"it has the address {address}, but {place} does not answer ({exc.strerror or exc})"
    if first.startswith(b"SSH-"):
        return True, f"SSH answers at {place}"
    return False, f"it has the address {address}, but no SSH server answers at {place}"
