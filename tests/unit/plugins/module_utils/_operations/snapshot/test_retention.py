# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which snapshots have had their time."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import INTERNAL, Snapshot
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.retention import Retention, read_retention

DAY = 86400
NOW = 100 * DAY


def snapshot(name: str, age_days: float, own: bool = True) -> Snapshot:
    return Snapshot(name, int(NOW - age_days * DAY), "shutoff", INTERNAL, False, None, "", own)


ALL = [snapshot("a", 30), snapshot("foreign", 90, own=False), snapshot("b", 20), snapshot("c", 10), snapshot("d", 1)]


@pytest.mark.parametrize(
    ("keep", "coming", "gone"),
    [
        ({"last": 2}, False, ["a", "b"]),
        ({"last": 2}, True, ["a", "b", "c"]),
        ({"last": 1}, True, ["a", "b", "c", "d"]),
        ({"last": 9}, False, []),
        ({"days": 15}, False, ["a", "b"]),
        ({"days": 0}, False, ["a", "b", "c", "d"]),
        ({"last": 3, "days": 15}, False, ["a"]),
        ({"last": 1, "days": 25}, True, ["a"]),
    ],
)
def test_what_goes(keep: dict[str, t.Any], coming: bool, gone: list[str]) -> None:
    found = read_retention({"last": None, "days": None, **keep})
    assert found is not None
    assert [one.name for one in found.expired(ALL, NOW, coming=coming)] == gone


def test_those_of_a_clock_that_was_ahead_go_before_those_that_follow_them() -> None:
    """With last: 2, each night's new one would otherwise be the next to go, until their time comes."""
    chain = [snapshot("a", 3), snapshot("z", -365), snapshot("y", -366), snapshot("c", 1), snapshot("b", 0.5)]
    chain = [chain[0], *(replace(one, parent=before.name) for before, one in zip(chain, chain[1:]))]
    found = read_retention({"last": 2, "days": None})
    assert found is not None
    assert [one.name for one in found.expired(chain, NOW)] == ["a", "z", "y"]
    assert [one.name for one in found.expired(chain[:3], NOW)] == ["a"]


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        ({}, "keep: it does not say what to keep. Give last, days or both"),
        ({"last": 0}, "keep.last: 0 is less than 1"),
        ({"days": -1.0}, "keep.days: -1.0 is less than 0"),
    ],
)
def test_mistakes(keep: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_retention(keep)
    assert str(caught.value) == sentence


def test_nothing_is_asked_for() -> None:
    assert read_retention(None) is None
    assert Retention(last=1).expired([], NOW, coming=True) == []
