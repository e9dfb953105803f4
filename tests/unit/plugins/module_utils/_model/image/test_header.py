# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file is by its first bytes. The files are made by the tools that people make them with."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import (
    HEADER_BYTES,
    check_image_header,
    compression,
    disk_format,
)

pytestmark = pytest.mark.medium

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def judge(content: bytes) -> str:
    return check_image_header(content[:HEADER_BYTES], len(content), "FILE", "path")


def made(tmp_path: t.Any, *options: str) -> bytes:
    """What qemu-img create makes, with a secret and a base to refer to at hand."""
    (tmp_path / "secret").write_text("secret")
    subprocess.run(["qemu-img", "create", "-q", "-f", "raw", "base.raw", "1M"], cwd=tmp_path, check=True)
    command = ["qemu-img", "create", "-q", "--object", "secret,id=s,file=secret", *options]
    # For a key, qemu-img measures how fast it hashes, and by chance alone the kernel may have counted no time for that.
    for _attempt in range(50):
        created = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
        if "Unable to get accurate CPU usage" not in created.stderr:
            break
    assert created.returncode == 0, created.stderr
    return bytes((tmp_path / "image").read_bytes())


@needs_qemu_img
@pytest.mark.parametrize(
    ("options", "image_format"),
    [
        (("-f", "qcow2", "image", "1M"), "qcow2"),
        (("-f", "qcow2", "-o", "compat=0.10", "image", "1M"), "qcow2"),
        (("-f", "qcow2", "-o", "extended_l2=on", "image", "1M"), "qcow2"),
        (("-f", "raw", "image", "1M"), "raw"),
    ],
)
def test_what_can_be_stored(tmp_path: t.Any, options: tuple[str, ...], image_format: str) -> None:
    assert judge(made(tmp_path, *options)) == image_format


@needs_qemu_img
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-f", "qcow2", "-b", "base.raw", "-F", "raw", "image"), "has a backing file"),
        (("-f", "qcow2", "-o", "data_file=data", "image", "1M"), "has its data in another file"),
        (
            ("-f", "qcow2", "-o", "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10", "image", "1M"),
            "is encrypted",
        ),
        (("-f", "luks", "-o", "key-secret=s,iter-time=10", "image", "1M"), "is encrypted"),
        (("-f", "vmdk", "image", "1M"), "is a vmdk image"),
        (("-f", "vmdk", "-o", "subformat=monolithicFlat", "image", "1M"), "is a vmdk image"),
        (("-f", "vdi", "image", "1M"), "is a vdi image"),
        (("-f", "vhdx", "image", "1M"), "is a vhdx image"),
        (("-f", "vpc", "image", "1M"), "is a vhd image"),
        (("-f", "qed", "image", "1M"), "is a qed image"),
        (("-f", "parallels", "image", "1M"), "is a parallels image"),
        (("-f", "qcow", "image", "1M"), r"is a qcow \(version 1\) image"),
    ],
)
def test_what_must_not_be_stored(tmp_path: t.Any, options: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=f"path: FILE {says}.*qemu-img convert"):
        judge(made(tmp_path, *options))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (
            gzip.compress(b"x", mtime=0),
            "is compressed twice, the inner layer with gzip. Decompress it once and give the result",
        ),
        (b"PK\x03\x04" + b"x" * 508, "is a zip archive"),
        (b"x" * 257 + b"ustar" + b"x" * 250, "is a tar archive"),
        (
            b"VMA\x00" + b"x" * 508,
            "is a backup of Proxmox VE. Give the image itself: vma extract FILE FOLDER",
        ),
        (
            b"7z\xbc\xaf\x27\x1c" + b"x" * 506,
            "is a 7z archive. Give the image itself: 7z x FILE.",
        ),
        (b"Rar!\x1a\x07" + b"x" * 506, "is a rar archive"),
        (b"\x04\x22\x4d\x18" + b"x" * 508, "is compressed with lz4"),
        (b"\x89LZO\x00\r\n\x1a\n" + b"x" * 503, "is compressed with lzop"),
        (b"LZIP\x01" + b"x" * 507, "is compressed with lzip"),
        (b"<html>404</html>", "is not a disk image"),
        (b"QFI\xfb\x00\x00\x00\x03", "is a broken qcow2 image"),
        (b"QFI\xfb\x00\x00\x00\x09" + b"\x00" * 504, "is a broken qcow2 image. Its version 9 is unknown"),
    ],
)
def test_what_is_no_disk_image(content: bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(content)
    assert str(caught.value).startswith(f"path: FILE {says}")


@pytest.mark.parametrize("content", [b"", b"x"])
@pytest.mark.parametrize(
    ("made", "how"),
    [
        (lambda content: gzip.compress(content, mtime=0), "gzip"),
        (lzma.compress, "xz"),
        (bz2.compress, "bzip2"),
        (lambda content: subprocess.run(["zstd"], input=content, stdout=subprocess.PIPE, check=True).stdout, "zstd"),
    ],
    ids=["gzip", "xz", "bzip2", "zstd"],
)
def test_how_a_file_is_compressed(made: t.Callable[[bytes], bytes], how: str, content: bytes) -> None:
    if how == "zstd" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    assert compression(made(content)[:HEADER_BYTES]) == how
    assert compression(content) is None


def test_any_whole_sectors_are_a_raw_disk() -> None:
    assert judge(bytes(512)) == "raw"


@needs_qemu_img
@pytest.mark.parametrize("image_format", ["raw", "qcow", "qcow2", "vmdk", "vdi", "vpc", "vhdx", "qed", "parallels"])
def test_a_format_is_named_as_qemu_names_it(tmp_path: t.Any, image_format: str) -> None:
    assert disk_format(made(tmp_path, "-f", image_format, "image", "1M")[:HEADER_BYTES]) == image_format
