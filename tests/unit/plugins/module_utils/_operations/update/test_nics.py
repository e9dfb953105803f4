# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host

pytestmark = pytest.mark.medium


def source_of(host: Host) -> dict[str, str]:
    (element,) = parse_xml(host.conn.lookupByName("a").XMLDesc(2)).findall("devices/interface/source")
    return {str(name): str(value) for name, value in element.attrib.items()}


@pytest.mark.parametrize(
    ("before", "after", "mode"),
    [
        # Without a mode libvirt takes vepa, and machines of one host no longer reach each other.
        ({"direct": "eth0"}, {"direct": "eth1"}, "bridge"),
        ({"network": "n1"}, {"direct": "eth1"}, "bridge"),
        ({"direct": "eth0", "mode": "private"}, {"direct": "eth1"}, "private"),
        ({"direct": "eth0", "mode": "private"}, {"direct": "eth1", "mode": "vepa"}, "vepa"),
    ],
)
def test_a_macvtap_on_another_device_keeps_its_mode(
    host: Host, before: dict[str, t.Any], after: dict[str, t.Any], mode: str
) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    host.make({"name": "a", "nics": [{"name": "eth0", **before}]})
    host.make({"name": "a", "nics": [{"name": "eth0", **after}]})
    assert source_of(host) == {"dev": "eth1", "mode": mode}
    assert not host.plan({"name": "a", "nics": [{"name": "eth0", **after}]})[0].steps


@pytest.mark.parametrize("inbound", [{"average": 100, "floor": 50}, {"floor": 50}])
def test_a_guaranteed_rate_stays_with_the_network(host: Host, inbound: dict[str, int]) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    host.make({"name": "a", "nics": [{"name": "eth0", "network": "n1", "bandwidth": {"inbound": inbound}}]})
    bridged = {"name": "a", "nics": [{"name": "eth0", "bridge": "vb1"}]}
    host.make(bridged)
    rates = parse_xml(host.conn.lookupByName("a").XMLDesc(2)).findall("devices/interface/bandwidth/inbound")
    assert [dict(rate.attrib) for rate in rates] == ([{"average": "100"}] if "average" in inbound else [])
    assert not host.plan(bridged)[0].steps
