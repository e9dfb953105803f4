# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for the rules keeps its order and its limit."""

from __future__ import annotations

import threading

from ansible_collections.brine.virt.plugins.plugin_utils._events.buffer import EventBuffer


def test_what_does_not_fit_is_counted() -> None:
    buffer: EventBuffer[int] = EventBuffer(3)
    for number in range(5):
        buffer.put(number)
    assert [buffer.take() for _number in range(3)] == [0, 1, 2]
    assert buffer.take() is None
    assert (buffer.lost(), buffer.lost()) == (2, 0)
    buffer.put(5)
    assert buffer.take() == 5


def test_what_waits_at_the_end_is_still_taken() -> None:
    buffer: EventBuffer[int] = EventBuffer(3)
    buffer.put(1)
    buffer.end()
    assert not buffer.is_over()
    assert (buffer.take(), buffer.take()) == (1, None)
    assert buffer.is_over()


def test_who_waits_is_woken() -> None:
    buffer: EventBuffer[int] = EventBuffer(3)
    taken: list[int | None] = []
    thread = threading.Thread(target=lambda: taken.extend([buffer.take(), buffer.take()]))
    thread.start()
    buffer.put(1)
    buffer.end()
    thread.join(600)
    assert taken == [1, None]


def test_nobody_waits_for_longer_than_told() -> None:
    buffer: EventBuffer[int] = EventBuffer(3)
    assert buffer.take(0.01) is None
    assert (buffer.lost(), buffer.is_over()) == (0, False)
    buffer.put(1)
    assert buffer.take(0.0) == 1
