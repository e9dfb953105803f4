# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are there already: where they can go, and why not."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import plan_moves
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import (
    MIB,
    hypervisor,
    pool,
    record,
)

SILENT = "ssh: no route to host"


def plan(hosts: dict[str, t.Any], settings: t.Any = None, **spec: t.Any) -> dict[str, t.Any]:
    options = PlacementOptions(**{key: spec.pop(key) for key in ("policy", "anti_affinity") if key in spec})
    return plan_moves(read_fleet(hosts, settings, options), options, **spec)


def targets(result: dict[str, t.Any]) -> dict[str, str]:
    return {move["name"]: move["target"] for move in result["moves"]}


def reasons(result: dict[str, t.Any]) -> dict[str, str]:
    return {item["name"]: item["why"] for item in result["stay"]}


def test_a_named_machine_goes_where_the_load_is_lowest() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor(record("a")), "hv3": hypervisor(), "hv4": SILENT}
    result = plan(hosts, names=["web1"])
    assert result == {
        "moves": [
            {
                "name": "web1",
                "source": "hv1",
                "target": "hv3",
                "state": "running",
                "memory_mib": 1024,
                "why": "lowest load: 12% of memory committed including this machine, next hv2 with 25%",
                "refused": {
                    "hv2": "a higher load: 25% of memory committed including this machine",
                    "hv4": f"did not answer: {SILENT}",
                },
                "memory_ratio": 1.0,
                "memory_reserve_mib": 256,
                "anti_affinity": "require",
            }
        ],
        "stay": [],
        "there": [],
        "by_source": {
            "hv1": [
                {
                    "name": "web1",
                    "target": "hv3",
                    "memory_ratio": 1.0,
                    "memory_reserve_mib": 256,
                    "anti_affinity": "require",
                }
            ],
            "hv2": [],
            "hv3": [],
        },
        "unfinished": {},
        "silent": {"hv4": SILENT},
        "ahead": result["by_source"],
    }


@pytest.mark.parametrize(
    ("spec", "goes"),
    [
        ({}, False),
        ({"pool": "fast"}, True),
        ({"disks": {"vda": {"pool": "fast"}}}, True),
        ({"disks": {"system": {"pool": "fast"}}}, True),
        ({"pool": "default", "disks": {"system": {"pool": "fast"}}}, True),
        ({"pool": "slow"}, False),
    ],
)
def test_the_pools_that_its_disks_go_to_are_asked_for_and_not_the_old_ones(spec: dict[str, t.Any], goes: bool) -> None:
    web1 = record("web1")
    web1["disks"][0]["name"] = "system"
    hosts = {"hv1": hypervisor(web1), "hv2": hypervisor(pools=[pool("fast"), pool("images")])}
    result = plan(hosts, names=["web1"], target="hv2", **spec)
    assert targets(result) == ({"web1": "hv2"} if goes else {})
    if not goes:
        assert f"has no pool {spec.get('pool', 'default')}" in reasons(result)["web1"]
    # And so is the room in them.
    hosts["hv2"] = hypervisor(pools=[pool("fast", available_mib=50), pool("images")])
    assert targets(plan(hosts, names=["web1"], target="hv2", **spec)) == {}


def test_a_machine_needs_what_it_gets_at_its_next_start_too() -> None:
    """What waits for that counts where it arrives."""
    there = hypervisor(record("web1", 1024))
    there["host"]["machines"][0].update(memory_mib=4096, vcpus=3)
    result = plan({"hv1": there, "hv2": hypervisor(record("a", 4608)), "hv3": hypervisor(total_mib=4608)}, source="hv1")
    assert (targets(result), result["moves"][0]["memory_mib"]) == ({"web1": "hv3"}, 4096)
    assert result["moves"][0]["refused"] == {"hv2": "needs 4096 MiB of memory, 3584 MiB are free"}


def test_a_target_that_the_user_names_is_not_called_the_only_one() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor(record("a")), "hv3": hypervisor()}
    for spec in ({"names": ["web1"]}, {"source": "hv1"}):
        (move,) = plan(hosts, target="hv2", **spec)["moves"]
        assert (move["target"], move["why"]) == (
            "hv2",
            "as requested: 6144 MiB of free memory after this machine",
        )


