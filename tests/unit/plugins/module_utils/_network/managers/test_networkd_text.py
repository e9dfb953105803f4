# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd_spec import changed_file
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd_text import (
    BridgeFiles,
    NetworkdFile,
    NetworkdSource,
    bridge_files,
    file_names,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers.sections import Section, parse
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec, Uplink, read_bridge

MAC = "52:54:00:11:22:33"


def make(
    *parts: str, iaid: int | None = None, name: str = "10-eth0.network"
) -> tuple[NetworkdFile, NetworkdFile, NetworkdFile]:
    paths = [f"/etc/systemd/network/{name}", *(f"/etc/systemd/network/{name}.d/{n}.conf" for n in range(1, len(parts)))]
    source = NetworkdSource(tuple(zip(paths, parts))) if parts else None
    spec, uplink = BridgeSpec("br0"), Uplink("eth0")
    files = bridge_files(spec, uplink=uplink, mac=MAC, source=source, dhcpv4_iaid=iaid, dhcpv6_iaid=None)
    netdev, network, port = files.all
    return netdev, network, port


def entries(file: NetworkdFile, section: str) -> list[tuple[tuple[str, str], ...]]:
    return [found.entries for found in parse(file.text) if found.name == section]


def test_parse_keeps_order_repeats_and_continued_values() -> None:
    text = (
        "# comment\n[Match]\nName = eth0\n; comment\n\n[Address]\nAddress=192.0.2.1/24\n"
        "[Address]\nAddress=192.0.2.2/24\n"
        "[Network]\nDNS=192.0.2.53 \\\n# inside\n  192.0.2.54\nDomains=\n"
    )
    assert parse(text) == (
        Section("Match", (("Name", "eth0"),)),
        Section("Address", (("Address", "192.0.2.1/24"),)),
        Section("Address", (("Address", "192.0.2.2/24"),)),
        Section("Network", (("DNS", "192.0.2.53    192.0.2.54"), ("Domains", ""))),
    )


def test_static_uplink_gives_all_to_the_bridge() -> None:
    netdev, bridge, uplink = make(
        "[Match]\nMACAddress=52:54:00:11:22:33\n[Network]\nAddress=192.0.2.10/24\nGateway=192.0.2.1\nDNS=192.0.2.53\n"
        "Domains=example.org\n"
        "[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.2\n[Route]\nDestination=203.0.113.0/24\n"
    )
    assert entries(netdev, "NetDev") == [(("Name", "br0"), ("Kind", "bridge"), ("MACAddress", MAC))]
    assert entries(bridge, "Match") == [(("Name", "br0"),)]
    assert entries(bridge, "Network") == [
        (("Address", "192.0.2.10/24"), ("Gateway", "192.0.2.1"), ("DNS", "192.0.2.53"), ("Domains", "example.org"))
    ]
    assert len(entries(bridge, "Route")) == 2
    assert entries(uplink, "Match") == [(("Name", "eth0"), ("MACAddress", MAC))]
    assert entries(uplink, "Network") == [(("Bridge", "br0"), ("LinkLocalAddressing", "no"))]
    assert "192.0.2" not in uplink.text


def test_an_uplink_that_another_name_would_be_given_at_boot_is_not_mistaken() -> None:
    # networkd gives it another address than the one that it was found by.
    of_old = "[Match]\nMACAddress=52:54:00:99:99:99\n[Link]\nMACAddress=52:54:00:11:22:33\n"
    for text, known in (
        ("[Match]\nName=en*\nDriver=virtio_net\n", []),
        ("[Match]\nMACAddress=52:54:00:AA:AA:AA 52:54:00:11:22:33\n", [("MACAddress", f"52:54:00:AA:AA:AA {MAC}")]),
        ("[Match]\nPermanentMACAddress=52:54:00:99:99:99\n", [("PermanentMACAddress", "52:54:00:99:99:99")]),
        ("[Match]\nPath=pci-0000:01:00.0\n", [("Path", "pci-0000:01:00.0")]),
        (of_old, []),
    ):
        _netdev, _bridge, uplink = make(text)
        assert entries(uplink, "Match") == [(("Name", "eth0"), *known)]
    source = NetworkdSource((("/etc/systemd/network/10-eth1.network", f"[Match]\nMACAddress={MAC}\n"),))
    spec = read_bridge({"name": "br0", "uplink": {"bond": ["eth0", "eth1"]}}, "bridges[0]")
    files = bridge_files(
        spec, uplink=spec.uplink, mac=MAC, source=source, first="eth1", dhcpv4_iaid=None, dhcpv6_iaid=None
    )
    matches = {file.name: entries(file, "Match") for file in files.uplinks}
    assert matches == {
        "05-brine-br0-uplink.network": [(("Name", "bond0"),)],
        "05-brine-br0-port-eth1.network": [(("Name", "eth1"), ("MACAddress", MAC))],
        "05-brine-br0-port-eth0.network": [(("Name", "eth0"),)],
    }


def test_every_entry_lands_on_one_side() -> None:
    _netdev, bridge, uplink = make(
        "[Match]\nName=eth0\n[Link]\nMTUBytes=9000\nRequiredForOnline=routable\n"
        "[Network]\nVLAN=storage\nDHCP=yes\nLLDP=no\n[DHCPv4]\nRouteMetric=10\n[CAKE]\nBandwidth=1G\n"
        "[IPv6AcceptRA]\nToken=static:::1\n[RoutingPolicyRule]\nTable=7\n"
    )
    assert entries(bridge, "Link") == [(("RequiredForOnline", "routable"),)]
    assert entries(uplink, "Link") == [(("MTUBytes", "9000"),)]
    assert entries(bridge, "Network") == [(("DHCP", "yes"),)]
    assert entries(uplink, "Network")[1:] == [(("VLAN", "storage"), ("LLDP", "no"))]
    assert [section.name for section in parse(bridge.text)] == [
        "Match", "Link", "Network", "DHCPv4", "IPv6AcceptRA", "RoutingPolicyRule"
    ]  # fmt: skip
    assert entries(uplink, "CAKE") == [(("Bandwidth", "1G"),)]


def test_drop_ins_follow_the_file() -> None:
    _netdev, bridge, _uplink = make(
        "[Match]\nName=eth0\n[Network]\nDNS=192.0.2.53\n", "[Network]\nDNS=\nDNS=192.0.2.54\n"
    )
    assert entries(bridge, "Network") == [(("DNS", "192.0.2.53"),), (("DNS", ""), ("DNS", "192.0.2.54"))]


@pytest.mark.parametrize(
    ("text", "iaid", "expected"),
    [
        ("[Network]\nDHCP=yes\n", 0xA580F380, [(("IAID", "2776691584"),)]),
        ("[Network]\nDHCP=yes\n", None, []),
        ("[Network]\nDHCP=yes\n[DHCPv4]\nIAID=7\n", 0xA580F380, [(("IAID", "7"),)]),
        ("[Network]\nDHCP=yes\n[DHCP]\nIAID=7\n", 0xA580F380, []),
    ],
)
def test_dhcp_client_keeps_its_identity(text: str, iaid: int | None, expected: list[object]) -> None:
    _netdev, bridge, _uplink = make(text, iaid=iaid)
    assert entries(bridge, "DHCPv4") == expected


def test_uplink_without_configuration_makes_a_bridge_without_address() -> None:
    _netdev, bridge, uplink = make()
    assert entries(bridge, "Network") == [(("LinkLocalAddressing", "no"),)]
    assert entries(uplink, "Network") == [(("Bridge", "br0"), ("LinkLocalAddressing", "no"))]


@pytest.mark.parametrize("key", ["Bridge", "Bond", "MACVLAN", "VRF", "VXLAN"])
def test_what_cannot_go_along_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"10-eth0\.network has {key}= in \[Network\]"):
        make(f"[Match]\nName=eth0\n[Network]\n{key}=x0\n")


