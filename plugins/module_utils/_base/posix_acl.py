# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The access control list of a file (acl(5)): who may write to it besides its owner and everybody.

Where there is one, the group's bits of the mode are its mask, and say nothing of the owning group: chmod g+w lets every
user write whom an entry names. NFSv4 lists (``system.nfs4_acl``) are something else, and are not read.
"""

from __future__ import annotations

import errno
import os
import struct
import typing as t

_ATTRIBUTE = "system.posix_acl_access"
# linux/posix_acl_xattr.h: little endian, the version, then entries of tag, permissions and id.
_VERSION = 2
_HEADER, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_USER, _OWNING_GROUP, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
_WRITE = 2
_ABSENT = (errno.ENODATA, errno.EOPNOTSUPP)


class Acl(t.NamedTuple):
    """Who may write, after the mask: users and groups that entries name, by number, and the owning group."""

    users: tuple[int, ...]
    groups: tuple[int, ...]
    owning_group: bool


def read_acl(path: str) -> Acl | None:
    """The list of a file or directory; None for one without. Raises OSError, ValueError for no such list."""
    try:
        content = os.getxattr(path, _ATTRIBUTE, follow_symlinks=False)
    except OSError as exc:
        if exc.errno in _ABSENT:
            return None
        raise
    return parse_acl(content)


def parse_acl(content: bytes) -> Acl:
    """The list with this content of the attribute. Raises ValueError."""
    body = content[_HEADER.size :]
    if content[: _HEADER.size] != _HEADER.pack(_VERSION) or len(body) % _ENTRY.size:
        raise ValueError("not an access control list of version 2")
    entries = list(_ENTRY.iter_unpack(body))
    mask = next((permissions for tag, permissions, _number in entries if tag == _MASK), _WRITE)
    writing = [(tag, number) for tag, permissions, number in entries if permissions & mask & _WRITE]
    return Acl(
        tuple(number for tag, number in writing if tag == _USER),
        tuple(number for tag, number in writing if tag == _GROUP),
        any(tag == _OWNING_GROUP for tag, _number in writing),
    )
