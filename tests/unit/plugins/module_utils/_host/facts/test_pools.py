# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of a hypervisor: their space, and which storage they share with other hypervisors."""

from __future__ import annotations

import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.files import Mount
from ansible_collections.brine.virt.plugins.module_utils._base.xml import read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts import pools as host_pools
from ansible_collections.brine.virt.plugins.module_utils._host.facts.pools import (
    observe_pools,
    shared_storage_at,
    shared_storage_of,
)

NETFS = "<host name='{}'/><dir path='{}'/><format type='nfs'/>"


@pytest.mark.parametrize(
    ("kind", "source", "shared"),
    [
        (
            "rbd",
            "<host name='192.0.2.2' port='6789'/><host name='192.0.2.1'/><host name='192.0.2.2'/><name>vms</name>"
            "<auth type='ceph' username='libvirt'><secret uuid='3d0f6a5e-7a3f-4a0b-8b6c-0e1f2a3b4c5d'/></auth>",
            "rbd 192.0.2.1,192.0.2.2/vms",
        ),
        ("rbd", "<host name='Mon1.Example.org'/><name>vms</name>", "rbd mon1.example.org/vms"),
        ("rbd", "<name>vms</name>", "rbd /vms"),
        ("rbd", "<host name='192.0.2.1'/>", None),
        ("gluster", "<host name='192.0.2.1'/><name>vol</name><dir path='/'/>", "gluster 192.0.2.1/vol"),
        ("gluster", "<host name='192.0.2.1'/><name>vol</name><dir path='/vms/'/>", "gluster 192.0.2.1/vol/vms"),
        ("netfs", NETFS.format("nas.example.org", "/srv/vms"), "netfs nas.example.org:/srv/vms"),
        ("netfs", NETFS.format("NAS", "srv//vms/"), "netfs nas:/srv/vms"),
        ("netfs", NETFS.format("2001:db8::1", "/"), "netfs 2001:db8::1:/"),
        (
            "iscsi",
            "<host name='san'/><device path='iqn.2026-01.org.example:vms'/>",
            "iscsi iqn.2026-01.org.example:vms",
        ),
        ("iscsi-direct", "<host name='other'/><device path='iqn.2026-01.o:vms'/>", "iscsi iqn.2026-01.o:vms"),
        ("vstorage", "<name>cluster1</name>", "vstorage cluster1"),
        ("scsi", "<adapter type='scsi_host' name='host1'/>", None),
        ("logical", "<device path='/dev/sdb'/><name>vg</name>", None),
        ("fs", "<device path='/dev/sdb1'/><format type='ext4'/>", None),
        ("zfs", "<name>tank/vms</name>", None),
    ],
)
def test_the_source_of_a_pool_says_which_storage_it_is(kind: str, source: str, shared: str | None) -> None:
    xml = f"<pool type='{kind}'><name>p</name><source>{source}</source></pool>"
    assert shared_storage_of(read_description("storage pool p", xml)) == shared


def test_a_pool_without_a_source_shares_nothing() -> None:
    xml = "<pool type='dir'><name>p</name><target><path>/srv</path></target></pool>"
    assert shared_storage_of(read_description("storage pool p", xml)) is None


@pytest.mark.parametrize(
    ("kind", "source", "shared"),
    [
        ("nfs4", "NAS.example.org:/export", "netfs nas.example.org:/export/vms"),
        ("nfs", "nas:/", "netfs nas:/vms"),
        ("nfs4", "[2001:db8::1]:/export", "netfs 2001:db8::1:/export/vms"),
        ("cifs", "//nas/share", "netfs nas:/share/vms"),
        ("fuse.glusterfs", "nas:vol", "netfs nas:/vol/vms"),
        ("ceph", "192.0.2.1:6789,192.0.2.2:6789:/a", "ceph 192.0.2.1:6789,192.0.2.2:6789:/a/vms"),
        ("ceph", "vms@b3acfc0d.fs=/", "ceph vms@b3acfc0d.fs=/vms"),
        ("nfs4", "nonsense", None),
        ("nfs4", "nas:/b\udcff", "netfs nas:/b?/vms"),
        ("ocfs2", "/dev/sdb", None),
        ("xfs", "/dev/sdb", None),
    ],
)
def test_what_is_mounted_says_which_storage_it_is(kind: str, source: str, shared: str | None) -> None:
    mounts = [Mount("/", "ext4", "/dev/sda1"), Mount("/srv/shared", kind, source)]
    assert shared_storage_at("/srv/shared/vms", mounts) == shared
    assert shared_storage_at("/srv/sharedx/vms", mounts) is None


