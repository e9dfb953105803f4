# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of an image on their way in: from a file or the web, hashed, decompressed if need be, and hashed again."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, InputError
from ..._model.image.checksum import Checksum, verify_digests
from ..._model.image.header import HEADER_BYTES, check_image_header, compression, virtual_size
from ..._model.image.provenance import Provenance
from ..._model.url import shown_url
from ..images import files as image_files
from .decompress import BrokenStreamError, decompressed
from .fetch import download
from .files import Deadline, FreeSpaceGuard
from .inspection import read_header, require_whole_file
from .stream import (
    HashedChunks,
    HashedContent,
    ProgressCallback,
    no_progress,
    with_beginning,
    with_progress,
    write_sparse,
)


@dataclass(frozen=True)
class ImageSource:
    """Where an image comes from: a file, an address, or what writes it to an empty file whose path it is given.

    words: what that is, and size_bytes: what it takes at most. checksum: what the file must hash to, compressed or not,
    if that was said, or is known as this run has hashed it; content: the sha256 that what is in it must have, if that
    was said; origins: what else is known to become this image. check: raises VirtError for what can be seen to be
    missing for that, before anything is written.
    """

    path: str | None = None
    url: str | None = None
    checksum: Checksum | None = None
    hashed: bool = False
    content: Checksum | None = None
    origins: tuple[Checksum, ...] = ()
    write: t.Callable[[str], None] | None = None
    words: str = ""
    size_bytes: int | None = None
    check: t.Callable[[], None] | None = None

    @property
    def what(self) -> str:
        """The file, in words; of an address what may be shown."""
        return str(self.path or self.words or shown_url(self.url or ""))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The hashes to be taken of it."""
        return (self.checksum.algorithm,) if self.checksum else ()

    def verify(self, content: HashedContent) -> None:
        """Raises ConflictError when the bytes are not those that were meant."""
        if self.checksum is None:
            return
        if self.hashed and self.checksum not in checksums(content):
            raise ConflictError(
                f"{self.what} has changed since this run looked at it", where="path", hint="Run the task again"
            )
        verify_digests(content.digests, self.checksum, self.what)

    def verify_image(self, sha256: str) -> None:
        """Raises ConflictError when what is in the file is another image than was meant."""
        if self.content is not None:
            verify_digests({"sha256": sha256}, self.content, f"the image in {self.what}", "content_checksum")


@dataclass(frozen=True)
class IngestedImage:
    """What came in. how: the compression of the file, if any; origin: the file; content and header: the image in it."""

    origin: HashedContent
    content: HashedContent
    header: bytes
    how: str | None

    def provenance(self, origins: t.Iterable[Checksum] = ()) -> Provenance:
        """What is to be remembered of it, with other known origins."""
        own = checksums(self.origin) if self.how else ()
        known = {item for item in origins if item not in checksums(self.content)}
        return Provenance(checksums(self.content), tuple(dict.fromkeys([*sorted(known, key=str), *own])))


@dataclass(frozen=True)
class ImagePreview:
    """What an image file will be in the store."""

    sha256: str
    format: str
    size_bytes: int
    virtual_size_bytes: int


def checksums(content: HashedContent) -> tuple[Checksum, ...]:
    """All that a file is known to hash to."""
    return tuple(Checksum(algorithm, digest) for algorithm, digest in sorted(content.digests.items()))


def preview(
    source: ImageSource, deadline: Deadline, where: str | None = None, on_progress: ProgressCallback = no_progress
) -> ImagePreview:
    """What a local file will be, by reading all of it and writing nothing; without qemu-img.

    Raises what ingest and check_image_header raise. where: path in the user's input, for these.
    """
    taken = _take_file(source, None, "", deadline, where, on_progress)
    source.verify(taken.origin)
    source.verify_image(taken.content.sha256)
    size_bytes = taken.content.size_bytes
    image_format = check_image_header(taken.header, size_bytes, source.what, where)
    if taken.how is None and source.path is not None:
        # What is in a compressed file lies nowhere yet; its compressor's check sums have been right.
        require_whole_file(source.path, source.what, where)
    return ImagePreview(taken.content.sha256, image_format, size_bytes, virtual_size(taken.header, size_bytes))


def ingest(
    source: ImageSource, target_fd: int, directory: str, deadline: Deadline, on_progress: ProgressCallback = no_progress
) -> IngestedImage:
    """Write an image to an empty file in a directory, and say what it is. The checksum has been verified.

    Raises ConflictError for a wrong checksum, InputError for damaged bytes, HostError when they cannot be read, or
    have no space.
    """
    if source.url is not None:
        taken = _take_download(source.url, source, target_fd, directory, deadline, on_progress)
    else:
        taken = _take_file(source, target_fd, directory, deadline, None, on_progress)
    source.verify(taken.origin)
    source.verify_image(taken.content.sha256)
    return taken


def take_written(
    source: ImageSource, write: t.Callable[[str], None], path: str, on_progress: ProgressCallback = no_progress
) -> IngestedImage:
    """Have a source write its image to an empty file, and say what it is. Raises what ``write`` raises."""
    write(path)
    content = image_files.hash_file(path, source.algorithms, on_progress)
    return IngestedImage(content, content, read_header(path)[0], None)


def _take_file(
    source: ImageSource,
    target_fd: int | None,
    directory: str,
    deadline: Deadline,
    where: str | None,
    on_progress: ProgressCallback,
) -> IngestedImage:
    path = source.path
    if path is None:
        raise InputError("an image needs a path or an address to come from", where=where)
    header = read_header(path)[0]
    how = compression(header)
    if how is not None:
        with image_files.disk_errors(f"cannot decompress {path}", directory or None), open(path, "rb") as file:
            hashed = HashedChunks(
                image_files.chunks_with_progress(file, on_progress, "decompression"), source.algorithms
            )
            return _decompress(hashed, hashed, how, source, target_fd, directory, deadline, where)
    if target_fd is None:
        content = image_files.hash_file(path, source.algorithms, on_progress)
    else:
        content = image_files.copy_file(path, target_fd, directory, source.algorithms, on_progress)
    return IngestedImage(content, content, header, None)


def _take_download(
    url: str, source: ImageSource, target_fd: int, directory: str, deadline: Deadline, on_progress: ProgressCallback
) -> IngestedImage:
    with download(url, deadline) as answer:
        if answer.size_bytes is not None:
            image_files.require_free_disk_space(directory, answer.size_bytes, source.what)
        hashed = HashedChunks(
            with_progress(answer.chunks, on_progress, "download", answer.size_bytes), source.algorithms
        )
        header, chunks = with_beginning(hashed, HEADER_BYTES)
        how = compression(header)
        with image_files.disk_errors(f"cannot store {source.what} in {directory}", directory, answer.size_bytes):
            if how is not None:
                return _decompress(hashed, chunks, how, source, target_fd, directory, deadline)
            guard = FreeSpaceGuard(directory, source.what).wrote if answer.size_bytes is None else None
            write_sparse(chunks, target_fd, guard)
    content = hashed.content()
    return IngestedImage(content, content, header, None)


def _decompress(
    hashed: HashedChunks,
    chunks: t.Iterator[bytes],
    how: str,
    source: ImageSource,
    target_fd: int | None,
    directory: str,
    deadline: Deadline,
    where: str | None = None,
) -> IngestedImage:
    """The rest of a stream whose compressed bytes are hashed on their way."""
    inside = HashedChunks(decompressed(chunks, how, source.what, deadline, where))
    try:
        header, pieces = with_beginning(inside, HEADER_BYTES)
        if target_fd is not None:
            write_sparse(pieces, target_fd, FreeSpaceGuard(directory, source.what).wrote)
        content = inside.content()
    except BrokenStreamError:
        # That these are other bytes than were meant says more than that they cannot be decompressed.
        source.verify(hashed.content())
        raise
    return IngestedImage(hashed.content(), content, header, how)
