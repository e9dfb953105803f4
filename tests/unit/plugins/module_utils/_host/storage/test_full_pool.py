# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A full disk is said to be one: what is full, how much is free, how much was needed, and what to do."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import disk_errors
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools, full_pool_named
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import create_empty

MIB = 1024 * 1024
# As libvirt 9.0 says it.
BY_LIBVIRT = (
    "cannot create volume x.qcow2 in pool files: internal error: Child process (/usr/bin/qemu-img create -f qcow2 "
    "-o compat=1.1 /pool/x.qcow2 8388608K) unexpected exit status 1: qemu-img: /pool/x.qcow2: Could not "
    "write qcow2 header: No space left on device"
)
BY_LVM = "cannot create volume x: Volume group 'vg' has insufficient free space (3 extents): 5 required."


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.storagePoolCreateXML(f"<pool type='dir'><name>files</name><target><path>{tmp_path}</path></target></pool>")
        yield Pools(conn).get("files")


@pytest.mark.parametrize("words", [BY_LIBVIRT, BY_LVM, "cannot x: Disk quota exceeded"])
def test_the_words_of_others_become_ours(pool: Pool, words: str) -> None:
    with pytest.raises(HostError) as caught, full_pool_named(pool, "cannot create volume x", 8 << 30):
        raise HostError(words)
    assert re.fullmatch(
        rf"cannot create volume x: storage pool files \({pool.path}\) is full, [0-9.]+[BKMGT] are free, up to 8\.0G "
        r"are needed\. Free some space there, or choose another pool",
        str(caught.value),
    )


def test_on_this_machine_the_file_system_is_asked(pool: Pool) -> None:
    here = dataclasses.replace(pool, local=True, path="/proc")
    with (
        pytest.raises(HostError, match=r"storage pool files \(/proc\) is full, 0\.0B are free, up to 8\.0G are needed"),
        full_pool_named(here, "cannot create volume x", 8 << 30),
    ):
        raise HostError(BY_LIBVIRT)


def test_other_errors_stay_as_they_are(pool: Pool) -> None:
    error = UnsupportedError("cannot x: no such feature")
    with pytest.raises(UnsupportedError) as caught, full_pool_named(pool, "cannot create volume x", 1):
        raise error
    assert caught.value is error


def test_a_volume_that_has_no_space(pool: Pool) -> None:
    """The test driver has 100 GiB, and a logical volume takes all of its size at once."""
    conn = pool.handle.connect()
    conn.storagePoolCreateXML(
        "<pool type='logical'><name>vg</name><source><name>vg</name></source>"
        "<target><path>/dev/vg</path></target></pool>"
    )
    vg = Pools(conn).get("vg")
    create_empty(vg, "first", size_bytes=60 << 30, image_format="raw")
    words = r"cannot create volume data in pool vg: .* \(/dev/vg\) is full, 40\.0G are free, up to 80\.0G are needed"
    with pytest.raises(HostError, match=words):
        create_empty(vg, "data", size_bytes=80 << 30, image_format="raw")
    words = r"storage pool vg \(/dev/vg\) holds 100\.0G in all, up to 1\.0T are needed\. Choose a larger one, or ask"
    with pytest.raises(HostError, match=words):
        create_empty(vg, "data", size_bytes=1 << 40, image_format="raw")


def test_a_file_system_that_is_smaller_than_the_disk_is_not_said_to_be_full(pool: Pool, tmp_path: Path) -> None:
    here = dataclasses.replace(pool, local=True, path=str(tmp_path))
    words = (
        rf"storage pool files \({tmp_path}\) holds [0-9.]+[KMGT] in all, up to [0-9.]+T are needed\. Choose a larger"
    )
    with pytest.raises(HostError, match=words), full_pool_named(here, "cannot create volume x", 1 << 60):
        raise HostError(BY_LIBVIRT)


@pytest.mark.parametrize(("needed", "words"), [(None, r"\. Free"), (MIB, r", up to 1\.0M are needed\. Free")])
def test_a_full_directory(tmp_path: Path, needed: int | None, words: str) -> None:
    what = "cannot store it"
    with (
        pytest.raises(
            VirtError, match=rf"cannot store it: {tmp_path} is full, [0-9.]+[KMGT] are free{words} some space"
        ),
        disk_errors(what, str(tmp_path), needed),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")


def test_a_file_system_without_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        f_bavail, f_frsize, f_files, f_favail = 100, 4096, 10, 0

    monkeypatch.setattr("os.statvfs", lambda _path: Found)
    with (
        pytest.raises(
            VirtError, match=r"cannot store it: /there has no free inode for another file\. Delete files there"
        ),
        disk_errors("cannot store it", "/there"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")


def test_a_directory_that_cannot_be_asked() -> None:
    what: dict[str, t.Any] = {"what": "cannot store it", "directory": "/nowhere"}
    with (
        pytest.raises(VirtError, match=r"cannot store it: /nowhere is full\. Free"),
        disk_errors(**what),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")
