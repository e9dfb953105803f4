# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.place as a template calls it."""

from __future__ import annotations

import inspect
import typing as t

import pytest
import yaml
from ansible._internal._templating._utils import Omit
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.place import DOCUMENTATION, FilterModule, place_filter

HOST = {
    "memory": {"total_mib": 4096, "committed_mib": 0},
    "vcpus": {"total": 4, "committed": 0},
    "pools": [{"name": "default", "active": True, "available_mib": 100_000}],
    "bridges": ["br0", "service_br"],
}
VMS = [{"name": "web1", "vcpus": 1, "memory": 1024, "nic_profile": "service"}]
PROFILES = {"service": {"eth0": {"bridge": "service_br"}}}


def test_plain_data_comes_back() -> None:
    result = place_filter(VMS, {"hv1": HOST, "hv2": "no route"}, nic_profiles=PROFILES, unseen="place")
    assert result["by_host"] == {"hv1": ["web1"]}
    assert result["silent"] == {"hv2": "no route"}


def test_what_is_wrong_is_one_sentence_with_its_place_in_the_users_list() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        place_filter([{"name": "a", "vcpus": 1, "memroy": 1}], {"hv1": HOST})
    assert str(caught.value) == "virt_vms[0]: unknown option 'memroy'. Did you mean memory?"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"policy": "best"}, "policy: 'best' is not a choice. Choose spread or pack"),
        ({"vcpu_ratio": "many"}, "vcpu_ratio: 'many' is not a number"),
        ({"memory_reserve_mib": None}, "memory_reserve_mib: None is not a number"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, t.Any], text: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        place_filter(VMS, {"hv1": HOST}, nic_profiles=PROFILES, **options)
    assert str(caught.value) == text


def test_mistakes_come_back_as_data_on_request_the_written_and_the_impossible_at_once() -> None:
    machines = [
        {"name": "a", "vcpus": 1, "memroy": 1},
        *VMS,
        {"name": "c", "vcpus": 1, "memory": "1MiB", "hypervisor": "x"},
    ]
    result = place_filter(machines, {"hv1": {**HOST, "bridges": ["br0"]}}, nic_profiles=PROFILES, errors="return")
    assert result == {
        "errors": [
            "virt_vms[0]: unknown option 'memroy'. Did you mean memory?",
            "virt_vms[1] (web1): fits no hypervisor: hv1: has no bridge service_br (has br0)",
            "virt_vms[2] (c): unknown hypervisor 'x'. Known: hv1",
        ]
    }
    assert place_filter(VMS, {"hv1": HOST}, nic_profiles=PROFILES, errors="return")["errors"] == []
    with pytest.raises(AnsibleFilterError, match="errors: 'hide' is not a choice. Choose raise or return"):
        place_filter(VMS, {"hv1": HOST}, errors="hide")


@pytest.mark.parametrize("option", ["images", "disk_profiles", "nic_profiles"])
def test_a_password_in_an_address_is_not_repeated(option: str) -> None:
    wrong: dict[str, t.Any] = {option: "https://me:hunter22@h/a.qcow2"}
    (error,) = place_filter([{"name": "a", "vcpus": 1, "memory": "1MiB"}], {"hv1": HOST}, errors="return", **wrong)[
        "errors"
    ]
    assert "'https://me:********@h/a.qcow2' is not a mapping" in error


def test_an_option_may_be_omitted_as_in_a_task() -> None:
    machine = {
        "name": "web1",
        "vcpus": 1,
        "memory": 1024,
        "image": Omit,
        "hypervisor": Omit,
        "nic_profile": Omit,
        "disks": [{"name": "data", "size": "1GiB", "pool": Omit}, Omit],
        "seed": {"timezone": Omit, "packages": ["nginx", Omit]},
    }
    result = place_filter(
        [machine],
        {"hv1": HOST},
        nic_profiles={"default": {"eth0": {"bridge": "br0", "mac": Omit}}},
        seed_defaults={"locale": Omit},
        images={"debian": {"src": "x", "checksum": Omit}},
        errors="return",
    )
    assert result["errors"] == []
    assert result["by_host"] == {"hv1": ["web1"]}


def test_an_image_may_be_called_by_a_number() -> None:
    machines = [{"name": "a", "vcpus": 1, "memory": "1MiB", "image": 13, "nic_profile": None}]
    pools = [*HOST["pools"], {"name": "images", "active": True, "available_mib": 100_000}]
    placed = place_filter(machines, {"hv1": {**HOST, "pools": pools}}, images={13: {"src": "x"}}, errors="return")
    assert placed["errors"] == []
    assert placed["images_by_host"] == {"hv1": [13]}


