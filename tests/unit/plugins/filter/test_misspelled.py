# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misspelled variables of roles that a play names: their defaults are among the variables that there are."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.filter.misspelled import misspelled

KNOWN = ("virt_hypervisor_pools", "virt_hypervisor_firewall", "virt_tls_names")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("virt_hypervisor_pool", "virt_hypervisor_pools"), ("virt_hypervisor_firewal", "virt_hypervisor_firewall")],
)
def test_it_is_named_although_the_right_one_has_its_default(name: str, meant: str) -> None:
    assert misspelled([*KNOWN, name], KNOWN) == [f"{name}: unknown variable. Did you mean {meant}?"]


def test_what_is_known_or_far_from_it_is_not() -> None:
    assert misspelled([*KNOWN, "virt_hypervisor", "virt_hypervisors", "virt_site", "pools"], KNOWN) == []


def test_nearest_to_one_that_is_there_is_not_another_one() -> None:
    assert misspelled(["virt_nics_profiles", "virt_nic_profiles"]) == []
    (sentence,) = misspelled(["virt_nics_profiles"])
    assert sentence.endswith("Did you mean virt_nic_profiles?")
