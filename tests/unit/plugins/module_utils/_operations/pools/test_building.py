# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made for a pool and what is refused: programs that answer as LVM and ZFS do, and libvirt's test driver."""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import (
    PoolSpec,
    complete,
    new_definition,
    read_pool,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.pools import building, steps

LVM = {"name": "fast", "type": "logical", "volume_group": "vg0", "devices": ["/dev/null"]}


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        yield connection


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str, str], None]:
    """Puts programs in place that write something. It is as if they ran on the hypervisor."""
    monkeypatch.setattr(building, "is_local", lambda _uri: True)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(name: str, output: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    return put


def spec_of(**options: t.Any) -> PoolSpec:
    return complete(read_pool(GivenOptions.of(options, "")), None, {})


def needed(conn: t.Any, **options: t.Any) -> bool | str:
    spec = spec_of(**options)
    try:
        return building.needs_building(conn, spec, new_definition(spec))
    except VirtError as exc:
        return str(exc)


def test_a_volume_group_that_is_there_is_used(conn: t.Any, programs: t.Callable[[str, str], None]) -> None:
    programs("pvs", "  vg0\t/dev/null\n  vg1\t/dev/zero")
    assert needed(conn, **LVM, build=True) is False
    assert needed(conn, **LVM) is False
    assert needed(conn, **{**LVM, "devices": ["/dev/null", "/dev/zero"]}) == (
        "devices: the volume group vg0 exists without /dev/zero. Extend it: vgextend vg0 /dev/zero"
    )


def test_a_volume_group_that_is_missing_is_made_of_blank_devices_alone(
    conn: t.Any, programs: t.Callable[[str, str], None]
) -> None:
    programs("pvs", "  vg1\t/dev/zero")
    assert needed(conn, **LVM) == "volume_group: this host has no volume group vg0. Create it, or set build: true"
    # It is looked at.
    assert needed(conn, **LVM, build=True) == "devices: /dev/null is not a block device"
    assert str(needed(conn, **{**LVM, "devices": []}, build=True)).startswith(
        "devices: the volume group vg0 does not exist, and no device is named to make it from"
    )
    assert needed(conn, **{**LVM, "devices": ["/dev/null", "/dev/null"]}, build=True) == (
        "devices: a device is named twice"
    )


def test_a_group_is_left_to_libvirt_where_nothing_is_to_be_made(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "is_local", lambda _uri: True)
    monkeypatch.setenv("PATH", "/nowhere")
    assert needed(conn, name="fast", type="logical") is False


def test_a_dataset_that_is_missing(conn: t.Any, programs: t.Callable[[str, str], None]) -> None:
    programs("zfs", "tank\ntank/vms")
    zfs = {"name": "z", "type": "zfs"}
    assert needed(conn, **zfs, dataset="tank/vms") is False
    # libvirt would start the pool.
    assert needed(conn, **zfs, dataset="tank/more") == (
        "dataset: this host has no ZFS dataset tank/more. Create it, or set build: true"
    )
    assert needed(conn, **zfs, dataset="tank/more", build=True) is True
    assert needed(conn, **zfs, dataset="more/vms", build=True) == "dataset: this host has no ZFS dataset more"
    assert needed(conn, **zfs, dataset="more", devices=["/dev/null"], build=True) == (
        "devices: /dev/null is not a block device"
    )
    assert str(needed(conn, **zfs, dataset="more", build=True)).startswith("devices: the ZFS pool more does not exist")


def test_a_file_system_that_is_there_is_used(conn: t.Any, programs: t.Callable[[str, str], None]) -> None:
    pool = {"name": "f", "type": "fs", "device": "/dev/null", "path": "/srv/f", "format": "xfs"}
    programs("wipefs", "xfs")
    assert needed(conn, **pool, build=True) is False
    programs("wipefs", "ext4")
    assert needed(conn, **pool, build=True) == "device: /dev/null is not a block device"
    assert needed(conn, **pool) is False


def test_other_hosts_are_not_built_on(conn: t.Any) -> None:
    spec = spec_of(**LVM, build=True)
    with pytest.raises(UnsupportedError, match="build: what is on the devices of another host"):
        building.needs_building(conn, spec, new_definition(spec))
    assert needed(conn, **LVM) is False


def test_the_devices_leave_the_definition_again(conn: t.Any) -> None:
    spec = spec_of(name="tank", type="zfs", devices=["/dev/sdb", "/dev/sdc"], build=True)
    root = new_definition(spec)
    handle = conn.storagePoolDefineXML(etree.tostring(root, encoding="unicode"), 0)
    seen: list[list[t.Any]] = []
    build = type(handle).build

    def note(pool: t.Any, flags: int) -> t.Any:
        seen.append([device.get("path") for device in parse_xml(pool.XMLDesc(0)).iterfind("source/device")])
        return build(pool, flags)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(handle), "build", note)
        building.build(conn, spec, root, handle)
    assert seen == [["/dev/sdb", "/dev/sdc"]]
    assert parse_xml(handle.XMLDesc(0)).find("source/device") is None
    assert building.building_words(spec, root) == "create ZFS pool tank on /dev/sdb, /dev/sdc"


@pytest.mark.parametrize(
    "options",
    [
        {"type": "fs", "device": "/dev/sdb", "path": "/srv/f", "format": "xfs"},
        {"type": "logical", "devices": ["/dev/sdb"]},
    ],
)
def test_libvirt_is_told_to_overwrite_nothing(conn: t.Any, options: dict[str, t.Any]) -> None:
    spec = spec_of(name="p", build=True, **options)
    root = new_definition(spec)
    handle = conn.storagePoolDefineXML(etree.tostring(root, encoding="unicode"), 0)
    before = handle.XMLDesc(0)
    # The test driver takes no flags, and says which ones it was given: 4 is VIR_STORAGE_POOL_BUILD_NO_OVERWRITE.
    with pytest.raises(VirtError, match=r"cannot (make|create) .*unsupported flags \(0x4\)"):
        building.build(conn, spec, root, handle)
    assert handle.XMLDesc(0) == before


def test_a_device_of_a_machine_is_not_taken(
    conn: t.Any, programs: t.Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("pvs", "")
    # No test has a block device to give away.
    monkeypatch.setattr(building, "require_blank", lambda _path, _where: None)
    assert needed(conn, **LVM, build=True) is True
    conn.defineXML(
        "<domain type='test'><name>db1</name><memory unit='MiB'>64</memory><os><type>hvm</type></os><devices>"
        "<disk type='block'><source dev='/dev/null'/><target dev='vda'/></disk></devices></domain>"
    )
    assert needed(conn, **LVM, build=True) == "devices: /dev/null is used by machine db1. Nothing is made on it"


def test_it_is_looked_at_again_before_something_is_made(
    conn: t.Any, programs: t.Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "hypervisor_lock", lambda _purpose, **_settings: contextlib.nullcontext())
    made: list[str] = []
    monkeypatch.setattr(steps, "build", lambda _conn, spec, _root, _handle: made.append(spec.name))
    programs("zfs", "tank")
    spec = spec_of(name="z", type="zfs", dataset="tank/vms", build=True)
    root = new_definition(spec)
    conn.storagePoolDefineXML(etree.tostring(root, encoding="unicode"), 0)
    step = steps.PoolSteps(conn, spec, root, 0).build()
    step.apply()
    programs("zfs", "tank\ntank/vms")
    step.apply()
    programs("zfs", "other")
    with pytest.raises(VirtError, match="dataset: this host has no ZFS dataset tank"):
        step.apply()
    assert made == ["z"]
