# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._network.spec import (
    BridgeSpec,
    Uplink,
    read_bridge,
    read_bridges,
)

PLACE = "virt_bridge_bridges"


def read(**words: t.Any) -> BridgeSpec:
    return read_bridge({"name": "br0", **words}, f"{PLACE}[0]")


def test_a_name_alone_takes_over_what_the_uplink_has() -> None:
    spec = read()
    assert spec == BridgeSpec("br0")
    assert not spec.addressing
    assert not spec.alone


def test_all_words() -> None:
    spec = read(
        uplink="eth0", manager="netplan", dhcp6="yes", accept_ra=False, addresses="192.0.2.10/24",
        gateway="192.0.2.1", nameservers=["192.0.2.53"], search="example.org",
        routes=[{"to": "198.51.100.0/24", "via": "192.0.2.2", "metric": 7}], mtu=9000, stp=True,
        vlan_filtering=True, vlans=[30, "20-28", 29, "40"], pvid=10,
    )  # fmt: skip
    assert spec == BridgeSpec(
        "br0", Uplink("eth0"), manager="netplan", dhcp6=True, accept_ra=False, addresses=("192.0.2.10/24",),
        gateway=("192.0.2.1",), nameservers=("192.0.2.53",), search=("example.org",),
        routes=({"to": "198.51.100.0/24", "via": "192.0.2.2", "metric": 7},), mtu=9000, stp=True,
        vlan_filtering=True, vlans=((20, 30), (40, 40)), pvid=10,
    )  # fmt: skip
    assert spec.addressing
    assert not spec.asks_dhcp4


@pytest.mark.parametrize(
    ("value", "uplink"),
    [
        ("eth0", Uplink("eth0")),
        ({"bond": ["eth0", "eth1"]}, Uplink("bond0", bond=("eth0", "eth1"), mode="active-backup")),
        (
            {"bond": ["eth0"], "name": "bond7", "mode": "802.3ad"},
            Uplink("bond7", bond=("eth0",), mode="802.3ad"),
        ),
        ({"vlan": 10, "link": "eth0"}, Uplink("eth0.10", link="eth0", vlan=10)),
        ({"vlan": "10", "link": "enp65s0f0np1", "name": "lan"}, Uplink("lan", link="enp65s0f0np1", vlan=10)),
    ],
)
def test_uplinks(value: t.Any, uplink: Uplink) -> None:
    assert read(uplink=value).uplink == uplink


@pytest.mark.parametrize("value", [False, "none", "no"])
def test_no_uplink_at_all(value: t.Any) -> None:
    spec = read(uplink=value)
    assert (spec.uplink, spec.alone) == (None, True)


@pytest.mark.parametrize(
    ("words", "dhcp"),
    [({"search": "example.org"}, True), ({"addresses": "2001:db8::1/64"}, False), ({"dhcp4": False}, False)],
)
def test_dhcp_is_asked_exactly_without_addresses(words: dict[str, t.Any], dhcp: bool) -> None:
    assert read(**words).addressing
    assert read(**words).asks_dhcp4 is dhcp


