# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store: bring an image into a pool under a name that says its content, once, whole, and for good."""

from __future__ import annotations

import os
import time
import typing as t
import urllib.parse
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import (
    HostError,
    InputError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host import image_files
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.image_fetch import download
from ansible_collections.brine.virt.plugins.module_utils._host.image_files import Content, Deadline, Part
from ansible_collections.brine.virt.plugins.module_utils._host.images import StoredImage, load_image, stored_names
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._model.checksum import Checksum, verify_digests
from ansible_collections.brine.virt.plugins.module_utils._model.image_name import ImageName, image_name

# How long another job in the pool (a volume that is being copied) may keep libvirt from looking into it again.
_REFRESH_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Source:
    """Where an image comes from: one of the two. checksum: what its bytes must hash to, if that was said."""

    path: str | None = None
    url: str | None = None
    checksum: Checksum | None = None

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The hashes to be taken of it."""
        return (self.checksum.algorithm,) if self.checksum else ()

    def verify(self, content: Content) -> None:
        """Raises ConflictError when the bytes are not those that were meant."""
        if self.checksum is not None:
            verify_digests(content.digests, self.checksum, str(self.path or self.url))


@dataclass(frozen=True)
class Kept:
    """An image in the store, with what only its bytes tell."""

    image: StoredImage
    sha256: str
    size_bytes: int


def require_own_host(uri: str) -> None:
    """Raises UnsupportedError for a connection to another host: the store's files are worked on here."""
    if urllib.parse.urlsplit(uri).netloc:
        raise UnsupportedError(
            f"images are stored on the host that the task runs on, and {uri} is another one",
            where="uri",
            hint="Run the task on the hypervisor itself",
        )


class ImageStore:
    """The stored images of one pool on this very host. Errors of the pool are those of Pools.get."""

    def __init__(self, conn: VirConnect, pool: str) -> None:
        self._pool: Pool = Pools(conn).get(pool, "pool")
        if not os.path.isdir(self._pool.path):
            raise HostError(f"there is no directory {self._pool.path} of pool {pool} on this host", where="pool")

    def volumes(self, name: str) -> list[str]:
        """The volumes that hold an image of this name."""
        return [image.volume for image in stored_names(self._pool) if image.name == name]

    def find(self, name: str, checksum: Checksum) -> Kept | None:
        """The stored image of this name and checksum. Its volume's name tells a sha256; for a sha512, all of its bytes
        are read."""
        for image in stored_names(self._pool):
            if image.name != name:
                continue
            if checksum.algorithm == "sha256":
                if checksum.digest.startswith(image.digest):
                    return self._keep(image, checksum.digest)
            else:
                content = image_files.hash_file(self._pool.volume_path(image.volume), (checksum.algorithm,))
                if content.digests[checksum.algorithm] == checksum.digest:
                    return self._keep(image, content.sha256)
        return None

    def planned(self, name: str, content: Content, path: str) -> dict[str, t.Any]:
        """What a file would be in the store, for as_result. Raises what inspect_file raises for one that cannot be."""
        found = image_files.inspect_file(path, path)
        image = image_name(name, content.sha256, found.format)
        return {
            "volume": image.volume,
            "path": self._pool.volume_path(image.volume),
            "format": found.format,
            "sha256": content.sha256,
            "size_bytes": content.size_bytes,
            "virtual_size_bytes": found.virtual_size_bytes,
        }

    def bring(self, name: str, source: Source, deadline: Deadline) -> tuple[Kept, bool]:
        """Have an image in the store; whether that changed anything. Whatever fails leaves the store as it was."""
        directory = self._pool.path
        with image_files.locked_directory(directory, deadline):
            if image_files.clear_parts(directory):
                # libvirt may have taken them for volumes.
                self._refresh()
            with image_files.part_file(directory) as part:
                content = self._fill(part, source, deadline)
                source.verify(content)
                what = str(source.path or source.url)
                found = image_files.inspect_file(part.path, what)
                image = image_name(name, content.sha256, found.format)
                final_path = self._pool.volume_path(image.volume)
                # Another run may have brought it while this one waited for the lock.
                new = not os.path.lexists(final_path)
                if new:
                    image_files.publish(part, final_path)
            self._refresh()
            return self._keep(image, content.sha256), new

    def _fill(self, part: Part, source: Source, deadline: Deadline) -> Content:
        directory = self._pool.path
        if source.path is not None:
            return image_files.copy_file(source.path, part.fd, directory, source.algorithms)
        if source.url is None:
            raise InputError("an image needs a path or an address to come from")
        with download(source.url, deadline) as answer:
            if answer.size_bytes is not None:
                image_files.require_room(directory, answer.size_bytes, source.url)
            with image_files.disk_errors(f"cannot store {source.url} in {directory}"):
                return image_files.copy_stream(answer.chunks, part.fd, source.algorithms)

    def _refresh(self) -> None:
        """Let libvirt see what has changed in the directory."""
        end = time.monotonic() + _REFRESH_PATIENCE_SECONDS
        while True:
            try:
                with errors_as_ours(f"cannot refresh pool {self._pool.name}"):
                    self._pool.handle.refresh(0)
                return
            except VirtError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def _keep(self, image: ImageName, sha256: str) -> Kept:
        stored = load_image(self._pool, image)
        with image_files.disk_errors(f"cannot look at {stored.path}"):
            return Kept(stored, sha256, os.stat(stored.path).st_size)


def as_result(name: str, pool: str, kept: Kept | None, planned: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """An image as modules return it; of one that is not stored yet, null for what is not known."""
    if kept is None:
        keys = ("volume", "path", "format", "sha256", "size_bytes", "virtual_size_bytes")
        return {"name": name, "pool": pool, **dict.fromkeys(keys), **planned}
    image = kept.image
    return {
        "name": image.name,
        "volume": image.volume,
        "pool": image.pool,
        "path": image.path,
        "format": image.format,
        "sha256": kept.sha256,
        "size_bytes": kept.size_bytes,
        "virtual_size_bytes": image.virtual_size_bytes,
    }
