# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which machines start: how it is written, and who starts together.

Machines of one order start together, those of the lowest order first, and those without an order last.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable

from ..._base.errors import InputError
from .fields import validators

# What an option says that takes an order away.
NO_ORDER = "none"
_ORDER = validators.whole_number(0, 9999)
# More than an hour is a mistake in the unit.
DELAY_SECONDS = validators.whole_number(0, 3600)

_STARTING = "running"
_STOPPING = ("stopped", "saved")

Item = t.TypeVar("Item")


def read_order(value: t.Any, where: str) -> int | str:
    """An order, or NO_ORDER. Raises InputError."""
    if value == NO_ORDER:
        return NO_ORDER
    try:
        return _ORDER(value, where)
    except InputError as exc:
        raise InputError(exc.what, where=exc.where, hint=f"{exc.hint}, or {NO_ORDER} for no order") from exc


def order_of(option: int | str | None) -> int | None:
    """The order that an option asks for; None where there is none."""
    return option if isinstance(option, int) else None


def in_start_order(items: Iterable[Item], order: Callable[[Item], int | None]) -> list[list[Item]]:
    """The items in groups that start together, the first group first; within one they keep their order.

    order: of an item, or None for those that come last.
    """
    groups: dict[int | None, list[Item]] = {}
    for item in items:
        groups.setdefault(order(item), []).append(item)
    last = groups.pop(None, [])
    return [groups[number] for number in sorted(key for key in groups if key is not None)] + ([last] if last else [])


def in_turn(items: Iterable[Item], state: str, order: Callable[[Item], int | None]) -> list[list[Item]]:
    """The items in the groups that are changed one after the other: as they start, and the other way round to stop.

    What neither starts nor stops them is done to all at once. state: what virt_power brings them into. order: as in
    in_start_order.
    """
    if state not in (_STARTING, *_STOPPING):
        return in_start_order(items, lambda _item: None)
    groups = in_start_order(items, order)
    return groups if state == _STARTING else groups[::-1]
