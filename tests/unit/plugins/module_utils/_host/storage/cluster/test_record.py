# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import CEPH, read_snapshot
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster.record import (
    ClusterRecord,
    cluster_name,
    record_xml,
    snapshot_of,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    SnapshotWork,
    read_work,
    work_to_element,
)

UUID = "11111111-2222-3333-4444-555555555555"
DISK = "<disk type='network'><source protocol='rbd' name='vms/web1-system'/><target dev='vda'/></disk>"
DOMAIN = f"<domain type='kvm'><name>web1</name><uuid>{UUID}</uuid><devices>{DISK}</devices></domain>"


@pytest.mark.parametrize("name", ["before", "a@b:c+d.e-f", "a%40b", "2026"])
def test_a_name_in_the_cluster_and_back(name: str) -> None:
    there = cluster_name(UUID, name)
    assert "@" not in there and there.startswith(f"brine-snapshot.{UUID}.")
    assert snapshot_of(UUID, there) == name


@pytest.mark.parametrize(
    "other",
    [
        *("libvirt-123", "brine", "brine-snapshot.other.before", "before"),
        # Somebody's hand: by the name that these come to, they could not be deleted.
        *(f"brine-snapshot.{UUID}.{name}" for name in ("", "a b%20c", "%40%62", "a%FF")),
    ],
)
def test_what_is_not_this_machines(other: str) -> None:
    assert snapshot_of(UUID, other) is None


@pytest.mark.parametrize(("running", "state"), [(True, "disk-snapshot"), (False, "shutoff")])
def test_what_libvirt_is_told_is_read_as_what_it_is(running: bool, state: str) -> None:
    domain = parse_xml(DOMAIN)
    disks = {"vda": domain.findall("devices/disk")[0]}
    facts = read_snapshot(parse_xml(record_xml(ClusterRecord("s", "why", 5, "r", running, disks, ["vdz"], domain))))
    assert (facts.kind, facts.state, facts.memory, facts.own) == (CEPH, state, False, True)
    assert (facts.name, facts.parent, facts.created, facts.description) == ("s", "r", 5, "why")
    assert facts.disks == (("vda", None),) and facts.domain is not None


@pytest.mark.parametrize(
    "work", [SnapshotWork("s"), SnapshotWork("s", reverting=True), SnapshotWork("s", frozen=True, paused=True)]
)
def test_a_note_of_work(work: SnapshotWork) -> None:
    domain = parse_xml("<domain><metadata/></domain>")
    assert read_work(domain) is None
    domain[0].append(work_to_element(work))
    assert read_work(domain) == work
