# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Find and end the lab's processes by the mark in their environment; there are no pid files that could be stale."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from brine_lab.base.commands import MARK
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError


@dataclass(frozen=True)
class Process:
    """A running process of the lab; `role` is what it was started for, for example `host:hv1`."""

    pid: int
    role: str
    name: str


def find(lab: Lab, role: str | None = None) -> list[Process]:
    """The running processes of this lab (all, or those of one role), never this program itself."""
    prefix = f"{MARK}={lab.id}:".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            status = (entry / "stat").read_text()
        except OSError:  # gone meanwhile, or a kernel thread
            continue
        its_role = next((item[len(prefix) :].decode() for item in environ if item.startswith(prefix)), None)
        if its_role is None or (role is not None and its_role != role) or status.rsplit(")", 1)[1].split()[0] in "ZX":
            continue
        found.append(Process(int(entry.name), its_role, status.split("(", 1)[1].rsplit(")", 1)[0]))
    return found


def container_init(lab: Lab, host: str) -> int | None:
    """The process that is process 1 inside a host, or None when the host does not run."""
    for process in find(lab, f"host:{host}"):
        for child in _children(process.pid):
            try:
                other = os.readlink(f"/proc/{child}/ns/pid") != os.readlink("/proc/self/ns/pid")
            except OSError:
                continue
            if other:
                return child
    return None


def end(lab: Lab, role: str | None = None, *, wait_seconds: float = 10) -> int:
    """End the processes of a role (None: all), politely first; return how many there were."""
    first = find(lab, role)
    for process in first:
        if process.role.startswith("host:"):
            # The kernel ends a whole container with its process 1, and systemd-nspawn then tidies up after itself.
            init = container_init(lab, process.role.removeprefix("host:"))
            if init is not None:
                _signal(init, signal.SIGKILL)
                continue
        _signal(process.pid, signal.SIGTERM)
    for how, deadline in ((signal.SIGKILL, wait_seconds / 2), (None, wait_seconds)):
        started = time.monotonic()
        while (left := find(lab, role)) and time.monotonic() - started < deadline:
            time.sleep(0.05)
        for process in left if how else ():
            _signal(process.pid, signal.SIGKILL)
        if not left:
            return len(first)
    raise LabError(f"These processes do not end: {', '.join(f'{p.name} ({p.pid})' for p in left)}.")


def kill(lab: Lab, role: str, *, wait_seconds: float = 10) -> None:
    """End the processes of a role at once, a host with all that runs in it."""
    init = container_init(lab, role.removeprefix("host:")) if role.startswith("host:") else None
    for pid in [init] if init is not None else [process.pid for process in find(lab, role)]:
        _signal(pid, signal.SIGKILL)
    started = time.monotonic()
    while find(lab, role):
        if time.monotonic() - started > wait_seconds:
            raise LabError(f"The processes of {role} do not end.")
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
