# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in a pool of a Ceph cluster: brought there once for all hypervisors, and cloned for each disk.

The first disk that is made from an image in such a pool brings it there, as a raw volume of the image's name. While it
is filled it is called PART, and who fills it has it open: a volume that nobody has open any more is what a killed run
has left. Then it gets a protected snapshot, which its clones are made from, and its name, both at once for all who
look. Nobody writes to it any more, and the cluster itself refuses to delete what has a clone.
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.qemu_img import RAW, OnPercent, run_qemu_img
from ..._model.image.name import ImageName, parse_image_volume
from ..storage.ceph import Cluster, clones_of, open_cluster, qemu_name, snapshots_of_others
from ..storage.pool_refresh import refresh_pool
from ..storage.pools import Pool
from ..storage.proof import mark_in_cluster
from ..storage.volumes import VolumeExistsError, grow_volume
from .listing import StoredImage

SNAPSHOT = "brine"
PART = ".part"
Answer = t.TypeVar("Answer")
_FILL_SECONDS = 24 * 3600
# How long a volume must have been without anybody who has it open before it counts as left behind. The cluster itself
# forgets a client that does not answer after 30 s (osd_client_watch_timeout).
_ABANDONED_SECONDS = 15
_LOOK_SECONDS = 1.0


def image_in(pool: Pool, image: StoredImage) -> StoredImage:
    """An image as it is, or will be, in a pool of a cluster: the same name and content, raw."""
    volume = ImageName(image.name, image.digest, RAW).volume
    return replace(image, volume=volume, pool=pool.name, path=pool.volume_path(volume), format=RAW)


def bring_image(
    pool: Pool,
    image: StoredImage,
    wait_seconds: float = _FILL_SECONDS,
    on_percent: OnPercent | None = None,
) -> bool:
    """Have a stored image, a file of this machine, in a pool of a cluster; False when it is there already.

    One run brings it, and others that want it wait for that. on_percent: called with how much of it is there. Raises
    HostError when it cannot be brought, and when another one has not done so in time.
    """
    volume = image_in(pool, image).volume
    with open_cluster(pool) as cluster:
        if not _begin(cluster, volume, image.virtual_size_bytes, wait_seconds):
            refresh_pool(pool.handle, pool.name)
            return False
        part, filled_id = f"{volume}{PART}", None
        try:
            with cluster.open(part) as filled:
                filled_id = str(filled.id())
                _fill(pool, part, image, on_percent)
                filled.create_snap(SNAPSHOT)
                filled.protect_snap(SNAPSHOT)
                _give_name(cluster, part, volume, filled_id)
        except BaseException:
            # What went wrong says more than that nothing can be cleared either: the next run does that.
            with contextlib.suppress(cluster.rbd.Error, HostError):
                if filled_id is not None:
                    _require_same(cluster, part, filled_id)
                    _remove(cluster, part)
            raise
    refresh_pool(pool.handle, pool.name)
    return True


def clone_image(pool: Pool, image: str, name: str, *, size_bytes: int, mark: str) -> None:
    """A new volume that is a copy-on-write clone of an image of the pool, grown to size_bytes.

    By the cluster itself: when libvirt cannot make a clone, as another hypervisor has taken its name since libvirt last
    looked, it deletes the other one's volume. mark: see proof.py.
    Raises VolumeExistsError, ConflictError for an image that is no whole one (any more), HostError.
    """
    with open_cluster(pool) as cluster:
        try:
            cluster.volumes.clone(cluster.io, image, SNAPSHOT, cluster.io, name)
        except cluster.rbd.ImageExists as exc:
            raise VolumeExistsError(f"pool {pool.name} has had a volume {name} since this run was planned") from exc
        except cluster.rbd.ImageNotFound as exc:
            raise _no_image(cluster, pool, image) from exc
        with cluster.open(name) as clone:
            mark_in_cluster(clone, mark)
    refresh_pool(pool.handle, pool.name)
    grow_volume(pool, name, size_bytes, image_format=RAW)


def _no_image(cluster: Cluster, pool: Pool, image: str) -> VirtError:
    if cluster.has(image):
        return ConflictError(
            f"volume {image} of pool {pool.name} is not an image that this collection has copied there, as it has no "
            f"snapshot {SNAPSHOT}",
            hint="Rename it, and run this again",
        )
    return ConflictError(
        f"image {image} of pool {pool.name} has been removed since this run was planned", hint="Run it again"
    )


def _require_same(cluster: Cluster, part: str, filled_id: str) -> None:
    """Raise HostError when a volume is not the one that this run fills: a run that stood still for long enough counts
    as killed, and another one has begun anew."""
    if _id_of(cluster, part) != filled_id:
        raise HostError(f"another run has taken over {part}, as this one stood still", hint="Run this again")


