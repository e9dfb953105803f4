# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to fit together in a network, alone and with what is there."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.spec import (
    NetworkSpec,
    read_network,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.table import read_xml

NET = {"name": "lab", "mode": "isolated", "addresses": ["192.0.2.1/24", "2001:db8::1/64"]}


def read(options: dict[str, t.Any], have: str | None = None, place: str = "networks[0]") -> NetworkSpec:
    there = None if have is None else read_xml(parse_xml(f"<network>{have}</network>"))
    return read_network(GivenOptions.of(options, place), lambda _name: there)


def complaint(options: dict[str, t.Any], have: str | None = None) -> str:
    with pytest.raises(VirtError) as caught:
        read(options, have)
    return str(caught.value)


def leases(*rows: dict[str, str]) -> dict[str, t.Any]:
    return {**NET, "dhcp": {"leases": list(rows)}}


def ranges(*rows: tuple[str, str]) -> dict[str, t.Any]:
    return {**NET, "dhcp": {"ranges": [{"start": start, "end": end} for start, end in rows]}}


MAC = "52:54:00:00:00:01"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "nat"}, "networks[0].name: is missing"),
        ({"name": "lab"}, "networks[0].mode: the network lab is new, and has no mode. Choose one of nat, route"),
        ({**NET, "moed": "nat"}, "networks[0]: unknown option 'moed'. Did you mean mode?"),
        ({"name": "lab", "mode": "nat"}, "networks[0].addresses: a network of mode nat needs addresses"),
        ({**NET, "device": ["eth0"]}, "networks[0].device: a network of mode isolated has no uplink"),
        (
            {**NET, "mode": "nat", "device": ["a", "b"]},
            "networks[0].device: a network of mode nat has at most one uplink",
        ),
        (
            {**NET, "mode": "bridge", "bridge": "br0"},
            "networks[0].addresses: a network of mode bridge has no addresses",
        ),
        (
            {"name": "lab", "mode": "bridge"},
            "networks[0].bridge: a network of mode bridge needs either bridge or device",
        ),
        (
            {"name": "lab", "mode": "bridge", "bridge": "br0", "device": ["eth0"]},
            "networks[0].bridge: a network of mode bridge needs either bridge or device",
        ),
        ({**NET, "mtu": 1200}, "networks[0].mtu: an mtu of 1200 is too small for IPv6. Give at least 1280"),
        ({**NET, "nat_ipv6": True}, "networks[0].nat_ipv6: is for mode nat, and the network is of mode isolated"),
        ({**NET, "mode": "nat", "nat_ports": {"start": 9, "end": 5}}, "networks[0].nat_ports: ends before it begins"),
        (
            {**NET, "mode": "nat", "nat_addresses": {"start": "10.0.0.0", "end": "10.1.0.0"}},
            "networks[0].nat_addresses: the range 10.0.0.0 to 10.1.0.0 is too large. libvirt takes 65535 addresses",
        ),
        (
            {"name": "lab", "mode": "bridge", "bridge": "br0", "stp": False},
            "networks[0].stp: a network of mode bridge has no stp",
        ),
        ({**NET, "bandwidth": {"inbound": {"peak": 5}}}, "networks[0].bandwidth.inbound: average is missing"),
        (
            {**NET, "portgroups": [{"name": "a", "bandwidth": {"outbound": {"burst": 5}}}]},
            "networks[0].portgroups[0].bandwidth.outbound: average is missing",
        ),
        ({**NET, "domain": {"local_only": True}}, "networks[0].domain: name is missing"),
        (
            {**NET, "dns": {"enabled": False, "txt": [{"name": "a", "value": "b"}]}},
            "networks[0].dns: DNS is not enabled, and has something to answer",
        ),
        (
            {**NET, "dns": {"hosts": [{"address": "192.0.2.5", "names": "a"}, {"address": "192.0.2.5", "names": "b"}]}},
            "networks[0].dns.hosts[1].address: 192.0.2.5 is in hosts[0] already. Give all its names in one entry",
        ),
        (
            {**NET, "dns": {"srv": [{"service": "ldap", "protocol": "tcp", "port": 389}]}},
            "networks[0].dns.srv[0]: port, priority and weight need a target",
        ),
        ({**NET, "vlan": [5]}, "networks[0].vlan: libvirt cannot set a VLAN here. Tags need a network of mode bridge"),
        ({**NET, "portgroups": [{"name": "a", "vlan": [5]}]}, "networks[0].portgroups[0]: has a VLAN"),
        (
            ranges(("198.51.100.5", "198.51.100.9")),
            "networks[0].dhcp.ranges[0]: the range 198.51.100.5 to 198.51.100.9 is in none",
        ),
        (
            ranges(("192.0.2.5", "192.0.3.9")),
            "networks[0].dhcp.ranges[0]: the range ends at 192.0.3.9, outside 192.0.2.0/24",
        ),
        (
            ranges(("192.0.2.9", "192.0.2.5")),
            "networks[0].dhcp.ranges[0]: the range 192.0.2.9 to 192.0.2.5 ends before",
        ),
        (
            ranges(("192.0.2.0", "192.0.2.5")),
            "networks[0].dhcp.ranges[0]: 192.0.2.0 is the network address of 192.0.2.0/24",
        ),
        (ranges(("192.0.2.9", "192.0.2.255")), "networks[0].dhcp.ranges[0]: 192.0.2.255 is the broadcast address"),
        (
            ranges(("192.0.2.5", "192.0.2.9"), ("192.0.2.9", "192.0.2.11")),
            "networks[0].dhcp.ranges[1]: the range 192.0.2.9 to 192.0.2.11 overlaps another one",
        ),
        (
            ranges(("2001:db8::1", "2001:db8::2:0")),
            "networks[0].dhcp.ranges[0]: the range 2001:db8::1 to 2001:db8::2:0 is too",
        ),
        (
            leases({"mac": MAC, "address": "198.51.100.5"}),
            "networks[0].dhcp.leases[0]: the lease of 198.51.100.5 is in none of",
        ),
        (
            leases({"mac": MAC, "address": "192.0.2.1"}),
            "networks[0].dhcp.leases[0]: 192.0.2.1 is the host's own address",
        ),
        (
            leases({"mac": MAC, "address": "192.0.2.255"}),
            "networks[0].dhcp.leases[0]: 192.0.2.255 is not an address for a machine",
        ),
        (leases({"address": "192.0.2.5"}), "networks[0].dhcp.leases[0]: has neither mac nor name"),
        (
            leases({"duid": "00:01", "address": "192.0.2.5"}),
            "networks[0].dhcp.leases[0]: has a duid and an IPv4 address",
        ),
        (leases({"address": "2001:db8::5"}), "networks[0].dhcp.leases[0]: has neither duid nor name"),
        (leases({"mac": MAC, "address": "2001:db8::5"}), "networks[0].dhcp.leases[0]: has a mac and an IPv6 address"),
        (
            leases({"mac": MAC, "address": "192.0.2.5"}, {"name": "b", "address": "192.0.2.5"}),
            "networks[0].dhcp.leases[1].address: 192.0.2.5 is in leases[0] already",
        ),
        (
            leases({"mac": MAC, "address": "192.0.2.5"}, {"mac": MAC.upper(), "address": "192.0.2.6"}),
            "networks[0].dhcp.leases[1].mac: 52:54:00:00:00:01 is in leases[0] already",
        ),
        (
            leases({"name": "a", "address": "192.0.2.5"}, {"name": "a", "address": "192.0.2.6"}),
            "networks[0].dhcp.leases[1].name: a is in leases[0] already",
        ),
        (
            {**NET, "dhcp": {"lease_seconds": 3600}},
            "networks[0].dhcp: lease_seconds needs a range or a lease",
        ),
        (
            {**NET, "addresses": ["fd00::1/56"], "dhcp": {"ranges": [{"start": "fd00::5", "end": "fd00::9"}]}},
            "networks[0].dhcp.ranges[0]: fd00::/56 is too large for DHCP. Give the host an address in a /64",
        ),
        (
            {**NET, "addresses": ["fd00::1/63"], "dhcp": {"leases": [{"address": "fd00::a", "name": "a"}]}},
            "networks[0].dhcp.leases[0]: fd00::/63 is too large for DHCP. Give the host an address in a /64",
        ),
        ({**NET, "dhcp": {"boot_file": ""}}, "networks[0].dhcp.boot_file: it is empty. Leave it out"),
        (
            {**NET, "dhcp": {"boot_file": "x", "ranges": [{"start": "2001:db8::5", "end": "2001:db8::9"}]}},
            "networks[0].dhcp: boot_file needs a range or a lease of IPv4",
        ),
        (
            {**NET, "routes": [{"to": "203.0.113.0/24", "via": "198.51.100.5"}]},
            "networks[0].routes[0]: 198.51.100.5, by which 203.0.113.0/24 is to be reached, is in none",
        ),
        (
            {**NET, "routes": [{"to": "203.0.113.0/24", "via": "2001:db8::5"}]},
            "networks[0].routes[0]: 203.0.113.0/24 cannot be reached via 2001:db8::5",
        ),
    ],
)
def test_what_does_not_fit_together_is_one_sentence_with_its_place(options: dict[str, t.Any], words: str) -> None:
    found = complaint(options)
    assert found.startswith(words)
    assert "\n" not in found


