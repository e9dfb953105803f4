# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that other hypervisors are sending here: which they are, and the wait until they run here.

libvirt does not tell the target of a migration how far it is. Whether anything comes at all is seen in QEMU's
connections: what a dead source has left waiting here looks the same otherwise.
"""

from __future__ import annotations

import re
import time
import typing as t
from collections.abc import Mapping

from ..._base.commands import run_program
from ..._base.errors import HostError
from ..._base.qemu_conf import migration_ports
from ..._base.xml import read_description
from ..._model.metadata.migration import read_migration_note
from ..connection import VirConnect, libvirt, translate_errors
from .listing import is_arriving
from .migration import columns_of_process

# A machine of which nothing has come for so long is not waited for. Also where nobody can see whether anything comes.
QUIET_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 10.0


def arriving_machines(conn: VirConnect) -> list[str]:
    """The names of the machines that are on their way here; one that runs here during post-copy is."""
    with translate_errors("cannot list the machines that are arriving"):
        domains = conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    return sorted(domain.name() for domain in domains if is_arriving(domain) or _is_in_postcopy(domain))


def wait_for_arriving(conn: VirConnect, *, wait_seconds: float, settle_seconds: float = 0.0) -> dict[str, bool]:
    """Wait until nothing is on its way here any more; what still is, and whether anything of it comes.

    Waits for the end of the run that has moved a machine here, too: its last steps are at the source.
    settle_seconds: look for so long at least, as a migration may just have been allowed that is not seen here yet.
    Raises an error of ours when libvirt cannot be asked.
    """
    began = time.monotonic()
    progress = Progress()
    while True:
        coming = arriving_machines(conn)
        seen = {name: _bytes_received(name) for name in coming}
        seen.update({name: None for name in progress.known - set(coming) if _is_being_finished(conn, name)})
        awaited = progress.awaited(seen, time.monotonic())
        past = time.monotonic() - began
        if past >= wait_seconds or (not awaited and past >= settle_seconds):
            return {name: name in awaited for name in coming}
        time.sleep(_LOOK_SECONDS)


class Progress:
    """How far the machines were when they were last seen to get on."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int | None, float]] = {}

    @property
    def known(self) -> set[str]:
        """All that have been seen."""
        return set(self._last)

    def awaited(self, seen: Mapping[str, int | None], now: float) -> set[str]:
        """Those worth waiting for. seen: the bytes that have come, None where nobody can tell; now: in seconds."""
        for name, received in seen.items():
            if name not in self._last or self._last[name][0] != received:
                self._last[name] = received, now
        return {name for name in seen if now - self._last[name][1] < QUIET_SECONDS}


def received_bytes(listing: str, pid: int, ports: t.Container[int]) -> int:
    """What has come over a process's connections to these ports of this host, in what ``ss -OHtnpi`` writes."""
    total = 0
    for words in columns_of_process(listing, pid):
        port = words[3].rpartition(":")[2]
        found = re.search(r"\bbytes_received:(\d+)", words[5])
        if found and port.isdigit() and int(port) in ports:
            total += int(found[1])
    return total


def _bytes_received(machine: str) -> int | None:
    try:
        with open(f"/run/libvirt/qemu/{machine}.pid", encoding="ascii") as file:
            pid = int(file.read())
        listing = run_program(["ss", "-OHtnpi"], timeout_seconds=_ANSWER_SECONDS).text
        return received_bytes(listing, pid, migration_ports())
    except (OSError, ValueError, HostError):
        return None


def _is_in_postcopy(domain: t.Any) -> bool:
    """Whether it runs here, while some of its memory is still at the source."""
    try:
        return bool(domain.state() == [libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY])
    except libvirt.libvirtError:
        return False  # gone since it was listed


def _is_being_finished(conn: VirConnect, name: str) -> bool:
    """Whether it has come, and its move's note, which goes last, is still there."""
    try:
        return read_migration_note(read_description(f"machine {name}", conn.lookupByName(name).XMLDesc())) is not None
    except (libvirt.libvirtError, HostError):
        return False  # its move has failed, and it is not here; or nobody can read what it says
