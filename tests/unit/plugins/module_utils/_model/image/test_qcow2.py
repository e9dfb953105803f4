# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a qcow2 file has to be by its own tables, and what backs it, on files of qemu-img's own making."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import require_whole
from ansible_collections.brine.virt.plugins.module_utils._model.image.qcow2 import (
    BrokenQcow2Error,
    Read,
    backing_name,
    needed_bytes,
    read_header,
    referenced_names,
)

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
KIB = 1024
# Each with the most that can be missing unnoticed: of a compressed file the unused end of its last sector, of others
# the rest of a cluster.
KINDS = {
    "plain": ((), 64 * KIB),
    "compressed": (("-c",), 512),
    "zstd": (("-c", "-o", "compression_type=zstd"), 512),
    "version 2": (("-c", "-o", "compat=0.10"), 512),
    "small clusters": (("-o", "cluster_size=512"), 512),
    "large clusters": (("-c", "-o", "cluster_size=2M"), 512),
    "subclusters": (("-o", "extended_l2=on,cluster_size=128k"), 128 * KIB),
}


def reader(content: bytes) -> Read:
    return lambda offset, length: content[offset : offset + length]


def made(tmp_path: Path, *options: str) -> bytes:
    """An image of 4 MiB, half of it something that a compressor makes smaller, but not much."""
    source, image = tmp_path / "source.raw", tmp_path / "image"
    numbers = random.Random(1)
    source.write_bytes(
        b"".join(numbers.randbytes(40 * KIB) + bytes(24 * KIB) for _number in range(32)) + bytes(2 * KIB * KIB)
    )
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", *options, source, image], check=True)
    return image.read_bytes()


@needs_qemu_img
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_image_is_long_enough_and_a_part_of_it_is_not(tmp_path: Path, kind: str) -> None:
    options, slack = KINDS[kind]
    content = made(tmp_path, *options)
    header = read_header(reader(content))
    assert header is not None
    assert (header.virtual_size_bytes, header.backing_file) == (4 * KIB * KIB, None)
    needed = needed_bytes(header, reader(content))
    assert 0 <= len(content) - needed < slack + 512
    require_whole(reader(content), len(content), "FILE")
    for length in (needed - 1, len(content) // 2, 300 * KIB, 600):
        part = content[:length]
        with pytest.raises(
            InputError, match=r"FILE is truncated: it has .*, and by its own tables at least .*checksum"
        ):
            require_whole(reader(part), length, "FILE")


@needs_qemu_img
@pytest.mark.parametrize("size", ["0", "512", "1G", "64T"])
def test_an_empty_image_is_whole(tmp_path: Path, size: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", tmp_path / "image", size], check=True)
    content = (tmp_path / "image").read_bytes()
    require_whole(reader(content), len(content), "FILE")


@needs_qemu_img
@pytest.mark.parametrize("named", ["base", "a" * 1000])
def test_what_an_image_leads_to(tmp_path: Path, named: str) -> None:
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", named, "-F", "raw", str(tmp_path / "image"), "1M"]
    subprocess.run(command, check=True)
    header = read_header(reader((tmp_path / "image").read_bytes()))
    assert header is not None
    assert (header.backing_file, header.backing_format, header.data_file) == (named, "raw", False)


@needs_qemu_img
@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (4, struct.pack(">I", 9), "its version 9 is unknown"),
        (20, struct.pack(">I", 63), "its header is invalid"),
        (36, struct.pack(">I", 0xFFFFFFFF), "its header is invalid"),
        (8, struct.pack(">QI", 1 << 40, 9), "the name of its backing file is invalid"),
    ],
)
def test_a_header_without_sense(tmp_path: Path, offset: int, value: bytes, words: str) -> None:
    content = bytearray(made(tmp_path))
    content[offset : offset + len(value)] = value
    with pytest.raises(BrokenQcow2Error, match=words):
        read_header(reader(bytes(content)))


@needs_qemu_img
def test_tables_that_overlap_are_not_read_over_and_over(tmp_path: Path) -> None:
    """A few MiB could otherwise have terabytes read: every entry of the first table may lead to another place."""
    content = bytearray(made(tmp_path, "-o", "cluster_size=2M"))
    header = read_header(reader(bytes(content)))
    assert header is not None
    struct.pack_into(">I", content, 36, 1024)
    for index in range(1024):
        struct.pack_into(">Q", content, header.l1_offset + 8 * index, (index + 1) * 512)
    count = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal count
        found = bytes(content[offset : offset + length])
        count += len(found)
        return found

    with pytest.raises(InputError, match="FILE is a broken qcow2 image: one of its tables does not begin at a cluster"):
        require_whole(read, len(content), "FILE")
    assert count <= 2 * len(content)


def test_what_is_no_qcow2_has_no_header() -> None:
    assert read_header(reader(bytes(512))) is None
    assert read_header(reader(b"QFI\xfb\0\0\0\1" + bytes(504))) is None
    with pytest.raises(BrokenQcow2Error, match="is truncated"):
        read_header(reader(b"QFI\xfb\0\0\0\3"))


@needs_qemu_img
def test_a_name_that_an_overlay_is_backed_by(tmp_path: Path) -> None:
    def read(name: str) -> Read:
        return reader((tmp_path / name).read_bytes())

    (tmp_path / "base.raw").write_bytes(bytes(1024 * 1024))
    for backing in ("base.raw", f"{tmp_path}/base.raw", f"file:{tmp_path}/base.raw"):
        command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", backing, "-F", "raw", "overlay"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert backing_name(read("overlay")) == backing
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "alone", "1M"], cwd=tmp_path, check=True)
    (tmp_path / "short").write_bytes(b"QFI\xfb\x00")
    assert [backing_name(read(name)) for name in ("alone", "base.raw", "short")] == [None, None, None]


@needs_qemu_img
def test_of_several_extensions_of_one_kind_qemu_goes_by_the_last(tmp_path: Path) -> None:
    """What the first one says would be believed of a file that QEMU opens in another format, and follows further."""
    path = tmp_path / "overlay"
    (tmp_path / "base").write_bytes(bytes(1024 * 1024))
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", "base", "-F", "raw", path], cwd=tmp_path, check=True
    )
    content = bytearray(path.read_bytes())
    extensions = b"".join(
        struct.pack(">II8s", kind, len(text), text)
        for kind, text in ((0xE2792ACA, b"raw"), (0x44415441, b"one"), (0xE2792ACA, b"qcow2"), (0x44415441, b"two"))
    )
    (begin,) = struct.unpack_from(">I", content, 100)
    content[begin:512] = (extensions + bytes(8) + b"base").ljust(512 - begin, b"\0")
    struct.pack_into(">QI", content, 8, begin + len(extensions) + 8, 4)
    path.write_bytes(content)
    said = subprocess.run(["qemu-img", "info", "-f", "qcow2", path], check=True, capture_output=True, text=True).stdout
    header = read_header(reader(bytes(content)))
    assert header is not None
    assert (header.backing_format, "backing file format: qcow2" in said) == ("qcow2", True)
    assert referenced_names(reader(bytes(content))) == ["base", "one", "two"]


def test_a_header_that_lies_about_its_backing_name_is_not_followed() -> None:
    header = b"QFI\xfb\x00\x00\x00\x03" + (2**40).to_bytes(8, "big") + (2**31).to_bytes(4, "big") + bytes(492)
    assert backing_name(reader(header)) is None
