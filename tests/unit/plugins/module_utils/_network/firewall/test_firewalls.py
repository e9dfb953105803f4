# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's firewalls together: what they are called, and all mistakes of a run at once."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.firewalld import Firewalld, Zone
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.firewalls import Firewalls
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.iptables import read_rules
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import FirewallPlan, FirewallSpec
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.rules import Chains, Rule, Verdict
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.ruleset import InputChain
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.ufw import read_ufw

PORTS = (Ports(16514, 16514), Ports(49152, 49215))
SHUT = read_rules("-P INPUT DROP\n-A INPUT -p tcp --dport 5900 -j ACCEPT\n", 4, "iptables")
SHUT_6 = read_rules("-P INPUT DROP\n", 6, "ip6tables")
OPEN = read_rules("-P INPUT ACCEPT\n", 4, "iptables")
CHAIN = InputChain("inet", "filter", "input", Chains({"input": ()}, "input", accepts=False))
UFW = read_ufw([], "IPV6=no\nDEFAULT_INPUT_POLICY=DROP\n")
PUBLIC = Zone("public", "default", ("eth0",), (), (), (Ports(5900, 5910),), ())
FIREWALLD = Firewalld("public", {"public": PUBLIC}, {"public": PUBLIC}, {})
SPEC = FirewallSpec((Opening(ip_network("192.0.2.12"), PORTS), Opening(ip_network("2001:db8::12"), PORTS)))


@pytest.mark.parametrize(
    ("firewalls", "names"),
    [
        (Firewalls(), []),
        (Firewalls(tables=((OPEN, None),)), []),
        (Firewalls(tables=((OPEN, None), (SHUT_6, None))), ["iptables"]),
        (Firewalls(chains=(CHAIN,), tables=((SHUT, None),)), ["nftables", "iptables"]),
        (Firewalls(ufw=UFW), ["ufw"]),
        (Firewalls(firewalld=FIREWALLD, chains=(CHAIN,)), ["firewalld", "nftables"]),
    ],
)
def test_what_filters_is_named(firewalls: Firewalls, names: list[str]) -> None:
    assert firewalls.names(PORTS) == names
    assert bool(firewalls.names((Ports(22, 22),))) is bool(names)


def test_what_does_not_filter_our_ports_is_not() -> None:
    chains = Chains({"i": (Rule(Verdict.REFUSE, ports=(Ports(22, 22),)),)}, "i", accepts=True)
    assert Firewalls(chains=(InputChain("inet", "f", "i", chains),)).names(PORTS) == []


@pytest.mark.parametrize(
    ("firewalls", "versions"),
    [
        (Firewalls(tables=((SHUT, None),)), [4, 6]),
        (Firewalls(tables=((SHUT, None), (SHUT_6, None))), [4]),
        (Firewalls(tables=((SHUT, None), (SHUT_6, None)), chains=(CHAIN,)), []),
        (Firewalls(ufw=UFW), []),
        (Firewalls(("eth0",), firewalld=FIREWALLD), [4, 6]),
        # In the default zone, and in another one that has not this port.
        (Firewalls(("br0",), firewalld=FIREWALLD), [4, 6]),
        (Firewalls(("eth0",), firewalld=FIREWALLD, tables=((SHUT_6, None),)), [4]),
    ],
)
def test_whether_everybody_gets_to_the_consoles(firewalls: Firewalls, versions: list[int]) -> None:
    console = Ports(5900, 5900)
    assert [version for version in (4, 6) if firewalls.open_to_everybody(console, [version])] == versions
    assert firewalls.open_to_everybody(console, [4, 6]) is bool(versions)
    assert not firewalls.open_to_everybody(console, [])


OPENED = read_rules(
    "-P INPUT DROP\n-N BRINE-VIRT\n-A INPUT -j BRINE-VIRT\n"
    "-A BRINE-VIRT -s 192.0.2.12/32 -p tcp -m multiport --dports 16514,49152:49215 -j ACCEPT\n",
    4,
    "iptables",
)
OF_UFW = "### tuple ### allow tcp 16514,49152:49215 0.0.0.0/0 any 192.0.2.12 in comment=6272696e652e76697274\n"


@pytest.mark.parametrize(
    ("firewalls", "let_in"),
    [
        (Firewalls(), [True, True]),
        (Firewalls(tables=((SHUT, None),)), [False, True]),
        (Firewalls(tables=((OPENED, None), (SHUT_6, None))), [True, False]),
        # Each of them has to let it in.
        (Firewalls(tables=((OPENED, None),), chains=(CHAIN,)), [False, False]),
        (Firewalls(ufw=UFW), [False, False]),
        (Firewalls(ufw=read_ufw([OF_UFW], "IPV6=no\nDEFAULT_INPUT_POLICY=DROP\n")), [True, False]),
        (Firewalls(ufw=read_ufw([], "IPV6=no\nDEFAULT_INPUT_POLICY=ACCEPT\n")), [True, False]),
        (Firewalls(("eth0",), firewalld=FIREWALLD), [False, False]),
    ],
)
def test_whether_a_host_is_let_in_now(firewalls: Firewalls, let_in: list[bool]) -> None:
    assert [firewalls.lets_in(opening) for opening in SPEC.openings] == let_in


def test_all_that_cannot_last_is_said_at_once() -> None:
    firewalls = Firewalls(chains=(CHAIN,), tables=((SHUT, None), (SHUT_6, None)))
    with pytest.raises(UnsupportedError) as caught:
        firewalls.plan(SPEC)
    said = [line for line in str(caught.value).splitlines() if "refuses" in line]
    assert [line.split()[0] for line in said] == ["iptables", "ip6tables", "nftables"]


def test_firewalld_and_ufw_are_opened_like_the_others() -> None:
    plan = Firewalls(("eth0",), firewalld=FIREWALLD).plan(SPEC)
    assert [command[0] for command in plan.apply] == ["firewall-cmd"]
    assert [command[0] for command in Firewalls(ufw=UFW).plan(SPEC).apply] == ["iptables"]
    assert Firewalls().plan(SPEC) == FirewallPlan()
