# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that machines of other hypervisors may have, in a pool that they share."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._operations.disks import elsewhere
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import (
    SHARE,
    Disks,
    Host,
    one,
)

UNSEEN = (
    "it cannot be determined whether something uses volume {}: storage pool default lies on a file system of type nfs4,"
    " and what machines of other hypervisors use there cannot be seen from this one. Ask them with virt_usage_info "
    "about what is returned as shared, and give the answers as used_elsewhere"
)


@pytest.fixture
def shared(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The host, whose files lie on NFS."""
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: "nfs4")
    host.add_volume("y.qcow2")
    return host


def said(volume: str = "x.qcow2", users: t.Sequence[str] = (), unknown: t.Sequence[str] = ()) -> dict[str, t.Any]:
    return {"hv2": {"volumes": [{"pool": "default", "volume": volume, "users": list(users), "unknown": list(unknown)}]}}


def test_all_volumes_to_ask_about_are_found_at_once(shared: Host) -> None:
    hypervisor = shared.hypervisor()
    both = one("a", Disks.WRITE, {"source": "y.qcow2"})
    assert shared.refused(both, hypervisor=hypervisor).splitlines() == [
        f"machines[0].disks[0].source: {UNSEEN.format('x.qcow2')}",
        f"machines[0].disks[1].source: {UNSEEN.format('y.qcow2')}",
    ]
    assert [volume.as_result() for volume in hypervisor.to_ask] == [
        {
            "pool": "default",
            "volume": name,
            "place": str(shared.directory / "default" / name),
            "inode": os.stat(shared.directory / "default" / name).st_ino,
            "serial": None,
        }
        for name in ("x.qcow2", "y.qcow2")
    ]


def test_the_others_decide(shared: Host) -> None:
    shared.plan(one("a", Disks.WRITE), hypervisor=shared.hypervisor({}))
    shared.plan(one("a", Disks.WRITE), hypervisor=shared.hypervisor(said()))
    used = shared.hypervisor(said(users=["machine far"]))
    assert shared.refused(one("a", Disks.WRITE), hypervisor=used) == (
        f"machines[0].disks[0].source: volume x.qcow2 is used by machine far on hv2. {SHARE}. If that is "
        "another file, rename this one (same name) or copy it (same inode number)"
    )
    silent = shared.hypervisor({"hv2": "no route to host"})
    assert shared.refused(one("a", Disks.WRITE), hypervisor=silent).endswith(
        "whether something uses volume x.qcow2: storage pool default lies on a file system of type nfs4, and hv2, "
        "which may use it too, did not say: no route to host. Resolve that first, or set readonly for the disk"
    )
    other = shared.hypervisor(said("y.qcow2"))
    assert "hv2 was not asked who uses this volume" in shared.refused(one("a", Disks.WRITE), hypervisor=other)


@pytest.mark.parametrize("disk", [Disks.READONLY, Disks.CDROM, Disks.OVERLAY, Disks.ON_IMAGE, {"size": "1MiB"}])
def test_who_does_not_write_to_what_is_there_asks_nobody(shared: Host, disk: dict[str, t.Any]) -> None:
    hypervisor = shared.hypervisor()
    shared.plan(one("a", disk), hypervisor=hypervisor)
    assert hypervisor.to_ask == []


def test_a_disk_in_xml(shared: Host) -> None:
    disk = f"<disk type='file'><source file='{shared.path}'/><target dev='vdz'/></disk>"
    xml = f"<domain><devices>{disk}</devices></domain>"
    assert shared.refused(one("a", xml=xml)) == f"machines[0].xml: {UNSEEN.format('x.qcow2')}"
    shared.plan(one("a", xml=xml), hypervisor=shared.hypervisor(said()))


def test_a_disk_that_is_to_be_written_to_from_now_on(shared: Host) -> None:
    shared.make(one("a", Disks.READONLY))
    more = one("a", {**Disks.WRITE, "readonly": False})
    assert "machines[0].disks[0].readonly: it cannot be determined" in shared.refused(more)
    shared.plan(more, hypervisor=shared.hypervisor(said()))


def test_its_own_disk_that_others_share_is_not_taken_from_them(shared: Host) -> None:
    shared.make(one("a", {"size": "1MiB", "format": "raw", "shareable": True}))
    alone = one("a", {"size": "1MiB", "shareable": False})
    used = shared.hypervisor(said("a-d.raw", users=["machine far"]))
    assert "volume a-d.raw is used by machine far on hv2" in shared.refused(alone, hypervisor=used)
    shared.plan(alone, hypervisor=shared.hypervisor(said("a-d.raw")))


def test_what_a_machine_has_is_not_asked_about_again(shared: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as alone:
        alone.setattr(elsewhere, "seen_elsewhere", lambda _pool: None)
        shared.make(one("a", Disks.WRITE))
    hypervisor = shared.hypervisor()
    (plan,) = shared.plan(one("a", Disks.WRITE, description="more"), hypervisor=hypervisor)
    assert plan.steps
    assert hypervisor.to_ask == []
    assert hypervisor.wanted == []


def test_what_this_machine_was_made_with_it_takes_back(shared: Host) -> None:
    shared.make(one("a", {"size": "1MiB"}))
    shared.plan(one("a", {"size": "1MiB"}, Disks.READONLY))


@pytest.mark.parametrize(
    ("disk", "use", "volume"),
    [
        (Disks.WRITE, "writes", "x.qcow2"),
        (Disks.READONLY, "reads", "x.qcow2"),
        (Disks.OVERLAY, "backed", "x.qcow2"),
        ({"source": "z.raw", "shareable": True, "format": "raw"}, "shares", "z.raw"),
    ],
)
def test_what_the_task_wants_is_returned_for_comparison(
    shared: Host, disk: dict[str, t.Any], use: str, volume: str
) -> None:
    if volume == "z.raw":
        (shared.directory / "default" / volume).write_bytes(bytes(1024 * 1024))
        shared.conn.storagePoolLookupByName("default").createXML(
            f"<volume><name>{volume}</name><capacity>1048576</capacity></volume>", 0
        )
    hypervisor = shared.hypervisor({})
    shared.plan(one("a", disk), hypervisor=hypervisor)
    (wanted,) = hypervisor.wanted
    found = wanted.as_result()
    place = str(shared.directory / "default" / volume)
    assert (found["use"], found["machine"], found["volume"], found["place"]) == (use, "a", volume, place)
    option = "backing" if use == "backed" else "source"
    assert found["where"] == f"machines[0].disks[0].{option}"


def test_where_nothing_is_shared_nobody_is_asked(host: Host) -> None:
    hypervisor = host.hypervisor()
    host.plan(one("a", Disks.WRITE), hypervisor=hypervisor)
    assert (hypervisor.to_ask, hypervisor.wanted) == ([], [])


@pytest.mark.parametrize("more", [{"source": "x.qcow2"}, {"size": "1MiB"}])
def test_what_an_interrupted_run_has_left_and_the_rest_are_asked_about_at_once(
    shared: Host, more: dict[str, t.Any]
) -> None:
    """Or the others would never have been asked about the rest, run after run."""
    shared.make(one("a", {"size": "1MiB"}))
    want = one("a", {"size": "1MiB"}, {"size": "1MiB"}, more)
    (plan,) = shared.plan(want, hypervisor=shared.hypervisor({}))
    for step in plan.steps[: [step.description.startswith("change") for step in plan.steps].index(True)]:
        step.apply()
    hypervisor = shared.hypervisor()
    volumes = ["a-e.qcow2", more.get("source", "a-f.qcow2")]
    errors = shared.refused(want, hypervisor=hypervisor).splitlines()
    assert [volume in error for volume, error in zip(volumes, errors)] == [True, True], errors  # noqa: B905
    assert [volume.volume for volume in hypervisor.to_ask] == volumes
    answers = [said(volume)["hv2"]["volumes"][0] for volume in volumes]
    (plan,) = shared.plan(want, hypervisor=shared.hypervisor({"hv2": {"volumes": answers}}))
    assert plan.steps[0].description == "remove volume a-e.qcow2 that an interrupted run left in pool default"
