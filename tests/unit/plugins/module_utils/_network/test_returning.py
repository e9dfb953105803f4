# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has to have again when a change is undone: in a network of its own, by the real ip(8)."""

from __future__ import annotations

import json
import sys
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network.observe import Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.returning import returning
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import own_network
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import link

pytestmark = pytest.mark.medium

# A host with addresses by hand, one of them with a peer, one by DHCP and one by a router; routes of all kinds.
SETUP = """
ip link set lo up
ip link add eth0 type veth peer far0 && ip link set far0 up && ip link set eth0 up
ip link add eth1 type veth peer far1 && ip link set far1 up && ip link set eth1 up
sysctl -qw net.ipv6.conf.eth0.accept_dad=0 2>/dev/null
ip address add 192.0.2.10/24 dev eth0
ip address add 192.0.2.12 peer 203.0.113.1/32 dev eth0
ip address add 192.0.2.11/24 dev eth0 valid_lft 600 preferred_lft 600
ip -6 address add 2001:db8::10/64 dev eth0 nodad valid_lft 600 preferred_lft 600
ip address add 198.51.100.10/24 dev eth1
ip link add br0 type bridge && ip link set br0 up
ip link add eth2 type veth peer far2 && ip link set eth2 master br0 up
ip route add default via 192.0.2.1 dev eth0 proto dhcp src 192.0.2.11 metric 100
ip -6 route add default via fe80::1 dev eth0 proto ra metric 1024
ip route add 203.0.113.0/24 via 192.0.2.2 dev eth0 mtu 1400
ip route add 203.0.113.77 dev eth0 scope link metric 7
ip route add 10.0.0.0/8 via 198.51.100.1 dev eth1
"""
DRIVER = f"""
import json, subprocess, sys
sys.path[:0] = {sys.path!r}
from ansible_collections.brine.virt.plugins.module_utils._network.observe import observe_network
from ansible_collections.brine.virt.plugins.module_utils._network.returning import returning
def show():
    return subprocess.check_output(["sh", "-c", "ip route; ip -6 route show default"], text=True)
def wrong():
    return [check.complaint for check in planned.back if subprocess.run(check.command, capture_output=True).returncode]
network = observe_network()
bridge, port = sys.argv[2:]
planned = returning(network, [network.links[bridge if bridge == "br0" else "eth0"]], bridge=bridge, port=port)
answer = {{"seconds": planned.seconds, "first": wrong(), "before": show()}}
subprocess.run(sys.argv[1], shell=True, check=True)
answer["lost"] = wrong()
answer["mended"] = [subprocess.run(one, capture_output=True, text=True).stderr for one in planned.mend]
answer["rest"], answer["after"] = wrong(), show()
print(json.dumps(answer))
"""


def lose(script: str, bridge: str = "", port: str = "", *, setup: str = "") -> dict[str, t.Any]:
    command = (sys.executable, "-c", DRIVER, script, bridge, port)
    answer = own_network("sh", "-ec", f'{SETUP}\n{setup}\nexec "$@"', "sh", *command)
    if "Operation not permitted" in answer.stderr:
        pytest.skip("no network namespaces here")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, t.Any] = json.loads(answer.stdout)
    return found


def test_what_is_as_before_is_not_complained_of() -> None:
    found = lose("true")
    assert (found["first"], found["lost"], found["rest"]) == ([], [], [])
    assert found["after"] == found["before"]
    # DHCP and routers take their time.
    assert found["seconds"] == 60


def test_what_is_lost_is_named_and_mended_where_no_manager_brings_it_back() -> None:
    found = lose("ip address flush dev eth0 scope global; ip -6 route flush dev eth0 proto ra; ip route flush dev eth0")
    assert found["lost"] == [
        "eth0 has no address 192.0.2.10/24",
        "eth0 has no address 192.0.2.12/32",
        "eth0 has no address 192.0.2.11/24",
        "eth0 has no address 2001:db8::10/64",
        "there is no default route via 192.0.2.1 on eth0",
        "there is no default route via fe80::1 on eth0",
        "there is no route to 203.0.113.0/24 via 192.0.2.2 on eth0",
        "there is no route to 203.0.113.77 on eth0",
    ]
    # What DHCP and a router give is left to them.
    assert found["rest"] == [
        "eth0 has no address 192.0.2.11/24",
        "eth0 has no address 2001:db8::10/64",
        "there is no default route via 192.0.2.1 on eth0",
        "there is no default route via fe80::1 on eth0",
    ]
    assert "203.0.113.0/24 via 192.0.2.2 dev eth0 mtu 1400" in found["after"]


def test_a_bridge_without_addresses_has_its_port_again() -> None:
    assert lose("true", "br0", "eth2")["lost"] == []
    found = lose("ip link set dev eth2 nomaster", "br0", "eth2")
    assert (found["lost"], found["rest"]) == (["eth2 is not a port of br0"], [])


def test_a_new_bridge_that_is_still_there_is_named() -> None:
    assert lose("true", "br1", "bond1")["lost"] == []
    found = lose(
        "ip link add br1 type bridge; ip link add bond1 type veth peer far3; ip link set bond1 master br1",
        "br1",
        "bond1",
    )
    assert found["rest"] == ["br1 is still there", "bond1 is still there"]
    # The uplink was there before.
    assert lose("ip link add br1 type bridge; ip link set dev eth1 master br1", "br1", "eth1")["rest"] == [
        "br1 is still there"
    ]


def test_a_default_route_of_another_interface_is_looked_for_and_left_to_it() -> None:
    network = Network({"eth1": link("eth1")}, (Route("eth0", "192.0.2.1", protocol="static", words=("default",)),))
    found = returning(network, [network.links["eth1"]])
    assert [check.complaint for check in found.back] == ["there is no default route via 192.0.2.1 on eth0"]
    assert (found.mend, found.seconds) == ((), 20)


def test_each_gateway_of_a_route_that_has_several_comes_back() -> None:
    several = "nexthop via 192.0.2.3 dev eth0 weight 1 nexthop via 192.0.2.4 dev eth0 weight 1"
    found = lose("ip route del 10.7.0.0/16", setup=f"ip route add 10.7.0.0/16 {several}")
    assert found["first"] == []
    assert found["lost"] == [f"there is no route to 10.7.0.0/16 via 192.0.2.{number} on eth0" for number in (3, 4)]
    assert (found["rest"], found["after"]) == ([], found["before"])