def test_all_machines_of_a_hypervisor_the_largest_first_and_the_rest_named() -> None:
    tied = record("gpu1", tied_by=["a device of the hypervisor"])
    hosts = {
        "hv1": hypervisor(record("small", 1024), record("large", 5000), tied, record("huge", 8000)),
        "hv2": hypervisor(total_mib=5500),
        "hv3": hypervisor(total_mib=3000),
    }
    result = plan(hosts, source="hv1")
    assert targets(result) == {"large": "hv2", "small": "hv3"}
    assert [move["name"] for move in result["moves"]] == ["large", "small"]
    assert reasons(result) == {
        "gpu1": "it has a device of the hypervisor",
        "huge": "fits on no other hypervisor: hv2: needs 8000 MiB of memory, 5244 MiB are free; "
        "hv3: needs 8000 MiB of memory, 2744 MiB are free",
    }
    assert [move["name"] for move in result["by_source"]["hv1"]] == ["large", "small"]


REFUSALS: list[tuple[str, dict[str, t.Any], dict[str, t.Any], str]] = [
    ("arch", {}, {"arch": "aarch64"}, "is aarch64, the machine x86_64"),
    ("kvm", {}, {"domain_types": ["qemu"]}, "cannot run machines with kvm (has qemu)"),
    ("machine type", {}, {"machine_types": ["pc"]}, "does not know the machine type pc-q35-7.2"),
    (
        "retired",
        {},
        {"maintenance": {"since": "today", "reason": "retired"}},
        "is in maintenance since today (retired). It would fit on hv2 if that comes back: brine.virt.hypervisors, then "
        "brine.virt.maintenance -e end=hv2",
    ),
    (
        "retired, and said why",
        {},
        {"maintenance": {"since": "today", "reason": "retired: old"}},
        "is in maintenance since today (retired: old). It would fit on hv2 if that comes back: brine.virt.hypervisors, "
        "then brine.virt.maintenance -e end=hv2",
    ),
    (
        "maintenance",
        {},
        {"maintenance": {"since": "today", "reason": "fan"}},
        "is in maintenance since today (fan). It would fit on hv2 after its maintenance, which ends with "
        "brine.virt.maintenance -e end=hv2",
    ),
    ("pool", {}, {"pools": [pool("images")]}, "has no pool default (has images)"),
    ("pool asleep", {}, {"pools": [pool("images"), pool("default", active=False)]}, "pool default is not active"),
    (
        "pool full",
        {},
        {"pools": [pool("images"), pool("default", 99)]},
        "needs 100 MiB in pool default, 99 MiB are free",
    ),
    (
        "pool of blocks, where a disk takes all its room at once",
        {},
        {"pools": [pool("images"), pool("default", 8000, type="logical")]},
        "needs 8192 MiB in pool default, 8000 MiB are free",
    ),
    (
        "no room for the image",
        {},
        {"pools": [pool("images", 499), pool("default")], "images": []},
        "needs 500 MiB in pool images, 499 MiB are free",
    ),
    ("bridge", {}, {"bridges": ["br1"]}, "has no bridge br0 (has br1)"),
    ("network", {"nics": [{"type": "network", "source": "lan"}]}, {}, "has no network lan (has none)"),
    ("cpus", {"vcpus_max": 9}, {}, "needs 9 CPUs, it has 8"),
    ("label", {"labels": ["ssd"]}, {}, "has no label ssd (has none)"),
    ("the name", {}, {"machines": [{"name": "web1", "memory_mib": 1, "vcpus": 1}]}, "has a machine web1 of its own"),
]


@pytest.mark.parametrize(("more", "host", "reason"), [c[1:] for c in REFUSALS], ids=[c[0] for c in REFUSALS])
def test_a_machine_is_not_sent_where_it_does_not_fit(
    more: dict[str, t.Any], host: dict[str, t.Any], reason: str
) -> None:
    hosts = {"hv1": hypervisor(record("web1", **more)), "hv2": hypervisor(**host)}
    assert reasons(plan(hosts, names=["web1"])) == {"web1": f"fits on no other hypervisor: hv2: {reason}"}
    assert reasons(plan(hosts, source="hv1", target="hv2")) == {"web1": f"does not fit on hv2: {reason}"}


TIES: list[tuple[dict[str, t.Any], str]] = [
    ({"tied_by": ["a folder of the hypervisor"]}, "it has a folder of the hypervisor"),
    ({"building": True}, "it is being created, or that was interrupted"),
    (
        {"state": "shutoff", "saved": True},
        "its memory is saved to a file of its hypervisor, which libvirt cannot move with it: start it first",
    ),
    ({"persistent": False}, "it is transient: libvirt forgets it when it stops, and moves only what is defined"),
    ({"memory_max_mib": None, "errors": ["its XML is invalid"]}, "its XML is invalid"),
    (
        {"disks": [{"target": "vdb", "source": "/srv/a.raw", "pool": None}]},
        "its disk vdb (/srv/a.raw) is not in any storage pool",
    ),
]


