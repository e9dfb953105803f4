# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all firewalls have in common: one spec, one change, undone the other way round."""

from __future__ import annotations

import json
from ipaddress import ip_network

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Opening, Ports
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import (
    Difference,
    FirewallPlan,
    FirewallSpec,
    read_spec,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.rules import Chains

PORTS = (Ports(16514, 16514), Ports(49152, 49215))
HV2 = Opening(ip_network("192.0.2.12"), PORTS)
HV3 = Opening(ip_network("192.0.2.13"), PORTS)
SIX = Opening(ip_network("2001:db8::/64"), PORTS[:1])
CLOSED, OPEN = (Chains({"input": ()}, "input", accepts=accepts) for accepts in (False, True))


def test_only_what_is_closed_is_wanted() -> None:
    spec = FirewallSpec((SIX, HV2))
    assert spec.wanted(CLOSED, [], (4, 6)) == (HV2, SIX)
    assert spec.wanted(CLOSED, [], (6,)) == (SIX,)
    assert spec.wanted(OPEN, [HV3], (4, 6)) == ()


def test_hosts_that_were_not_asked_keep_what_they_have() -> None:
    assert FirewallSpec((HV2,)).wanted(CLOSED, [HV3], (4, 6)) == (HV2,)
    assert FirewallSpec((HV2,), keep_others=True).wanted(CLOSED, [HV3, HV2], (4, 6)) == (HV2, HV3)


def test_a_spec_survives_json() -> None:
    for spec in (FirewallSpec(()), FirewallSpec((HV2, SIX), keep_others=True)):
        assert read_spec(json.loads(json.dumps(spec.as_json()))) == spec


def test_two_changes_are_one_and_undone_the_other_way_round() -> None:
    first = FirewallPlan((Difference("a", (), ("x",)),), (("a",),), (("not", "a"),), (("no", "a"),), (("keep", "a"),))
    second = FirewallPlan((Difference("b", (), ("y",)),), (("b",),), (("not", "b"),), (("no", "b"),), (("keep", "b"),))
    both = first.and_then(second).guarded({"spec": 1})
    assert both.apply == (("a",), ("b",))
    assert both.restore == (("not", "b"), ("not", "a"))
    assert [check.command for check in both.back] == [("no", "a"), ("no", "b")]
    assert both.keep == (("keep", "a"), ("keep", "b"))
    assert (both.name, both.subject) == ("firewall", {"spec": 1})
