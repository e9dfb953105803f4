# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one file from another, and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.backup.source_file import source_file
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import SourceFile
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import HEAD_BYTES, add_qcow2_mark


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "web1.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)
    return path


def mark(path: Path, words: str) -> None:
    with open(path, "r+b") as file:
        head = add_qcow2_mark(file.read(HEAD_BYTES), words)
        assert head is not None
        file.seek(0)
        file.write(head)


def test_whatever_happens_to_its_content_it_is_the_same(image: Path) -> None:
    mark(image, "0" * 32)
    before = source_file(str(image))
    assert before == SourceFile(image.stat().st_ino, "0" * 32)
    # QEMU writes the header again for this.
    for words in (["bitmap", "--add", str(image), "changes"], ["resize", "-q", str(image), "2M"]):
        subprocess.run(["qemu-img", *words], check=True)
    assert source_file(str(image)) == before
    os.symlink(image, image.with_name("link"))
    assert source_file(str(image.with_name("link"))) == before


def test_a_copy_of_an_older_state_in_its_place_is_another(image: Path) -> None:
    mark(image, "0" * 32)
    before = source_file(str(image))
    shutil.copy2(image, image.with_name("older"))
    image.with_name("older").rename(image)
    assert source_file(str(image)) != before


def test_what_is_no_mark_of_ours_is_none(image: Path, tmp_path: Path) -> None:
    assert source_file(str(image)) == SourceFile(image.stat().st_ino)
    mark(image, "/etc/passwd\0")
    assert source_file(str(image)) == SourceFile(image.stat().st_ino)
    raw = tmp_path / "web1.raw"
    raw.write_bytes(b"guest")
    assert source_file(str(raw)) == SourceFile(raw.stat().st_ino)


def test_what_is_no_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [source_file(path) for path in ("/dev/null", str(tmp_path / "pipe"), str(tmp_path / "gone"))] == [None] * 3
