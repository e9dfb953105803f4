# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a file, or a volume of Ceph, that another hypervisor asks about; and what is asked about a file."""

from __future__ import annotations

import os
import stat
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import (
    devices,
    units,
    users,
    volume,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.volume import SharedVolume
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

POOL = "<pool type='rbd'><name>{}</name><source><host name='mon1'/><name>{}</name></source></pool>"
MACHINE = """
<domain type='test'><name>{name}</name><metadata>{notes}</metadata><memory unit='MiB'>64</memory><os><type>hvm</type>
</os><devices><disk type='{kind}' device='disk'><driver type='raw'/><source {source}/><target dev='vda'/></disk>
</devices></domain>
"""
BY_INODE, BY_NAME = "machine web9 (by the same inode number)", "machine web9 (by the same name)"


class Other:
    """A hypervisor whose machine web9 has a file or something else."""

    def __init__(self, conn: t.Any, directory: Path) -> None:
        self.conn = conn
        self.file = directory / "web9.raw"
        self.file.touch()

    def guest(self, source: str, kind: str = "file", notes: str = "", name: str = "web9") -> None:
        self.conn.defineXML(MACHINE.format(name=name, kind=kind, source=source, notes=notes))

    def users_of(self, asked: SharedVolume) -> list[str]:
        (answer,) = users.users_of_shared(self.conn, [asked])
        assert answer["unknown"] == []
        found: list[str] = answer["users"]
        return found


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    monkeypatch.setattr(users, "is_local", lambda _uri: True)
    (tmp_path / "node.xml").write_text(f"<node>{POOL.format('ceph', 'vms')}</node>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        yield Other(conn, tmp_path)


@pytest.mark.parametrize(
    ("kind", "exported", "names", "found"),
    [
        # By chance: two file systems number their files in the same way.
        ("ext4", None, 1, []),
        ("xfs", None, 1, []),
        ("nfs4", None, 1, [BY_INODE]),
        ("ocfs2", None, 1, [BY_INODE]),
        # A server in user space, whose files are this host's, may show it by the other name.
        ("ext4", None, 2, [BY_INODE]),
        ("ext4", "/srv", 1, [BY_INODE]),
    ],
)
def test_an_inode_number_counts_where_other_hosts_may_have_the_file(
    other: Other,
    kind: str,
    exported: str | None,
    names: int,
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: kind)
    monkeypatch.setattr(shared_pools, "exported_directory", lambda _path: exported)
    other.guest(f"file='{other.file}'")
    if names > 1:
        os.link(other.file, tmp_path / "again")
    inode = os.stat(other.file).st_ino
    assert other.users_of(SharedVolume("nfs", "db.raw", "/srv/nfs/db.raw", inode)) == found
    assert other.users_of(SharedVolume("nfs", "db.raw", "/srv/nfs/db.raw", inode + 1)) == []
    sure = ["machine web9"] if found else [BY_NAME]
    assert other.users_of(SharedVolume("nfs", "web9.raw", "/srv/nfs/web9.raw", inode)) == sure


def test_a_name_counts_wherever_it_is_also_behind_a_link(other: Other, tmp_path: Path) -> None:
    link = tmp_path / "link.raw"
    link.symlink_to(other.file)
    other.guest(f"file='{link}'")
    for name in ("link.raw", "web9.raw"):
        assert other.users_of(SharedVolume("nfs", name, f"/srv/nfs/{name}", 1)) == [BY_NAME]


def test_what_only_its_metadata_list_is_said_to_be_that(other: Other) -> None:
    notes = notes_to_xml(MachineNotes(volumes=(VolumeNote("nfs", "web9-data.raw", "disk", format="raw"),)))
    other.guest(f"file='{other.file}'", notes=notes)
    asked = SharedVolume("nfs", "web9-data.raw", "/srv/nfs/web9-data.raw", 1)
    assert other.users_of(asked) == ["machine web9 (in its metadata, not as a disk, by the same name)"]
    other.conn.lookupByName("web9").undefine()
    other.guest("file='/not/mounted/web9-data.raw'", notes=notes)
    assert other.users_of(asked) == [BY_NAME]


@pytest.mark.parametrize(
    ("kind", "source", "found"),
    [
        ("network", "protocol='rbd' name='vms/db'", ["machine web9"]),
        ("volume", "pool='ceph' volume='db'", ["machine web9"]),
        # Where libvirt here does not know the pool, it may be that one.
        ("volume", "pool='unknown' volume='db'", [BY_NAME]),
        # What the kernel has mapped, or maps when the machine is to start.
        ("block", "dev='{}/vms/db'", ["machine web9"]),
        ("block", "dev='{}/mapped'", ["machine web9"]),
        # Others of the same name.
        ("network", "protocol='rbd' name='hdd/db'", []),
        ("volume", "pool='hdd' volume='db'", []),
        ("block", "dev='/dev/vg0/db'", []),
        ("file", "file='/var/lib/libvirt/images/db'", []),
    ],
)
def test_a_volume_of_ceph_is_where_it_is(
    other: Other, kind: str, source: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_RBD", str(tmp_path))
    (tmp_path / "vms").mkdir()
    if "mapped" in source:
        (tmp_path / "mapped").touch()
        (tmp_path / "vms" / "db").symlink_to(tmp_path / "mapped")
    other.conn.storagePoolCreateXML(POOL.format("hdd", "hdd"), 0)
    other.guest(source.format(tmp_path), kind)
    assert other.users_of(SharedVolume("ceph", "db", "rbd:vms/db")) == found


def test_a_mapped_volume_of_ceph_that_the_host_itself_uses(
    other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_RBD", str(tmp_path))
    path = f"{tmp_path}/vms/db"
    monkeypatch.setattr(devices, "is_busy", lambda busy: busy == path)
    words = f"the host itself ({path} is mounted, swap, or in LVM or RAID)"
    assert other.users_of(SharedVolume("ceph", "db", "rbd:vms/db")) == [words]


class TestAsked:
    """Of a pool that is a folder."""

    @pytest.fixture(autouse=True)
    def shared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(volume, "shared_because", lambda _pool: "it is")

    def test_a_file_by_its_inode_number(self, tmp_path: Path) -> None:
        (tmp_path / "a.raw").touch()
        pool = Pool("nfs", str(tmp_path), 0, None, local=True)
        inode = os.stat(tmp_path / "a.raw").st_ino
        assert volume.shared_volume(pool, "a.raw") == SharedVolume("nfs", "a.raw", f"{tmp_path}/a.raw", inode)

    @pytest.mark.parametrize("linked", [False, True])
    def test_a_device_node_by_its_serial_number(
        self, linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its inode number is one of this host's /dev."""
        node = "/dev/mapper/mpatha"

        class Device:
            st_mode = stat.S_IFBLK

        directory = str(tmp_path) if linked else "/dev/mapper"
        if linked:
            (tmp_path / "mpatha").symlink_to(node)
        monkeypatch.setattr(volume, "device_serial", lambda path: "3600" if path == f"{directory}/mpatha" else None)
        monkeypatch.setattr(volume.os, "stat", lambda _path: Device())
        pool = Pool("luns", directory, 0, None, local=True)
        assert volume.shared_volume(pool, "mpatha") == SharedVolume("luns", "mpatha", node, serial="3600")
