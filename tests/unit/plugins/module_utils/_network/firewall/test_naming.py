# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.firewalld import read_zones
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.naming import (
    chains_that_name,
    zones_that_name,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    listed,
    require_nft,
)


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ("", []),
        (
            'table inet f { chain in { type filter hook input priority 0; iifname "eth0" tcp dport 3306 drop; }; }',
            ["the chain in of the table inet f"],
        ),
        (
            'table ip f { chain in { iifname { "eth0", "eth1" } accept; iifname "eth0" drop; }; chain x { accept; }; }',
            ["the chain in of the table ip f"],
        ),
        ('table ip f { chain out { oifname "eth*" masquerade; }; }', ["the chain out of the table ip f"]),
        (
            'table inet f { set wan { type ifname; elements = { "eth0" }; }; chain in { iifname @wan drop; }; }',
            ["the set wan of the table inet f"],
        ),
        (
            'table inet f { chain a { drop; }; chain in { iifname vmap { "eth0" : jump a }; }; }',
            ["the chain in of the table inet f"],
        ),
        # Others' interfaces, firewalld's own, and those that see ports: none of them changes its meaning.
        ('table inet f { chain in { iifname "eth01" drop; iifname "lo" accept; iifname != "eth1" drop; }; }', []),
        ('table inet firewalld { chain in { iifname "eth0" drop; }; }', []),
        ('table bridge f { chain in { iifname "eth0" drop; }; }', []),
        # Not the rule, but what it is called.
        ("table inet f { chain eth0 { tcp dport 1 drop; }; }", []),
    ],
)
def test_chains_and_sets_that_name_it(rules: str, found: list[str]) -> None:
    require_nft()
    assert chains_that_name("eth0", listed(rules)) == found


def test_zones_other_than_the_default_one() -> None:
    zones = read_zones(
        "dmz (active)\n  target: default\n  interfaces: eth0\n  services: ssh\n\n"
        "public (default, active)\n  target: default\n  interfaces: eth1\n  services: ssh\n"
    )
    assert zones_that_name("eth0", zones, "public") == ["the zone dmz of firewalld"]
    assert zones_that_name("eth1", zones, "public") == []
