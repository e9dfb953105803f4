# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves that make hypervisors equally full, beside a search through everything."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.balance import SEARCH_LIMIT, plan_balance
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import hypervisor, record

pytestmark = pytest.mark.medium

Hosts = dict[str, t.Any]
# A hypervisor of 1000 MiB beside the reserve: memory in MiB is load in tenths of a percent.
TOTAL_MIB = 1256


def host(*machines: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return hypervisor(*machines, total_mib=TOTAL_MIB, **more)


def balance(hosts: Hosts, limit: float = 20.0, search_limit: int = SEARCH_LIMIT) -> dict[str, t.Any]:
    return plan_balance(read_fleet(hosts, None, PlacementOptions()), limit, search_limit=search_limit)


def moved(result: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(move["name"], move["target"]) for move in result["moves"]]


def test_one_move_is_enough_and_the_smallest_machine_that_does_it_is_taken() -> None:
    hosts = {"hv1": host(record("a", 300), record("b", 200), record("c", 100)), "hv2": host()}
    result = balance(hosts)
    assert moved(result) == [("b", "hv2")]
    assert result["moves"][0]["why"] == "hv1 from 60 to 40%, hv2 from 0 to 20%"
    assert result["spread"] == {"before": 60.0, "after": 20.0, "limit": 20.0, "reached": True}
    assert result["loads"] == {"hv1": {"before": 60.0, "after": 40.0}, "hv2": {"before": 0.0, "after": 20.0}}
    assert [move["name"] for move in result["by_source"]["hv1"]] == ["b"]
    assert result["by_source"]["hv2"] == []


def test_what_is_balanced_stays() -> None:
    result = balance({"hv1": host(record("a", 200)), "hv2": host()})
    assert (result["moves"], result["stay"], result["spread"]["reached"]) == ([], [], True)


def test_it_is_said_why_nothing_is_moved() -> None:
    full, empty = host(record("a", 600)), host()
    for hosts, limit, reason in (
        (
            {"hv1": host(record("a", 200)), "hv2": empty},
            20,
            "No machine needs to be moved: hv1 (20.0%) is 20.0 points above hv2 (0.0%), within the limit of 20",
        ),
        (
            {"hv1": host(record("a", 600, tied_by=["a device of the hypervisor"])), "hv2": empty},
            20,
            "No machine can be moved: hv1 (60.0%) is 60.0 points above hv2 (0.0%), but no machine of hv1 can be "
            "moved elsewhere",
        ),
        (
            {"hv1": full, "hv2": empty},
            20,
            "No machine can be moved: hv1 (60.0%) is 60.0 points above hv2 (0.0%), but each move would leave "
            "hypervisors as far apart as they are, or has a target that refuses the machine",
        ),
        (
            {"hv1": full, "hv2": host(maintenance={"since": None, "reason": None})},
            20,
            "No machine needs to be moved: machines cannot be moved between fewer than two hypervisors (left out, in "
            "maintenance or without memory for machines: hv2)",
        ),
        ({"hv1": "no route"}, 20, "No machine needs to be moved: machines cannot be moved between fewer than two"),
    ):
        result = balance(hosts, limit)
        assert (result["moves"], str(result["reason"]).startswith(reason)) == ([], True), result["reason"]


def test_it_is_said_when_the_limit_is_not_reached() -> None:
    assert balance({"hv1": host(record("a", 300), record("b", 200)), "hv2": host()})["reason"] is None
    result = balance({"hv1": host(record("a", 500), record("b", 200)), "hv2": host()}, 20)
    assert result["moves"] and result["reason"] == (
        "The limit of 20 points is not reached: hv1 (50.0%) is 30.0 points above hv2 (20.0%), and no further move "
        "brings them nearer"
    )


def test_it_is_said_why_a_target_refuses_a_machine() -> None:
    """Otherwise whoever reads that nothing can be moved would look for the reason in vain."""
    bridge = {"type": "bridge", "source": "br1"}
    hosts = {"hv1": host(record("a", 300, nics=[bridge]), record("b", 300, nics=[bridge])), "hv2": host()}
    refused = "(a does not fit on hv2: has no bridge br1 (has br0))"
    assert str(balance(hosts)["reason"]).endswith(f"or has a target that refuses the machine {refused}")
    # A machine as large as all that lies between the two changes nothing by its move, whoever refuses it.
    alone = {"hv1": host(record("a", 600, nics=[bridge])), "hv2": host()}
    assert str(balance(alone)["reason"]).endswith("or has a target that refuses the machine")
    hosts["hv1"]["machines"].append(record("c", 100))
    hosts["hv1"]["host"]["machines"].append({"name": "c", "memory_mib": 100, "vcpus": 1, "anti_affinity": []})
    hosts["hv1"]["host"]["memory"]["committed_mib"] += 100
    partly = balance(hosts)
    assert moved(partly) == [("c", "hv2")]
    assert str(partly["reason"]).endswith(f"no further move brings them nearer {refused}")


def test_of_equal_plans_the_first_by_name() -> None:
    hosts = {"hv1": host(record("b", 200), record("a", 200)), "hv3": host(), "hv2": host()}
    assert moved(balance(hosts, 21)) == [("a", "hv2")]


def test_two_machines_that_change_places() -> None:
    # No single move helps here, so that one move after the other finds nothing.
    hosts = {
        "hv1": host(record("a", 200), record("b", 350)),
        "hv2": host(record("c", 150), record("d", 200)),
    }
    assert moved(balance(hosts, 10)) == [("a", "hv2"), ("c", "hv1")]
    assert moved(balance(hosts, 10, search_limit=0)) == []


def test_a_hypervisor_in_maintenance_neither_gives_nor_takes() -> None:
    hosts = {
        "hv1": host(record("a", 300), record("b", 300)),
        "hv2": host(maintenance={"since": None, "reason": None}),
        "hv3": host(record("c", 600)),
    }
    result = balance(hosts)
    assert result["moves"] == []
    assert sorted(result["loads"]) == ["hv1", "hv3"]


def test_machines_that_are_tied_stay_and_are_named() -> None:
    tied = record("a", 600, tied_by=["a device of the hypervisor"])
    result = balance({"hv1": host(tied), "hv2": host(), "hv3": "no route"})
    assert result["moves"] == []
    assert [(item["name"], item["why"]) for item in result["stay"]] == [("a", "it has a device of the hypervisor")]
    assert result["spread"]["reached"] is False
    assert result["silent"] == {"hv3": "no route"}


def test_what_cannot_be_reached_is_approached() -> None:
    result = balance({"hv1": host(record("a", 500), record("b", 400)), "hv2": host()}, 5)
    assert moved(result) == [("b", "hv2")]
    assert result["spread"] == {"before": 90.0, "after": 10.0, "limit": 5, "reached": False}


def test_a_group_is_kept_apart() -> None:
    web = [record(name, 300, anti_affinity=["web"]) for name in ("web1", "web2")]
    result = balance({"hv1": host(web[0], record("x", 300)), "hv2": host(web[1], record("y", 10)), "hv3": host()}, 31)
    assert ("web1", "hv2") not in moved(result)
    assert result["spread"]["reached"]


@pytest.mark.parametrize("limit", [0, -1, 101])
def test_a_limit_that_is_none(limit: float) -> None:
    with pytest.raises(VirtError, match="limit: .* is not a valid percentage"):
        balance({"hv1": host()}, limit)


def test_a_large_cloud_ends_in_time_and_gets_better() -> None:
    hosts = {f"hv{n:02}": host() for n in range(20)}
    for number in range(5):
        hosts[f"hv{number:02}"] = host(*(record(f"m{number}-{k}", 40 + k) for k in range(20)))
    result = balance(hosts, 5)
    assert result["spread"]["reached"]
    assert len(set(dict(moved(result)))) == len(moved(result))


@st.composite
def clouds(draw: st.DrawFn) -> Hosts:
    hosts: Hosts = {}
    for number in range(draw(st.integers(1, 3))):
        hosts[f"hv{number}"] = host(
            *(
                record(
                    f"m{number}{letter}",
                    draw(st.integers(1, 8)) * 50,
                    anti_affinity=draw(st.sampled_from([[], [], ["g"]])),
                )
                for letter in "abc"[: draw(st.integers(0, 3))]
            )
        )
    return hosts


def spread_of(homes: t.Mapping[str, str], sizes: t.Mapping[str, int], hosts: Hosts) -> float:
    loads = [sum(sizes[name] for name, home in homes.items() if home == place) / 10 for place in hosts]
    return max(loads) - min(loads)


def fewest_by_looking_at_all(hosts: Hosts, limit: float) -> int | None:
    """The number of moves of the shortest plan, each machine at most once, by going through all states."""
    machines = {m["name"]: (place, m) for place, answer in hosts.items() for m in answer["machines"]}
    sizes = {name: m["memory_max_mib"] for name, (_place, m) in machines.items()}
    grouped = {name for name, (_place, m) in machines.items() if m["anti_affinity"]}
    start = {name: place for name, (place, _m) in machines.items()}
    layer, seen, count = [start], {tuple(sorted(start.items()))}, 0
    while layer:
        if any(spread_of(homes, sizes, hosts) <= limit + 1e-9 for homes in layer):
            return count
        following = []
        for homes in layer:
            for name in (n for n in homes if homes[n] == start[n]):
                for place in hosts:
                    there = [n for n in homes if homes[n] == place]
                    crowded = name in grouped and any(n in grouped for n in there)
                    if place == start[name] or crowded or sum(sizes[n] for n in there) + sizes[name] > 1000:
                        continue
                    after = {**homes, name: place}
                    key = tuple(sorted(after.items()))
                    if key not in seen:
                        seen.add(key)
                        following.append(after)
        layer, count = following, count + 1
    return None


@settings(max_examples=settings().max_examples * 3 // 2)
@given(clouds(), st.sampled_from([5.0, 10.0, 20.0, 40.0]))
def test_as_few_moves_as_a_search_through_everything_finds(hosts: Hosts, limit: float) -> None:
    before = copy.deepcopy(hosts)
    result = balance(hosts, limit)
    assert hosts == before
    assert json.loads(json.dumps(result)) == result
    assert_right(hosts, result, limit)
    fewest = fewest_by_looking_at_all(hosts, limit)
    assert result["spread"]["reached"] is (fewest is not None)
    if fewest is not None:
        assert len(result["moves"]) == fewest
    assert balance(dict(reversed(list(hosts.items()))), limit) == result


@given(clouds(), st.sampled_from([5.0, 20.0]))
def test_one_move_after_the_other_is_right_as_well(hosts: Hosts, limit: float) -> None:
    result = balance(hosts, limit, search_limit=0)
    assert_right(hosts, result, limit)
    if result["moves"]:
        assert result["spread"]["after"] <= result["spread"]["before"]


def assert_right(hosts: Hosts, result: dict[str, t.Any], limit: float) -> None:
    """Each move fits when its turn comes, and the figures are true."""
    machines = {m["name"]: m for answer in hosts.values() for m in answer["machines"]}
    sizes = {name: m["memory_max_mib"] for name, m in machines.items()}
    homes = {m["name"]: place for place, answer in hosts.items() for m in answer["machines"]}
    assert result["spread"]["before"] == pytest.approx(spread_of(homes, sizes, hosts), abs=0.1)
    for move in result["moves"]:
        assert homes[move["name"]] == move["source"] != move["target"]
        homes[move["name"]] = move["target"]
        there = [name for name, home in homes.items() if home == move["target"]]
        assert sum(sizes[name] for name in there) <= 1000
        if machines[move["name"]]["anti_affinity"]:
            assert sum(bool(machines[name]["anti_affinity"]) for name in there) == 1
    assert result["spread"]["after"] == pytest.approx(spread_of(homes, sizes, hosts), abs=0.1)
    assert result["spread"]["reached"] is (spread_of(homes, sizes, hosts) <= limit + 1e-9)
    assert len({move["name"] for move in result["moves"]}) == len(result["moves"])


def test_a_machine_that_has_come_since_its_hypervisor_was_asked_is_counted() -> None:
    """The facts are older than the list of the machines, by what the slowest hypervisor takes to answer."""
    late = {"host": host(record("a", 300))["host"], "machines": [record("a", 300), record("b", 300)]}
    # What is arriving takes its memory already.
    facts = host(record("a", 300), record("b", 300))["host"]
    arriving = {"host": {**facts, "machines": facts["machines"][:1], "arriving": ["b"]}, "machines": late["machines"]}
    assert balance({"hv1": arriving, "hv2": host()})["loads"]["hv1"]["before"] == 60
    result = balance({"hv1": late, "hv2": host()})
    assert moved(result) == [("a", "hv2")]
    assert result["loads"] == {"hv1": {"before": 60.0, "after": 30.0}, "hv2": {"before": 0.0, "after": 30.0}}


def test_machines_that_share_a_hypervisor_anyway_may_share_another_one() -> None:
    def web(name: str, memory_mib: int) -> dict[str, t.Any]:
        return record(name, memory_mib, anti_affinity=["web"])

    both, one = {"hv1": host(web("a", 300), web("b", 300)), "hv2": host(web("c", 10))}, PlacementOptions()
    prefer = PlacementOptions(anti_affinity="prefer")
    assert moved(plan_balance(read_fleet(both, None, one), 40)) == []
    result = plan_balance(read_fleet(both, None, prefer), 40)
    assert moved(result) == [("a", "hv2")]
    assert result["by_source"]["hv1"][0]["anti_affinity"] == "prefer"
    # One that is alone stays so.
    assert moved(plan_balance(read_fleet({**both, "hv1": host(web("a", 600))}, None, prefer), 40)) == []


def test_a_machine_that_is_off_and_would_leave_something_behind_is_not_chosen_before_one_that_can_go() -> None:
    """Of equal machines, one that is off is the better choice."""
    off = record("a", 300, state="shutoff", tied_by=["the state of its TPM in a file that moves only while it runs"])
    for stuck in (off, record("a", 300, state="shutoff", saved=True), record("a", 300, persistent=False)):
        result = balance({"hv1": host(stuck, record("b", 300)), "hv2": host()})
        assert (moved(result), [item["name"] for item in result["stay"]]) == ([("b", "hv2")], ["a"])


def test_a_machine_that_is_refused_stays_and_another_one_goes() -> None:
    hosts = {"hv1": host(record("a", 300), record("b", 300)), "hv2": host()}
    assert moved(balance(hosts)) == [("a", "hv2")]
    result = plan_balance(
        read_fleet(hosts, None, PlacementOptions()), 20, refused={"a": "a has snapshots", "x": "gone"}
    )
    assert moved(result) == [("b", "hv2")]
    assert [(item["name"], item["why"]) for item in result["stay"]] == [("a", "a has snapshots")]
    # Its memory is taken all the same.
    assert result["loads"]["hv1"] == {"before": 60.0, "after": 30.0}


def test_what_needs_the_room_that_an_earlier_move_leaves_cannot_be_asked_about_ahead() -> None:
    hosts = {
        "hv1": host(record("a", 200), record("b", 350)),
        "hv2": host(record("c", 150), record("d", 200)),
    }
    result = balance(hosts, 10)
    assert moved(result) == [("a", "hv2"), ("c", "hv1")]
    assert result["ahead"] == {"hv1": result["by_source"]["hv1"], "hv2": []}
