# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are no longer where they were seen, while a hypervisor says nothing: they may be there."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement import clouds

SILENT = "ssh: no route to host"
SEEN = {"web1": ["hv1"]}


def hypervisor(*machines: dict[str, t.Any], **change: t.Any) -> dict[str, t.Any]:
    """The facts of a hypervisor with these machines. change: what is said of each of them."""
    facts: dict[str, t.Any] = clouds.hypervisor(*machines)["host"]
    for machine in facts["machines"]:
        machine.update(change)
    return facts


def run(entry: dict[str, t.Any], hosts: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    spec = {"name": "web1", "vcpus": 1, "memory": 512, "image": "debian", **entry}
    return place_filter([spec], hosts, errors="return", **options)


def why(entry: dict[str, t.Any], hosts: dict[str, t.Any], **options: t.Any) -> str:
    (refused,) = run(entry, hosts, **options)["refused_machines"]
    return str(refused["why"])


@pytest.mark.parametrize("known", [{"last_seen": SEEN}, {"homes": {"web1": "hv1"}}])
def test_an_entry_that_names_where_it_was_does_not_create_it_twice(known: dict[str, t.Any]) -> None:
    """Somebody else has moved it, and nobody knows where to."""
    hosts, entry = {"hv1": hypervisor(), "hv2": hypervisor(), "hv3": SILENT}, {"hypervisor": "hv1"}
    assert why(entry, hosts, **known) == (
        "its entry says hv1, and it was seen on hv1, which does not have it any more, so it may be on hv3, which did "
        "not answer: created on hv1 as well, it would exist twice, with the same addresses. Bring hv3 back. If it is "
        "lost, take it out for good: brine.virt.retire -e from=hv3 -e lost=true. If you know that the machine is not "
        "there, place it with -e virt_unseen=web1"
    )
    assert "created on hv2 as well" in why({"hypervisor": "hv2"}, hosts, **known)
    for more in ({"unseen": "web1"}, {"unseen": "place"}):
        assert run(entry, hosts, **more, **known)["by_host"]["hv1"] == ["web1"]
    # All have answered, or nobody has ever seen it.
    assert run(entry, {**hosts, "hv3": hypervisor()}, **known)["by_host"]["hv1"] == ["web1"]
    assert run(entry, hosts)["by_host"]["hv1"] == ["web1"]


def test_what_an_interrupted_run_has_left_of_it_is_no_sign_of_a_move() -> None:
    hosts = {"hv1": hypervisor(clouds.record("web1"), building=True), "hv3": SILENT}
    assert run({"hypervisor": "hv1"}, hosts, last_seen=SEEN)["by_host"]["hv1"] == ["web1"]


@pytest.mark.parametrize("asked", [{}, {"hypervisor": "hv1"}])
def test_it_is_not_said_to_be_removed(asked: dict[str, str]) -> None:
    hosts = {"hv1": hypervisor(), "hv3": SILENT}
    entry = {"name": "web1", "state": "absent", **asked}
    result = place_filter([entry], hosts, errors="return", last_seen=SEEN)
    assert result["not_there"] == []
    assert "may be on hv3, which did not answer" in result["refused_machines"][0]["why"]
    ways: list[dict[str, t.Any]] = [{"unseen": "web1"}, {"last_seen": {}} if asked else {"unseen": "place"}]
    for more in ways:
        known: dict[str, t.Any] = {"last_seen": SEEN, **more}
        assert place_filter([entry], hosts, errors="return", **known)["not_there"] == ["web1"]


def test_a_short_entry_waits_for_the_one_that_may_have_it() -> None:
    """That it has no memory and no vCPUs is no mistake: the machine exists."""
    hosts = {"hv1": hypervisor(), "hv3": SILENT}
    result = place_filter([{"name": "web1"}], hosts, errors="return", last_seen=SEEN)
    assert [machine["name"] for machine in result["refused_machines"]] == ["web1"]


def test_one_that_is_off_is_not_started_while_its_hypervisor_may_be_silent_under_another_name() -> None:
    off = hypervisor(clouds.record("web1"), state="shutoff")
    known, hosts = {"last_seen": {"web1": ["hv2", "hv1"]}}, {"hv2": off, "node1": SILENT}
    assert why({}, hosts, **known) == (
        "it is off on hv2, and may run on hv1, where it was seen before. No hypervisor has that name now, and node1 "
        "may be the same one, which did not answer: started here as well, it would run twice. Bring node1 back. If it "
        "is lost, take it out for good: brine.virt.retire -e from=node1 -e lost=true. If you know that the machine is "
        "not there, place it with -e virt_unseen=web1"
    )
    for more in ({"unseen": "web1"}, {"unseen": "place"}):
        assert run({}, hosts, **more, **known)["by_host"]["hv2"] == ["web1"]
    assert run({"state": "stopped"}, hosts, **known)["by_host"]["hv2"] == ["web1"]
    assert run({}, {"hv2": off, "node1": hypervisor()}, **known)["by_host"]["hv2"] == ["web1"]