def test_dhcp_is_for_one_address_of_each_family() -> None:
    options = {**NET, "addresses": ["192.0.2.1/24", "198.51.100.1/24"]}
    rows = [{"start": f"{net}.5", "end": f"{net}.9"} for net in ("192.0.2", "198.51.100")]
    found = complaint({**options, "dhcp": {"ranges": rows}})
    assert found.startswith("networks[0].dhcp: DHCP is in 192.0.2.1/24 and in 198.51.100.1/24")


def test_all_that_is_wrong_is_said_at_once() -> None:
    options = {**leases({"address": "192.0.2.5"}, {"mac": MAC, "address": "10.0.0.1"}), "device": ["eth0"]}
    assert len(complaint(options).splitlines()) == 3


def test_a_name_may_have_an_address_of_each_family() -> None:
    read(leases({"name": "a", "address": "192.0.2.5"}, {"name": "a", "address": "2001:db8::5"}))


def test_what_is_there_is_checked_together_with_what_is_new() -> None:
    have = "<ip address='192.0.2.1' prefix='24'><dhcp><range start='192.0.2.5' end='192.0.2.9'/></dhcp></ip>"
    spec = read({"name": "lab", "dhcp": {"leases": [{"mac": MAC, "address": "192.0.2.30"}]}}, have)
    assert spec.options == {"dhcp": {"leases": ({"mac": MAC, "address": "192.0.2.30"},)}}
    assert spec.whole["dhcp"]["ranges"] == ({"start": "192.0.2.5", "end": "192.0.2.9"},)
    found = complaint({"name": "lab", "addresses": ["198.51.100.1/24"]}, have)
    assert found == (
        "networks[0].addresses: the range 192.0.2.5 to 192.0.2.9 is in none of the network's prefixes."
        " They are 198.51.100.0/24"
    )


