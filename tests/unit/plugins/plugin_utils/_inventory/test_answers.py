# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the answers in a cache are, and what stands in for that of a hypervisor that is silent."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import (
    HypervisorEntry,
    are_of,
    as_asked,
    of_now,
    with_last_answers,
)

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


def test_who_was_not_asked_now_has_said_it_earlier() -> None:
    answers = [_answer("hv1", "a"), _answer("hv2", "b"), _silent("hv3")]
    silent = {**answers[0], "machines": None}
    assert as_asked(answers, {"hv2", "hv3"}) == ([silent, *answers[1:]], [answers[0]])
    assert as_asked(answers, {"hv1", "hv2", "hv3"}) == (answers, [])


def _uri_of(entry: HypervisorEntry) -> str:
    if entry.uri is None:
        raise VirtError("its variables cannot be read")
    return entry.uri


@pytest.mark.parametrize(
    ("uris", "ours"),
    [
        ({"hv1": "test://hv1", "hv2": "test://hv2"}, True),
        ({"hv1": "test://hv1"}, False),
        ({"hv1": "test://hv1", "hv2": "test://hv2", "hv3": "test://hv3"}, False),
        ({"hv1": "test://hv1", "hv2": "test://elsewhere"}, False),
        # Where its URI is unknown, it was not asked then either.
        ({"hv1": "test://hv1", "hv2": None}, True),
    ],
)
def test_answers_are_those_of_the_same_hypervisors_at_the_same_uris(uris: dict[str, str | None], ours: bool) -> None:
    entries = [HypervisorEntry(name, uri) for name, uri in uris.items()]
    assert are_of([_answer("hv1"), _answer("hv2")], entries, _uri_of) is ours


def test_a_hypervisor_that_could_not_be_asked_may_have_any_uri() -> None:
    entries = [HypervisorEntry("hv1", "test://hv1")]
    assert are_of([_silent("hv1", None)], entries, _uri_of)
    assert are_of([], [], _uri_of)
