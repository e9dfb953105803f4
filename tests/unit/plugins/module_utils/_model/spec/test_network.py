# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a nic for the guest's own network."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.network import NETWORK_RULES, check_network


def read(nic: dict[str, t.Any]) -> dict[str, t.Any]:
    given = validators.read_mapping(nic, "nics[0]", NETWORK_RULES)
    check_network(given, lambda key: f"nics[0].{key}")
    return given


@pytest.mark.parametrize(
    ("nic", "place", "words"),
    [
        ({"addresses": ["192.0.2.10"]}, "addresses[0]", "prefix"),
        ({"addresses": ["fe80::1%eth0/64"]}, "addresses[0]", "zone"),
        ({"gateway": ["192.0.2.1", "192.0.2.2"]}, "gateway", "more than one gateway"),
        ({"addresses": ["192.0.2.10/24", "192.0.2.0/24"]}, "addresses[1]", "such as 192.0.2.1/24"),
        ({"addresses": ["192.0.2.255/24"]}, "addresses[0]", "of a whole network"),
        ({"addresses": ["0.0.0.0/0"]}, "addresses[0]", "no interface can have"),
        ({"addresses": ["::/64"]}, "addresses[0]", "no interface can have"),
        ({"addresses": ["::1/64"]}, "addresses[0]", "no interface can have"),
        ({"addresses": ["127.0.0.1/8"]}, "addresses[0]", "no interface can have"),
        ({"addresses": ["224.0.0.5/24"]}, "addresses[0]", "no interface can have"),
        ({"gateway": "198.51.100.1", "addresses": ["192.0.2.10/24"]}, "gateway", "in none of the networks"),
        ({"gateway": "192.0.2.10", "addresses": ["192.0.2.10/24"]}, "gateway", "the nic's own address"),
        ({"gateway": "2001:db8:1::1", "addresses": ["2001:db8::2/64"]}, "gateway", "Networks: 2001:db8::/64"),
        (
            {"routes": [{"to": "default", "via": "198.51.100.1"}], "addresses": ["192.0.2.10/24"]},
            "routes[0].via",
            "in none of the networks",
        ),
        ({"gateway": "192.0.2.1"}, "gateway", "no address that could reach it"),
        ({"gateway": "2001:db8::1", "addresses": ["192.0.2.10/24"]}, "gateway", "no address that could reach it"),
        ({"gateway": "fe80::1%x\n[y]"}, "gateway[0]", "zone"),
        ({"nameservers": ["one.one.one.one"]}, "nameservers[0]", "not an address"),
        ({"search": ["a b"]}, "search[0]", "not a domain"),
        ({"search": ["a\nb"]}, "search[0]", "not a domain"),
        ({"routes": [{"to": "192.0.2.0/24"}]}, "routes[0]", "via is missing"),
        ({"routes": [{"to": "192.0.2.1/24", "via": "192.0.2.1"}]}, "routes[0].to", "not a network"),
        ({"routes": [{"to": "::/0", "via": "192.0.2.1"}]}, "routes[0]", "cannot be reached"),
        ({"routes": [{"to": "default", "via": "192.0.2.1", "metric": -1}]}, "routes[0].metric", "not allowed"),
        ({"routes": [{"to": "default", "via": "192.0.2.1", "dev": "x"}]}, "routes[0]", "unknown option"),
        ({"dhcp4": "maybe"}, "dhcp4", "neither true nor false"),
        ({"mtu": 10}, "mtu", "not allowed"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(nic: dict[str, t.Any], place: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(nic)
    assert caught.value.where == f"nics[0].{place}"
    assert words in str(caught.value)


def test_a_single_gateway_and_one_of_each_family() -> None:
    addresses = ["192.0.2.10/24", "2001:db8::2/64"]
    assert read({"addresses": addresses, "gateway": "192.0.2.1"})["gateway"] == ("192.0.2.1",)
    both = ["192.0.2.1", "fe80::1"]
    assert read({"addresses": addresses, "gateway": both})["gateway"] == tuple(both)


FAR = [{"to": "default", "via": "198.51.100.1"}]
FAR6 = [{"to": "default", "via": "2001:db8:1::1"}]


@pytest.mark.parametrize(
    "nic",
    [
        # DHCP and a router may give another address, from which the gateway can be reached.
        {"routes": FAR},
        {"routes": FAR6},
        {"routes": FAR, "addresses": ["192.0.2.10/24"], "dhcp4": True},
        {"gateway": "2001:db8:1::1", "addresses": ["2001:db8::2/64"], "dhcp6": True},
        {"gateway": "2001:db8:1::1", "addresses": ["2001:db8::2/64"], "accept_ra": True},
        {"gateway": "fe80::1", "addresses": ["2001:db8::2/64"]},
        # Whoever has no network beside the machine itself has the gateway elsewhere.
        {"gateway": "198.51.100.1", "addresses": ["192.0.2.10/32"]},
        # Both addresses of a network for two.
        {"gateway": "192.0.2.1", "addresses": ["192.0.2.0/31"]},
    ],
    ids=str,
)
def test_a_gateway_that_may_be_in_reach_is_let_through(nic: dict[str, t.Any]) -> None:
    assert read(nic)


def test_a_default_route_is_spelt_out() -> None:
    routes = [{"to": "default", "via": "192.0.2.1"}, {"to": "default", "via": "fe80::1", "metric": "5"}]
    assert read({"routes": routes})["routes"] == (
        {"to": "0.0.0.0/0", "via": "192.0.2.1"},
        {"to": "::/0", "via": "fe80::1", "metric": 5},
    )


@given(
    st.sampled_from(["addresses", "gateway", "nameservers", "search", "to", "via"]),
    st.sampled_from(["192.0.2.1", "fe80::1", "example.org", "192.0.2.0/24", ""]),
    st.text(min_size=1, max_size=8),
    st.sampled_from(["", "/24", "/64"]),
)
def test_no_text_has_space_for_more_than_an_address(key: str, start: str, text: str, end: str) -> None:
    """Some of these values go into files without quotes."""
    value = f"{start}{text}{end}"
    nic = {"routes": [{"to": "default", "via": "192.0.2.1", key: value}]} if key in ("to", "via") else {key: [value]}
    try:
        found = validators.read_mapping(nic, "nic", NETWORK_RULES)
    except InputError:
        return
    items = found["routes"][0].values() if "routes" in found else found[key]
    assert not [
        item for item in items if set(item) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-")
    ]
