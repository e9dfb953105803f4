# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a network in libvirt's XML: written, read back, and accepted by libvirt."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.table import (
    NETWORK,
    check_options,
    read_xml,
    same,
    write_xml,
)

NAT = {
    "mode": "nat",
    "bridge": "virbr-lab",
    "device": ["eth0"],
    "domain": {"name": "lab.example.org", "local_only": True},
    "mac": "52:54:00:0a:0b:0c",
    "mtu": 9000,
    "stp": False,
    "zone": "libvirt",
    "addresses": ["192.0.2.1/24", "2001:db8::1/64"],
    "dhcp": {
        "ranges": [
            {"start": "192.0.2.100", "end": "192.0.2.199"},
            {"start": "2001:db8::100", "end": "2001:db8::1ff"},
        ],
        "leases": [
            {"mac": "52:54:00:00:00:01", "name": "web1", "address": "192.0.2.10"},
            {"name": "web2", "address": "192.0.2.11"},
            {"duid": "00:01:00:01:2a:3b:4c:5d:52:54:00:12:34:56", "name": "web1", "address": "2001:db8::10"},
        ],
        "lease_seconds": 7200,
        "boot_file": "pxelinux.0",
        "boot_server": "192.0.2.2",
        "tftp_root": "/srv/tftp",
    },
    "dns": {
        "enabled": True,
        "forward_plain_names": False,
        "forwarders": [{"address": "198.51.100.53"}, {"address": "198.51.100.54", "domain": "example.com"}],
        "hosts": [{"address": "192.0.2.5", "names": ["printer", "printer.lab.example.org"]}],
        "txt": [{"name": "example.org", "value": "v=spf1 -all"}],
        "srv": [
            {
                "service": "ldap",
                "protocol": "tcp",
                "domain": "lab.example.org",
                "target": "dc.lab.example.org",
                "port": 389,
                "priority": 1,
                "weight": 2,
            }
        ],
    },
    "routes": [
        {"to": "203.0.113.0/24", "via": "192.0.2.9", "metric": 5},
        {"to": "2001:db8:5::/48", "via": "2001:db8::9"},
    ],
    "nat_ports": {"start": 2000, "end": 3000},
    "nat_addresses": {"start": "203.0.113.1", "end": "203.0.113.2"},
    "nat_ipv6": True,
    "isolated_ports": True,
    "bandwidth": {"inbound": {"average": 1000, "peak": 2000, "burst": 100}, "outbound": {"average": 500}},
}
SWITCH = {
    "mode": "bridge",
    "bridge": "ovsbr0",
    "virtualport": {"type": "openvswitch"},
    "vlan": [{"id": 7}],
    "portgroups": [
        {"name": "office", "default": True, "vlan": [{"id": 10}], "trust_guest_rx_filters": True},
        {
            "name": "trunk",
            "vlan": [{"id": 10, "native": "untagged"}, {"id": 20}],
            "bandwidth": {"inbound": {"average": 5}},
        },
    ],
}
MACVTAP = {"mode": "bridge", "device": ["eth1", "eth2"]}
UUID = "09B11C538B5C4EEB8F00D84EAA0AAA3B"
VEPA = {
    "mode": "bridge",
    "device": "eth1",
    "virtualport": {"type": "802.1Qbg", "managerid": "0x0B", "typeid": "010", "typeidversion": 8, "instanceid": UUID},
}
ROUTED: dict[str, t.Any] = {
    "mode": "route",
    "addresses": ["192.0.2.1/24", "2001:db8::1/64"],
    "dhcp": {"ranges": [{"start": "2001:db8::10", "end": "2001:db8::1f"}]},
}


@pytest.fixture(scope="module")
def conn() -> Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection


def made(options: dict[str, t.Any], text: str = "<network><name>lab</name></network>") -> t.Any:
    xml = parse_xml(text)
    write_xml(xml, check_options(options, ""))
    return xml


@pytest.mark.parametrize(
    "options",
    [
        *(NAT, SWITCH, MACVTAP, VEPA, ROUTED, {"mode": "isolated"}),
        *({**ROUTED, "mode": "open"}, {**ROUTED, "mode": "isolated"}),
    ],
)
def test_what_is_written_is_read_back_by_us_and_by_libvirt(conn: t.Any, options: dict[str, t.Any]) -> None:
    xml = made(options)
    clean = check_options(options, "")
    assert [key for key, want in clean.items() if not same(read_xml(xml)[key], want, key)] == []
    network = conn.networkDefineXML(etree.tostring(xml, encoding="unicode"))
    try:
        again = parse_xml(network.XMLDesc(0))
    finally:
        network.undefine()
    assert [key for key, want in clean.items() if not same(read_xml(again).get(key), want, key)] == []
    # Nothing but the order has changed: a second run writes nothing.
    before = etree.tostring(again)
    write_xml(again, clean)
    assert etree.tostring(again) == before


