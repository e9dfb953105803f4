# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file is, by its first bytes: a disk image to be stored, or something to refuse and why; and of VMDK and QED,
which other files they need.

This looks before qemu-img does. qemu-img opens what an image refers to (a data file, the extents of a vmdk), and
takes what it does not know, a compressed image for one, for a raw disk.

QEMU opens VMDK and QED; libvirt 9.0 does not read QED. The descriptor of a VMDK is text: a file of its own, or at a
place that the header of a sparse image names.
Source: Virtual Disk Format 5.0 (VMware technical note), "The Descriptor File" and "Hosted Sparse Extent Header"; QEMU's
docs/interop/qed_spec.rst, "Header".
"""

from __future__ import annotations

import re
import struct

from ..._base.errors import InputError
from ..spec.fields.units import format_size
from .qcow2 import MAGIC, BrokenQcow2Error, Read, needed_bytes, read_header

HEADER_BYTES = 512
_SECTOR_BYTES = 512

# Sources: the magic numbers in file(1) and in QEMU's block drivers
# (https://gitlab.com/qemu-project/qemu/-/tree/master/block).
_COMPRESSED = (
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    # What pzstd(1) begins with.
    (b"\x50\x2a\x4d\x18", "zstd"),
    (b"BZh", "bzip2"),
)
# Where, what bytes, what it is, and the command that makes something usable of it. Proxmox's backups, whose size is a
# whole number of sectors: "VMA file format specification" in vma_spec.txt of its pve-qemu.
_ARCHIVES = (
    (0, b"PK\x03\x04", "a zip archive", "unzip FILE"),
    (257, b"ustar", "a tar archive", "tar --extract --file FILE"),
    (0, b"VMA\x00", "a backup of Proxmox VE", "vma extract FILE FOLDER, on a host of Proxmox VE"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x FILE"),
    (0, b"Rar!\x1a\x07", "a rar archive", "unrar x FILE"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -d FILE"),
    (0, b"\x89LZO\x00\r\n\x1a\n", "compressed with lzop", "lzop -d FILE"),
    (0, b"LZIP\x01", "compressed with lzip", "lzip -d FILE"),
)
# A VHD of fixed size has its mark in its last sector alone; all before that is the disk, and qemu-img takes it for raw.
# Source: Virtual Hard Disk Image Format Specification (Microsoft), "Hard Disk Footer Format".
_VHD_MARK = b"conectix"
_OTHER_FORMATS = (
    (0, b"KDMV", "vmdk"),
    (0, b"COWD", "vmdk"),
    (0, b"# Disk DescriptorFile", "vmdk"),
    (0, b"vhdxfile", "vhdx"),
    (0, _VHD_MARK, "vhd"),
    (64, b"\x7f\x10\xda\xbe", "vdi"),
    (0, b"QED\x00", "qed"),
    (0, b"WithoutFreeSpace", "parallels"),
    (0, b"WithouFreSpacExt", "parallels"),
    (0, b"QFI\xfb\x00\x00\x00\x01", "qcow (version 1)"),
)
# Formats that QEMU has another word for.
_QEMU_WORDS = {"vhd": "vpc", "qcow (version 1)": "qcow"}
_LUKS = b"LUKS\xba\xbe"
_CONVERT_VHD = "Convert it first with qemu-img convert -f vpc -O qcow2 FILE NEW_FILE"
_CONVERT = "Convert it first with qemu-img convert -O qcow2 FILE NEW_FILE"
_DECRYPT = "Decrypt it first with qemu-img convert"
_FLATTEN = "Flatten it first: qemu-img convert -O qcow2 FILE WHOLE_FILE"
_QCOW2_SIZE_OFFSET = 24
# Enough for 32 TiB in clusters of the usual size. A file of holes takes as much, and comes as a few kilobytes.
_MOST_CHECK_BYTES = 1 << 30

_TEXT_BEGINS = b"# Disk DescriptorFile"
# Magic, version, flags, capacity, size of a grain, offset and size of the descriptor.
_SPARSE = struct.Struct("<4sIIQQQQ")
_SPARSE_MAGIC = b"KDMV"
# Far more than QEMU reads of one.
_LONGEST_BYTES = 1 << 20
_EXTENT = re.compile(rb'^[ \t]*(?:RW|RDONLY|NOACCESS)[ \t]+\d+[ \t]+\w+[ \t]+"([^"\r\n]+)"', re.MULTILINE)
_PARENT = re.compile(rb'^[ \t]*parentFileNameHint[ \t]*=[ \t]*"([^"\r\n]+)"', re.MULTILINE)

# Magic, three sizes, three sets of features, where the first table is, size of the image, place and length of the name.
_QED = struct.Struct("<4sIIIQQQQQII")
_QED_MAGIC = b"QED\0"
_QED_HAS_BACKING_FILE = 1
# Far more than a path has.
_LONGEST_NAME_BYTES = 1 << 16


def compression(header: bytes) -> str | None:
    """How a file is compressed as a whole, by its first bytes: ``xz``, ``gzip``, ``bzip2``, ``zstd``, or not at all."""
    return next((name for magic, name in _COMPRESSED if header.startswith(magic)), None)


def check_image_header(header: bytes, size_bytes: int, what: str, where: str | None = None) -> str:
    """The format, ``qcow2`` or ``raw``, of a file that can be stored as it is, after any decompression.

    header: the first HEADER_BYTES of the file, all of a shorter one; what: the file, in words, for complaints. Raises
    InputError for everything else, with what to do about it.
    """
    if size_bytes == 0:
        raise InputError(f"{what} is empty", where=where)
    twice = compression(header)
    if twice:
        raise InputError(
            f"{what} is compressed twice, the inner layer with {twice}",
            where=where,
            hint="Decompress it once and give the result",
        )
    for offset, magic, state, command in _ARCHIVES:
        if header[offset:].startswith(magic):
            raise InputError(
                f"{what} is {state}",
                where=where,
                hint=f"Give the image itself: {command}. The checksum must then be that of the extracted file",
            )
    for offset, magic, name in _OTHER_FORMATS:
        if header[offset:].startswith(magic):
            raise unusable_format(what, name, where)
    if header.startswith(_LUKS):
        raise InputError(f"{what} is encrypted", where=where, hint=_DECRYPT)
    if header.startswith(MAGIC):
        return _check_qcow2(header, size_bytes, what, where)
    if size_bytes % _SECTOR_BYTES:
        raise InputError(
            f"{what} is not a disk image: "
            f"it is not qcow2, and its {size_bytes} bytes are not a whole number of sectors",
            where=where,
        )
    return "raw"


def disk_format(header: bytes) -> str:
    """The format of a disk by its first bytes, in the words of QEMU; what has no mark of any other is ``raw``.

    header: the first HEADER_BYTES of it. Unlike check_image_header, this complains of nothing.
    """
    if header.startswith(MAGIC) and header[4:8] != b"\x00\x00\x00\x01":
        return "qcow2"
    for offset, magic, name in _OTHER_FORMATS:
        if header[offset:].startswith(magic):
            return _QEMU_WORDS.get(name, name)
    return "luks" if header.startswith(_LUKS) else "raw"


def virtual_size(header: bytes, size_bytes: int) -> int:
    """The size in bytes of the disk that a judged image stands for: what its header says, or all of a raw one."""
    if header.startswith(MAGIC):
        return int(struct.unpack_from(">Q", header, _QCOW2_SIZE_OFFSET)[0])
    return size_bytes


def _check_qcow2(start: bytes, size_bytes: int, what: str, where: str | None) -> str:
    try:
        # A backing file's name lies behind these bytes; that there is one is enough here.
        header = read_header(lambda offset, length: start[offset : offset + length])
    except BrokenQcow2Error as exc:
        raise InputError(f"{what} is a broken qcow2 image", where=where, hint=f"{exc}".capitalize()) from exc
    if header is None:
        raise unusable_format(what, "qcow (version 1)", where)
    for is_so, says, hint in (
        (header.backing_file is not None, "has a backing file, and would be incomplete without it", _FLATTEN),
        (header.encrypted, "is encrypted", _DECRYPT),
        (header.data_file, "has its data in another file, and would be empty without it", _FLATTEN),
        (header.unknown_features, "is a qcow2 image with unknown features", _CONVERT),
    ):
        if is_so:
            raise InputError(f"{what} {says}", where=where, hint=hint)
    _require_length(header.tables_end, size_bytes, what, where)
    return "qcow2"


def require_whole(read: Read, size_bytes: int, what: str, where: str | None = None) -> None:
    """Raises InputError for a qcow2 file that is shorter than what its tables lead to, for a broken one, for one that a
    host must not check, and for a VHD that begins like a raw disk.

    read: bytes of the file by offset and length. Nothing tells whether a raw file is whole.
    """
    try:
        header = read_header(read)
        needed = 0 if header is None else needed_bytes(header, read)
    except BrokenQcow2Error as exc:
        raise InputError(f"{what} is a broken qcow2 image: {exc}", where=where) from exc
    if header is None and read(max(size_bytes - _SECTOR_BYTES, 0), len(_VHD_MARK)) == _VHD_MARK:
        raise InputError(f"{what} is a vhd image", where=where, hint=_CONVERT_VHD)
    _require_length(needed, size_bytes, what, where)
    check_bytes = 0 if header is None else header.check_bytes(size_bytes)
    if check_bytes > _MOST_CHECK_BYTES:
        raise InputError(
            f"{what} has {format_size(size_bytes)} in such small clusters that qemu-img check would take "
            f"{format_size(check_bytes)} of memory",
            where=where,
            hint=_CONVERT,
        )


def _require_length(needed: int, size_bytes: int, what: str, where: str | None) -> None:
    if needed > size_bytes:
        raise InputError(
            f"{what} is truncated: it has {format_size(size_bytes)}, and by its own tables at least "
            f"{format_size(needed)} ({needed - size_bytes} bytes more)",
            where=where,
            hint="Download it again, and give its checksum",
        )


def unusable_format(what: str, name: str, where: str | None = None) -> InputError:
    """The error for an image of a format that machines here do not run from."""
    return InputError(f"{what} is a {name} image", where=where, hint=_CONVERT)


def referenced_by_vmdk(read: Read) -> list[str]:
    """The names of the files that an image consists of, and of the one that it is laid on; none for what is no VMDK.

    read: gives bytes of the image by offset and length.
    """
    head = read(0, _SPARSE.size)
    if head.startswith(_TEXT_BEGINS):
        text = read(0, _LONGEST_BYTES)
    elif head.startswith(_SPARSE_MAGIC) and len(head) == _SPARSE.size:
        offset, length = (sectors * _SECTOR_BYTES for sectors in _SPARSE.unpack(head)[5:])
        text = read(offset, min(length, _LONGEST_BYTES)) if 0 < offset < 1 << 62 else b""
    else:
        return []
    text = text.partition(b"\0")[0]
    names = [*_EXTENT.findall(text), *_PARENT.findall(text)]
    return [name.decode(errors="surrogateescape") for name in names]


def referenced_by_qed(read: Read) -> list[str]:
    """The name of the file that an image is backed by; none for what stands alone, and what is no QED.

    read: gives bytes of the image by offset and length.
    """
    head = read(0, _QED.size)
    if len(head) < _QED.size or not head.startswith(_QED_MAGIC):
        return []
    fields = _QED.unpack(head)
    features, (offset, length) = fields[4], fields[-2:]
    if not features & _QED_HAS_BACKING_FILE or not 0 < length <= _LONGEST_NAME_BYTES:
        return []
    return [read(offset, length).decode(errors="surrogateescape")]
