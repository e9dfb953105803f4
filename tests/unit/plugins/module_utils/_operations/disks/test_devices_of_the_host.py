# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that the hypervisor itself uses, such as its own root in a volume group that is a pool as well."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._operations.disks import sharing
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one

POOL = (
    "<pool type='logical'><name>vg</name><source><name>vg</name></source><target><path>/dev/vg</path></target></pool>"
)
VOLUME = "<volume><name>{}</name><capacity>1048576</capacity></volume>"
IN_USE = "/dev/vg/root is in use on this host (mounted, swap, RAID, LVM, multipath). Two systems that use one"
FRAGMENT = "<devices><disk type='block'><source dev='/dev/vg/{}'/><target dev='vdc'/></disk></devices>"


@pytest.fixture
def devices(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """With a volume group of which the host has mounted ``root``."""
    pool = host.conn.storagePoolCreateXML(POOL, 0)
    for name in ("root", "data"):
        pool.createXML(VOLUME.format(name), 0)
    monkeypatch.setattr(Pools, "local", property(lambda _pools: True))
    monkeypatch.setattr(sharing, "is_busy", lambda path: path == "/dev/vg/root")
    return host


def of_group(volume: str, **more: t.Any) -> dict[str, t.Any]:
    return {"pool": "vg", "source": volume, **more}


def test_no_machine_gets_what_the_host_has_mounted(devices: Host) -> None:
    for disk in (of_group("root"), of_group("root", shareable=True), of_group("/dev/vg/root")):
        assert devices.refused(one("a", disk)).startswith(f"machines[0].disks[0].source: {IN_USE}")
    devices.plan(one("a", of_group("data")))
    # It may look.
    devices.plan(one("a", of_group("root", readonly=True)))


def test_nor_by_its_own_xml(devices: Host) -> None:
    assert devices.refused(one("a", xml=FRAGMENT.format("root"))).startswith(f"machines[0].xml: {IN_USE}")
    devices.plan(one("a", xml=FRAGMENT.format("data")))


def test_nor_may_it_write_to_what_it_only_read(devices: Host) -> None:
    devices.make(one("a", of_group("root", readonly=True)))
    words = devices.refused(one("a", of_group("root", readonly=False)))
    assert words.startswith(f"machines[0].disks[0].readonly: {IN_USE}")


def test_a_machine_keeps_what_it_has(devices: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on its disk may have been found by the host's LVM: that is for the operator to see, and no change."""
    devices.make(one("a", of_group("data")))
    monkeypatch.setattr(sharing, "is_busy", lambda _path: True)
    assert not devices.plan(one("a", of_group("data")))[0].steps


def test_a_volume_of_ceph_that_the_host_has_mapped_and_mounted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pools, "local", property(lambda _pools: True))
    monkeypatch.setattr(sharing, "is_busy", lambda path: path == "/dev/rbd/vms/db")
    disk = (
        "<disk type='network'><source protocol='rbd' name='vms/{}'><host name='c'/></source><target dev='vdc'/></disk>"
    )
    text = f"<devices>{disk}</devices>"
    words = host.refused(one("a", xml=text.format("db")))
    assert words.startswith("machines[0].xml: /dev/rbd/vms/db is in use on this host")
    host.plan(one("a", xml=text.format("other")))
