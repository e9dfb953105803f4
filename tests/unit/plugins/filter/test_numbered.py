# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences in one line."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.filter.numbered import numbered


@pytest.mark.parametrize(
    ("sentences", "line"),
    [
        (["a: did you mean b?"], "a: did you mean b?"),
        (["no bridge\n 'x'. Known: br0"], "no bridge 'x'. Known: br0."),
        (["One.", "two"], "(1) One. (2) two."),
        ([], ""),
        (["x"] * 11, " ".join(f"({number}) x." for number in range(1, 12))),
        (["x"] * 112, " ".join(f"({number}) x." for number in range(1, 11)) + " And 102 more."),
    ],
)
def test_one_line(sentences: list[str], line: str) -> None:
    assert numbered(sentences) == line
