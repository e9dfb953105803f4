# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of every type, as libvirt's test driver takes and gives their XML."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.files import Mount
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

UUID = "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f"
PORTAL = "<host name='san1' port='3260'/><device path='iqn.2026-01.org.example:one'/>"
# What stands inside <pool type=...><name>...</name> for each type.
POOLS = {
    "dir": "<target><path>/srv/pool/</path></target>",
    "fs": "<source><device path='/dev/sdb1'/></source><target><path>/srv/pool</path></target>",
    "netfs": "<source><host name='nas'/><dir path='/export'/></source><target><path>/srv/pool</path></target>",
    "logical": "<source><name>vg0</name></source><target><path>/dev/vg0</path></target>",
    "zfs": "<source><name>tank/vms</name></source><target><path>/dev/zvol/tank/vms</path></target>",
    "disk": "<source><device path='/dev/sdb'/></source><target><path>/dev</path></target>",
    "iscsi": f"<source>{PORTAL}</source><target><path>/dev/disk/by-path</path></target>",
    "scsi": "<source><adapter type='scsi_host' name='scsi_host1'/></source><target><path>/dev</path></target>",
    "mpath": "<target><path>/dev/mapper</path></target>",
    "rbd": "<source><host name='mon1' port='6789'/><host name='mon2'/><name>vms</name>"
    f"<auth type='ceph' username='libvirt'><secret uuid='{UUID}'/></auth></source>",
    "gluster": "<source><host name='brick1'/><dir path='/images'/><name>volume1</name></source>",
    "iscsi-direct": f"<source>{PORTAL}<initiator><iqn name='iqn.2026-01.org.example:me'/></initiator>"
    "<auth type='chap' username='me'><secret usage='the key'/></auth></source>",
}
RBD = DiskSource(
    "network",
    protocol="rbd",
    name="vms/web1-system.raw",
    hosts=(("mon1", 6789), ("mon2", None)),
    auth_user="libvirt",
    auth_type="ceph",
    secret_uuid=UUID,
)
ISCSI = DiskSource(
    "network",
    protocol="iscsi",
    name="iqn.2026-01.org.example:one/3",
    hosts=(("san1", 3260),),
    auth_user="me",
    auth_type="iscsi",
    secret_usage="the key",
    initiator="iqn.2026-01.org.example:me",
)
GLUSTER = DiskSource("network", protocol="gluster", name="volume1/images/old.qcow2", hosts=(("brick1", None),))


@pytest.fixture
def conn(tmp_path: t.Any) -> t.Iterator[VirConnect]:
    """A hypervisor with one active pool of each type, named after it, and one that is asleep."""
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for kind, inside in POOLS.items():
            conn.storagePoolCreateXML(f"<pool type='{kind}'><name>{kind}</name>{inside}</pool>", 0)
        conn.storagePoolDefineXML("<pool type='dir'><name>asleep</name><target><path>/x</path></target></pool>", 0)
        yield conn


@pytest.mark.parametrize(
    ("kind", "volume", "source"),
    [
        ("dir", "web1.qcow2", DiskSource("file", "/srv/pool/web1.qcow2")),
        ("fs", "web1.qcow2", DiskSource("file", "/srv/pool/web1.qcow2")),
        ("netfs", "web1.qcow2", DiskSource("file", "/srv/pool/web1.qcow2")),
        ("logical", "web1", DiskSource("block", "/dev/vg0/web1")),
        ("zfs", "web1", DiskSource("block", "/dev/zvol/tank/vms/web1")),
        ("rbd", "web1-system.raw", RBD),
        ("gluster", "old.qcow2", GLUSTER),
        ("iscsi-direct", "unit:0:0:3", ISCSI),
    ],
)
def test_a_place_is_known_before_the_volume_is_there(
    conn: VirConnect, kind: str, volume: str, source: DiskSource
) -> None:
    pool = Pools(conn).get(kind)
    assert pool.source_of(volume) == source
    assert pool.volume_path(volume) == source.place
    assert pool.type == kind
    # And the way back.
    assert pool.name_at(source) == volume


def test_a_place_elsewhere_is_not_in_the_pool(conn: VirConnect) -> None:
    pools = Pools(conn)
    assert pools.get("dir").name_at(DiskSource("file", "/srv/pool/below/web1.qcow2")) is None
    assert pools.get("dir").name_at(RBD) is None
    assert pools.get("rbd").name_at(GLUSTER) is None
    assert pools.get("rbd").name_at(DiskSource("network", protocol="rbd", name="elsewhere/web1")) is None


def test_a_volume_of_another_cluster_is_not_in_a_pool_of_the_same_name(conn: VirConnect) -> None:
    pools = Pools(conn)
    assert pools.get("rbd").name_at(replace(RBD, hosts=(("mon7", 6789), ("mon8", None)))) is None
    assert pools.get("gluster").name_at(replace(GLUSTER, hosts=(("brick7", None),))) is None
    # One monitor is enough to be of the same, and who names none leaves it to the hypervisor's settings.
    assert pools.get("rbd").name_at(replace(RBD, hosts=(("mon2", 3300),))) == "web1-system.raw"
    assert pools.get("rbd").name_at(replace(RBD, hosts=())) == "web1-system.raw"
    # The name of an iSCSI target is the only one of its kind, and it may be reached in several ways.
    assert pools.get("iscsi-direct").name_at(replace(ISCSI, hosts=(("san2", 3260),))) == "unit:0:0:3"


