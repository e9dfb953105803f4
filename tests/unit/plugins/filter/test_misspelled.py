# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misspelled variables of roles that a play names: their defaults are among the variables that there are."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.misspelled import misspelled

COLLECTION = Path(__file__).resolve().parents[4]
KNOWN = ("virt_hypervisor_pools", "virt_hypervisor_firewall", "virt_tls_names")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("virt_hypervisor_pool", "virt_hypervisor_pools"), ("virt_hypervisor_firewal", "virt_hypervisor_firewall")],
)
def test_it_is_named_although_the_right_one_has_its_default(name: str, meant: str) -> None:
    assert misspelled([*KNOWN, name], KNOWN) == [f"{name}: unknown variable. Did you mean {meant}?"]


def test_what_is_known_or_far_from_it_is_not() -> None:
    assert misspelled([*KNOWN, "virt_hypervisor", "virt_hypervisors", "virt_site", "pools"], KNOWN) == []


@pytest.mark.parametrize("role", ["virt_hypervisor", "virt_bridge", "virt_tls"])
def test_no_variable_of_the_collection_is_taken_for_a_misspelled_one(role: str) -> None:
    words: set[str] = set()
    for folder in ("roles", "playbooks"):
        for path in (COLLECTION / folder).rglob("*.yml"):
            words |= set(re.findall(r"\bvirt_[a-z_]*[a-z]\b", path.read_text(encoding="utf-8")))
    specs = yaml.safe_load((COLLECTION / f"roles/{role}/meta/argument_specs.yml").read_text(encoding="utf-8"))
    known = list(specs["argument_specs"]["main"]["options"])
    assert len(words) > 300 and words.issuperset(known)
    assert words.issuperset({"virt_hypervisors", "virt_hypervisor"})
    assert misspelled(sorted(words), known) == []


def test_nearest_to_one_that_is_there_is_not_another_one() -> None:
    assert misspelled(["virt_nics_profiles", "virt_nic_profiles"]) == []
    (sentence,) = misspelled(["virt_nics_profiles"])
    assert sentence.endswith("Did you mean virt_nic_profiles?")


def test_the_hosts_that_have_it_are_named() -> None:
    names = {
        "hv1": ["virt_labels", "virt_memory_ration"],
        "hv2": ["virt_label", "virt_memory_ration"],
        # Of their own, beside the right one.
        "hv3": ["virt_label", "virt_labels", "virt_memory_ration"],
    }
    ration = "virt_memory_ration: unknown variable. Did you mean virt_memory_ratio?"
    assert misspelled(names) == [ration, "virt_label: unknown variable. Did you mean virt_labels? (hv2)"]
    assert misspelled(names, everywhere=["virt_memory_ratio", "virt_label"]) == [
        "virt_label: unknown variable. Did you mean virt_labels? (hv2)"
    ]
    assert misspelled({"hv1": [], "hv2": ["virt_tls_name"]}, KNOWN) == [
        "virt_tls_name: unknown variable. Did you mean virt_tls_names? (hv2)"
    ]


def test_a_hypervisor_that_is_a_machine_itself_has_what_the_live_inventory_says() -> None:
    machine = ["virt_uuid", "virt_image", "virt_hypervisor"]
    assert misspelled({"hv1": machine, "hv2": ["virt_image"]}) == [
        "virt_image: unknown variable. Did you mean virt_images? (hv2)"
    ]


@pytest.mark.parametrize("names", ["virt_label", 5, {"virt_label": ["ssd"], "virt_site": "prague"}])
def test_what_are_no_names_is_refused(names: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not a list of names"):
        misspelled(names)
