# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all hypervisors have answered, as text and as data."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._reports.answers import REPORTS, report_of
from ansible_collections.brine.virt.plugins.plugin_utils._reports.numbered import numbered

MACHINES: dict[str, t.Any] = {
    "hv1": {"machines": [{"name": "web1", "state": "running", "vcpus": 1, "memory_mib": 512}]},
    "hv2": {"unreachable": True, "msg": "no route"},
}


@pytest.mark.parametrize(("kind", "first"), [("machines", "NAME"), ("query", "hv1:")])
def test_those_who_do_not_answer_stand_after_the_others(kind: str, first: str) -> None:
    report = report_of(kind, MACHINES, {})
    lines = report.text.splitlines()
    assert lines[0].startswith(first) or "web1" in lines[0]
    assert "hv2" in report.text and "did not answer: no route" in report.text
    assert (report.facts["hypervisors"], report.failures) == (["hv1"], [])


@pytest.mark.parametrize("kind", REPORTS)
def test_it_fails_where_nobody_answers(kind: str) -> None:
    report = report_of(kind, {"hv2": MACHINES["hv2"]}, {})
    assert len(report.failures) == 1 and "hv2" in report.text


def test_of_many_sentences_the_first_are_shown() -> None:
    assert numbered([]) == ""
    assert numbered(["one\n line"]) == "one line."
    assert numbered(["one", "two?"]) == "(1) one. (2) two?"
    assert numbered(map(str, range(12))).endswith("(10) 9. And 2 more.")
