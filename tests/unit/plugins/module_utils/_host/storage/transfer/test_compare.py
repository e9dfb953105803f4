# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a volume holds the content of a file, and what tells it from another one later."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.compare import holds, stamp_of
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import BLOCK, FILE, DiskSource

# The same in each process of a run.
CONTENT = random.Random(1).randbytes(3 * 1024 * 1024 + 512)  # noqa: S311
SHA256, SIZE = hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)


def volume_at(path: Path, kind: str = FILE) -> tuple[Pool, Volume]:
    pool = Pool("default", str(path.parent), 0, None, local=True)
    size = path.stat().st_size
    return pool, Volume(path.name, "default", str(path), size, size, "raw", DiskSource(kind, str(path)))


@pytest.mark.parametrize(
    ("content", "same"),
    [
        (CONTENT, True),
        (CONTENT + bytes(5_000_000), True),
        (CONTENT[:-1], False),
        (CONTENT[:-1] + b"\0", False),
        (b"\0" + CONTENT[1:], False),
        (CONTENT + bytes(5_000_000) + b"\1", False),
        (CONTENT + b"\1" + bytes(5_000_000), False),
        (bytes(SIZE), False),
    ],
    ids=["same", "zeros after it", "shorter", "last", "first", "end", "after it", "zeros"],
)
def test_the_content_and_nothing_but_zeros_after_it(tmp_path: Path, content: bytes, same: bool) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert holds(*volume_at(path), SHA256, SIZE) is same


def test_holes_are_zeros_too(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    os.truncate(path, 1 << 40)
    assert holds(*volume_at(path), SHA256, SIZE) is True
    with path.open("r+b") as file:
        file.seek((1 << 40) - 1)
        file.write(b"!")
    assert holds(*volume_at(path), SHA256, SIZE) is False


def test_what_follows_on_a_device_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT + b"what the disk had before")
    assert holds(*volume_at(path, BLOCK), SHA256, SIZE) is True


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    seen: list[tuple[int, int]] = []
    holds(*volume_at(path), SHA256, SIZE, lambda done, whole: seen.append((done, whole)))
    assert (len(seen), seen[-1]) == (4, (SIZE, SIZE))


def test_another_file_or_other_content_has_another_stamp(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    first = stamp_of(*volume_at(path))
    assert stamp_of(*volume_at(path)) == first
    path.rename(tmp_path / "b")
    path.write_bytes(CONTENT)
    os.utime(path, ns=(first[3], first[3]))  # type: ignore[index]
    assert stamp_of(*volume_at(path)) != first
    (tmp_path / "b").rename(path)
    assert stamp_of(*volume_at(path)) == first
    with path.open("r+b") as file:
        file.write(b"!")
    assert stamp_of(*volume_at(path)) != first