def test_a_file_system_that_is_not_known_is_of_one_hypervisor() -> None:
    assert shared_storage_at("/srv", []) is None


def test_a_directory_that_the_administrator_has_mounted_is_the_pool_that_libvirt_mounts() -> None:
    netfs = f"<pool type='netfs'><name>p</name><source>{NETFS.format('nas', '/srv/vms')}</source></pool>"
    mounted = shared_storage_at("/mnt", [Mount("/mnt", "nfs4", "nas:/srv/vms")])
    assert mounted == shared_storage_of(read_description("storage pool p", netfs)) == "netfs nas:/srv/vms"


def test_only_the_hypervisor_itself_looks_at_what_is_mounted(
    tmp_path: Path, node_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shared(*, local: bool) -> dict[str, t.Any]:
        with open_connection(node_uri) as conn:
            conn.storagePoolLookupByName("images").destroy()
            return {pool["name"]: pool["shared_storage"] for pool in observe_pools(conn, [], local=local)}

    (tmp_path / "mounts").write_text("30 22 0:40 / /var/lib/libvirt rw - nfs4 nas:/export rw\n")
    monkeypatch.setattr(host_pools, "MOUNTS", str(tmp_path / "mounts"))
    assert shared(local=False) == {"default": None, "images": None}
    assert shared(local=True) == {"default": "netfs nas:/export/images", "images": None}


def test_the_space_of_a_directory_is_measured_now(tmp_path: Path) -> None:
    seen = host_pools._live_space(str(tmp_path))
    assert seen is not None
    assert 0 < seen["available"] <= seen["capacity"]
    assert host_pools._live_space(str(tmp_path / "missing")) is None


def test_pools_in_one_file_system_are_told(tmp_path: Path) -> None:
    pools = "".join(
        f"<pool type='{kind}'><name>{name}</name><target><path>{path}</path></target></pool>"
        for name, kind, path in (
            ("one", "dir", tmp_path / "one"),
            ("two", "dir", tmp_path / "two"),
            ("processes", "dir", "/proc"),
            ("gone", "dir", tmp_path / "gone"),
            ("volumes", "logical", tmp_path),
        )
    )
    (tmp_path / "node.xml").write_text(f"<node>{pools}</node>")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    def file_systems(*, local: bool) -> dict[str, t.Any]:
        with open_connection(f"test://{tmp_path}/node.xml") as conn:
            return {pool["name"]: pool["file_system"] for pool in observe_pools(conn, [], local=local)}

    found = file_systems(local=True)
    assert found["one"] == found["two"] != found["processes"]
    assert all(":" in found[name] for name in ("one", "processes"))
    assert (found["gone"], found["volumes"]) == (None, None)
    assert set(file_systems(local=False).values()) == {None}


def test_a_directory_that_never_answers_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a server that is gone."""
    pool = "<pool type='dir'><name>{0}</name><target><path>{1}/{0}</path></target></pool>"
    (tmp_path / "node.xml").write_text(f"<node>{pool.format('hangs', tmp_path)}{pool.format('own', tmp_path)}</node>")
    (tmp_path / "own").mkdir()
    over, space_of = threading.Event(), host_pools._live_space

    def hang(path: str) -> dict[str, int] | None:
        if path.endswith("/hangs"):
            over.wait()
        return space_of(path)

    monkeypatch.setattr(host_pools, "_live_space", hang)
    monkeypatch.setattr(host_pools, "_ANSWER_SECONDS", 0.5)
    errors: list[str] = []
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        found = {one["name"]: one for one in observe_pools(conn, errors, local=True)}
    over.set()
    assert errors == ["storage pool hangs: no answer within 0.5 s"]
    assert (found["hangs"]["active"], found["hangs"]["available_mib"]) == (True, None)
    assert found["own"]["available_mib"] > 0


def test_libvirt_says_the_source_of_a_pool_that_is_not_active_as_well(node_uri: str) -> None:
    source = "<host name='192.0.2.2' port='6789'/><host name='192.0.2.1'/><name>vms</name>"
    with open_connection(node_uri) as conn:
        conn.storagePoolDefineXML(f"<pool type='rbd'><name>ceph</name><source>{source}</source></pool>", 0)
        ceph = next(pool for pool in observe_pools(conn, [], local=False) if pool["name"] == "ceph")
    assert (ceph["active"], ceph["shared_storage"]) == (False, "rbd 192.0.2.1,192.0.2.2/vms")