def test_a_port_of_another_type_has_nothing_of_the_one_before(conn: t.Any) -> None:
    xml = made(VEPA)
    write_xml(xml, check_options({"virtualport": {"type": "openvswitch", "profileid": "p"}}, ""))
    assert read_xml(xml)["virtualport"] == {"type": "openvswitch", "profileid": "p"}
    conn.networkDefineXML(etree.tostring(xml, encoding="unicode")).undefine()


def test_a_rate_that_is_there_need_not_be_named_again() -> None:
    limited = made({"bandwidth": {"inbound": {"average": 1000}}})
    have = read_xml(limited)["bandwidth"]
    field = next(field for field in NETWORK if field.key == "bandwidth")
    assert field.check({"inbound": {"peak": 2000}}, "", have) == {"inbound": {"peak": 2000}}


def test_lines_for_dnsmasq_stand_in_their_namespace() -> None:
    xml = made({"mode": "isolated", "dnsmasq_options": ["dhcp-option=42,192.0.2.1"]})
    assert 'xmlns:dnsmasq="http://libvirt.org/schemas/network/dnsmasq/1.0"' in etree.tostring(xml, encoding="unicode")
    assert read_xml(xml)["dnsmasq_options"] == ("dhcp-option=42,192.0.2.1",)
    write_xml(xml, {"dnsmasq_options": ()})
    assert "dnsmasq_options" not in read_xml(xml) and len(xml) == 1


def test_the_order_of_leases_is_no_difference() -> None:
    leases = [{"name": f"web{number}", "address": f"192.0.2.{number}"} for number in (5, 3, 4)]
    xml = made({"mode": "isolated", "addresses": ["192.0.2.1/24"], "dhcp": {"leases": leases}})
    before = etree.tostring(xml)
    write_xml(xml, check_options({"dhcp": {"leases": leases[::-1]}}, ""))
    assert etree.tostring(xml) == before


def test_what_has_no_option_stays() -> None:
    text = """<network ipv6='yes'><name>lab</name><metadata><x xmlns='urn:x'/></metadata><bridge name='b' delay='3'/>
      <ip address='192.0.2.1' netmask='255.255.255.0' localPtr='yes'><dhcp>
        <range start='192.0.2.10' end='192.0.2.20'><lease expiry='2' unit='hours'/></range></dhcp></ip></network>"""
    xml = made({"addresses": ["192.0.2.1/24", "198.51.100.1/24"], "stp": False, "dhcp": {"leases": []}}, text)
    assert xml.get("ipv6") == "yes" and xml.find("metadata/{urn:x}x") is not None
    assert dict(xml.find("bridge").attrib) == {"name": "b", "delay": "3", "stp": "off"}
    assert xml.find("ip").get("localPtr") == "yes" and len(xml.findall("ip")) == 2
    assert read_xml(xml)["dhcp"] == {"ranges": ({"start": "192.0.2.10", "end": "192.0.2.20"},), "lease_seconds": 7200}


def test_a_new_range_gets_the_time_of_the_others() -> None:
    text = """<network><ip address='192.0.2.1' prefix='24'><dhcp>
        <range start='192.0.2.10' end='192.0.2.20'><lease expiry='2' unit='hours'/></range></dhcp></ip></network>"""
    xml = made({"dhcp": {"ranges": [{"start": "192.0.2.30", "end": "192.0.2.40"}]}}, text)
    assert read_xml(xml)["dhcp"]["lease_seconds"] == 7200
    write_xml(xml, check_options({"dhcp": {"lease_seconds": 0}}, ""))
    assert xml.find("ip/dhcp/range/lease").get("expiry") == "0"


def test_ranges_and_leases_go_with_the_address_to_a_new_one() -> None:
    text = """<network><ip address='192.0.2.1' prefix='24'><tftp root='/srv'/><dhcp>
        <range start='192.0.2.10' end='192.0.2.20'/><host name='a' ip='192.0.2.5'/><bootp file='b' server='192.0.2.3'/>
        </dhcp></ip></network>"""
    before = read_xml(parse_xml(text))["dhcp"]
    xml = made({"addresses": ["2001:db8::1/64", "192.0.2.254/24"]}, text)
    assert [element.get("address") for element in xml.findall("ip")] == ["2001:db8::1", "192.0.2.254"]
    assert read_xml(xml)["dhcp"] == before
    assert (before["boot_file"], before["tftp_root"], len(before["leases"])) == ("b", "/srv", 1)


@pytest.mark.parametrize(
    ("element", "found"),
    [
        ("<ip address='10.0.0.1'/>", "10.0.0.1/8"),
        ("<ip address='172.16.0.1' prefix='0'/>", "172.16.0.1/16"),
        ("<ip address='192.168.5.1' netmask='255.255.255.128'/>", "192.168.5.1/25"),
        ("<ip family='ipv6' address='2001:DB8:0::1'/>", "2001:db8::1/64"),
    ],
)
def test_a_prefix_is_what_libvirt_takes_it_for(conn: t.Any, element: str, found: str) -> None:
    assert read_xml(parse_xml(f"<network>{element}</network>"))["addresses"] == (found,)