@pytest.mark.parametrize(
    ("source", "first"),
    [
        (None, "05-brine-br0.netdev"),
        ("10-netplan-eth0.network", "05-brine-br0.netdev"),
        ("05-brine-br0.networks", "05-brine-br0.netdev"),
        ("02-lan.network", "00-brine-br0.netdev"),
        ("00-all.network", "00--brine-br0.netdev"),
    ],
)
def test_our_files_sort_before_the_uplinks(source: str | None, first: str) -> None:
    names = file_names("br0", source)
    assert names[0] == first
    assert source is None or all(name < source for name in names[:2])


def test_a_file_that_nothing_sorts_before_is_refused() -> None:
    with pytest.raises(ConflictError, match="00---first.network sorts before"):
        file_names("br0", "00---first.network")


# What the spec names

STATIC = "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.10/24\nGateway=192.0.2.1\nLLMNR=no\n"
STATIC += "[Route]\nGateway=192.0.2.2\n"


def make_as(words: dict[str, t.Any], text: str = STATIC, *, iaid: int | None = None) -> BridgeFiles:
    spec = read_bridge({"name": "br0", **words}, "bridges[0]")
    source = NetworkdSource((("/etc/systemd/network/10-eth0.network", text),))
    uplink = None if spec.alone else spec.uplink or Uplink("eth0")
    return bridge_files(spec, uplink=uplink, mac=MAC, source=source, first="eth0", dhcpv4_iaid=iaid, dhcpv6_iaid=None)


