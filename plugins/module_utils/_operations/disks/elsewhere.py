# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine of another hypervisor uses a volume that a disk is to write to, in a pool that they share."""

from __future__ import annotations

from ..._base.errors import ConflictError
from ..._host.storage.pools import Pool
from ..._host.storage.shared_pools import seen_elsewhere
from ..._model.xml.disk_source import FILE
from ..hypervisor import Hypervisor
from ..shared_volumes.answers import ASK_THE_OTHERS

_ANOTHER_FILE = ". If that is another file, rename this one (same name) or copy it (same inode number)"


def check_elsewhere(pool: Pool, volume: str, hypervisor: Hypervisor, where: str) -> None:
    """Raise ConflictError when a machine of another hypervisor has a volume that is to be written to, or may have it.

    Where the others were not asked, what they are to be asked about and the error are noted in the hypervisor instead:
    all volumes of the task are found at once then.
    """
    unseen = seen_elsewhere(pool)
    if unseen is None:
        return
    hypervisor.ask_about([(pool, volume)])
    if hypervisor.left_elsewhere is None:
        hypervisor.unasked.append(_unclear(volume, unseen, where, ASK_THE_OTHERS))
        return
    others, unsaid = hypervisor.left_elsewhere(pool, volume)
    if others:
        raise ConflictError(
            f"volume {volume} is used by {', '.join(others)}",
            where=where,
            hint="Two machines may share it only if both are shareable or readonly"
            # What is no file is not told by its name.
            + (_ANOTHER_FILE if pool.source_type == FILE else ""),
        )
    if unsaid:
        raise _unclear(volume, "; ".join(unsaid), where, "Resolve that first, or set readonly for the disk")


def _unclear(volume: str, why: str, where: str, hint: str) -> ConflictError:
    return ConflictError(
        f"it cannot be determined whether something uses volume {volume}: {why}", where=where, hint=hint
    )
