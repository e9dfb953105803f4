# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How full a hypervisor is, in parts of a bar; and the totals of a cloud."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._picture.bars import (
    Amounts,
    memory_allocation,
    spaces_of,
    storage_bar,
)
from ansible_collections.brine.virt.plugins.plugin_utils._picture.contents import picture_of
from ansible_collections.brine.virt.plugins.plugin_utils._picture.facts import (
    certificates_of,
    jobs_of,
    release_of,
    snapshots_of,
    uptime_of,
)
from ansible_collections.brine.virt.plugins.plugin_utils._picture.machine import machine_of
from ansible_collections.brine.virt.plugins.plugin_utils._picture.page import render

GIB = 1024**3
SHARED = {"rbd"}


def pool(
    name: str, capacity: int, available: int, kind: str = "dir", active: bool = True, **more: t.Any
) -> dict[str, t.Any]:
    """A pool as virt_host_info returns it."""
    return {"name": name, "type": kind, "active": active, "capacity_mib": capacity, "available_mib": available, **more}


def disk(volume: str, whole_gib: int, written_gib: int, **more: t.Any) -> dict[str, t.Any]:
    """A disk as virt_info returns it."""
    sizes = {"size_bytes": whole_gib * GIB, "allocation_bytes": written_gib * GIB}
    return {"device": "disk", "pool": "default", "volume": volume, **sizes, **more}


@pytest.mark.parametrize(
    ("amounts", "widths", "level", "free", "percent"),
    [
        (Amounts(4096, 1024, 2048), (25, 25), "ok", "2 GiB free", 50),
        (Amounts(4096, 1024, 3900), (25, 70.21), "high", "196 MiB free", 95),
        (Amounts(4096, 4096, 8192), (50, 50), "over", "4 GiB over", 200),
        (Amounts(4096, 0, 0), (0, 0), "ok", "4 GiB free", 0),
        (Amounts(0, 0, 0), (0, 0), "ok", "0 MiB free", 0),
        (Amounts(0, 512, 512), (100, 0), "over", "512 MiB over", 100),
        # The memory of running machines is counted a moment later than what is committed.
        (Amounts(4096, 2048, 1024), (50, 0), "ok", "3 GiB free", 25),
    ],
)
def test_parts_of_a_bar(amounts: Amounts, widths: tuple[float, float], level: str, free: str, percent: int) -> None:
    made = memory_allocation(amounts)
    found = (made.used_width, made.promised_width), made.level, made.free, made.percent
    assert found == (widths, level, free, percent)


def test_disks_may_be_promised_more_than_there_is() -> None:
    made = storage_bar("default", Amounts(10240, 2048, 20480))
    assert (made.level, made.free, made.used_width, made.promised_width) == ("ok", "8 GiB free", 10, 90)
    assert made.whole == ("default: 2 of 10 GiB used, 8 GiB free, disks may grow by 18 GiB, 10 GiB more than there is")
    assert storage_bar("default", Amounts(100, 90, 90)).level == "high"


def test_pools_in_one_file_system_are_one_space() -> None:
    pools = [
        pool("default", 102400, 81920),
        pool("images", 102400, 81910),
        pool("other", 102400, 50000),
        pool("lvm", 102400, 81920, "logical"),
        pool("off", 0, 0, active=False),
    ]
    found = spaces_of(pools, [], SHARED)
    assert [space.names for space in found] == [("default", "images"), ("other",), ("lvm",)]
    assert found[0].amounts == Amounts(102400, 20480, 20480)


def test_a_disk_counts_once_and_what_cannot_grow_not_at_all() -> None:
    shared = disk("data.qcow2", 10, 4)
    machines: list[dict[str, t.Any]] = [
        {"disks": [disk("web1.qcow2", 8, 1), shared]},
        {"disks": [shared, disk("tools.iso", 1, 0, readonly=True), disk("raw", 5, 5), {"device": "disk"}]},
        {"disks": [disk("big.qcow2", 8, 9), disk("unknown", 8, 1, allocation_bytes=None)]},
        {"disks": None},
    ]
    (space,) = spaces_of([pool("default", 102400, 92160)], machines, SHARED)
    assert space.amounts == Amounts(102400, 10240, 10240 + (7 + 6) * 1024)


def test_shared_storage_counts_once_in_the_totals() -> None:
    host = {
        "memory": {"total_mib": 1280, "committed_mib": 512},
        "vcpus": {"total": 2, "committed": 1},
        "pools": [pool("ceph", 10240, 6144, "rbd"), pool("local", 2048, 1024)],
    }
    machine = {"name": "a", "state": "running", "disks": [disk("a", 3, 1, pool="ceph")]}
    fleet = {name: {"host": host, "machines": [{**machine, "name": name}]} for name in ("hv1", "hv2")}
    totals = {one.label: one.whole for one in picture_of(fleet, None).bars}
    assert totals["Storage"] == "Storage: 6 of 14 GiB used, 8 GiB free, disks may grow by 4 GiB"
    assert totals["Memory"] == "Memory: 1 of 2 GiB committed, 0 MiB of that by running machines, 1 GiB free"


def total(**pools: list[dict[str, t.Any]]) -> str:
    """What the bar of all storage says of hypervisors with these pools."""
    host = {"memory": {"total_mib": 1280, "committed_mib": 0}, "vcpus": {"total": 2, "committed": 0}}
    fleet = {name: {"host": {**host, "pools": found}, "machines": []} for name, found in pools.items()}
    return next(one.short for one in picture_of(fleet, None).bars if one.is_storage)


