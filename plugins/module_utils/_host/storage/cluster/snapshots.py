# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of volumes of a Ceph cluster: several volumes at one moment, back to it, and away with it.

Whoever has a volume open, such as QEMU, makes and deletes its snapshots for others that ask (the image feature
exclusive-lock), so that they can be had while a machine runs. A snapshot may have clones, also such as somebody has
made with libvirt: for a clone (vol-create-from), its back-end takes any snapshot that is like the volume now, and
protects it for ever (virStorageBackendRBDCloneImage in src/storage/storage_backend_rbd.c).
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Sequence

from ...._base.errors import ConflictError, NotFoundError
from ..ceph import remove_snapshot, require_no_clones_of, snapshot_names
from .opened import PoolVolume, clusters_of, open_volume, require_closed, require_closed_one


def names_of(volumes: Sequence[PoolVolume]) -> dict[str, set[str]]:
    """The names of all snapshots that volumes have, each with the volumes that have it (``pool/volume``); a volume that
    is not there has none."""
    found: dict[str, set[str]] = {}
    with clusters_of(volumes) as clusters:
        for pool, volume in volumes:
            cluster = clusters[pool.name]
            with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume, read_only=True) as image:
                for name in snapshot_names(image):
                    found.setdefault(name, set()).add(f"{pool.name}/{volume}")
    return found


def take(volumes: Sequence[PoolVolume], snapshot: str, still: contextlib.AbstractContextManager[None]) -> None:
    """A snapshot of all volumes, or of none. still: while the snapshots are made; nothing is written in the meantime,
    so that they are of one moment.

    Raises NotFoundError for a volume that is not there, ConflictError for one that has such a snapshot.
    """
    with clusters_of(volumes) as clusters, contextlib.ExitStack() as opened:
        images = [
            (pool, volume, opened.enter_context(open_volume(clusters[pool.name], pool, volume)))
            for pool, volume in volumes
        ]
        for pool, volume, image in images:
            if snapshot in snapshot_names(image):
                raise ConflictError(f"volume {volume} of pool {pool.name} has a snapshot {snapshot} already")
        try:
            with still:
                for _pool, _volume, image in images:
                    image.create_snap(snapshot)
        except BaseException:
            for pool, _volume, image in images:
                # One that was asked for may have come after its error; what went wrong says more than this.
                with contextlib.suppress(clusters[pool.name].rbd.Error):
                    if snapshot in snapshot_names(image):
                        image.remove_snap(snapshot)
            raise


def require_all(volumes: Sequence[PoolVolume], snapshot: str) -> None:
    """Raise NotFoundError for a volume that is not there, or has not got this snapshot."""
    with clusters_of(volumes) as clusters:
        for pool, volume in volumes:
            with open_volume(clusters[pool.name], pool, volume, read_only=True) as image:
                if snapshot not in snapshot_names(image):
                    raise NotFoundError(
                        f"volume {volume} of pool {pool.name} has no snapshot {snapshot} in its cluster (any more)",
                        hint="Somebody else has deleted it there, or has replaced the volume. Delete the machine's "
                        "snapshot: virt_snapshot with state: absent",
                    )


def roll_back(
    volumes: Sequence[PoolVolume], snapshot: str, on_volume: t.Callable[[str], t.Any] = lambda _words: None
) -> None:
    """Have all volumes be as in the snapshot again, also in size. It copies what has changed since then.

    on_volume: is told of each volume before its turn, in words; Ceph's bindings do not say how far one is.
    Raises ConflictError while any client has one of them open, NotFoundError as require_all does; nothing is changed
    then. A run that is killed, or that finds one open only when its turn comes, leaves volumes of which some are rolled
    back, and one perhaps in part: it can be done again.
    """
    require_all(volumes, snapshot)
    require_closed(volumes)
    with clusters_of(volumes) as clusters:
        for number, (pool, volume) in enumerate(volumes, 1):
            on_volume(f"volume {volume} of pool {pool.name}, {number} of {len(volumes)}")
            # Those before it may have taken hours.
            require_closed_one(clusters[pool.name], pool, volume)
            with clusters[pool.name].open(volume) as image:
                image.rollback_to_snap(snapshot)


def require_no_clones(volumes: Sequence[PoolVolume], snapshot: str) -> None:
    """Raise ConflictError, with their names, when the snapshot of any of the volumes has clones."""
    with clusters_of(volumes) as clusters:
        for pool, volume in volumes:
            require_no_clones_of(clusters[pool.name], pool, volume, snapshot)


def remove(volumes: Sequence[PoolVolume], snapshot: str) -> None:
    """Delete the snapshot of all volumes, as far as they have it. Raises ConflictError when one of them has clones;
    nothing is deleted then."""
    with clusters_of(volumes) as clusters:
        for pool, volume in volumes:
            require_no_clones_of(clusters[pool.name], pool, volume, snapshot)
        for pool, volume in volumes:
            remove_snapshot(clusters[pool.name], pool, volume, snapshot)
