# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is on its way says whose it is, and is taken for nothing else."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.image.header import disk_format
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import (
    MARK_BYTES,
    Upload,
    read_mark,
    read_upload,
)

UPLOAD = Upload("f" * 32, "hv1.example.org", "0e1d2c3b-0000-0000-0000-000000000000", 4711, 123456789, "a" * 32)


def test_it_is_read_as_it_was_written() -> None:
    assert read_upload(UPLOAD.to_bytes()) == UPLOAD
    assert read_upload(UPLOAD.to_bytes() + b"more of the volume") == UPLOAD


def test_the_same_as_a_building_mark() -> None:
    assert read_mark(UPLOAD.to_mark()) == UPLOAD
    for mark in (None, "", "f" * 32, "unfinished", "unfinished {}", "unfinished []", UPLOAD.to_mark()[:-1]):
        assert read_mark(mark) is None


def test_a_mark_of_an_earlier_version_says_no_machine() -> None:
    before = UPLOAD.to_bytes().replace(b', "machine": "' + b"a" * 32 + b'"', b"")
    assert read_upload(before) == dataclasses.replace(UPLOAD, machine="")


def test_the_longest_one_fits() -> None:
    longest = dataclasses.replace(UPLOAD, host="h" * 200, boot="b" * 47, pid=4194304, started=10**15)
    assert read_upload(longest.to_bytes()) == longest


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_it_has_one_size_and_never_looks_like_an_image(host: str) -> None:
    mark = Upload("t", host, "b", 1, 2).to_bytes()
    assert len(mark) == MARK_BYTES
    assert mark[:4] == bytes(4)
    assert disk_format(mark) == "raw"
    found = read_upload(mark)
    assert found is not None
    assert found.host == host


@given(st.binary(max_size=600))
def test_anything_else_is_nobodys(content: bytes) -> None:
    assert read_upload(content) is None
    assert read_upload(UPLOAD.to_bytes()[:60] + content) is None
