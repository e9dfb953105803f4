# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened while nobody listened is found by comparing the machines before and after."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._events.machines import (
    KnownMachines,
    SeenMachine,
    still_arriving,
)

STATES: dict[str, SeenMachine | None] = {
    "gone": None,
    "off": SeenMachine("u", "web1", "shutoff", None, "failed"),
    "up": SeenMachine("u", "web1", "running", 5),
    "paused": SeenMachine("u", "web1", "paused", 5, "ioerror"),
    "up again": SeenMachine("u", "web1", "running", 6),
}
MISSED = {
    ("gone", "off"): ["defined"],
    ("gone", "up"): ["defined", "started"],
    ("gone", "paused"): ["defined", "started", "suspended ioerror"],
    ("off", "gone"): ["undefined"],
    ("off", "up"): ["started"],
    ("off", "paused"): ["started", "suspended ioerror"],
    ("up", "gone"): ["stopped", "undefined"],
    ("up", "off"): ["stopped failed"],
    ("up", "paused"): ["suspended ioerror"],
    ("up", "up again"): ["stopped", "started"],
    ("paused", "gone"): ["stopped", "undefined"],
    ("paused", "off"): ["stopped failed"],
    ("paused", "up"): ["resumed"],
    ("paused", "up again"): ["stopped", "started"],
    ("up again", "gone"): ["stopped", "undefined"],
    ("up again", "off"): ["stopped failed"],
}


def words(events: list[dict[str, t.Any]]) -> list[str]:
    assert all(event["missed"] and event["type"] == "lifecycle" and event["uuid"] == "u" for event in events)
    return [f"{event['change']} {event['reason']}".removesuffix(" unknown") for event in events]


def seen(state: str) -> list[SeenMachine]:
    machine = STATES[state]
    return [] if machine is None else [machine]


@pytest.mark.parametrize(("before", "after"), [*MISSED, *((state, state) for state in STATES)])
def test_every_change_between_two_looks_is_found(before: str, after: str) -> None:
    known = KnownMachines()
    assert known.compare(seen(before)) == []
    assert words(known.compare(seen(after))) == MISSED.get((before, after), [])
    assert known.compare(seen(after)) == []


def test_one_that_runs_under_the_same_number_after_its_host_has_restarted_was_started_anew() -> None:
    """libvirt counts from 1 again then."""
    known = KnownMachines()
    known.compare(seen("up"))
    assert words(known.compare(seen("up"), host_restarted=True)) == ["stopped", "started"]
    assert words(known.compare(seen("off"), host_restarted=True)) == ["stopped failed"]
    assert known.compare(seen("off"), host_restarted=True) == []


def test_a_move_that_lasts_longer_than_a_silence_is_not_forgotten() -> None:
    """Its end would pass for a crash if it fails."""
    waits, runs = SeenMachine("u", "web1", "paused", 7, "migration"), SeenMachine("u", "web1", "running", 7)
    known = KnownMachines()
    known.compare([])
    missed = known.compare([waits])
    # It has come in the silence, or before it.
    assert still_arriving([], missed, [waits]) == {"u"}
    assert still_arriving(["u"], known.compare([waits]), [waits]) == {"u"}
    # It has arrived, or failed.
    assert still_arriving(["u"], [], [runs]) == still_arriving(["u"], [], []) == set()
    # It leaves, and has been here all the time.
    assert still_arriving([], [], [waits]) == set()


def test_a_new_name_is_found_as_libvirt_tells_it() -> None:
    known = KnownMachines()
    known.compare(seen("up"))
    found = known.compare([SeenMachine("u", "web2", "running", 6)])
    assert words(found) == ["stopped", "undefined renamed", "defined renamed", "started"]
    assert [one["machine"] for one in found[1:3]] == ["web1", "web2"]
    assert known.compare([SeenMachine("u", "web2", "running", 6)]) == []


def event(change: str, reason: str = "unknown") -> dict[str, t.Any]:
    return {"type": "lifecycle", "machine": "web1", "uuid": "u", "change": change, "reason": reason, "missed": False}


@pytest.mark.parametrize("told_first", [True, False])
def test_what_libvirt_tells_and_what_a_look_finds_agree(told_first: bool) -> None:
    """Whichever comes first, the other one has nothing new to say."""
    told: dict[str, list[tuple[str, int | None]]] = {
        "off": [("stopped", None)],
        "up": [("started", 5)],
        "paused": [("suspended", 5)],
        "gone": [("stopped", None), ("undefined", None)],
    }
    for before, after in itertools.permutations(told, 2):
        known = KnownMachines()
        known.compare(seen(before))
        events = list(told[after])
        if after == "paused" and before in ("off", "gone"):
            events.insert(0, ("started", 5))
        if told_first:
            for change, number in events:
                known.note(event(change), number)
            assert known.compare(seen(after)) == [], (before, after)
        else:
            known.compare(seen(after))
            # The last one says where it has come to.
            assert not known.note(event(*events[-1][:1]), events[-1][1]), (before, after)


def test_one_that_runs_without_a_definition_goes_when_it_stops() -> None:
    known = KnownMachines()
    known.compare(seen("up"))
    assert known.note(event("undefined"), 5)
    assert known.compare(seen("up")) == []
    known.note(event("stopped"), None)
    assert words(known.compare([])) == ["undefined"]


@pytest.mark.parametrize(
    ("before", "told", "later"),
    [
        # Its definition goes first, as with `virsh undefine`; what has been told is not told once more.
        ("up", [("undefined", 5), ("stopped", None)], []),
        ("up", [("undefined", 5)], ["stopped"]),
        # A move brings it, and fails: it never had a definition here.
        ("gone", [("started", 7), ("stopped", None)], []),
        ("gone", [("started", 7)], ["stopped"]),
        # One that arrives has its definition at the end, and one that runs may get one.
        ("gone", [("started", 7), ("defined", 7), ("stopped", None)], ["undefined"]),
        ("up", [("undefined", 5), ("defined", 5), ("stopped", None)], ["undefined"]),
    ],
)
def test_that_a_definition_has_gone_is_told_once(
    before: str, told: list[tuple[str, int | None]], later: list[str]
) -> None:
    known = KnownMachines()
    known.compare(seen(before))
    assert all(known.note(event(change), number) for change, number in told)
    assert words(known.compare([])) == later