@pytest.mark.parametrize("kind", ["disk", "iscsi", "scsi", "mpath"])
def test_where_names_are_not_chosen_the_place_is_looked_up(conn: VirConnect, kind: str) -> None:
    pool = Pools(conn).get(kind)
    with pytest.raises(NotFoundError, match="cannot find volume lun1 of pool"):
        pool.source_of("lun1")
    xml = "<volume><name>lun1</name><capacity>512</capacity></volume>"
    path = conn.storagePoolLookupByName(kind).createXML(xml, 0).path()
    assert pool.source_of("lun1") == DiskSource("block", path)


@pytest.mark.parametrize("kind", POOLS)
def test_what_a_pool_can_do(conn: VirConnect, kind: str) -> None:
    pool = Pools(conn).get(kind)
    files = kind in ("dir", "fs", "netfs")
    named = kind not in ("disk", "iscsi", "scsi", "mpath", "gluster", "iscsi-direct")
    assert (pool.can_overlay, pool.default_format) == (files, "qcow2" if files else "raw")
    assert pool.makes_named_volumes == named
    assert pool.formats == (("qcow2", "raw") if files else ("raw",) if named else ())
    assert pool.capacity_bytes >= pool.available_bytes > 0
    if files:
        pool.require_overlay()
        pool.require_format("qcow2")
        return
    with pytest.raises(UnsupportedError, match=f"d.clone: .*{kind}' is of type {kind}, .*clone: copy"):
        pool.require_overlay("d.clone")
    says = "cannot hold qcow2 volumes. Choose raw" if named else "cannot be created by name"
    with pytest.raises(UnsupportedError, match=f"d.format: .* of type {kind}.*{says}"):
        pool.require_format("qcow2", "d.format")


def test_nothing_is_created_below_a_mount_point_without_its_file_system(
    conn: VirConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "missing_mount", lambda path: "/srv/my disks" if path else None)
    theirs = Pools(conn).get("dir")
    theirs.require_new_volumes()
    with pytest.raises(ConflictError) as caught:
        replace(theirs, local=True).require_format("raw", "d.pool")
    assert str(caught.value) == (
        "d.pool: nothing is mounted at /srv/my disks, where /etc/fstab or systemd has the file system of storage pool "
        "'dir'. Mount it: mount '/srv/my disks', or systemctl start its mount unit"
    )


@pytest.mark.parametrize("kind", ["netfs", "fs"])
def test_nothing_is_created_where_libvirt_has_mounted_a_pool_that_is_mounted_no_more(
    conn: VirConnect, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As after umount --force, when its server was gone: libvirt goes on to call it active."""
    mounted = [Mount("/", "ext4", "/dev/vda1"), Mount("/srv/pool", "nfs4", "nas:/export")]
    monkeypatch.setattr(pools, "read_mounts", lambda: mounted)
    theirs = Pools(conn).get(kind)
    replace(theirs, local=True).require_new_volumes()
    mounted.pop()
    theirs.require_new_volumes()
    with pytest.raises(ConflictError) as caught:
        replace(theirs, local=True).require_new_volumes("d.pool")
    assert str(caught.value) == (
        f"d.pool: nothing is mounted at /srv/pool any more, where libvirt has mounted storage pool '{kind}'. "
        f"Have it mounted again: virsh pool-destroy {kind} && virsh pool-start {kind}"
    )


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("logicl", NotFoundError, "d.pool: there is no storage pool 'logicl'. Did you mean logical?"),
        ("asleep", ConflictError, "d.pool: storage pool 'asleep' is not active. Start it: virsh pool-start asleep"),
    ],
)
def test_a_pool_that_cannot_be_used_is_refused_and_nothing_is_made(
    conn: VirConnect, name: str, error: type[VirtError], words: str
) -> None:
    before = [pool.XMLDesc(0) for pool in conn.listAllStoragePools()]
    with pytest.raises(error) as caught:
        Pools(conn).get(name, "d.pool")
    assert str(caught.value) == words
    assert [pool.XMLDesc(0) for pool in conn.listAllStoragePools()] == before


def test_what_qemu_cannot_run_from_is_refused(conn: VirConnect) -> None:
    xml = "<pool type='sheepdog'><name>dogs</name><source><name>x</name><host name='y'/></source></pool>"
    conn.storagePoolCreateXML(xml, 0)
    with pytest.raises(UnsupportedError, match="d.pool: .*'dogs' is of type sheepdog.*dir, fs, .*rbd"):
        Pools(conn).get("dogs", "d.pool")
    assert "dogs" not in {pool.name for pool in Pools(conn).all()}


def test_all_pools_are_those_that_can_be_used(conn: VirConnect) -> None:
    pools = Pools(conn)
    rbd = pools.get("rbd")
    everything = {pool.name: pool for pool in pools.all()}
    assert set(everything) == set(POOLS)
    assert everything["rbd"] is rbd is pools.get("rbd")


def test_the_test_driver_has_no_files_on_this_machine(conn: VirConnect) -> None:
    assert not any(pool.local for pool in Pools(conn).all())


def test_directories_of_another_host_that_are_as_large_and_as_free_have_one_space(conn: VirConnect) -> None:
    """Which file system they are on cannot be asked from here."""
    for name in ("images", "full"):
        xml = f"<pool type='dir'><name>{name}</name><target><path>/srv/{name}</path></target></pool>"
        pool = conn.storagePoolCreateXML(xml, 0)
    # It may have grown by a little between the two looks.
    for name, mib in (("images", 1), ("full", 1024)):
        pool = conn.storagePoolLookupByName(name)
        pool.createXML(f"<volume><name>a</name><capacity unit='MiB'>{mib}</capacity></volume>", 0)
    for order in (("dir", "images", "full", "fs", "logical"), ("logical", "fs", "full", "images", "dir")):
        pools = Pools(conn)
        sources = {name: pools.get(name).space_source for name in order}
        assert sources["dir"] == sources["images"]
        assert len(set(sources.values())) == 4
        assert pools.get("images").space_source == sources["images"]
