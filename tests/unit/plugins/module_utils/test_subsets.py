# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which subsets the words of a task mean."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._module import chosen_subsets, subset_choices

NAMES = ("disks", "nics", "jobs")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (["disks"], {"disks"}),
        (["all"], set(NAMES)),
        (["min"], set()),
        ([], set()),
        (["min", "nics"], {"nics"}),
        (["!all"], set()),
        (["!all", "nics"], {"nics"}),
        (["!jobs"], {"disks", "nics"}),
        (["all", "!jobs"], {"disks", "nics"}),
        (["disks", "jobs", "!jobs"], {"disks"}),
        (["min", "!jobs"], set()),
    ],
)
def test_words_are_those_of_ansibles_own_facts(given: list[str], chosen: set[str]) -> None:
    assert chosen_subsets(given, NAMES) == chosen


def test_every_word_is_a_choice() -> None:
    assert subset_choices(NAMES) == ["all", "min", "disks", "nics", "jobs", "!all", "!disks", "!nics", "!jobs"]
