# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses volumes of a pool, beyond what machines name by its path: on libvirt's test driver, with real files."""

from __future__ import annotations

import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.setup import pool_users
from ansible_collections.brine.virt.plugins.module_utils._host.storage.setup.pool_users import PoolUsers, users_of_pool

POOL = "<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>"
MACHINE = """
<domain type='test'><name>db1</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='file'><driver type='{format}'/><source file='{path}'/><target dev='vda'/></disk></devices></domain>
"""


@pytest.fixture
def conn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    monkeypatch.setattr(pool_users, "is_local", lambda _uri: True)
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        yield connection


def pool(conn: t.Any, name: str, path: Path) -> t.Any:
    path.mkdir(exist_ok=True)
    handle = conn.storagePoolDefineXML(POOL.format(name=name, path=path), 0)
    handle.create(0)
    return handle


def users(conn: t.Any, handle: t.Any) -> PoolUsers:
    return users_of_pool(conn, handle, parse_xml(handle.XMLDesc(0)))


@pytest.mark.parametrize("active", [True, False])
def test_a_machine_that_names_a_file_by_another_path(conn: t.Any, tmp_path: Path, active: bool) -> None:
    handle = pool(conn, "default", tmp_path / "pool")
    (tmp_path / "pool" / "a.raw").touch()
    (tmp_path / "link").symlink_to(tmp_path / "pool")
    assert users(conn, handle) == PoolUsers()
    conn.defineXML(MACHINE.format(path=tmp_path / "link" / "a.raw", format="raw"))
    if not active:
        handle.destroy()
    assert users(conn, handle).machines == {"db1"}
    assert users(conn, handle).running == frozenset()
    conn.lookupByName("db1").create()
    assert users(conn, handle).running == {"db1"}


@pytest.mark.parametrize("shared", ["mnt/nfs", "mnt", "link", "mnt/nfs/sub", "link/sub"])
def test_a_machine_that_shares_what_is_mounted(conn: t.Any, tmp_path: Path, shared: str) -> None:
    """The directory would be an empty one of the host, into which the machine writes from its next start on."""
    (tmp_path / "mnt" / "nfs" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "mnt" / "nfs")
    source = "<source><host name='nas'/><dir path='/x'/></source>"
    xml = POOL.format(name="nfs", path=tmp_path / "mnt" / "nfs").replace("'dir'", "'netfs'")
    handle = conn.storagePoolDefineXML(xml.replace("<target>", f"{source}<target>"), 0)
    disk = MACHINE[MACHINE.index("<disk") : MACHINE.index("</devices>")]
    share = "<filesystem><source dir='{}'/><target dir='data'/></filesystem>"
    conn.defineXML(MACHINE.replace(disk, share.format(f"{tmp_path}/{shared}")))
    assert users(conn, handle).machines == {"db1"}
    conn.lookupByName("db1").undefine()
    # A path of the guest's own has nothing to do with it.
    elsewhere = share.format(f"{tmp_path}/mnt/nfs2").replace("'data'", f"'{tmp_path}/mnt/nfs'")
    conn.defineXML(MACHINE.replace(disk, elsewhere))
    assert users(conn, handle) == PoolUsers()


@pytest.mark.parametrize("shared", ["", "/sub"])
def test_a_directory_that_stays_is_nobodys_loss_as_a_whole(conn: t.Any, tmp_path: Path, shared: str) -> None:
    handle = pool(conn, "default", tmp_path / "pool")
    (tmp_path / "pool" / "sub").mkdir()
    share = f"<filesystem><source dir='{tmp_path}/pool{shared}'/><target dir='data'/></filesystem>"
    disk = MACHINE[MACHINE.index("<disk") : MACHINE.index("</devices>")]
    conn.defineXML(MACHINE.replace(disk, share))
    assert users(conn, handle).machines == ({"db1"} if shared else set())


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_what_an_overlay_elsewhere_is_backed_by(conn: t.Any, tmp_path: Path) -> None:
    images, default = pool(conn, "images", tmp_path / "images"), pool(conn, "default", tmp_path / "default")
    base, overlay = tmp_path / "images" / "base.qcow2", tmp_path / "default" / "a.qcow2"
    for command in (["-f", "qcow2", base, "1M"], ["-f", "qcow2", "-b", base, "-F", "qcow2", overlay]):
        subprocess.run(["qemu-img", "create", "-q", *map(str, command)], check=True)
    assert users(conn, images).others == ("volume default/a.qcow2",)
    assert users(conn, default) == PoolUsers()
    conn.defineXML(MACHINE.format(path=overlay, format="qcow2"))
    assert users(conn, images).machines == {"db1"}


def test_overlays_within_the_pool_are_no_use_of_it(conn: t.Any, tmp_path: Path) -> None:
    handle = pool(conn, "default", tmp_path / "default")
    base, overlay = tmp_path / "default" / "base.qcow2", tmp_path / "default" / "a.qcow2"
    for command in (["-f", "qcow2", base, "1M"], ["-f", "qcow2", "-b", base, "-F", "qcow2", overlay]):
        subprocess.run(["qemu-img", "create", "-q", *map(str, command)], check=True)
    assert users(conn, handle) == PoolUsers()


def test_devices_that_the_host_itself_has_open(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = conn.storagePoolDefineXML("<pool type='logical'><name>vg0</name></pool>", 0)
    handle.create(0)
    handle.createXML("<volume><name>data</name><capacity>1048576</capacity></volume>", 0)
    assert users(conn, handle) == PoolUsers()
    monkeypatch.setattr(pool_users, "is_busy", lambda path: path == "/dev/vg0/data")
    assert users(conn, handle).others == ("this host itself (/dev/vg0/data is open)",)


def test_a_plain_file_is_not_busy(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert not pool_users.is_busy(str(tmp_path / "a"))
    assert not pool_users.is_busy(str(tmp_path / "missing"))
