# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What VMDK images of every kind that qemu-img makes are made of, and what QED images are backed by."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.image.header import (
    referenced_by_qed,
    referenced_by_vmdk,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.qcow2 import Read

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def reader(content: bytes) -> Read:
    return lambda offset, length: content[offset : offset + length]


def make(path: Path, *words: str) -> list[str]:
    subprocess.run(["qemu-img", "create", "-q", "-f", "vmdk", *words, str(path), "64M"], check=True)
    return referenced_by_vmdk(reader(path.read_bytes()))


@needs_qemu_img
@pytest.mark.parametrize(
    ("kind", "extents"),
    [
        ("monolithicSparse", ["disk.vmdk"]),
        ("monolithicFlat", ["disk-flat.vmdk"]),
        ("twoGbMaxExtentSparse", ["disk-s001.vmdk"]),
        ("twoGbMaxExtentFlat", ["disk-f001.vmdk"]),
        ("streamOptimized", ["disk.vmdk"]),
    ],
)
def test_the_files_that_it_consists_of(tmp_path: Path, kind: str, extents: list[str]) -> None:
    assert make(tmp_path / "disk.vmdk", "-o", f"subformat={kind}") == extents


@needs_qemu_img
def test_what_it_is_laid_on(tmp_path: Path) -> None:
    base = tmp_path / "base.vmdk"
    make(base)
    assert make(tmp_path / "disk.vmdk", "-b", str(base), "-F", "vmdk") == ["disk.vmdk", str(base)]


def test_what_is_no_vmdk_names_nothing() -> None:
    line = b'RW 1 FLAT "other.raw" 0\n'
    assert [referenced_by_vmdk(reader(text)) for text in (b"", line, b"KDMV", b"KDMV" + line * 9)] == [[]] * 4


@given(st.binary(max_size=200))
def test_a_broken_one_does_no_harm(rest: bytes) -> None:
    assert all(referenced_by_vmdk(reader(magic + rest)) is not None for magic in (b"KDMV", b"# Disk DescriptorFile"))


@needs_qemu_img
@pytest.mark.parametrize("backed", [False, True])
def test_what_a_qed_is_backed_by(tmp_path: Path, backed: bool) -> None:
    base, disk = tmp_path / "base.raw", tmp_path / "disk.qed"
    base.write_bytes(b"\0" * 65536)
    words = ["-b", str(base), "-F", "raw"] if backed else ["1M"]
    subprocess.run(["qemu-img", "create", "-q", "-f", "qed", str(disk), *words], check=True)
    assert referenced_by_qed(reader(disk.read_bytes())) == ([str(base)] if backed else [])


@given(st.binary(max_size=200))
def test_a_broken_qed_does_no_harm(rest: bytes) -> None:
    assert isinstance(referenced_by_qed(reader(b"QED\0" + rest)), list)
    assert referenced_by_qed(reader(b"QFI\xfb" + rest)) == []
