# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a machine has crashed lately."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._events import crashes
from ansible_collections.brine.virt.plugins.plugin_utils._events.crashes import WINDOW_SECONDS, CrashCounter


def crash(uuid: str = "a", hypervisor: str = "hv1", reason: str = "failed") -> dict[str, str]:
    return {"change": "stopped", "reason": reason, "uuid": uuid, "hypervisor": hypervisor}


def test_only_crashes_count_each_machine_and_hypervisor_by_itself() -> None:
    counter = CrashCounter()
    assert [counter.counted(crash(), now)["crashes"] for now in (1.0, 1.5)] == [1, 2]
    assert counter.counted(crash(reason="crashed"), 2.0)["crashes"] == 3
    assert counter.counted(crash("b"), 2.0)["crashes"] == 1
    assert counter.counted(crash(hypervisor="hv2"), 2.0)["crashes"] == 1
    none: list[dict[str, t.Any]] = [{"reason": "shutdown"}, {"change": "started"}, {"arriving": True}]
    for event in (*({**crash(), **more} for more in none), {"type": "reboot"}):
        assert counter.counted(event, 3.0) == event


def test_what_is_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = CrashCounter()
    counter.counted(crash(), 0.0)
    assert counter.counted(crash(), WINDOW_SECONDS)["crashes"] == 2
    assert counter.counted(crash(), WINDOW_SECONDS + 1)["crashes"] == 2
    monkeypatch.setattr(crashes, "_MOST_MACHINES", 2)
    for uuid in ("b", "c", "d"):
        counter.counted(crash(uuid), WINDOW_SECONDS + 1)
    assert counter.counted(crash(), WINDOW_SECONDS + 2)["crashes"] == 1
