# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a machine was started: one that runs, the last time, or since somebody began to watch it.

libvirt itself tells only the latter, as an event, even if it is off again; its process and libvirt's log tell the rest.
Block devices have no times that could tell it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import threading
import time
import typing as t
import zlib

from ..._model.metadata.snapshots import SnapshotWork
from ..connection import VirConnect, libvirt, run_events, translate_errors
from ..identity import process_start_ticks

# An event that came before an answer over the same connection may be handed on a little later.
_SETTLE_SECONDS = 0.5
# Where libvirt's qemu:///system writes which process a machine is.
_RUN = "/run/libvirt/qemu"
_LOGS = "/var/log/libvirt/qemu"
# What follows ".log" in the names of logs that were rotated.
_ROTATED = re.compile(r"(?:[.-]\d+)?(?:\.gz)?")
# qemuLogOperation in libvirt's src/qemu/qemu_process.c; so it is in logs of libvirt 1.3.1 to 9.0
_STARTING = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+\d{4}): starting up libvirt ")
# QEMU's words for a disk that it is given at its start (raw_check_lock_bytes in block/file-posix.c), and libvirt's for
# how it ended (qemuDomainLogAppendMessage in qemuProcessStop, src/qemu/qemu_process.c).
_LOCKED = re.compile(rb"-(?:blockdev|drive) .*: Failed to get .*\block\b")
_FAILED = re.compile(rb"\d{4}-\d\d-\d\d [\d:.]+\+\d{4}: shutting down, reason=failed$")


def started_at(machine: str, run: str = _RUN) -> float | None:
    """When the QEMU of a machine that runs on this host was started, in seconds since 1970; None where nobody can see.

    By the clock of now: it may have been set since.
    """
    try:
        with open(os.path.join(run, f"{os.path.basename(machine)}.pid"), encoding="ascii") as file:
            ticks = process_start_ticks(int(file.read()))
    except (OSError, ValueError):
        return None
    return None if ticks is None else booted_at() + ticks / os.sysconf("SC_CLK_TCK")


def booted_at() -> float:
    """When this host was started, in seconds since 1970, by the clock of now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def last_start(machine: str, folder: str = _LOGS) -> str:
    """When the QEMU of a machine was last started on this host, as libvirt's log of it says; empty where it does not.

    For comparison: the log outlives machine, daemon and host. virtlogd puts the last 2 MiB into NAME.log.0, and so on;
    the distributions' logrotate into NAME.log.1.gz, or NAME.log-20260131.
    A start that ended because somebody else had locked a disk is none: no guest ran.
    """
    for path in _logs_of(os.path.basename(machine), folder):
        found = before = b""
        locked = False
        with contextlib.suppress(OSError, EOFError, zlib.error), _open_log(path) as log:
            for line in log:
                if begin := _STARTING.match(line):
                    before, found, locked = found, begin[1], False
                elif _LOCKED.search(line):
                    locked = True
                elif locked and _FAILED.match(line):
                    found = before
        if found:
            return found.decode()
    return ""


def _logs_of(machine: str, folder: str) -> list[str]:
    """The paths of a machine's logs, the newest first."""
    times = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(f"{machine}.log") and _ROTATED.fullmatch(name[len(machine) + 4 :]):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    # The one that is written to counts as newer than all others, whose times may be copies of its own.
                    times.append((name == f"{machine}.log", os.stat(path).st_mtime_ns, path))
    return [path for _current, _time, path in sorted(times, reverse=True)]


def _open_log(path: str) -> t.IO[bytes]:
    return t.cast("t.IO[bytes]", gzip.open(path) if path.endswith(".gz") else open(path, "rb"))


def is_off_since(work: SnapshotWork, machine: str) -> bool:
    """Whether a machine that is off was so when the deletion of a snapshot was begun, and was not started since: it has
    written to none of the files then."""
    return work.off and work.started is not None and work.started == last_start(machine)


class StartWatch:
    """Watches one machine from the beginning until close().

    conn: a connection that was opened after run_events(), or libvirt has no events for it.
    """

    def __init__(self, conn: VirConnect, domain: t.Any) -> None:
        run_events()
        self._conn = conn
        self._domain = domain
        self._started = threading.Event()
        with translate_errors(f"cannot watch machine {domain.name()}"):
            self._id: int | None = conn.domainEventRegisterAny(
                domain, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._note, None
            )

    def _note(self, _conn: t.Any, _domain: t.Any, event: int, _detail: int, _opaque: t.Any) -> None:
        if event in (libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_RESUMED):
            self._started.set()

    def was_started(self) -> bool | None:
        """Whether it was started; None when nobody can know, because libvirt's daemon has gone away meanwhile."""
        try:
            # An answer means that the connection, and what was registered on it, is the same as in the beginning.
            if not self._conn.isAlive() or self._domain.isActive():
                return True if self._conn.isAlive() else None
        except libvirt.libvirtError:
            return None
        return self._started.wait(_SETTLE_SECONDS)

    def close(self) -> None:
        """End; may be called twice."""
        number, self._id = self._id, None
        if number is not None:
            with contextlib.suppress(libvirt.libvirtError):
                self._conn.domainEventDeregisterAny(number)
