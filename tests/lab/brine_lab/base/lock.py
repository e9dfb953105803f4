# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""One command at a time: locks that the kernel lets go of when their holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brine_lab.base.say import LabError, say

RUN = Path("/run/lock")


@contextmanager
def locked(name: str, *, wait_seconds: int = 3600) -> Iterator[None]:
    """Hold the machine-wide lock `name`; say so when it has to be waited for."""
    RUN.mkdir(parents=True, exist_ok=True)
    path = RUN / f"brine-virt-lab-{name}.lock"
    deadline = time.monotonic() + wait_seconds
    said = False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 20).decode(errors="replace").strip() or "?"
            os.close(handle)
            if time.monotonic() > deadline:
                raise LabError(
                    f"Process {holder} has held {path} for {wait_seconds} s; end it and try again."
                ) from None
            if not said:
                say(f"waiting for process {holder}, which works on the same thing ({name})")
                said = True
            time.sleep(0.5)
            continue
        # The holder before us removed the file: we hold the lock of a file that nobody else will see. Again.
        try:
            same = os.stat(path).st_ino == os.fstat(handle).st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(handle)
    try:
        os.truncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
