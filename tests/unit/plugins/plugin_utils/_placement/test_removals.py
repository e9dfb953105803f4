# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are to be removed: found where they are, not placed, and not counted."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.plugins.plugin_utils._placement import removals
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement import clouds
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import record

SILENT = "ssh: no route to host"


def hypervisor(*machines: dict[str, t.Any]) -> dict[str, t.Any]:
    """The facts of a hypervisor with these machines."""
    facts: dict[str, t.Any] = clouds.hypervisor(*machines)["host"]
    return facts


def run(specs: list[dict[str, t.Any]], hosts: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    return place_filter(specs, hosts, errors="return", **options)


def gone(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "state": "absent", **more}


def new(name: str, memory: int = 1024, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "vcpus": 1, "memory": memory, "image": "debian", **more}


def test_they_are_named_by_the_hypervisor_that_has_them_and_not_placed() -> None:
    hosts = {"hv1": hypervisor(record("web1"), record("web2")), "hv2": hypervisor(record("web3"))}
    # The image of a machine that goes does not matter.
    result = run([gone("web3"), gone("web1", image="unheard-of"), gone("web9"), new("web2")], hosts)
    assert result["removals"] == {"hv2": ["web3"], "hv1": ["web1"]}
    assert result["not_there"] == ["web9"]
    assert [item["name"] for item in result["assignments"]] == ["web2"]
    assert (result["by_host"], result["images_by_host"]) == ({"hv1": ["web2"], "hv2": []}, {"hv1": [], "hv2": []})
    assert (result["refused_machines"], result["new_by_host"]) == ([], {"hv1": [], "hv2": []})


def test_without_any_nothing_is_said_of_them() -> None:
    result = run([new("web1")], {"hv1": hypervisor()})
    assert (result["removals"], result["not_there"]) == ({}, [])
    assert "leaving" not in result["decisions"]["hv1"]


def test_their_memory_and_their_groups_are_free_for_others() -> None:
    hosts = {"hv1": hypervisor(record("old", 8000, anti_affinity=["web"]))}
    wanted = new("new", 6000, anti_affinity="web")
    assert run([wanted], hosts)["errors"]
    result = run([wanted, gone("old")], hosts)
    assert [item["hypervisor"] for item in result["assignments"]] == ["hv1"]
    # What is checked again before old has gone knows that.
    assert result["decisions"]["hv1"]["leaving"] == ["old"]
    assert result["decisions"]["hv1"]["memory_mib"] == 8192


def test_one_on_two_hypervisors_is_an_error_unless_its_entry_names_one() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor(record("web1"))}
    assert run([gone("web1")], hosts)["errors"] == [
        "virt_vms[0] (web1): there is a machine 'web1' on each of hv1, hv2. Say which one: hypervisor: hv1; "
        "or wait, if it is being moved"
    ]
    assert run([gone("web1", hypervisor="hv2")], hosts)["removals"] == {"hv2": ["web1"]}


def test_one_that_is_elsewhere_than_its_entry_says_is_an_error() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": hypervisor()}
    assert run([gone("web1", hypervisor="hv2"), gone("web2", hypervisor="hv7")], hosts)["errors"] == [
        "virt_vms[0] (web1): it is on hv1, and hypervisor says hv2. To have it removed, set hypervisor: hv1",
        "virt_vms[1] (web2): unknown hypervisor 'hv7'. Known: hv1, hv2",
    ]