STATIC = {"addresses": ["192.0.2.10/24", "2001:db8::10/64"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"adresses": []}, "unknown option 'adresses'. Did you mean addresses?"),
        ({"name": "bridge-with-a-long-name"}, ".name: 'bridge-with-a-long-name' is not a name for a bridge"),
        ({"name": "all"}, ".name: Linux keeps the name all for itself"),
        ({"uplink": {"bond": ["eth0"], "name": "default"}}, ".uplink.name: Linux keeps the name default for itself"),
        ({"name": "br0-uplink"}, ".name: the name of a bridge cannot end in -uplink"),
        ({"name": "br0-port"}, ".name: the name of a bridge cannot end in -port"),
        ({"addresses": ["192.0.2.1/24", "192.0.2.2"]}, ".addresses[1]: '192.0.2.2' is not an address with a prefix"),
        ({"manager": "wicked"}, ".manager: 'wicked' is not a choice. Choose one of auto, networkd"),
        ({"uplink": "br0"}, ".uplink: br0 cannot be its own uplink"),
        ({"uplink": {"link": "eth0"}}, ".uplink: an uplink of several words is a bond or a VLAN"),
        ({"uplink": {"vlan": 10}}, ".uplink: link is missing. Write {vlan: 10, link: eth0}"),
        ({"uplink": {"vlan": 10, "link": "eth0", "mode": "802.3ad"}}, ".uplink.mode: mode is for a bond"),
        ({"uplink": {"vlan": 4095, "link": "eth0"}}, ".uplink.vlan: 4095 is not allowed"),
        (
            {"uplink": {"vlan": 4000, "link": "enp65s0f0np1"}},
            ".uplink: the VLAN would be called enp65s0f0np1.4000, and Linux has no names of more than 15 letters. "
            "Give it another name, for example name: vlan4000",
        ),
        ({"uplink": {"bond": []}}, ".uplink.bond: a bond needs interfaces"),
        ({"uplink": {"bond": ["eth0", "eth0"]}}, ".uplink.bond: a bond needs interfaces, each once"),
        ({"uplink": {"bond": ["bond0", "eth0"]}}, ".uplink.bond: bond0 cannot be made of itself"),
        ({"uplink": {"bond": ["eth0"], "mode": "4"}}, ".uplink.mode: '4' is not a choice"),
        ({"uplink": False, "dhcp4": True}, ".dhcp4: a bridge without uplink has nobody to ask for an address"),
        (
            {"uplink": False, "gateway": "192.0.2.1"},
            ".gateway: the bridge has no address of IPv4, so it cannot reach 192.0.2.1",
        ),
        (
            {"addresses": ["192.0.2.10/24"], "gateway": ["192.0.2.1", "fe80::1"]},
            ".gateway: the bridge has no address of IPv6, so it cannot reach fe80::1",
        ),
        ({"dhcp4": False, "gateway": "2001:db8::1"}, ".gateway: the bridge has no address of IPv6"),
        ({**STATIC, "gateway": "198.51.100.1"}, ".gateway: 198.51.100.1 is in none of the networks"),
        (
            {**STATIC, "routes": [{"to": "default", "via": "198.51.100.1"}]},
            ".routes[0].via: 198.51.100.1 is in none of the networks",
        ),
        ({"vlans": [10]}, ".vlans: vlans needs a bridge that filters VLANs. Set vlan_filtering: true"),
        ({"pvid": 10, "vlan_filtering": False}, ".pvid: pvid needs a bridge that filters VLANs"),
        ({"vlan_filtering": True, "vlans": ["30-20"]}, ".vlans[0]: '30-20' ends before it begins"),
        ({"vlan_filtering": True, "vlans": ["1-9"]}, ".vlans: VLAN 1 is the one that the uplink carries untagged"),
        ({"vlan_filtering": True, "vlans": [9], "uplink": False}, ".vlans: vlans are the uplink's, and the bridge has"),
        (
            {"vlan_filtering": True, "vlans": [9], "uplink": {"vlan": 10, "link": "eth0"}},
            ".vlans: the uplink is a VLAN, which carries no others",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(words: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**words)
    assert str(caught.value).startswith(f"{PLACE}[0]")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        {**STATIC, "gateway": ["192.0.2.1", "fe80::1"]},
        {"dhcp4": True, "gateway": "203.0.113.1", "addresses": ["192.0.2.10/24"]},
        {"routes": [{"to": "198.51.100.0/24", "via": "192.0.2.2"}]},
        {"uplink": False, "addresses": ["192.0.2.1/24"]},
        {"dhcp4": False, "dhcp6": False, "accept_ra": True, "gateway": "2001:db8::1"},
        {"uplink": False},
        {"dhcp4": False},
    ],
)
def test_what_could_work_is_not_refused(words: dict[str, t.Any]) -> None:
    read(**words)


