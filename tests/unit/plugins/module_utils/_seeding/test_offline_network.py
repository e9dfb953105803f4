# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network in the words of netplan, systemd-networkd, NetworkManager and ifupdown."""

from __future__ import annotations

import configparser
import typing as t

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import network_config
from ansible_collections.brine.virt.plugins.module_utils._seeding.offline_network import network_files

STATIC = {
    "name": "eth0",
    "bridge": "b",
    "mac": "52:54:00:00:00:01",
    "addresses": ["192.0.2.10/24", "2001:db8::2/64"],
    "gateway": ["192.0.2.1", "2001:db8::1"],
    "nameservers": ["192.0.2.53", "2001:db8::53"],
    "search": ["example.org", "example.net"],
    "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.9", "metric": 5}],
    "mtu": 1400,
}
DHCP = {"name": "storage-network-1", "bridge": "b", "mac": "52:54:00:00:00:02"}


def machine(*nics: dict[str, t.Any]) -> Machine:
    return read_machine(
        {
            "name": "web1",
            "vcpus": 1,
            "memory": 512,
            "nic_profile": "none",
            "nics": list(nics),
            "seed": {"method": "guestfs"},
        }
    )


def sections(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(delimiters="=", interpolation=None, strict=False)
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def test_netplan_has_what_cloud_init_would_have() -> None:
    spec = machine(STATIC, DHCP)
    assert yaml.safe_load(network_files(spec)["netplan/10-brine-virt.yaml"]) == {"network": network_config(spec)}


def test_systemd_networkd() -> None:
    files = network_files(machine(STATIC, DHCP))
    assert files["networkd/10-brine-virt-eth0.network"] == (
        "[Match]\nMACAddress=52:54:00:00:00:01\n\n"
        "[Link]\nMTUBytes=1400\n\n"
        "[Network]\nDHCP=no\nAddress=192.0.2.10/24\nAddress=2001:db8::2/64\nDNS=192.0.2.53\nDNS=2001:db8::53\n"
        "Domains=example.org example.net\n\n"
        "[Route]\nDestination=0.0.0.0/0\nGateway=192.0.2.1\n\n"
        "[Route]\nDestination=::/0\nGateway=2001:db8::1\n\n"
        "[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.9\nMetric=5\n"
    )
    assert sections(files["networkd/10-brine-virt-storage-network-1.network"])["Network"] == {"dhcp": "ipv4"}


def test_networkmanager() -> None:
    files = network_files(machine(STATIC, DHCP))
    found = sections(files["keyfiles/eth0.nmconnection"])
    assert found["connection"]["type"] == "ethernet"
    assert found["ethernet"] == {"mac-address": "52:54:00:00:00:01", "mtu": "1400"}
    assert found["ipv4"] == {
        "method": "manual",
        "address1": "192.0.2.10/24",
        "gateway": "192.0.2.1",
        "dns": "192.0.2.53;",
        "dns-search": "example.org;example.net;",
        "route1": "198.51.100.0/24,192.0.2.9,5",
    }
    assert found["ipv6"] == {
        "method": "manual",
        "address1": "2001:db8::2/64",
        "gateway": "2001:db8::1",
        "dns": "2001:db8::53;",
        "dns-search": "example.org;example.net;",
    }
    dhcp = sections(files["keyfiles/storage-network-1.nmconnection"])
    assert (dhcp["ipv4"], dhcp["ipv6"]) == ({"method": "auto"}, {"method": "auto"})
    assert dhcp["connection"]["uuid"] != found["connection"]["uuid"]


@pytest.mark.parametrize(
    ("words", "methods"),
    [
        ({}, ("auto", "auto")),
        ({"dhcp4": False}, ("disabled", "auto")),
        ({"accept_ra": False}, ("auto", "link-local")),
        ({"accept_ra": False, "dhcp6": True}, ("auto", "dhcp")),
        ({"addresses": ["2001:db8::2/64"]}, ("disabled", "manual")),
        ({"addresses": ["2001:db8::2/64"], "dhcp4": True, "accept_ra": True}, ("auto", "auto")),
    ],
)
def test_methods_of_networkmanager(words: dict[str, t.Any], methods: tuple[str, str]) -> None:
    found = sections(network_files(machine({**DHCP, **words}))["keyfiles/storage-network-1.nmconnection"])
    assert (found["ipv4"]["method"], found["ipv6"]["method"]) == methods


def test_ifupdown() -> None:
    """Names that Linux has no room for are replaced, as ifupdown knows interfaces by nothing else."""
    files = network_files(machine(STATIC, DHCP))
    assert files["ifupdown/interfaces"] == (
        "auto lo\niface lo inet loopback\n\n"
        "auto eth0\n"
        "iface eth0 inet static\n"
        "    address 192.0.2.10/24\n"
        "    pre-up ip link set dev $IFACE mtu 1400\n"
        "    dns-nameservers 192.0.2.53 2001:db8::53\n"
        "    dns-search example.org example.net\n"
        "    up ip -4 route replace 0.0.0.0/0 via 192.0.2.1 dev $IFACE || true\n"
        "    up ip -4 route replace 198.51.100.0/24 via 192.0.2.9 dev $IFACE metric 5 || true\n"
        "iface eth0 inet6 static\n"
        "    address 2001:db8::2/64\n"
        "    up ip -6 route replace ::/0 via 2001:db8::1 dev $IFACE || true\n\n"
        "auto nic1\niface nic1 inet dhcp\n"
    )
    names = {
        sections(text)["Match"]["macaddress"]: sections(text)["Link"]["name"]
        for name, text in files.items()
        if name.startswith("links/")
    }
    assert names == {"52:54:00:00:00:01": "eth0", "52:54:00:00:00:02": "nic1"}


@pytest.mark.parametrize(
    ("words", "stanzas"),
    [
        ({"dhcp4": False}, ["inet manual"]),
        ({"dhcp6": True}, ["inet dhcp", "inet6 dhcp"]),
        ({"accept_ra": True}, ["inet dhcp", "inet6 auto"]),
        ({"addresses": ["192.0.2.1/24", "192.0.2.2/24"]}, ["inet static", "inet static"]),
    ],
)
def test_stanzas_of_ifupdown(words: dict[str, t.Any], stanzas: list[str]) -> None:
    lines = network_files(machine({**DHCP, **words}))["ifupdown/interfaces"].splitlines()
    assert [line.partition(" nic0 ")[2] for line in lines if line.startswith("iface nic0")] == stanzas


@pytest.mark.parametrize(
    ("words", "by_hand"),
    [
        ({}, True),
        ({"dhcp4": False}, True),
        ({"addresses": ["192.0.2.1/24"]}, True),
        # ifupdown has an option for these.
        ({"dhcp6": True}, False),
        ({"addresses": ["2001:db8::2/64"]}, False),
    ],
    ids=str,
)
def test_ifupdown_refuses_router_advertisements_on_a_nic_without_ipv6_of_its_own(
    words: dict[str, t.Any], by_hand: bool
) -> None:
    setting = "/proc/sys/net/ipv6/conf/$IFACE/accept_ra"
    text = network_files(machine({**DHCP, **words, "accept_ra": False}))["ifupdown/interfaces"]
    assert (f"    pre-up [ ! -e {setting} ] || echo 0 >{setting}\n" in text, "accept_ra 0" in text) == (
        by_hand,
        not by_hand,
    )
    assert "accept_ra" not in network_files(machine({**DHCP, **words}))["ifupdown/interfaces"]


def test_interfaces_that_cannot_be_called_like_their_nics() -> None:
    """ifupdown would wait for one that never is: udev gives none a name of digits alone, such as a VLAN's number."""
    nics = [{"name": name, "bridge": "b"} for name in ("10", "v10", "lo", "eth0.10")]
    files = network_files(machine(*nics))
    started = [line for line in files["ifupdown/interfaces"].splitlines() if line.startswith("auto ")]
    assert started == ["auto lo", "auto nic0", "auto v10", "auto nic2", "auto eth0.10"]
    assert sections(files["links/10-brine-virt-10.link"])["Link"]["name"] == "nic0"
    # netplan would look for one that has both, the address and the name.
    ethernets = yaml.safe_load(files["netplan/10-brine-virt.yaml"])["network"]["ethernets"]
    assert [ethernets[nic["name"]].get("set-name") for nic in nics] == [None, "v10", None, "eth0.10"]


def test_a_router_outside_of_the_nics_networks() -> None:
    far = {"name": "eth0", "bridge": "b", "addresses": ["203.0.113.7/32"], "gateway": "203.0.113.1"}
    files = network_files(machine(far))
    networkd = files["networkd/10-brine-virt-eth0.network"]
    assert networkd.endswith("[Route]\nDestination=0.0.0.0/0\nGateway=203.0.113.1\nGatewayOnLink=yes\n")
    assert "    up ip -4 route replace 0.0.0.0/0 via 203.0.113.1 dev $IFACE onlink ||" in files["ifupdown/interfaces"]
    # NetworkManager finds it out itself.
    assert sections(files["keyfiles/eth0.nmconnection"])["ipv4"]["gateway"] == "203.0.113.1"


def test_resolver_files_only_where_name_servers_are_named() -> None:
    files = network_files(machine(STATIC, DHCP))
    assert files["resolver/resolv.conf"] == (
        "search example.org example.net\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n"
    )
    assert files["resolver/dhclient.conf"] == (
        'prepend domain-name-servers 192.0.2.53;\nprepend domain-search "example.org", "example.net";\n'
    )
    assert not [name for name in network_files(machine(DHCP)) if name.startswith("resolver/")]
