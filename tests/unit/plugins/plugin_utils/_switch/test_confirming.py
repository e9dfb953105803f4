# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of a host that changes its network, how long, and what it says of one that went back."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._switch.confirming import (
    BEFORE_SECONDS,
    Answer,
    Confirmation,
    NoAnswer,
)

BEGUN = {"change": "bridge-br0", "token": "0123", "apply_seconds": 40, "settle_seconds": 90}
APPLIED, CONFIRMED = {"state": "applied"}, {"state": "confirmed"}
BACK = {"state": "rolled_back", "log": ["10:15:02 undoing it", "10:15:09 everything is as before"], "missing": []}
LOST, SILENT = "lost", "silent"
Script = dict[str, list[t.Any]]


class Host:
    """Answers each phase in turn, the last answer for good. A question without an answer takes 5 s."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.now = 0.0
        self.asked: list[tuple[str, float]] = []

    def call(self, phase: str) -> Answer:
        self.asked.append((phase, self.now))
        answers = self.script[phase]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, str):
            self.now += 5
            raise NoAnswer(answer)
        return dict(answer)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def failure(self) -> str:
        return Confirmation(BEGUN, 60, "hv1 has no br0", self.call, lambda: self.now, self.sleep).failure()

    def phases(self) -> list[str]:
        return [phase for phase, _now in self.asked]


def test_it_is_confirmed_once_it_was_seen_applied() -> None:
    host = Host({"wait": [APPLIED], "confirm": [CONFIRMED]})
    assert host.failure() == ""
    assert host.asked == [("wait", BEFORE_SECONDS), ("confirm", BEFORE_SECONDS)]


def test_a_host_is_asked_again_until_it_answers() -> None:
    host = Host({"wait": [SILENT, SILENT, APPLIED], "confirm": [LOST, CONFIRMED]})
    assert host.failure() == ""
    assert host.phases() == ["wait"] * 3 + ["confirm"] * 2


def test_one_that_cannot_be_reached_in_time_is_asked_what_became_of_it() -> None:
    host = Host({"wait": [SILENT], "abort": [SILENT, SILENT, BACK], "report": [BACK]})
    assert host.failure() == (
        "hv1 has no br0: the change was rolled back, and everything is as before. Seen from here: silent. "
        "Seen from the host: 10:15:02 undoing it; 10:15:09 everything is as before."
    )
    waits = [now for phase, now in host.asked if phase == "wait"]
    assert BEFORE_SECONDS + 60 - 6 <= waits[-1] <= BEFORE_SECONDS + 60
    assert host.phases()[len(waits) :] == ["abort"] * 3 + ["report"]


def test_one_that_stays_away_is_left_after_all_that_the_host_may_take() -> None:
    host = Host({"wait": [SILENT], "abort": [LOST]})
    assert host.failure() == "hv1 has no br0: the host does not answer any more. Seen from here: silent."
    assert host.now <= BEFORE_SECONDS + 60 + (40 + 60 + 90) + 2 * 6


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            {**BACK, "missing": ["eth0 has no address", "no default route"]},
            "the change was rolled back, but not everything is as before: eth0 has no address; no default route",
        ),
        ({"state": "absent", "log": []}, "the host has booted meanwhile, and has what it had before"),
        ({"state": "rolling_back", "log": []}, "the change is still being rolled back"),
        ({"state": "armed", "log": []}, "the change is armed"),
        ({"failed": True, "msg": "no such thing"}, "no such thing"),
    ],
)
def test_what_became_of_it_is_said(report: Answer, said: str) -> None:
    host = Host({"wait": [{"failed": True, "msg": "it went back"}], "abort": [{"failed": True}], "report": [report]})
    assert host.failure().startswith(f"hv1 has no br0: {said}. Seen from here: it went back. Seen from the host: ")


def test_one_that_lacks_what_it_should_have_is_not_permanent() -> None:
    refused = {"failed": True, "msg": "the host has not got the address"}
    host = Host({"wait": [APPLIED], "confirm": [refused], "abort": [BACK], "report": [BACK]})
    assert "rolled back, and everything is as before. Seen from here: the host has not got the address." in (
        host.failure()
    )


def test_where_only_the_answer_was_lost_it_is_permanent() -> None:
    script: Script = {"wait": [APPLIED], "confirm": [LOST] * 11 + [CONFIRMED], "abort": [CONFIRMED]}
    host = Host({**script, "report": [{**CONFIRMED, "log": []}]})
    assert host.failure() == ""
    # It has been asked for as long as the host waits, and then what became of it.
    assert host.phases() == ["wait", *["confirm"] * 11, "abort", "report", "confirm"]


def test_what_does_not_last_is_not_called_permanent() -> None:
    lost: Answer = {"failed": True, "msg": "the change is made, but will not be there after a boot"}
    host = Host({"wait": [APPLIED], "confirm": [lost], "abort": [CONFIRMED], "report": [{**CONFIRMED, "log": []}]})
    assert host.failure() == lost["msg"]
