# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools on libvirt's test driver: made, changed, stopped and removed, and what is refused."""

from __future__ import annotations

import contextlib
import stat
import types
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import PoolSpec, read_pool
from ansible_collections.brine.virt.plugins.module_utils._operations.pools import plan, steps
from ansible_collections.brine.virt.plugins.module_utils._operations.pools.existing import missing_secret, shown
from ansible_collections.brine.virt.plugins.module_utils._operations.pools.plan import PoolPlanner
from ansible_collections.brine.virt.plugins.module_utils._operations.pools.together import require_own_names
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    ResourceResult,
    carry_out,
    plan_all,
)

# One pool, of files, active and not started with the host. By a file, so that each connection has its own.
NODE = "<node><pool type='dir'><name>default-pool</name><target><path>/default-pool</path></target></pool></node>"
EXISTING = {"name": "default-pool", "path": "/default-pool"}
NEW = {"name": "images", "path": "/var/lib/libvirt/virt-images"}
NFS = {"name": "nfs", "type": "netfs", "host": "nas", "export": "/vms", "path": "/mnt/nfs"}
FS = {"name": "fs", "type": "fs", "device": "/dev/sdb1", "path": "/mnt/fs"}
LVM = {"name": "lvm", "type": "logical", "volume_group": "vg0"}
ISCSI = {"name": "san", "type": "iscsi", "host": "nas", "target": "iqn.2026-01.org.example:vms"}
MACHINE = """
<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='{kind}'><source {source}/><target dev='vda'/></disk></devices></domain>
"""


@pytest.fixture
def conn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text(NODE, encoding="utf-8")
    monkeypatch.setattr(steps, "hypervisor_lock", lambda _purpose, **_settings: contextlib.nullcontext())
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        yield connection


def planned(conn: t.Any, *pools: dict[str, t.Any]) -> list[ResourceResult]:
    specs = GivenResources.of({"pools": list(pools)}, "pools", ["name"]).read(read_pool)
    require_own_names(specs)
    return plan_all(specs, PoolPlanner(conn, check_mode=False, lock_seconds=0).plan)


def done(conn: t.Any, *pools: dict[str, t.Any]) -> list[ResourceResult]:
    results = planned(conn, *pools)
    carry_out(results, check_mode=False)
    return results


def actions(conn: t.Any, *pools: dict[str, t.Any]) -> list[str]:
    results = done(conn, *pools)
    assert [result.error for result in results] == [None] * len(pools)
    return [action for result in results for action in result.as_result()["actions"]]


def refusal(conn: t.Any, *pools: dict[str, t.Any]) -> VirtError:
    before = [(pool.name(), pool.isActive(), pool.XMLDesc(0)) for pool in conn.listAllStoragePools(0)]
    with pytest.raises(VirtError) as caught:
        planned(conn, *pools)
    assert [(pool.name(), pool.isActive(), pool.XMLDesc(0)) for pool in conn.listAllStoragePools(0)] == before
    return caught.value


def test_a_missing_pool_is_made_once(conn: t.Any) -> None:
    (result,) = done(conn, NEW)
    assert result.plan.before is None
    assert result.as_result()["actions"] == [
        "define storage pool images",
        "start storage pool images",
        "have storage pool images started with the host",
    ]
    pool = conn.storagePoolLookupByName("images")
    assert pool.isActive() and pool.autostart()
    (again,) = planned(conn, NEW)
    assert again.plan.steps == ()
    assert again.plan.before == again.plan.after == {**NEW, "type": "dir", "state": "active", "autostart": True}


def test_only_what_lacks_is_done(conn: t.Any) -> None:
    assert actions(conn, EXISTING) == ["have storage pool default-pool started with the host"]
    pool = conn.storagePoolLookupByName("default-pool")
    pool.destroy()
    assert actions(conn, EXISTING) == ["start storage pool default-pool"]
    assert actions(conn, EXISTING) == []
    # The name alone asks for no more than that.
    assert actions(conn, {"name": "default-pool", "autostart": False}) == [
        "no longer have storage pool default-pool started with the host"
    ]
    assert not pool.autostart()