def test_what_is_no_address_is_no_error_where_it_is_read() -> None:
    assert "addresses" not in read_xml(parse_xml("<network><ip address='nonsense' prefix='x'/></network>"))


def test_a_network_of_another_mode_loses_what_was_of_the_first() -> None:
    xml = made(
        {"mode": "route"},
        "<network><forward mode='nat' dev='eth0'><nat ipv6='yes'/><interface dev='eth0'/></forward></network>",
    )
    assert etree.tostring(xml.find("forward")) == b'<forward mode="route" dev="eth0"><interface dev="eth0"/></forward>'
    write_xml(xml, {"mode": "isolated"})
    assert read_xml(xml) == {"mode": "isolated"}


def test_the_words_of_others_are_understood() -> None:
    assert [check_options({"mode": word}, "")["mode"] for word in ("routed", "bridged")] == ["route", "bridge"]
    assert check_options({"domain": "example.org"}, "")["domain"] == {"name": "example.org"}
    assert read_xml(made({"domain": False}, "<network><domain name='a'/></network>")) == {"mode": "isolated"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "nats"}, "mode: 'nats' is not a choice. Choose one of nat, route, open, isolated, bridge"),
        ({"bridge": "virbr-laboratory"}, "bridge: 'virbr-laboratory' is not the name of an interface"),
        ({"addresses": ["192.0.2.1"]}, "addresses[0]: '192.0.2.1' is not an address with a prefix"),
        (
            {"addresses": ["192.0.2.0/24"]},
            "addresses[0]: '192.0.2.0/24' is the address of a whole network. Give the host's own",
        ),
        ({"addresses": ["192.0.2.1/24", "192.0.2.130/25"]}, "addresses[1]: 192.0.2.130/25 overlaps 192.0.2.1/24"),
        ({"dhcp": {"rangse": []}}, "dhcp: unknown option 'rangse'. Did you mean ranges?"),
        ({"dhcp": {"ranges": [{"start": "192.0.2.5"}]}}, "dhcp.ranges[0]: end is missing"),
        ({"dhcp": {"lease_seconds": 60}}, "dhcp.lease_seconds: 60 is too short. Give at least 120"),
        ({"dhcp": {"leases": [{"mac": "01:00:00:00:00:00", "address": "192.0.2.5"}]}}, "dhcp.leases[0].mac: "),
        ({"dhcp": {"leases": [{"name": "a b", "address": "192.0.2.5"}]}}, "dhcp.leases[0].name: 'a b' is not a domain"),
        ({"dns": {"hosts": [{"address": "192.0.2.5", "names": []}]}}, "dns.hosts[0].names: no name is given"),
        ({"dns": {"txt": [{"name": "a,b", "value": "x"}]}}, "dns.txt[0].name: 'a,b' is not the name of a TXT record"),
        ({"dns": {"txt": [{"name": "a", "value": "x\ny"}]}}, "dns.txt[0].value: the text has more than one line"),
        ({"dns": {"txt": [{"name": 'a"b', "value": "x"}]}}, "dns.txt[0].name: 'a\"b' is not the name of a TXT record"),
        ({"dns": {"txt": [{"name": "a", "value": 'say "no'}]}}, 'dns.txt[0].value: a " has no second one'),
        ({"dns": {"txt": [{"name": "a", "value": '"no\\"'}]}}, 'dns.txt[0].value: a " has no second one'),
        (
            {"dns": {"txt": [{"name": "a", "value": "no #1"}]}},
            "dns.txt[0].value: what follows # is a comment for dnsmasq",
        ),
        ({"dhcp": {"boot_file": 'pxe"linux'}}, 'dhcp.boot_file: a " has no second one'),
        ({"dhcp": {"tftp_root": '/srv/"x'}}, 'dhcp.tftp_root: a " has no second one'),
        ({"dns": {"srv": [{"service": "a b", "protocol": "tcp"}]}}, "dns.srv[0].service: 'a b' is not a service"),
        ({"routes": [{"to": "0.0.0.0/0", "via": "192.0.2.5"}]}, "routes[0].to: '0.0.0.0/0' is the default route"),
        ({"portgroups": [{"name": "a"}, {"name": "a"}]}, "portgroups[1].name: the port group a is given twice"),
        (
            {"portgroups": [{"name": "a", "default": True}, {"name": "b", "default": True}]},
            "portgroups: a and b are both the default",
        ),
        ({"device": ["eth0", "eth0"]}, "device[1]: eth0 is given twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        check_options(options, "")
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("value", ["a#1", '"a #1"', '"a,b" c', '"say \\"no\\""', "it's", 'a "b" c', '"C:\\\\"'])
def test_what_dnsmasq_reads_as_it_is_written_is_taken(value: str) -> None:
    assert check_options({"dns": {"txt": [{"name": "a", "value": value}]}}, "")["dns"]["txt"][0]["value"] == value