@pytest.mark.parametrize(
    ("options", "entry", "hypervisor_", "words"),
    [
        ({}, {}, "hv2", "hv2, which did not answer"),
        ({}, {"hypervisor": "hv2"}, "hv2", "hv2, which did not answer"),
        ({"unseen": "place"}, {"hypervisor": "hv2"}, "hv2", "hv2, which did not answer"),
        ({"homes": {"web1": "hv2"}}, {}, "hv2", "hv2, which did not answer"),
        # The entry may be older than a move.
        ({"homes": {"web1": "hv2"}}, {"hypervisor": "hv1"}, "hv2", "hv2, which did not answer"),
        ({"last_seen": {"web1": ["hv2"]}}, {"hypervisor": "hv1"}, "hv2", "hv2, which did not answer"),
    ],
)
def test_one_that_may_be_on_a_silent_hypervisor_is_not_said_to_be_gone(
    options: dict[str, t.Any], entry: dict[str, t.Any], hypervisor_: str, words: str
) -> None:
    result = run(
        [gone("web1", **entry), new("web2", hypervisor="hv1")], {"hv1": hypervisor(), "hv2": SILENT}, **options
    )
    assert (result["not_there"], result["removals"]) == ([], {})
    assert result["refused_machines"] == [
        {"name": "web1", "hypervisor": hypervisor_, "why": f"it is to be removed, and may be on {words}"}
    ]
    assert [item["name"] for item in result["assignments"]] == ["web2"]


@pytest.mark.parametrize(
    ("options", "entry"),
    [
        ({"unseen": "place"}, {}),
        ({}, {"hypervisor": "hv1"}),
        ({"unseen": "place", "last_seen": {"web1": ["hv2"]}}, {"hypervisor": "hv1"}),
    ],
)
def test_the_user_may_say_that_it_is_not_there(options: dict[str, t.Any], entry: dict[str, t.Any]) -> None:
    result = run([gone("web1", **entry)], {"hv1": hypervisor(), "hv2": SILENT}, **options)
    assert (result["not_there"], result["refused_machines"]) == (["web1"], [])


def test_one_that_was_seen_where_nobody_asks_any_more_is_not_said_to_be_gone() -> None:
    seen = {"last_seen": {"web1": ["hv1", "hv3"], "web2": ["hv1"]}}
    result = run([gone("web1"), gone("web2")], {"hv1": hypervisor()}, **seen)
    assert (result["not_there"], result["removals"]) == (["web2"], {})
    assert result["refused_machines"] == [
        {
            "name": "web1",
            "hypervisor": None,
            "why": "it is to be removed, and was seen on hv3, which is not among the hypervisors now. Put that "
            "hypervisor back into the inventory. If it never comes back, take it out for good: brine.virt.retire "
            "-e from=hv3 -e lost=true. If it has another name now, or you know that the machine is not there, add "
            "-e virt_unseen=web1. If it is another cloud that has a machine of this name there, give each cloud its "
            "own file of host keys: known_hosts of its live inventory, and virt_known_hosts",
        }
    ]
    # The entry may be older than a move.
    again = run([gone("web1", hypervisor="hv1"), gone("web2")], {"hv1": hypervisor()}, **seen)
    assert (again["not_there"], again["refused_machines"]) == (["web2"], result["refused_machines"])
    # It is here after all, or the user knows.
    here = run([gone("web1")], {"hv1": hypervisor(record("web1"))}, **seen)
    assert (here["removals"], here["refused_machines"]) == ({"hv1": ["web1"]}, [])
    for entry in ({}, {"hypervisor": "hv1"}):
        result = run([gone("web1", **entry)], {"hv1": hypervisor()}, unseen="place", **seen)
        assert (result["not_there"], result["refused_machines"]) == (["web1"], [])
    # One that is only silent is named for that.
    result = run([gone("web1")], {"hv1": hypervisor(), "hv3": SILENT}, **seen)
    assert result["refused_machines"][0]["why"].endswith("may be on hv3, which did not answer")


def test_one_that_answers_is_removed_whoever_else_is_silent() -> None:
    result = run([gone("web1")], {"hv1": hypervisor(record("web1")), "hv2": SILENT})
    assert (result["removals"], result["refused_machines"]) == ({"hv1": ["web1"]}, [])


def test_one_whose_namesake_is_on_a_silent_hypervisor_is_not_removed_by_chance() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": SILENT}
    result = run([gone("web1")], hosts, homes={"web1": "hv2"})
    assert (result["removals"], result["not_there"]) == ({}, [])
    assert result["refused_machines"] == [
        {
            "name": "web1",
            "hypervisor": None,
            "why": "it is to be removed, and is on hv1, but was on hv2 when the inventory was read, which did not "
            "answer: there may be two of this name. Set hypervisor: hv1 if that one is to go",
        }
    ]
    for options, entry in (({}, {"hypervisor": "hv1"}), ({"unseen": "place"}, {})):
        result = run([gone("web1", **entry)], hosts, homes={"web1": "hv2"}, **options)
        assert (result["removals"], result["refused_machines"]) == ({"hv1": ["web1"]}, [])