@pytest.mark.parametrize("seed", [{"usr": "x"}, {"method": "guestfs", "packages": ["vim"]}])
def test_the_defaults_of_seeds_are_named_by_the_variable_that_the_role_takes_them_from(seed: dict[str, t.Any]) -> None:
    machines = [{"name": "a", "vcpus": 1, "memory": "1MiB"}]
    (error,) = place_filter(machines, {"hv1": HOST}, seed_defaults=seed, errors="return")["errors"]
    assert error.startswith("virt_seed")


def test_machines_that_are_not_to_be_started_are_named() -> None:
    machines = [
        {"name": name, "vcpus": 1, "memory": "1MiB", "start": start} for name, start in (("a", "no"), (12, False))
    ]
    machines.append({"name": "b", "vcpus": 1, "memory": "1MiB"})
    assert place_filter(machines, {"hv1": HOST})["not_started"] == ["a", "12"]


def test_a_single_machine_stands_in_no_list() -> None:
    vm = {"name": "a", "vcpus": 1, "memory": "9TiB"}
    (error,) = place_filter([vm], {"hv1": HOST}, where="", errors="return")["errors"]
    assert error.startswith("a: fits no hypervisor")
    (error,) = place_filter([{**vm, "memory": "9 parsecs"}], {"hv1": HOST}, where="", errors="return")["errors"]
    assert error.startswith("memory: '9 parsecs'")


def test_machines_carry_their_places_to_their_hypervisors() -> None:
    machines = [
        {**VMS[0], "name": name, "hypervisor": host} for name, host in (("a", "hv2"), ("b", "hv1"), ("c", "hv2"))
    ]
    result = place_filter(machines, {"hv1": HOST, "hv2": HOST}, nic_profiles=PROFILES)
    assert result["places_by_host"] == {"hv1": ["virt_vms[1]"], "hv2": ["virt_vms[0]", "virt_vms[2]"]}


def test_where_a_machine_lived_when_the_inventory_was_made_counts_while_that_hypervisor_is_silent() -> None:
    hosts = {"hv1": HOST, "hv2": "it was not asked (--limit)"}
    machines = [{"name": "a", "vcpus": 1, "memory": 1024}, {"name": "b", "vcpus": 1, "memory": 1024}]
    refused = place_filter(machines, hosts, homes={"a": "hv2", "b": "hv1"})["refused_machines"]
    assert [(item["name"], item["hypervisor"]) for item in refused] == [("a", "hv2"), ("b", None)]
    assert refused[0]["why"].startswith("it is on hv2, as the inventory says, which was not asked (--limit)")
    assert refused[1]["why"].startswith("it may be on hv2, which was not asked (--limit); created on another one")
    assert "Run it without --limit, or name this" in refused[1]["why"]
    (refused_one,) = place_filter([{**machines[0], "hypervisor": "hv2"}], hosts)["refused_machines"]
    assert refused_one["why"] == "it is meant for hv2, which was not asked (--limit)"
    placed = place_filter([{**machines[0], "hypervisor": "hv1"}], hosts, nic_profiles=PROFILES)
    assert placed["assignments"][0]["refused"] == {"hv2": "it was not asked (--limit)"}
    # Of several, some may be down besides.
    (refused_one,) = place_filter(machines[:1], {**hosts, "hv3": "no route to host"})["refused_machines"]
    assert "it may be on hv2 or hv3, which did not answer or was not asked (--limit); " in refused_one["why"]
    assert "Bring that hypervisor back" in refused_one["why"]


def test_options_may_be_texts_as_extra_variables_are() -> None:
    assert place_filter(VMS, {"hv1": HOST}, nic_profiles=PROFILES, vcpu_ratio="0.25", memory_reserve_mib="3072")


def test_a_profile_is_named_by_the_variable_that_the_role_takes_it_from() -> None:
    profiles = {"p": {"eth0": {"model": "pcnet"}}}
    spec = {"name": "a", "vcpus": 1, "memory": "1MiB", "nic_profile": "p"}
    with pytest.raises(AnsibleFilterError, match=r"^virt_nic_profiles\.p\.eth0\.model: 'pcnet' is not a choice"):
        place_filter([spec], {}, nic_profiles=profiles)
    with pytest.raises(AnsibleFilterError, match=r"^nic_profiles\.p\.eth0\.model: "):
        place_filter([spec], {}, nic_profiles=profiles, where="mine")


