# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of the next backup: later than all that are there, whatever the clock said when those were made."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from ..._base.errors import ConflictError
from .manifest import backup_id, time_of


def next_id(there: Collection[str], kind: str, now: datetime) -> str:
    """The name of a backup that is begun now (UTC).

    there: the names of those in its directory, also of such that cannot be read. A backup is built on earlier ones
    only, and what is latest is so by its name. Raises ConflictError where nothing can be later.
    """
    begun = now.replace(microsecond=0)
    latest = max(there, default="", key=lambda name: name.partition("-")[0])
    if latest and begun <= time_of(latest):
        try:
            begun = time_of(latest) + timedelta(seconds=1)
        except OverflowError as exc:
            raise ConflictError(
                f"no backup can be later than {latest}: the clock was wrong when it was made, or it is not a backup",
                hint="Check what it is, and move it away",
            ) from exc
    return backup_id(begun, kind)
