# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables as text: the one way in which reports put things side by side. Pure, but for the width of the terminal.

What a machine says of itself stands in the cells, so that each is one line of visible characters, as wide as a terminal
shows it.
"""

from __future__ import annotations

import typing as t
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible.utils.display import Display

# What a table is made to fit into, unless the terminal is wider; and what stands where something was cut off.
WIDTH = 120
_CUT = "..."
_GAP = "  "
_NOTHING = "-"
# How many characters there may be for each column of the terminal: marks on letters take none.
_MOST_MARKS = 10


@dataclass(frozen=True)
class Column:
    """title: its heading. right: numbers, aligned at their end.

    least: it may be cut to so many columns of the terminal where the table is too wide. Without it nothing is ever cut.
    """

    title: str
    right: bool = False
    least: int | None = None


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[t.Any]], width: int | None = None) -> list[str]:
    """The heading and a line for each row; none of them where there is no row. A cell of None or nothing is a dash.

    Columns are as wide as their widest cell. Where that is more than ``width`` (by default that of the terminal, and at
    least WIDTH), those that may be cut are, the widest first; a table that is still too wide stays so.
    """
    most = max(WIDTH, Display().columns or 0) if width is None else width
    cells = [[_text(cell, column, most) for cell, column in zip(row, columns, strict=True)] for row in rows]
    if not cells:
        return []
    cells.insert(0, [column.title for column in columns])
    widths = [max(map(shown_width, texts)) for texts in zip(*cells, strict=True)]
    _shrink(columns, widths, most)
    return [
        _GAP.join(
            _fitted(cell, column_width, right=column.right)
            for cell, column, column_width in zip(row, columns, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _text(cell: t.Any, column: Column, width: int) -> str:
    """A cell as one line. Of what a guest has written, a megabyte perhaps, only the beginning is looked at."""
    text = str(_NOTHING if cell in (None, "") else cell)
    most = _MOST_MARKS * width
    if column.least is not None and len(text) > most:
        text = text[:most] + _CUT
    return printable_line(text)


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Make columns narrower in place, one column of the terminal after the other."""
    least = [
        max(shown_width(column.title), column.least) if column.least is not None else widths[index]
        for index, column in enumerate(columns)
    ]
    if sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        # No column is wider than the table in the end, unless it is not to be cut so far.
        widths[:] = [min(wide, max(narrow, width)) for wide, narrow in zip(widths, least, strict=True)]
    too_much = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while too_much > 0:
        widest = max(range(len(widths)), key=lambda index: widths[index] if widths[index] > least[index] else -1)
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1
        too_much -= 1


def _fitted(cell: str, width: int, *, right: bool) -> str:
    if shown_width(cell) > width:
        kept = ""
        for char in cell:
            if shown_width(kept + char) > width - len(_CUT):
                break
            kept += char
        cell = kept + _CUT
    blanks = " " * (width - shown_width(cell))
    return blanks + cell if right else cell + blanks


def shown_width(text: str) -> int:
    """How many columns of a terminal a text takes: an ideograph takes two, a mark on the letter before it none.

    Source: Unicode Standard Annex 11, East Asian Width.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me")
        else 2 if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )  # fmt: skip


def printable_line(value: t.Any) -> str:
    """Any text as one line of visible characters: what a machine says must not draw on the terminal."""
    return "".join(char if char.isprintable() else " " for char in str(value))


def printable_text(text: str) -> str:
    """The same of a text of several lines, which stay."""
    return "\n".join(map(printable_line, text.split("\n")))