def test_one_that_is_known_on_a_silent_hypervisor_is_not_removed_elsewhere() -> None:
    hosts = {"hv1": hypervisor(record("web1")), "hv2": SILENT, "hv3": SILENT}
    seen = {"last_seen": {"web1": ["hv1", "hv2", "hv3"]}}
    result = run([gone("web1")], hosts, homes={"web1": "hv1"}, **seen)
    assert (result["removals"], result["not_there"]) == ({}, [])
    (refused,) = result["refused_machines"]
    assert refused["why"] == (
        "it is to be removed, and is on hv1, but was seen on hv2 and hv3 before, which did not answer: there may be "
        "two of this name. Set hypervisor: hv1 if that one is to go"
    )
    # It is said which one is meant; it was seen on one that has left, and all others answer.
    heard = {"hv1": hypervisor(record("web1")), "hv2": hypervisor()}
    elsewhere = {"last_seen": {"web1": ["hv1", "hv9"]}}
    for entry, there, known in (({"hypervisor": "hv1"}, hosts, seen), ({}, heard, elsewhere)):
        result = run([gone("web1", **entry)], there, **known)
        assert (result["removals"], result["refused_machines"]) == ({"hv1": ["web1"]}, [])
    (refused,) = run([gone("web1")], hosts, **elsewhere)["refused_machines"]
    assert refused["why"] == (
        "it is to be removed, and is on hv1, but was seen on hv9 before, which is not among the hypervisors now, and "
        "hv2 or hv3, which did not answer, may be the same one: there may be two of this name. Set hypervisor: hv1 if "
        "that one is to go"
    )


def test_those_that_are_to_be_off_are_named() -> None:
    hosts = {"hv1": hypervisor(record("a"), record("b"), record("c"))}
    result = run([new("a", state="stopped"), new("b", state="present"), new("c"), gone("d")], hosts)
    assert (result["stopped"], result["not_started"]) == (["a"], ["a", "b"])


def test_what_is_not_to_be_removed_is_nobodys_here() -> None:
    assert removals.find_removals([], {}, {}, t.cast("t.Any", None), {}, []) == removals.Removals()


@pytest.mark.parametrize("known", [{"homes": {"web1": "hv2"}}, {"last_seen": {"web1": ["hv1", "hv2"]}}])
def test_a_machine_that_is_off_and_may_run_on_a_silent_hypervisor_is_not_started(known: dict[str, t.Any]) -> None:
    """What is here may be an old definition of it."""
    off, up = hypervisor(record("web1")), hypervisor(record("web1"))
    off["machines"][0]["state"], up["machines"][0]["state"] = "shutoff", "running"
    hosts = {"hv1": off, "hv2": SILENT}
    result = run([new("web1")], hosts, **known)
    assert result["refused_machines"] == [
        {
            "name": "web1",
            "hypervisor": "hv1",
            "why": "it is off on hv1, and may run on hv2, where it was seen before, and which did not answer: started "
            "here as well, it would run twice. Bring hv2 back. If it is lost, take it out for good: "
            "brine.virt.retire -e from=hv2 -e lost=true. If you know that the machine is not there, place it with "
            "-e virt_unseen=web1",
        }
    ]
    assert result["by_host"]["hv1"] == []
    # The entry may be older than a move.
    assert run([new("web1", hypervisor="hv1")], hosts, **known)["by_host"]["hv1"] == []
    # What runs here runs here; what is not to be started may be changed; and the user may know.
    for there, entry, options in (
        ({**hosts, "hv1": up}, {}, {}),
        (hosts, {"state": "stopped"}, {}),
        (hosts, {}, {"unseen": "place"}),
        ({**hosts, "hv2": hypervisor()}, {}, {}),
    ):
        wanted = {**new("web1"), **entry}
        assert run([wanted], there, **known, **options)["by_host"]["hv1"] == ["web1"]
