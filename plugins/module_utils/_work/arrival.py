# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for machines to answer, and saying what was seen when they do not."""

from __future__ import annotations

import socket
import time
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.machine_record import agent_is_connected
from ansible_collections.brine.virt.plugins.module_utils._host.observe_machines import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.parallel import map_in_threads
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml

_PAUSE_SECONDS = 2.0
_CONNECT_SECONDS = 3.0
_LOG_LINES = 12
_LOG_BYTES = 16 * 1024
# States out of which a machine does not come by itself, so that waiting longer is waiting in vain.
_HOPELESS = ("shutoff", "crashed", "paused")


@dataclass
class Arrival:
    """One machine on its way; ready says that it answers, seen what was seen last."""

    name: str
    ready: bool = False
    address: str | None = None
    seen: str = "nothing"
    hopeless: bool = False
    waited_seconds: float = 0.0
    serial_log: str | None = None


def wait_for_machines(
    conn: VirConnect,
    names: Sequence[str],
    *,
    port: int | None,
    timeout_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Arrival]:
    """Wait until all machines have an address and, with a port, greet there as SSH does; or until the time is over.

    Asks all of them together, once in a while. A machine that has stopped is not waited for. Raises NotFoundError for a
    name that does not exist.
    """
    begun = clock()
    arrivals = {name: Arrival(name) for name in names}
    while True:
        on_the_way = [a for a in arrivals.values() if not a.ready and not a.hopeless]
        _look(conn, on_the_way, port)
        for arrival in on_the_way:
            arrival.waited_seconds = round(clock() - begun, 1)
        if all(a.ready or a.hopeless for a in arrivals.values()) or clock() - begun > timeout_seconds:
            return list(arrivals.values())
        time.sleep(_PAUSE_SECONDS)


def _look(conn: VirConnect, arrivals: Sequence[Arrival], port: int | None) -> None:
    records = {
        r["name"]: r for r in observe_machines(conn, addresses=True, sizes=False, names=[a.name for a in arrivals])
    }
    for arrival in arrivals:
        if arrival.name not in records:
            raise NotFoundError(f"there is no machine {arrival.name!r} on this hypervisor")

    def look(arrival: Arrival) -> None:
        record = records[arrival.name]
        arrival.address, arrival.serial_log = record["address"], record["serial_log"]
        arrival.hopeless = record["state"] in _HOPELESS
        if arrival.hopeless:
            arrival.seen = f"it is {record['state']}"
        elif arrival.address is None:
            arrival.seen = _why_no_address(conn, record)
        elif port is None:
            arrival.ready, arrival.seen = True, f"it has the address {arrival.address}"
        else:
            arrival.ready, arrival.seen = _greeting(arrival.address, port)

    outcomes = map_in_threads(look, arrivals, threads=8, timeout_seconds=None)
    for arrival, outcome in zip(arrivals, outcomes):  # noqa: B905 - Python 3.9 has no strict
        if outcome.error is not None:
            arrival.seen = f"it cannot be looked at ({outcome.error})"


def _why_no_address(conn: VirConnect, record: dict[str, t.Any]) -> str:
    with errors_as_ours(f"cannot look at machine {record['name']}"):
        agent = agent_is_connected(parse_xml(conn.lookupByName(record["name"]).XMLDesc(0)))
    said = "gives none" if agent else "is not connected"
    return (
        "it has no address that could be found: no static one, no DHCP lease of a libvirt network, "
        f"its guest agent {said}, and the hypervisor's neighbour table does not know its MAC address"
    )


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
    return False, f"it has the address {address}, but no SSH server greets at {place}"


def last_log_lines(path: str | None) -> list[str]:
    """The end of a serial console's log, without what a guest could do to a terminal."""
    if path is None:
        return []
    try:
        with open(path, "rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _LOG_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    lines = ["".join(c for c in line if c.isprintable()) for line in text.splitlines()]
    return [line for line in lines if line.strip()][-_LOG_LINES:]
