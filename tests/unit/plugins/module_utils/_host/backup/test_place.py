# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where backups are: a directory, or that of a storage pool."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.backup.place import require_place
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection

POOL = "<pool type='{type}'><name>{name}</name>{source}<target><path>{path}</path></target></pool>"
SOURCES = {
    "fs": "<source><device path='/dev/vdz1'/></source>",
    "netfs": "<source><host name='nas'/><dir path='/export'/></source>",
    "logical": "<source><name>vg</name></source>",
}


@pytest.fixture
def conn(tmp_path: Path) -> t.Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as opened:
        yield opened


def add(conn: t.Any, name: str, path: Path | str, kind: str = "dir", *, active: bool = True) -> None:
    xml = POOL.format(type=kind, name=name, path=path, source=SOURCES.get(kind, ""))
    (conn.storagePoolCreateXML if active else conn.storagePoolDefineXML)(xml, 0)


def test_a_directory_is_itself(conn: t.Any, tmp_path: Path) -> None:
    assert require_place(conn, str(tmp_path), None, "dest") == str(tmp_path)
    with pytest.raises(NotFoundError, match="^dest: /nowhere: No such file or directory. Create it, or mount it: "):
        require_place(conn, "/nowhere", None, "dest")
    with pytest.raises(InputError, match="^dest: '' is not an absolute path"):
        require_place(conn, "", None, "dest")


@pytest.mark.parametrize("kind", ["dir", "fs", "netfs"])
def test_a_pool_of_files_is_its_directory(conn: t.Any, tmp_path: Path, kind: str) -> None:
    add(conn, "backups", tmp_path, kind)
    assert require_place(conn, "", "backups", "dest") == str(tmp_path)


def test_a_pool_that_has_to_be_mounted(conn: t.Any) -> None:
    add(conn, "root", "/.")
    assert require_place(conn, "", "root", "dest") == "/."
    with pytest.raises(ConflictError, match="^dest_pool: .* is on the file system of /"):
        require_place(conn, "", "root", "dest", mounted="")


def test_other_pools_are_refused(conn: t.Any, tmp_path: Path) -> None:
    add(conn, "off", tmp_path, active=False)
    add(conn, "volumes", "/dev/vg", "logical")
    add(conn, "gone", tmp_path / "gone")
    for name, error, words in (
        ("bakups", NotFoundError, "src_pool: there is no storage pool 'bakups'"),
        ("off", ConflictError, "src_pool: storage pool 'off' is not active. Start it: virsh pool-start off"),
        ("volumes", UnsupportedError, "src_pool: storage pool 'volumes' is of type logical, and backups are files in "
         "directories. Choose one of type dir, fs or netfs"),
        ("gone", NotFoundError, f"src_pool: {tmp_path}/gone: No such file or directory. Look whether the path is "
         "right, and whether it is mounted there"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            require_place(conn, "", name, "src")
        assert str(caught.value).startswith(words)
