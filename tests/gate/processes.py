# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the gate runs: each leads a session of its own, so that all that it started ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

# How long a program that was asked to end may tidy up.
GRACE_SECONDS = 30
# As nice takes it: a tenth of a processor beside somebody who wants all of it. With 19 it would be a seventieth, and
# tests that take a second by themselves would be told of time limits of half a minute.
LOW_PRIORITY = 10


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process that leads a session of its own, and to everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def step_back(process: subprocess.Popen[bytes]) -> None:
    """Let a process that leads a session, and all that it starts, have a small share beside others.

    Linux shares the processors among sessions first (man 7 sched, «The autogroup feature»): nice within a session says
    nothing to the others.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, process.pid, LOW_PRIORITY)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(str(LOW_PRIORITY), encoding="ascii")


def wait_for(process: subprocess.Popen[bytes], timeout_seconds: float, is_stopped: t.Callable[[], bool]) -> int | None:
    """Return the exit code of a process, or None when it had to be ended after `timeout_seconds`.

    Once `is_stopped()` says that somebody has asked the process to end, it has GRACE_SECONDS. Polls, so that a signal
    handler that runs in between never waits for a lock that this function holds.
    """
    began = time.monotonic()
    asked = None
    overdue = False
    while process.poll() is None:
        now = time.monotonic()
        if asked is None and now - began >= timeout_seconds:
            overdue = True
            signal_group(process, signal.SIGTERM)
        if asked is None and (overdue or is_stopped()):
            asked = now
        if asked is not None and now - asked >= GRACE_SECONDS:
            signal_group(process, signal.SIGKILL)
        time.sleep(0.1)
    return None if overdue else process.returncode
