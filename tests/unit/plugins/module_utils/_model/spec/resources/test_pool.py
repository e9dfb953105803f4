# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a pool: what belongs to which type, and its XML, which libvirt's own parser takes and gives back."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import (
    PoolSpec,
    changed_definition,
    changes,
    complete,
    conflicts,
    new_definition,
    options_of,
    read_pool,
    with_devices,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool_fields import POOL_TABLES

EVERYTHING: dict[str, dict[str, t.Any]] = {
    "dir": {"path": "/srv/a", "owner": 107, "group": 64055, "mode": "0750"},
    "fs": {
        **{"path": "/srv/b", "device": "/dev/disk/by-id/b", "format": "xfs", "mount_options": ("noatime", "discard")},
        **{"owner": 0, "group": 0, "mode": "0711"},
    },
    "netfs": {
        **{"path": "/srv/c", "host": "nas.example.org", "export": "/exports/vms", "format": "nfs"},
        **{"protocol_version": "4.2", "mount_options": ("hard",), "owner": 107, "group": 107, "mode": "0770"},
    },
    "logical": {"volume_group": "vg-0"},
    "iscsi": {
        **{"path": "/dev/disk/by-path", "host": "192.0.2.7", "port": 3261, "target": "iqn.2026-01.org.example:vms"},
        **{"initiator": "iqn.2026-01.org.example:hv1", "user": "hv1", "secret": "san"},
    },
    "rbd": {
        "hosts": ({"name": "mon1"}, {"name": "2001:db8::1", "port": 6789}),
        **{"ceph_pool": "vms", "user": "libvirt", "secret": "6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11"},
    },
    "zfs": {"dataset": "tank/vms"},
}
# What libvirt's parser drops unless its storage driver runs.
ONLY_ITS_DRIVER = {"mount_options"}


def spec_of(existing: str | None = None, have: t.Mapping[str, t.Any] | None = None, **options: t.Any) -> PoolSpec:
    return complete(read_pool(GivenOptions.of({"name": "p", **options}, "pools[1]")), existing, have or {})


@pytest.mark.parametrize("kind", EVERYTHING)
def test_everything_of_a_type_is_written_and_read(kind: str) -> None:
    spec = spec_of(type=kind, **EVERYTHING[kind])
    assert set(EVERYTHING[kind]) == {field.key for field in POOL_TABLES[kind]}
    root = new_definition(spec)
    assert options_of(root) == EVERYTHING[kind]
    assert changes(spec, options_of(root)) == []
    assert etree.tostring(changed_definition(root, spec)) == etree.tostring(root)


@pytest.mark.parametrize("kind", EVERYTHING)
def test_libvirt_takes_it_and_gives_it_back(kind: str) -> None:
    spec = spec_of(type=kind, **EVERYTHING[kind])
    with open_connection("test:///default") as conn:
        handle = conn.storagePoolDefineXML(etree.tostring(new_definition(spec), encoding="unicode"), 0)
        try:
            back = options_of(parse_xml(handle.XMLDesc(0)))
        finally:
            handle.undefine()
    assert set(changes(spec, back)) <= ONLY_ITS_DRIVER
    assert conflicts(spec, back) == []


def test_the_mount_options_stand_in_the_namespace_of_libvirt() -> None:
    text = etree.tostring(new_definition(spec_of(type="netfs", **EVERYTHING["netfs"])), encoding="unicode")
    assert '<fs:mount_opts xmlns:fs="http://libvirt.org/schemas/storagepool/fs/1.0"><fs:option name="hard"/>' in text


def test_a_secret_is_named_by_its_usage_or_its_uuid() -> None:
    root = new_definition(spec_of(type="rbd", **EVERYTHING["rbd"]))
    assert etree.tostring(need(root, "source/auth")) == (
        b'<auth username="libvirt" type="ceph"><secret uuid="6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11"/></auth>'
    )
    changed = changed_definition(root, spec_of("rbd", options_of(root), secret="client.libvirt"))
    assert need(changed, "source/auth/secret").items() == [("usage", "client.libvirt")]
    assert need(root, "source/auth/secret").get("usage") is None


