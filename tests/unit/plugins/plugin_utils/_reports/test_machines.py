# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of all hypervisors as data, and as a table."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.machines import machines_data, machines_table

GIB = 1024**3


def record(name: str, **more: t.Any) -> dict[str, t.Any]:
    disk = {"target": "vda", "device": "disk", "source": "/a", "size_bytes": 8 * GIB, "readonly": False}
    seed = {**disk, "target": "vdz", "size_bytes": 1, "readonly": True}
    drive = {**disk, "target": "sda", "device": "cdrom", "size_bytes": None}
    return {
        "name": name,
        "state": "running",
        "address": "192.0.2.17",
        "vcpus": 2,
        "memory_mib": 1536,
        "disks": [disk, {**disk, "target": "vdb", "size_bytes": 30 * GIB}, seed, drive],
        "tags": ["web", "front"],
        "pending": [],
        "errors": [],
        **more,
    }


def lines_of(results: dict[str, t.Any]) -> list[str]:
    return machines_table(machines_data(results)).splitlines()


def test_one_row_for_each_machine_sorted_by_name() -> None:
    bare = record("a1", state="shutoff", vcpus=None, memory_mib=None, disks=[], tags=[], pending=None, address=None)
    assert lines_of({"hv2": {"machines": [record("web1", pending=["memory"])]}, "hv1": {"machines": [bare]}}) == [
        "NAME  STATE    ON   ADDRESS     CPU   MEM   DISK  TAGS       PENDING",
        "a1    shutoff  hv1  -             ?     ?      -  -          ?",
        "web1  running  hv2  192.0.2.17    2  1.5G  38.0G  web,front  memory",
    ]


def test_a_size_that_is_not_known_is_no_small_one() -> None:
    disks = [
        {"device": "disk", "source": "/a", "size_bytes": None},
        {"device": "disk", "source": "/b", "size_bytes": 1},
    ]
    assert lines_of({"hv1": [record("web1", disks=disks)]})[1].split()[6] == "?"


def test_a_table_fits_where_tags_and_pending_alone_can_make_room() -> None:
    tags = [f"tag{number}" for number in range(40)]
    lines = lines_of({"hv1": [record("web1", tags=tags, pending=tags)]})
    assert [len(line) for line in lines] == [len(lines[0]), 120]
    name = "n" * 200
    assert name in lines_of({"hv1": [record(name, tags=tags)]})[1]


def test_who_did_not_answer_and_what_is_unknown_stand_after_the_table() -> None:
    results: dict[str, t.Any] = {
        "hv1": {"machines": [record(f"w{number}", errors=[f"disk {number} is busy"]) for number in range(12)]},
        "hv2": {"unreachable": True, "msg": "no\nroute"},
    }
    lines = lines_of(results)
    assert lines[13] == "w0 on hv1: disk 0 is busy"
    assert lines[-2:] == ["2 more are unknown: brine.virt.query says what and why", "hv2: did not answer: no route"]


@pytest.mark.parametrize(
    ("count", "names"), [(1, "w10"), (6, "w10, w11, w12, w13, w14, w15"), (50, "w10, w11, w12, w13, w14 and 45 more")]
)
def test_what_is_unknown_of_many_for_one_reason_is_one_line(count: int, names: str) -> None:
    error = "cannot read the neighbour table: internal error: wrong nlmsg len"
    results = {"hv1": {"machines": [record(f"w{10 + number}", errors=[error]) for number in range(count)]}}
    assert lines_of(results)[1 + count :] == [f"{names} on hv1: {error}"]


def test_one_that_nobody_has_paused_says_why() -> None:
    paused = record("web1", state="paused", paused_by="because of an I/O error")
    assert " paused because of an I/O error " in lines_of({"hv1": [paused]})[1]


def test_one_that_is_moving_says_so() -> None:
    assert "running, moving" in lines_of({"hv1": [record("web1", moving={"source": "a", "target": "b"})]})[1]


def test_one_whose_memory_is_saved_says_so() -> None:
    assert " saved " in lines_of({"hv1": [record("web1", state="shutoff", saved=True)]})[1]


