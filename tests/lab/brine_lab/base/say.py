# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What the lab says while it works, and the one kind of error it ends with."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STARTED = time.monotonic()
HEARTBEAT_SECONDS = 15


class LabError(Exception):
    """Something the user should read: one clear sentence, perhaps followed by what was last seen.

    `exit_code` 2 means that a prerequisite is missing and nothing was changed.
    """

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def say(text: str) -> None:
    """Print a line of progress with the seconds since the start, on standard error: standard output is for results."""
    print(f"[{time.monotonic() - STARTED:4.0f}s] {text}", file=sys.stderr, flush=True)


@contextmanager
def alive(doing: str, last_seen: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Say `doing` at once, and again every few seconds for as long as the block runs, with what was seen last."""
    say(doing)
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            seen = last_seen()
            say(f"{doing}: {time.monotonic() - started:.0f} s{f', now: {seen}' if seen else ''}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