def test_what_no_option_names_stays() -> None:
    root = parse_xml(
        "<pool type='rbd' xmlns:rbd='http://libvirt.org/schemas/storagepool/rbd/1.0'><name>p</name><source>"
        "<host name='mon1'/><name>vms</name></source><refresh><volume allocation='capacity'/></refresh>"
        "<rbd:config_opts><rbd:option name='client_mount_timeout' value='45'/></rbd:config_opts></pool>"
    )
    text = etree.tostring(
        changed_definition(root, spec_of("rbd", options_of(root), hosts=["mon2"])), encoding="unicode"
    )
    assert "<refresh>" in text and "client_mount_timeout" in text
    assert '<host name="mon2"/>' in text and "mon1" not in text


def test_devices_are_in_the_definition_only_for_the_building() -> None:
    spec = spec_of(type="logical", devices=["/dev/sdb", "/dev/sdc"], build=True)
    root = new_definition(spec)
    assert spec.options == {"volume_group": "p"}
    assert root.find("source/device") is None
    assert [device.get("path") for device in with_devices(root, spec.devices).iterfind("source/device")] == [
        "/dev/sdb",
        "/dev/sdc",
    ]


def test_usual_values() -> None:
    spec = spec_of(path="/srv/p")
    assert (spec.type, spec.state, spec.autostart, spec.build) == ("dir", "active", True, False)
    assert spec_of(type="zfs").options == {"dataset": "p"}
    iscsi: dict[str, t.Any] = {"host": "a", "target": "iqn.2026-01.org.example:vms"}
    assert spec_of(type="iscsi", **iscsi).options["path"] == "/dev/disk/by-path"
    assert spec_of("netfs").options == {}