@pytest.mark.parametrize(("more", "reason"), TIES)
def test_a_machine_that_can_go_nowhere_stays_with_the_reason(more: dict[str, t.Any], reason: str) -> None:
    hosts = {"hv1": hypervisor(record("web1", **more)), "hv2": hypervisor()}
    assert reasons(plan(hosts, source="hv1")) == {"web1": reason}


def test_an_image_that_the_target_lacks_is_counted_once() -> None:
    tight = hypervisor(images=[], pools=[pool("default"), pool("images", 600)])
    hosts = {"hv1": hypervisor(record("web1")), "hv2": tight}
    assert targets(plan(hosts, names=["web1"])) == {"web1": "hv2"}
    two = {"hv1": hypervisor(record("web1"), record("web2")), "hv2": tight}
    assert targets(plan(two, source="hv1")) == {"web1": "hv2", "web2": "hv2"}


def test_a_disk_on_shared_storage_needs_no_space() -> None:
    shared = [pool("default", 0, type="rbd"), pool("images", 0)]
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor(pools=shared)}
    assert targets(plan(hosts, names=["web1"])) == {"web1": "hv2"}


def test_an_empty_drive_needs_nothing() -> None:
    drive = {"target": "sda", "source": None, "pool": None}
    hosts = {"hv1": hypervisor(record("web1", disks=[drive])), "hv2": hypervisor()}
    assert targets(plan(hosts, names=["web1"])) == {"web1": "hv2"}


def test_anti_affinity_keeps_machines_of_a_group_apart() -> None:
    web1, web2 = (record(name, anti_affinity=["web"]) for name in ("web1", "web2"))
    hosts = {"hv1": hypervisor(web1), "hv2": hypervisor(web2)}
    text = reasons(plan(hosts, source="hv1"))["web1"]
    assert text.startswith(
        "fits on no other hypervisor: hv2: has web2, of the same anti-affinity group web. Only its anti"
    )
    preferred = plan(hosts, source="hv1", anti_affinity="prefer")["moves"][0]
    assert preferred["target"] == "hv2"
    assert preferred["why"].endswith("; it has web2, of the same anti-affinity group web")
    three = {**hosts, "hv3": hypervisor(total_mib=3000)}
    for mode in ("require", "prefer"):
        assert targets(plan(three, source="hv1", anti_affinity=mode)) == {"web1": "hv3"}


def test_two_of_a_group_do_not_meet_in_one_run() -> None:
    both = [record(name, anti_affinity=["web"]) for name in ("web1", "web2")]
    hosts = {"hv1": hypervisor(*both), "hv2": hypervisor(), "hv3": hypervisor()}
    assert sorted(targets(plan(hosts, source="hv1")).values()) == ["hv2", "hv3"]


def test_variables_of_a_hypervisor_are_kept_to() -> None:
    hosts = {
        "hv1": hypervisor(record("web1", 9000, labels=["ssd"]), total_mib=20000),
        "hv2": hypervisor(total_mib=9200),
    }
    settings = {"hv2": {"virt_labels": {"ssd": True}, "virt_memory_ratio": "1.5", "virt_memory_reserve_mib": 512}}
    move = plan(hosts, settings, names=["web1"])["moves"][0]
    assert (move["target"], move["memory_ratio"], move["memory_reserve_mib"]) == ("hv2", 1.5, 512)
    assert "web1" in reasons(plan(hosts, {"hv2": {"virt_labels": "ssd"}}, names=["web1"]))


def test_a_machine_that_lives_twice_stays() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor(record("web1")), "hv3": hypervisor()}
    for result in (plan(hosts, names=["web1"]), plan(hosts, source="hv1")):
        assert result["moves"] == []
        assert reasons(result)["web1"].startswith("it is on hv1 and hv2 at once")


def test_a_machine_that_is_there_already() -> None:
    result = plan({"hv1": hypervisor(record("web1")), "hv2": hypervisor()}, names=["web1"], target="hv1")
    assert [(item["name"], item["why"]) for item in result["there"]] == [("web1", "it is already there")]
    assert (result["moves"], result["stay"]) == ([], [])


