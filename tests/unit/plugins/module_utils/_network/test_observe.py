# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of ip(8) and bridge(8), as they were on a host, as values."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._network import observe
from ansible_collections.brine.virt.plugins.module_utils._network.observe import BridgeState, Route, stable_mac

LINKS = [
    {
        "ifname": "lo",
        "link_type": "loopback",
        "mtu": 65536,
        "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}],
    },
    {
        "ifname": "eth0",
        "link_type": "ether",
        "address": "52:54:00:11:22:33",
        "master": "br0",
        "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": 9000,
        "addr_info": [],
    },
    {
        "ifname": "br0",
        "link_type": "ether",
        "address": "52:54:00:11:22:33",
        "mtu": 1500,
        "linkinfo": {
            "info_kind": "bridge",
            "info_data": {"forward_delay": 400, "stp_state": 1, "vlan_filtering": 1, "vlan_default_pvid": 5},
        },
        "addr_info": [
            {"family": "inet", "local": "192.0.2.10", "prefixlen": 24, "scope": "global", "dynamic": True},
            {"family": "inet6", "local": "2001:db8::10", "prefixlen": 64, "scope": "global"},
            {"family": "inet6", "local": "2001:db8::abc", "prefixlen": 64, "scope": "global", "dynamic": True},
            {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
            {
                **{"family": "inet6", "local": "2001:db8::dad", "prefixlen": 64, "scope": "global"},
                **{"dadfailed": True, "tentative": True},
            },
        ],
    },
    {
        "ifname": "eth1.10",
        "link": "eth1",
        "link_type": "ether",
        "address": "52:54:00:11:22:44",
        "mtu": 1500,
        "linkinfo": {"info_kind": "vlan", "info_data": {"protocol": "802.1Q", "id": 10}},
        "addr_info": [],
    },
    {
        "ifname": "macvtap0",
        "link": "eth2",
        "link_type": "ether",
        "linkinfo": {"info_kind": "macvtap", "info_data": {"mode": "bridge"}},
        "addr_info": [],
    },
    {
        "ifname": "bond0",
        "link_type": "ether",
        "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad", "miimon": 100}},
        "addr_info": [],
    },
]
ROUTES: dict[str, list[dict[str, t.Any]]] = {
    "-4": [
        {"dst": "default", "gateway": "192.0.2.2", "dev": "br0", "metric": 200},
        {"dst": "default", "gateway": "192.0.2.1", "dev": "br0", "metric": 100},
        {"dst": "198.51.100.0/24", "gateway": "192.0.2.3", "dev": "br0"},
    ],
    "-6": [{"dst": "default", "gateway": "fe80::2", "dev": "br0", "metric": 1024}],
}
NEW = [{"ifname": "eth0", "vlans": [{"vlan": 5, "flags": ["PVID", "Egress Untagged"]}, {"vlan": 20, "vlanEnd": 29}]}]
OLD = {"eth0": [{"vlan": 5, "flags": ["PVID"]}, {"vlan": 20, "vlanEnd": 29}]}


def ask(monkeypatch: pytest.MonkeyPatch, vlans: str) -> observe.Network:
    def run(*command: str) -> str:
        if command[0] == "bridge":
            return vlans
        return json.dumps(LINKS if "address" in command else ROUTES[command[2]])

    monkeypatch.setattr(observe, "run", run)
    return observe.observe_network()


@pytest.mark.parametrize("vlans", [json.dumps(NEW), json.dumps(OLD)], ids=["now", "iproute2 before 5.0"])
def test_what_the_kernel_says(monkeypatch: pytest.MonkeyPatch, vlans: str) -> None:
    network = ask(monkeypatch, vlans)
    bridge, port, vlan = (network.links[name] for name in ("br0", "eth0", "eth1.10"))
    assert bridge.bridge == BridgeState(stp=True, forward_delay=400, vlan_filtering=True, pvid=5)
    # Addresses of IPv6 that are given for a time are nobody's to keep.
    assert bridge.addresses == ("192.0.2.10/24", "2001:db8::10/64")
    # Nor is one that another host has.
    assert bridge.static == ("2001:db8::10/64", "2001:db8::dad/64")
    assert (port.master, port.mtu, port.vlans, port.bridge) == ("br0", 9000, ((5, 5), (20, 29)), None)
    assert (vlan.kind, vlan.vlan, vlan.below) == ("vlan", 10, "eth1")
    assert (port.carrier, vlan.carrier) == (True, False)
    assert network.links["macvtap0"].below == "eth2"
    assert [network.links[name].mode for name in ("bond0", "macvtap0")] == ["802.3ad", ""]
    assert network.ports("br0") == ["eth0"]
    assert network.gateways("br0") == ("192.0.2.1", "192.0.2.2", "fe80::2")
    words = ("unicast", "198.51.100.0/24", "via", "192.0.2.3", "dev", "br0")
    assert network.routes == (Route("br0", "192.0.2.3", "198.51.100.0/24", protocol="boot", words=words),)


def test_a_route_with_several_gateways_is_one_by_each_and_other_tables_are_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As iproute2 6.15 has it; so networkd puts two routers of IPv6 together."""
    hops = [{"gateway": f"192.0.2.{number}", "dev": f"eth{number}", "weight": 1, "flags": []} for number in (1, 2)]
    several = {"dst": "default", "protocol": "static", "flags": [], "nexthops": hops}
    rule = {"dst": "default", "gateway": "192.0.2.7", "dev": "eth1", "table": "100", "flags": []}
    own = {"type": "local", "dst": "192.0.2.10", "dev": "eth1", "table": "local", "protocol": "kernel"}
    monkeypatch.setitem(ROUTES, "-4", [rule, several, own])
    network = ask(monkeypatch, "[]")
    hop = "nexthop via 192.0.2.{0} dev eth{0} weight 1"
    words = tuple(f"unicast default proto static {hop.format(1)} {hop.format(2)}".split())
    assert network.default_routes[:2] == tuple(
        Route(f"eth{number}", f"192.0.2.{number}", protocol="static", words=words) for number in (1, 2)
    )
    words = ("unicast", "default", "table", "100", "via", "192.0.2.7", "dev", "eth1")
    assert network.tables == (Route("eth1", "192.0.2.7", protocol="boot", words=words, table="100"),)
    assert network.routes == ()


def test_a_kernel_without_vlans_and_an_answer_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, "").links["eth0"].vlans == ()
    with pytest.raises(HostError, match="the answer of bridge vlan show cannot be read"):
        ask(monkeypatch, "[{}]")


def test_the_address_of_a_bridge_without_uplink_is_its_own_on_each_host() -> None:
    one, other = (observe.Network({}, (), machine=machine) for machine in ("a", "b"))
    assert stable_mac(one, "br0") == stable_mac(one, "br0")
    assert len({stable_mac(one, "br0"), stable_mac(one, "br1"), stable_mac(other, "br0")}) == 3
    # Locally administered, and of one station.
    assert int(stable_mac(one, "br0")[:2], 16) & 3 == 2
