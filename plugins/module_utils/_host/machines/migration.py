# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's own migration of one machine: the call, and an eye on it while it runs.

https://libvirt.org/migration.html
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

from ..._base.commands import run_program
from ..._base.errors import HostError, VirtError, stopped
from ..._base.qemu_conf import migration_ports
from ..connection import libvirt, translate_error

_LOOK_SECONDS = 0.25
# So long libvirt may take to end a migration that was called off, or whose target is gone.
_STALL_SECONDS = 15.0
# The phase in which QEMU mirrors the disks.
DISKS = "disks"
# Memory has been sent once as a whole when the second pass over it begins.
_SECOND_PASS = 2
# For ss(8), which lists and closes connections.
_WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class MigrationControls:
    """What is watched during a migration.

    on_progress: takes a phase, the bytes done and all bytes. timed_out: the error when timeout_seconds (None: no limit)
    are up. downtime_ms: how long the machine may stand still at the switch. postcopy: switch to the target after one
    pass over memory, and at the limit, or when the disks are there if that is later. reached: whether the target still
    answers, asked of a connection that notices.
    """

    on_progress: t.Callable[[str, int, int], t.Any]
    stop: threading.Event
    timed_out: VirtError
    timeout_seconds: float | None = None
    downtime_ms: int | None = None
    postcopy: bool = False
    reached: t.Callable[[], bool] = lambda: True


def migrate(domain: t.Any, uri: str, parameters: dict[str, t.Any], flags: int, controls: MigrationControls) -> None:
    """Have libvirt move a machine, and come back when that has ended.

    Raises our class for libvirt's error, ``too_late`` when the time was up, StoppedError when ``stop`` was set. Where
    the machine is then, only a look at both hypervisors tells.
    """
    watch = _Watch(domain, controls)
    failures: list[Exception] = []

    def call() -> None:
        try:
            domain.migrateToURI3(uri, parameters, flags)
        except Exception as exc:  # carried over to the thread that waits
            failures.append(exc)

    worker = threading.Thread(target=call, name="migration", daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_LOOK_SECONDS)
        # A look that fails is no reason to leave a machine alone on its way.
        with contextlib.suppress(Exception):
            watch.look()
    if not failures:
        return
    if watch.reason is not None:
        raise watch.reason
    if isinstance(failures[0], libvirt.libvirtError):
        error = translate_error(failures[0], "libvirt could not move it")
        if "Postcopy is not supported" in error.what:
            error = type(error)(error.what, hint="On the target: sysctl vm.unprivileged_userfaultfd=1")
        raise error from failures[0]
    raise failures[0]


class _Watch:
    def __init__(self, domain: t.Any, controls: MigrationControls) -> None:
        self._domain = domain
        self._controls = controls
        self._began = time.monotonic()
        self._downtime_set = controls.downtime_ms is None
        self._postcopy = False
        self._copies_disks = False
        self._hopeless_since: float | None = None
        self.reason: Exception | None = None

    def look(self) -> None:
        """Tell how far it is; end it when it has to end."""
        # Before the job has begun and after it has ended there is none to ask about.
        stats: dict[str, t.Any] = {}
        with contextlib.suppress(libvirt.libvirtError):
            stats = self._domain.jobStats()
        self._copies_disks = self._copies_disks or bool(stats.get("disk_total", 0))
        # Nor is a line of progress.
        with contextlib.suppress(Exception):
            self._on_progress(stats)
        if not self._downtime_set:
            with contextlib.suppress(libvirt.libvirtError):
                self._domain.migrateSetMaxDowntime(self._controls.downtime_ms, 0)
                self._downtime_set = True
        if self._controls.postcopy and stats.get("memory_iteration", 0) >= _SECOND_PASS:
            self._switch_to_postcopy()
        limit = self._controls.timeout_seconds
        if self._controls.stop.is_set():
            self._end(stopped())
        elif limit is not None and time.monotonic() - self._began > limit:
            if self._controls.postcopy and stats.get("memory_total", 0):
                self._switch_to_postcopy()
            # Its disks have to be there first; what has not begun by then may hang.
            elif not self._postcopy and not (self._controls.postcopy and self._copies_disks):
                self._end(self._controls.timed_out)
        self._recover_if_stalled()

    def _recover_if_stalled(self) -> None:
        """libvirt and QEMU are to end this by themselves. When they do not, they wait for a network that is gone."""
        hopeless = self.reason is not None or not self._controls.reached()
        # After a switch to post-copy the machine is on both hypervisors, and may go on when the network comes back.
        if not hopeless or self._postcopy:
            self._hopeless_since = None
            return
        now = time.monotonic()
        if self._hopeless_since is None:
            self._hopeless_since = now
        elif now - self._hopeless_since > _STALL_SECONDS:
            self._hopeless_since = now
            close_stalled_connections(self._domain.name())

    def _on_progress(self, stats: dict[str, t.Any]) -> None:
        """libvirt sends the disks first, then memory with what the disks have changed meanwhile."""
        memory_total = stats.get("memory_total", 0)
        if memory_total:
            phase, kind = "memory (post-copy)" if self._postcopy else "memory", "memory"
        elif stats.get("disk_total", 0):
            phase, kind = DISKS, "disk"
        else:
            return
        total = stats.get(f"{kind}_total", 0)
        self._controls.on_progress(phase, total - stats.get(f"{kind}_remaining", 0), total)

    def _switch_to_postcopy(self) -> None:
        if not self._postcopy:
            with contextlib.suppress(libvirt.libvirtError):
                self._domain.migrateStartPostCopy(0)
                self._postcopy = True

    def _end(self, reason: Exception) -> None:
        """Asked again at every look: the first time may have been too early, or too late to count."""
        with contextlib.suppress(libvirt.libvirtError):
            self._domain.abortJob()
            if self.reason is None:
                self.reason = reason


def close_stalled_connections(machine: str) -> None:
    """Close what a machine's QEMU on this host is sending itself over. Where that cannot be done, TCP's limit stays.

    QEMU copies disks over TCP without a time limit. When the network to the target breaks, it waits as long as TCP
    does, which is a quarter of an hour; libvirt waits for QEMU, and a guest that writes to such a disk waits too.
    """
    with contextlib.suppress(OSError, ValueError, HostError):
        with open(f"/run/libvirt/qemu/{machine}.pid", encoding="ascii") as file:
            pid = int(file.read())
        answer = run_program(["ss", "-Htnp"], timeout_seconds=_WAIT_SECONDS)
        for here, there in links(answer.text, pid, migration_ports()):
            run_program(["ss", "-KHt", "src", here, "dst", there], timeout_seconds=_WAIT_SECONDS)


def links(listing: str, pid: int, ports: t.Container[int]) -> Iterator[tuple[str, str]]:
    """Both ends of a process's connections to these ports of other hosts, in what ``ss -Htnp`` writes."""
    for words in columns_of_process(listing, pid):
        port = words[4].rpartition(":")[2]
        if port.isdigit() and int(port) in ports:
            yield words[3], words[4]


def columns_of_process(listing: str, pid: int) -> Iterator[list[str]]:
    """The lines about a process's connections in what ``ss -Htnp`` writes, in six columns.

    These are the state, two queues, this end, the other end, and all that ``-p`` and further options say.
    """
    for line in listing.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and re.search(rf"\bpid={pid}\b", words[5]):
            yield words