def _give_name(cluster: Cluster, part: str, volume: str, filled_id: str) -> None:
    """Have the volume that this run has filled be the image. Raises HostError as _require_same does.

    A volume is renamed by its name, so that a run may stand still between its look and that as well.
    """
    _require_same(cluster, part, filled_id)
    cluster.volumes.rename(cluster.io, part, volume)
    if _id_of(cluster, volume) not in (filled_id, None):
        cluster.volumes.rename(cluster.io, volume, part)
        _require_same(cluster, part, filled_id)


def _id_of(cluster: Cluster, volume: str) -> str | None:
    """Which volume has this name; None where none has."""
    return _look_at(cluster, volume, lambda there: str(there.id()))


def _look_at(cluster: Cluster, volume: str, ask: t.Callable[[t.Any], Answer]) -> Answer | None:
    """What is found in a volume, which is only read; None where there is none of this name."""
    with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume, read_only=True) as there:
        return ask(there)
    return None


def _begin(cluster: Cluster, volume: str, size_bytes: int, wait_seconds: float) -> bool:
    """Make the volume that is to be filled; False when the image is there, by now or already."""
    part, end = f"{volume}{PART}", time.monotonic() + wait_seconds
    left: tuple[str, float] | None = None
    while not cluster.has(volume):
        with contextlib.suppress(cluster.rbd.ImageExists):
            cluster.volumes.create(cluster.io, part, size_bytes)
            if not cluster.has(volume):
                return True
            # It has got its name between the two looks, and what was made just now is one too many.
            _remove(cluster, part)
            return False
        unopened = _unopened_id(cluster, part)
        if unopened is None:
            left = None
        elif left is None or left[0] != unopened:
            left = (unopened, time.monotonic())
        if left is not None and time.monotonic() - left[1] > _ABANDONED_SECONDS:
            try:
                if _look_at(cluster, part, lambda there: list(there.list_children2())):
                    # It was an image, which a killed run was about to delete: it is whole.
                    _put_back(cluster, part, volume, left[0])
                else:
                    _remove(cluster, part, left[0])
            except cluster.rbd.ImageBusy:
                # Another run was faster.
                left = None
        elif time.monotonic() > end:
            raise HostError(
                f"another run is copying image {volume} into the pool, and has not finished within {wait_seconds:g} s",
                hint="Wait for it, and run this again",
            )
        else:
            time.sleep(_LOOK_SECONDS)
    return False


def _unopened_id(cluster: Cluster, volume: str) -> str | None:
    """Which volume of this name is there that no client has open, this one apart; None otherwise."""
    # To read it, no watch is set.
    return _look_at(cluster, volume, lambda there: None if list(there.watchers_list()) else str(there.id()))


def _fill(pool: Pool, volume: str, image: StoredImage, on_percent: OnPercent | None = None) -> None:
    target = qemu_name(pool, volume)
    # -n: the volume is there. It has never been written to, so that zeros need not be.
    words = [*target.options, "-n", "--target-is-zero", "-O", RAW, image.path, target.name]
    how: dict[str, t.Any] = {"timeout_seconds": _FILL_SECONDS, "on_percent": on_percent}
    answer = run_qemu_img("convert", image.format, *words, data=target.data, **how)
    answer.require(f"cannot copy {image.path} to {pool.volume_path(volume)}")


def users_in_cluster(pool: Pool, volumes: t.Iterable[str]) -> dict[str, tuple[str, ...]]:
    """In words, for what a cluster would not delete each of these volumes: clones, on whatever hypervisor their
    machines are, and snapshots that this collection has not taken."""
    found = {}
    with open_cluster(pool) as cluster:
        for volume in volumes:
            with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume, read_only=True) as image:
                others = [name for name in snapshots_of_others(image) if name != SNAPSHOT]
                found[volume] = (
                    *(f"volume {clone}, which is a clone of it" for clone in clones_of(image)),
                    *(f"snapshot {name} of it, which this collection has not taken" for name in others),
                )
    return found


def image_below(pool: Pool, volume: str) -> str | None:
    """The image that a volume is a clone of; None where it is none, or of something else. Raises HostError."""
    with open_cluster(pool) as cluster, contextlib.suppress(cluster.rbd.ImageNotFound):
        with cluster.open(volume, read_only=True) as there:
            # Of one without a parent: ImageNotFound.
            _pool, parent, snapshot = there.parent_info()
        return str(parent) if snapshot == SNAPSHOT and parse_image_volume(parent) is not None else None
    return None


def not_brought(pool: Pool, volumes: t.Iterable[str]) -> frozenset[str]:
    """Those of these volumes that only have the name of an image: they lack the snapshot that every image gets."""
    found = set()
    with open_cluster(pool) as cluster:
        for volume in volumes:
            with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume, read_only=True) as there:
                if not _has_snapshot(there):
                    found.add(volume)
    return frozenset(found)


