# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses count, where they come from, and which is the best."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.addresses import (
    MOST_ADDRESSES,
    Address,
    AgentLimits,
    Leases,
    NicQuery,
    best_first,
    find_addresses,
    make_address,
)

LIMITS = AgentLimits(answer_seconds=1)
WEB1_MAC = "52:54:00:00:00:01"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", Address("192.0.2.1", 24, "ipv4", "agent")),
        ("2001:db8::1", Address("2001:db8::1", 24, "ipv6", "agent")),
        ("2001:0db8:0::0001", Address("2001:db8::1", 24, "ipv6", "agent")),
        ("fe80::1%eth0", Address("fe80::1", 24, "ipv6", "agent")),
        ("127.0.0.1", None),
        ("127.0.1.1", None),
        ("::1", None),
        ("0.0.0.0", None),
        ("::", None),
        ("224.0.0.251", None),
        # The same addresses as IPv6 writes them: connecting to these leads to the host itself.
        ("::ffff:127.0.0.1", None),
        ("::ffff:192.0.2.1", None),
        ("::127.0.0.1", None),
        ("", None),
        ("{{ evil }}", None),
    ],
)
def test_only_addresses_of_a_nic_count(text: str, expected: Address | None) -> None:
    assert make_address(text, 24, "agent") == expected


def _nic(*entries: tuple[str, str]) -> list[Address]:
    made = [make_address(text, 24, origin) for text, origin in entries]
    return [address for address in made if address]


@pytest.mark.parametrize(
    ("nics", "expected"),
    [
        ([], []),
        ([_nic(("fe80::1", "agent"), ("169.254.3.3", "agent"))], []),
        ([_nic(("2001:db8::1", "static")), _nic(("192.0.2.2", "arp"))], ["192.0.2.2", "2001:db8::1"]),
        ([_nic(("192.0.2.9", "arp")), _nic(("192.0.2.1", "static"))], ["192.0.2.9", "192.0.2.1"]),
        (
            [_nic(("192.0.2.4", "arp"), ("192.0.2.3", "agent"), ("192.0.2.2", "lease"), ("192.0.2.1", "static"))],
            ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"],
        ),
        ([_nic(("192.0.2.8", "agent"), ("192.0.2.7", "agent"))], ["192.0.2.8", "192.0.2.7"]),
        ([_nic(("192.0.2.1", "lease")), _nic(("192.0.2.1", "arp"))], ["192.0.2.1"]),
    ],
)
def test_the_best_address_is_first(nics: list[list[Address]], expected: list[str]) -> None:
    assert best_first(nics) == expected


@pytest.mark.parametrize(
    ("nic", "running", "expected"),
    [
        (NicQuery(WEB1_MAC, "network"), True, ["lease"]),
        (NicQuery(WEB1_MAC.upper(), "network"), True, ["lease"]),
        # A bridge has no leases, and without an agent only the neighbour table is left.
        (NicQuery(WEB1_MAC, "bridge"), True, ["arp"]),
        # What is known needs no question.
        (NicQuery(WEB1_MAC, "network", ("192.0.2.5/24",)), True, ["static"]),
        # A link-local address is of no use to others, so the question goes on.
        (NicQuery(WEB1_MAC, "network", ("fe80::5/64",)), True, ["static", "lease"]),
        (NicQuery("52:54:00:ff:ff:ff", "network"), True, []),
        (NicQuery(WEB1_MAC, "network"), False, []),
        (NicQuery(WEB1_MAC, "network", ("192.0.2.5/24",)), False, ["static"]),
    ],
)
def test_each_source_is_asked_only_when_it_can_help(
    node_uri: str, nic: NicQuery, running: bool, expected: list[str]
) -> None:
    with open_connection(node_uri) as conn:
        found, errors = find_addresses(
            conn.lookupByName("web1"), [nic], running=running, agent_connected=False, limits=LIMITS
        )
    assert [address.origin for address in found[0]] == expected
    assert errors == []


@pytest.mark.parametrize(
    ("mac", "origins", "is_told"),
    [
        # Another source had it, so the error keeps nothing from the reader.
        ("aa:bb:cc:dd:ee:ff", ["arp"], False),
        ("52:54:00:ff:ff:ff", [], True),
    ],
)
def test_a_source_that_fails_is_told_only_where_an_address_is_missing(
    mac: str, origins: list[str], is_told: bool
) -> None:
    with open_connection("test:///default") as conn:  # this driver has no agent
        found, errors = find_addresses(
            conn.lookupByName("test"),
            [NicQuery(mac, "bridge")],
            running=True,
            agent_connected=True,
            limits=LIMITS,
        )
    assert [address.origin for address in found[0]] == origins
    assert [text.startswith("the guest agent did not report its addresses: ") for text in errors] == [True] * is_told


