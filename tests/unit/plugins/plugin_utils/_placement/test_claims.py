# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that claim one name on several hypervisors: in every order of their steps, at most one makes the machine."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._placement.claims import decide_claims

LOW, HIGH = "10000000-0000-4000-8000-000000000000", "f0000000-0000-4000-8000-000000000000"


def _plan(host: str = "hv1", *names: str) -> dict[str, t.Any]:
    machines = [{"name": name} for name in names or ("web1",)]
    return {
        "assignments": [{**machine, "hypervisor": host} for machine in machines],
        "by_host": {host: [machine["name"] for machine in machines], "other": []},
        "places_by_host": {host: [f"vms[{index}]" for index in range(len(machines))], "other": []},
        "new_by_host": {host: list(machines), "other": []},
        "refused_machines": [],
    }


def _claim(uuid: str) -> dict[str, t.Any]:
    return {"uuid": uuid, "claimed": True}


def _machine(uuid: str) -> dict[str, t.Any]:
    return {"uuid": uuid, "claimed": False}


@pytest.mark.parametrize(
    ("rival", "last", "fate"),
    [
        (None, False, "goes"),
        (_machine(HIGH), False, "yields"),
        (_claim("00000000-0000-4000-8000-000000000000"), False, "yields"),
        (_claim(HIGH), False, "waits"),
        (_claim(HIGH), True, "yields"),
    ],
)
def test_what_stands_against_a_claim(rival: dict[str, t.Any] | None, last: bool, fate: str) -> None:
    seen = {"hv1": {"web1": _claim(LOW)}, "hv2": {"web1": rival} if rival else {}}
    decided = decide_claims(_plan(), {"hv1": {"web1": LOW}}, seen, last=last)
    assert decided["again"] is (fate != "goes")
    assert decided["waiting"] == (["web1"] if fate == "waits" else [])
    assert decided["withdraw"] == ({"hv1": {"web1": LOW}} if fate == "yields" else {})
    left = decided["plan"]["by_host"]["hv1"]
    assert left == ([] if fate == "yields" else ["web1"])
    assert [item["name"] for item in decided["plan"]["refused_machines"]] == (["web1"] if fate == "yields" else [])
    assert [item["name"] for item in decided["plan"]["assignments"]] == left


def test_a_hypervisor_that_does_not_say_what_it_has_may_have_it() -> None:
    claims, seen = {"hv1": {"web1": LOW}}, {"hv1": {"web1": _claim(LOW)}}
    assert decide_claims(_plan(), claims, {**seen, "hv2": {}}, last=False, asked=["hv1", "hv2"])["again"] is False
    decided = decide_claims(_plan(), claims, seen, last=False, asked=["hv1", "hv2"])
    assert decided["withdraw"] == claims
    (refused,) = decided["plan"]["refused_machines"]
    assert refused["why"] == (
        "hv2 did not say whether it is there, and it would exist twice. Nothing was created for it on hv1"
    )


def test_only_the_machine_that_is_claimed_elsewhere_yields() -> None:
    claims = {"hv1": {"a": HIGH, "b": HIGH}}
    seen = {"hv1": {"a": _claim(HIGH), "b": _claim(HIGH)}, "hv2": {"a": _claim(LOW)}}
    decided = decide_claims(_plan("hv1", "a", "b"), claims, seen, last=False)
    assert [machine["name"] for machine in decided["plan"]["new_by_host"]["hv1"]] == ["b"]
    assert decided["plan"]["places_by_host"] == {"hv1": ["vms[1]"], "other": []}
    (refused,) = decided["plan"]["refused_machines"]
    assert refused == {
        "name": "a",
        "hypervisor": None,
        "why": "another run is creating it on hv2 at the same time, and one of the two has to yield. "
        "Nothing was created for it on hv1",
    }


def test_a_claim_that_another_run_has_gone_on_with_is_no_claim() -> None:
    """Two runs at one hypervisor share it."""
    seen = {"hv1": {"web1": _machine(HIGH)}, "hv2": {"web1": _claim(LOW)}}
    assert decide_claims(_plan(), {"hv1": {"web1": HIGH}}, seen, last=False)["again"] is False


@pytest.mark.parametrize(
    ("here", "kept"),
    [
        # Another run was making it when this one looked, and it may be moved away before this one comes to it.
        (_machine(HIGH), {"web1": HIGH}),
        # It was there when the names were claimed, so that it has no claim, and is gone by now.
        (None, {"web1": None}),
    ],
)
def test_what_is_made_without_a_claim_has_to_be_there_still(here: dict[str, t.Any] | None, kept: t.Any) -> None:
    plan = {**_plan(), "decisions": {"hv1": {"memory_mib": 1, "machines": {"old": LOW}}, "other": {"machines": {}}}}
    decided = decide_claims(plan, {"hv1": {}}, {"hv1": {"web1": here} if here else {}}, last=False)
    assert decided["plan"]["decisions"] == {
        "hv1": {"memory_mib": 1, "machines": {"old": LOW, **kept}},
        "other": {"machines": {}},
    }
    assert plan["decisions"]["hv1"]["machines"] == {"old": LOW}
    claimed = decide_claims(plan, {"hv1": {"web1": LOW}}, {"hv1": {"web1": _claim(LOW)}}, last=False)
    assert claimed["plan"]["decisions"] == plan["decisions"]


@dataclass(frozen=True)
class _Run:
    """A run on one hypervisor. at: its next step."""

    host: str
    uuid: str
    at: str = "claim"


Cloud = dict[str, dict[str, t.Any]]


def _step(run: _Run, cloud: Cloud) -> tuple[_Run, Cloud]:
    """The run after its next step, and the cloud then. A check and what follows from it are two steps."""
    if run.at == "claim":
        return replace(run, at="look"), {**cloud, run.host: _claim(run.uuid)}
    if run.at == "look":
        seen = {host: {"web1": entry} for host, entry in cloud.items()}
        decided = decide_claims(_plan(run.host), {run.host: {"web1": run.uuid}}, seen, last=False)
        if decided["withdraw"]:
            return replace(run, at="withdraw"), cloud
        return (run if decided["waiting"] else replace(run, at="make")), cloud
    if run.at == "withdraw":
        return replace(run, at="yielded"), {host: entry for host, entry in cloud.items() if host != run.host}
    return replace(run, at="made"), {**cloud, run.host: _machine(run.uuid)}


@pytest.mark.parametrize("uuids", [(LOW, HIGH), (HIGH, LOW)])
def test_in_every_order_of_steps_exactly_one_makes_it(uuids: tuple[str, str]) -> None:
    begin = tuple(_Run(host, uuid) for host, uuid in zip(("hv1", "hv2"), uuids, strict=True))
    known: set[str] = set()
    ahead: list[tuple[tuple[_Run, ...], Cloud]] = [(begin, {})]
    ends = set()
    while ahead:
        runs, cloud = ahead.pop()
        if repr((runs, sorted(cloud.items(), key=str))) in known:
            continue
        known.add(repr((runs, sorted(cloud.items(), key=str))))
        assert sum(not entry["claimed"] for entry in cloud.values()) <= 1
        states = sorted(run.at for run in runs)
        if all(state in ("made", "yielded") for state in states):
            ends.add(tuple(states))
            continue
        moved = False
        for index, run in enumerate(runs):
            if run.at in ("made", "yielded"):
                continue
            after, then = _step(run, cloud)
            moved = moved or after != run
            ahead.append(((*runs[:index], after, *runs[index + 1 :]), then))
        assert moved, f"nobody can go on: {runs} {cloud}"
    assert ends == {("made", "yielded")}