def on(source: str, address: str = "192.0.2.17", kind: str = "bridge") -> list[dict[str, t.Any]]:
    return [{"type": kind, "source": source, "addresses": [{"address": address}, {"address": "192.0.2.250"}]}]


def test_an_address_of_two_running_machines_is_named_below_the_table() -> None:
    first = record("web1", nics=on("br0"))
    lines = lines_of({"hv1": [first], "hv2": [record("web2", nics=on("br0"))]})
    assert lines[3:] == [
        "web1 on hv1 and web2 on hv2 have the same address 192.0.2.17 on br0: unless they are in different VLANs, "
        "give all but one of them another"
    ]
    lines = lines_of({"hv1": [record(name, nics=on("lan", kind="network")) for name in ("a", "b")]})
    assert lines[3].startswith("a on hv1 and b on hv1 have the same address 192.0.2.17 on lan: ")


@pytest.mark.parametrize(
    "other",
    [
        record("web2", nics=on("br1")),
        record("web2", nics=on("br0"), state="shutoff"),
        # An address that they pass on to each other.
        record("web2", address="192.0.2.18", nics=on("br0", "192.0.2.18")),
    ],
)
def test_an_address_of_one_running_machine_is_no_remark(other: dict[str, t.Any]) -> None:
    assert len(lines_of({"hv1": [record("web1", nics=on("br0"))], "hv2": [other]})) == 3


def test_an_address_on_a_network_of_the_machines_own_is_no_remark() -> None:
    nic = {"type": "user", "source": None, "addresses": [{"address": "192.0.2.17"}]}
    assert len(lines_of({"hv1": [record(name, nics=[nic]) for name in ("web1", "web2")]})) == 3


def test_each_hypervisor_has_networks_of_its_own() -> None:
    results = {
        host: [record(name, nics=on("default", kind="network"))] for host, name in {"hv1": "a", "hv2": "b"}.items()
    }
    assert len(lines_of(results)) == 3


def test_text_of_guests_stays_in_its_cell() -> None:
    lines = lines_of({"hv1": [record("x\x1b[2J\n{{ y }}", tags=["\u65e5\u672c", "a|b<c>"])]})
    assert len(lines) == 2 and lines[1].startswith("x [2J {{ y }}  running")


@pytest.mark.parametrize(
    ("results", "names", "failures"),
    [
        ({"hv1": {"unreachable": True, "msg": "no"}}, ["web1"], ["No hypervisor answered."]),
        ({"hv1": {"machines": []}}, [], []),
        (
            {
                "hv1": {"machines": [], "missing": ["web1", "wbe1"], "known": ["db1"]},
                "hv2": {"machines": [record("web1")], "missing": ["wbe1"], "known": ["web1"]},
            },
            ["web1", "wbe1"],
            ["There is no machine wbe1 on the hypervisors that answered. Did you mean web1?"],
        ),
        # It is there, and another filter has left it out.
        ({"hv1": {"machines": [], "missing": []}}, ["web1"], []),
        (
            {"hv1": [record("web1")]},
            ["web1", 7],
            ["There is no machine 7 on the hypervisors that answered. Known: web1"],
        ),
    ],
)
def test_what_was_asked_for_and_is_not_there(
    results: dict[str, t.Any], names: list[t.Any], failures: list[str]
) -> None:
    assert machines_data(results, names)["failures"] == failures


def test_data_names_the_hypervisor_of_each_machine() -> None:
    data = machines_data(
        {"hv2": [record("b")], "hv1": [record("b"), record("a")], "hv3": {"failed": True, "msg": "no"}}
    )
    assert [(one["name"], one["hypervisor"]) for one in data["machines"]] == [("a", "hv1"), ("b", "hv1"), ("b", "hv2")]
    assert (data["hypervisors"], data["silent"]) == (["hv1", "hv2"], {"hv3": "did not answer: no"})


def test_names_are_a_list() -> None:
    with pytest.raises(InputError, match="names: 'web1' is not a list of names"):
        machines_data({}, "web1")
