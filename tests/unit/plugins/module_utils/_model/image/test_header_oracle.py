# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken as an image, beside the judgement of OpenStack's inspector, which was written after the same attacks.

Whatever is accepted here must be accepted there, in the same format. Deliberate differences: extended L2 entries, which
QEMU has had since 5.2, are an unknown feature there; version 2 has no features, but their bytes count there;
and a raw image is searched there for partitions and ISO 9660.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import typing as t

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oslo_utils.imageutils import format_inspector

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import (
    HEADER_BYTES,
    check_image_header,
    require_whole,
)

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

_CLUSTER = 65536
_RAW_WITH_A_KNOWN_CONTENT = ("raw", "gpt", "iso")
_EXTENDED_L2 = 1 << 4
_FEATURES_OFFSET = 72
# Version 3, an empty disk of 1 MiB, with a reference count table behind the header, then its block and the L1 table.
# https://www.qemu.org/docs/master/interop/qcow2.html
_HEADER = struct.pack(
    ">4sIQIIQIIQQIIQQQQII",
    b"QFI\xfb", 3, 0, 0, 16, 1 << 20, 0, 1, 3 * _CLUSTER, _CLUSTER, 1, 0, 0, 0, 0, 0, 4, 104,
)  # fmt: skip
# Where each field lies, and how long it is.
_FIELDS = [
    (4, 4), (8, 8), (16, 4), (20, 4), (24, 8), (32, 4), (36, 4), (40, 8), (48, 8), (56, 4), (60, 4), (64, 8), (72, 8),
    (80, 8), (88, 8), (96, 4), (100, 4), (104, 4), (108, 4), (112, 8),
]  # fmt: skip
_NUMBERS = st.one_of(
    st.integers(0, 8),
    st.integers(0, 63).map(lambda bit: 1 << bit),
    st.sampled_from([104, 112, 512, _CLUSTER, 3 * _CLUSTER, 0xE2792ACA, 0x44415441, 0x6803F857, 2**64 - 1]),
)
_MARKS = [
    b"QFI\xfb", b"QFI\xfb\0\0\0\1", b"QED\0", b"KDMV", b"COWD", b"# Disk DescriptorFile\nversion=1\n", b"vhdxfile",
    b"conectix", b"\x7f\x10\xda\xbe", b"LUKS\xba\xbe\0\1", b"WithoutFreeSpace", b"\x55\xaa", b"EFI PART", b"CD001",
]  # fmt: skip


def judged_here(content: bytes) -> str | None:
    """The format, or None for what is refused."""
    try:
        found = check_image_header(content[:HEADER_BYTES], len(content), "FILE")
        require_whole(lambda offset, length: content[offset : offset + length], len(content), "FILE")
    except InputError:
        return None
    return found


def judged_there(path: t.Any, content: bytes) -> str | None:
    """The same of the other inspector."""
    path.write_bytes(content)
    try:
        found = format_inspector.detect_file_format(str(path))
        assert found is not None
        if str(found) not in _RAW_WITH_A_KNOWN_CONTENT:
            found.safety_check()
    except (format_inspector.ImageFormatError, format_inspector.SafetyCheckFailed):
        return None
    return "raw" if str(found) in _RAW_WITH_A_KNOWN_CONTENT else str(found)


def without_differences(content: bytes) -> bytes:
    """An image without the features that the other inspector judges otherwise."""
    (version,) = struct.unpack_from(">I", content, 4)
    (features,) = struct.unpack_from(">Q", content, _FEATURES_OFFSET)
    cleared = struct.pack(">Q", 0 if version == 2 else features & ~_EXTENDED_L2)
    return content[:_FEATURES_OFFSET] + cleared + content[_FEATURES_OFFSET + 8 :]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> t.Any:
    """A file to be written over and over."""
    return tmp_path_factory.mktemp("oracle") / "image"


def empty_image() -> bytearray:
    """A whole qcow2 image."""
    image = bytearray(4 * _CLUSTER)
    image[: len(_HEADER)] = _HEADER
    struct.pack_into(">Q", image, _CLUSTER, 2 * _CLUSTER)
    return image


def test_an_image_is_accepted_by_both(path: t.Any) -> None:
    image = bytes(empty_image())
    assert (judged_here(image), judged_there(path, image)) == ("qcow2", "qcow2")


@settings(max_examples=5 * settings().max_examples)
@given(st.lists(st.tuples(st.sampled_from(_FIELDS), _NUMBERS), min_size=1, max_size=3))
@example([((8, 8), 112), ((16, 4), 0)])
@example([((8, 8), 2**63)])
@example([((72, 8), 4)])
@example([((4, 4), 2), ((72, 8), 4)])
def test_fields_of_a_qcow2_header(path: t.Any, changes: list[tuple[tuple[int, int], int]]) -> None:
    image = empty_image()
    for (offset, length), number in changes:
        image[offset : offset + length] = (number % (1 << 8 * length)).to_bytes(length, "big")
    found = judged_here(bytes(image))
    if found is not None:
        assert judged_there(path, without_differences(bytes(image))) == found


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 4, 64, 446, 510, 512, 0x8001]), st.sampled_from(_MARKS)), min_size=1, max_size=3
    )
)
@example([(510, b"\x55\xaa"), (0x8001, b"CD001")])
def test_marks_of_other_formats(path: t.Any, marks: list[tuple[int, bytes]]) -> None:
    image = bytearray(2 * _CLUSTER)
    for offset, mark in marks:
        image[offset : offset + len(mark)] = mark
    found = judged_here(bytes(image))
    if found is not None:
        if image[0x8001:].startswith(b"CD001"):
            # An ISO image that also boots from a stick has a boot sector: there, that is one format too many.
            image[510:512] = bytes(2)
        assert judged_there(path, bytes(image)) == found


@needs_qemu_img
@pytest.mark.parametrize("name", ["qcow2", "qcow", "qed", "vmdk", "vdi", "vhdx", "vpc", "parallels", "raw"])
def test_what_qemu_img_makes(path: t.Any, name: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", name, str(path), "1M"], check=True)
    content = path.read_bytes()
    assert judged_here(content) == (name if name in ("qcow2", "raw") else None)
    if judged_here(content) is not None:
        assert judged_there(path, content) == name
