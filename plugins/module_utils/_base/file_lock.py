# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock on a file, with a limit to the waiting. The kernel lets go of it when its process dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

_POLL_SECONDS = 0.1


class LockTimeout(TimeoutError):
    """Somebody else has held the lock all the while; who asked knows what to say of it."""


def lock_descriptor(descriptor: int, patience_seconds: float) -> None:
    """Lock an open file for this process alone, by flock(2). Raises LockTimeout; OSError where it cannot be locked."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LockTimeout(f"locked by somebody else for more than {patience_seconds:g} s") from None
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def locked_file(path: str, patience_seconds: float) -> t.Iterator[None]:
    """Hold the lock of a file for the block. The file is made where it is missing, for its owner alone, and stays.

    Raises LockTimeout, and OSError where it cannot be opened; a link is not followed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_descriptor(descriptor, patience_seconds)
        yield
    finally:
        os.close(descriptor)
