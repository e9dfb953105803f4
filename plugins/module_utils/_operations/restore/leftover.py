# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a killed restore of a single disk has left: no machine's notes tell of it, so that the volume has to.

It is marked as unfinished until it is whole. A run that is killed before it could put the mark there leaves a volume
that holds nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ..._base.errors import ConflictError
from ..._host.connection import host_name
from ..._host.storage.pools import Pool
from ..._host.storage.proof import is_proven, mark_of, unfinished_of
from ..._host.storage.transfer.fill import require_no_sender
from ..._host.storage.usage import UNUSED, delete_unused, require_unused
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..hypervisor import Hypervisor
from ..plan import Step


@dataclass(frozen=True)
class Leftover:
    """A volume that is not whole.

    token: of the restore that made it; None for one without a mark, which holds nothing.
    """

    pool: Pool
    note: VolumeNote
    token: str | None

    def is_still(self) -> bool:
        """Whether it is still that, and not what somebody else has made under the name."""
        if self.token is None:
            return _is_empty(self.pool, self.note)
        now = unfinished_of(self.pool, self.note.name)
        return now is not None and now.token == self.token

    def clear_step(self, hypervisor: Hypervisor) -> Step:
        """The step that deletes it, for who holds the lock that keeps others from taking it into use."""

        def apply() -> None:
            if self.is_still():
                delete_unused(hypervisor.conn, [(self.pool, self.note.name)])

        return Step(f"delete the unfinished volume {self.note.name} of pool {self.pool.name}", apply)


def find_leftover(
    pool: Pool, volume: str, size_bytes: int, image_format: str, hypervisor: Hypervisor, where: str | None
) -> Leftover | None:
    """The volume, if it is what a killed restore has left; None for any other.

    Raises ConflictError while it is being restored or used, and where either cannot be told.
    """
    making = CreationNote(uuid.uuid4().hex, size_bytes)
    note = VolumeNote(pool.name, volume, "disk", format=image_format, making=making)
    upload = unfinished_of(pool, volume)
    if upload is not None:
        require_no_sender(pool, volume, upload, host_name(hypervisor.conn), where)
        try:
            # The mark shows who has made it, and not that nobody has taken it into use since.
            require_unused(hypervisor.usage, [(pool, volume)])
        except ConflictError as exc:
            what = f"an interrupted restore has left its volume: {exc.what}"
            raise ConflictError(what, where=where, hint=exc.hint) from exc
        return Leftover(pool, note, upload.token)
    if _is_empty(pool, note) and hypervisor.usage.of(pool, volume).state == UNUSED:
        return Leftover(pool, note, None)
    return None


def _is_empty(pool: Pool, note: VolumeNote) -> bool:
    """Whether a volume is as it was to be made, without content and without anybody's mark."""
    return mark_of(pool, note.name) is None and is_proven(pool, note)
