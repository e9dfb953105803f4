# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a nic that libvirt's schema refuses without a place: here they have one."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import Nic
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

UUID = "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa3b"


def read(nic: dict[str, t.Any], have: dict[str, t.Any] | None = None) -> Nic:
    """A nic of a new machine, or of one that has it with these options."""
    mac = {"mac": "52:54:00:00:00:01"}
    values = {"nics": {"eth0": {"type": "bridge", "source": "br0", **mac, **(have or {})}}}
    return read_machine(
        {"name": "a", "vcpus": 1, "memory": 64, "disk_profile": "none", "nic_profile": "none"}
        | {"nics": [{"name": "eth0", **mac, **nic}]},
        existing=lambda _name: Existing(values) if have is not None else None,
    ).nics[0]


@pytest.mark.parametrize(
    ("nic", "place", "words"),
    [
        ({"vlan": {}}, "vlan[0]", "id is missing"),
        ({"vlan": [10, None]}, "vlan[1]", "id is missing"),
        ({"vlan": {"native": "untagged"}}, "vlan[0]", "id is missing"),
        ({"filter": "8GiB"}, "filter.name", "Write it like clean-traffic"),
        ({"filter": {"parameters": {"IP": "192.0.2.1"}}}, "filter", "name is missing"),
        ({"filter": {"name": "a", "parameters": {"I-P": "x"}}}, "filter.parameters", "not the name of a variable"),
        ({"filter": {"name": "a", "parameters": {"IP": "a b"}}}, "filter.parameters.IP.value", "Write it like"),
        ({"filter": {"name": "a", "parameters": {"IP": None}}}, "filter.parameters.IP", "value is missing"),
        ({"virtualport": {"type": "openvswitch", "interfaceid": "x"}}, "virtualport.interfaceid", "not a UUID"),
        ({"virtualport": {"type": "802.1Qbg", "instanceid": 1}}, "virtualport.instanceid", "not a UUID"),
        ({"virtualport": {"type": "802.1Qbg", "managerid": 256}}, "virtualport.managerid", "a number up to 255"),
        (
            {"virtualport": {"type": "802.1Qbg", "typeidversion": "x"}},
            "virtualport.typeidversion",
            "a number up to 255",
        ),
        ({"virtualport": {"type": "802.1Qbg", "typeid": 16777216}}, "virtualport.typeid", "a number up to 16777215"),
        ({"virtualport": {"type": "802.1Qbh", "profileid": "p" * 40}}, "virtualport.profileid", "up to 39"),
        ({"virtualport": {"type": "802.1Qbh", "managerid": 1}}, "virtualport.managerid", "802.1Qbh has no managerid"),
        ({"virtualport": "midonet"}, "virtualport", "interfaceid is missing"),
        ({"virtualport": {"type": "802.1Qbg", "managerid": 1, "typeid": 2}}, "virtualport", "typeidversion is missing"),
        ({"virtualport": "802.1Qbh"}, "virtualport", "profileid is missing"),
        ({"virtualport": {"interfaceid": UUID}}, "virtualport", "type is missing"),
        ({"bandwidth": {"outbound": {"peak": 5}}}, "bandwidth.outbound", "average is missing"),
        ({"bandwidth": {"inbound": {"burst": 5, "floor": 5}}}, "bandwidth.inbound", "average is missing"),
        ({"bandwidth": {"inbound": {"floor": 5}}}, "bandwidth.inbound.floor", "for nics of type network"),
    ],
    ids=str,
)
def test_what_libvirt_refuses_is_said_with_its_place(nic: dict[str, t.Any], place: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(nic)
    assert caught.value.where == f"nics[0].{place}"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "nic",
    [
        {"vlan": [10, {"id": 20, "native": "untagged"}]},
        {"filter": "clean-traffic"},
        {"filter": {"name": "_own.x", "parameters": {"IP": "192.0.2.1", "PORT_1": 22}}},
        {"virtualport": "openvswitch"},
        {"virtualport": {"type": "openvswitch", "interfaceid": UUID, "profileid": "menial"}},
        {"virtualport": {"type": "midonet", "interfaceid": UUID.replace("-", "")}},
        {"virtualport": {"type": "802.1Qbg", "managerid": 11, "typeid": "0xA8C0DE", "typeidversion": "0x1"}},
        {"virtualport": {"type": "802.1Qbg", "typeid": 16777215, "managerid": 255, "typeidversion": 0}},
        {"network": "lan", "virtualport": {"interfaceid": UUID, "managerid": 1}},
        {"network": "lan", "virtualport": "802.1Qbh"},
    ],
    ids=str,
)
def test_what_libvirt_takes_is_let_through(nic: dict[str, t.Any]) -> None:
    assert nic.keys() - {"network"} <= set(read(nic).options)


@pytest.mark.parametrize(
    ("word", "value", "given_back"),
    [
        ("interfaceid", UUID.upper(), UUID),
        ("instanceid", UUID.replace("-", ""), UUID),
        ("managerid", "0x0B", "11"),
        ("typeidversion", "08", "8"),
        ("typeid", "0010", "10"),
    ],
)
def test_a_port_is_written_as_libvirt_gives_it_back(word: str, value: str, given_back: str) -> None:
    """Else a second run would find another one there, and change it again."""
    assert read({"network": "lan", "virtualport": {word: value}}).options["virtualport"] == {word: given_back}


def test_a_part_of_what_the_nic_has_is_enough() -> None:
    have = {"filter": {"name": "clean-traffic"}, "virtualport": {"type": "midonet", "interfaceid": UUID}}
    nic = {"filter": {"parameters": {"IP": "192.0.2.1"}}, "virtualport": {"interfaceid": UUID.replace("0", "1")}}
    assert read(nic, have).options["filter"]["parameters"] == {"IP": {"value": "192.0.2.1"}}
    network = {"type": "network", "source": "lan", "virtualport": {"type": "802.1Qbh"}}
    assert read({"network": "lan", "virtualport": "802.1Qbh"}, network).options["virtualport"] == {"type": "802.1Qbh"}
    with pytest.raises(InputError, match="profileid is missing"):
        read({"type": "bridge", "source": "br0"}, network)
    limited = {"bandwidth": {"inbound": {"average": 1000}}}
    assert read({"bandwidth": {"inbound": {"peak": 2000}}}, limited).options["bandwidth"] == {"inbound": {"peak": 2000}}


@pytest.mark.parametrize(
    ("nic", "have", "place"),
    [
        ({"model": "e1000", "queues": 4}, {"model": "virtio", "queues": 4}, "queues"),
        ({"bridge": "br0", "mode": "vepa"}, {"type": "direct", "source": "eth0", "mode": "vepa"}, "mode"),
    ],
    ids=str,
)
def test_what_a_nic_has_goes_with_what_it_loses(nic: dict[str, t.Any], have: dict[str, t.Any], place: str) -> None:
    with pytest.raises(InputError) as caught:
        read(nic, have)
    assert caught.value.where == f"nics[0].{place}"


def test_queues_of_a_nic_made_by_hand_may_stay() -> None:
    assert read({"model": "e1000", "queues": 4}, {"model": "e1000", "queues": 4}).model == "e1000"
