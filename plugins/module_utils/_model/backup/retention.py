# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups are kept: so many of the last ones, and the last one of each of so many days, weeks and months."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Container, Mapping, Sequence
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


def chosen(backups: Sequence[Manifest], keep: Keep, damaged: Container[str] = ()) -> set[str]:
    """The ids of those that ``keep`` asks for. backups: those of one machine, in any order. The newest one is always
    among them.

    damaged: the ids of those that cannot be restored. They do not count. Those that would be kept if they could be
    stay beside the ones that count, until there are as many of these as ``keep`` asks for that are newer.
    """
    newest_first = sorted(backups, key=lambda manifest: manifest.id, reverse=True)
    kept = _first_of_each(newest_first, lambda manifest: manifest.id, max(1, keep.counts.get(_LAST, 0)), damaged)
    for name, period in _PERIODS.items():
        kept |= _first_of_each(newest_first, _made_in(period), keep.counts.get(name, 0), damaged)
    return kept


def _made_in(period: Callable[[datetime], t.Hashable]) -> Callable[[Manifest], t.Hashable]:
    return lambda manifest: period(manifest.made)


def _first_of_each(
    backups: Sequence[Manifest], kind: Callable[[Manifest], t.Hashable], count: int, damaged: Container[str]
) -> set[str]:
    """The first good one of each kind, for so many kinds; and until there are as many, the first one of each kind
    whatever it is."""
    first: dict[t.Hashable, str] = {}
    good: dict[t.Hashable, str] = {}
    for manifest in backups:
        if len(good) == count:
            break
        of = kind(manifest)
        first.setdefault(of, manifest.id)
        if manifest.id not in damaged:
            good.setdefault(of, manifest.id)
    return {*first.values(), *good.values()}


def removable(backups: Sequence[Manifest], keep: Keep, damaged: Container[str] = ()) -> list[Manifest]:
    """Those that can go, in the order in which they have to: what is kept needs none of them, and nothing that goes
    later is needed by one that goes earlier. damaged: as of chosen."""
    by_id = {manifest.id: manifest for manifest in backups}
    needed: set[str] = set()
    for name in chosen(backups, keep, damaged):
        at: str | None = name
        while at is not None and at not in needed:
            needed.add(at)
            at = by_id[at].parent if at in by_id else None
    return sorted((m for m in backups if m.id not in needed), key=lambda manifest: manifest.id, reverse=True)
