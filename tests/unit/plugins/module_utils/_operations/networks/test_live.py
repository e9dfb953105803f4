# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes in a network that runs: planned on values, and done by libvirt's own virNetworkUpdate."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.networks.existing import read_one
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.table import read_xml, same
from ansible_collections.brine.virt.plugins.module_utils._operations.networks import steps
from ansible_collections.brine.virt.plugins.module_utils._operations.networks.live import Update, live_updates
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import run

V4 = "<ip address='192.0.2.1' prefix='24'><dhcp>{}</dhcp></ip>"
V6 = "<ip family='ipv6' address='2001:db8::1' prefix='64'><dhcp>{}</dhcp></ip>"
RANGE = "<range start='192.0.2.100' end='192.0.2.199'/>"
SRV = "<srv service='x' protocol='tcp' domain='d'/>"
RANGE6 = "<range start='2001:db8::5' end='2001:db8::9'/>"
HOST9 = "<host ip='192.0.2.9'><hostname>a</hostname></host>"
HOST8 = HOST9.replace(".9", ".8")
NAT = "<forward mode='nat'>{}</forward>" + V4.format("")


def xml(inside: str) -> t.Any:
    return parse_xml(f"<network><name>lab</name><bridge name='virbr7'/>{inside}</network>")


def words(have: str, want: str) -> list[str]:
    return [update.words for update in live_updates(xml(have), xml(want))]


def parse_text(root: t.Any) -> str:
    return str(etree.tostring(root, encoding="unicode"))


@pytest.fixture(scope="module")
def conn() -> Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection


CHANGES = {
    "a new lease": (V4.format(RANGE), V4.format(RANGE + "<host name='a' ip='192.0.2.5'/>")),
    "the first lease": (V4.format(""), V4.format("<host name='a' ip='192.0.2.5'/>")),
    "another address for a name": (
        V4.format("<host name='a' ip='192.0.2.5'/><host name='b' ip='192.0.2.6'/>"),
        V4.format("<host name='a' ip='192.0.2.6'/><host name='b' ip='192.0.2.5'/>"),
    ),
    "a lease with another time": (
        V4.format("<host name='a' ip='192.0.2.5'/>"),
        V4.format("<host name='a' ip='192.0.2.5'><lease expiry='300' unit='seconds'/></host>"),
    ),
    "a range that grows": (V4.format(RANGE), V4.format("<range start='192.0.2.50' end='192.0.2.199'/>")),
    "a range of the second address": (
        V4.format(RANGE) + V6.format(""),
        V4.format(RANGE) + V6.format(RANGE6 + "<host id='00:01:02' ip='2001:db8::2'/>"),
    ),
    "names of one address": (
        "<dns><host ip='192.0.2.9'><hostname>a</hostname></host></dns>",
        "<dns><host ip='192.0.2.9'><hostname>a</hostname><hostname>b</hostname></host></dns>",
    ),
    "one of two addresses of a name": (f"<dns>{HOST9}{HOST8}</dns>", f"<dns>{HOST8}</dns>"),
    "a second address of a name": (f"<dns>{HOST8}</dns>", f"<dns>{HOST9}{HOST8}</dns>"),
    "a text of the same name": ("<dns><txt name='a' value='1'/></dns>", "<dns><txt name='a' value='2'/></dns>"),
    "a service on another port": (
        "<dns><srv service='x' protocol='tcp' domain='d' target='t' port='1'/></dns>",
        "<dns><srv service='x' protocol='tcp' domain='d' target='t' port='2'/></dns>",
    ),
    "another uplink": (
        NAT.format("<interface dev='eth0'/>"),
        NAT.format("<interface dev='eth1'/>"),
    ),
    "the first uplink": (NAT.format(""), NAT.format("<interface dev='eth1'/>")),
    "port groups": (
        "<portgroup name='a' default='yes'/><portgroup name='b'/><portgroup name='c'/>",
        "<portgroup name='a'/><portgroup name='b' default='yes'/><portgroup name='d'/>",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_libvirt_makes_the_change_and_takes_it_back(conn: t.Any, change: str) -> None:
    have, want = map(xml, CHANGES[change])
    handle = conn.networkDefineXML(parse_text(have))
    handle.create()
    try:
        before = read_xml(parse_xml(handle.XMLDesc(0)))
        updates = live_updates(parse_xml(handle.XMLDesc(0)), want)
        assert updates
        made = [steps.update(read_one(handle), update, live=True, config=True) for update in updates]
        run(made)
        after = read_xml(parse_xml(handle.XMLDesc(0)))
        wanted = read_xml(want)
        assert [key for key in wanted if not same(after.get(key), wanted[key], key)] == []
        assert live_updates(parse_xml(handle.XMLDesc(0)), want) == []
        for step in reversed(made):
            assert step.undo is not None
            step.undo()
            step.undo()  # what is undone already is left alone
        assert read_xml(parse_xml(handle.XMLDesc(0))) == before
    finally:
        handle.destroy()
        handle.undefine()


def test_what_goes_goes_first_and_ranges_come_last() -> None:
    have = V4.format(RANGE + "<host name='a' ip='192.0.2.5'/>")
    want = V4.format("<range start='192.0.2.50' end='192.0.2.60'/><host name='a' ip='192.0.2.6'/>")
    assert words(have, want) == [
        "remove the DHCP lease 192.0.2.5 a",
        "add the DHCP lease 192.0.2.6 a",
        "remove the DHCP range 192.0.2.100 192.0.2.199",
        "add the DHCP range 192.0.2.50 192.0.2.60",
    ]


@pytest.mark.parametrize(
    ("have", "want"),
    [
        # libvirt can't update these sections.
        ("<mtu size='1400'/>", "<mtu size='1500'/>"),
        ("<domain name='a'/>", "<domain name='b'/>"),
        # The index of <ip> would be that of another one.
        (V4.format(RANGE), V6.format("") + V4.format("")),
        # It would be another network's DHCP.
        (V4.format(RANGE), V4.replace("192.0.2.1'", "192.0.2.2'").format("")),
        # dnsmasq would not be told: networkUpdate.
        (V6.format(""), V6.format("<host name='a' ip='2001:db8::5'/>")),
        # virNetworkDNSDefParseXML: Extra data in disabled network.
        ("<dns enable='no'/>", "<dns><txt name='a' value='b'/></dns>"),
        # Known by their names alone.
        (
            "<dns><txt name='a' value='1'/><txt name='a' value='2'/></dns>",
            "<dns><txt name='a' value='1'/><txt name='a' value='3'/></dns>",
        ),
        (f"<dns>{SRV}</dns>", f"<dns>{SRV}<srv service='x' protocol='tcp'/></dns>"),
        (f"<dns>{SRV}<srv service='x' protocol='tcp'/></dns>", f"<dns>{SRV}</dns>"),
        # Machines are on it.
        (
            "<forward mode='bridge'><interface dev='eth0' connections='1'/></forward>",
            "<forward mode='bridge'><interface dev='eth1'/></forward>",
        ),
        # The mode is not to be had so.
        (NAT.format("<interface dev='eth0'/>"), NAT.replace("nat", "route").format("")),
    ],
)
def test_what_libvirt_cannot_change_is_left(have: str, want: str) -> None:
    assert words(have, want) == []


def test_who_uses_it_is_no_difference() -> None:
    have = "<forward mode='nat'><interface dev='eth0' connections='2'/></forward>"
    assert words(have, have.replace(" connections='2'", "")) == []


def test_updates_say_what_becomes_of_a_description() -> None:
    for have, want in CHANGES.values():
        changed = xml(have)
        for update in live_updates(changed, xml(want)):
            assert not update.is_in(changed) or update.command == "ADD_LAST"
            update.apply_to(changed)
            assert update.is_in(changed)
            assert isinstance(update.inverse(), Update)
        found, wanted = read_xml(changed), read_xml(xml(want))
        assert [key for key in wanted if not same(found.get(key), wanted[key], key)] == []
