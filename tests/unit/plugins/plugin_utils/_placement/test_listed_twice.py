# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One hypervisor under two names of the inventory has its memory once: nothing is placed on either, or moved."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.hosts import listed_twice
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.plugins.plugin_utils._placement.place import place
from ansible_collections.brine.virt.plugins.plugin_utils._reports.hypervisors import hypervisors_data, hypervisors_table
from ansible_collections.brine.virt.plugins.plugin_utils._reports.remarks import remarks_on
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._reports.test_hypervisors import facts

UUID = "4c4c4544-0042-3510-8054-b4c04f4d3233"
SENTENCE = "hv1 and hv1b look like one hypervisor that the inventory has twice: take out one of these names"


def hosts(**changes: t.Any) -> dict[str, t.Any]:
    """The facts of hv1 and of hv1b, which is hv1 but for the changes."""
    known = facts(name="kvm1", uuid=UUID, machines=[])["host"]
    return {"hv1": known, "hv1b": {**known, **changes}}


def test_nothing_is_placed() -> None:
    with pytest.raises(ConflictError) as caught:
        place([], [], hosts(), options=PlacementOptions(), places=[])
    assert str(caught.value) == SENTENCE


def test_nothing_is_moved() -> None:
    fleet = {name: {"host": one, "machines": []} for name, one in hosts().items()}
    with pytest.raises(ConflictError) as caught:
        read_fleet(fleet, None, PlacementOptions())
    assert str(caught.value) == SENTENCE


@pytest.mark.parametrize(
    "changes",
    [{"name": "kvm2"}, {"uuid": "4c4c4544-0042-3510-8054-b4c04f4d3234"}, {"uuid": None}, {"name": None}],
)
def test_two_boards_of_one_uuid_and_two_hosts_of_one_name_are_two(changes: dict[str, t.Any]) -> None:
    assert listed_twice(hosts(**changes)) == []
    assert place([], [], hosts(**changes), options=PlacementOptions(), places=[])["assignments"] == []


def test_one_that_did_not_answer_is_none_of_them() -> None:
    assert listed_twice({**hosts(name="kvm2"), "hv3": "no route to host"}) == []


def test_host_info_says_so_below_its_table() -> None:
    results = {name: {"host": one} for name, one in hosts().items()}
    assert hypervisors_table(hypervisors_data(results)).splitlines()[-1] == SENTENCE


def test_list_says_so_first_and_of_each_machine() -> None:
    machines = [{"name": name, "uuid": name * 4, "state": "running"} for name in ("a", "b", "c")]
    twice = "hv1 and hv1b have the same machines, and look like one hypervisor that the inventory has twice: take out "
    first, *of_each = remarks_on({"hv1": machines, "hv1b": machines, "hv2": []})
    assert first == f"{twice}one of these names"
    # They may run on both: that has to be seen.
    assert [remark.partition(":")[0] for remark in of_each] == [
        f"There is a machine {name} on each of hv1, hv1b" for name in ("a", "b", "c")
    ]
    (remark,) = remarks_on({"hv1": machines[:1], "hv2": machines[:1]})
    assert remark.startswith("There is a machine a on each of hv1, hv2: ")
    (remark,) = remarks_on({"hv1": machines, "hv2": [{**machines[0], "uuid": "other"}]})
    assert remark.startswith("There is a machine a on each of hv1, hv2: ")
    # On its way, it is on both with reason.
    moving = [{**machines[0], "moving": {"source": "hv1", "target": "hv2"}}]
    (remark,) = remarks_on({"hv1": moving, "hv2": moving})
    assert "it is being moved" in remark
