# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines about a transfer, at fitting times."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._model.meter import ProgressMeter, describe, format_seconds


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_short_transfer_says_nothing() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    for clock.now in (100.5, 101.0, 102.9):
        meter.at("disks", 10 * MIB, 20 * MIB)
    assert lines == []


def test_lines_come_in_intervals_with_rate_and_end() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    meter.at("disks", 0, 100 * MIB)
    for second in range(1, 8):
        clock.now = 100.0 + second
        meter.at("disks", second * 10 * MIB, 100 * MIB)
    assert lines == [
        "web1: disks 30 %, 30.0M of 100.0M, 10 MiB/s, about 7 s left",
        "web1: disks 50 %, 50.0M of 100.0M, 10 MiB/s, about 5 s left",
        "web1: disks 70 %, 70.0M of 100.0M, 10 MiB/s, about 3 s left",
    ]


def test_another_phase_begins_at_zero() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock, quiet_seconds=0)
    meter.at("disks", 50 * MIB, 100 * MIB)
    clock.now += 4
    meter.at("memory", 0, 10 * MIB)
    clock.now += 2
    meter.at("memory", 4 * MIB, 10 * MIB)
    assert lines[1:] == [
        "web1: memory 0 %, 0.0B of 10.0M",
        "web1: memory 40 %, 4.0M of 10.0M, 2 MiB/s, about 3 s left",
    ]


def test_long_transfers_are_told_less_often() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    for second in range(3600):
        clock.now = 100.0 + second
        meter.at("disks", second * MIB, 3600 * MIB)
    assert 100 < len(lines) < 240
    assert lines[-1].startswith("web1: disks 99 %")


def test_without_a_total_only_what_is_done_is_said() -> None:
    assert describe("debian", "download", 3 * MIB, None, MIB) == "debian: download 3.0M, 1 MiB/s"


def test_a_total_that_was_passed_is_no_more_than_all_of_it() -> None:
    assert describe("a", "memory", 30, 20, 0) == "a: memory 100 %, 20.0B of 20.0B"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (250, "4 min 10 s"), (7500, "2 h 5 min")])
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_line_that_cannot_be_said_stops_nothing() -> None:
    def fail(_line: str) -> None:
        raise BrokenPipeError("nobody reads")

    ProgressMeter(fail, "web1", quiet_seconds=0).at("disks", 1, 2)
    ProgressMeter(fail, "web1", quiet_seconds=0).at("disks", "not a number", 0)  # type: ignore[arg-type]
