# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups are kept: so many of the last ones, and the last one of each of so many days, weeks and months."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..._base.errors import InputError, inside, one_of_these
from ..spec.fields.validators import whole_number
from .manifest import Manifest

# What tells one period from the next one. Weeks begin on Mondays (ISO 8601), days at midnight UTC.
_PERIODS: dict[str, Callable[[datetime], t.Hashable]] = {
    "daily": lambda when: when.date(),
    "weekly": lambda when: tuple(when.isocalendar())[:2],
    "monthly": lambda when: (when.year, when.month),
}
_LAST = "last"
_count = whole_number(0, 100000)


@dataclass(frozen=True)
class Keep:
    """How many are kept of each: ``last``, ``daily``, ``weekly``, ``monthly``."""

    counts: Mapping[str, int]


def read_keep(value: t.Any, where: str = "keep") -> Keep | None:
    """The option ``keep``; None where nothing is ever removed. Raises InputError."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} is not a mapping", where=where, hint="For example {last: 7, daily: 14}")
    for key in value:
        if key != _LAST and key not in _PERIODS:
            raise InputError(f"unknown key {key!r}", where=where, hint=one_of_these(str(key), [_LAST, *_PERIODS]))
    counts = {key: _count(number, inside(where, key)) for key, number in value.items() if number is not None}
    if not any(counts.values()):
        raise InputError("it keeps no backup at all", where=where, hint="Leave it out to keep all, or give last: 1")
    return Keep(counts)


def chosen(backups: Sequence[Manifest], keep: Keep) -> set[str]:
    """The ids of those that ``keep`` asks for. backups: those of one machine, in any order. The newest one is always
    among them."""
    newest_first = sorted(backups, key=lambda manifest: manifest.id, reverse=True)
    kept = {manifest.id for manifest in newest_first[: max(1, keep.counts.get(_LAST, 0))]}
    for name, period in _PERIODS.items():
        seen: dict[t.Hashable, str] = {}
        for manifest in newest_first:
            seen.setdefault(period(manifest.made), manifest.id)
        kept.update(list(seen.values())[: keep.counts.get(name, 0)])
    return kept


def removable(backups: Sequence[Manifest], keep: Keep) -> list[Manifest]:
    """Those that can go, in the order in which they have to: what is kept needs none of them, and nothing that goes
    later is needed by one that goes earlier."""
    by_id = {manifest.id: manifest for manifest in backups}
    needed: set[str] = set()
    for name in chosen(backups, keep):
        at: str | None = name
        while at is not None and at not in needed:
            needed.add(at)
            at = by_id[at].parent if at in by_id else None
    return sorted((m for m in backups if m.id not in needed), key=lambda manifest: manifest.id, reverse=True)
