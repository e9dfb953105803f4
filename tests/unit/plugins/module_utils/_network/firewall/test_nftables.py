# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in chains that somebody wrote: real ones, in a network of their own; nft itself says what became of them."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterable
from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.nftables import NftablesFile, plan_nftables
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import FirewallPlan, FirewallSpec
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.ruleset import InputChain, read_ruleset
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    listed,
    own_network,
    require_nft,
)

pytestmark = pytest.mark.medium

RULES = """\
#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        iif "lo" accept
        ct state established,related accept
        tcp dport 22 accept
    }
}
table ip more {
    chain input {
        type filter hook input priority 5; policy accept;
        tcp dport 16000-17000 reject
    }
}
table ip6 harmless {
    chain input { type filter hook input priority 5; }
}
"""
BLOCK = """
# BEGIN brine.virt
add table inet filter
add chain inet filter input
add chain inet filter brine_virt_input
flush chain inet filter brine_virt_input
add rule inet filter brine_virt_input ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept
add rule inet filter brine_virt_input ip6 saddr 2001:db8::/64 tcp dport { 16514, 49152-49215 } accept
insert rule inet filter input jump brine_virt_input comment "brine.virt"
add table ip more
add chain ip more input
add chain ip more brine_virt_input
flush chain ip more brine_virt_input
add rule ip more brine_virt_input ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept
insert rule ip more input jump brine_virt_input comment "brine.virt"
# END brine.virt
"""
PORTS = (Ports(16514, 16514), Ports(49152, 49215))
HV2 = Opening(ip_network("192.0.2.12"), PORTS)
HV3 = Opening(ip_network("192.0.2.13"), PORTS)
SIX = Opening(ip_network("2001:db8::/64"), PORTS)
SSH = Opening(ip_network("198.51.100.1"), (Ports(22, 22),))
SPEC = FirewallSpec((HV2, SIX))


def chains_of(text: str) -> tuple[InputChain, ...]:
    answer = own_network("sh", "-c", "nft --file - && nft --json list ruleset", data=text)
    if answer.returncode != 0:
        raise HostError(answer.stderr)
    return read_ruleset(answer.stdout)


def boot(text: str) -> NftablesFile:
    return NftablesFile("/etc/nftables.conf", text, 0o755, chains_of)


class Host:
    """What the host runs, which is what made it, and the file that it boots from."""

    def __init__(self, rules: str = RULES) -> None:
        require_nft()
        self.loaded = rules
        self.file = rules
        self.then: tuple[tuple[str, ...], ...] = ()

    def rules(self) -> list[t.Any]:
        """All that nft lists but the numbers that it gives things."""
        entries = json.loads(listed(self.loaded, *self.then))["nftables"]
        for entry in entries:
            for thing in entry.values():
                thing.pop("handle", None)
        return t.cast("list[t.Any]", entries)

    def plan(self, spec: FirewallSpec) -> FirewallPlan:
        return plan_nftables(spec, read_ruleset(listed(self.loaded, *self.then)), boot(self.file))

    def run(self, commands: Iterable[tuple[str, ...]]) -> None:
        self.then += tuple(commands)

    def carry_out(self, spec: FirewallSpec) -> None:
        plan = self.plan(spec)
        self.run(plan.apply)
        for file in plan.files:
            assert file.text is not None
            self.file = file.text

    def who(self, *openings: Opening) -> list[Opening]:
        chains = read_ruleset(listed(self.loaded, *self.then))
        return [
            one
            for one in openings
            if all(chain.rules.lets_in(one) for chain in chains if one.source.version in chain.versions)
        ]


def test_hosts_get_in_through_every_chain_and_nobody_else_does() -> None:
    host = Host()
    assert host.who(HV2, HV3, SIX, SSH) == [SSH]
    host.carry_out(SPEC)
    assert host.who(HV2, HV3, SIX, SSH) == [HV2, SIX, SSH]
    assert host.plan(SPEC) == FirewallPlan()


def test_the_file_has_them_at_its_end_and_makes_the_same() -> None:
    host = Host()
    host.carry_out(SPEC)
    assert host.file == RULES + BLOCK
    booted = Host(host.file)
    assert booted.rules() == host.rules()
    assert booted.plan(SPEC) == FirewallPlan()


@pytest.mark.parametrize("first", [FirewallSpec(()), SPEC, FirewallSpec((HV2,))])
@pytest.mark.parametrize("then", [FirewallSpec(()), SPEC, FirewallSpec((HV3, SIX))])
def test_a_change_that_is_undone_leaves_nothing(first: FirewallSpec, then: FirewallSpec) -> None:
    host = Host()
    host.carry_out(first)
    before = host.rules()
    plan = host.plan(then)
    host.run(plan.apply)
    applied = host.then
    host.run(plan.restore)
    assert host.rules() == before
    # The switch sees the difference.
    host.run(plan.back)
    assert host.rules() == before
    for command in plan.back:
        host.then = (*applied, command)
        with pytest.raises(AssertionError):
            host.rules()
    host.then = (*applied, *plan.restore)
    host.carry_out(then)
    assert host.plan(then) == FirewallPlan()


def test_without_hosts_everything_is_as_it_was() -> None:
    host = Host()
    before = host.rules()
    host.carry_out(SPEC)
    assert host.rules() != before
    host.carry_out(FirewallSpec(()))
    assert (host.rules(), host.file) == (before, RULES)


