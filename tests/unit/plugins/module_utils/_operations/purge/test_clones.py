# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has clones or snapshots of others in its Ceph cluster stays, and the preview says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images import clustered
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import PurgePlan, plan_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import DELETE, KEEP, PurgeOptions
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml
from ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster import PretendedCluster, Snapshot

POOL = """<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source>
  <target><path>/</path></target></pool>"""
VOLUME = "<volume><name>{name}</name><capacity>1048576</capacity></volume>"
DISK = """<disk type='network' device='disk'><driver name='qemu' type='raw'/>
  <source protocol='rbd' name='vms/{0}'><host name='mon'/></source><target dev='{1}' bus='virtio'/></disk>"""
DISKS = {"db1-system": "vda", "db1-data": "vdb"}
NOTES = MachineNotes(volumes=tuple(VolumeNote("ceph", name, "disk") for name in DISKS))
DOMAIN = f"""<domain type='test'><name>db1</name><metadata>{notes_to_xml(NOTES)}</metadata>
  <memory unit='MiB'>64</memory><os><type>hvm</type></os>
  <devices>{"".join(DISK.format(*item) for item in DISKS.items())}</devices></domain>"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PretendedCluster:
    cluster = PretendedCluster(*DISKS)
    monkeypatch.setattr(clustered, "open_cluster", cluster.open)
    monkeypatch.setattr(volumes, "has_bindings", lambda: True)
    monkeypatch.setattr(Pools, "local", property(lambda _self: True))
    return cluster


@pytest.fixture
def view(tmp_path: Path) -> Iterator[HypervisorView]:
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        pool = conn.storagePoolCreateXML(POOL, 0)
        for name in DISKS:
            pool.createXML(VOLUME.format(name=name), 0)
        conn.defineXML(DOMAIN)
        yield HypervisorView(conn, elsewhere=lambda _pool, _volume: ((), ()))


def planned(view: HypervisorView) -> PurgePlan:
    plan = plan_purge("db1", view, PurgeOptions())
    assert plan is not None
    return plan


def test_what_has_clones_is_shown_to_stay(view: HypervisorView, cluster: PretendedCluster) -> None:
    assert [one.action for one in planned(view).decisions] == [DELETE, DELETE]
    snapshots = cluster.there["db1-data"].snapshots
    snapshots["theirs"] = Snapshot("new", clones=["db2-data"])
    snapshots["brine-snapshot.x.a"] = Snapshot("new", clones=["db3-data"])
    found = {one.volume: (one.action, one.reason) for one in planned(view).decisions}
    assert found["db1-system"][0] == DELETE
    users = [f"volume vms/{name}, which is a clone of it" for name in ("db2-data", "db3-data")]
    users.append("snapshot theirs of it, which this collection has not taken")
    assert found["db1-data"] == (KEEP, f"it is used by {', '.join(users)}")
    assert [one.volume for one in planned(view).going] == ["db1-system"]


def test_so_is_what_has_somebody_elses_snapshot(view: HypervisorView, cluster: PretendedCluster) -> None:
    """Ceph would refuse to delete it, after the machine's other disks have gone."""
    cluster.there["db1-data"].snapshots["nightly"] = Snapshot("new")
    found = {one.volume: (one.action, one.reason) for one in planned(view).decisions}
    assert found["db1-data"] == (KEEP, "it is used by snapshot nightly of it, which this collection has not taken")
    assert [one.volume for one in planned(view).going] == ["db1-system"]


@pytest.mark.parametrize(
    ("name", "namespace"), [("brine-snapshot.x.a", 0), (".mirror.primary.x", 3)], ids=["ours", "of a mirror"]
)
def test_a_snapshot_that_goes_with_the_volume_keeps_nothing(
    view: HypervisorView, cluster: PretendedCluster, name: str, namespace: int
) -> None:
    cluster.there["db1-data"].snapshots[name] = Snapshot("new", namespace=namespace)
    assert len(planned(view).going) == len(DISKS)
