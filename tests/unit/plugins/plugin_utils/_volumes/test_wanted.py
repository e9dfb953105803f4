# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hypervisors that are each about to attach the same volume of a shared pool."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter.mistakes import mistakes_filter
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.wanted import wanted_twice

# For what takes a tenth of one.
SECONDS = 10
BY_PATH = "/dev/disk/by-path/ip-192.0.2.9:3260-iscsi-iqn.2026-01.org.example:san-lun-{}"
FILE: dict[str, t.Any] = {"pool": "nfs", "volume": "data.raw", "place": "/srv/nfs/data.raw", "inode": 7, "serial": None}
LUN: dict[str, t.Any] = {
    "pool": "san",
    "volume": "unit:0:0:1",
    "place": BY_PATH.format(1),
    "inode": None,
    "serial": "36001405" + "a" * 25,
}
RBD: dict[str, t.Any] = {"pool": "ceph", "volume": "db", "place": "rbd:vms/db", "inode": None, "serial": None}


def want(machine: str, volume: dict[str, t.Any], use: str = "writes") -> dict[str, t.Any]:
    return {"wanted": [{**volume, "use": use, "machine": machine, "where": f"{machine}.source"}]}


def found(one: dict[str, t.Any], other: dict[str, t.Any]) -> list[tuple[str, str]]:
    return list(wanted_twice({"hv1": one, "hv2": other, "hv3": {}}))


def test_the_sentence_says_which_disks_and_what_would_be_right() -> None:
    answers = {"hv1": want("a", LUN), "hv2": want("b", LUN)}
    assert mistakes_filter({}, answers) == [
        "hv2: b.source: volume unit:0:0:1 of pool san is also requested for machine a on hv1 (a.source). Two machines "
        "may share it only if both are shareable or readonly"
    ]


@pytest.mark.parametrize(
    ("volume", "changes"),
    [
        (FILE, {"pool": "other", "place": "/mnt/data.raw"}),
        (FILE, {"place": "/srv/nfs/link.raw", "volume": "link.raw"}),
        # A file system in user space may give each host its own inode numbers.
        (FILE, {"inode": 8}),
        (RBD, {"pool": "other"}),
        # By another portal, or as a device of multipath.
        (LUN, {"place": "/dev/mapper/mpatha", "pool": "mp", "volume": "dm-3"}),
        (LUN, {"serial": None}),
        # Such numbers as tgt's may change.
        ({**LUN, "serial": "360000000000000000e00000000010001"}, {"serial": "360000000000000000e00000000020001"}),
        (
            LUN,
            {"serial": None, "place": "iscsi:iqn.2026-01.org.example:san/1", "pool": "direct", "volume": "unit:0:0:1"},
        ),
        ({**LUN, "serial": None, "place": "/dev/sdb"}, {"place": "/dev/sdc"}),
    ],
)
def test_one_volume_by_other_words(volume: dict[str, t.Any], changes: dict[str, t.Any]) -> None:
    assert [host for host, _sentence in found(want("a", volume), want("b", {**volume, **changes}))] == ["hv2"]


@pytest.mark.parametrize(
    ("volume", "changes"),
    [
        (FILE, {"place": "/srv/nfs/more.raw", "volume": "more.raw", "inode": 8}),
        (RBD, {"place": "rbd:vms/more", "volume": "more"}),
        # On another target, LUN 1 has the same name.
        (LUN, {"place": BY_PATH.format(2), "serial": "36001405" + "b" * 25}),
        # A target may show each hypervisor its own under one number.
        (LUN, {"serial": "36001405" + "b" * 25}),
        (RBD, {"place": "rbd:hdd/db"}),
        (LUN, {"pool": "san2", "place": BY_PATH.format(2), "serial": None}),
    ],
)
def test_other_volumes(volume: dict[str, t.Any], changes: dict[str, t.Any]) -> None:
    assert found(want("a", volume), want("b", {**volume, **changes})) == []


@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [
        ("writes", "reads", True),
        ("backed", "writes", True),
        ("shares", "backed", True),
        ("shares", "shares", False),
        ("reads", "reads", False),
        ("backed", "reads", False),
    ],
)
def test_what_two_may_do_with_one_volume(one: str, other: str, wrong: bool) -> None:
    assert bool(found(want("a", FILE, one), want("b", FILE, other))) is wrong


def test_on_one_hypervisor_its_own_task_compares() -> None:
    both = {"wanted": [*want("a", FILE)["wanted"], *want("b", FILE)["wanted"]]}
    assert found(both, {}) == []


@pytest.mark.parametrize("changes", [{"inode": 8}, {"place": "/srv/other/more.raw", "volume": "more.raw"}])
def test_two_files_may_have_one_name_or_number_by_chance(changes: dict[str, t.Any]) -> None:
    ((_host, sentence),) = found(want("a", FILE), want("b", {**FILE, **changes}))
    assert sentence.endswith("readonly. If these are two files, rename one (same name) or copy one (same inode number)")


def test_many_disks_of_many_hypervisors_take_no_long_time() -> None:
    """Compared pair by pair, these took minutes."""
    overlay = {**FILE, "volume": "debian.qcow2", "place": "/srv/nfs/debian.qcow2"}
    answers: dict[str, t.Any] = {}
    for host in range(100):
        own = [(host, number) for number in range(50)]
        answers[f"hv{host}"] = {
            "wanted": [
                *(want(f"m{one}", overlay, "backed")["wanted"][0] for one in own),
                *(
                    want(f"m{one}", {**FILE, "volume": f"{one}", "place": f"/srv/nfs/{one}", "inode": hash(one)})[
                        "wanted"
                    ][0]
                    for one in own
                ),
            ]
        }
    started = time.monotonic()
    assert list(wanted_twice(answers)) == []
    assert time.monotonic() - started < SECONDS
