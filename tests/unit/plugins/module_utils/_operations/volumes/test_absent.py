# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that go, and what keeps them. Who may use one is in the folder traps."""

from __future__ import annotations

import shutil
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.images import clustered
from ansible_collections.brine.virt.plugins.module_utils._host.storage import usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload, sending
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import volume as shared
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import absent
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import disk
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import MAKE
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import VolumeHost
from ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster import PretendedCluster, Snapshot

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def refused(host: VolumeHost, **params: t.Any) -> str:
    before = host.purge.files()
    with pytest.raises(VirtError) as caught:
        host.run(**params, state="absent")
    assert host.purge.files() == before
    return str(caught.value)


def test_what_nothing_uses_goes_once(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB")
    result = host.one(name="a", state="absent", size="1TiB", src="not looked for")
    assert (result["present"], result["path"], result["pool"]) == (False, None, "default")
    assert result["actions"] == ["delete volume a of pool default"]
    assert (host.volumes(), host.purge.files()) == (set(), {})
    assert host.one(name="a", state="absent")["changed"] is False


def test_what_belongs_to_others_is_named_with_who_removes_it(host: VolumeHost) -> None:
    host.purge.make()
    words = refused(host, name="web1-system.qcow2")
    assert words.startswith(
        "name: volume web1-system.qcow2 of pool default is not deleted: it belongs to machine web1."
    )
    assert "virt_purge removes it with web1" in words
    host.purge.image(host.pool / "tiny-0123456789abcdef.qcow2")
    assert "it is a stored image. virt_image" in refused(host, name="tiny-0123456789abcdef.qcow2")


def test_one_that_stays_keeps_all(host: VolumeHost) -> None:
    for name in ("a", "b"):
        host.run(name=name, size="8MiB")
    host.purge.guest("other", disk(host.pool / "b"))
    words = refused_list(host, [{"name": "a", "state": "absent"}, {"name": "b", "state": "absent"}])
    assert "volume b of pool default is kept: it is used by machine other" in words


def test_a_lun_is_not_deleted_and_the_check_says_so(host: VolumeHost) -> None:
    source = "<source><host name='san'/><device path='iqn.2026-01.org.example:a'/></source>"
    xml = f"<pool type='iscsi'><name>san</name>{source}<target><path>/dev/disk/by-path</path></target></pool>"
    san = host.purge.conn.storagePoolCreateXML(xml, 0)
    # Without a file.
    MAKE(san, "<volume><name>unit:0:0:1</name><capacity>1048576</capacity></volume>", 0)
    known_elsewhere: tuple[dict[str, t.Any], ...] = ({}, {"used_elsewhere": {}})
    for others in known_elsewhere:
        words = refused(host, name="unit:0:0:1", pool="san", **others)
        assert words.startswith("name: volume unit:0:0:1 of pool san is not deleted: libvirt deletes none in a pool of")
    assert san.listVolumes() == ["unit:0:0:1"]


def test_what_has_clones_in_its_cluster_stays_and_the_check_says_so(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = PretendedCluster("a")
    monkeypatch.setattr(clustered, "open_cluster", cluster.open)
    monkeypatch.setattr(absent, "has_bindings", lambda: True)
    # libvirt's back-end reads no volumes of a cluster.
    monkeypatch.setattr(absent, "upload_of", lambda _pool, _name: None)
    monkeypatch.setattr(Pools, "local", property(lambda _self: True))
    source = "<source><host name='mon'/><name>vms</name></source>"
    xml = f"<pool type='rbd'><name>ceph</name>{source}<target><path>/</path></target></pool>"
    ceph = host.purge.conn.storagePoolCreateXML(xml, 0)
    MAKE(ceph, "<volume><name>a</name><capacity>1048576</capacity></volume>", 0)
    cluster.there["a"].snapshots["theirs"] = Snapshot("new", clones=["db2-data"])
    words = refused(host, name="a", pool="ceph", used_elsewhere={})
    assert words.startswith(
        "name: volume a of pool ceph is not deleted: it is used by volume vms/db2-data, which is a clone of it, "
        "snapshot theirs of it, which this collection has not taken. If nobody needs them: make clones"
    )
    cluster.there["a"].snapshots["theirs"].clones.clear()
    assert "it is used by snapshot theirs of it" in refused(host, name="a", pool="ceph", used_elsewhere={})
    cluster.there["a"].snapshots.clear()
    assert host.run(True, name="a", pool="ceph", state="absent", used_elsewhere={})["changed"]


def test_an_image_in_a_cluster_is_for_virt_image(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pools, "local", property(lambda _self: True))
    source = "<source><host name='mon'/><name>vms</name></source>"
    xml = f"<pool type='rbd'><name>ceph</name>{source}<target><path>/</path></target></pool>"
    ceph = host.purge.conn.storagePoolCreateXML(xml, 0)
    name = f"debian-{'0' * 16}.raw"
    MAKE(ceph, f"<volume><name>{name}</name><capacity>1048576</capacity></volume>", 0)
    words = refused(host, name=name, pool="ceph", used_elsewhere={})
    assert words.startswith(f"name: volume {name} of pool ceph is not deleted: it is a stored image. virt_image")


def refused_list(host: VolumeHost, volumes: list[dict[str, t.Any]]) -> str:
    before = host.purge.files()
    with pytest.raises(VirtError) as caught:
        host.run(volumes=volumes)
    assert host.purge.files() == before
    return str(caught.value)


def test_what_is_being_filled_stays(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB", format="raw")
    upload = new_upload(host.purge.conn.getHostname())
    with (host.pool / "a").open("r+b") as file:
        file.write(upload.to_bytes())
    with sending(upload):
        assert "is sending its content. Wait for it to end" in refused(host, name="a")
    # Its process has gone on without it.
    assert host.one(name="a", state="absent")["changed"] is True


@pytest.fixture
def shared_host(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> VolumeHost:
    """A hypervisor whose pool others see as well."""
    monkeypatch.setattr(shared, "shared_because", lambda pool: f"pool {pool.name} is shared")
    monkeypatch.setattr(usage, "seen_elsewhere", lambda pool: f"pool {pool.name} is shared")
    host.run(name="a", size="8MiB")
    host.run(name="b", size="8MiB")
    return host


def test_in_a_shared_pool_the_others_are_asked_first(shared_host: VolumeHost) -> None:
    host = shared_host
    before = host.purge.files()
    both = [{"name": "a", "state": "absent"}, {"name": "c", "size": "1MiB"}]
    for check_mode in (True, False):
        answer = host.run(check_mode, volumes=both)
        assert (answer["failed"], answer["changed"], answer["diff"]) == (True, False, [])
        assert "a: volumes[0].name: volume a of pool default is not deleted: pool default is shared" in answer["msg"]
        assert "c: nothing was done to it, as a cannot be done" in answer["msg"]
        result, other = answer["volumes"]
        assert (result["present"], other["present"], other["changed"]) == (True, False, False)
        assert host.purge.files() == before
    inode = (host.pool / "a").stat().st_ino
    assert result["shared"] == {
        "pool": "default",
        "volume": "a",
        "place": str(host.pool / "a"),
        "inode": inode,
        "serial": None,
    }


@pytest.mark.parametrize(("users", "unknown"), [(["machine far"], []), ([], ["pool x is not active"])])
def test_what_others_use_or_may_use_stays(shared_host: VolumeHost, users: list[str], unknown: list[str]) -> None:
    said = {"volumes": [{"pool": "default", "volume": "a", "users": users, "unknown": unknown}]}
    words = refused(shared_host, name="a", used_elsewhere={"hv2": said})
    assert f"{(users or unknown)[0]} on hv2" in words


def test_what_no_other_uses_goes(shared_host: VolumeHost) -> None:
    said = {"volumes": [{"pool": "default", "volume": "a", "users": [], "unknown": []}]}
    assert shared_host.one(name="a", state="absent", used_elsewhere={"hv2": said})["changed"] is True
    assert shared_host.one(name="b", state="absent", used_elsewhere={})["changed"] is True


def test_what_has_changed_since_the_plan_stays(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run(name="a", size="8MiB")
    real = absent.delete_step

    def late(*args: t.Any) -> t.Any:
        step = real(*args)
        (host.pool / "a").write_bytes(b"restored by somebody")
        return step

    monkeypatch.setattr(absent, "delete_step", late)
    answer = host.run(name="a", state="absent")
    assert "it has changed since this run looked" in answer["msg"]
    assert (host.pool / "a").read_bytes() == b"restored by somebody"
