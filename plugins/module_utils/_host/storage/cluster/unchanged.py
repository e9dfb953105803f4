# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of Ceph clusters that are read for a long time, in which nobody else may write to them.

There is no lock of QEMU's on them that keeps others away, as there is on files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...._base.errors import ConflictError
from .opened import PoolVolume, clients_of, clusters_of, last_changes, require_closed

# Who opens a volume and writes to it has it open for longer. Each look is a connection to the cluster.
_LOOK_SECONDS = 5.0
_AGAIN = "Run it again"


class UnchangedVolumes:
    """The volumes, from begin to check. Each method raises ConflictError where somebody else has one open."""

    def __init__(self, volumes: Sequence[PoolVolume]) -> None:
        self._volumes = volumes
        self._changes: list[str] = []
        self._next = 0.0

    def begin(self) -> None:
        """Before any of them is read."""
        require_closed(self._volumes)
        self._changes = last_changes(self._volumes)

    def look(self, read: PoolVolume | None) -> None:
        """Again and again meanwhile. read: the volume that qemu-img has open now, if it is any of them."""
        now = time.monotonic()
        if not self._volumes or now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        with clusters_of(self._volumes) as clusters:
            for pool, volume in self._volumes:
                clients = clients_of(clusters[pool.name], volume)
                own = 1 if read is not None and (read[0].name, read[1]) == (pool.name, volume) else 0
                if len(clients) > own:
                    raise ConflictError(
                        f"volume {volume} of pool {pool.name} was opened while it was being read: by one of "
                        f"{', '.join(clients)}",
                        hint=_AGAIN,
                    )

    def check(self) -> None:
        """When all of them are read."""
        require_closed(self._volumes)
        for (pool, volume), before, after in zip(  # noqa: B905 - not in Python 3.9
            self._volumes, self._changes, last_changes(self._volumes)
        ):
            if before != after:
                raise ConflictError(
                    f"volume {volume} of pool {pool.name} was written to while it was being read", hint=_AGAIN
                )
