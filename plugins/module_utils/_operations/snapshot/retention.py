# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which snapshots are kept, and which have had their time. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.errors import InputError
from ..._host.machines.snapshots import Snapshot

_DAY_SECONDS = 86400


@dataclass(frozen=True)
class Retention:
    """What is kept: so many of the newest, and all that are no older than so many days. None keeps nothing by itself;
    one that any of the two keeps stays."""

    last: int | None = None
    days: float | None = None

    def expired(self, snapshots: Sequence[Snapshot], now: float, *, coming: bool = False) -> list[Snapshot]:
        """Those that go, the oldest first. Only what this collection has taken ever does.

        snapshots: each after the one that it follows. now: seconds since the epoch. coming: one more is about to be
        taken, and counts as the newest.
        """
        when = _order(snapshots, now)
        own = sorted((one for one in snapshots if one.own), key=lambda one: when[one.name])
        newest = max(0, (self.last or 0) - coming)
        candidates = own[: len(own) - newest] if newest else own
        oldest = None if self.days is None else now - self.days * _DAY_SECONDS
        return [one for one in candidates if oldest is None or one.created < oldest]


def _order(snapshots: Sequence[Snapshot], now: float) -> dict[str, float]:
    """By name, when each was taken. One of the future, as a clock that was ahead has it, is no newer than those that
    follow it: otherwise it would have all of them deleted until its time comes."""
    when: dict[str, float] = {}
    for one in reversed(snapshots):
        taken = one.created if one.created <= now else when.get(one.name, now)
        when[one.name] = taken
        if one.parent is not None:
            when[one.parent] = min(taken, when.get(one.parent, now))
    return when


def read_retention(value: dict[str, object] | None, where: str = "keep") -> Retention | None:
    """The option, whose types Ansible has checked; None where it was not given. Raises InputError."""
    if value is None:
        return None
    last, days = value.get("last"), value.get("days")
    if last is None and days is None:
        raise InputError("it does not say what to keep", where=where, hint="Give last, days or both")
    for word, number, least in (("last", last, 1), ("days", days, 0)):
        if isinstance(number, (int, float)) and number < least:
            raise InputError(f"{number} is less than {least}", where=f"{where}.{word}")
    return Retention(last if isinstance(last, int) else None, float(days) if isinstance(days, (int, float)) else None)
