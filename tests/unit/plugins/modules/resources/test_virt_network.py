# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_network, and what its result is, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.spec import NETWORK_WORDS
from ansible_collections.brine.virt.plugins.module_utils._operations.networks import steps
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.modules import virt_network
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module

LAB: dict[str, t.Any] = {"name": "lab", "mode": "nat", "bridge": "virbr-lab", "addresses": ["192.0.2.1/24"]}


@pytest.fixture
def conn(node_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """One connection for all calls: the driver forgets all when it is closed."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(virt_network, "hypervisor_lock", locked)
    with open_connection(node_uri) as connection:
        monkeypatch.setattr(virt_network, "open_connection", lambda _uri, read_only: contextlib.nullcontext(connection))
        yield connection


def call(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return call_module(virt_network, check_mode, params, uri="test:///x")


def test_the_module_takes_and_describes_every_option_of_a_network() -> None:
    documented = yaml.safe_load(virt_network.DOCUMENTATION)["options"]
    assert set(virt_network.OWN) == set(NETWORK_WORDS) == set(documented) - {"networks", "lock_timeout"}


def test_check_mode_says_the_same_and_changes_nothing(conn: t.Any) -> None:
    shown = call(check_mode=True, **LAB)
    assert [network.name() for network in conn.listAllNetworks()] == ["default"]
    done = call(**LAB)
    for key in ("changed", "diff"):
        assert shown[key] == done[key]
    assert shown["networks"][0]["actions"] == done["networks"][0]["actions"]
    assert shown["changed"] and done["diff"][0]["before"] == ""
    assert "bridge: virbr-lab" in done["diff"][0]["after"]
    again = call(**LAB)
    assert (again["changed"], again["diff"]) == (False, [])


def test_nothing_is_changed_while_another_run_holds_the_lock(conn: t.Any, tmp_path: Path) -> None:
    call(**LAB)
    with hypervisor_lock("init", wait_seconds=0, lock_dir=str(tmp_path / "locks")):
        # There is nothing to do, or nothing is done.
        assert not call(**LAB, lock_timeout=0)["changed"]
        assert call(check_mode=True, **LAB, mtu=1400, lock_timeout=0)["changed"]
        with pytest.raises(ConflictError):
            call(**LAB, mtu=1400, lock_timeout=0)
    assert "1400" not in conn.networkLookupByName("lab").XMLDesc(0)


def test_the_result_has_what_is_there_now(conn: t.Any) -> None:
    (network,) = call(**LAB)["networks"]
    assert (network["state"], network["autostart"], network["stp"]) == ("active", True, True)
    # stp is libvirt's own addition.
    assert network["present"] and not network["failed"] and network["pending"] == []


def test_what_is_pending_is_said_in_the_result(conn: t.Any) -> None:
    (network,) = call(name="default", mtu=1400)["networks"]
    assert "machine web1 loses its connection" in network["pending"][0]
    assert network["actions"][0] == "change the definition of network default"


def test_what_goes_goes_first_and_the_answer_is_in_the_order_of_the_task(conn: t.Any) -> None:
    call(**LAB)
    answer = call(networks=[{**LAB, "name": "lab2"}, {"name": "lab", "state": "absent"}])
    assert [network["name"] for network in answer["networks"]] == ["lab2", "lab"]
    assert [network["present"] for network in answer["networks"]] == [True, False]
    assert sorted(network.name() for network in conn.listAllNetworks()) == ["default", "lab2"]


def test_one_that_fails_is_rolled_back_and_the_others_are_there(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    define_new = steps.define_new

    def define_badly(conn: t.Any, name: str, xml: etree._Element) -> Step:
        """As with an option that a libvirt does not take."""
        if name == "a":
            need(xml, "forward").set("mode", "nonsense")
        return define_new(conn, name, xml)

    monkeypatch.setattr(steps, "define_new", define_badly)
    networks = [{"name": "a", "mode": "bridge", "bridge": "br0"}, LAB]
    answer = call(networks=networks)
    assert answer["msg"].startswith("a: cannot define network a: ")
    assert answer["msg"].endswith(". Succeeded: lab")
    assert [network["failed"] for network in answer["networks"]] == [True, False]
    assert sorted(network.name() for network in conn.listAllNetworks()) == ["default", "lab"]


def test_nothing_is_changed_when_one_of_them_cannot_be(conn: t.Any) -> None:
    with pytest.raises(VirtError) as caught:
        call(networks=[LAB, {"name": "default", "state": "absent"}, {"name": "x", "mode": "isolated", "mtus": 5}])
    assert str(caught.value) == "networks[2]: unknown option 'mtus'. Did you mean mtu?"
    with pytest.raises(VirtError) as caught:
        call(networks=[LAB, {"name": "default", "state": "absent"}])
    assert str(caught.value).startswith(
        "networks[1].name: network default is not removed: machine web1 has a nic on it"
    )
    assert [network.name() for network in conn.listAllNetworks()] == ["default"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "name: is missing. Give the name of one, or several in networks"),
        ({"networks": [], "name": "a"}, "networks and name are given together"),
        ({"name": "a", "mode": "nats"}, "mode: 'nats' is not a choice"),
        ({"name": "a", "mode": "nat"}, "addresses: a network of mode nat needs addresses"),
        ({"networks": [{"mode": "nat"}]}, "networks[0].name: is missing"),
        ({"networks": [{"name": None}]}, "networks[0].name: is missing"),
        ({"networks": [{"name": "a", "state": "gone"}]}, "networks[0].state: 'gone' is not a choice"),
    ],
)
def test_options_that_are_wrong(conn: t.Any, params: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        call(**params)
    assert str(caught.value).startswith(words)


def test_the_examples_work(conn: t.Any) -> None:
    for task in yaml.safe_load(virt_network.EXAMPLES):
        answer = call(check_mode=task.get("check_mode", False), **task["brine.virt.virt_network"])
        assert "msg" not in answer
        assert not any(network["failed"] for network in answer["networks"])