def test_named_addresses_replace_all_that_the_uplink_has() -> None:
    words = {
        "addresses": ["198.51.100.7/24", "2001:db8::7/64"],
        "gateway": ["198.51.100.1", "2001:db8::1"],
        "nameservers": ["198.51.100.53", "2001:db8::53"],
        "search": ["example.org", "example.net"],
        "routes": [
            {"to": "203.0.113.0/24", "via": "198.51.100.2", "metric": 5},
            {"to": "default", "via": "2001:db8::2"},
        ],
        "accept_ra": False,
    }
    network = make_as(words).network
    assert entries(network, "Network") == [
        (
            ("LLMNR", "no"),
            ("Address", "198.51.100.7/24"),
            ("Address", "2001:db8::7/64"),
            ("Gateway", "198.51.100.1"),
            ("Gateway", "2001:db8::1"),
            ("IPv6AcceptRA", "no"),
            ("DNS", "198.51.100.53"),
            ("DNS", "2001:db8::53"),
            ("Domains", "example.org example.net"),
        )
    ]
    assert entries(network, "Route") == [
        (("Destination", "203.0.113.0/24"), ("Gateway", "198.51.100.2"), ("Metric", "5")),
        (("Destination", "::/0"), ("Gateway", "2001:db8::2")),
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"dhcp4": True}, [("DHCP", "ipv4")]),
        ({"dhcp4": True, "dhcp6": True}, [("DHCP", "yes")]),
        ({"dhcp4": False, "dhcp6": True}, [("DHCP", "ipv6")]),
        ({"dhcp4": False}, [("LinkLocalAddressing", "no"), ("IPv6AcceptRA", "no")]),
        ({"dhcp4": False, "accept_ra": True}, [("IPv6AcceptRA", "yes")]),
        ({"addresses": "2001:db8::7/64"}, [("Address", "2001:db8::7/64")]),
        (
            {"uplink": False, "addresses": "192.0.2.1/24"},
            [
                *(("Address", "192.0.2.1/24"), ("LinkLocalAddressing", "no"), ("IPv6AcceptRA", "no")),
                ("ConfigureWithoutCarrier", "yes"),
            ],
        ),
        ({"uplink": False}, [("LinkLocalAddressing", "no")]),
    ],
)
def test_ways_to_an_address(words: dict[str, t.Any], expected: list[tuple[str, str]]) -> None:
    assert entries(make_as(words, "[Match]\nName=eth0\n").network, "Network") == [tuple(expected)]


def test_dhcp_that_is_named_keeps_the_lease_and_static_addresses_ask_for_none() -> None:
    text = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n"
    assert entries(make_as({"dhcp4": True}, text, iaid=7).network, "DHCPv4") == [(("IAID", "7"),)]
    assert entries(make_as({"addresses": "192.0.2.7/24"}, text, iaid=7).network, "DHCPv4") == []


def test_settings_of_the_bridge_and_its_port() -> None:
    files = make_as({"mtu": 9000, "stp": True, "vlan_filtering": True, "vlans": [20, "30-39"], "pvid": 5})
    assert entries(files.netdev, "Bridge") == [
        (("STP", "yes"), ("ForwardDelaySec", "4"), ("VLANFiltering", "yes"), ("DefaultPVID", "5"))
    ]
    assert entries(files.network, "Link") == [(("MTUBytes", "9000"),)]
    (port,) = files.uplinks
    assert entries(port, "Link") == [(("MTUBytes", "9000"),)]
    assert entries(port, "BridgeVLAN") == [(("VLAN", "20"),), (("VLAN", "30-39"),)]
    # What the uplink has is taken over all the same.
    assert "Address=192.0.2.10/24" in files.network.text