def test_one_hypervisor_under_two_names_is_no_reason_to_purge_the_machine() -> None:
    one = hypervisor(record("web1"), name="node1")
    hosts = {"hv1": one, "hv1.example.org": one, "hv2": hypervisor(name="node2")}
    assert reasons(plan(hosts, names=["web1"]))["web1"] == (
        "hv1 and hv1.example.org have it at once, and look like one hypervisor that the inventory has twice: take out "
        "one of these names"
    )
    # Two hypervisors, which both call themselves localhost.
    hosts["hv1.example.org"] = hypervisor(record("web1", uuid="other"), name="node1")
    assert reasons(plan(hosts, names=["web1"]))["web1"].startswith("it is on hv1 and hv1.example.org at once")


def test_who_was_left_out_of_the_run_is_not_said_to_be_silent() -> None:
    left_out = "it was not asked (--limit)"
    hosts = {"hv1": hypervisor(record("web1")), "hv2": left_out, "hv3": hypervisor()}
    assert plan(hosts, names=["web1"])["moves"][0]["refused"] == {"hv2": left_out}
    assert reasons(plan({**hosts, "hv3": left_out}, names=["web1"]))["web1"] == (
        f"fits on no other hypervisor: hv2: {left_out}; hv3: {left_out}"
    )
    for spec, sentence in (
        ({"names": ["db1"]}, f"hv2: {left_out}"),
        ({"names": ["web1"], "target": "hv2"}, f"to: hv2: {left_out}"),
    ):
        with pytest.raises(VirtError) as caught:
            plan(hosts, **spec)
        assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize("pools", [{"pool": "fast"}, {"disks": {"data": {"pool": "fast"}}}])
def test_the_disks_of_a_machine_that_is_there_already_go_to_the_pools_that_are_named(pools: dict[str, t.Any]) -> None:
    here = hypervisor(record("web1"), pools=[pool("default"), pool("fast"), pool("images")])
    result = plan({"hv1": here, "hv2": hypervisor(record("web2"))}, names=["web1", "web2"], target="hv1", **pools)
    assert [(item["name"], item["why"]) for item in result["there"]] == [
        ("web1", "it is already there; its disks go to the pools that are named")
    ]
    # Without a target virt_migrate moves the disks where the machine is.
    assert result["by_source"]["hv1"] == [{"name": "web1"}]
    assert [(item["name"], item["target"]) for item in result["by_source"]["hv2"]] == [("web2", "hv1")]


def test_the_only_hypervisor() -> None:
    assert reasons(plan({"hv1": hypervisor(record("a"))}, source="hv1")) == {"a": "there is no other hypervisor"}


WRONG: list[tuple[dict[str, t.Any], str]] = [
    ({"names": ["wbe1"]}, "there is no machine 'wbe1' on the hypervisors that answered. Did you mean web1?"),
    ({"source": "hv1", "target": "hv1"}, "to: hv1 is the hypervisor to empty. Give another one"),
    ({"names": ["web1"], "target": ["hv2"]}, "to: ['hv2'] is not the name of one hypervisor"),
    ({"source": "hv9"}, "from: unknown hypervisor 'hv9'. Did you mean "),
    ({"source": "hv3"}, f"from: hv3 did not answer: {SILENT}"),
    ({"names": ["web1"], "target": "hv3"}, f"to: hv3 did not answer: {SILENT}"),
    ({"names": ["web1"], "source": "hv1"}, "names: name either machines or one hypervisor to empty"),
    ({}, "names: name either machines or one hypervisor to empty"),
]


@pytest.mark.parametrize(("spec", "text"), WRONG)
def test_a_spec_that_cannot_be_is_one_sentence(spec: dict[str, t.Any], text: str) -> None:
    with pytest.raises(VirtError) as caught:
        plan({"hv1": hypervisor(record("web1")), "hv2": hypervisor(), "hv3": SILENT}, **spec)
    assert str(caught.value).startswith(text)


def test_missing_records_are_an_error() -> None:
    with pytest.raises(VirtError, match=r"hosts\['hv1'\].machines"):
        plan({"hv1": {"host": hypervisor()["host"]}}, source="hv1")


def test_written_and_whole_sizes_round_up() -> None:
    disk = {"target": "vda", "source": "/a", "pool": "default", "size_bytes": 1, "allocation_bytes": 10 * MIB + 1}
    full = [pool("default", 10), pool("images")]
    hosts = {"hv1": hypervisor(record("web1", disks=[disk])), "hv2": hypervisor(pools=full)}
    assert "needs 11 MiB in pool default" in reasons(plan(hosts, names=["web1"]))["web1"]


