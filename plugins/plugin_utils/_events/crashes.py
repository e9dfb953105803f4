# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a machine has crashed lately, so that a rule can start it again and give up at some time."""

from __future__ import annotations

import threading
import time
from collections import deque

from .machines import Event

# What is longer ago does not count.
WINDOW_SECONDS = 600.0
# Far more machines than crash in that time; the ones that crashed first are forgotten first.
_MOST_MACHINES = 10000


class CrashCounter:
    """Counts the crashes of each machine on each hypervisor; the end of a move that has failed is none."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._lock = threading.Lock()

    def counted(self, event: Event, now: float | None = None) -> Event:
        """The event, and if it is a crash with ``crashes``: how many there were in the window, this one included.

        now: seconds on a clock that only goes forward.
        """
        crashed = event.get("change") == "stopped" and event.get("reason") in ("failed", "crashed")
        if not crashed or event.get("arriving"):
            return event
        now = time.monotonic() if now is None else now
        key = str(event.get("uuid")), str(event.get("hypervisor"))
        with self._lock:
            times = self._times.pop(key, deque())
            times.append(now)
            while times[0] < now - WINDOW_SECONDS:
                times.popleft()
            self._times[key] = times
            while len(self._times) > _MOST_MACHINES:
                del self._times[next(iter(self._times))]
            return {**event, "crashes": len(times)}
