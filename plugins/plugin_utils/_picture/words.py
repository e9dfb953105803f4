# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as a page shows them: sizes, times, and texts that draw nothing. Pure."""

from __future__ import annotations

import re
import typing as t

_MIB_UNITS = ("MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_THREE_DIGITS = 100
_DIGITS = re.compile(r"(\d+)")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def visible(value: t.Any) -> str:
    """Any value as text of which every character can be seen; None is the empty text.

    A control character, a mark that turns the direction of writing, and half of a surrogate pair, which no file could
    hold, become their code point, such as ``[U+202E]``. Line breaks and tabs become spaces.
    """
    text = "" if value is None else str(value)
    return "".join(_seen(char) for char in text)


def _seen(char: str) -> str:
    if char.isprintable():
        return char
    return " " if char.isspace() else f"[U+{ord(char):04X}]"


def size(mib: float) -> str:
    """A size in MiB in the unit that fits, with three digits where there are decimals: ``1.5 GiB``, ``244 GiB``."""
    amount, unit = _scaled(mib)
    return f"{amount} {unit}"


def size_of(part_mib: float, whole_mib: float) -> str:
    """A part of a size: ``13.5 of 31.1 GiB``, ``512 MiB of 2 TiB``."""
    (part, part_unit), (whole, unit) = _scaled(part_mib), _scaled(whole_mib)
    return f"{part} of {whole} {unit}" if part_unit == unit or part == "0" else f"{part} {part_unit} of {whole} {unit}"


def _scaled(mib: float) -> tuple[str, str]:
    amount, unit = float(mib), 0
    # 1023.96 GiB would be rounded to 1024.
    while abs(amount) >= _STEP - 0.5 and unit < len(_MIB_UNITS) - 1:
        amount /= _STEP
        unit += 1
    return f"{amount:.0f}" if abs(amount) >= _THREE_DIGITS else f"{amount:.1f}".removesuffix(".0"), _MIB_UNITS[unit]


def number_of(part: float, whole: float) -> str:
    """A part of a number: ``28 of 128``."""
    return f"{decimal(part)} of {decimal(whole)}"


def duration(seconds: float) -> str:
    """A time span in its largest unit: ``12 days``, ``3 hours``, ``1 minute``."""
    for length, word in ((_DAY, "day"), (_HOUR, "hour")):
        if seconds >= length:
            return counted(int(seconds // length), word)
    return counted(int(seconds // _MINUTE), "minute")


def counted(number: int, word: str, plural: str | None = None) -> str:
    """A number with its word: ``1 machine``, ``2 machines``."""
    return f"{number} {word if number == 1 else plural or word + 's'}"


def decimal(number: float) -> str:
    """A number without needless decimals: ``2``, ``1.5``."""
    return f"{number:.10g}"


def natural(text: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts texts with numbers in them as people do: ``hv2`` before ``hv10``."""
    parts = _DIGITS.split(text)
    return tuple(
        (words.casefold(), int(digits)) for words, digits in zip(parts[::2], [*parts[1::2], "-1"], strict=True)
    )
