# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store: bring an image into a pool under a name that says its content, once, whole, and for good."""

from __future__ import annotations

import os
import time
import typing as t
import urllib.parse
from dataclasses import asdict, dataclass

from ..._base.errors import HostError, UnsupportedError
from ..._base.files import read_setting
from ..._model.image.checksum import Checksum
from ..._model.image.name import PRIVATE_MODE, STORED_MODE, ImageName, image_name, parse_image_volume
from ..._model.image.provenance import Provenance
from ..connection import VirConnect
from ..images import files as image_files
from ..storage.pool_refresh import refresh_pool
from ..storage.pools import Pool
from ..storage.shared_pools import shared_because
from ..storage.volumes import volume_names
from .files import Deadline
from .ingest import ImagePreview, ImageSource, checksums, ingest, take_written
from .inspection import inspect_file
from .listing import StoredImage, load_image, store_pool, stored_names
from .provenance import keep_provenance, load_provenance
from .stream import ProgressCallback, no_progress

# https://libvirt.org/drvqemu.html#posix-users-groups
_QEMU_SETTINGS = "/etc/libvirt/qemu.conf"


@dataclass(frozen=True)
class HashedImage:
    """An image in the store, with what only its bytes tell."""

    image: StoredImage
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class StoreResult:
    """An image that was to be had in the store. new: it was not there before; forgets: where it came from could not be
    noted on it, so that it will be transferred again to find this out."""

    kept: HashedImage
    new: bool
    forgets: bool = False


def require_own_host(uri: str) -> None:
    """Raises UnsupportedError for a connection to another host: the store's files are worked on here."""
    if urllib.parse.urlsplit(uri).netloc:
        raise UnsupportedError(
            f"images are stored on the host that the task runs on, but {uri} is another host",
            where="uri",
            hint="Run the task on the hypervisor itself",
        )


