# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the managers are asked for, and a host to do it on."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import WantedBridge
from ansible_collections.brine.virt.plugins.module_utils._network.observe import BridgeState, Link, Network
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec, Uplink, read_bridge

MAC = "52:54:00:11:22:33"


def link(name: str, **settings: t.Any) -> Link:
    """A wired interface, unless the settings say otherwise."""
    usual: dict[str, t.Any] = {
        **{
            "mac": MAC,
            "kind": "",
            "link_type": "ether",
            "master": None,
            "wireless": False,
            "addresses": (),
            "mtu": 1500,
        }
    }
    return Link(name=name, **{**usual, **settings})


def wanted(*, existing: bool = False, static: tuple[str, ...] = ("192.0.2.10/24",), **words: t.Any) -> WantedBridge:
    """What a manager is asked for: br0 with these words, on a host with eth0 (192.0.2.10/24), eth1 and eth2.

    static: those addresses of eth0 that no DHCP has given.
    """
    spec: BridgeSpec = read_bridge({"name": "br0", **words}, "bridges[0]")
    eth0 = link("eth0", addresses=("192.0.2.10/24",), static=static, master="br0" if existing else None)
    links = [eth0, link("eth1"), link("eth2")]
    if existing:
        links.append(link("br0", kind="bridge", addresses=("192.0.2.10/24",), bridge=BridgeState()))
    network = Network({item.name: item for item in links}, ())
    uplink = None if spec.alone else spec.uplink or Uplink("eth0")
    source = network.links["eth0"] if uplink and uplink.vlan is None and not existing else None
    return WantedBridge(spec, uplink, MAC, network, source, network.links.get("br0"))


# Specs that every manager is judged by: (words, whether the bridge is in the same network as the host).
SPECS: dict[str, dict[str, t.Any]] = {
    "taken over": {},
    "none": {"dhcp4": False},
    "dhcp": {"dhcp4": True},
    "both dhcp": {"dhcp4": True, "dhcp6": True},
    "static": {
        "addresses": ["198.51.100.7/24", "198.51.100.8/32", "2001:db8::7/64"],
        "gateway": ["198.51.100.1", "2001:db8::1"],
        "nameservers": ["198.51.100.53", "2001:db8::53"],
        "search": ["example.org", "example.net"],
        "routes": [
            {"to": "203.0.113.0/24", "via": "198.51.100.2", "metric": 5},
            {"to": "2001:db8:7::/48", "via": "2001:db8::2"},
        ],
        "accept_ra": False,
    },
    "gateways beside dhcp": {"dhcp4": True, "dhcp6": True, "gateway": ["198.51.100.1", "2001:db8::1"]},
    "gateway of a router's network": {"addresses": ["192.0.2.10/24"], "accept_ra": True, "gateway": ["fe80::1"]},
    "settings": {"mtu": 9000, "stp": True, "addresses": ["192.0.2.10/24"]},
    "no stp": {"stp": False},
    "alone": {"uplink": False},
    "alone with an address": {"uplink": False, "addresses": ["203.0.113.1/24"]},
    "alone with addresses": {"uplink": False, "addresses": ["203.0.113.1/24", "2001:db8:7::1/64"]},
    "bond": {"uplink": {"bond": ["eth1", "eth0"], "mode": "active-backup"}},
    "vlan": {"uplink": {"vlan": 10, "link": "eth0"}, "dhcp4": True},
    "static vlan": {
        "uplink": {"vlan": 10, "link": "eth0"},
        "addresses": ["198.51.100.7/24", "2001:db8::7/64"],
        "gateway": "2001:db8::1",
        "mtu": 1400,
    },
    "alone with an mtu": {"uplink": False, "mtu": 1400},
}
VLANS: dict[str, t.Any] = {"vlan_filtering": True, "vlans": [20, "30-39"], "pvid": 5}
# The same, of bridges that filter VLANs, or are told not to.
VLAN_SPECS: dict[str, dict[str, t.Any]] = {
    "vlans": VLANS,
    "vlans and settings": {**VLANS, "mtu": 9000, "stp": True},
    "vlans on a bond with ipv6": {
        **VLANS,
        "uplink": {"bond": ["eth1", "eth0"], "mode": "802.3ad"},
        "addresses": ["2001:db8::7/64"],
        "gateway": "2001:db8::1",
        "accept_ra": False,
        "mtu": 9000,
    },
    "no vlans": {"vlan_filtering": False},
}