def test_a_pool_is_only_defined(conn: t.Any) -> None:
    assert "start storage pool nfs" not in actions(conn, {**NFS, "state": "inactive", "autostart": False})
    pool = conn.storagePoolLookupByName("nfs")
    assert not pool.isActive() and not pool.autostart()
    assert actions(conn, {"name": "nfs", "autostart": False}) == ["start storage pool nfs"]
    assert actions(conn, {"name": "nfs", "state": "inactive", "autostart": False}) == ["stop storage pool nfs"]
    assert not pool.isActive()


def test_a_change_of_the_definition_keeps_the_pool_and_the_rest_of_it(conn: t.Any) -> None:
    pool = conn.storagePoolDefineXML(
        "<pool type='rbd'><name>ceph</name><source><host name='mon1'/><name>vms</name></source>"
        "<refresh><volume allocation='capacity'/></refresh></pool>",
        0,
    )
    changed = {"name": "ceph", "hosts": ["mon1", "mon2"], "state": "inactive", "autostart": False}
    assert actions(conn, changed) == ["change hosts of storage pool ceph"]
    root = parse_xml(pool.XMLDesc(0))
    assert root.findtext("uuid") == pool.UUIDString()
    assert root.find("refresh/volume[@allocation='capacity']") is not None
    assert [host.get("name") for host in root.iterfind("source/host")] == ["mon1", "mon2"]
    assert actions(conn, changed) == []


def test_what_a_running_pool_has_not_yet_is_said_each_time(conn: t.Any) -> None:
    # The test driver, unlike libvirt's own, does not show the new definition before the next start.
    actions(conn, {**NFS, "format": "nfs", "protocol_version": "3"})
    (result,) = done(conn, {"name": "nfs", "protocol_version": "4.2"})
    assert result.as_result()["actions"] == ["change protocol_version of storage pool nfs"]
    assert result.plan.pending[0].startswith(
        "protocol_version: at the next start of the pool (virsh pool-destroy nfs &&"
    )


def test_what_fails_is_taken_back(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_pool: t.Any, name: str) -> None:
        raise ConflictError(f"{name} cannot be read")

    monkeypatch.setattr(steps, "refresh_pool", fail)
    results = done(conn, NEW, {**EXISTING, "autostart": True})
    assert [str(result.error) for result in results] == ["images cannot be read", "None"]
    assert [pool.name() for pool in conn.listAllStoragePools(0)] == ["default-pool"]
    shown = results[0].as_result()
    assert (shown["present"], shown["changed"], shown["actions"]) == (False, False, [])


