# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables stay tables, whatever stands in their cells."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible.utils.display import Display
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import (
    Column,
    printable_line,
    shown_width,
    table_lines,
)

COLUMNS = (Column("NAME"), Column("MEM", right=True), Column("TAGS", least=6), Column("WHY"))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table_lines(COLUMNS, [("web1", "512.0M", "a,b", "x"), ("a-long-name", 2, None, "")]) == [
        "NAME            MEM  TAGS  WHY",
        "web1         512.0M  a,b   x",
        "a-long-name       2  -     -",
    ]


def test_no_rows_are_no_table() -> None:
    assert table_lines(COLUMNS, []) == []


def test_only_what_may_be_cut_is_cut() -> None:
    row = ("n" * 30, 1, "t" * 40, "w" * 30)
    lines = table_lines(COLUMNS, [row], width=80)
    assert len(lines[1]) == 80
    assert "n" * 30 in lines[1] and "w" * 30 in lines[1] and "ttt...  w" in lines[1]
    # What cannot fit does not, and nothing is cut to less than its least.
    narrow = table_lines(COLUMNS, [row], width=20)[1]
    assert "n" * 30 in narrow and "  ttt...  " in narrow and "w" * 30 in narrow


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("\u65e5\u672c", 4), ("e\u0301", 1), ("\uff21", 2), ("\u00fc", 1)],
)
def test_width_is_what_a_terminal_shows(text: str, width: int) -> None:
    assert shown_width(text) == width


def test_wide_and_wild_characters_keep_the_columns() -> None:
    wild = "a\x1b[31m\nb\r\u202ec\u200bd\x9be"
    lines = table_lines((Column("NAME"), Column("X")), [("\u65e5\u672c", "x"), (wild, "x"), ("{{ 1 }}", "x")])
    assert len(lines) == 4
    assert lines[2].startswith("a [31m b") and lines[2].isprintable()
    assert {shown_width(line) for line in lines} == {shown_width(lines[0])}


@given(
    st.lists(st.tuples(*[st.one_of(st.none(), st.text(max_size=60), st.integers())] * 4), max_size=5),
    st.integers(1, 150),
)
def test_whatever_guests_write_each_row_is_one_line(rows: list[t.Any], width: int) -> None:
    lines = table_lines(COLUMNS, rows, width=width)
    assert len(lines) == (len(rows) + 1 if rows else 0)
    assert all(line.isprintable() for line in lines)
    for line, row in zip(lines[1:], rows, strict=True):
        assert line.startswith(printable_line("-" if row[0] in (None, "") else row[0]).rstrip())


@pytest.mark.parametrize("title", ["x" * 1_000_000, "\u0301" * 1_000_000, "\u4e2d" * 1_000_000, "a\u0301" * 500_000])
def test_a_title_of_a_megabyte_costs_no_time(title: str) -> None:
    columns = [Column("NAME"), Column("TITLE", least=10), Column("NOTE", least=10)]
    begin = time.process_time()
    lines = table_lines(columns, [("web1", title, "n" * 500), ("web2", "short", title)])
    assert time.process_time() - begin < 20
    assert all(shown_width(line) <= 120 for line in lines)
    assert lines[1].count("...") == 2


def test_the_widest_column_gives_way_first() -> None:
    columns = [Column("A", least=3), Column("B", least=3), Column("C")]
    for first, second, cut in ((400, 300, (8, 9)), (400, 8, (9, 8)), (12, 400, (8, 9))):
        line = table_lines(columns, [("x" * first, "y" * second, "z")], width=22)[1]
        assert (len(line.split("  ")[0]), len(line.split("  ")[1])) == cut


@pytest.mark.parametrize(("columns", "wide"), [(79, 120), (160, 160)])
def test_a_terminal_that_is_wider_is_used(monkeypatch: pytest.MonkeyPatch, columns: int, wide: int) -> None:
    monkeypatch.setattr(Display(), "columns", columns)
    assert len(table_lines((Column("X", least=8),), [("x" * 500,)])[1]) == wide
