# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two marks by which a volume tells whose it is while it is made and filled.

What is sent to a volume through libvirt has the first: what it begins with until its real first bytes come, last. So a
volume that is not whole is never taken for a whole one, and whoever finds one can ask for its sender. Where QEMU writes
the content, first bytes included, the same words are the volume's building mark until it is whole.

What QEMU fills has the second, in the header of a qcow2 image, which stays there while QEMU writes to the image. The
format has header extensions for this: software that does not know one leaves it out of account, and QEMU keeps it when
it writes the header again. A guest cannot write there.
https://www.qemu.org/docs/master/interop/qcow2.html#header-extensions
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass

from .qcow2 import MAGIC

# So much of the real content is sent last. It is written in one go, and every mark of a format begins in it.
MARK_BYTES = 512
# Nothing takes this for an image: what stores images knows one that is on its way by the zeros.
_BEGINNING = b"\0\0\0\0brine.virt upload\n"
# Other building marks are hex digits.
_UNFINISHED = "unfinished "
_LONGEST_NAME = 200

# All that the mark of a qcow2 image is read from. A cluster is at least 512 bytes, and 64 KiB unless somebody has
# chosen otherwise.
HEAD_BYTES = 64 * 1024
_VERSION_3 = 3
_BACKING_OFFSET, _CLUSTER_BITS_OFFSET, _HEADER_LENGTH_OFFSET = 8, 20, 100
_LEAST_HEADER_BYTES = 104
_END = 0
# The type of our extension: "brin". No type of the format's own is near it.
_MARK = 0x6272696E


@dataclass(frozen=True)
class Upload:
    """A transfer and the process that does it.

    token: what only this transfer has. host, boot: the name of the sender's host, and the id of its last start. pid,
    started: the process there, with the time of its start in ticks, since numbers of processes are used again. machine:
    what tells the host from others of its name; empty where that is not known, as in marks of earlier versions.
    """

    token: str
    host: str
    boot: str
    pid: int
    started: int
    machine: str = ""

    def to_bytes(self) -> bytes:
        """MARK_BYTES for the beginning of the volume."""
        return (_BEGINNING + self._words().encode() + b"\n").ljust(MARK_BYTES, b"\0")[:MARK_BYTES]

    def to_mark(self) -> str:
        """The building mark of a volume that QEMU fills."""
        return _UNFINISHED + self._words()

    def _words(self) -> str:
        return json.dumps({**asdict(self), "host": self.host[:_LONGEST_NAME]})


def read_upload(head: bytes) -> Upload | None:
    """The transfer that a volume with these first bytes belongs to; None for a volume without such a mark."""
    if not head.startswith(_BEGINNING):
        return None
    return _read(head[len(_BEGINNING) : MARK_BYTES].split(b"\n", 1)[0])


def read_mark(mark: str | None) -> Upload | None:
    """The transfer that a volume with this building mark belongs to; None for one that is whole, or without a mark."""
    if mark is None or not mark.startswith(_UNFINISHED):
        return None
    return _read(mark[len(_UNFINISHED) :])


def _read(text: str | bytes) -> Upload | None:
    try:
        words = json.loads(text)
        return Upload(
            str(words["token"]),
            str(words["host"]),
            str(words["boot"]),
            int(words["pid"]),
            int(words["started"]),
            str(words.get("machine", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class _Extension:
    kind: int
    data: bytes

    def pack(self) -> bytes:
        return struct.pack(">II", self.kind, len(self.data)) + self.data.ljust(-(-len(self.data) // 8) * 8, b"\0")


def add_qcow2_mark(head: bytes, mark: str) -> bytes | None:
    """The new beginning of an image, for the same place, with this mark in it.

    head: the image's first HEAD_BYTES, or all of a shorter one. None for what is no qcow2 image of version 3, and
    where the mark does not fit.
    """
    extensions = _extensions(head)
    if extensions is None:
        return None
    start = _header_length(head)
    backing_offset, backing_length = struct.unpack_from(">QI", head, _BACKING_OFFSET)
    name = head[backing_offset : backing_offset + backing_length] if backing_offset else b""
    kept = [extension for extension in extensions if extension.kind != _MARK]
    added = b"".join(extension.pack() for extension in (*kept, _Extension(_MARK, mark.encode()), _Extension(_END, b"")))
    header = bytearray(head[:start])
    if backing_offset:
        struct.pack_into(">Q", header, _BACKING_OFFSET, start + len(added))
    made = bytes(header) + added + name
    space = min(len(head), 1 << struct.unpack_from(">I", head, _CLUSTER_BITS_OFFSET)[0])
    return made.ljust(space, b"\0") if len(made) <= space else None


def read_qcow2_mark(head: bytes) -> str | None:
    """The mark of an image, by its first HEAD_BYTES; None for one without."""
    for extension in _extensions(head) or ():
        if extension.kind == _MARK:
            return extension.data.decode(errors="replace")
    return None


def _header_length(head: bytes) -> int:
    return int(struct.unpack_from(">I", head, _HEADER_LENGTH_OFFSET)[0])


def _extensions(head: bytes) -> list[_Extension] | None:
    """The header's extensions without the end of them; None for what is no whole header of version 3."""
    if len(head) < _LEAST_HEADER_BYTES or not head.startswith(MAGIC):
        return None
    if struct.unpack_from(">I", head, 4)[0] != _VERSION_3:
        return None
    found: list[_Extension] = []
    offset = _header_length(head)
    while offset + 8 <= len(head):
        kind, length = struct.unpack_from(">II", head, offset)
        offset += 8
        if kind == _END:
            return found
        if offset + length > len(head):
            return None
        found.append(_Extension(kind, head[offset : offset + length]))
        offset += -(-length // 8) * 8
    return None