def test_a_change_that_fails_later_brings_the_old_definition_back(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    actions(conn, {**NFS, "format": "nfs", "state": "inactive", "autostart": False})
    before = conn.storagePoolLookupByName("nfs").XMLDesc(0)

    def fail(_pool: t.Any, name: str) -> None:
        raise ConflictError(f"{name} cannot be read")

    monkeypatch.setattr(steps, "refresh_pool", fail)
    (result,) = done(conn, {"name": "nfs", "protocol_version": "4", "autostart": False})
    assert result.error is not None
    pool = conn.storagePoolLookupByName("nfs")
    assert (pool.XMLDesc(0), pool.isActive()) == (before, 0)


def test_a_pool_that_somebody_else_has_started_meanwhile_is_never_stopped(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(conn, {**NFS, "state": "inactive", "autostart": False})
    late = planned(conn, {"name": "nfs", "autostart": False})
    done(conn, {"name": "nfs", "autostart": False})
    carry_out(late, check_mode=False)
    pool = conn.storagePoolLookupByName("nfs")
    assert late[0].error is None
    assert pool.isActive()
    # Neither does a failure of this run stop it.
    pool.destroy()
    late = planned(conn, {"name": "nfs", "autostart": False})
    pool.create(0)

    def fail(_pool: t.Any, name: str) -> None:
        raise ConflictError(f"{name} cannot be read")

    monkeypatch.setattr(steps, "refresh_pool", fail)
    carry_out(late, check_mode=False)
    assert str(late[0].error) == "nfs cannot be read"
    assert pool.isActive()


def test_a_pool_that_somebody_else_has_defined_meanwhile_stays_as_it_is(conn: t.Any) -> None:
    defined = {"state": "inactive", "autostart": False}
    late = planned(conn, {**NFS, **defined})
    done(conn, {**NFS, **defined, "export": "/other", "path": "/mnt/other"})
    before = conn.storagePoolLookupByName("nfs").XMLDesc(0)
    carry_out(late, check_mode=False)
    assert str(late[0].error).startswith("cannot define storage pool nfs: ")
    assert conn.storagePoolLookupByName("nfs").XMLDesc(0) == before


@pytest.mark.parametrize("option", ["password=canary", "pass=canary", "PASSWORD2=canary", "user=dom/u%canary"])
def test_a_password_is_no_mount_option_and_is_never_shown(conn: t.Any, option: str) -> None:
    refused = refusal(conn, {**NFS, "format": "cifs", "mount_options": ["ro", option]})
    assert str(refused).startswith("pools[0].mount_options[1]: a password does not belong here")
    assert "canary" not in str(refused)
    # On values: the test driver drops options of mount.
    old = parse_xml(
        "<pool type='netfs'><name>old</name><target><path>/mnt/old</path></target>"
        "<fs:mount_opts xmlns:fs='http://libvirt.org/schemas/storagepool/fs/1.0'>"
        f"<fs:option name='ro'/><fs:option name='{option}'/></fs:mount_opts></pool>"
    )
    result = shown("old", old, active=False, autostart=False)
    assert result["mount_options"] == ["ro", option.replace("canary", "********")]
    harmless = ["credentials=/root/nas", "username=u", "uid=3"]
    assert planned(conn, {**NFS, "format": "cifs", "mount_options": harmless})[0].error is None


def test_the_devices_that_a_killed_run_left_in_the_definition_are_taken_out(conn: t.Any) -> None:
    pool = conn.storagePoolDefineXML(
        "<pool type='logical'><name>fast</name><source><device path='/dev/sdz'/><name>vg0</name></source></pool>", 0
    )
    left = {"name": "fast", "state": "inactive", "autostart": False}
    # Without build they may be what somebody has written.
    assert actions(conn, left) == []
    left = {**left, "build": True, "devices": ["/dev/sdz"]}
    assert actions(conn, left) == ["change devices of storage pool fast"]
    root = parse_xml(pool.XMLDesc(0))
    assert (root.find("source/device"), root.findtext("source/name")) == (None, "vg0")
    assert actions(conn, left) == []


def test_a_transient_pool_becomes_permanent(conn: t.Any) -> None:
    conn.storagePoolCreateXML("<pool type='dir'><name>now</name><target><path>/now</path></target></pool>", 0)
    assert actions(conn, {"name": "now"})[0] == "make storage pool now permanent"


def test_removing_a_pool_forgets_it(conn: t.Any) -> None:
    actions(conn, NEW)
    gone = {"name": "images", "state": "absent"}
    (result,) = done(conn, gone)
    assert result.as_result()["actions"] == ["stop and undefine storage pool images; its data stays"]
    assert result.as_result()["present"] is False
    assert "images" not in [pool.name() for pool in conn.listAllStoragePools(0)]
    (again,) = done(conn, gone)
    assert not again.changed and again.plan.before is None


def test_removing_never_deletes(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    actions(conn, NEW)

    def delete(*_: t.Any) -> t.NoReturn:
        raise AssertionError("deleted")

    monkeypatch.setattr(type(conn.storagePoolLookupByName("images")), "delete", delete)
    actions(conn, {"name": "images", "state": "absent"})


@pytest.mark.parametrize(
    ("kind", "source", "pool"),
    [
        ("file", "file='/default-pool/a.qcow2'", EXISTING),
        ("volume", "pool='default-pool' volume='a'", EXISTING),
        ("file", "file='/mnt/nfs/deep/a.qcow2'", NFS),
        ("block", "dev='/dev/vg-0/a'", {"name": "lvm", "type": "logical", "volume_group": "vg-0"}),
        ("block", "dev='/dev/mapper/vg--0-a'", {"name": "lvm", "type": "logical", "volume_group": "vg-0"}),
        ("block", "dev='/dev/zvol/tank/a'", {"name": "z", "type": "zfs", "dataset": "tank"}),
        (
            "block",
            "dev='/dev/disk/by-path/ip-192.0.2.7:3260-iscsi-iqn.2026-01.org.example:vms-lun-1'",
            {"name": "san", "type": "iscsi", "host": "192.0.2.7", "target": "iqn.2026-01.org.example:vms"},
        ),
        ("network", "protocol='rbd' name='vms/a'", {"name": "c", "type": "rbd", "hosts": ["m"], "ceph_pool": "vms"}),
    ],
)
@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_a_pool_that_a_machine_uses_is_kept(
    conn: t.Any, kind: str, source: str, pool: dict[str, t.Any], active: bool, late: bool
) -> None:
    actions(conn, {**pool, "state": "active" if active else "inactive"})
    gone = {"name": pool["name"], "state": "absent"}
    results = planned(conn, gone) if late else []
    conn.defineXML(MACHINE.format(name="db1", kind=kind, source=source))
    words = f"the storage pool {pool['name']} is kept: it is used by machine db1"
    assert str(refusal(conn, gone)).startswith(f"pools[0].state: {words}")
    carry_out(results, check_mode=False)
    assert all(words in str(result.error) for result in results)
    assert conn.storagePoolLookupByName(pool["name"]).isActive() == int(active)


def test_machines_with_other_storage_keep_no_pool(conn: t.Any) -> None:
    pools: list[dict[str, t.Any]] = [
        {"name": "c", "type": "rbd", "hosts": ["m"], "ceph_pool": "vms"},
        {"name": "lvm", "type": "logical", "volume_group": "vg"},
        {"name": "san", "type": "iscsi", "host": "a", "target": "iqn.2026-01.org.example:vms"},
        NEW,
    ]
    actions(conn, *pools)
    sources = [
        ("network", "protocol='rbd' name='vms2/a'"),
        ("block", "dev='/dev/vg2/a'"),
        ("block", "dev='/dev/mapper/vg2-a'"),
        ("block", "dev='/dev/disk/by-path/ip-192.0.2.7:3260-iscsi-iqn.2026-01.org.example:vms2-lun-1'"),
        ("file", "file='/var/lib/libvirt/virt-images2/a'"),
    ]
    for index, (kind, source) in enumerate(sources):
        conn.defineXML(MACHINE.format(name=f"m{index}", kind=kind, source=source))
    assert len(actions(conn, *({"name": pool["name"], "state": "absent"} for pool in pools))) == len(pools)


def test_a_pool_is_stopped_unless_that_cuts_a_running_machine_off(conn: t.Any) -> None:
    actions(conn, NFS, NEW)
    for name, path in (("m1", "/mnt/nfs/a"), ("m2", "/var/lib/libvirt/virt-images/a")):
        conn.defineXML(MACHINE.format(name=name, kind="file", source=f"file='{path}'"))
    conn.lookupByName("m2").create()
    stopped = [{"name": name, "state": "inactive"} for name in ("nfs", "images")]
    conn.lookupByName("m1").create()
    words = "pools[0].state: the storage pool nfs cannot be stopped: it is used by machine m1. Stop them first"
    assert str(refusal(conn, stopped[0])) == words
    conn.lookupByName("m1").destroy()
    late = planned(conn, stopped[0])
    conn.lookupByName("m1").create()
    carry_out(late, check_mode=False)
    assert str(late[0].error) == words and conn.storagePoolLookupByName("nfs").isActive()
    conn.lookupByName("m1").destroy()
    assert actions(conn, *stopped) == ["stop storage pool nfs", "stop storage pool images"]


def test_a_machine_that_cannot_be_read_keeps_a_pool(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = conn.defineXML(MACHINE.format(name="odd", kind="file", source="file='/a'"))
    monkeypatch.setattr(type(domain), "XMLDesc", lambda _self, _flags: "<domain")
    error = refusal(conn, {"name": "default-pool", "state": "absent"})
    assert "is kept: it cannot be determined whether a machine uses it: the description of " in str(error)


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        (
            [{"name": "default-pool", "path": "/srv/other"}],
            "pools[0].path: the storage pool default-pool exists with path /default-pool, and /srv/other is requested."
            " A pool is never moved",
        ),
        (
            [{"name": "default-pool", "type": "netfs", "path": "/default-pool"}],
            "pools[0].type: the storage pool default-pool exists, of type dir",
        ),
        (
            [{"name": "more", "path": "/default-pool"}],
            "pools[0].path: the storage pool default-pool is at /default-pool",
        ),
        ([{"name": "images", "path": "relative"}], "pools[0].path: 'relative' is not a normalized absolute path"),
        ([NEW, {"name": "images", "path": "/srv"}], "pools[1].name: has the same name as pools[0].name"),
        ([NEW, {"name": "other", "path": NEW["path"]}], "pools[1].path: has the same path as pools[0].path"),
        ([NFS, {**NFS, "name": "b", "path": "/mnt/b"}], "pools[1].export: has the same export as pools[0].export"),
        ([FS, {**FS, "name": "b", "path": "/mnt/b"}], "pools[1].device: has the same device as pools[0].device"),
        ([LVM, {**LVM, "name": "b"}], "pools[1].volume_group: has the same volume_group as pools[0].volume_group"),
        (
            [{**LVM, "name": "vg0"}, {**LVM, "name": "b"}],
            "pools[1].volume_group: has the same volume_group as pools[0]",
        ),
        ([ISCSI, {**ISCSI, "name": "b"}], "pools[1].target: has the same target as pools[0].target"),
        (
            [{"name": "tank", "type": "zfs"}, {"name": "b", "type": "zfs", "dataset": "tank"}],
            "pools[1].dataset: has the",
        ),
        (
            [{**LVM, "devices": ["/dev/sdb"]}, {"name": "b", "type": "zfs", "devices": ["/dev/sda", "/dev/sdb"]}],
            "pools[1].devices: has the same devices as pools[0].devices",
        ),
        ([FS, {**LVM, "devices": ["/dev/sdb1"]}], "pools[1].devices: has the same devices as pools[0].device"),
        (
            [{"name": "more", "path": "/default-pool"}, {"name": "default-pool", "state": "absent"}],
            "pools[0].path: the storage pool default-pool is at /default-pool already. Use that one, remove it before",
        ),
        ([{"name": "a"}, {"name": "b"}], "pools[0].path: a pool of type dir needs path\npools[1].path: a pool of"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(conn: t.Any, pools: list[dict[str, t.Any]], words: str) -> None:
    assert str(refusal(conn, *pools)).startswith(words)


@pytest.mark.parametrize("made", [NFS, FS, LVM, ISCSI], ids=lambda pool: pool["name"])
def test_two_ways_to_one_storage_are_refused_before_anything_is_changed(conn: t.Any, made: dict[str, t.Any]) -> None:
    actions(conn, {**made, "state": "inactive", "autostart": False})
    second = {**made, "name": "second", **({"path": "/mnt/second"} if "path" in made else {})}
    words = str(refusal(conn, {**NEW, "autostart": False}, second))
    assert words.startswith("pools[1].")
    assert f"the storage pool {made['name']} is at " in words
    # Another server's export of that name is another one; another portal's target is the same, to libvirt too.
    other = {**second, "host": "other", "state": "inactive", "autostart": False}
    if made is NFS:
        assert actions(conn, other) == ["define storage pool second"]
    elif made is ISCSI:
        assert str(refusal(conn, other)).startswith(f"pools[0].target: the storage pool san is at {ISCSI['target']} al")
        assert actions(conn, {**other, "initiator": "iqn.2026-01.org.example:hv1"}) == ["define storage pool second"]


@pytest.mark.parametrize("made", [{**NEW, "type": "dir"}, NFS, FS, LVM, ISCSI], ids=lambda pool: pool["name"])
def test_one_may_take_the_place_of_another_that_goes_first(conn: t.Any, made: dict[str, t.Any]) -> None:
    actions(conn, {**made, "state": "inactive", "autostart": False})
    new = {**made, "name": "second", "state": "inactive", "autostart": False}
    assert actions(conn, {"name": made["name"], "state": "absent"}, new) == [
        f"undefine storage pool {made['name']}; its data stays",
        "define storage pool second",
    ]
    assert {pool.name() for pool in conn.listAllStoragePools(0)} == {"default-pool", "second"}


def test_where_the_old_one_could_not_go_the_new_one_is_not_made(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = {"name": "default-pool", "state": "absent"}, {"name": "new", "path": "/default-pool"}
    results = planned(conn, old, new)
    domain = MACHINE.format(name="late", kind="volume", source="pool='default-pool' volume='a'")
    conn.defineXML(domain)
    carry_out(results, check_mode=False)
    assert all(result.error for result in results)
    assert [pool.name() for pool in conn.listAllStoragePools(0)] == ["default-pool"]


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test driver speaks of this machine's files."""
    monkeypatch.setattr(plan, "is_local", lambda _uri: True)


def test_a_pool_is_not_made_where_the_host_itself_is(conn: t.Any, at_home: None, tmp_path: Path) -> None:
    words = "pools[0].path: /etc belongs to the host's own system"
    assert str(refusal(conn, {"name": "more", "path": "/etc"})).startswith(words)
    assert str(refusal(conn, {**NFS, "path": "/etc"})).startswith(words)
    # One that somebody has made there stays, and its directory as it is.
    conn.storagePoolDefineXML("<pool type='dir'><name>more</name><target><path>/etc</path></target></pool>", 0)
    left = {"name": "more", "state": "inactive"}
    assert planned(conn, left)[0].error is None
    for key, value in (("mode", "0777"), ("owner", 0), ("group", 0)):
        words = f"pools[0].{key}: /etc belongs to the host's own system"
        assert str(refusal(conn, {**left, key: value})).startswith(words)


def test_two_paths_of_one_directory_are_one(conn: t.Any, at_home: None, tmp_path: Path) -> None:
    (tmp_path / "vms").mkdir()
    (tmp_path / "link").symlink_to("vms")
    (tmp_path / "new").symlink_to("missing")
    both = [{"name": name, "path": str(tmp_path / place)} for name, place in (("a", "vms"), ("b", "link"))]
    assert str(refusal(conn, *both)) == "pools[1].path: has the same path as pools[0].path"
    actions(conn, {**both[0], "state": "inactive", "autostart": False})
    assert str(refusal(conn, both[1])).startswith("pools[0].path: the storage pool a is at ")
    both = [{"name": name, "path": str(tmp_path / place)} for name, place in (("c", "missing"), ("d", "new"))]
    assert str(refusal(conn, *both)) == "pools[1].path: has the same path as pools[0].path"


@pytest.mark.parametrize("running", [True, False])
def test_the_disk_of_a_machine_is_not_mounted(
    conn: t.Any, at_home: None, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    monkeypatch.setattr(plan, "devices_of_group", lambda _group: ["/dev/nope1"])
    fs, lvm = {**FS, "device": "/dev/nope1"}, {**LVM, "autostart": False}
    late = planned(conn, {**fs, "path": "/mnt/nothing-here"})
    domain = conn.defineXML(MACHINE.format(name="db1", kind="block", source="dev='/dev/nope1'"))
    if running:
        domain.create()
    words = "/dev/nope1 is used by machine db1. Two systems that use one file system destroy it"
    assert str(refusal(conn, {**fs, "path": "/mnt/nothing-here"})).startswith(f"pools[0].device: {words}")
    assert str(refusal(conn, lvm)).startswith(f"pools[0].volume_group: {words}")
    carry_out(late, check_mode=False)
    assert words in str(late[0].error)
    # Defined alone, it touches nothing.
    assert planned(conn, {**fs, "state": "inactive"})[0].error is None


def test_nothing_is_made_on_devices_that_cannot_be_looked_at(conn: t.Any) -> None:
    pool = {"name": "lvm", "type": "logical", "devices": ["/dev/sdb"], "build": True}
    error = refusal(conn, pool)
    assert isinstance(error, UnsupportedError)
    assert str(error).startswith("pools[0].build: what is on the devices of another host cannot be seen from here")


def test_a_secret_that_libvirt_cannot_have_is_refused(conn: t.Any) -> None:
    pool = {"name": "c", "type": "rbd", "hosts": ["m"], "ceph_pool": "vms", "user": "u", "secret": "client.u"}
    assert str(refusal(conn, pool)).startswith("pools[0].secret: cannot look up the secret")


def test_what_is_no_secret_of_libvirts_is_not_repeated_as_it_may_be_the_password() -> None:
    # libvirt's test driver has none; one that has none of this name.
    def look_up(_usage: int, _name: str) -> t.NoReturn:
        raise no_secret()

    empty = types.SimpleNamespace(listAllSecrets=lambda _flags: [], secretLookupByUsage=look_up)
    pool = PoolSpec(name="san", type="iscsi", options={"secret": "hunter22"})
    assert str(missing_secret(t.cast("t.Any", empty), pool)) == (
        "secret: libvirt has no secret for iscsi of that name or UUID. "
        "Create it first: brine.virt.virt_secret with usage: iscsi"
    )


def no_secret() -> libvirt.libvirtError:
    error = libvirt.libvirtError("no secret")
    error.err = (libvirt.VIR_ERR_NO_SECRET, 0, "no secret", 0, "", None, None, 0, 0)
    return error


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this were the hypervisor. The test driver makes no directory."""
    monkeypatch.setattr(steps, "is_local", lambda _uri: True)
    monkeypatch.setattr(plan, "is_local", lambda _uri: True)


def test_a_directory_gets_its_mode_at_the_start_and_later(conn: t.Any, here: None, tmp_path: Path) -> None:
    path = tmp_path / "pool"
    path.mkdir(mode=0o755)
    pool = {"name": "a", "path": str(path), "mode": "0750"}
    assert "start storage pool a" in actions(conn, pool)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert actions(conn, pool) == []
    path.chmod(0o700)
    (result,) = planned(conn, pool)
    assert [step.description for step in result.plan.steps] == [f"give {path} mode 0750"]
    (step,) = result.plan.steps
    step.apply()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert step.undo is not None
    step.undo()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    # Whoever names none of it leaves it alone.
    assert actions(conn, {"name": "a"}) == []


def test_a_directory_that_becomes_a_link_before_a_step_gets_no_mode(conn: t.Any, here: None, tmp_path: Path) -> None:
    path, other = tmp_path / "pool", tmp_path / "other"
    for each in (path, other):
        each.mkdir()
        each.chmod(0o755)
    pool = {"name": "a", "path": str(path), "mode": "0750"}
    # At its start, and later.
    for mode in ("0750", "0700"):
        results = planned(conn, {**pool, "mode": mode})
        path.rename(tmp_path / "aside")
        path.symlink_to(other)
        carry_out(results, check_mode=False)
        assert "is no directory any more" in str(results[0].error)
        assert stat.S_IMODE(other.stat().st_mode) == 0o755
        path.unlink()
        (tmp_path / "aside").rename(path)
        actions(conn, pool)
        assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.parametrize("there", [True, False])
def test_a_directory_that_is_there_keeps_the_mode_that_it_has(
    conn: t.Any, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """libvirt would give the directory of a pool of type netfs its own default, mounted as it may be."""
    path = tmp_path / "pool"
    if there:
        path.mkdir(mode=0o770)
    built: list[str] = []
    real = type(conn.storagePoolLookupByName("default-pool")).build

    def build(pool: t.Any, flags: int) -> t.Any:
        built.append(pool.name())
        return real(pool, flags)

    monkeypatch.setattr(libvirt.virStoragePool, "build", build)
    monkeypatch.setattr(steps, "set_permissions", lambda _path, _wanted: None)
    assert any("start storage pool nfs" in each for each in actions(conn, {**NFS, "path": str(path)}))
    assert built == ([] if there else ["nfs"])


@pytest.mark.parametrize("used", [False, True])
def test_a_directory_that_was_made_goes_with_the_pool_unless_something_is_in_it(
    conn: t.Any, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    path = tmp_path / "pool"

    def make_and_fail(_pool: t.Any, name: str) -> None:
        path.mkdir()
        if used:
            (path / "web1.qcow2").touch()
        raise ConflictError(f"{name} cannot be read")

    monkeypatch.setattr(steps, "refresh_pool", make_and_fail)
    results = planned(conn, {"name": "a", "path": str(path)})
    assert results[0].plan.steps[1].description == f"create {path} and start storage pool a"
    carry_out(results, check_mode=False)
    assert results[0].error is not None
    assert path.exists() is used


def test_a_directory_that_was_there_stays_as_it_was(
    conn: t.Any, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_pool: t.Any, name: str) -> None:
        raise ConflictError(f"{name} cannot be read")

    path = tmp_path / "pool"
    path.mkdir(mode=0o755)
    monkeypatch.setattr(steps, "refresh_pool", fail)
    (result,) = done(conn, {"name": "a", "path": str(path), "mode": "0700"})
    assert result.error is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_no_pool_is_made_below_a_mount_point_without_its_file_system(
    conn: t.Any, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = {"name": "late", "type": "dir", "path": str(tmp_path / "pool")}
    monkeypatch.setattr(pools, "missing_mount", lambda _path: "/srv")
    words = "nothing is mounted at /srv, where /etc/fstab or systemd has the file system of storage pool 'late'"
    assert (
        str(refusal(conn, pool)) == f"pools[0].path: {words}. Mount it: mount /srv, or systemctl start its mount unit"
    )
    assert not (tmp_path / "pool").exists()
    monkeypatch.setattr(pools, "missing_mount", lambda _path: None)
    actions(conn, pool)
    # One that is there already is kept, and it is said.
    monkeypatch.setattr(pools, "missing_mount", lambda _path: "/srv")
    (result,) = done(conn, pool)
    assert result.as_result()["actions"] == []
    assert result.plan.pending == (f"{words}: nothing is created in it until it is",)


def test_a_pool_that_was_unmounted_behind_libvirts_back_is_named(conn: t.Any, here: None, tmp_path: Path) -> None:
    """As the test driver, which mounts nothing, has it from the beginning."""
    pool = {**NFS, "path": str(tmp_path / "nfs")}
    actions(conn, pool)
    (result,) = done(conn, pool)
    assert result.as_result()["actions"] == []
    words = f"nothing is mounted at {tmp_path}/nfs any more, where libvirt has mounted storage pool 'nfs'"
    assert result.plan.pending == (f"{words}: nothing is created in it until it is",)


def test_nothing_is_mounted_over_files(conn: t.Any, here: None, tmp_path: Path) -> None:
    (tmp_path / "web1.qcow2").touch()
    pool = {**NFS, "path": str(tmp_path)}
    assert str(refusal(conn, pool)).startswith(f"pools[0].path: {tmp_path} is not empty, and what is mounted there")
    assert actions(conn, {**pool, "state": "inactive"}) != []


@pytest.mark.parametrize("empty", [True, False])
def test_what_one_that_goes_has_mounted_is_looked_under_when_it_has_gone(
    conn: t.Any, here: None, tmp_path: Path, empty: bool
) -> None:
    path = tmp_path / "mounted"
    path.mkdir()
    mounted = {**NFS, "path": str(path), "autostart": False}
    actions(conn, mounted)
    if not empty:
        (path / "web1.qcow2").touch()
    gone, new = {"name": "nfs", "state": "absent"}, {**mounted, "name": "new", "export": "/other"}
    results = done(conn, gone, new)
    assert results[0].error is None
    assert (results[1].error is None) is empty
    assert {pool.name() for pool in conn.listAllStoragePools(0)} == {"default-pool", *(["new"] if empty else [])}


def test_files_of_a_directory_that_goes_are_not_hidden(conn: t.Any, here: None, tmp_path: Path) -> None:
    actions(conn, {"name": "old", "path": str(tmp_path)})
    (tmp_path / "web1.qcow2").touch()
    words = str(refusal(conn, {"name": "old", "state": "absent"}, {**NFS, "path": str(tmp_path)}))
    assert words.startswith(f"pools[1].path: {tmp_path} is not empty")
