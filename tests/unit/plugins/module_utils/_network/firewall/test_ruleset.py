# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ruleset as nft lists it says of each host whether it gets in."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.ruleset import InputChain, read_ruleset
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    listed,
    require_nft,
)

# With what firewalls that people write have in them.
RULES = """
table inet filter {
    set admins { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.7 } }
    set banned { type ipv4_addr; flags timeout; elements = { 203.0.113.5 timeout 1h } }
    map services { type inet_service : verdict; elements = { 9090 : accept, 9091 : drop } }
    chain input {
        type filter hook input priority filter; policy drop;
        ct state vmap { established : accept, related : accept, invalid : drop }
        iif lo accept
        ip saddr @banned drop
        iifname "eth0" jump inbound
        ip saddr @admins tcp dport { 22, 5900-5910 } accept
        ip saddr != 10.0.0.0/8 tcp dport 23 accept
        ip saddr 10.0.0.1-10.0.0.9 tcp dport 24 accept
        meta l4proto { icmp, ipv6-icmp } accept
        meta l4proto udp accept
        ip protocol icmp accept
        ip protocol 1-5 accept
        icmp type echo-request accept
        udp dport 53 accept
        ct state { established, related } accept
        ct state established,related accept
        ct state new tcp dport 80 limit rate 3/second accept
        ip6 saddr fe80::/10 tcp dport 1-3 accept
        th dport 443 accept
        tcp dport vmap { 25: accept, 26: drop }
        tcp dport vmap @services
        meta nfproto ipv4 tcp dport 5 accept
        meta nfproto vmap { ipv6 : jump six }
        iifname != "lo" tcp dport 6 accept
        tcp dport 7 meta mark 1 accept
        tcp dport 8 counter log prefix "x" accept
        tcp dport != 9000 tcp dport 10 accept
        counter log prefix "x" reject with icmpx type admin-prohibited
    }
    chain inbound {
        tcp dport 99 accept
        return
    }
    chain six {
        tcp dport 66 accept
    }
    chain output { type filter hook output priority filter; policy drop; }
}
table ip mine {
    chain other { type filter hook input priority 10; tcp dport 99 drop; }
    chain nat { type nat hook input priority 0; }
}
table netdev early { }
"""


def chains() -> dict[str, InputChain]:
    require_nft()
    return {chain.name: chain for chain in read_ruleset(listed(RULES))}


def test_the_chains_where_packets_come_in() -> None:
    found = chains()
    assert [(chain.family, chain.table, name, chain.versions) for name, chain in found.items()] == [
        ("inet", "filter", "input", (4, 6)),
        ("ip", "mine", "other", (4,)),
    ]
    assert not any(chain.is_of_iptables for chain in found.values())


@pytest.mark.parametrize(
    ("port", "who"),
    [
        (22, ["10.1.1.1", "192.0.2.7"]),
        (5905, ["10.1.1.1", "192.0.2.7"]),
        (23, ["192.0.2.7", "8.8.8.8"]),
        # Rates and marks are not taken as met.
        (24, []),
        (80, []),
        (7, []),
        (443, ["10.1.1.1", "192.0.2.7", "8.8.8.8", "2001:db8::1"]),
        (25, ["10.1.1.1", "192.0.2.7", "8.8.8.8", "2001:db8::1"]),
        (26, []),
        (9090, ["10.1.1.1", "192.0.2.7", "8.8.8.8", "2001:db8::1"]),
        (9091, []),
        (5, ["10.1.1.1", "192.0.2.7", "8.8.8.8"]),
        (6, ["10.1.1.1", "192.0.2.7", "8.8.8.8", "2001:db8::1"]),
        (8, ["10.1.1.1", "192.0.2.7", "8.8.8.8", "2001:db8::1"]),
        (66, ["2001:db8::1"]),
        (2, []),
        (53, []),
        # From one of the host's cards alone.
        (99, []),
        (10, []),
    ],
)
def test_who_gets_in(port: int, who: list[str]) -> None:
    rules = chains()["input"].rules
    asked = ["10.1.1.1", "192.0.2.7", "8.8.8.8", "203.0.113.5", "2001:db8::1"]
    assert [host for host in asked if rules.lets_in(Opening(ip_network(host), (Ports(port, port),)))] == who


