# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compressed streams as the usual tools make them: whole, in several parts, cut off, damaged."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import os
import random
import shutil
import subprocess
import time
import tracemalloc
import typing as t
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.images import decompress as image_decompress
from ansible_collections.brine.virt.plugins.module_utils._host.images.decompress import BrokenStreamError, decompressed
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import CHUNK_BYTES

pytestmark = pytest.mark.medium

needs_zstd = pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
KINDS = ["xz", "gzip", "bzip2", pytest.param("zstd", marks=needs_zstd)]
# Some of it cannot be compressed, some very well, and it is longer than what is worked on at once.
CONTENT = random.Random(1).randbytes(CHUNK_BYTES) + bytes(3 * CHUNK_BYTES) + b"end"  # noqa: S311


@functools.lru_cache(maxsize=16)
def compress(kind: str, content: bytes) -> bytes:
    if kind == "zstd":
        return subprocess.run(["zstd", "--quiet"], input=content, stdout=subprocess.PIPE, check=True).stdout
    makers = {"xz": lzma.compress, "gzip": lambda data: gzip.compress(data, mtime=0), "bzip2": bz2.compress}
    return makers[kind](content)


def pieces(content: bytes, size: int = 10_000) -> t.Iterator[bytes]:
    return (content[start : start + size] for start in range(0, len(content), size))


def unpack(kind: str, packed: bytes, size: int = 10_000) -> bytes:
    return b"".join(decompressed(pieces(packed, size), kind, "FILE", Deadline(600)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [CONTENT, b"x", b""], ids=["much", "one byte", "nothing"])
def test_what_was_compressed_comes_back(kind: str, content: bytes) -> None:
    assert unpack(kind, compress(kind, content)) == content


@pytest.mark.parametrize("kind", ["xz", "gzip", "bzip2"])
@given(content=st.binary(max_size=300), size=st.integers(1, 50))
def test_however_it_is_cut_into_chunks(kind: str, content: bytes, size: int) -> None:
    assert unpack(kind, compress(kind, content), size) == content


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_streams_one_after_the_other_are_one(kind: str, size: int) -> None:
    contents = [b"first", bytes(2 * CHUNK_BYTES), b"last"]
    packed = b"".join(compress(kind, content) for content in contents)
    assert unpack(kind, packed, size) == b"".join(contents)


@pytest.mark.parametrize("kind", ["xz", "gzip"])
def test_zeros_between_streams_and_at_the_end_are_padding(kind: str) -> None:
    packed = compress(kind, b"first") + bytes(4) + compress(kind, b"last") + bytes(512)
    assert unpack(kind, packed, 3) == b"firstlast"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_off_is_no_whole_image(kind: str) -> None:
    packed = compress(kind, CONTENT)
    for end in (10, len(packed) // 2, len(packed) - 1):
        with pytest.raises(BrokenStreamError, match=rf"^FILE cannot be decompressed as {kind}: ") as caught:
            unpack(kind, packed[:end])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_found_out(kind: str) -> None:
    packed = bytearray(compress(kind, CONTENT))
    if kind == "zstd":
        # Its tool adds a check sum of its own.
        packed[-2] ^= 1
    else:
        packed[len(packed) // 2] ^= 1
    with pytest.raises(BrokenStreamError):
        unpack(kind, bytes(packed))


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_after_the_end_is_not_passed_over(kind: str) -> None:
    with pytest.raises(BrokenStreamError):
        unpack(kind, compress(kind, CONTENT) + b"something else")


@pytest.mark.parametrize("kind", ["xz", "gzip", "bzip2"])
def test_much_from_little_is_never_in_memory_as_a_whole(kind: str) -> None:
    packed = compress(kind, bytes(64 * CHUNK_BYTES))
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in decompressed(iter([packed]), kind, "FILE", Deadline(600)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 64 * CHUNK_BYTES
    assert peak < 20 * CHUNK_BYTES


def test_a_decoder_that_would_take_all_memory_is_refused() -> None:
    # A compressor that needs such a dictionary would take far more memory itself, so it is written into the header: the
    # size of the dictionary in the block's filter flags, and the block header's own check sum.
    # https://tukaani.org/xz/xz-file-format.txt, 3.1 and 5.3.1
    packed = bytearray(lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]))
    packed[packed.index(b"\x21\x01") + 2] = 36
    end = 12 + (packed[12] + 1) * 4
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    with pytest.raises(BrokenStreamError, match=r"FILE cannot be decompressed as xz: Memory usage limit exceeded"):
        unpack("xz", bytes(packed))


@pytest.mark.parametrize("kind", KINDS)
def test_the_deadline_holds(kind: str) -> None:
    began = time.monotonic()
    with pytest.raises(HostError, match=r"FILE was not decompressed within 0 s. Raise timeout"):
        list(decompressed(iter([compress(kind, CONTENT)]), kind, "FILE", Deadline(0)))
    assert time.monotonic() - began < 300


@pytest.mark.parametrize("kind", ["xz", "gzip", "bzip2"])
def test_the_deadline_holds_where_nothing_comes_out(kind: str) -> None:
    """Streams of nothing: most of the time goes by between them."""
    deadline = Deadline(0)
    chunks = iter([compress(kind, b"") * 1000, b"not asked for"])
    with pytest.raises(HostError, match=r"FILE was not decompressed within 0 s. Raise timeout"):
        list(decompressed(chunks, kind, "FILE", deadline))
    assert list(chunks) == [b"not asked for"]
    assert list(decompressed(iter([compress(kind, b"") * 3]), kind, "FILE", Deadline(600))) == []


@needs_zstd
def test_without_zstd_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> None:
    packed = compress("zstd", b"x")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UnsupportedError, match=r"FILE is compressed with zstd, and zstd is not installed on this host.*package zstd"
    ):
        unpack("zstd", packed)


@pytest.mark.parametrize(("kind", "library"), [("xz", "lzma"), ("bzip2", "bz2")])
def test_without_a_library_it_is_named(monkeypatch: pytest.MonkeyPatch, kind: str, library: str) -> None:
    monkeypatch.setattr(image_decompress, library, None)
    with pytest.raises(UnsupportedError, match=f"the Python on this host has no module {library}"):
        unpack(kind, compress(kind, b"x"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_source_is_raised_as_it_is(kind: str) -> None:
    def broken_off() -> t.Iterator[bytes]:
        yield compress(kind, os.urandom(100_000))[:50_000]
        raise HostError("the download broke off")

    with pytest.raises(HostError, match=r"^the download broke off$"):
        list(decompressed(broken_off(), kind, "FILE", Deadline(600)))
