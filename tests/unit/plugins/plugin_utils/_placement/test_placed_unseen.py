# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who knows that one machine is not on a hypervisor that does not answer says so of that one, and of no other."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.claims import decide_claims_filter
from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement import clouds

SILENT = "ssh: no route to host"
NAMED: list[t.Any] = ["web1", " web1 ", ["web1"], ("web1",)]


def hypervisor(*machines: dict[str, t.Any]) -> dict[str, t.Any]:
    """The facts of a hypervisor with these machines."""
    facts: dict[str, t.Any] = clouds.hypervisor(*machines)["host"]
    return facts


def new(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "vcpus": 1, "memory": 512, "image": "debian", **more}


def refused(specs: list[dict[str, t.Any]], hosts: dict[str, t.Any], **options: t.Any) -> dict[str, str]:
    """Of the machines that are not placed, why."""
    result = place_filter(specs, hosts, errors="return", **options)
    return {machine["name"]: machine["why"] for machine in result["refused_machines"]}


@pytest.mark.parametrize("unseen", NAMED)
def test_of_two_that_may_be_on_a_silent_hypervisor_the_named_one_is_created(unseen: t.Any) -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    found = refused([new("web1"), new("web2")], hosts, unseen=unseen)
    assert list(found) == ["web2"]
    assert found["web2"].endswith("or place it with -e virt_unseen=web2")


@pytest.mark.parametrize("unseen", [None, "", ",", []])
def test_nothing_is_as_to_refuse(unseen: t.Any) -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    assert list(refused([new("web1")], hosts, unseen=unseen)) == ["web1"]


def test_a_machine_whose_name_is_one_of_the_choices_is_placed_alone() -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    machines = [new("place"), new("web2")]
    assert refused(machines, hosts)["place"].endswith("place it with -e virt_unseen=place,")
    assert list(refused(machines, hosts, unseen="place,")) == ["web2"]


def test_several_are_named_with_commas() -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    assert list(refused([new("web1"), new("web2"), new("web3")], hosts, unseen="web3, web1")) == ["web2"]


@pytest.mark.parametrize("unseen", NAMED)
@pytest.mark.parametrize("entry", [{}, {"hypervisor": "hv1"}])
def test_of_two_that_were_seen_on_one_that_has_left_the_named_one_is_created(unseen: t.Any, entry: t.Any) -> None:
    seen = {"web1": ["hv3"], "web2": ["hv3"]}
    found = refused([new("web1", **entry), new("web2", **entry)], {"hv1": hypervisor()}, last_seen=seen, unseen=unseen)
    assert list(found) == ["web2"]
    assert "add -e virt_unseen=web2. If it is another cloud" in found["web2"]


@pytest.mark.parametrize("unseen", NAMED)
def test_of_two_that_may_run_elsewhere_the_named_one_is_started(unseen: t.Any) -> None:
    off = [{**clouds.record(name), "state": "shutoff"} for name in ("web1", "web2")]
    here = hypervisor(*off)
    for machine in here["machines"]:
        machine["state"] = "shutoff"
    seen = {"web1": ["hv2"], "web2": ["hv2"]}
    found = refused([new("web1"), new("web2")], {"hv1": here, "hv2": SILENT}, last_seen=seen, unseen=unseen)
    assert list(found) == ["web2"]
    assert found["web2"].endswith("place it with -e virt_unseen=web2")


@pytest.mark.parametrize("unseen", NAMED)
@pytest.mark.parametrize("lasting", ["hv2", "hv3"])
def test_of_two_that_are_to_be_removed_the_named_one_counts_as_removed(unseen: t.Any, lasting: str) -> None:
    specs = [{"name": name, "state": "absent"} for name in ("web1", "web2")]
    hosts = {"hv1": hypervisor(), **({"hv2": SILENT} if lasting == "hv2" else {})}
    seen = {"web1": [lasting], "web2": [lasting]}
    result = place_filter(specs, hosts, errors="return", last_seen=seen, unseen=unseen)
    assert result["not_there"] == ["web1"]
    assert [machine["name"] for machine in result["refused_machines"]] == ["web2"]


@pytest.mark.parametrize("unseen", NAMED)
def test_of_two_claims_that_a_hypervisor_says_nothing_of_the_named_one_goes_on(unseen: t.Any) -> None:
    machines = [{"name": "web1"}, {"name": "web2"}]
    plan = {
        "assignments": [{**machine, "hypervisor": "hv1"} for machine in machines],
        "by_host": {"hv1": ["web1", "web2"]},
        "places_by_host": {"hv1": ["virt_vms[0]", "virt_vms[1]"]},
        "new_by_host": {"hv1": machines},
        "refused_machines": [],
    }
    claims = {"hv1": {"web1": "uuid1", "web2": "uuid2"}}
    here = {"hv1": {name: {"uuid": uuid, "claimed": True} for name, uuid in claims["hv1"].items()}}
    decided = decide_claims_filter(plan, claims, here, asked=["hv1", "hv2"], unseen=unseen)
    assert decided["withdraw"] == {"hv1": {"web2": "uuid2"}}


@pytest.mark.parametrize(
    ("unseen", "words"),
    [
        ("ignore", "no machine of this run has the name 'ignore'"),
        (["web9"], "no machine of this run has the name 'web9'"),
        (["place"], "no machine of this run has the name 'place'"),
        (True, "True is not a list of names"),
        ([None], "[None] is not a list of names"),
        ({"web1": 1}, "{'web1': 1} is not a list of names"),
    ],
)
def test_names_that_are_none_are_one_sentence(unseen: t.Any, words: str) -> None:
    for where, name in (("virt_vms", "virt_unseen"), ("mine", "unseen")):
        with pytest.raises(AnsibleFilterError) as caught:
            place_filter([new("web1")], {"hv1": hypervisor()}, unseen=unseen, where=where)
        assert str(caught.value) == f"{name}: {words}. Give the names of machines, or refuse or place"


def test_a_number_is_a_name() -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    for unseen in (5, "5", [5], ["5"]):
        assert list(refused([new("web1"), {**new(""), "name": 5}], hosts, unseen=unseen)) == ["web1"]


def test_one_whose_entry_names_the_silent_hypervisor_waits_for_it_all_the_same() -> None:
    hosts = {"hv1": hypervisor(), "hv2": SILENT}
    assert list(refused([new("web1", hypervisor="hv2")], hosts, unseen="web1")) == ["web1"]