def test_no_agent_is_asked_after_the_time_is_up(node_uri: str) -> None:
    limits = AgentLimits(answer_seconds=1, ask_until=time.monotonic() - 1)
    with open_connection(node_uri) as conn:
        _found, errors = find_addresses(
            conn.lookupByName("web1"),
            [NicQuery("52:54:00:ff:ff:ff", "bridge")],
            running=True,
            agent_connected=True,
            limits=limits,
        )
    assert errors == ["the guest agent was not asked for addresses: no time left"]


class ChattyGuest:
    """A machine whose guest agent claims as many addresses as libvirt lets through."""

    def agentSetResponseTimeout(self, _seconds: int) -> None:  # noqa: N802 - libvirt's name
        """Any limit will do."""

    def interfaceAddresses(self, _source: int) -> dict[str, t.Any]:  # noqa: N802 - libvirt's name
        return {
            f"eth{nic}": {"hwaddr": WEB1_MAC, "addrs": [{"addr": f"10.0.{nic}.{n}", "prefix": 8} for n in range(250)]}
            for nic in range(200)
        }


def test_a_guest_cannot_fill_the_record_with_addresses() -> None:
    found, errors = find_addresses(
        ChattyGuest(), [NicQuery(WEB1_MAC, "bridge")], running=True, agent_connected=True, limits=LIMITS
    )
    assert len(found[0]) == MOST_ADDRESSES
    assert found[0][0].address == "10.0.0.0"
    assert errors == []


class LeasedNetworks:
    """A hypervisor with one network that tells its leases, which libvirt's test driver never does."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def networkLookupByName(self, name: str) -> LeasedNetworks:  # noqa: N802 - libvirt's name
        self.asked.append(name)
        if name != "default":
            raise libvirt.libvirtError("Network not found")
        return self

    def DHCPLeases(self) -> list[dict[str, t.Any]]:  # noqa: N802 - libvirt's name
        return [
            {"mac": WEB1_MAC.upper(), "ipaddr": "192.0.2.9", "prefix": 24},
            {"mac": WEB1_MAC, "ipaddr": "2001:db8::9", "prefix": 128},
            {"mac": "52:54:00:00:00:77", "ipaddr": "192.0.2.77", "prefix": 24},
        ]


def test_the_leases_of_a_network_are_asked_once_for_all_machines() -> None:
    hypervisor = LeasedNetworks()
    leases = Leases(hypervisor)
    for _machine in range(3):
        found, errors = find_addresses(
            None,  # the machine itself is asked nothing
            [NicQuery(WEB1_MAC, "network", network="default")],
            running=True,
            agent_connected=False,
            limits=LIMITS,
            leases=leases,
        )
        assert [address.as_dict() for address in found[0]] == [
            {"address": "192.0.2.9", "prefix": 24, "family": "ipv4", "origin": "lease"},
            {"address": "2001:db8::9", "prefix": 128, "family": "ipv6", "origin": "lease"},
        ]
        assert errors == []
    assert hypervisor.asked == ["default"]


def test_a_machine_is_asked_itself_where_its_network_does_not_tell_its_leases(node_uri: str) -> None:
    hypervisor = LeasedNetworks()
    leases = Leases(hypervisor)
    with open_connection(node_uri) as conn:
        for _time in range(2):
            found, _errors = find_addresses(
                conn.lookupByName("web1"),
                [NicQuery(WEB1_MAC, "network", network="other")],
                running=True,
                agent_connected=False,
                limits=LIMITS,
                leases=leases,
            )
            assert [address.origin for address in found[0]] == ["lease"]
    assert hypervisor.asked == ["other"]


def test_a_guest_that_sends_no_text_as_its_name_hides_nobody(node_uri: str) -> None:
    """libvirt 9.0 hands its DHCP host name on, and the bindings fail for all leases of the network."""

    class Mistaken(LeasedNetworks):
        def DHCPLeases(self) -> list[dict[str, t.Any]]:  # noqa: N802 - libvirt's name
            return [{"mac": WEB1_MAC, "hostname": b"x\xed\xa0\x80".decode()}]

    with open_connection(node_uri) as conn:
        found, _errors = find_addresses(
            conn.lookupByName("web1"),
            [NicQuery(WEB1_MAC, "network", network="default")],
            running=True,
            agent_connected=False,
            limits=LIMITS,
            leases=Leases(Mistaken()),
        )
    assert [address.origin for address in found[0]] == ["lease"]


def test_the_lease_that_ends_last_is_the_one_of_a_machine_that_was_made_anew() -> None:
    """Its MAC address is the old one, its client ID is not, and so it has a second lease."""

    class Remade(LeasedNetworks):
        def DHCPLeases(self) -> list[dict[str, t.Any]]:  # noqa: N802 - libvirt's name
            old = {"mac": WEB1_MAC, "ipaddr": "192.0.2.50", "prefix": 24, "expirytime": 1_000}
            return [old, {**old, "ipaddr": "192.0.2.77", "expirytime": 4_000}]

    found, _errors = find_addresses(
        None,
        [NicQuery(WEB1_MAC, "network", network="default")],
        running=True,
        agent_connected=False,
        limits=LIMITS,
        leases=Leases(Remade()),
    )
    assert best_first(found)[0] == "192.0.2.77"
