# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that become the content of volumes: what is seen in them, and what is refused."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.images.source_file import (
    SourceFile,
    look_at_source,
    source_from_controller,
    source_to_module,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum

RAW = b"\x01" * 4096
ISO, UDF = bytes(32769) + b"CD001" + bytes(32762), bytes(32769) + b"BEA01" + bytes(32762)


@pytest.mark.parametrize(("content", "iso"), [(RAW, False), (ISO, True), (UDF, True)])
def test_a_raw_file_and_the_file_system_of_a_disc(tmp_path: Path, content: bytes, iso: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    digest, size = hashlib.sha256(content).hexdigest(), len(content)
    assert look_at_source(str(path), "src") == SourceFile(digest, size, "raw", size, iso, str(path))


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_a_qcow2_file_is_as_large_as_its_disk_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "3G"], check=True)
    found = look_at_source(str(path), "src")
    assert (found.format, found.virtual_size_bytes, found.iso) == ("qcow2", 3 << 30, False)
    path.write_bytes(path.read_bytes()[:150_000])
    with pytest.raises(VirtError, match="src: .* is truncated"):
        look_at_source(str(path), "src")
    (tmp_path / "x").write_bytes(RAW)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", "x", "-F", "raw", str(path), "3G"], check=True)
    with pytest.raises(VirtError, match="src: .* has a backing file"):
        look_at_source(str(path), "src")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "src: .* is empty"),
        (b"\xfd7zXZ\x00" + RAW, "src: .* is compressed with xz. Decompress it first"),
        (b"x" * 1000, "src: .* is not a disk image"),
        (b"KDMV" + RAW[4:], "src: .* is a vmdk image"),
    ],
)
def test_what_machines_cannot_use_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(VirtError, match=words):
        look_at_source(str(path), "src")


def test_it_has_the_wanted_checksum(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(RAW)
    wanted = Checksum("sha512", hashlib.sha512(RAW).hexdigest())
    assert look_at_source(str(path), "src", checksum=wanted).size_bytes == len(RAW)
    with pytest.raises(VirtError, match=r"volumes\[1\]\.checksum: .*has the sha512"):
        look_at_source(str(path), "src", checksum=Checksum("sha512", "0" * 128), where_checksum="volumes[1].checksum")


def test_the_module_is_told_all_but_where_it_is_on_the_controller() -> None:
    source = SourceFile("0" * 64, 512, "raw", 512, True, "/home/me/file")
    assert source_from_controller(source_to_module(source)) == SourceFile("0" * 64, 512, "raw", 512, True, None)
    assert source_from_controller(source_to_module(source, "/tmp/x")).path == "/tmp/x"