def test_another_storage_is_a_conflict_and_another_way_to_it_is_a_change() -> None:
    have = options_of(new_definition(spec_of(type="rbd", **EVERYTHING["rbd"])))
    moved = spec_of("rbd", have, ceph_pool="other", hosts=["mon9"], user="more")
    assert conflicts(moved, have) == ["ceph_pool"]
    assert sorted(changes(moved, have)) == ["ceph_pool", "hosts", "user"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nane": "a"}, "pools[1]: unknown option 'nane'. Did you mean name?"),
        (
            {"type": "disk"},
            "pools[1].type: 'disk' is not a choice. Choose one of dir, fs, netfs, logical, iscsi, rbd, zfs",
        ),
        ({"name": "a/b"}, "pools[1].name: 'a/b' is a directory, not the name of a storage pool"),
        ({}, "pools[1].path: a pool of type dir needs path"),
        ({"path": "srv"}, "pools[1].path: 'srv' is not a normalized absolute path. Write it like /srv/vms"),
        ({"path": "/srv/"}, "pools[1].path: '/srv/' is not a normalized absolute path"),
        (
            {"path": "/srv", "ceph_pool": "a"},
            "pools[1].ceph_pool: ceph_pool is for pools of type rbd, and this one is of type dir. Set type: rbd",
        ),
        (
            {"path": "/srv", "type": "dir", "build": True},
            "pools[1].build: build is for pools of type fs, logical, zfs, and this one is of type dir. Leave it out",
        ),
        (
            {"type": "fs", "path": "/a", "device": "/dev/sdb", "devices": ["/dev/sdc"]},
            "pools[1].devices: devices is for pools of type logical, zfs, and this one is of type fs. Leave it out",
        ),
        (
            {"type": "rbd"},
            "pools[1].hosts: a pool of type rbd needs hosts\npools[1].ceph_pool: a pool of type rbd needs",
        ),
        (
            {"type": "rbd", "hosts": ["a"], "ceph_pool": "b", "user": "c"},
            "pools[1].secret: secret is missing beside user. Give both, or neither",
        ),
        (
            {"type": "rbd", "hosts": ["a"], "ceph_pool": "b", "user": "", "secret": " "},
            "pools[1].user: it is empty. Leave it out\npools[1].secret: it is empty. Leave it out",
        ),
        ({"type": "fs", "path": "/a", "device": "/srv/x"}, "pools[1].device: '/srv/x' is not a device"),
        (
            {"type": "fs", "path": "/a", "device": "/dev/sdb", "build": True},
            "pools[1].format: a file system to make needs its format. Set format: ext4",
        ),
        (
            {"type": "netfs", "path": "/a", "host": "b", "export": "/c", "format": "cifs", "protocol_version": "4"},
            "pools[1].protocol_version: only NFS has a version, and the format is cifs",
        ),
        ({"type": "netfs", "path": "/a", "host": "b", "export": "/c", "format": "ext4"}, "pools[1].format: 'ext4'"),
        ({"type": "netfs", "path": "/a", "host": "b", "export": "/c/"}, "pools[1].export: '/c/' is not what a server"),
        (
            {"type": "zfs", "dataset": "tank/a", "devices": ["/dev/sdb"], "build": True},
            "pools[1].devices: a dataset inside a ZFS pool takes no devices",
        ),
        ({"path": "/a", "mode": 488}, 'pools[1].mode: 488 is not a mode. Write it in quotes, like "0750"'),
        ({"path": "/a", "mode": "0888"}, "pools[1].mode: '0888' is not a mode"),
        ({"path": "/a", "owner": "a b"}, "pools[1].owner: 'a b' is not a user's or group's name or number"),
        ({"type": "iscsi", "host": "a", "target": "vms"}, "pools[1].target: 'vms' is not an iSCSI name"),
        (
            {"type": "iscsi", "host": "192.0.2.7:3260", "target": "iqn.2026-01.org.example:vms"},
            "pools[1].host: '192.0.2.7:3260' is a host with a port. Give the port as port",
        ),
        (
            {"type": "netfs", "path": "/a", "host": "[2001:db8::1]:2049", "export": "/c"},
            "pools[1].host: '[2001:db8::1]:2049' is a host with a port. Give the port as one of mount_options: port=",
        ),
        (
            {"type": "netfs", "path": "/a", "host": "2001:db8::1", "export": "/c"},
            "pools[1].host: '2001:db8::1' is an address of IPv6 without brackets. Write it as [2001:db8::1]",
        ),
        (
            {"type": "rbd", "hosts": ["mon1", "mon2:6789"], "ceph_pool": "b"},
            "pools[1].hosts[1].name: 'mon2:6789' is a host with a port. Write it as a mapping, {name: ..., port: ...}",
        ),
        (
            {"type": "rbd", "hosts": ["[2001:db8::1]"], "ceph_pool": "b"},
            "pools[1].hosts[0].name: '[2001:db8::1]' is an address in brackets. Write it without them",
        ),
        (
            {"type": "rbd", "hosts": ["mon1"], "ceph_pool": "b", "user": "client.libvirt", "secret": "client.libvirt"},
            "pools[1].user: 'client.libvirt' is a user with its type. Write it without client.",
        ),
    ],
)
def test_one_sentence_says_what_is_wrong_and_where(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(VirtError) as caught:
        spec_of(**options)
    assert str(caught.value).startswith(words)


def test_an_address_of_ipv6_is_taken_as_each_way_of_mounting_takes_it() -> None:
    for host, kind in (("[2001:db8::1]", "nfs"), ("2001:db8::1", "cifs")):
        assert spec_of(type="netfs", path="/a", export="/c", host=host, format=kind).options["host"] == host


def test_everything_that_is_wrong_is_said() -> None:
    with pytest.raises(VirtError) as caught:
        spec_of(type="netfs", path="srv", mode="9", host="nas", export="/a", port=1)
    assert len(str(caught.value).splitlines()) == 3
