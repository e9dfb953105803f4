# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters by which the role virt_provision keeps to the start order of machines of several hypervisors."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.start_turns import FilterModule
from ansible_collections.brine.virt.plugins.plugin_utils._start_turns import held_back, joined_results, start_turns

FILTERS = FilterModule().filters()


def machine(name: str, **more: t.Any) -> dict[str, t.Any]:
    """What virt_init says of a machine that stays as it is."""
    nothing = {"changed": False, "failed": False, "created": False, "actions": [], "pending": [], "seconds": 0.0}
    return {"name": name, "restart_required": False, "outdated": [], **nothing, **more}


def starts(name: str, order: int | None, **more: t.Any) -> dict[str, t.Any]:
    return machine(name, changed=True, actions=[f"start {name}"], order=order, delay_seconds=0, **more)


CHECKED: dict[str, t.Any] = {
    "hv1": {"machines": [starts("web1", 20), machine("up1"), starts("any1", None)]},
    "hv2": {"machines": [starts("db2", 1), starts("12", 1), starts("app2", 20)]},
    "hv3": {"machines": [machine("up3")]},
    "hv4": {"failed": True, "msg": "no answer"},
}
BY_HOST: dict[str, list[t.Any]] = {
    "hv1": ["any1", "up1", "web1"],
    # As YAML reads it.
    "hv2": ["db2", 12, "app2"],
    "hv3": ["up3"],
    "hv4": ["web4"],
    "hv5": [],
}


def test_who_starts_in_which_turn() -> None:
    assert start_turns(CHECKED, BY_HOST) == [
        {"starts": {"hv2": ["db2", 12]}, "held": {"hv1": ["web1", "any1"], "hv2": ["app2"]}},
        {"starts": {"hv1": ["web1"], "hv2": ["app2"]}, "held": {"hv1": ["any1"]}},
        {"starts": {"hv1": ["any1"]}, "held": {}},
    ]


@pytest.mark.parametrize(
    ("checked", "by_host"),
    [
        ({}, {}),
        # The module keeps to the order of one hypervisor.
        ({"hv2": CHECKED["hv2"], "hv3": CHECKED["hv3"]}, BY_HOST),
        (CHECKED, {**BY_HOST, "hv1": []}),
        # Nobody waits.
        (CHECKED, {"hv1": ["web1"], "hv2": ["app2"]}),
        ({"hv1": {"machines": [starts("web1", None)]}, "hv2": {"machines": [starts("app2", None)]}}, BY_HOST),
        # Another one runs, or cannot be started.
        ({"hv1": {"machines": [machine("web1")]}, "hv2": CHECKED["hv2"]}, BY_HOST),
        ({"hv1": {"machines": [starts("web1", 5, failed=True)]}, "hv2": CHECKED["hv2"]}, BY_HOST),
    ],
)
def test_nobody_waits_for_another_hypervisor(checked: dict[str, t.Any], by_host: dict[str, t.Any]) -> None:
    assert start_turns(checked, by_host) == []


def test_some_are_not_started_yet() -> None:
    machines: list[dict[str, t.Any]] = [
        {"name": "a"},
        {"name": 12, "start": True, "memory": "1MiB"},
        {"name": "c", "state": "running", "order": 1},
    ]
    assert held_back(machines, []) == machines
    assert held_back(machines, [12, "c", "d"]) == [
        {"name": "a"},
        {"name": 12, "memory": "1MiB", "state": "present"},
        {"name": "c", "state": "present", "order": 1},
    ]


def test_two_turns_are_one_result() -> None:
    new = ["define machine web1"]
    first = machine("web1", changed=True, created=True, actions=new, seconds=4.06, machine={"state": "shutoff"})
    second = {**starts("web1", 20), "seconds": 1.0, "machine": {"state": "running"}}
    waits = machine("db1", pending=["memory"], restart_required=True)
    joined = joined_results(
        {"machines": [second, machine("db1", pending=["memory", "vcpus"])], "changed": True},
        {"machines": [machine("up1"), waits, first], "changed": True, "failed": False, "diff": []},
        ["web1", "db1"],
    )
    assert joined == {
        "machines": [
            machine("up1"),
            {**waits, "pending": ["memory", "vcpus"]},
            {**second, "created": True, "actions": [*new, "start web1"], "seconds": 5.1},
        ],
        "changed": True,
        "failed": False,
        "diff": [],
    }


def test_one_that_fails_in_its_turn() -> None:
    before = {"machines": [machine("up1"), machine("web1", changed=True, created=True), machine("12")]}
    later = machine("web1", failed=True, msg="cannot start machine web1")
    joined = joined_results({"machines": [later], "failed": True}, before, ["web1"])
    assert (joined["changed"], joined["failed"]) == (True, True)
    assert joined["machines"] == [machine("up1"), {**later, "changed": True, "created": True}, machine("12")]
    # The whole task may fail.
    for failed, why in (
        ({"failed": True, "msg": "no lock"}, "no lock"),
        ({}, "its hypervisor did not say"),
    ):
        joined = joined_results(failed, before, ["web1", 12])
        assert joined["machines"][0] == machine("up1")
        assert [(one["failed"], one["msg"].startswith(why)) for one in joined["machines"][1:]] == [(True, True)] * 2
        assert joined["machines"][1]["created"]
    # Or be skipped.
    assert joined_results({"skipped": True}, before, [])["machines"] == before["machines"]


def test_what_is_no_result() -> None:
    with pytest.raises(AnsibleFilterError, match=r"^brine\.virt\.start_turns: the input is not a mapping"):
        FILTERS["start_turns"]([], {})
    with pytest.raises(AnsibleFilterError, match=r"^brine\.virt\.joined_results: that is not the registered result"):
        FILTERS["joined_results"]({}, [], [])