def stored_seconds(pool: Pool, volumes: t.Iterable[str]) -> dict[str, float]:
    """When each of these volumes was made, in seconds since 1970; none of those that are not there."""
    found = {}
    with open_cluster(pool) as cluster:
        for volume in volumes:
            with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume, read_only=True) as image:
                found[volume] = image.create_timestamp().timestamp()
    return found


def delete_image(pool: Pool, volume: str) -> None:
    """Delete an image. Raises ConflictError when it has clones or snapshots of others, or somebody writes to it: by the
    cluster's own word, so that nobody's disk loses what is below it.

    It loses its name first: what a run leaves that is killed meanwhile is no image, and goes when one is brought again.
    """
    part = f"{volume}{PART}"
    with open_cluster(pool) as cluster:
        image_id = _id_of(cluster, volume)
        try:
            if image_id is not None and _set_aside(cluster, volume, part):
                _remove(cluster, part, image_id)
        except (cluster.rbd.ImageBusy, cluster.rbd.ImageHasSnapshots) as exc:
            _put_back(cluster, part, volume, image_id)
            raise ConflictError(f"image {volume} of pool {pool.name} is in use: {exc}") from exc
    refresh_pool(pool.handle, pool.name)


def clear_parts(pool: Pool) -> list[str]:
    """Delete what killed runs have left while they brought or deleted images; the names of that.

    It waits for some seconds if there is any: what nobody has open may be what a run has just made. What has clones, or
    snapshots of others, or is opened meanwhile, stays.
    """
    with open_cluster(pool) as cluster:
        left = {name: one for name in _parts(cluster) if (one := _abandoned_id(cluster, name)) is not None}
        end = time.monotonic() + _ABANDONED_SECONDS
        while left and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
            left = {name: one for name, one in left.items() if _abandoned_id(cluster, name) == one}
        cleared = []
        for name in left:
            with contextlib.suppress(cluster.rbd.ImageBusy, cluster.rbd.ImageHasSnapshots):
                _remove(cluster, name, left[name])
                cleared.append(name)
    if cleared:
        refresh_pool(pool.handle, pool.name)
    return cleared


def _parts(cluster: Cluster) -> list[str]:
    """The volumes that are called as an image is while it is filled."""
    names = [name for name in cluster.volumes.list(cluster.io) if name.endswith(PART)]
    return [name for name in names if parse_image_volume(name[: -len(PART)]) is not None]


def _abandoned_id(cluster: Cluster, volume: str) -> str | None:
    """Which volume of this name is there without clones, and without any client that has it open; None otherwise."""
    return _look_at(
        cluster,
        volume,
        lambda there: None if list(there.watchers_list()) or list(there.list_children2()) else str(there.id()),
    )


def _set_aside(cluster: Cluster, volume: str, part: str) -> bool:
    """Have an image be none any more; False when it is not there."""
    with contextlib.suppress(cluster.rbd.ImageNotFound):
        try:
            cluster.volumes.rename(cluster.io, volume, part)
        except cluster.rbd.ImageExists:
            # Nobody fills it, as the image is there.
            _remove(cluster, part)
            cluster.volumes.rename(cluster.io, volume, part)
        return True
    return False


def _put_back(cluster: Cluster, part: str, volume: str, image_id: str | None) -> None:
    """Have an image that the cluster does not delete be as it was. It refuses before it deletes any of the content.

    image_id: which volume it is. What another run has begun to fill meanwhile is none.
    """
    if cluster.has(volume) or image_id is None or _id_of(cluster, part) != image_id:
        return
    with cluster.open(part) as image:
        if not _has_snapshot(image):
            image.create_snap(SNAPSHOT)
        if not image.is_protected_snap(SNAPSHOT):
            image.protect_snap(SNAPSHOT)
    cluster.volumes.rename(cluster.io, part, volume)


def _remove(cluster: Cluster, volume: str, volume_id: str | None = None) -> None:
    """Delete a volume with the snapshot that it got here, unless it has clones or other snapshots, or is open; what is
    not there is passed over. volume_id: which one is meant, where another one may have got its name."""
    with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume) as image:
        if volume_id is not None and str(image.id()) != volume_id:
            return
        if _has_snapshot(image):
            if image.is_protected_snap(SNAPSHOT):
                image.unprotect_snap(SNAPSHOT)
            image.remove_snap(SNAPSHOT)
    with contextlib.suppress(cluster.rbd.ImageNotFound):
        cluster.volumes.remove(cluster.io, volume)


def _has_snapshot(image: t.Any) -> bool:
    return any(snapshot["name"] == SNAPSHOT for snapshot in image.list_snaps())
