# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host of the inventory a machine is that a run has just made."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.machine_hosts import FilterModule

machine_hosts = FilterModule().filters()["machine_hosts"]
OURS, OTHER = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11", "80000000-5d0b-4b0e-9f3e-0d6d8a4d2f11"


def listed_as(uuid: str, hypervisor: str) -> dict[str, str]:
    return {"virt_uuid": uuid, "virt_hypervisor": hypervisor}


@pytest.mark.parametrize(
    ("name", "hosts", "groups", "host"),
    [
        ("web1", {}, {}, "web1"),
        ("web1", {"web1": listed_as(OURS, "hv1")}, {}, "web1"),
        ("web1", {"web1_hv1": listed_as(OURS, "hv1"), "web1_hv2": listed_as(OTHER, "hv2")}, {}, "web1_hv1"),
        # A move that was cut off has left it on both.
        ("web1", {"web1_hv2": listed_as(OURS, "hv2"), "web1_hv1": listed_as(OURS, "hv1")}, {}, "web1_hv1"),
        ("localhost", {"localhost_hv1": listed_as(OURS, "hv1")}, {}, "localhost_hv1"),
        ("localhost", {}, {}, "localhost_hv1"),
        ("127.0.0.1", {}, {}, "127.0.0.1_hv1"),
        ("web", {}, {"web": ["web1"]}, "web_hv1"),
        ("hv1", {"hv1": {}}, {"hypervisors": ["hv1"]}, "hv1_hv1"),
        ("web1", {"web1": listed_as(OTHER, "hv9")}, {"virt_machines": ["web1"]}, "web1_hv1"),
        ("web1", {"web1": {}, "web1_hv1": {}}, {}, f"web1_hv1_{OURS}"),
        # The user's own word for the machine.
        ("web1", {"web1": {}}, {"virt_machines": ["web1"]}, "web1"),
        ("web1", {"web1": {}}, {"virt_provisioned": ["web1"]}, "web1"),
        ("web1", {"web1": {"ansible_host": "192.0.2.7"}}, {"web": ["web1"]}, "web1"),
        ("web1", {"web1": {"ansible_host": "192.0.2.8"}}, {"web": ["web1"]}, "web1_hv1"),
    ],
)
def test_which_host_a_machine_is(name: str, hosts: dict[str, t.Any], groups: dict[str, t.Any], host: str) -> None:
    record = {"name": name, "uuid": OURS, "address": "192.0.2.7", "host_keys": ["ssh-ed25519 AAAA"]}
    (found,) = machine_hosts({"hv1": [record]}, [{"name": name, "hypervisor": "hv1"}], hosts, groups)
    assert (found["host"], found["hypervisor"], found["machine"]) == (host, "hv1", record)
    assert found["listed"] == ("virt_uuid" in hosts.get(host, {}))


@pytest.mark.parametrize(("origin", "host"), [("lease", "web1"), ("agent", "web1_hv1"), ("arp", "web1_hv1")])
def test_a_guest_does_not_become_a_host_by_claiming_its_address(origin: str, host: str) -> None:
    nics = [{"addresses": [{"address": "192.0.2.7", "origin": origin}]}]
    record = {"name": "web1", "uuid": OURS, "address": "192.0.2.7", "addresses": ["192.0.2.7"], "nics": nics}
    hosts = {"web1": {"ansible_host": "192.0.2.7"}}
    (found,) = machine_hosts({"hv1": [record]}, [{"name": "web1", "hypervisor": "hv1"}], hosts, {})
    assert found["host"] == host


def test_only_the_machines_of_the_run_each_on_its_own_hypervisor() -> None:
    records = {
        "hv1": [{"name": "web1", "uuid": OURS}, {"name": "db1", "uuid": "x"}],
        "hv2": [{"name": "web1", "uuid": OTHER, "claimed": True}],
        "hv3": [],
    }
    plan = [{"name": "web1", "hypervisor": "hv1"}, {"name": "gone", "hypervisor": "hv3"}]
    assert [one["machine"]["uuid"] for one in machine_hosts(records, plan, {}, {})] == [OURS]


@pytest.mark.parametrize("wrong", [([], {}, {}), ({}, [], {}), ({}, {}, [])])
def test_wrong_input_is_one_sentence(wrong: tuple[t.Any, t.Any, t.Any]) -> None:
    records, hosts, groups = wrong
    with pytest.raises(AnsibleFilterError, match="brine.virt.machine_hosts: .* is not a mapping"):
        machine_hosts(records, [], hosts, groups)


class Watched(dict[str, t.Any]):
    """Hosts that note whether all of them were looked at."""

    walks = 0

    def items(self) -> t.Any:
        self.walks += 1
        return super().items()


def test_not_every_host_is_looked_at_for_machines_that_are_called_like_theirs() -> None:
    names = ("web1", "web2_hv1")
    hosts = Watched({host: listed_as(f"u{number}", "hv1") for number, host in enumerate((*names, "other"))})
    records = {"hv1": [{"name": name, "uuid": f"u{number}"} for number, name in enumerate(("web1", "web2", "web3"))]}
    assignments = [{"name": record["name"], "hypervisor": "hv1"} for record in records["hv1"]]
    found = machine_hosts(records, assignments[:2], hosts, {})
    assert ([one["host"] for one in found], hosts.walks) == (list(names), 0)
    found = machine_hosts(records, assignments, hosts, {})
    assert ([one["host"] for one in found], hosts.walks) == ([*names, "other"], 1)


@pytest.mark.parametrize("other", [listed_as("u2", "hv1"), listed_as("u1", "hv2"), {}])
def test_a_host_that_is_only_called_like_the_machine_is_not_it(other: dict[str, str]) -> None:
    hosts = {"web1": other, "web1_hv1": listed_as("u1", "hv1")}
    records, assignments = {"hv1": [{"name": "web1", "uuid": "u1"}]}, [{"name": "web1", "hypervisor": "hv1"}]
    (found,) = machine_hosts(records, assignments, hosts, {})
    assert (found["host"], found["listed"]) == ("web1_hv1", True)
