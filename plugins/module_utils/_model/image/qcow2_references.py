# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which other files a qcow2 image needs, as its header has them: its backing file and its external data file.

https://www.qemu.org/docs/master/interop/qcow2.html
"""

from __future__ import annotations

import json
import re
import struct
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.image.header import HEADER_BYTES, backing_name

Read = t.Callable[[int, int], bytes]

_MAGIC = b"QFI\xfb"
_HEADER_BYTES_OF_VERSION_2 = 72
_HEADER_LENGTH_OFFSET = 100
_LARGEST_CLUSTER_BYTES = 2 * 1024 * 1024
_END_OF_EXTENSIONS = 0
_DATA_FILE_NAME = 0x44415441
_LONGEST_NAME_BYTES = 1023
# A header has a handful of extensions; no more than this is read of a broken one.
_MOST_EXTENSIONS = 64
_OTHER_PROTOCOL = re.compile(r"^[A-Za-z0-9+.-]+:")
_LOCAL_PREFIXES = ("file:", "host_device:")


def referenced_names(read: Read) -> list[str]:
    """The names of the files that an image needs, as QEMU would read them; none for what is no qcow2.

    read: bytes of the image by offset and length.
    """
    return [name for name in (backing_name(read), data_file_name(read)) if name]


def data_file_name(read: Read) -> str | None:
    """The name of the file that the image's data are in; None when they are in the image itself."""
    header = read(0, HEADER_BYTES)
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES_OF_VERSION_2:
        return None
    (version,) = struct.unpack_from(">I", header, 4)
    offset = _HEADER_BYTES_OF_VERSION_2
    if version >= 3 and len(header) >= _HEADER_LENGTH_OFFSET + 4:
        (offset,) = struct.unpack_from(">I", header, _HEADER_LENGTH_OFFSET)
    for _number in range(_MOST_EXTENSIONS):
        start = read(offset, 8) if offset < _LARGEST_CLUSTER_BYTES else b""
        if len(start) < 8:
            return None
        kind, length = struct.unpack(">II", start)
        if kind == _END_OF_EXTENSIONS:
            return None
        if kind == _DATA_FILE_NAME and 0 < length <= _LONGEST_NAME_BYTES:
            return read(offset + 8, length).decode(errors="surrogateescape")
        offset += 8 + -(-length // 8) * 8
    return None


def local_paths(name: str) -> list[str]:
    """The local files that such a name means, in the ways that QEMU reads one: a path, relative to the file that has
    the name in it, ``file:`` and a path, or ``json:`` and options. None for what lies elsewhere."""
    if name.startswith("json:"):
        try:
            return list(_filenames(json.loads(name[len("json:") :])))
        except (ValueError, RecursionError):
            return []
    for prefix in _LOCAL_PREFIXES:
        if name.startswith(prefix):
            return [name[len(prefix) :]]
    return [] if _OTHER_PROTOCOL.match(name) else [name]


def _filenames(options: t.Any) -> t.Iterator[str]:
    if isinstance(options, dict):
        for key, value in options.items():
            # Nested, or flat as in "file.filename".
            if isinstance(value, str) and key.split(".")[-1] == "filename":
                yield value
            else:
                yield from _filenames(value)
