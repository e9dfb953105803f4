# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of queries, lists and capacities."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.query import FilterModule
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import tree_text

FILTERS = FilterModule().filters()
GIB = 1024**3

CENTOS: dict[str, t.Any] = {
    "name": "centos",
    "vcpus": 2,
    "memory_mib": 512,
    "state": "running",
    "graphics": [{"type": "vnc", "listen": "127.0.0.1", "port": 5900, "tls_port": None}],
    "disks": [
        {
            "target": "vda",
            "size_bytes": 2 * GIB,
            "source": "/srv/salt-images/ubuntu2/system.qcow2",
            "format": "qcow2",
        }
    ],
    "nics": [{"mac": "ac:de:48:98:08:77", "source": "br0", "type": "bridge"}],
    "errors": [],
}
STOPPED: dict[str, t.Any] = {
    "name": "old",
    "vcpus": 1,
    "memory_mib": 1024,
    "state": "shutoff",
    "graphics": [{"type": "vnc", "listen": None, "port": None, "tls_port": None}],
    "disks": [{"target": "sda", "size_bytes": None, "source": None, "format": None}],
    "nics": [{"mac": "52:54:00:00:00:01", "source": None, "type": "user"}],
    "errors": ["disk sda: nobody knows"],
}
SEED_LAYOUT = """\
centos
  CPU: 2
  Memory: 524288
  State: running
  Graphics: vnc - hyper6:5900
  Disk - vda:
    Size: 2.0G
    File: /srv/salt-images/ubuntu2/system.qcow2
    File Format: qcow2
  Nic - ac:de:48:98:08:77:
    Source: br0
    Type: bridge"""
MORE_OF_IT: dict[str, t.Any] = {
    **CENTOS,
    "disks": [{**CENTOS["disks"][0], "guest_path": "/dev/disk/by-id/virtio-system"}, {"target": "sdb"}],
    "addresses": ["192.0.2.17", "2001:db8::17"],
    "tags": ["web", "front end"],
    "image": {"name": "centos", "volume": "centos-0123456789abcdef.qcow2", "pool": "images"},
    "pending": ["memory", "disks.data"],
}


def test_the_layout_is_that_of_the_seed() -> None:
    assert FILTERS["query"]({"hyper6": [CENTOS]}) == f"{SEED_LAYOUT}\n  Hypervisor: hyper6"


def test_what_the_seed_did_not_say_stands_after_its_lines() -> None:
    text = FILTERS["query"]({"hyper6": [MORE_OF_IT]})
    assert text.startswith(SEED_LAYOUT.partition("  Nic")[0])
    assert text.partition("    Type: bridge\n")[2].splitlines() == [
        "  Hypervisor: hyper6",
        "  Addresses: 192.0.2.17, 2001:db8::17",
        "  Tags: web, front end",
        "  Image: centos (centos-0123456789abcdef.qcow2)",
        "  In the guest - vda: /dev/disk/by-id/virtio-system",
        "  Pending until power off and on (a reboot in the guest is not enough): memory, disks.data",
    ]


def test_changes_are_said_with_what_waits_for_power_off_and_on() -> None:
    quiet = {"name": "old", "changed": False, "created": False, "actions": [], "pending": [], "outdated": ["image"]}
    new = {**quiet, "name": "web1", "changed": True, "created": True, "actions": ["define machine web1"]}
    changed = {
        **quiet,
        "name": "web2",
        "changed": True,
        "actions": ["change the definition of web2: memory", "write the metadata of web2"],
        "pending": ["memory"],
        "outdated": ["image", "seed"],
    }
    waits = {**quiet, "name": "web3", "pending": ["vcpus"], "outdated": []}
    pending = "pending until power off and on (a reboot in the guest is not enough)"
    text = FILTERS["changes"]({"hv1": {"machines": [quiet, {**new, "outdated": []}, changed, waits]}})
    assert text.splitlines() == [
        "web1 on hv1: new",
        "web2 on hv1: change the definition of web2: memory",
        f"web2 on hv1: {pending}: memory",
        "web2 on hv1: stays as it was created: image, seed (seed_policy: refresh gives it the new one)",
        f"web3 on hv1: {pending}: vcpus",
    ]
    assert FILTERS["changes"]({"hv1": {"machines": [quiet]}, "hv2": {"skipped": True}}) == ""


def test_a_change_of_notes_alone_is_said() -> None:
    machine = {"name": "web1", "changed": True, "actions": ["write the metadata of web1"]}
    assert FILTERS["changes"]({"hv1": {"machines": [machine]}}) == "web1 on hv1: write the metadata of web1"


def test_what_is_not_known_is_left_out() -> None:
    assert FILTERS["query"]({"hyper6": [STOPPED]}) == (
        "old\n  CPU: 1\n  Memory: 1048576\n  State: shutoff\n  Disk - sda:\n"
        "  Nic - 52:54:00:00:00:01:\n    Type: user\n  Hypervisor: hyper6\n  Error: disk sda: nobody knows"
    )


def test_hypervisors_stand_in_their_order_and_the_silent_ones_are_named() -> None:
    text = FILTERS["query"](
        {
            "hv2": {"machines": [STOPPED], "changed": False},
            "hv3": {"unreachable": True, "msg": "Connection timed out\nreally"},
            "hv1": {"machines": [CENTOS], "changed": False},
            "hv4": {"failed": True, "msg": "cannot connect to qemu:///system: no"},
        }
    )
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "old",
        "centos",
        "hv3: did not answer: Connection timed out really",
        "hv4: did not answer: cannot connect to qemu:///system: no",
    ]