class ImageStore:
    """The stored images of one pool on this very host. Errors of the pool are those of store_pool.

    read_only: nothing is noted on images that are only read. on_progress: is told how far long work is.
    """

    def __init__(
        self, conn: VirConnect, pool: str, *, read_only: bool = False, on_progress: ProgressCallback = no_progress
    ) -> None:
        self._pool: Pool = store_pool(conn, pool)
        self._read_only = read_only
        self._on_progress = on_progress
        if not os.path.isdir(self._pool.path):
            raise HostError(f"there is no directory {self._pool.path} of pool {pool} on this host", where="pool")

    def volumes(self, name: str) -> list[str]:
        """The volumes that hold an image of this name."""
        return [image.volume for image in self._images(name)]

    def find(self, name: str, *known: Checksum) -> HashedImage | None:
        """The stored image of this name that has one of these checksums of one file, or was made of that file.

        A volume's name tells the sha256 of its content, and its provenance what else is known. Where that does not
        tell a sha512, and nothing else of the file is known, all of the image is read.
        """
        images = self._images(name)
        found = self._known(images, known)
        if found is None and {item.algorithm for item in known} == {"sha512"}:
            found = next((image for image in images for item in known if self._hashes_to(image, item)), None)
        return None if found is None else self._keep(found, known)

    def find_twin(self, name: str, *known: Checksum) -> HashedImage | None:
        """An image of another name that is known to have one of these checksums, or to come from a file with it."""
        others = [image for image in stored_names(self._pool) if image.name != name]
        found = self._known(others, known)
        return None if found is None else self._keep(found, known)

    def remember(self, kept: HashedImage, origins: t.Sequence[Checksum]) -> bool:
        """Note on an image files that it comes from as well. Whether they are noted; of a store to read, not always.

        Without the directory's lock: of two runs that do this at once, one may forget the other's, which costs a
        transfer at most, and another run's long download would be waited for.
        """
        known = load_provenance(kept.image.path, kept.image.digest)
        more = known.joined(Provenance((Checksum("sha256", kept.sha256),), tuple(origins)))
        new = [item for item in origins if not known.knows(item) and item.digest != kept.sha256]
        if new and not self._read_only:
            keep_provenance(kept.image.path, more)
        return not new or not self._read_only

    def planned(self, name: str, image: ImagePreview) -> dict[str, t.Any]:
        """What an image would be in the store, for as_result. Raises ConflictError for a pool that is not mounted."""
        self._pool.require_mounted("pool")
        volume = image_name(name, image.sha256, image.format).volume
        return {
            "volume": volume,
            "path": self._pool.volume_path(volume),
            **asdict(image),
        }

    def require_free_space(self, source: ImageSource, size_bytes: int | None) -> None:
        """Raises HostError when the pool has no space for a file that is to come; None: nobody knows its size."""
        if size_bytes is not None:
            image_files.require_free_disk_space(self._pool.path, size_bytes, source.what)

    def bring(self, name: str, source: ImageSource, deadline: Deadline) -> StoreResult:
        """Have an image in the store. Whatever fails leaves the store as it was."""
        self._pool.require_mounted("pool")
        directory, shared = self._pool.path, shared_because(self._pool) is not None
        with image_files.locked_directory(directory, deadline, shared=shared):
            # libvirt may have taken them for volumes.
            self._look_again(bool(image_files.clear_parts(directory)))
            # Another run may have brought it while this one waited for the lock.
            sought = [*filter(None, [source.checksum]), *(source.origins if source.write else ())]
            kept = self.find(name, *sought) if sought else None
            if kept is not None:
                self.remember(kept, source.origins)
                return StoreResult(kept, new=False)
            linked = self._link(name, source)
            if linked is not None:
                return linked
            with image_files.partial_file(directory) as part:
                if source.write is not None:
                    self.require_free_space(source, source.size_bytes)
                    taken = take_written(source, source.write, part.path, self._on_progress)
                else:
                    taken = ingest(source, part.fd, directory, deadline, self._on_progress)
                found = inspect_file(part.path, source.what)
                image = image_name(name, taken.content.sha256, found.format)
                final_path = self._pool.volume_path(image.volume)
                provenance = taken.provenance(source.origins)
                # The same image may have come from elsewhere before, or meanwhile.
                self._look_again()
                new = image.volume not in self.volumes(name)
                if new:
                    remembered = keep_provenance(part.fd, provenance.joined(_stored_now(name)))
                    image_files.publish(part, final_path, self._mode(source, part.fd))
                else:
                    known = load_provenance(final_path, image.digest)
                    remembered = keep_provenance(final_path, known.joined(provenance))
            refresh_pool(self._pool.handle, self._pool.name)
            forgets = bool(taken.how or source.write) and not remembered
            kept = self._keep(image, checksums(taken.content))
            return StoreResult(kept, new=new, forgets=forgets)

    def _mode(self, source: ImageSource, fd: int) -> int:
        """Who may read an image. What a machine had on its disk is for nobody else, where libvirt can give it to QEMU:
        not on a share, which other hypervisors' QEMU may have as another user, or on which root is nobody."""
        given = read_setting(_QEMU_SETTINGS, "dynamic_ownership") != "0" and os.fstat(fd).st_uid == os.geteuid()
        private = source.write is not None and given and shared_because(self._pool) is None
        return PRIVATE_MODE if private else STORED_MODE

    def _look_again(self, changed: bool = False) -> None:
        """Have libvirt see what has changed in the directory, if anything has: another hypervisor that shares it may
        have brought an image. That is never replaced, as machines may have it open."""
        with image_files.disk_errors(f"cannot read {self._pool.path}"):
            there = {name for name in os.listdir(self._pool.path) if parse_image_volume(name) is not None}
        if changed or there - volume_names(self._pool):
            refresh_pool(self._pool.handle, self._pool.name)

    def _link(self, name: str, source: ImageSource) -> StoreResult | None:
        """Give an image that the store has under another name this name too. For who holds the lock.

        The image is read, so that it is what its name says. None where there is none, where this name is taken, where
        the stored image is damaged, on a file system without links, or on one that cannot tell when each name came, if
        that matters: the source's own bytes are stored then.
        """
        known = [item for item in (source.checksum, source.content) if item is not None]
        twin = self.find_twin(name, *known)
        if twin is None:
            return None
        path = twin.image.path
        content = image_files.hash_file(path, on_progress=self._on_progress)
        image = image_name(name, content.sha256, twin.image.format)
        if content.sha256 != twin.sha256 or image.volume in self.volumes(name):
            return None
        source.verify_image(content.sha256)
        # What is noted on the image is noted for all its names.
        known_before = load_provenance(path, image.digest)
        own = (Checksum("sha256", content.sha256),)
        origins = tuple(item for item in (*source.origins, *known) if item not in own)
        # First: without the time of this name, an image that has just been stored would be as old as the file.
        remembered = keep_provenance(path, known_before.joined(Provenance(own, origins)).joined(_stored_now(name)))
        if not remembered and self.volumes(name):
            return None
        if not image_files.link_image(path, self._pool.volume_path(image.volume)):
            return None
        refresh_pool(self._pool.handle, self._pool.name)
        return StoreResult(self._keep(image, own), new=True, forgets=bool(origins) and not remembered)

    def _images(self, name: str) -> list[ImageName]:
        return [image for image in stored_names(self._pool) if image.name == name]

    def _provenance(self, image: ImageName) -> Provenance:
        return load_provenance(self._pool.volume_path(image.volume), image.digest)

    def _known(self, images: t.Sequence[ImageName], known: t.Sequence[Checksum]) -> ImageName | None:
        """The one of them that has one of the checksums by its name or by its provenance."""
        for image in images:
            if any(item.algorithm == "sha256" and item.digest.startswith(image.digest) for item in known):
                return image
        for image in images:
            provenance = self._provenance(image)
            if any(provenance.knows(item) for item in known):
                return image
        return None

    def _hashes_to(self, image: ImageName, checksum: Checksum) -> bool:
        """Whether the image itself has this checksum; read once, and then remembered where that can be."""
        known = self._provenance(image)
        digest = known.content(checksum.algorithm)
        if digest is None:
            path = self._pool.volume_path(image.volume)
            content = image_files.hash_file(path, (checksum.algorithm,), self._on_progress)
            digest = content.digests[checksum.algorithm]
            if not self._read_only:
                keep_provenance(path, known.joined(Provenance(checksums(content))))
        return digest == checksum.digest

    def _keep(self, image: ImageName, known: t.Sequence[Checksum]) -> HashedImage:
        """known: checksums that led to the image; one of them may be that of the image itself."""
        stored = load_image(self._pool, image)
        own = [item.digest for item in known if item.algorithm == "sha256" and item.digest.startswith(image.digest)]
        sha256 = own[0] if own else self._provenance(image).content("sha256")
        if sha256 is None:
            sha256 = image_files.hash_file(stored.path, on_progress=self._on_progress).sha256
        with image_files.disk_errors(f"cannot inspect {stored.path}"):
            return HashedImage(stored, sha256, os.stat(stored.path).st_size)


def _stored_now(name: str) -> Provenance:
    return Provenance(stored=((name, time.time_ns()),))


def as_result(name: str, pool: str, kept: HashedImage | None, planned: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
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