def test_what_is_open_already_needs_nothing() -> None:
    host = Host(
        "table inet f { chain i { type filter hook input priority 0; policy drop; ip saddr 192.0.2.0/24 accept; }; }"
    )
    assert host.plan(FirewallSpec((HV2,))) == FirewallPlan()
    assert host.plan(FirewallSpec((HV2, SIX))).differences[0].after == (
        "ip6 saddr 2001:db8::/64 tcp dport { 16514, 49152-49215 } accept",
    )


def test_a_list_of_banned_hosts_is_no_reason_to_change_anything() -> None:
    host = Host(
        "table ip f { set bad { type ipv4_addr; elements = { 203.0.113.1 }; }\n"
        "chain i { type filter hook input priority 0; ip saddr @bad drop; }; }"
    )
    assert host.plan(FirewallSpec((HV2,))) == FirewallPlan()


def test_hosts_that_were_not_asked_keep_their_rules() -> None:
    host = Host()
    host.carry_out(FirewallSpec((HV2, SIX)))
    host.carry_out(FirewallSpec((HV3,), keep_others=True))
    assert host.who(HV2, HV3, SIX) == [HV2, HV3, SIX]
    host.carry_out(FirewallSpec((HV3,)))
    assert host.who(HV2, HV3, SIX) == [HV3]


def test_a_file_that_lost_our_lines_gets_them_again() -> None:
    host = Host()
    host.carry_out(SPEC)
    host.file = RULES
    plan = host.plan(SPEC)
    assert [(one.place, one.tried) for one in plan.differences] == [("/etc/nftables.conf", False)]
    assert plan.apply == plan.restore == ()
    assert plan.files[0].text == RULES + BLOCK


def test_lines_that_somebody_wrote_elsewhere_in_the_file_count() -> None:
    host = Host()
    host.carry_out(SPEC)
    host.file = host.file.replace("# BEGIN brine.virt\n", "").replace("# END brine.virt\n", "# mine\n")
    assert host.plan(SPEC) == FirewallPlan()


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (None, "it is not known what loads the rules when the host boots"),
        (boot("table ip other { }"), "/etc/nftables.conf does not make the rules that the host has now"),
        (boot("nonsense"), "what /etc/nftables.conf makes cannot be tried: "),
    ],
)
def test_what_would_not_last_is_refused_with_the_lines(file: NftablesFile | None, reason: str) -> None:
    host = Host()
    running = read_ruleset(listed(host.loaded))
    with pytest.raises(UnsupportedError) as caught:
        plan_nftables(SPEC, running, file)
    said = str(caught.value)
    assert said.startswith(f"nftables refuses the cloud's hosts in inet filter input, ip more input, and {reason}")
    # They do what they promise.
    lines = said.partition("to leave:\n")[2]
    assert lines.splitlines() == [
        line for line in BLOCK.splitlines()[2:-1] if not line.startswith("add table") and not line.endswith(" input")
    ]
    host.run([("nft", lines)])
    assert host.who(HV2, SIX) == [HV2, SIX]
    assert plan_nftables(SPEC, read_ruleset(listed(host.loaded, *host.then)), file) == FirewallPlan()


def test_two_chains_of_one_table_have_their_own_rules() -> None:
    host = Host(
        "table inet f {\n chain one { type filter hook input priority 0; policy drop; }\n"
        " chain two { type filter hook input priority 1; policy drop; }\n}\n"
    )
    host.carry_out(SPEC)
    assert host.who(HV2, SIX) == [HV2, SIX]
    assert host.plan(SPEC) == FirewallPlan()


def test_a_table_that_is_taken_out_of_the_file_later_does_not_keep_the_rest_from_loading() -> None:
    host = Host()
    host.carry_out(SPEC)
    start, end = host.file.index("table ip more"), host.file.index("table ip6 harmless")
    booted = Host(host.file[:start] + host.file[end:])
    # The other table lets in and refuses as before; what is left of this one filters nothing.
    assert booted.who(HV2, HV3) == [HV2]
    assert booted.plan(SPEC).apply == ()


@pytest.mark.parametrize("lost", ["# END brine.virt\n", "# BEGIN brine.virt\n"])
def test_a_block_without_its_end_is_not_written_over(lost: str) -> None:
    """Somebody's rules stand after it."""
    host = Host()
    host.carry_out(SPEC)
    host.file = host.file.replace(lost, "") + "add rule inet filter input tcp dport 80 accept\n"
    with pytest.raises(UnsupportedError, match="only what is between them is the role's to change"):
        host.plan(FirewallSpec((HV2,)))


@pytest.mark.parametrize(
    "rule", ["tcp dport 16514 drop", "ip saddr 192.0.2.0/24 tcp dport { 22, 16514 } reject", "tcp dport 49160 drop"]
)
def test_what_somebody_refuses_by_name_stays_refused(rule: str) -> None:
    chain = (
        "table inet f { chain in { type filter hook input priority 0; policy drop; RULE; tcp dport 22 accept; }; }\n"
    )
    running = read_ruleset(listed(chain.replace("RULE", rule)))
    with pytest.raises(
        ConflictError, match="a rule of the firewall refuses 192.0.2.12 at port .*, and is not the role's"
    ):
        plan_nftables(FirewallSpec((HV2,)), running, boot(chain.replace("RULE", rule)))
    # Behind a rule that lets in the source it means nobody of the cloud; and so does one for somebody else.
    for others in (
        f"ip saddr 192.0.2.12 tcp dport 1-65535 accept; {rule}",
        "ip saddr 198.51.100.9 tcp dport 16514 drop",
    ):
        text = chain.replace("RULE", others)
        plan_nftables(FirewallSpec((HV2,)), read_ruleset(listed(text)), boot(text))