ODD_NIC: dict[str, t.Any] = {"nics": [{"name": "eth0", "bridge": "br0", "model": "pcnet"}]}
ODD: list[dict[str, t.Any]] = [
    ODD_NIC,
    {"nics": {"eth0": {"type": "hostdev", "source": "0000:03:00.1"}}},
    {"disks": [{"name": "hda", "model": "ide", "source": "/elsewhere/odd.img"}]},
    {"disks": {"hda": {"cache": "none"}}, "disk_profile": None},
    {"video": "vmvga", "watchdog": {"model": "diag288"}},
    {"vcpus": 4, "cpu": {"topology": {"cores": 2}}},
]


def known(name: str = "old", **more: t.Any) -> dict[str, t.Any]:
    return {**HOST, "machines": [{"name": name, "uuid": "u", "vcpus": 1, "memory_mib": 512, **more}]}


@pytest.mark.parametrize("odd", ODD, ids=[",".join(odd) for odd in ODD])
def test_what_is_offered_for_no_new_machine_is_left_to_the_hypervisor_of_an_existing_one(odd: dict[str, t.Any]) -> None:
    old = {"name": "old", "vcpus": 1, "memory": 512, "nic_profile": None, **odd}
    assert place_filter([old], {"hv1": known()})["by_host"] == {"hv1": ["old"]}
    for new, hosts in (({**old, "name": "new"}, known()), (old, known(building=True)), (old, HOST)):
        (first, *_rest) = place_filter([new], {"hv1": hosts}, errors="return")["errors"]
        assert first.startswith("virt_vms[0].")


def test_of_a_machine_on_a_hypervisor_that_does_not_answer_it_is_left_for_later() -> None:
    old = {"name": "old", "vcpus": 1, "memory": 512, **ODD_NIC}
    hosts = {"hv1": HOST, "hv2": "no route"}
    for seen in ({"homes": {"old": "hv2"}}, {"last_seen": {"old": ["hv3"]}}):
        placed = place_filter([old], hosts, errors="return", **t.cast("dict[str, t.Any]", seen))
        assert [item["name"] for item in placed["refused_machines"]] == ["old"]
    placed = place_filter([old], hosts, errors="return", homes={"old": "hv1"})
    assert placed["errors"][0].startswith("virt_vms[0].nics[0].model: 'pcnet' is not a choice")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"vcpus": "many"}, "virt_vms[0].vcpus: 'many' is not allowed"),
        ({"memory": {"maximum": "lots"}}, "virt_vms[0].memory.maximum: 'lots' is not a size"),
        ({"nics": [{"name": "eth0", "modle": "pcnet"}]}, "virt_vms[0].nics[0]: unknown option 'modle'"),
        ({"vido": "vmvga"}, "virt_vms[0]: unknown option 'vido'"),
        ({"hypervisor": "hv9"}, "virt_vms[0] (old): unknown hypervisor 'hv9'"),
    ],
)
def test_what_no_machine_can_have_is_named_of_an_existing_one_as_well(wrong: dict[str, t.Any], words: str) -> None:
    old = {"name": "old", "vcpus": 1, "memory": 512, "nic_profile": None, **wrong}
    (error,) = place_filter([old], {"hv1": known()}, errors="return")["errors"]
    assert error.startswith(words)


def test_the_documentation_names_every_argument_with_its_default() -> None:
    options = yaml.safe_load(DOCUMENTATION)["options"]
    arguments = list(inspect.signature(FilterModule().filters()["place"]).parameters.values())[1:]
    assert {a.name: None if a.default is a.empty else a.default for a in arguments} == {
        name: option.get("default") for name, option in options.items() if name != "_input"
    }


def test_a_machine_that_is_there_needs_a_name_alone() -> None:
    old = {"name": "old", "uuid": "1", "memory_mib": 1024, "vcpus": 2}
    hosts: dict[str, t.Any] = {"hv1": {**HOST, "machines": [old]}, "hv2": "no route"}
    specs = [{"name": "old", "state": "stopped"}]
    result = place_filter(specs, hosts)
    assert (result["by_host"], result["stopped"], result["new_by_host"]) == ({"hv1": ["old"]}, ["old"], {"hv1": []})
    missing = ["virt_vms[0]: vcpus is missing. A new machine needs name, vcpus and memory"]
    unfinished = {"hv1": {**HOST, "machines": [{**old, "building": True}]}, "hv2": "no route"}
    for there, homes in ((hosts, {"new": "hv2"}), (unfinished, {"old": "hv2"})):
        specs = [{"name": next(iter(homes)), "state": "stopped"}]
        assert place_filter(specs, there, errors="return", unseen="place", homes=homes) == {"errors": missing}
    # One that may be on a hypervisor which does not answer.
    (refused,) = place_filter([{"name": "new"}], hosts, homes={"new": "hv2"})["refused_machines"]
    assert refused["why"].startswith("it is on hv2, as the inventory says, which did not answer")
