# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in for the answer of a hypervisor that is silent."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import of_now, with_last_answers

THEN, NOW = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"


def _answer(hypervisor: str, *uuids: str, at: str = NOW) -> dict[str, t.Any]:
    machines = [{"uuid": uuid} for uuid in uuids]
    return {"hypervisor": hypervisor, "uri": f"test://{hypervisor}", "machines": machines, "error": None, "at": at}


def _silent(hypervisor: str, uri: str | None = "test://new") -> dict[str, t.Any]:
    return {"hypervisor": hypervisor, "uri": uri, "machines": None, "error": "no answer within 10 s", "at": NOW}


def test_a_silent_hypervisor_has_its_last_good_answer_but_for_what_has_moved() -> None:
    answers = [_answer("hv1", "a"), _silent("hv2")]
    last = [_answer("hv1", at=THEN), _answer("hv2", "a", "b", at=THEN)]
    assert with_last_answers(answers, last) == [
        _answer("hv1", "a"),
        {**_silent("hv2"), "machines": [{"uuid": "b"}], "at": THEN, "stale_since": THEN},
    ]


def test_an_answer_keeps_its_age_from_one_time_to_the_next() -> None:
    (old,) = with_last_answers([_silent("hv2")], [_answer("hv2", "b", at=THEN)])
    (older,) = with_last_answers([_silent("hv2", None)], [old])
    assert (older["stale_since"], older["machines"], older["uri"]) == (THEN, [{"uuid": "b"}], "test://new")


def test_without_a_good_answer_it_stays_silent() -> None:
    undated = {**_answer("hv2", "b"), "at": None}
    for last in ([], [_silent("hv2")], [undated], [_answer("hv3", "b")]):
        assert with_last_answers([_silent("hv2")], last) == [_silent("hv2")]


def test_what_is_only_remembered_is_not_of_now() -> None:
    (old,) = with_last_answers([_silent("hv2")], [_answer("hv2", "b", at=THEN)])
    assert [answer["machines"] for answer in of_now([_answer("hv1", "a"), old])] == [[{"uuid": "a"}], None]