GROUPS = st.lists(st.sampled_from(["web", "db"]), max_size=2, unique=True)


@st.composite
def clouds(draw: st.DrawFn) -> dict[str, t.Any]:
    hosts: dict[str, t.Any] = {}
    for number in range(draw(st.integers(1, 4))):
        machines = [
            record(
                f"m{number}{letter}", draw(st.integers(1, 4000)), draw(st.integers(1, 4)), anti_affinity=draw(GROUPS)
            )
            for letter in "abcd"[: draw(st.integers(0, 4))]
        ]
        hosts[f"hv{number}"] = draw(st.sampled_from([hypervisor(*machines, total_mib=9000), SILENT]))
    hosts["hv0"] = hosts["hv0"] if isinstance(hosts["hv0"], dict) else hypervisor()
    return hosts


@given(clouds(), st.sampled_from(["spread", "pack"]))
def test_every_machine_is_accounted_for_and_no_hypervisor_gets_too_much(hosts: dict[str, t.Any], policy: str) -> None:
    before = copy.deepcopy(hosts)
    result = plan(hosts, source="hv0", policy=policy)
    assert hosts == before
    assert json.loads(json.dumps(result)) == result
    names = [machine["name"] for machine in hosts["hv0"]["machines"]]
    assert sorted([*targets(result), *reasons(result)]) == sorted(names)
    assert plan(dict(reversed(list(hosts.items()))), source="hv0", policy=policy)["moves"] == result["moves"]
    groups = {machine["name"]: machine["anti_affinity"] for machine in hosts["hv0"]["machines"]}
    for host, answer in hosts.items():
        coming = [move for move in result["moves"] if move["target"] == host]
        if not coming:
            continue
        facts = answer["host"]
        assert facts["memory"]["committed_mib"] + sum(m["memory_mib"] for m in coming) + 256 <= 9000
        there = [g for machine in answer["machines"] for g in machine["anti_affinity"]]
        arrived = [group for move in coming for group in groups[move["name"]]]
        assert len(arrived) == len(set(arrived))
        assert not set(arrived) & set(there)


def test_a_move_that_was_cut_off_after_the_switch_is_finished_where_it_began() -> None:
    moved = {**record("web1"), "moving": {"source": "one.example.org", "target": "two.example.org"}}
    hosts = {"hv1": hypervisor(), "hv2": hypervisor(moved), "hv3": hypervisor(record("db1"))}
    for host, name in (("hv1", "one.example.org"), ("hv2", "two.example.org")):
        hosts[host]["host"]["name"] = name
    assert plan(hosts, names=["db1"])["unfinished"] == {"hv1": [{"name": "web1", "target": "hv2"}]}


MOVING = {"source": "one.example.org", "target": "two.example.org"}
# The note of one that was off when its move began.
OFF = {**MOVING, "running": False}


@pytest.mark.parametrize("target", [None, "hv2", "hv3"])
def test_what_a_killed_move_of_a_stopped_machine_has_defined_elsewhere_is_no_second_life(target: str | None) -> None:
    """virt_migrate removes it, and begins again."""
    half = record("web1", state="shutoff", moving=OFF)
    hosts = {"hv1": hypervisor(half), "hv2": hypervisor(half), "hv3": hypervisor()}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    result = plan(hosts, names=["web1"], target=target)
    assert [(move["name"], move["source"]) for move in result["moves"]] == [("web1", "hv1")]
    assert (result["stay"], result["unfinished"]) == ([], {})
    assert target in (None, result["moves"][0]["target"])


@pytest.mark.parametrize(
    "there",
    [
        {"state": "running", "moving": MOVING},
        {"state": "shutoff", "moving": None},
        {"state": "shutoff", "moving": OFF, "uuid": "another"},
    ],
)
def test_a_copy_that_was_started_or_is_another_machine_is_one(there: dict[str, t.Any]) -> None:
    hosts = {"hv1": hypervisor(record("web1", moving=OFF)), "hv2": hypervisor(record("web1", **there))}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    assert reasons(plan(hosts, names=["web1"]))["web1"].startswith("it is on hv1 and hv2 at once")


