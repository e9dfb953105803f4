# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host was started anew between two answers."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.plugin_utils._events.uptime import Uptime, ask_uptime
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._events.conftest import SHARED

_DAY = 86400.0


@pytest.mark.parametrize(
    ("earlier", "later", "other"),
    [
        # Up for 40 days, and for 31 s after the reboot.
        ((40 * _DAY, 0), (31, 90), True),
        # And once more: it takes the host a little longer, or a little less, to be there again.
        ((31, 90), (33, 190), True),
        ((31, 90), (29, 190), True),
        # Only libvirtd was restarted, or the network was away.
        ((31, 0), (61, 30), False),
        ((40 * _DAY, 0), (45 * _DAY, 5 * _DAY), False),
        # CPUs do not count what another machine has stolen from them.
        ((3600, 0), (3600 + 0.9 * 1800, 1800), False),
        # A reboot in the midst of a long silence.
        ((_DAY, 0), (2 * _DAY, 3 * _DAY), True),
    ],
)
def test_a_host_that_is_up_for_less_than_the_time_since_then_was_restarted(
    earlier: tuple[float, float], later: tuple[float, float], other: bool
) -> None:
    assert Uptime(*later).is_of_another_boot_than(Uptime(*earlier)) is other


def test_what_the_first_cpu_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sum of all, it would fall when a CPU is taken out."""
    conn = libvirt.open(SHARED)
    asked: list[t.Any] = []

    def stats(_conn: t.Any, *which: t.Any) -> dict[str, int]:
        asked.append(which)
        return {"user": 10**9, "kernel": 2 * 10**9, "idle": 30 * 10**9, "iowait": 0}

    monkeypatch.setattr(libvirt.virConnect, "getCPUStats", stats)
    before = time.monotonic()
    uptime = ask_uptime(conn)
    assert uptime is not None
    assert (uptime.seconds, asked) == (33.0, [(0, 0)])
    assert before <= uptime.at <= time.monotonic()
    monkeypatch.setattr(libvirt.virConnect, "getCPUStats", lambda *_given: {})
    assert ask_uptime(conn) is None
    monkeypatch.undo()
    conn.close()
    assert ask_uptime(conn) is None
