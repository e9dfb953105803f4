# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines about a transfer, at fitting times."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._host.progress import (
    HowFar,
    ProgressMeter,
    describe,
    format_seconds,
)


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
        "web1: disks 30%, 30.0M of 100.0M, 10 MiB/s, about 7 s left",
        "web1: disks 50%, 50.0M of 100.0M, 10 MiB/s, about 5 s left",
        "web1: disks 70%, 70.0M of 100.0M, 10 MiB/s, about 3 s left",
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
        "web1: memory 0%, 0.0B of 10.0M",
        "web1: memory 40%, 4.0M of 10.0M, 2 MiB/s, about 3 s left",
    ]


def test_long_transfers_are_told_less_often() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    for second in range(3600):
        clock.now = 100.0 + second
        meter.at("disks", second * MIB, 3600 * MIB)
    assert 100 < len(lines) < 240
    assert lines[-1].startswith("web1: disks 99%")


def test_where_nobody_can_tell_how_far_it_is_the_time_is_said() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    meter.turn_to("revert web1 to snapshot a (running)")
    for clock.now in (101.0, 103.0, 104.0, 165.0):
        meter.still()
    assert lines == [
        "revert web1 to snapshot a (running): 3 s so far",
        "revert web1 to snapshot a (running): 1 min 5 s so far",
    ]
    meter.still("volume web1-data, 2 of 2")
    clock.now = 170.0
    meter.still("volume web1-data, 2 of 2")
    assert lines[2:] == [], "nothing to read every two seconds"
    clock.now = 175.0
    meter.still("volume web1-data, 2 of 2")
    assert lines[2:] == ["revert web1 to snapshot a (running): volume web1-data, 2 of 2, 1 min 15 s so far"]


def test_another_piece_of_work_begins_at_zero_and_brings_its_line_no_sooner() -> None:
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock)
    meter.turn_to("delete snapshot b of web1")
    meter.at("merge of disk vda", 0, 100 * MIB)
    clock.now = 102.0
    meter.at("merge of disk vda", 90 * MIB, 100 * MIB)
    meter.turn_to("delete snapshot a of web1")
    meter.at("merge of disk vda", 0, 10 * MIB)
    clock.now = 104.0
    meter.at("merge of disk vda", 2 * MIB, 10 * MIB)
    meter.still()
    clock.now = 106.0
    meter.still()
    assert lines == [
        "delete snapshot a of web1: merge of disk vda 20%, 2.0M of 10.0M, 1 MiB/s, about 8 s left",
        "delete snapshot a of web1: 4 s so far",
    ]


def test_what_tells_percents_has_its_end_by_all_of_its_time() -> None:
    """qemu-img tells each percent once, and of a big disk that may be minutes later."""
    clock, lines = _Clock(), list[str]()
    meter = ProgressMeter(lines.append, "web1", clock=clock, quiet_seconds=0)
    for clock.now, percent in ((100.0, 0.0), (160.0, 10.99), (190.0, 10.99), (310.0, 100.0)):
        meter.at_percent("comparing disk vda", percent)
    meter.show(HowFar("disk vdb", percent=50.0))
    clock.now = 330.0
    meter.show(HowFar("disk vdb", percent=60.0))
    assert lines == [
        "web1: comparing disk vda 0%",
        "web1: comparing disk vda 10%, about 8 min 6 s left",
        "web1: comparing disk vda 10%, about 12 min 9 s left",
        "web1: comparing disk vda 100%, about 0 s left",
        "web1: disk vdb 60%, about 1 min 20 s left",
    ]


def test_what_somebody_else_has_found_out_is_shown_as_it_is_known() -> None:
    lines = list[str]()
    meter = ProgressMeter(lines.append, "web1", quiet_seconds=0)
    for far in (HowFar("merge", 1, 2), HowFar("merge", 1), HowFar("merge"), HowFar("merge", percent=3.7)):
        meter._next = 0  # noqa: SLF001 - each of them at once
        meter.show(far)
    assert lines == ["web1: merge 50%, 1.0B of 2.0B", "web1: merge 1.0B", "web1: merge, 0 s so far", "web1: merge 3%"]


def test_without_a_total_only_what_is_done_is_said() -> None:
    assert describe("debian", "download", 3 * MIB, None, MIB) == "debian: download 3.0M, 1 MiB/s"


def test_a_total_that_was_passed_is_no_more_than_all_of_it() -> None:
    assert describe("a", "memory", 30, 20, 0) == "a: memory 100%, 20.0B of 20.0B"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (250, "4 min 10 s"), (7500, "2 h 5 min")])
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_line_that_cannot_be_said_stops_nothing() -> None:
    def fail(_line: str) -> None:
        raise BrokenPipeError("nobody reads")

    ProgressMeter(fail, "web1", quiet_seconds=0).at("disks", 1, 2)
    ProgressMeter(fail, "web1", quiet_seconds=0).at("disks", "not a number", 0)  # type: ignore[arg-type]
    ProgressMeter(fail, "web1", quiet_seconds=0).still()
    ProgressMeter(fail, "web1", quiet_seconds=0).at_percent("disks", 1.0)
