# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compressed images, decompressed as a stream: never a whole one in memory, and none taken for whole that is not."""

from __future__ import annotations

import typing as t
import zlib

from ..._base.commands import pipe_through
from ..._base.errors import HostError, InputError, UnsupportedError
from .files import Deadline
from .stream import CHUNK_BYTES

# A Python of one's own making may have been built without these two.
try:
    import bz2
except ImportError:
    bz2 = None  # type: ignore[assignment]
try:
    import lzma
except ImportError:
    lzma = None  # type: ignore[assignment]

# What a decoder may take; xz -9 needs 65 MiB. zstd(1) has a limit of its own, 128 MiB.
_MEMORY_BYTES = 256 * 1024 * 1024
_GZIP_WINDOW = 31
_ZSTD = ("zstd", "--decompress", "--stdout", "--quiet")


class BrokenStreamError(InputError):
    """The bytes are not what a compressor wrote, or not all of it."""


class _Decoder(t.Protocol):
    """Of one compressed stream; what Python's lzma and bz2 have in common."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream has come, with every check sum in it right."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out of what was put in."""

    @property
    def unused_data(self) -> bytes:
        """What was put in beyond the end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes, at most so many."""


class _GzipDecoder:
    """zlib's decoder in the manner of the other two."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(wbits=_GZIP_WINDOW)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._object.decompress(self._object.unconsumed_tail + data, max_length)
        # A piece of full length may have been cut off inside, with all input taken.
        self.needs_input = not self._object.unconsumed_tail and len(piece) < max_length
        return piece


def _xz_decoder() -> _Decoder:
    if lzma is None:
        raise _missing("lzma")
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)


def _bzip2_decoder() -> _Decoder:
    if bz2 is None:
        raise _missing("bz2")
    return bz2.BZ2Decompressor()


def _missing(library: str) -> UnsupportedError:
    return UnsupportedError(f"the Python on this host has no module {library}", hint="Use the system's own Python")


_DECODERS: dict[str, t.Callable[[], _Decoder]] = {"xz": _xz_decoder, "gzip": _GzipDecoder, "bzip2": _bzip2_decoder}
_DECODER_ERRORS = (zlib.error, EOFError, MemoryError, OSError, ValueError) + ((lzma.LZMAError,) if lzma else ())


def decompressed(
    chunks: t.Iterator[bytes], how: str, what: str, deadline: Deadline, where: str | None = None
) -> t.Iterator[bytes]:
    """What a compressed stream holds. how: as the image header says; what: the file, in words, for complaints.

    Raises BrokenStreamError for what is cut off or damaged, UnsupportedError without the program or library for it,
    HostError when it is not done at the deadline, and what the chunks raise.
    """
    pieces = _by_zstd(chunks, what, where) if how == "zstd" else _by_python(chunks, how, what, where)
    for piece in pieces:
        if deadline.passed:
            raise HostError(f"{what} was not decompressed within {deadline.seconds:g} s", hint="Raise timeout")
        if piece:
            yield piece


def _broken(what: str, how: str, why: str, where: str | None) -> BrokenStreamError:
    return BrokenStreamError(f"{what} cannot be decompressed as {how}: {why}", where=where)


def _by_zstd(chunks: t.Iterator[bytes], what: str, where: str | None) -> t.Iterator[bytes]:
    try:
        yield from pipe_through(_ZSTD, chunks)
    except FileNotFoundError as exc:
        raise UnsupportedError(
            f"{what} is compressed with zstd, and zstd is not installed on this host",
            hint="Install the package zstd",
        ) from exc
    except ChildProcessError as exc:
        raise _broken(what, "zstd", str(exc), where) from exc


def _by_python(chunks: t.Iterator[bytes], how: str, what: str, where: str | None) -> t.Iterator[bytes]:
    decoder: _Decoder | None = None
    seen = False
    for chunk in chunks:
        data = chunk
        while data:
            if decoder is None:
                # Streams may stand one after the other (xz, bgzip, pbzip2), padded with zeros.
                data = data.lstrip(b"\0") if seen else data
                if not data:
                    break
                decoder, seen = _DECODERS[how](), True
            data = yield from _drain(decoder, data, how, what, where)
            if decoder.eof:
                decoder = None
                # Where the time is looked at: there may be a hundred thousand empty streams in a megabyte.
                yield b""
    if decoder is not None:
        raise _broken(what, how, "it is truncated", where)


def _drain(decoder: _Decoder, data: bytes, how: str, what: str, where: str | None) -> t.Generator[bytes, None, bytes]:
    """All that comes out for some data. Gives back what lies beyond the stream's end."""
    while True:
        try:
            piece = decoder.decompress(data, CHUNK_BYTES)
        except _DECODER_ERRORS as exc:
            raise _broken(what, how, str(exc) or type(exc).__name__, where) from exc
        data = b""
        if piece:
            yield piece
        if decoder.eof:
            return decoder.unused_data
        if decoder.needs_input:
            return b""
