# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the image store: the volumes of a pool that are named after their content."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError, one_of_these
from ..._model.image.name import PROVENANCE_ATTRIBUTE, ImageName, newest_first, parse_image_volume, time_noted
from ..._model.xml.disk_source import FILE
from ..connection import VirConnect
from ..storage.pools import Pool, Pools
from ..storage.volume_facts import find_volume
from ..storage.volumes import volume_names

# So long after somebody has begun to use it an image is kept that hypervisors share: time to ask all of them, and act.
RECENT_SECONDS = 600
_NOTHING = bytes(4)


@dataclass(frozen=True)
class StoredImage:
    """One image of the store; digest is the first 16 hex digits of its sha256."""

    name: str
    volume: str
    pool: str
    path: str
    format: str
    virtual_size_bytes: int
    digest: str


def find_image_in(pool: Pool, name_or_volume: str) -> StoredImage:
    """The stored image of exactly this volume name, or else the only one of this plain name.

    A volume name in another format is that of the same image too, as it is in a cluster. Raises NotFoundError with near
    names, ConflictError with the volumes when several have the name.
    """
    images = stored_names(pool)
    found = [image for image in images if image.volume == name_or_volume]
    found = found or [image for image in images if image.name == name_or_volume]
    wanted = parse_image_volume(name_or_volume)
    if wanted is not None and not found:
        found = [image for image in images if (image.name, image.digest) == (wanted.name, wanted.digest)]
    if len(found) > 1:
        raise ConflictError(
            f"pool {pool.name} has {len(found)} images called {name_or_volume!r}",
            hint=f"Name one of the volumes: {', '.join(image.volume for image in found)}",
        )
    if not found:
        raise NotFoundError(
            f"there is no image {name_or_volume!r} in pool {pool.name}",
            hint=one_of_these(name_or_volume, {image.name for image in images}),
        )
    return load_image(pool, found[0])


def note_use(path: str) -> None:
    """Let an image's file be one that was changed now, as a machine is about to use it; nothing in it changes.

    Who removes an image from a store that hypervisors share has asked the others some time before.
    """
    with contextlib.suppress(OSError):
        found = os.stat(path)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def used_lately(path: str) -> bool:
    """Whether an image's file has come or been taken into use in the last RECENT_SECONDS, or in a future.

    The time of its last change (ctime) tells: reading does not alter it, note_use does, and libvirt, which changes the
    owner when a machine starts.
    """
    with contextlib.suppress(OSError):
        return time.time() - os.stat(path).st_ctime < RECENT_SECONDS
    return False


def stored_names(pool: Pool) -> list[ImageName]:
    """The names of all images in the pool, in order. Other volumes, and images that are not whole yet, are left out."""
    parsed = (parse_image_volume(volume) for volume in sorted(volume_names(pool)))
    return [image for image in parsed if image is not None and not _is_on_its_way(pool, image)]


def stored_at(pool: Pool, image: ImageName) -> int:
    """When an image came into the store under its name, in nanoseconds, as its provenance says, or else the time of its
    file; 0 where neither can be read."""
    path = pool.volume_path(image.volume)
    noted = noted_time(path, image)
    if noted is not None:
        return noted
    with contextlib.suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0


def noted_time(path: str, image: ImageName) -> int | None:
    """When an image came under its name, in nanoseconds since 1970, as its file says; None where it does not."""
    with contextlib.suppress(OSError):
        return time_noted(os.getxattr(path, PROVENANCE_ATTRIBUTE).decode(errors="replace"), image)
    return None


def newest_in(pool: Pool, name: str) -> StoredImage:
    """The newest of the stored images of this name. Raises NotFoundError with near names."""
    images = stored_names(pool)
    found = newest_first([image for image in images if image.name == name], lambda image: stored_at(pool, image))
    if not found:
        raise NotFoundError(
            f"there is no image {name!r} in pool {pool.name}",
            hint=one_of_these(name, {image.name for image in images}),
        )
    return load_image(pool, found[0])


def _is_on_its_way(pool: Pool, image: ImageName) -> bool:
    """Whether virt_migrate is just sending this image here from another hypervisor: its first bytes come last."""
    if image.format != "qcow2" or not pool.local:
        return False
    try:
        with open(pool.volume_path(image.volume), "rb") as file:
            return file.read(len(_NOTHING)) == _NOTHING
    except OSError:
        return False


def store_pool(conn: VirConnect, name: str) -> Pool:
    """The pool that an image store is in. Raises UnsupportedError unless it is one of files; see also Pools.get."""
    pool = Pools(conn).get(name, "pool")
    if pool.source_type != FILE:
        raise UnsupportedError(
            f"storage pool {name!r} is of type {pool.type}, and images are stored as files",
            where="pool",
            hint="Choose one of type dir, fs or netfs"
            + (", and set the pool for the disks: their image comes here by itself" if pool.clones_images else ""),
        )
    return pool


def load_image(pool: Pool, image: ImageName) -> StoredImage:
    """A stored image, with the size of its disk. Its format is what its name says. NotFoundError when it is gone."""
    found = find_volume(pool, image.volume, image_format=image.format)
    if found is None:
        raise NotFoundError(f"there is no image {image.volume} in pool {pool.name}")
    return StoredImage(
        name=image.name,
        volume=image.volume,
        pool=pool.name,
        path=found.path,
        format=image.format,
        virtual_size_bytes=found.capacity_bytes,
        digest=image.digest,
    )
