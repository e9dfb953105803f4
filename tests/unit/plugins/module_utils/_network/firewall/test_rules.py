# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""«Open» is said only where it is certain; what refuses some says nothing of others."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.rules import (
    Chains,
    Condition,
    Rule,
    Verdict,
)

TLS = (Ports(16514, 16514),)
HOST, OTHERS = (ip_network("192.0.2.12"),), (ip_network("192.0.2.128/25"),)
NETWORK = (ip_network("192.0.2.0/24"),)
ACCEPT, REFUSE = Verdict.ACCEPT, Verdict.REFUSE
JUMP = Rule(Verdict.JUMP, "more")
GOTO = Rule(Verdict.GOTO, "more")


@pytest.mark.parametrize(
    ("rules", "more", "answer"),
    [
        ([], [], None),
        ([Rule(ACCEPT)], [], True),
        ([Rule(ACCEPT, sources=NETWORK, ports=TLS)], [], True),
        ([Rule(ACCEPT, sources=OTHERS)], [], None),
        ([Rule(ACCEPT, ports=(Ports(22, 22),))], [], None),
        ([Rule(REFUSE, sources=NETWORK), Rule(ACCEPT)], [], False),
        ([Rule(ACCEPT), Rule(REFUSE)], [], True),
        # A list of others, or one that nobody can read, says nothing of this host.
        ([Rule(REFUSE, sources=OTHERS)], [], None),
        ([Rule(REFUSE, condition=Condition.OTHER)], [], None),
        ([Rule(REFUSE, condition=Condition.INTERFACE)], [], False),
        ([Rule(ACCEPT, condition=Condition.INTERFACE)], [], None),
        ([Rule(ACCEPT, condition=Condition.OTHER)], [], None),
        ([JUMP], [Rule(ACCEPT)], True),
        ([JUMP, Rule(REFUSE)], [], False),
        ([GOTO, Rule(REFUSE)], [], None),
        ([JUMP, Rule(REFUSE)], [Rule(Verdict.RETURN), Rule(ACCEPT)], False),
        ([Rule(Verdict.JUMP, "more", condition=Condition.INTERFACE)], [Rule(REFUSE)], False),
        ([Rule(Verdict.JUMP, "more", condition=Condition.INTERFACE)], [Rule(ACCEPT)], None),
        ([Rule(Verdict.JUMP, "more", condition=Condition.OTHER)], [Rule(REFUSE)], None),
        ([Rule(Verdict.NEXT), JUMP], [JUMP], False),
    ],
)
def test_what_a_chain_says_of_a_host(rules: list[Rule], more: list[Rule], answer: bool | None) -> None:
    for accepts in (True, False):
        chains = Chains({"input": tuple(rules), "more": tuple(more)}, "input", accepts=accepts)
        assert chains.lets_in(Opening(HOST[0], TLS)) is (accepts if answer is None else answer)


def test_all_ports_have_to_be_open() -> None:
    chains = Chains({"input": (Rule(ACCEPT, ports=(Ports(16514, 16600),)),)}, "input", accepts=False)
    assert chains.lets_in(Opening(HOST[0], (Ports(16514, 16520), Ports(16600, 16600))))
    assert not chains.lets_in(Opening(HOST[0], (Ports(16514, 16520), Ports(16600, 16601))))
    some = Chains({"input": (Rule(REFUSE, ports=(Ports(49160, 49160),)),)}, "input", accepts=True)
    assert not some.lets_in(Opening(HOST[0], (Ports(49152, 49215),)))


@pytest.mark.parametrize(
    ("rule", "everybody"),
    [
        (Rule(ACCEPT), True),
        (Rule(ACCEPT, sources=(ip_network("0.0.0.0/0"),)), True),
        (Rule(ACCEPT, sources=NETWORK), False),
        (Rule(REFUSE, sources=(ip_network("128.0.0.0/1"),)), False),
        (Rule(REFUSE, sources=NETWORK), True),
    ],
)
def test_everybody_is_more_than_a_network(rule: Rule, everybody: bool) -> None:
    chains = Chains({"input": (rule,)}, "input", accepts=rule.verdict is REFUSE)
    assert chains.lets_everybody_in(4, TLS[0]) is everybody
