# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is to get in where: hypervisors everywhere, operators at libvirt alone, nobody twice."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import (
    Opening,
    Ports,
    complement,
    in_order,
    is_opened_by,
    needed_openings,
    other_ports,
)

MIGRATION = Ports(49152, 49215)
TLS = Ports(16514, 16514)


def test_an_opening_for_a_network_opens_to_its_hosts() -> None:
    wanted = Opening(ip_network("192.0.2.12"), (TLS,))
    assert is_opened_by(wanted, [Opening(ip_network("192.0.2.0/24"), (TLS, MIGRATION))])
    for other in (Opening(ip_network("192.0.2.13"), (TLS,)), Opening(ip_network("192.0.2.12"), (MIGRATION,))):
        assert not is_opened_by(wanted, [other])


def test_hypervisors_get_everything_and_operators_libvirt() -> None:
    hypervisors = [ip_network("2001:db8::1"), ip_network("192.0.2.12")]
    assert needed_openings(hypervisors, [ip_network("198.51.100.0/24")], MIGRATION, tls=True) == (
        Opening(ip_network("192.0.2.12"), (TLS, MIGRATION)),
        Opening(ip_network("198.51.100.0/24"), (TLS,)),
        Opening(ip_network("2001:db8::1"), (TLS, MIGRATION)),
    )


def test_without_tls_its_port_stays_closed_and_operators_need_nothing() -> None:
    assert needed_openings([ip_network("192.0.2.12")], [ip_network("192.0.2.99")], MIGRATION, tls=False) == (
        Opening(ip_network("192.0.2.12"), (MIGRATION,)),
    )


def test_a_network_stands_for_its_hosts_where_it_may_do_as_much() -> None:
    network, host = ip_network("192.0.2.0/24"), ip_network("192.0.2.12")
    assert [one.source for one in needed_openings([network, host], [], MIGRATION, tls=True)] == [network]
    assert [one.source for one in needed_openings([network], [host], MIGRATION, tls=True)] == [network]
    # As an operator's network it may do less.
    assert [one.source for one in needed_openings([host], [network], MIGRATION, tls=True)] == [network, host]


@pytest.mark.parametrize(
    ("migration", "ports"),
    [
        (Ports(61152, 61215), (TLS, Ports(61152, 61215))),
        (Ports(16515, 16600), (Ports(16514, 16600),)),
        (Ports(16000, 17000), (Ports(16000, 17000),)),
    ],
)
def test_the_ports_are_in_order_and_each_there_once(migration: Ports, ports: tuple[Ports, ...]) -> None:
    (opening,) = needed_openings([ip_network("192.0.2.12")], [], migration, tls=True)
    assert opening.ports == ports


@pytest.mark.parametrize(
    ("ports", "others"),
    [
        ([], [Ports(0, 65535)]),
        ([Ports(0, 65535)], []),
        ([Ports(22, 22)], [Ports(0, 21), Ports(23, 65535)]),
        ([Ports(80, 80), Ports(0, 22), Ports(20, 30)], [Ports(31, 79), Ports(81, 65535)]),
        ([Ports(65535, 65535)], [Ports(0, 65534)]),
    ],
)
def test_all_ports_but_some(ports: list[Ports], others: list[Ports]) -> None:
    assert list(other_ports(ports)) == others


def test_the_order_is_that_of_addresses() -> None:
    names = ["10.0.0.9", "10.0.0.10", "9.0.0.0/8", "2001:db8::1"]
    openings = [Opening(ip_network(name), (TLS,)) for name in names]
    assert [one.source_text for one in in_order(reversed(openings))] == [
        "9.0.0.0/8",
        "10.0.0.9",
        "10.0.0.10",
        "2001:db8::1",
    ]


def test_texts() -> None:
    opening = Opening(ip_network("192.0.2.12"), (TLS, MIGRATION))
    assert (opening.ports_text(joint=":"), opening.source_text) == ("16514,49152:49215", "192.0.2.12")


@pytest.mark.parametrize("inside", ["10.0.0.0", "10.255.255.255"])
def test_a_complement_is_all_but_that(inside: str) -> None:
    rest = complement((ip_network("10.0.0.0/8"), ip_network("192.0.2.7")), 4)
    assert not any(ip_address(inside) in network for network in rest)
    assert not any(ip_address("192.0.2.7") in network for network in rest)
    for outside in ("9.255.255.255", "11.0.0.0", "192.0.2.8", "0.0.0.0", "255.255.255.255"):
        assert sum(ip_address(outside) in network for network in rest) == 1
