# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The qcow2 format, as far as it says where a file leads to and how long it has to be.

https://www.qemu.org/docs/master/interop/qcow2.html
"""

from __future__ import annotations

import array
import struct
import sys
import typing as t
from dataclasses import dataclass

# Bytes of a file by offset and length; fewer where the file ends.
Read = t.Callable[[int, int], bytes]

MAGIC = b"QFI\xfb"
# Bits of the incompatible features.
_DATA_FILE, _EXTENDED_L2 = 1 << 2, 1 << 4
# Dirty, corrupt, data file, compression type, extended L2 entries.
_KNOWN_FEATURES = 0b11111
_HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
_HEADER_V3 = struct.Struct(">QQQII")
_EXTENSION = struct.Struct(">II")
_END_OF_EXTENSIONS, _BACKING_FORMAT, _DATA_FILE_NAME = 0, 0xE2792ACA, 0x44415441
_LONGEST_NAME_BYTES = 1023
_CLUSTER_BITS = range(9, 22)
# Of version 2, and what version 3 may have.
_REFCOUNT_ORDER, _REFCOUNT_ORDERS = 4, range(7)
_LARGEST_CLUSTER_BYTES = 1 << 21
# What QEMU takes at most (QCOW_MAX_L1_SIZE in its block/qcow2.h).
_LARGEST_L1_BYTES = 32 * 1024 * 1024
_SECTOR_BYTES = 512
_OFFSET = 0x00FFFFFFFFFFFE00
_COMPRESSED = 1 << 62


@dataclass(frozen=True)
class Header:
    """What stands at the beginning of a qcow2 file.

    backing_file: another file that it holds only the difference to, as it is written there; backing_format: that
    file's format, None where it is not said. data_file: the data are in another file. unknown_features: it needs
    something that nobody here knows.
    """

    cluster_bits: int
    virtual_size_bytes: int
    l1_offset: int
    l1_entries: int
    refcount_offset: int
    refcount_clusters: int
    refcount_bits: int
    encrypted: bool
    features: int
    backing_file: str | None
    backing_format: str | None

    @property
    def data_file(self) -> bool:
        """Whether the data are in another file."""
        return bool(self.features & _DATA_FILE)

    @property
    def unknown_features(self) -> bool:
        """Whether it can be read only by somebody who knows more."""
        return bool(self.features & ~_KNOWN_FEATURES)

    @property
    def cluster_bytes(self) -> int:
        """The unit that it is made of."""
        return 1 << self.cluster_bits

    @property
    def tables_end(self) -> int:
        """How long the file has to be at least, by its header alone."""
        refcounts = self.refcount_offset + self.refcount_clusters * self.cluster_bytes
        return max(self.l1_offset + 8 * self.l1_entries, refcounts)

    def check_bytes(self, size_bytes: int) -> int:
        """The memory that qemu-img check takes for a file of this size: it counts the references to each of its
        clusters, be they holes (realloc_refcount_array in QEMU's block/qcow2-refcount.c)."""
        return size_bytes // self.cluster_bytes * self.refcount_bits // 8


class BrokenQcow2Error(ValueError):
    """The header is none that QEMU would take; the text says why."""


def read_header(read: Read) -> Header | None:
    """The header of a qcow2 file (versions 2 and 3); None for anything else. Raises BrokenQcow2Error."""
    start = read(0, _HEADER.size + _HEADER_V3.size)
    if not start.startswith(MAGIC) or start[4:8] == b"\0\0\0\1":
        return None
    if len(start) < _HEADER.size:
        raise BrokenQcow2Error("its header is truncated")
    (_magic, version, backing_offset, backing_length, cluster_bits, size, crypt, l1_entries, l1_offset, *more) = (
        _HEADER.unpack_from(start)
    )
    refcount_offset, refcount_clusters = more[:2]
    if version not in (2, 3):
        raise BrokenQcow2Error(f"its version {version} is unknown")
    features, extensions, refcount_order = 0, _HEADER.size, _REFCOUNT_ORDER
    if version == 3:
        if len(start) < _HEADER.size + _HEADER_V3.size:
            raise BrokenQcow2Error("its header is truncated")
        features, _compatible, _autoclear, refcount_order, extensions = _HEADER_V3.unpack_from(start, _HEADER.size)
    if (
        cluster_bits not in _CLUSTER_BITS
        or refcount_order not in _REFCOUNT_ORDERS
        or 8 * l1_entries > _LARGEST_L1_BYTES
    ):
        raise BrokenQcow2Error("its header is invalid")
    backing_file = None
    if backing_offset:
        if backing_offset + backing_length > 1 << cluster_bits or not 0 < backing_length <= _LONGEST_NAME_BYTES:
            raise BrokenQcow2Error("the name of its backing file is invalid")
        backing_file = read(backing_offset, backing_length).decode(errors="surrogateescape")
    return Header(
        cluster_bits=cluster_bits,
        virtual_size_bytes=size,
        l1_offset=l1_offset,
        l1_entries=l1_entries,
        refcount_offset=refcount_offset,
        refcount_clusters=refcount_clusters,
        refcount_bits=1 << refcount_order,
        encrypted=crypt != 0,
        features=features,
        backing_file=backing_file,
        backing_format=_backing_format(read, extensions, backing_offset or 1 << cluster_bits),
    )


def _backing_format(read: Read, position: int, end: int) -> str | None:
    """What the header's extensions say of it; of several, QEMU goes by the last (qcow2_read_extensions)."""
    found = [place for kind, *place in _extensions(read, position, end) if kind == _BACKING_FORMAT]
    if not found:
        return None
    start, length = found[-1]
    return read(start, min(length, _LONGEST_NAME_BYTES)).decode(errors="replace")


def _extensions(read: Read, position: int, end: int) -> t.Iterator[tuple[int, int, int]]:
    """The header's extensions from a position on: the kind of each, where its content begins, and how long that is."""
    while position + _EXTENSION.size <= end:
        head = read(position, _EXTENSION.size)
        if len(head) < _EXTENSION.size:
            return
        kind, length = _EXTENSION.unpack(head)
        position += _EXTENSION.size
        if kind == _END_OF_EXTENSIONS or position + length > end:
            return
        yield kind, position, length
        position += -(-length // 8) * 8


def referenced_names(read: Read) -> list[str]:
    """The names of the files that an image needs, as QEMU would read them; none for what is no qcow2.

    Unlike read_header, this goes by what there is of a broken header.
    """
    return [name for name in (backing_name(read), *_data_file_names(read)) if name]


def backing_name(read: Read) -> str | None:
    """What backs a qcow2 image, as its header has it; None for one that stands alone, and no qcow2."""
    header = read(0, _HEADER.size)
    if not header.startswith(MAGIC) or len(header) < 20:
        return None
    offset, length = struct.unpack_from(">QI", header, 8)
    # The name lies in the first cluster.
    if not 0 < offset < _LARGEST_CLUSTER_BYTES or not 0 < length <= _LONGEST_NAME_BYTES:
        return None
    return read(offset, length).decode(errors="surrogateescape")


def _data_file_names(read: Read) -> list[str]:
    """The names of the file that the image's data are in; none when they are in the image itself. QEMU goes by the last
    of several that stand where it looks."""
    header = read(0, _HEADER.size + _HEADER_V3.size)
    if not header.startswith(MAGIC) or len(header) < _HEADER.size:
        return []
    extensions = _HEADER.size
    if struct.unpack_from(">I", header, 4)[0] >= 3 and len(header) == _HEADER.size + _HEADER_V3.size:
        extensions = _HEADER_V3.unpack_from(header, _HEADER.size)[-1]
    return [
        read(start, length).decode(errors="surrogateescape")
        for kind, start, length in _extensions(read, extensions, _LARGEST_CLUSTER_BYTES)
        if kind == _DATA_FILE_NAME and 0 < length <= _LONGEST_NAME_BYTES
    ]


def needed_bytes(header: Header, read: Read) -> int:
    """How long the file has to be for all that its tables lead to.

    As QEMU itself does, this allows for a last cluster that was not written to its end, unless it is compressed: then
    its length is known. A file that is too short by less than one cluster can go unnoticed for that reason. Raises
    BrokenQcow2Error for a table that QEMU would not take.
    """
    end = header.tables_end
    entry_words = 2 if header.features & _EXTENDED_L2 else 1
    tables = {entry & _OFFSET for entry in _entries(read(header.l1_offset, 8 * header.l1_entries))} - {0}
    # Where the size of a compressed cluster begins in its entry.
    shift = 62 - (header.cluster_bits - 8)
    if any(table % header.cluster_bytes for table in tables):
        # No more than the file's own length is read, whatever stands in it.
        raise BrokenQcow2Error("one of its tables does not begin at a cluster")
    for table in sorted(tables):
        end = max(end, table + header.cluster_bytes)
        content = read(table, header.cluster_bytes)
        if not content.strip(b"\0"):
            continue
        for entry in _entries(content)[::entry_words]:
            if entry & _COMPRESSED:
                offset = entry & ((1 << shift) - 1)
                sectors = ((entry & (_COMPRESSED - 1)) >> shift) + 1
                # The last sector may not have been filled.
                end = max(end, offset // _SECTOR_BYTES * _SECTOR_BYTES + (sectors - 1) * _SECTOR_BYTES + 1)
            elif entry & _OFFSET:
                end = max(end, (entry & _OFFSET) + 1)
    return end


def _entries(content: bytes) -> array.array[int]:
    """The 64-bit numbers of a table."""
    entries = array.array("Q", content[: len(content) // 8 * 8])
    if sys.byteorder == "little":
        entries.byteswap()
    return entries
