# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules said in check mode against the lists of the role virt_hypervisor."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.plugin_utils._resource_mistakes import resource_refusals

LISTS: dict[str, t.Any] = {
    "v_pools": [{"name": "data", "path": "/data/vm[1]/"}, {"name": "old", "path": "/old", "state": "inactive"}],
    "v_volumes": [{"name": "a", "pool": "data"}, {"name": "b", "pool": "old"}, {"name": "c", "path": "/data/vm[1]/x"}],
}


def test_the_name_of_the_variable_stands_in_place_of_the_option() -> None:
    said = "networks[1].addresses[0]: 192.0.2.129/25 overlaps network default\nnetworks[2]: no"
    assert resource_refusals({"v_networks": {"msg": said}}, {}) == [
        "v_networks[1].addresses[0]: 192.0.2.129/25 overlaps network default",
        "v_networks[2]: no",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"msg": ""},
        {"msg": None},
        {"msg": "cannot connect to qemu:///system: Failed to connect socket"},
        {"msg": "my_networks[0]: another option"},
        {"msg": "pools[0]: of another module"},
    ],
)
def test_what_names_no_item_is_no_mistake_in_the_list(answer: dict[str, t.Any]) -> None:
    assert resource_refusals({"v_networks": answer}, {"v_networks": []}) == []


@pytest.mark.parametrize(
    ("place", "waits"),
    [
        ("volumes[0].pool", True),
        ("volumes[0].path", False),
        ("volumes[0].size", False),
        ("volumes[1].pool", False),
        ("volumes[2].path", True),
        ("volumes[2].pool", False),
        ("volumes[10].pool", False),
    ],
)
def test_a_volume_waits_for_a_pool_that_is_to_come(place: str, waits: bool) -> None:
    found = resource_refusals({"v_volumes": {"msg": f"{place}: there is none"}}, LISTS)
    assert found == ([] if waits else [f"v_{place}: there is none"])


def test_a_volume_that_names_no_pool_waits_for_the_default_one() -> None:
    lists = {"v_pools": [{"name": "default"}], "v_volumes": [{"name": "a"}]}
    assert resource_refusals({"v_volumes": {"msg": "volumes[0].pool: there is none"}}, lists) == []


@pytest.mark.parametrize(
    ("answers", "lists"), [([], {}), ({}, []), ({"v_bridges": {"msg": ""}}, {}), ({"pools": {"msg": ""}}, {})]
)
def test_what_is_no_answer_is_refused(answers: t.Any, lists: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="resource_refusals: "):
        resource_refusals(answers, lists)
