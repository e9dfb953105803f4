# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether storage has space for what is to be made, before anything is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .._base.errors import ConflictError
from .spec.fields.units import format_size


@dataclass(frozen=True)
class SpaceRequest:
    """The space that one new volume takes at once.

    pool: the pool's name. shared: what its space is taken from; pools on one file system have the same.
    available_bytes: the space that is left there. needed_bytes: what the volume takes, nothing for one that grows as it
    is written to.
    """

    pool: str
    shared: str
    available_bytes: int
    needed_bytes: int


def require_free_space(requests: Iterable[SpaceRequest], where: str | None = None) -> None:
    """Raise ConflictError when the requests together want more than there is, counting what pools share only once."""
    by_place: dict[str, list[SpaceRequest]] = {}
    for request in requests:
        by_place.setdefault(request.shared, []).append(request)
    for group in by_place.values():
        needed = sum(request.needed_bytes for request in group)
        available = min(request.available_bytes for request in group)
        if needed > available:
            names = sorted({repr(request.pool) for request in group if request.needed_bytes})
            who = (
                f"pool {names[0]} has" if len(names) == 1 else f"pools {', '.join(names)} count as one file system with"
            )
            raise ConflictError(
                f"{who} {format_size(available)} free, the new volumes need {format_size(needed)} at once",
                where=where,
                hint="Free some space, choose another pool, or use overlays instead of copies",
            )
