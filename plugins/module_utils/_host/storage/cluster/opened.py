# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of Ceph clusters: opened, and who else has them open."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterator, Sequence

from ...._base.errors import ConflictError, NotFoundError
from ..ceph import Cluster, open_cluster
from ..pools import Pool

PoolVolume = tuple[Pool, str]
# The cluster itself forgets a client that does not answer after 30 s (osd_client_watch_timeout).
_CLOSED_SECONDS = 45
_LOOK_SECONDS = 1.0


def require_closed(volumes: Sequence[PoolVolume]) -> None:
    """Raise ConflictError when any client has one of the volumes open, and keeps it open for a while."""
    with clusters_of(volumes) as clusters:
        for pool, volume in volumes:
            require_closed_one(clusters[pool.name], pool, volume)


def last_changes(volumes: Sequence[PoolVolume]) -> list[str]:
    """For each volume what is another one when it is another volume, and when somebody has written to it. Raises
    NotFoundError for one that is not there.

    Ceph notes the time of a write at most once a minute (rbd_mtime_update_interval).
    """
    with clusters_of(volumes) as clusters:
        found = []
        for pool, volume in volumes:
            with open_volume(clusters[pool.name], pool, volume, read_only=True) as image:
                found.append(f"{image.id()} {image.modify_timestamp()}")
        return found


@contextlib.contextmanager
def clusters_of(volumes: Sequence[PoolVolume]) -> Iterator[dict[str, Cluster]]:
    """A connection for each pool, for the block."""
    with contextlib.ExitStack() as opened:
        pools = {pool.name: pool for pool, _volume in volumes}
        yield {name: opened.enter_context(open_cluster(pool)) for name, pool in pools.items()}


@contextlib.contextmanager
def open_volume(cluster: Cluster, pool: Pool, volume: str, *, read_only: bool = False) -> Iterator[t.Any]:
    """An image of Ceph's bindings, for the block. Raises NotFoundError."""
    try:
        image = cluster.open(volume, read_only=read_only)
    except cluster.rbd.ImageNotFound as exc:
        raise NotFoundError(f"there is no volume {volume!r} in pool {pool.name} (any more)") from exc
    with image:
        yield image


def clients_of(cluster: Cluster, volume: str) -> list[str]:
    """The addresses of the clients that have a volume open to write to it, as QEMU always does."""
    # To read it, no watch is set.
    with cluster.open(volume, read_only=True) as image:
        return sorted({str(one["addr"]) for one in image.watchers_list()})


def require_closed_one(cluster: Cluster, pool: Pool, volume: str) -> None:
    """Wait until no client has a volume open; QEMU may have ended a moment ago."""
    end = time.monotonic() + _CLOSED_SECONDS
    while True:
        clients = clients_of(cluster, volume)
        if not clients:
            return
        if time.monotonic() > end:
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is open on {', '.join(clients)}, where a machine may be writing "
                "to it",
                hint="Look for that machine, and shut it down or detach the disk there",
            )
        time.sleep(_LOOK_SECONDS)
