# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups stay: what was asked for, and all that it needs."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest, backup_id
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import (
    Keep,
    chosen,
    read_keep,
    removable,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.backup.test_manifest import manifest

BEGIN = datetime(2026, 11, 2, 1, tzinfo=timezone.utc)


def backups(count: int, *, full_every: int = 1, hours: int = 24) -> list[Manifest]:
    found: list[Manifest] = []
    for number in range(count):
        full = number % full_every == 0
        kind = "full" if full else "incremental"
        made = backup_id(BEGIN + timedelta(hours=hours * number), kind)
        found.append(replace(manifest(), id=made, kind=kind, parent=None if full else found[-1].id))
    return found


def days(found: t.Iterable[Manifest | str]) -> list[int]:
    return sorted(int((one if isinstance(one, str) else one.id)[6:8]) for one in found)


def test_the_last_ones_and_one_of_each_week() -> None:
    # The 2nd of November 2026 is a Monday.
    assert days(chosen(backups(21), Keep({"last": 2, "weekly": 3}))) == [8, 15, 21, 22]
    assert days(chosen(backups(21), Keep({"daily": 3}))) == [20, 21, 22]


def test_of_a_day_it_is_the_last_one() -> None:
    found = backups(8, hours=6)
    kept = chosen(found, Keep({"daily": 2}))
    # At 1, 7, 13 and 19 o'clock.
    assert kept == {found[3].id, found[7].id}


def test_what_a_kept_one_is_built_on_stays() -> None:
    found = backups(10, full_every=4)
    assert days(removable(found, Keep({"last": 1}))) == list(range(2, 10))
    assert days(removable(found, Keep({"last": 3}))) == list(range(2, 6))


def test_children_go_before_their_parents() -> None:
    gone = removable(backups(9, full_every=4), Keep({"last": 1}))
    assert [one.id for one in gone] == sorted((one.id for one in gone), reverse=True)


@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.dictionaries(st.sampled_from(["last", "daily", "weekly", "monthly"]), st.integers(0, 9), min_size=1),
)
def test_nothing_that_stays_needs_what_goes(count: int, full_every: int, counts: dict[str, int]) -> None:
    found = backups(count, full_every=full_every)
    gone = {one.id for one in removable(found, Keep(counts))}
    staying = [one for one in found if one.id not in gone]
    assert not any(one.parent in gone for one in staying)
    assert found[-1] in staying
    # What is kept besides is bounded: a chain for each.
    assert len(staying) <= max(1, sum(counts.values())) * full_every + 1


def test_what_is_damaged_does_not_count_and_goes_when_enough_good_ones_are_newer() -> None:
    # Of the 2nd to the 11th of November.
    found = backups(10)
    keep = Keep({"last": 2})
    assert days(chosen(found, keep, {found[9].id})) == [9, 10, 11]
    assert days(chosen(found, keep, {found[7].id, found[8].id})) == [8, 9, 10, 11]
    assert days(chosen(found, keep, {found[7].id})) == [10, 11]
    # Of the first week the last good one as well as the last one, which may be of use in part.
    assert days(chosen(found, Keep({"weekly": 2}), {found[6].id})) == [7, 8, 11]
    assert days(chosen(found, keep, {one.id for one in found})) == days(found)


DAMAGED = st.sets(st.integers(0, 39), max_size=12)
COUNTS = st.dictionaries(st.sampled_from(["last", "daily", "weekly", "monthly"]), st.integers(0, 9), min_size=1)


def with_those_built_on_them(found: t.Sequence[Manifest], numbers: t.Container[int]) -> set[str]:
    bad: set[str] = set()
    for number, one in enumerate(found):
        if number in numbers or one.parent in bad:
            bad.add(one.id)
    return bad


@given(st.integers(1, 40), st.integers(1, 9), COUNTS, DAMAGED)
def test_damage_takes_nothing_from_what_is_kept(
    count: int, full_every: int, counts: dict[str, int], numbers: set[int]
) -> None:
    """All stays that would stay if the damaged ones were not there, and all that would if they were whole."""
    found, keep = backups(count, full_every=full_every), Keep(counts)
    bad = with_those_built_on_them(found, numbers)
    kept = chosen(found, keep, bad)
    assert chosen(found, keep) <= kept
    assert chosen([one for one in found if one.id not in bad], keep) <= kept
    staying = {one.id for one in found} - {one.id for one in removable(found, keep, bad)}
    assert kept <= staying
    assert all(one.parent is None or one.parent in staying for one in found if one.id in staying)


def test_the_option() -> None:
    assert read_keep(None) is None
    assert read_keep({"last": "3", "weekly": None}) == Keep({"last": 3})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"last": 0}, "keeps no backup at all"),
        ({}, "keeps no backup at all"),
        ({"dayly": 3}, "keep: unknown key 'dayly'. Did you mean daily"),
        ({"last": -1}, r"keep\.last"),
        (7, "is not a mapping"),
    ],
)
def test_what_makes_no_sense_is_refused(value: t.Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_keep(value)