def test_all_mistakes_of_all_bridges_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_bridges(
            [
                {"name": "br0", "uplink": "eth0"},
                {"name": "br0"},
                {"name": "br1", "uplink": "eth0"},
                {"name": "br2", "mtu": 7, "stp": "perhaps"},
                "br3",
                {"uplink": "eth5"},
            ],
            PLACE,
        )
    lines = str(caught.value).split("\n")
    starts = [
        "[1].name: there are two bridges called br0", "[2].uplink: eth0 is the uplink of br0 already", "[3].mtu: 7",
        "[3].stp: 'perhaps'", "[4]: 'br3' is not a mapping", "[5]: name is missing",
    ]  # fmt: skip
    assert [line.startswith(PLACE + start) for line, start in zip(lines, starts)] == [True] * len(lines)  # noqa: B905
    assert len(lines) == len(starts)


def test_vlans_of_one_interface_are_uplinks_of_several_bridges() -> None:
    found = read_bridges([{"name": f"br{n}", "uplink": {"vlan": n, "link": "eth0"}} for n in (10, 20)], PLACE)
    assert [bridge.name for bridge in found] == ["br10", "br20"]


@pytest.mark.parametrize(
    "other",
    [
        {"name": "br0", "uplink": {"vlan": 20, "link": "eth0", "name": "lan"}},
        {"name": "br0", "uplink": "eth0", "vlan_filtering": True, "vlans": ["10-30"]},
    ],
)
def test_a_vlan_goes_to_one_bridge_alone(other: dict[str, t.Any]) -> None:
    with pytest.raises(InputError, match=r"bridges\[1\]\.uplink: VLAN 20 of eth0 goes to br0 already"):
        read_bridges([other, {"name": "br20", "uplink": {"vlan": 20, "link": "eth0"}}], PLACE)


@pytest.mark.parametrize(
    ("bridges", "sentence"),
    [
        (
            [{"name": "br0", "uplink": {"bond": ["eth0", "eth1"]}}, {"name": "br0-bond0", "uplink": False}],
            "bridges[1].name: a file of br0-bond0 would be called as one of br0 (br0-bond0)",
        ),
        (
            [{"name": "br0-eth0", "uplink": False}, {"name": "br0", "uplink": {"bond": ["eth0", "eth1"]}}],
            "bridges[1].name: a file of br0 would be called as one of br0-eth0 (br0-eth0)",
        ),
        (
            [{"name": "br0-port-eth0", "uplink": False}, {"name": "br0", "uplink": {"bond": ["eth0", "eth1"]}}],
            "bridges[1].name: a file of br0 would be called as one of br0-port-eth0 (br0-port-eth0)",
        ),
        (
            [
                {"name": "br0", "uplink": {"vlan": 7, "link": "eth0", "name": "v7"}},
                {"name": "br0-v7", "uplink": "eth1"},
            ],
            "bridges[1].name: a file of br0-v7 would be called as one of br0 (br0-v7)",
        ),
        (
            [{"name": "br0", "uplink": {"bond": ["eth0", "port"]}}],
            "bridges[0].uplink: br0 would have two files of one name (br0-port)",
        ),
        (
            [{"name": "br0", "uplink": {"bond": ["eth0", "eth1"], "name": "br1"}}, {"name": "br1", "uplink": False}],
            "bridges: br1 is to be a bridge, and the uplink of br0",
        ),
    ],
)
def test_files_of_two_bridges_are_never_called_the_same(bridges: list[t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_bridges(bridges, "bridges")
    assert str(caught.value).startswith(sentence)


def test_names_that_only_look_alike_are_fine() -> None:
    bridges = [
        {"name": "br0", "uplink": "eth0"},
        {"name": "br0-eth0", "uplink": "eth1"},
        {"name": "br0-b", "uplink": False},
    ]
    assert len(read_bridges(bridges, "bridges")) == 3
