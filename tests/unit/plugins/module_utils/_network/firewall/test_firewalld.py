# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rich rules in firewalld's zones, as firewall-cmd of firewalld 1.3.3 lists them."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.firewalld import (
    Firewalld,
    plan_firewalld,
    read_service,
    read_zones,
    rich_rules,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import FirewallPlan, FirewallSpec

# firewall-cmd writes a blank after each colon.
ZONE = """\
{name}
  target: {target}
  icmp-block-inversion: no
  interfaces: {interfaces}
  sources: {sources}
  services: {services}
  ports: {ports}
  protocols:
  forward: yes
  masquerade: no
  forward-ports:
\tport=80:proto=tcp:toport=8080:toaddr=
  source-ports:
  icmp-blocks:
  rich rules:
{rules}

""".replace(":\n", ": \n")
SERVICE = """\
libvirt-tls
  ports: 16514/tcp 53/udp
  protocols:
  source-ports: 1/tcp
  modules:
  destination:
  includes:
  helpers:
""".replace(":\n", ": \n")
PORTS = (Ports(16514, 16514), Ports(49152, 49215))
HV2 = Opening(ip_network("192.0.2.12"), PORTS)
SIX = Opening(ip_network("2001:db8::12"), PORTS)
OPERATOR = Opening(ip_network("198.51.100.0/24"), PORTS[:1])
SPEC = FirewallSpec((HV2, OPERATOR, SIX))
RULES = (
    'rule priority="-16514" family="ipv4" source address="192.0.2.12" port port="16514" protocol="tcp" accept',
    'rule priority="-16514" family="ipv4" source address="192.0.2.12" port port="49152-49215" protocol="tcp" accept',
    'rule priority="-16514" family="ipv4" source address="198.51.100.0/24" port port="16514" protocol="tcp" accept',
    'rule priority="-16514" family="ipv6" source address="2001:db8::12" port port="16514" protocol="tcp" accept',
    'rule priority="-16514" family="ipv6" source address="2001:db8::12" port port="49152-49215" protocol="tcp" accept',
)


def zone(name: str, *rules: str, **said: str) -> str:
    usual = {"target": "default", "interfaces": "", "sources": "", "services": "dhcpv6-client ssh", "ports": ""}
    return ZONE.format(name=name, rules="".join(f"\t{rule}\n" for rule in rules).rstrip("\n"), **{**usual, **said})


def firewalld(running: str, permanent: str | None = None) -> Firewalld:
    zones = read_zones(running)
    lasting = zones if permanent is None else read_zones(permanent)
    return Firewalld("public", zones, lasting, {"libvirt-tls": PORTS[:1], "all": (Ports(1, 65535),)})


def test_zones_are_read_as_they_are_listed() -> None:
    text = zone("public (default, active)", "rule accept", interfaces="eth0 br0", ports="80/tcp 53/udp 8000-8010/tcp")
    text += zone("drop", target="DROP", sources="10.0.0.0/8 00:11:22:33:44:55 ipset:x", services="")
    public, drop = read_zones(text).values()
    assert (public.name, public.interfaces, public.services) == ("public", ("eth0", "br0"), ("dhcpv6-client", "ssh"))
    assert (public.ports, public.rich_rules) == ((Ports(80, 80), Ports(8000, 8010)), ("rule accept",))
    assert (drop.target, drop.sources, drop.services) == ("DROP", (ip_network("10.0.0.0/8"),), ())
    assert drop.rich_rules == ()
    assert read_service(SERVICE) == (Ports(16514, 16514),)


def test_rules_are_written_as_firewalld_writes_them() -> None:
    assert rich_rules(SPEC.openings) == RULES


def test_rules_run_first_and_last_later() -> None:
    plan = plan_firewalld(SPEC, firewalld(zone("public (active)", interfaces="eth0")), ["eth0"])
    words = ("firewall-cmd", "--quiet")
    assert plan.apply == ((*words, "--zone=public", *(f"--add-rich-rule={rule}" for rule in RULES)),)
    assert plan.restore == ((*words, "--zone=public", *(f"--remove-rich-rule={rule}" for rule in RULES)),)
    assert [command[4:] for command in plan.back] == [(*words, "--zone=public", f"--query-rich-rule={RULES[-1]}")]
    assert plan.keep == ((*words, "--permanent", "--zone=public", *(f"--add-rich-rule={rule}" for rule in RULES)),)
    assert [(one.place, one.tried) for one in plan.differences] == [
        ("firewalld, zone public, running", True),
        ("firewalld, zone public, permanent", False),
    ]


def test_rules_that_are_there_are_enough_in_any_order() -> None:
    there = zone("public", *reversed(RULES), interfaces="eth0")
    assert plan_firewalld(SPEC, firewalld(there), ["eth0"]) == FirewallPlan()


def test_rules_that_only_run_are_made_to_last() -> None:
    plan = plan_firewalld(SPEC, firewalld(zone("public", *RULES), zone("public", *RULES[:3])), [])
    assert (plan.apply, plan.restore) == ((), ())
    (keep,) = plan.keep
    assert keep[4:] == tuple(f"--add-rich-rule={rule}" for rule in RULES[3:])


