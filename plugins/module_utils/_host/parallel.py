# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many calls side by side, in daemon threads with one time limit.

Not ``concurrent.futures``: its threads are joined when Python exits, so that a single call that never comes back
would keep the whole program from ending.
"""

from __future__ import annotations

import queue
import threading
import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnreachableError, VirtError, as_virt_error

Item = t.TypeVar("Item")
Value = t.TypeVar("Value")


@dataclass(frozen=True)
class ItemResult(t.Generic[Value]):
    """What became of one item: its value, or the error instead."""

    value: Value | None = None
    error: VirtError | None = None


def run_in_time(work: t.Callable[[], Value], timeout_seconds: float, late: str = "no answer") -> Value:
    """What ``work()`` returns. Raises UnreachableError when that takes longer, and leaves its thread behind.

    late: what the error says then, before the time. What the work returns after all is dropped.
    """
    (outcome,) = map_in_threads(lambda _nothing: work(), [None], threads=1, timeout_seconds=timeout_seconds, late=late)
    if outcome.error is not None:
        raise outcome.error
    return t.cast("Value", outcome.value)


def map_in_threads(
    work: t.Callable[[Item], Value],
    items: Sequence[Item],
    *,
    threads: int,
    timeout_seconds: float | None = None,
    late: str = "no answer",
) -> list[ItemResult[Value]]:
    """``work(item)`` for every item, at most ``threads`` at once; outcomes stand in the order of the items.

    timeout_seconds: limit for all of them together; what has no answer by then has an UnreachableError, and its
    thread is left behind. late: what that error says, before the time. Whatever an item raises is its outcome alone;
    what is no VirtError becomes one (as_virt_error).
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Value | None, Exception | None]] = queue.SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, work(items[index]), None))
            except Exception as exc:  # carried to the thread that asked
                done.put((index, None, exc))

    for _number in range(min(threads, len(items))):
        threading.Thread(target=run, daemon=True).start()

    unanswered: ItemResult[Value] = ItemResult(error=UnreachableError(f"{late} within {timeout_seconds or 0:g} s"))
    outcomes = [unanswered] * len(items)
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    try:
        for _item in items:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            index, value, error = done.get(timeout=left)
            outcomes[index] = ItemResult(value, None if error is None else as_virt_error(error))
    except queue.Empty:
        pass  # the time is up: the rest stays unanswered
    finally:
        stop.set()
    return outcomes