def test_machines_of_one_name_are_told_apart() -> None:
    text = FILTERS["query"]({"hv1": [CENTOS], "hv2": [CENTOS]})
    assert [line for line in text.splitlines() if "Hypervisor" in line] == ["  Hypervisor: hv1", "  Hypervisor: hv2"]


def test_text_of_machines_cannot_draw_on_the_terminal() -> None:
    text = FILTERS["query"]({"hv1": [{"name": "x\x1b[2J\ny", "state": "running", "vcpus": 1}]})
    assert text == "x [2J y\n  CPU: 1\n  State: running\n  Hypervisor: hv1"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({}, {}),
        (
            {"hv1": {"machines": [CENTOS, {"name": "b", "state": "running"}, STOPPED]}, "hv2": {"machines": []}},
            {"hv1": {"running": ["b", "centos"], "shutoff": ["old"]}, "hv2": {}},
        ),
        ({"hv1": {"unreachable": True, "msg": "gone"}}, {"hv1": "did not answer: gone"}),
    ],
)
def test_names_by_state(results: dict[str, t.Any], expected: dict[str, t.Any]) -> None:
    assert FILTERS["states"](results) == expected


HALF: dict[str, t.Any] = {"name": "half", "state": "shutoff", "building": True}
CLAIM: dict[str, t.Any] = {**HALF, "name": "web1", "claimed": True}
UNFINISHED = "unfinished: a run is creating it, or was interrupted; run provision again to finish it"


def test_an_unfinished_machine_is_shown_as_one() -> None:
    started = {**HALF, "name": "up", "state": "running"}
    results: dict[str, t.Any] = {"hv1": {"machines": [STOPPED, HALF, CLAIM, started]}}
    assert FILTERS["states"](results) == {"hv1": {"shutoff": ["old"], "unfinished": ["half", "up", "web1"]}}
    assert FILTERS["remarks"](results).splitlines() == [
        f"half on hv1 is {UNFINISHED}",
        f"web1 on hv1 is {UNFINISHED}",
        "up on hv1 is unfinished: a run was interrupted, but it is running now; "
        "run provision again to see how to keep it",
    ]
    text = FILTERS["query"](results)
    assert f"half\n  State: shutoff, {UNFINISHED}\n  Hypervisor: hv1" in text
    assert "old\n  CPU: 1\n  Memory: 1048576\n  State: shutoff\n" in text


def test_a_machine_on_two_hypervisors_is_remarked_on() -> None:
    moving = {"name": "db1", "state": "running", "moving": {"source": "a", "target": "b"}}
    results: dict[str, t.Any] = {
        "hv1": {"machines": [CENTOS, CLAIM, moving, STOPPED]},
        "hv2": {"machines": [CENTOS, {**CLAIM, "claimed": False, "building": False}, {**moving, "moving": None}]},
        "hv3": {"failed": True, "msg": "no"},
    }
    assert FILTERS["remarks"](results).splitlines() == [
        f"web1 on hv1 is {UNFINISHED}",
        "There is a machine centos on each of hv1, hv2: the live inventory lists them as centos_hv1, centos_hv2",
        "There is a machine db1 on each of hv1, hv2: it is being moved, or a move was interrupted; "
        "run migrate again to finish it",
    ]
    assert FILTERS["remarks"]({"hv1": {"machines": [CENTOS]}, "hv2": {"machines": [STOPPED]}}) == ""


def test_capacity_in_short() -> None:
    host = {
        "vcpus": {"total": 16, "committed": 6, "running": 4},
        "memory": {"total_mib": 32093, "committed_mib": 6144, "running_mib": 4096, "free_mib": 25949},
        "machines": [{}, {}, {}],
        "pools": [
            {"name": "default", "active": True, "available_mib": 81920, "capacity_mib": 102400},
            {"name": "old", "active": False, "available_mib": None, "capacity_mib": None},
        ],
        "errors": [],
    }
    assert FILTERS["tree"](FILTERS["capacity"]({"hv1": {"host": host}, "hv2": {"failed": True, "msg": "no"}})) == (
        "hv1:\n  CPUs: 16\n  CPUs committed: 6\n  CPUs of running machines: 4\n  Memory: 32093 MiB\n"
        "  Memory free: 25949 MiB\n  Memory committed: 6144 MiB\n  Memory of running machines: 4096 MiB\n"
        "  Machines: 3\n  Pool default: 81920 MiB free of 102400 MiB\n  Pool old: not active\n"
        "hv2: did not answer: no"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, ""),
        ({"hv1": {"running": ["a", "b"]}, "hv2": {}}, "hv1:\n  running:\n    a\n    b\nhv2: none"),
        (["a", 1], "a\n1"),
        ("a\nb", "a b"),
    ],
)
def test_trees(value: t.Any, text: str) -> None:
    assert tree_text(value) == text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("query", [CENTOS], "brine.virt.query: the input is not a mapping. Give the registered results"),
        ("states", {"hv1": "x"}, "brine.virt.states: hv1: this is not a list of machines. Give what virt_info"),
        ("query", {"hv1": [{"uuid": 1}]}, "brine.virt.query: hv1: this is not a list of machines"),
    ],
)
def test_wrong_input_is_one_sentence(name: str, value: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](value)
    assert str(caught.value).startswith(message)
