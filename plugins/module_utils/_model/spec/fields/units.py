# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as users write them, as numbers."""

from __future__ import annotations

import re
import typing as t

from ...._base.errors import InputError, shown
from ...._base.xml import BYTES_PER_UNIT, KIB, MIB

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")
# libvirt and qemu count bytes in 64 bits, one of which is the sign.
_TOO_LARGE_MIB = 2**43
# A plain number below it has lost its unit: nothing runs in so little memory, and nothing is kept on so small a disk.
LEAST_PLAIN_MIB = 16
_RIGHT = "Give a whole number of MiB, or a number with a unit such as 512MiB, 8GiB or 8G"


def parse_size_mib(value: t.Any, where: str | None = None) -> int:
    """A size in MiB from a plain number (MiB) or a number with a unit; rounded up to a whole MiB, never zero.

    Raises InputError, naming ``where``, for anything else.
    """
    size_mib = -(-_parse_bytes(value, where) // MIB)
    if not 1 <= size_mib < _TOO_LARGE_MIB:
        raise InputError(f"{shown(value)} is not a usable size", where=where, hint=_RIGHT)
    return int(size_mib)


def parse_capacity_mib(value: t.Any, where: str | None = None) -> int:
    """The size of a memory or a disk, as parse_size_mib reads it; a small one has to name its unit.

    Raises InputError for ``memory: 1`` too, where somebody has meant 1 GiB.
    """
    size_mib = parse_size_mib(value, where)
    plain = _SIZE.match(str(value))
    if plain and not plain.group(2) and float(plain.group(1)) < LEAST_PLAIN_MIB:
        digits = f"{float(plain.group(1)):g}"
        raise InputError(
            f"{digits} without a unit is {digits} MiB",
            where=where,
            hint=f"Write {digits}GiB, or {digits}MiB if so little is meant",
        )
    return size_mib


def parse_size_kib(value: t.Any) -> int:
    """A size that parse_size_mib accepts, in KiB; a part of a KiB counts as a whole one."""
    return int(-(-_parse_bytes(value) // KIB))


def _parse_bytes(value: t.Any, where: str | None = None) -> float:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        match = _SIZE.match(str(value))
        unit = (match.group(2).upper() or "MIB") if match else ""
        if match and unit in BYTES_PER_UNIT:
            return float(match.group(1)) * BYTES_PER_UNIT[unit]
    raise InputError(f"{shown(value)} is not a size", where=where, hint=_RIGHT)


def format_size(size_bytes: float) -> str:
    """A size in bytes as people read it, by the binary unit that fits, one decimal: ``2.0G``."""
    for unit in ("B", "K", "M", "G"):
        if size_bytes < 1024:
            return f"{size_bytes:.1f}{unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f}T"
