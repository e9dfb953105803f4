# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the place of a disk to its volume, on libvirt's own test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView

POOLS = {
    "files": "<pool type='dir'><name>files</name><target><path>/srv/files</path></target></pool>",
    "lun": "<pool type='scsi'><name>lun</name><source><adapter type='scsi_host' name='scsi_host1'/></source>"
    "<target><path>/dev/disk/by-path</path></target></pool>",
    "ceph": "<pool type='rbd'><name>ceph</name><source><host name='mon1'/><name>rbd</name></source></pool>",
}
VOLUME = "<volume><name>web1</name><capacity>1048576</capacity></volume>"


@pytest.fixture
def side(tmp_path: Path) -> t.Iterator[HypervisorView]:
    """A hypervisor with one volume of the same name in each pool."""
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for xml in POOLS.values():
            conn.storagePoolCreateXML(xml, 0).createXML(VOLUME, 0)
        yield HypervisorView(conn)


@pytest.mark.parametrize("pool", POOLS)
def test_a_volume_is_found_by_its_place(side: HypervisorView, pool: str) -> None:
    found = side.locate(side.pools.get(pool).source_of("web1"))
    assert found is not None
    assert (found[0].name, found[1]) == (pool, "web1")


def test_a_place_without_a_volume_is_nobodys(side: HypervisorView) -> None:
    assert side.locate(DiskSource("file", "/srv/files/web2")) is None
    assert side.locate(DiskSource("file", "/elsewhere/web1")) is None
    assert side.locate(DiskSource("network", protocol="rbd", name="rbd/web2")) is None
    assert side.locate(DiskSource("network", protocol="rbd", name="other/web1")) is None


def test_a_name_is_reserved_in_a_cluster_by_whatever_pool_it_is_reached(side: HypervisorView) -> None:
    side.conn.storagePoolCreateXML(POOLS["ceph"].replace("<name>ceph", "<name>same"), 0)
    notes = "<brine:machine status='ready'><brine:volume pool='same' name='c-d' role='disk'/></brine:machine>"
    side.conn.defineXML(
        f"<domain type='test' xmlns:brine='urn:brine:virt:1'><name>c</name><metadata>{notes}</metadata>"
        "<memory>1</memory><os><type>hvm</type></os></domain>"
    )
    view = HypervisorView(side.conn)
    ceph, same = view.pools.get("ceph"), view.pools.get("same")
    assert view.reserve_volume(ceph, "a-b-c", "a") is None
    assert view.reserve_volume(ceph, "a-b-c", "a") is None
    assert view.reserve_volume(same, "a-b-c", "a-b") == "a"
    assert view.reserve_volume(ceph, "c-d", "c-d") == "c"
    assert view.reserve_volume(view.pools.get("files"), "a-b-c", "a-b") is None


@pytest.mark.parametrize("when", ["listed", "looked into", "gone"])
def test_a_pool_that_goes_meanwhile_hides_no_other(side: HypervisorView, when: str) -> None:
    first, *others = POOLS
    places = {pool: HypervisorView(side.conn).pools.get(pool).source_of("web1") for pool in POOLS}
    handle = side.conn.storagePoolLookupByName(first)
    if when == "listed":
        side.pools.get(others[0])
    else:
        assert side.locate(places[others[0]]) is not None
    if when != "gone":
        # Defined, it is there and asleep after its end.
        side.conn.storagePoolDefineXML(handle.XMLDesc(0), 0)
    handle.destroy()
    assert side.locate(places[first]) is None
    for pool in others:
        found = side.locate(places[pool])
        assert found is not None and found[0].name == pool


def test_a_pool_that_is_undefined_after_it_was_listed(side: HypervisorView) -> None:
    side.pools.get("lun")
    side.conn.storagePoolLookupByName("files").destroy()
    assert [pool.name for pool in side.pools.all()] == ["ceph", "lun"]
