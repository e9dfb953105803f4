# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether storage has room for what is to be made, before anything is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import format_size


@dataclass(frozen=True)
class RoomWish:
    """The room that one new volume takes at once.

    pool: the pool's name. shared: what its room is taken from; pools on one file system have the same. available_bytes:
    the room that is left there. needed_bytes: what the volume takes, nothing for one that grows as it is written to.
    """

    pool: str
    shared: str
    available_bytes: int
    needed_bytes: int


def require_room(wishes: Iterable[RoomWish], where: str | None = None) -> None:
    """Raise ConflictError when the wishes together want more than there is, counting what pools share only once."""
    by_place: dict[str, list[RoomWish]] = {}
    for wish in wishes:
        by_place.setdefault(wish.shared, []).append(wish)
    for group in by_place.values():
        needed = sum(wish.needed_bytes for wish in group)
        available = min(wish.available_bytes for wish in group)
        if needed > available:
            names = sorted({repr(wish.pool) for wish in group if wish.needed_bytes})
            who = f"pool {names[0]} has" if len(names) == 1 else f"pools {', '.join(names)} share one file system with"
            raise ConflictError(
                f"{who} {format_size(available)} free, the new volumes need {format_size(needed)} at once",
                where=where,
                hint="Free some space, choose another pool, or overlays instead of copies",
            )
