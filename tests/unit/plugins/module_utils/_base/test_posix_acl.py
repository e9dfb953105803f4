# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access control lists as the kernel writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.posix_acl import Acl, parse_acl, read_acl

NOBODY_NAMED = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


def acl_bytes(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_who_may_write() -> None:
    owner, others = (USER_OBJ, 7, NOBODY_NAMED), (OTHER, 5, NOBODY_NAMED)
    named = ((USER, 7, 1001), (USER, 5, 1002), (GROUP_OBJ, 5, NOBODY_NAMED), (GROUP, 2, 50), (GROUP, 5, 51))
    assert parse_acl(acl_bytes(owner, *named, (MASK, 7, NOBODY_NAMED), others)) == Acl((1001,), (50,), False)
    assert parse_acl(acl_bytes(owner, *named, (MASK, 5, NOBODY_NAMED), others)) == Acl((), (), False)
    assert parse_acl(acl_bytes(owner, (GROUP_OBJ, 7, NOBODY_NAMED), others)) == Acl((), (), True)


@pytest.mark.parametrize("content", [b"", b"\2\0\0", struct.pack("<I", 3), acl_bytes() + b"\1\0"])
def test_what_is_no_list(content: bytes) -> None:
    with pytest.raises(ValueError, match="not an access control list"):
        parse_acl(content)


def test_a_file_without_a_list(tmp_path: Path) -> None:
    assert read_acl(str(tmp_path)) is None
    with pytest.raises(FileNotFoundError):
        read_acl(str(tmp_path / "nothing"))
