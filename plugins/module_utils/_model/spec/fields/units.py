# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as users write them, as numbers."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError

KIB = 1024
MIB = 1024 * KIB

# Binary units by their IEC names and by the single letters that qemu-img and Salt use; decimal ones by their SI names.
_BYTES_PER_UNIT = {
    "B": 1,
    "BYTE": 1,
    "BYTES": 1,
    "K": KIB,
    "KIB": KIB,
    "M": MIB,
    "MIB": MIB,
    "G": 1024**3,
    "GIB": 1024**3,
    "T": 1024**4,
    "TIB": 1024**4,
    "P": 1024**5,
    "PIB": 1024**5,
    "E": 1024**6,
    "EIB": 1024**6,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "PB": 1000**5,
    "EB": 1000**6,
}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")
# libvirt and qemu count bytes in 64 bits.
_TOO_LARGE_MIB = 2**44
_RIGHT = "Give a whole number of MiB, or a number with a unit such as 512MiB, 8GiB or 8G"


def parse_size_mib(value: t.Any, where: str | None = None) -> int:
    """A size in MiB from a plain number (MiB) or a number with a unit; rounded up to a whole MiB, never zero.

    Raises InputError, naming ``where``, for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"{value!r} is not a size", where=where, hint=_RIGHT)
    match = _SIZE.match(str(value))
    unit = (match.group(2).upper() or "MIB") if match else ""
    if not match or unit not in _BYTES_PER_UNIT:
        raise InputError(f"{value!r} is not a size", where=where, hint=_RIGHT)
    size_mib = -(-float(match.group(1)) * _BYTES_PER_UNIT[unit] // MIB)
    if not 1 <= size_mib < _TOO_LARGE_MIB:
        raise InputError(f"{value!r} is not a usable size", where=where, hint=_RIGHT)
    return int(size_mib)


def parse_size_kib(value: t.Any) -> int:
    """A size that parse_size_mib accepts, in KiB; a part of a KiB counts as a whole one."""
    match = _SIZE.match(str(value))
    if match is None:
        raise InputError(f"{value!r} is not a size", hint=_RIGHT)
    return int(-(-float(match.group(1)) * _BYTES_PER_UNIT[match.group(2).upper() or "MIB"] // KIB))


def size_kib_in_xml(number: str, unit: str | None) -> int | None:
    """A size as it stands in libvirt's XML (no unit: KiB) in KiB, None for what is no size.

    A part of a KiB counts as a whole one, as libvirt itself has it (virDomainParseMemory).
    """
    factor = _BYTES_PER_UNIT.get((unit or "KiB").upper())
    try:
        return None if factor is None else -(-int(number) * factor // KIB)
    except ValueError:
        return None


def format_size(size_bytes: float) -> str:
    """A size in bytes as people read it, by the binary unit that fits, one decimal: ``2.0G``."""
    for unit in ("B", "K", "M", "G"):
        if size_bytes < 1024:
            return f"{size_bytes:.1f}{unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f}T"