def test_everybody() -> None:
    rules = chains()["input"].rules
    assert [port for port in (22, 23, 443, 5, 8) if rules.lets_everybody_in(4, Ports(port, port))] == [443, 5, 8]
    assert [port for port in (22, 23, 443, 5, 66) if rules.lets_everybody_in(6, Ports(port, port))] == [443, 66]
    assert chains()["other"].rules.lets_everybody_in(4, Ports(22, 22))
    assert not chains()["other"].rules.lets_everybody_in(4, Ports(99, 99))


@pytest.mark.parametrize(
    ("rule", "open_ports"),
    [
        ("tcp dport != 22 drop", [22]),
        ("tcp dport != { 22, 49152-49215 } drop", [22, 49152]),
        ("tcp dport < 16514 drop", [16514, 49152]),
        ("tcp dport <= 16514 drop", [49152]),
        ("tcp dport > 16514 reject", [22, 16514]),
        ("th dport >= 16514 drop", [22]),
        ("tcp dport != 22 accept; drop", [16514, 49152]),
        ("tcp dport < 1024 accept; drop", [22]),
        ("ip saddr != 10.0.0.1-10.0.0.9 drop", []),
        ("ip saddr != { 10.0.0.1-10.0.0.9, 192.0.2.0/24 } drop", [22, 16514, 49152]),
        ("ip saddr 192.0.2.10-192.0.2.12 tcp dport 22 accept; drop", [22]),
        ("ip saddr 192.0.2.10-192.0.2.11 tcp dport 22 accept; drop", []),
        ("tcp flags syn drop", []),
        ("tcp flags == syn drop", []),
        ("tcp flags == syn accept; drop", [22, 16514, 49152]),
        ("tcp flags { fin, syn } drop", []),
        ("tcp flags & (fin|syn|rst|ack) == { fin, syn } drop", []),
        ("tcp flags & (fin|syn|rst|ack) != { syn, ack } drop", [22, 16514, 49152]),
        ("tcp flags & (fin|syn) { fin, fin|syn } drop", [22, 16514, 49152]),
        ("tcp flags & (syn|ack) vmap { syn : drop, syn|ack : accept }", []),
        ("tcp flags & (fin|ack) { 0, fin } drop", []),
        ("tcp flags @bad drop", []),
        ("tcp flags { fin, ack } drop", [22, 16514, 49152]),
        ("tcp flags != { syn, ack } drop", [22, 16514, 49152]),
        ("tcp flags != syn ct state new drop", [22, 16514, 49152]),
        ("tcp flags & (fin|syn|rst|ack) == syn drop", []),
        ("tcp flags & (fin|syn|rst|ack) == syn tcp dport 22 accept; drop", [22]),
        ("tcp flags & (fin|ack) == 0 drop", []),
        # What no connection begins with.
        ("tcp flags & (fin|syn|rst|ack) != syn drop", [22, 16514, 49152]),
        ("tcp flags & (fin|syn) == (fin|syn) drop", [22, 16514, 49152]),
        ("tcp flags & (syn|ack) == 0 drop", [22, 16514, 49152]),
        ("tcp flags ack accept; drop", []),
    ],
)
def test_rules_for_many_ports_and_addresses(rule: str, open_ports: list[int]) -> None:
    require_nft()
    chain = f"chain input {{ type filter hook input priority 0; policy accept; {rule}; }}"
    named = "set bad { typeof tcp flags; elements = { syn, fin|ack }; }\n"
    (found,) = read_ruleset(listed(f"table inet t {{ {named}{chain}\n}}"))
    who = ip_network("192.0.2.12")
    asked = [port for port in (22, 16514, 49152) if found.rules.lets_in(Opening(who, (Ports(port, port),)))]
    assert asked == open_ports
    # Such a rule is not about the ports of the cloud: ours may come before it.
    assert found.rules.refusal(Opening(who, (Ports(16514, 16514),))) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"nftables": [{"rule": {"family": "ip"}}]}', '{"nftables": [{"chain": 1}]}']
)
def test_what_is_no_ruleset(text: str) -> None:
    with pytest.raises(HostError, match="the rules that nft lists cannot be read"):
        read_ruleset(text)
