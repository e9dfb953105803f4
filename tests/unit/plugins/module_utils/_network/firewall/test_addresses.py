# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is known by the addresses that others see, on links over which they come."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.addresses import Outside, read_addresses


def link(name: str, *addresses: str, kind: str = "", master: str = "", **flags: t.Any) -> dict[str, t.Any]:
    """A link as iproute2 6.1 writes it, as far as it is read."""
    found: dict[str, t.Any] = {
        "ifname": name,
        "link_type": "loopback" if name == "lo" else "ether",
        "addr_info": [
            {"family": "inet6" if ":" in address else "inet", "local": address, "scope": "global", **flags}
            for address in addresses
        ],
    }
    if kind:
        found["linkinfo"] = {"info_kind": kind}
    if master:
        found["master"] = master
    return found


def outside(*links: dict[str, t.Any]) -> Outside:
    return read_addresses(json.dumps([link("lo", "127.0.0.1"), *links]))


def test_a_bridge_on_a_card_is_outside() -> None:
    found = outside(
        link("eth0", master="br0"), link("br0", "192.0.2.11", "2001:db8::11", kind="bridge"), link("wg0", "10.9.0.1")
    )
    assert found.interfaces == ("br0", "wg0")
    assert found.addresses == ("192.0.2.11", "2001:db8::11", "10.9.0.1")
    assert found.links == ("lo", "eth0", "br0", "wg0")
    assert found.versions == [4, 6]


def test_a_bridge_inside_the_host_is_not() -> None:
    found = outside(
        link("virbr0", "192.168.122.1", kind="bridge"),
        link("docker0", "172.17.0.1", kind="bridge"),
        link("veth1", kind="veth", master="docker0"),
        link("service_br", "10.0.0.1", kind="bridge"),
        link("vnet0", kind="tun", master="service_br"),
        link("eth0", "192.0.2.11"),
    )
    assert found.addresses == ("192.0.2.11",)
    assert found.interfaces == ("eth0",)
    assert found.versions == [4]


def test_addresses_that_go_again_are_left_out() -> None:
    assert outside(link("eth0", "2001:db8::abcd", temporary=True)).addresses == ()
    assert outside(link("eth0", "2001:db8::abcd", deprecated=True)).addresses == ()
    assert outside(link("eth0", "2001:db8::11", dynamic=True)).addresses == ("2001:db8::11",)


def test_addresses_of_a_link_alone_are_left_out() -> None:
    assert outside(link("eth0", "169.254.3.4", "fe80::1")).addresses == ()
    assert outside(link("eth0", "192.0.2.11", "169.254.3.4")).addresses == ("192.0.2.11",)
    assert outside(link("eth0", "192.0.2.11", scope="link")).addresses == ()


def test_a_host_without_network() -> None:
    assert read_addresses("") == Outside((), (), ())
