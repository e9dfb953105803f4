# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters moves, balance and moves_table as a template calls them."""

from __future__ import annotations

import inspect
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter import balance, moves, purges, query
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import hypervisor, record

FILTERS: dict[str, t.Callable[..., t.Any]] = {
    **moves.FilterModule().filters(),
    **balance.FilterModule().filters(),
    **purges.FilterModule().filters(),
    **query.FilterModule().filters(),
}
FLEET = {
    "hv1": hypervisor(record("web1", 4096), record("db1", nics=[{"type": "bridge", "source": "br7"}], state="shutoff")),
    "hv2": hypervisor(),
    "hv3": "no\nroute",
}


def test_a_plan_as_a_table() -> None:
    plan = FILTERS["moves"](FLEET, source="hv1")
    assert FILTERS["moves_table"](plan).splitlines() == [
        "MACHINE  STATE    MEMORY    FROM  TO   WHY",
        "web1     running  4096 MiB  hv1   hv2  the only hypervisor it fits on: "
        "4096 MiB of free memory after this machine",
        "db1      shutoff  1024 MiB  hv1   -    fits on no other hypervisor: hv2: has no bridge br7 (has br0); "
        "hv3: did not answer: no route",
        "hv3 did not answer: no route",
    ]


def test_loads_and_what_is_there_are_in_the_table() -> None:
    table = FILTERS["moves_table"](FILTERS["balance"](FLEET, "30"))
    assert "hv1: 62.5% of its memory is committed, 12.5% after the moves" in table.splitlines()
    there = FILTERS["moves_table"](FILTERS["moves"](FLEET, ["web1"], target="hv1"))
    assert "web1     running  4096 MiB  hv1   -   it is already there" in there.splitlines()
    assert (
        FILTERS["moves_table"](FILTERS["moves"](FLEET, source="hv2")).splitlines()[0] == "No machine needs to be moved."
    )


def test_a_machine_that_cannot_be_read_has_no_figures() -> None:
    fleet = {
        "hv1": hypervisor(record("odd", memory_max_mib=None, errors=["its XML is invalid"])),
        "hv2": hypervisor(),
    }
    assert "its XML is invalid" in FILTERS["moves_table"](FILTERS["moves"](fleet, source="hv1"))


# What stands before the option disks.
NEITHER = (None, None, None, "spread", "require", "raise", None)


@pytest.mark.parametrize(("name", "arguments"), [("moves", {"names": ["web7"]}), ("balance", {"limit": "many"})])
def test_mistakes_come_back_as_data_on_request(name: str, arguments: dict[str, t.Any]) -> None:
    result = FILTERS[name]({**FLEET, "hv3": "no route"}, **arguments, errors="return")
    assert list(result) == ["errors"] and len(result["errors"]) == 1
    assert result["errors"][0].startswith(("there is no machine 'web7'", "limit: 'many' is not a number"))
    assert FILTERS["balance"](FLEET, 30, errors="return")["errors"] == []


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("moves", (FLEET, "web1"), "brine.virt.moves: names: 'web1' is not a list of names"),
        ("moves", (FLEET, ["web9"]), "brine.virt.moves: there is no machine 'web9'"),
        ("moves", ([], ["web1"]), "brine.virt.moves: hosts: [] is not a mapping of hypervisors"),
        (
            "moves",
            (FLEET, ["web1"], *NEITHER, "vda"),
            "brine.virt.moves: disks: 'vda' is not a mapping of disks to their pools. Give "
            '{"disks": {"vda": {"pool": "POOL"}}}, on the command line in quotes behind -e, or pool for all disks',
        ),
        ("disk_moves", (FLEET, ["web1"], [1]), "brine.virt.disk_moves: disks: [1] is not a mapping of disks to "),
        ("disk_moves", (FLEET, "web1"), "brine.virt.disk_moves: names: 'web1' is not a list of names"),
        ("disk_moves", (FLEET, ["web1"], {"vda": {}}, "no"), "brine.virt.disk_moves: errors: 'no' is not a choice"),
        ("disk_moves", ([], ["web1"]), "brine.virt.disk_moves: hosts: [] is not a mapping of hypervisors"),
        (
            "moves",
            (FLEET, ["web1"], *NEITHER, {"vda": {"to": "x"}}),
            "brine.virt.moves: disks.vda: unknown option 'to'. Known: pool",
        ),
        ("balance", (FLEET, "some"), "brine.virt.balance: limit: 'some' is not a number"),
        ("moves_table", ({"moves": []},), "brine.virt.moves_table: the input is not a plan of moves"),
    ],
)
def test_what_is_wrong_is_one_sentence(name: str, arguments: t.Any, text: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](*arguments)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("module", [moves, balance])
def test_the_documentation_names_every_argument_with_its_default(module: t.Any) -> None:
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    (work,) = module.FilterModule().filters().values()
    arguments = list(inspect.signature(work).parameters.values())[1:]
    assert {a.name: None if a.default is a.empty else a.default for a in arguments} == {
        name: option.get("default") for name, option in options.items() if name != "_input"
    }


def test_machines_whose_disks_go_to_other_pools_are_found_where_they_are() -> None:
    fleet = {**FLEET, "hv2": hypervisor(record("web2"))}
    pools = {"data": {"pool": "fast"}}
    assert FILTERS["disk_moves"](fleet, ["web2", "web1", "web2"], disks=pools) == {
        "by_hypervisor": {"hv1": [{"name": "web1", "disks": pools}], "hv2": [{"name": "web2", "disks": pools}]},
        "errors": [],
    }
    assert FILTERS["disk_moves"](fleet, ["web1"])["by_hypervisor"] == {"hv1": [{"name": "web1"}], "hv2": []}


def test_each_of_them_that_is_nowhere_or_twice_is_a_sentence() -> None:
    fleet = {**FLEET, "hv2": hypervisor(record("web1")), "hv3": "no route"}
    found = FILTERS["disk_moves"](fleet, ["web1", "db7", "db1"], errors="return")
    assert list(found) == ["errors"]
    assert found["errors"] == [
        "vm: there is a machine 'web1' on each of hv1, hv2. Say which one: --limit hv1; or wait, if it is being moved",
        "there is no machine 'db7' on the hypervisors that answered. Did you mean db1? hv3: did not answer: no route",
    ]


def test_so_does_the_documentation_of_disk_moves() -> None:
    file = Path(purges.__file__).with_name("disk_moves.yml")
    options = yaml.safe_load(file.read_text(encoding="utf-8"))["DOCUMENTATION"]["options"]
    arguments = list(inspect.signature(FILTERS["disk_moves"]).parameters.values())[1:]
    assert {a.name: None if a.default is a.empty else a.default for a in arguments} == {
        name: option.get("default") for name, option in options.items() if name != "_input"
    }