def test_what_is_there_and_not_touched_is_no_mistake() -> None:
    # Two ranges that overlap, and a lease outside of all: libvirt takes them, and somebody has written them.
    have = """<ip address='192.0.2.1' prefix='24'><dhcp><range start='192.0.2.5' end='192.0.2.9'/>
      <range start='192.0.2.7' end='192.0.2.12'/><host name='x' ip='198.51.100.7'/></dhcp></ip>"""
    read({"name": "lab", "mtu": 1400}, have)
    read({"name": "lab", "mode": "hostdev"}, "<forward mode='hostdev'/>")


def test_the_time_of_leases_may_be_for_ranges_that_are_there() -> None:
    have = "<ip address='192.0.2.1' prefix='24'><dhcp><range start='192.0.2.5' end='192.0.2.9'/></dhcp></ip>"
    read({"name": "lab", "dhcp": {"lease_seconds": 3600, "boot_file": "pxelinux.0"}}, have)
    found = complaint({"name": "lab", "dhcp": {"lease_seconds": 3600, "ranges": []}}, have)
    assert found.startswith("networks[0].dhcp: lease_seconds needs a range or a lease")


def test_a_network_does_not_become_one_of_another_kind() -> None:
    with pytest.raises(ConflictError) as caught:
        read({"name": "lab", "mode": "bridge", "bridge": "br0"}, "<forward mode='nat'/><bridge name='virbr0'/>")
    assert str(caught.value).startswith("networks[0].mode: the network lab is of mode nat, the task asks for bridge")
    with pytest.raises(ConflictError):
        read({"name": "lab", "mode": "nat", "addresses": ["192.0.2.1/24"]}, "<forward mode='bridge'/>")
    read({"name": "lab", "mode": "route"}, "<forward mode='nat'/><ip address='192.0.2.1' prefix='24'/>")


def test_one_that_is_to_go_needs_only_its_name() -> None:
    spec = read({"name": "lab", "state": "absent"})
    assert (spec.state, spec.options) == ("absent", {})


# libvirt's own opinion of the same, so that a check here is neither too strict nor needed.
RANGES = [
    ("192.0.2.1/24", "192.0.2.1", "192.0.2.254"),
    ("192.0.2.1/24", "192.0.2.0", "192.0.2.9"),
    ("192.0.2.1/24", "192.0.2.9", "192.0.2.255"),
    ("192.0.2.1/24", "192.0.2.9", "192.0.2.5"),
    ("10.0.0.1/8", "10.0.0.2", "10.1.0.1"),
    ("10.0.0.1/8", "10.0.0.2", "10.1.0.2"),
    ("2001:db8::1/64", "2001:db8::", "2001:db8::ffff"),
    ("2001:db8::1/64", "2001:db8::1", "2001:db8::2:5"),
    ("2001:db8::1/64", "2001:db8::ff00", "2001:db8::1:5"),
]


@pytest.mark.parametrize(("address", "start", "end"), RANGES)
def test_a_range_is_taken_where_libvirt_takes_it(address: str, start: str, end: str) -> None:
    host, _slash, prefix = address.partition("/")
    family = "ipv6" if ":" in host else "ipv4"
    text = f"""<network><name>x</name><bridge name='x'/><ip family='{family}' address='{host}' prefix='{prefix}'>
      <dhcp><range start='{start}' end='{end}'/></dhcp></ip></network>"""
    with open_connection("test:///default") as conn:
        try:
            conn.networkDefineXML(text).undefine()
            taken = True
        except libvirt.libvirtError:
            taken = False
    options = {
        "name": "x",
        "mode": "isolated",
        "addresses": [address],
        "dhcp": {"ranges": [{"start": start, "end": end}]},
    }
    try:
        read(options)
        accepted = True
    except InputError:
        accepted = False
    assert accepted == taken