def test_hosts_that_left_lose_theirs_and_other_rules_stay() -> None:
    other = 'rule family="ipv4" source address="192.0.2.0/24" port port="16514" protocol="tcp" log accept'
    there = firewalld(zone("public", *RULES, 'rule family="ipv4" source address="10.0.0.1" drop', "rule reject", other))
    plan = plan_firewalld(FirewallSpec((OPERATOR, SIX)), there, [])
    assert plan.apply == (
        ("firewall-cmd", "--quiet", "--zone=public", *(f"--remove-rich-rule={r}" for r in RULES[:2])),
    )
    kept = plan_firewalld(FirewallSpec((OPERATOR,), keep_others=True), there, [])
    assert kept == FirewallPlan()
    gone = plan_firewalld(FirewallSpec(()), there, [])
    assert gone.apply[0][3:] == tuple(f"--remove-rich-rule={rule}" for rule in RULES)


@pytest.mark.parametrize(
    "text",
    [
        zone("public", target="ACCEPT", services=""),
        zone("public", ports="16514/tcp 49152-49215/tcp"),
        zone("public", services="all"),
        zone("public", 'rule family="ipv4" source address="192.0.2.0/24" accept'),
        zone("public", 'rule family="ipv4" accept'),
        zone(
            "public",
            'rule family="ipv4" source address="192.0.2.0/24" service name="libvirt-tls" accept',
            'rule family="ipv4" source address="192.0.2.0/24" port port="49000-50000" protocol="tcp" accept',
        ),
        zone("public", 'rule priority="-1" family="ipv4" accept', "rule drop"),
    ],
)
def test_what_lets_in_already_is_enough(text: str) -> None:
    assert plan_firewalld(FirewallSpec((HV2,)), firewalld(text), []) == FirewallPlan()


@pytest.mark.parametrize(
    "text",
    [
        zone("public", ports="16514/tcp 49152-49215/udp"),
        zone("public", services="libvirt-tls unknown"),
        zone("public", 'rule family="ipv4" source NOT address="10.0.0.0/8" accept'),
        zone("public", 'rule family="ipv4" source ipset="friends" accept'),
        zone("public", 'rule family="ipv6" accept'),
        zone("public", 'rule family="ipv4" source address="192.0.2.0/24" accept limit value="1/m"'),
        zone("public", 'rule family="ipv4" source address="192.0.2.0/24" protocol value="icmp" accept'),
        zone("public", 'rule family="ipv4" source-port port="16514" protocol="tcp" accept'),
        zone("public", "rule drop", "rule accept"),
        zone("public", 'rule priority="1" accept', 'rule priority="-1" reject'),
        zone("public", 'rule family="ipv4" source address="192.0.2.0/24" mark set="1"'),
    ],
)
def test_what_does_not_certainly_let_in_is_not(text: str) -> None:
    assert len(plan_firewalld(FirewallSpec((HV2,)), firewalld(text), []).apply) == 1


@pytest.mark.parametrize(
    ("zones", "is_let_in"),
    [
        ((zone("public"),), False),
        ((zone("public", *RULES[:2]),), True),
        ((zone("public", *RULES[:1]),), False),
        ((zone("public"), zone("work", *RULES[:2], interfaces="br0")), True),
        # It comes in by one of them; by which one, nobody says here.
        ((zone("public", interfaces="eth0"), zone("trusted", interfaces="br0", target="ACCEPT")), True),
        ((zone("public"), zone("trusted", interfaces="virbr0", target="ACCEPT")), False),
        # Who is of a source is in no other zone.
        ((zone("public", target="ACCEPT"), zone("internal", sources="192.0.2.0/25")), False),
        ((zone("public"), zone("internal", sources="192.0.2.0/25", target="ACCEPT")), True),
    ],
)
def test_whether_a_host_is_let_in_now(zones: tuple[str, ...], is_let_in: bool) -> None:
    assert firewalld("".join(zones)).lets_in(HV2, ["eth0", "br0"]) is is_let_in


def test_all_zones_by_which_hosts_come_in_and_no_others() -> None:
    text = "".join(
        [
            zone("public (default)"),
            zone("work (active)", interfaces="br0"),
            zone("libvirt (active)", interfaces="virbr0", target="ACCEPT"),
            zone("dmz (active)", interfaces="eth7"),
            zone("internal (active)", sources="192.0.2.0/25"),
            zone("home", RULES[0]),
        ]
    )
    plan = plan_firewalld(SPEC, firewalld(text), ["br0"])
    added = {command[2]: [word.split('address="')[1].split('"')[0] for word in command[3:]] for command in plan.apply}
    everybody = ["192.0.2.12", "192.0.2.12", "198.51.100.0/24", "2001:db8::12", "2001:db8::12"]
    assert added == {
        "--zone=public": everybody,
        "--zone=work": everybody,
        # Who is of this source is in no other zone.
        "--zone=internal": ["192.0.2.12", "192.0.2.12"],
        "--zone=home": ["192.0.2.12"],
    }
    assert [command[3].partition("=")[0] for command in plan.apply if command[2] == "--zone=home"] == [
        "--remove-rich-rule"
    ]
