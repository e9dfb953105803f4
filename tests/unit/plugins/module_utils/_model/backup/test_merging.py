# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups are merged, so that what was not asked for can go."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import INCREMENTAL, Manifest
from ansible_collections.brine.virt.plugins.module_utils._model.backup.merging import Merge, merges
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep, chosen, removable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.backup.test_retention import (
    COUNTS,
    DAMAGED,
    backups,
    with_those_built_on_them,
)


def after(found: list[Manifest], done: list[Merge]) -> list[Manifest]:
    """What is there when it was done."""
    gone = {name for merge in done for name in merge.gone}
    onto = {name: merge.onto for merge in done for name in merge.merged}
    return [replace(one, parent=onto.get(one.id, one.parent)) for one in found if one.id not in gone]


def test_the_oldest_kept_one_becomes_a_full_one() -> None:
    found = backups(10, full_every=100)
    (merge,) = merges(found, Keep({"last": 3}), 6)
    assert merge == Merge(tuple(one.id for one in reversed(found[:7])), (found[7].id,), None)


def test_nothing_is_merged_while_no_more_are_there_than_may_be() -> None:
    found = backups(10, full_every=100)
    assert merges(found, Keep({"last": 3}), 7) == []
    assert merges(found, Keep({"last": 10}), 0) == []
    assert merges(backups(10, full_every=1), Keep({"last": 3}), 0) == []


def test_between_two_kept_ones_the_later_is_built_on_the_earlier() -> None:
    # From Monday on; the last ones of each week, and the last two.
    found = backups(21, full_every=100)
    done = merges(found, Keep({"weekly": 3, "last": 2}), 0)
    assert [(merge.merged, merge.onto) for merge in done] == [
        ((found[6].id,), None),
        ((found[13].id,), found[6].id),
        ((found[19].id,), found[13].id),
    ]
    assert [len(merge.gone) for merge in done] == [6, 6, 5]


def test_what_frees_the_most_comes_first_and_no_more_is_done_than_has_to_be() -> None:
    found = backups(21, full_every=100)
    keep = Keep({"weekly": 3, "last": 2})
    assert [merge.onto for merge in merges(found, keep, 11)] == [None]
    assert len(merges(found, keep, 10)) == 2


def test_two_that_are_built_on_one() -> None:
    full, first, second = backups(3, full_every=100)
    (merge,) = merges([full, first, replace(second, parent=full.id)], Keep({"last": 2}), 0)
    assert merge == Merge((full.id,), (first.id, second.id), None)


def test_what_is_built_on_one_that_is_gone_is_left_alone() -> None:
    found = backups(4, full_every=100)
    assert merges(found[1:], Keep({"last": 1}), 0) == []


def test_what_may_be_needed_by_one_that_cannot_be_read_neither_goes_nor_counts() -> None:
    found = backups(10, full_every=4)
    keep = Keep({"monthly": 1, "weekly": 2})
    # The second week begins with number 7; kept are 6 and 9.
    assert [merge.merged for merge in merges(found, keep, 0)] == [(found[6].id,), (found[9].id,)]
    assert [merge.merged for merge in merges(found, keep, 0, found[6].id)] == [(found[9].id,)]
    assert merges(found, keep, 1, found[6].id) == []


@given(
    st.integers(1, 40),
    st.integers(1, 50),
    st.dictionaries(st.sampled_from(["last", "daily", "weekly", "monthly"]), st.integers(0, 9), min_size=1),
    st.integers(0, 10),
)
def test_what_is_kept_stays_whole_and_no_more_is_there_than_may_be(
    count: int, full_every: int, counts: dict[str, int], most: int
) -> None:
    found, keep = backups(count, full_every=full_every), Keep(counts)
    kept = chosen(found, keep)
    gone = {one.id for one in removable(found, keep)}
    staying = after([one for one in found if one.id not in gone], merges(found, keep, most))
    there = {one.id for one in staying}
    assert kept <= there
    assert len(there - kept) <= most
    assert all(one.parent is None or (one.parent in there and one.parent < one.id) for one in staying)
    # The same, as it is found out in a run: nothing more can go at once, and the next run does nothing.
    assert removable(staying, keep) == []
    assert merges(staying, keep, most) == []


def test_what_is_damaged_is_neither_merged_nor_merged_away() -> None:
    found = backups(10, full_every=100)
    keep = Keep({"last": 3})
    assert merges(found, keep, 6, damaged={one.id for one in found[5:]}) == []
    # What is built on a kept one stays as it is.
    (merge,) = merges(found, keep, 4, damaged={found[9].id})
    assert (merge.merged, merge.onto) == ((found[6].id,), None)


@given(st.integers(1, 40), st.integers(1, 50), COUNTS, st.integers(0, 10), DAMAGED)
def test_damaged_ones_keep_what_they_need(
    count: int, full_every: int, counts: dict[str, int], most: int, numbers: set[int]
) -> None:
    found, keep = backups(count, full_every=full_every), Keep(counts)
    bad = with_those_built_on_them(found, numbers)
    kept = chosen(found, keep, bad)
    gone = {one.id for one in removable(found, keep, bad)}
    done = merges([one for one in found if one.id not in gone], keep, most, damaged=bad)
    assert bad.isdisjoint(name for merge in done for name in (*merge.gone, *merge.merged))
    staying = after([one for one in found if one.id not in gone], done)
    there = {one.id for one in staying}
    assert kept <= there
    assert all(one.parent is None or one.parent in there for one in staying)
    assert removable(staying, keep, bad) == []
    assert merges(staying, keep, most, damaged=bad) == []


def test_a_full_one_may_have_the_id_that_it_had_as_an_incremental_one() -> None:
    full, first, second = backups(3, full_every=100)
    merged = replace(first, kind="full", parent=None)
    assert merged.id.endswith(INCREMENTAL)
    (merge,) = merges([full, merged, second], Keep({"last": 1}), 0)
    assert merge == Merge((merged.id,), (second.id,), None)
