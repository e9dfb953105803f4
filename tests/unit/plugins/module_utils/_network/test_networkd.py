# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import (
    NetworkdFile,
    NetworkdSection,
    NetworkdSource,
    bridge_files,
    file_names,
    parse,
)

MAC = "52:54:00:11:22:33"


def make(
    *parts: str, iaid: int | None = None, name: str = "10-eth0.network"
) -> tuple[NetworkdFile, NetworkdFile, NetworkdFile]:
    paths = [f"/etc/systemd/network/{name}", *(f"/etc/systemd/network/{name}.d/{n}.conf" for n in range(1, len(parts)))]
    source = NetworkdSource(tuple(zip(paths, parts))) if parts else None
    return bridge_files(bridge="br0", uplink="eth0", mac=MAC, source=source, dhcpv4_iaid=iaid, dhcpv6_iaid=None)


def entries(file: NetworkdFile, section: str) -> list[tuple[tuple[str, str], ...]]:
    return [found.entries for found in parse(file.text) if found.name == section]


def test_parse_keeps_order_repeats_and_continued_values() -> None:
    text = (
        "# comment\n[Match]\nName = eth0\n; comment\n\n[Address]\nAddress=192.0.2.1/24\n"
        "[Address]\nAddress=192.0.2.2/24\n"
        "[Network]\nDNS=192.0.2.53 \\\n# inside\n  192.0.2.54\nDomains=\n"
    )
    assert parse(text) == (
        NetworkdSection("Match", (("Name", "eth0"),)),
        NetworkdSection("Address", (("Address", "192.0.2.1/24"),)),
        NetworkdSection("Address", (("Address", "192.0.2.2/24"),)),
        NetworkdSection("Network", (("DNS", "192.0.2.53    192.0.2.54"), ("Domains", ""))),
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
    assert entries(uplink, "Match") == [(("Name", "eth0"),)]
    assert entries(uplink, "Network") == [(("Bridge", "br0"), ("LinkLocalAddressing", "no"))]
    assert "192.0.2" not in uplink.text


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
