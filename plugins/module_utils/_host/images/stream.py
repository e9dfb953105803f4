# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams of bytes: hashed on their way, and written to a file with holes where they are zeros."""

from __future__ import annotations

import hashlib
import os
import typing as t
from dataclasses import dataclass

# Takes a phase, the bytes done and all bytes, where these are known: the manner of Meter.at.
ProgressCallback = t.Callable[[str, int, t.Optional[int]], t.Any]

CHUNK_BYTES = 1024 * 1024
# Holes are found in blocks of this size; file systems have smaller ones.
_BLOCK_BYTES = 64 * 1024
_ZEROS = bytes(CHUNK_BYTES)


@dataclass(frozen=True)
class HashedContent:
    """What all bytes of a file hash to, and how many they are; digests is hex by algorithm."""

    size_bytes: int
    digests: dict[str, str]

    @property
    def sha256(self) -> str:
        """The hash that stored images are named after."""
        return self.digests["sha256"]


def no_progress(_phase: str, _done_bytes: int, _total_bytes: int | None) -> None:
    """For work whose progress nobody wants to know."""


def with_progress(
    chunks: t.Iterable[bytes], on_progress: ProgressCallback, phase: str, total_bytes: int | None
) -> t.Iterator[bytes]:
    """The chunks themselves, and each time it is told how far they are."""
    done_bytes = 0
    for chunk in chunks:
        done_bytes += len(chunk)
        on_progress(phase, done_bytes, total_bytes)
        yield chunk


class HashedChunks:
    """Chunks that are hashed, by sha256 and the other algorithms asked for, while somebody takes them."""

    def __init__(self, chunks: t.Iterable[bytes], algorithms: t.Iterable[str] = ()) -> None:
        self._chunks = iter(chunks)
        self._hashes = {name: hashlib.new(name) for name in sorted({"sha256", *algorithms})}
        self._size_bytes = 0

    def __iter__(self) -> t.Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        for item in self._hashes.values():
            item.update(chunk)
        self._size_bytes += len(chunk)
        return chunk

    def content(self) -> HashedContent:
        """Of all chunks; those that nobody took are taken now."""
        for _chunk in self:
            pass
        return HashedContent(self._size_bytes, {name: item.hexdigest() for name, item in self._hashes.items()})


def file_chunks(source: t.BinaryIO) -> t.Iterator[bytes]:
    """All bytes of an open file."""
    return iter(lambda: source.read(CHUNK_BYTES), b"")


def with_beginning(chunks: t.Iterator[bytes], size_bytes: int) -> tuple[bytes, t.Iterator[bytes]]:
    """The first bytes of a stream, and the stream with them still in it."""
    beginning = b""
    for chunk in chunks:
        beginning += chunk
        if len(beginning) >= size_bytes:
            break
    return beginning[:size_bytes], _joined(beginning, chunks)


def _joined(beginning: bytes, chunks: t.Iterator[bytes]) -> t.Iterator[bytes]:
    if beginning:
        yield beginning
    yield from chunks


def copy_stream(chunks: t.Iterable[bytes], target_fd: int | None, algorithms: t.Iterable[str] = ()) -> HashedContent:
    """Hash a stream and write it to an empty file on the way, as write_sparse does; target_fd None: hash alone."""
    hashed = HashedChunks(chunks, algorithms)
    if target_fd is not None:
        write_sparse(hashed, target_fd)
    return hashed.content()


def write_sparse(
    chunks: t.Iterable[bytes], target_fd: int, before_write: t.Callable[[int], None] | None = None
) -> None:
    """Write a stream to an empty file, runs of zeros as holes.

    before_write: is told the number of bytes before they are written, and may raise.
    """
    offset = 0
    for chunk in chunks:
        for start, end in _data(chunk, offset):
            if before_write is not None:
                before_write(end - start)
            _write_all(target_fd, chunk[start:end], offset + start)
        offset += len(chunk)
    os.ftruncate(target_fd, offset)


def _data(chunk: bytes, offset: int) -> t.Iterator[tuple[int, int]]:
    """From where to where in a chunk, which begins at this offset of the file, there are blocks other than zeros."""
    start = None
    position = 0
    while position < len(chunk):
        end = min(len(chunk), position + _BLOCK_BYTES - (offset + position) % _BLOCK_BYTES)
        if chunk[position:end] != _ZEROS[: end - position]:
            start = position if start is None else start
        elif start is not None:
            yield start, position
            start = None
        position = end
    if start is not None:
        yield start, len(chunk)


def _write_all(target_fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(target_fd, view, offset)
        view, offset = view[written:], offset + written
