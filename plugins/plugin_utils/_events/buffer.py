# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events that wait for the rules: as many as were asked for, and the number of those for which there was no room."""

from __future__ import annotations

import threading
import typing as t
from collections import deque

Item = t.TypeVar("Item")


class EventBuffer(t.Generic[Item]):
    """Between libvirt's event loop, which must not wait, and the rules, which may take their time."""

    def __init__(self, size: int) -> None:
        """size: how many may wait."""
        self._size = size
        self._items: deque[Item] = deque()
        self._lost = 0
        self._ended = False
        self._changed = threading.Condition()

    def put(self, item: Item) -> None:
        """Add one, or count it as lost."""
        with self._changed:
            if len(self._items) >= self._size:
                self._lost += 1
            else:
                self._items.append(item)
            self._changed.notify()

    def end(self) -> None:
        """Nothing more comes. What waits can still be taken."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def take(self, seconds: float | None = None) -> Item | None:
        """The oldest, waiting for one, and no longer than so many seconds; None when nothing waits, and either some
        were lost or nothing more comes, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._lost or self._ended, seconds)
            return self._items.popleft() if self._items else None

    def is_over(self) -> bool:
        """Whether nothing waits and nothing more comes."""
        with self._changed:
            return self._ended and not self._items

    def lost(self) -> int:
        """How many were lost since this was asked last."""
        with self._changed:
            lost, self._lost = self._lost, 0
            return lost

    def __len__(self) -> int:
        return len(self._items)
