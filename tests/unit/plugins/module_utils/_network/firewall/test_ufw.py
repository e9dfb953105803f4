# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in ufw, as ufw 0.36.2 writes them into its files."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import FirewallPlan, FirewallSpec
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.ufw import Ufw, plan_ufw, read_ufw

DEFAULTS = 'IPV6=yes\nDEFAULT_INPUT_POLICY="DROP"\nDEFAULT_OUTPUT_POLICY="ACCEPT"\n'
# «brine.virt», as ufw writes comments.
COMMENT = "comment=6272696e652e76697274"
SSH = "allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in"
OURS = f"allow tcp 16514,49152:49215 0.0.0.0/0 any 192.0.2.12 in {COMMENT}"
PORTS = (Ports(16514, 16514), Ports(49152, 49215))
HV2 = Opening(ip_network("192.0.2.12"), PORTS)
HV3 = Opening(ip_network("192.0.2.13"), PORTS)
SIX = Opening(ip_network("2001:db8::12"), PORTS)


def ufw(*tuples: str, six: tuple[str, ...] = (), defaults: str = DEFAULTS) -> Ufw:
    texts = [
        "*filter\n:ufw-user-input - [0:0]\n### RULES ###\n"
        + "".join(f"\n### tuple ### {line}\n-A ufw-user-input -j SOMETHING\n" for line in lines)
        + "### END RULES ###\nCOMMIT\n"
        for lines in (tuples, six)
    ]
    return read_ufw(texts, defaults)


def test_rules_are_tried_in_the_kernel_and_given_to_ufw_later() -> None:
    plan = plan_ufw(FirewallSpec((HV2, SIX)), ufw(SSH))
    spec = "-p tcp -m multiport --dports 16514,49152:49215 -m comment --comment brine.virt -j ACCEPT"
    v4, v6 = f"ufw-user-input -s 192.0.2.12/32 {spec}", f"ufw6-user-input -s 2001:db8::12/128 {spec}"
    assert [" ".join(command) for command in plan.apply] == [
        f"iptables --wait=10 -I {v4}",
        f"ip6tables --wait=10 -I {v6}",
    ]
    assert [" ".join(command) for command in plan.restore] == [
        f"iptables --wait=10 -D {v4}",
        f"ip6tables --wait=10 -D {v6}",
    ]
    assert [" ".join(command[4:]) for command in plan.back] == [
        f"iptables --wait=10 -C {v4}",
        f"ip6tables --wait=10 -C {v6}",
    ]
    quiet = 'sh -c "$@" 2>/dev/null || : sh'
    assert [" ".join(command) for command in plan.keep] == [
        "ufw prepend allow proto tcp from 2001:db8::12 to any port 16514,49152:49215 comment brine.virt",
        "ufw prepend allow proto tcp from 192.0.2.12 to any port 16514,49152:49215 comment brine.virt",
        f"{quiet} iptables --wait=10 -D {v4}",
        f"{quiet} ip6tables --wait=10 -D {v6}",
    ]
    assert [one.tried for one in plan.differences] == [False]


def test_ours_are_known_by_their_comment() -> None:
    assert plan_ufw(FirewallSpec((HV2,)), ufw(OURS, SSH)) == FirewallPlan()
    plan = plan_ufw(FirewallSpec((HV3,)), ufw(OURS, SSH))
    assert " ".join(plan.keep[1]) == "ufw delete allow proto tcp from 192.0.2.12 to any port 16514,49152:49215"
    assert plan_ufw(FirewallSpec((HV2,), keep_others=True), ufw(OURS, SSH)) == FirewallPlan()
    assert plan_ufw(FirewallSpec((), keep_others=True), ufw(OURS, SSH)) == FirewallPlan()
    # Nothing has to be tried where nothing is opened.
    gone = plan_ufw(FirewallSpec(()), ufw(OURS, SSH))
    assert (gone.apply, gone.restore, len(gone.keep)) == ((), (), 1)


def test_rules_of_others_are_not_ours_whatever_they_say() -> None:
    same = OURS.partition(" comment=")[0]
    for line in (same, f"{same} comment=78"):
        assert ufw(line).ours == ()
        assert plan_ufw(FirewallSpec((HV2,)), ufw(line)) == FirewallPlan()
        assert plan_ufw(FirewallSpec(()), ufw(line)) == FirewallPlan()


@pytest.mark.parametrize(
    ("lines", "enough"),
    [
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24 in"], True),
        (["allow_log tcp 16514 0.0.0.0/0 any 0.0.0.0/0 in", "allow tcp 49000:50000 0.0.0.0/0 any 192.0.2.12 in"], True),
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24 - App%20One in"], True),
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24"], True),
        (["deny tcp any 0.0.0.0/0 any 192.0.2.0/24 in", "allow any any 0.0.0.0/0 any 192.0.2.0/24 in"], False),
        (["allow udp any 0.0.0.0/0 any 192.0.2.0/24 in"], False),
        (["limit any any 0.0.0.0/0 any 192.0.2.0/24 in"], False),
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24 out"], False),
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24 in_eth0"], False),
        (["allow any any 0.0.0.0/0 any 192.0.2.0/24 in_eth0!out_eth1"], False),
        (["route:allow any any 0.0.0.0/0 any 192.0.2.0/24 in"], False),
        (["allow any any 192.0.2.11 any 192.0.2.0/24 in"], False),
        (["allow any any 0.0.0.0/0 1024 192.0.2.0/24 in"], False),
        (["allow tcp 16514 0.0.0.0/0 any 192.0.2.0/24 in"], False),
        (["allow any any"], False),
        (["allow any x 0.0.0.0/0 any y in"], False),
    ],
)
def test_which_rules_are_enough(lines: list[str], enough: bool) -> None:
    assert (plan_ufw(FirewallSpec((HV2,)), ufw(*lines)) == FirewallPlan()) is enough


def test_a_firewall_that_accepts_needs_nothing() -> None:
    assert plan_ufw(FirewallSpec((HV2, SIX)), ufw(defaults="IPV6=yes\nDEFAULT_INPUT_POLICY=ACCEPT\n")) == FirewallPlan()


def test_ipv6_is_left_alone_where_ufw_leaves_it_alone() -> None:
    off = ufw(defaults=DEFAULTS.replace("yes", "no"))
    assert off.versions == (4,)
    assert plan_ufw(FirewallSpec((SIX,)), off) == FirewallPlan()
    six = f"allow tcp 16514,49152:49215 ::/0 any 2001:db8::12 in {COMMENT}"
    assert ufw(six=(six,)).ours == (SIX,)


def test_what_the_user_denies_by_name_stays_denied() -> None:
    rules = ufw("deny tcp 49160 0.0.0.0/0 any 192.0.2.0/24 in", "allow any any 0.0.0.0/0 any 192.0.2.0/24 in")
    with pytest.raises(ConflictError, match=r"refuses 192\.0\.2\.12 at port 49160, and is not the role's to override"):
        plan_ufw(FirewallSpec((HV2,)), rules)