@pytest.mark.parametrize("words", [{}, {"addresses": "192.0.2.1/24", "mtu": 1400}])
def test_a_boot_does_not_wait_for_a_bridge_without_uplink(words: dict[str, t.Any]) -> None:
    (link,) = entries(make_as({"uplink": False, **words}).network, "Link")
    assert ("RequiredForOnline", "no") in link
    assert entries(make_as({"dhcp4": True}).network, "Link") == []


def test_a_bond_is_made_of_its_ports() -> None:
    text = "[Match]\nName=eth0\n[Link]\nWakeOnLan=magic\n[Network]\nDHCP=yes\n"
    files = make_as({"uplink": {"bond": ["eth1", "eth0"], "mode": "802.3ad"}}, text)
    (bond,) = files.devices
    assert bond.name == "05-brine-br0-bond0.netdev"
    assert entries(bond, "NetDev") == [(("Name", "bond0"), ("Kind", "bond"), ("MACAddress", MAC))]
    assert entries(bond, "Bond") == [(("Mode", "802.3ad"), ("MIIMonitorSec", "100ms"))]
    port, first, second = files.uplinks
    assert entries(port, "Match") == [(("Name", "bond0"),)]
    assert entries(port, "Network") == [(("Bridge", "br0"), ("LinkLocalAddressing", "no"))]
    assert entries(first, "Network") == [(("Bond", "bond0"), ("LinkLocalAddressing", "no"))]
    assert entries(first, "Link") == [(("WakeOnLan", "magic"),)]
    assert (entries(second, "Match"), entries(second, "Link")) == ([(("Name", "eth1"),)], [])


def test_vlans_on_an_interface_do_not_move_to_a_bond() -> None:
    with pytest.raises(UnsupportedError, match="eth0 has VLANs on it, which would have to move to bond0"):
        make_as({"uplink": {"bond": ["eth0"]}}, "[Match]\nName=eth0\n[Network]\nVLAN=eth0.10\n")


def test_a_vlan_of_an_interface_that_no_file_is_for() -> None:
    spec = read_bridge({"name": "br0", "uplink": {"vlan": 10, "link": "eth0"}}, "")
    files = bridge_files(spec, uplink=spec.uplink, mac=MAC, source=None, dhcpv4_iaid=None, dhcpv6_iaid=None)
    (vlan,) = files.devices
    assert entries(vlan, "VLAN") == [(("Id", "10"),)]
    assert entries(files.network, "Network") == [(("LinkLocalAddressing", "no"),)]
    assert files.uplinks[-1].name == "95-brine-eth0.network"
    assert entries(files.uplinks[-1], "Network") == [(("VLAN", "eth0.10"), ("LinkLocalAddressing", "no"))]


# A change of our files


def test_what_nobody_names_stays_as_somebody_wrote_it() -> None:
    text = "# Made by brine.virt\n# and then by hand\n[Match]\nName=br0\n\n[Network]\nDHCP=yes\nLLMNR=no\n"
    assert changed_file("network", text, BridgeSpec("br0", stp=True)) == text
    changed = changed_file("network", text, BridgeSpec("br0", mtu=9000))
    assert changed == text.replace("Name=br0\n", "Name=br0\n\n[Link]\nMTUBytes=9000\n")
    assert changed_file("network", changed, BridgeSpec("br0", mtu=9000)) == changed


def test_vlans_that_nobody_names_stay() -> None:
    files = make_as({"vlan_filtering": True, "vlans": [20], "pvid": 5})
    netdev, port = files.netdev.text, files.uplinks[0].text
    for filtering, word in ((True, "yes"), (False, "no")):
        spec = BridgeSpec("br0", vlan_filtering=filtering)
        assert changed_file("netdev", netdev, spec) == netdev.replace("VLANFiltering=yes", f"VLANFiltering={word}")
        assert changed_file("uplink", port, spec) == port
    assert "BridgeVLAN" not in changed_file("uplink", port, BridgeSpec("br0", vlan_filtering=True, vlans=()))