def test_shared_storage_is_known_by_what_it_is() -> None:
    """Not by the name of its pool, and not by numbers that are of different minutes."""
    one = pool("ceph", 10240, 6144, "rbd", shared_storage="rbd a,b/vms")
    assert total(hv1=[one], hv2=[pool("fast", 10241, 6100, "rbd", shared_storage="rbd b,c/vms")]) == "4 of 10 GiB"
    # Two clusters that happen to be alike.
    assert total(hv1=[one], hv2=[{**one, "shared_storage": "rbd x/vms"}]) == "8 of 20 GiB"
    # Two pools of one hypervisor.
    assert total(hv1=[one, {**one, "name": "again"}]) == "4 of 10 GiB"


def test_a_directory_that_is_mounted_from_a_server_is_shared() -> None:
    vms = pool("nfs", 10240, 6144, shared_storage="netfs nas:/srv/vms")
    iso = pool("iso", 10240, 6144, shared_storage="netfs nas:/srv/iso")
    own = pool("default", 2048, 1024)
    assert total(hv1=[vms, own], hv2=[{**vms, "type": "netfs"}, own]) == "6 of 14 GiB"
    # Two directories of one file system there, of which one hypervisor has but the second.
    assert total(hv1=[vms, iso], hv2=[iso], hv3=[vms]) == "4 of 10 GiB"
    (space,) = spaces_of([vms], [], SHARED)
    assert space.shared


def test_a_machine_that_is_moved_counts_once() -> None:
    host = {"memory": {"total_mib": 1280, "committed_mib": 0}, "vcpus": {"total": 2, "committed": 0}, "pools": []}
    machine = {"name": "a", "state": "running", "moving": {"source": "hv1", "target": "hv2"}}
    fleet = {name: {"host": host, "machines": [machine]} for name in ("hv1", "hv2")}
    assert ("Being moved", "1") in picture_of(fleet, None).totals


@pytest.mark.parametrize(
    ("target", "words"), [("hv2", "Being moved from hv1 to hv2"), ("hv1", "Having its disks moved")]
)
def test_what_is_moved_is_said(target: str, words: str) -> None:
    record = {"name": "a", "state": "running", "moving": {"source": "hv1", "target": target}}
    assert [note.text for note in machine_of(record).notes] == [words]


def test_facts_of_any_shape_are_words_or_nothing() -> None:
    assert release_of({"release": {"id": "debian", "name": "Debian GNU/Linux 12", "version": "12"}}) == (
        "Debian GNU/Linux 12"
    )
    assert release_of({"release": {"id": "arch"}}) == "arch"
    assert release_of({"release": {"name": "Debian", "version": "12"}}) == "Debian 12"
    assert release_of({"release": 12}) is release_of({"release": {}}) is release_of({}) is None
    assert jobs_of({"jobs": None}) == jobs_of({"jobs": "backup"}) == jobs_of({}) == []
    jobs = [{"type": "active_commit", "disk": "vda", "percent": 48.4}, {"type": None, "disk": None, "percent": None}]
    assert jobs_of({"jobs": jobs}) == ["active commit of vda, 48%", "unknown"]
    assert uptime_of({"uptime_seconds": 7200}) == "2 hours"
    assert uptime_of({"uptime_seconds": None}) is uptime_of({"uptime_seconds": "x"}) is uptime_of({}) is None
    assert [snapshots_of({"snapshots": found}) for found in (None, [{"name": "a"}], 2, "x")] == [0, 1, 2, 0]
    assert certificates_of({"certificates": [{"path": "x"}, "y"]}) == (None, [])
    ended = {"days_left": -1, "kind": "qemu_server", "not_after": "2026-01-01T00:00:00", "path": "/a"}
    assert certificates_of({"certificates": [ended]}) == ("ended", ["Certificate qemu_server ended 2026-01-01 (/a)"])


def test_a_state_that_is_not_known_stands_out() -> None:
    assert [machine_of({"name": "a", "state": state}).style for state in ("running", "paused", "odd")] == [
        "on",
        "held",
        "bad",
    ]


def test_a_machine_that_its_storage_has_paused_needs_attention() -> None:
    record = {"name": "a", "state": "paused", "paused_by": "because of an I/O error"}
    machine = machine_of(record)
    assert (machine.state, machine.style, machine.needs_attention) == ("paused", "bad", True)
    assert [note.text for note in machine.notes] == ["Paused because of an I/O error"]
    host = {"memory": {"total_mib": 1280, "committed_mib": 0}, "vcpus": {"total": 2, "committed": 0}, "pools": []}
    (warning,) = picture_of({"hv1": {"host": host, "machines": [record]}}, None).warnings
    assert (warning.name, warning.text) == ("a", "paused because of an I/O error on hv1")
    # Somebody has paused it.
    by_hand = machine_of({**record, "paused_by": None})
    assert (by_hand.style, by_hand.needs_attention, by_hand.condition) == ("held", False, "paused")


def test_what_is_only_read_is_none_of_its_disks() -> None:
    gib = 1024**3
    disks = [
        {"device": "disk", "size_bytes": 8 * gib},
        {"device": "lun", "size_bytes": gib},
        {"device": "disk", "size_bytes": gib, "readonly": True},
        {"device": "cdrom", "size_bytes": gib},
    ]
    assert machine_of({"name": "a", "state": "running", "disks": disks}).details == ("9 GiB on 2 disks",)


def test_a_cloud_without_an_answer_is_a_page_too() -> None:
    page, _contents = render(picture_of({"hv1": "no route"}, None), "2026-11-22T10:00:00Z", "Cloud")
    assert "did not answer: no route" in page
    assert "<article" not in page