@pytest.mark.parametrize("running", [True, None])
@pytest.mark.parametrize("state", ["paused", "shutoff"])
def test_one_that_came_running_and_is_off_now_has_the_newest_disks_there(state: str, running: bool | None) -> None:
    """libvirt's daemon died at the source as it arrived, and the guest has shut down since."""
    moving = {**MOVING, "running": running}
    here, there = record("web1", state=state, moving=moving), record("web1", state="shutoff", moving=moving)
    hosts = {"hv1": hypervisor(here), "hv2": hypervisor(there), "hv3": hypervisor()}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    sentence = (
        "a move to hv2 was interrupted as it arrived there, and it runs on none of hv1, hv2. If it ever ran on hv2, "
        "that has its latest data: virsh start web1 there, and run the move again, with to=hv2. Only if it never did, "
        f"remove it there, and {'resume' if state == 'paused' else 'start'} it on hv1"
    )
    for asked in ({"source": "hv2"}, {"source": "hv1"}, {"names": ["web1"]}):
        assert reasons(plan(hosts, **asked))["web1"] == sentence


def test_one_that_runs_where_it_was_is_not_to_be_started_elsewhere() -> None:
    """As when the source has booted since, and started it."""
    here, there = record("web1", moving=MOVING), record("web1", state="shutoff", moving=MOVING)
    hosts = {"hv1": hypervisor(here), "hv2": hypervisor(there), "hv3": hypervisor()}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    for asked in ({"source": "hv2"}, {"source": "hv1"}, {"names": ["web1"]}):
        assert reasons(plan(hosts, **asked))["web1"] == (
            "it is on hv1 and hv2 at once, and runs on hv1. Find out which of them is the right one, and rename or "
            "purge the other"
        )


@pytest.mark.parametrize("state", ["paused", "shutoff"])
def test_what_the_source_has_not_let_go_of_is_finished_there(state: str) -> None:
    """libvirt's daemon died at the source as the machine arrived; virt_migrate ends it, or says what is against it."""
    here, there = record("web1", state=state, moving=MOVING), record("web1", moving=MOVING)
    hosts = {"hv1": hypervisor(here), "hv2": hypervisor(there), "hv3": hypervisor()}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    result = plan(hosts, names=["web1"], target="hv2")
    assert result["unfinished"] == {"hv1": [{"name": "web1", "target": "hv2"}]}
    assert ([item["name"] for item in result["there"]], result["moves"], result["stay"]) == (["web1"], [], [])


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ({"state": "running"}, {"state": "running"}),
        ({"state": "paused"}, {"state": "paused"}),
        ({"state": "paused"}, {"state": "running", "moving": None}),
        ({"state": "paused"}, {"state": "running", "uuid": "another"}),
    ],
    ids=["up on both", "up on neither", "not in this move", "another machine"],
)
def test_a_source_that_may_be_the_right_one_is_left_alone(here: dict[str, t.Any], there: dict[str, t.Any]) -> None:
    hosts = {
        "hv1": hypervisor(record("web1", **{"moving": MOVING, **here})),
        "hv2": hypervisor(record("web1", **{"moving": MOVING, **there})),
    }
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = MOVING.values()
    result = plan(hosts, names=["web1"], target="hv2")
    assert reasons(result)["web1"].startswith("it is on hv1 and hv2 at once")
    assert result["unfinished"] == {}


def test_a_move_that_was_cut_off_before_the_switch_has_nothing_to_finish() -> None:
    here = {**record("web1"), "moving": {"source": "one.example.org", "target": "two.example.org"}}
    hosts = {"hv1": hypervisor(here), "hv2": hypervisor()}
    hosts["hv1"]["host"]["name"] = "one.example.org"
    assert plan(hosts, names=["web1"])["unfinished"] == {}


def test_a_machine_whose_earlier_move_is_to_be_finished_first_cannot_be_asked_about_ahead() -> None:
    came = {**record("web1"), "moving": {"source": "two.example.org", "target": "one.example.org"}}
    hosts = {"hv1": hypervisor(came, record("web2")), "hv2": hypervisor()}
    hosts["hv1"]["host"]["name"], hosts["hv2"]["host"]["name"] = "one.example.org", "two.example.org"
    result = plan(hosts, source="hv1")
    assert (sorted(targets(result)), result["unfinished"]) == (
        ["web1", "web2"],
        {"hv2": [{"name": "web1", "target": "hv1"}]},
    )
    assert [item["name"] for item in result["ahead"]["hv1"]] == ["web2"]
    there = plan(hosts, names=["web1", "web2"], target="hv1", pool="images")
    assert there["by_source"]["hv1"] == [{"name": "web1"}, {"name": "web2"}]
    assert there["ahead"]["hv1"] == [{"name": "web2"}]
