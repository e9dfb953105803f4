# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The other files that VMDK and QED images need. QEMU opens both; libvirt 9.0 does not read QED.

The descriptor of a VMDK is text: a file of its own, or at a place that the header of a sparse image names.
Source: Virtual Disk Format 5.0 (VMware technical note), "The Descriptor File" and "Hosted Sparse Extent Header"; QEMU's
docs/interop/qed_spec.rst, "Header".
"""

from __future__ import annotations

import re
import struct
import typing as t

Read = t.Callable[[int, int], bytes]

_TEXT_BEGINS = b"# Disk DescriptorFile"
# Magic, version, flags, capacity, size of a grain, offset and size of the descriptor.
_SPARSE = struct.Struct("<4sIIQQQQ")
_SPARSE_MAGIC = b"KDMV"
_SECTOR_BYTES = 512
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
