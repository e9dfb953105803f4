# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams that are hashed and written with holes."""

from __future__ import annotations

import hashlib
import typing as t

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import (
    CHUNK_BYTES,
    HashedChunks,
    with_beginning,
    write_sparse,
)

BLOCK = 64 * 1024
# Runs of zeros and of something else, from nothing to several blocks.
RUNS = st.lists(st.tuples(st.sampled_from([b"\0", b"x"]), st.integers(0, 3 * BLOCK)), max_size=6)


@given(runs=RUNS, cuts=st.lists(st.integers(0, 12 * BLOCK), max_size=5))
def test_any_stream_is_written_as_it_is(
    tmp_path_factory: t.Any, runs: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    content = b"".join(byte * length for byte, length in runs)
    ends = [*sorted(cut for cut in cuts if cut < len(content)), len(content)]
    chunks = [content[start:end] for start, end in zip([0, *ends], ends) if start < end]
    path = tmp_path_factory.mktemp("stream") / "file"
    told: list[int] = []
    with open(path, "wb") as file:
        hashed = HashedChunks(chunks, ["sha512"])
        write_sparse(hashed, file.fileno(), told.append)
        found = hashed.content()
    assert path.read_bytes() == content
    assert found.size_bytes == len(content)
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    assert found.digests["sha512"] == hashlib.sha512(content).hexdigest()
    assert sum(told) <= len(content)


def test_holes_are_found_inside_of_chunks(tmp_path: t.Any) -> None:
    content = bytearray(8 * CHUNK_BYTES)
    for offset in range(0, len(content), CHUNK_BYTES):
        content[offset + 5 * BLOCK] = 1
    path = tmp_path / "file"
    with open(path, "wb") as file:
        write_sparse(
            [bytes(content[start : start + CHUNK_BYTES]) for start in range(0, len(content), CHUNK_BYTES)],
            file.fileno(),
        )
    assert path.read_bytes() == content
    assert path.stat().st_blocks * 512 <= 8 * 2 * BLOCK


@given(chunks=st.lists(st.binary(max_size=5)), size=st.integers(1, 10))
def test_a_look_at_the_beginning_takes_nothing_away(chunks: list[bytes], size: int) -> None:
    hashed = HashedChunks(iter(chunks))
    beginning, again = with_beginning(hashed, size)
    content = b"".join(chunks)
    assert beginning == content[:size]
    assert b"".join(again) == content
    assert hashed.content().sha256 == hashlib.sha256(content).hexdigest()


def test_what_nobody_took_is_hashed_at_the_end() -> None:
    hashed = HashedChunks(iter([b"a", b"b", b"c"]))
    assert next(hashed) == b"a"
    assert hashed.content().size_bytes == 3
    assert hashed.content().sha256 == hashlib.sha256(b"abc").hexdigest()
