# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources are addresses, networks and names; what is none of these is said, all of it at once."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.sources import (
    read_sources,
    resolve,
    said_addresses,
)

WIDE = (
    "wider than any cloud: at least /8 for IPv4 and /16 for IPv6 is needed. Name the addresses or networks of the"
    " cloud's hosts"
)
NAMES = {
    "hv2": ["192.0.2.12", "2001:db8::12"],
    "hv1": ["127.0.1.1"],
    "hv3.example.org": ["192.0.2.13", "192.0.2.13", "fe80::1%eth0"],
}


def named(name: str) -> list[str]:
    return NAMES.get(name, [])


def test_addresses_networks_and_names() -> None:
    words = ["hv2", "192.0.2.12", "198.51.100.0/24", "hv3.example.org", "192.0.2.11"]
    assert [str(one) for one in read_sources(words, "hypervisors", ["192.0.2.11", "2001:db8::12"], named)] == [
        "192.0.2.12/32",
        "198.51.100.0/24",
        "192.0.2.13/32",
    ]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("192.0.2.5/24", "h[0]: '192.0.2.5/24' is not an address, network or name. Did you mean 192.0.2.0/24?"),
        (
            "192.0.2.0/33",
            "h[0]: '192.0.2.0/33' is not an address, network or name. Use an address, a network such as 192.0.2.0/24,"
            " or a name that the hypervisor can resolve",
        ),
        ("0.0.0.0/0", "h[0]: 0.0.0.0/0 is the whole internet. Name the addresses or networks of the cloud's hosts"),
        ("128.0.0.0/1", f"h[0]: 128.0.0.0/1 is {WIDE}"),
        ("10.0.0.0/7", f"h[0]: 10.0.0.0/7 is {WIDE}"),
        ("2000::/3", f"h[0]: 2000::/3 is {WIDE}"),
        ("2001::/15", "h[0]: '2001::/15' is not an address, network or name. Did you mean 2000::/15?"),
        ("fc00::/15", f"h[0]: fc00::/15 is {WIDE}"),
        ("::1", "h[0]: nobody comes to another host from ::1. Use an address of its network"),
        ("hv1", "h[0]: this host finds no address of 'hv1'. Use an address or a network"),
        ("hv9", "h[0]: this host finds no address of 'hv9'. Use an address or a network"),
    ],
)
def test_mistakes(word: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_sources([word], "h", [], named)
    assert str(caught.value) == sentence


def test_the_widest_networks() -> None:
    assert [str(one) for one in read_sources(["10.0.0.0/8", "fd00::/16"], "h", [])] == ["10.0.0.0/8", "fd00::/16"]


@pytest.mark.parametrize("word", ["", "a b", "$(reboot)", "-x", "10.0.0.1:22", "[::1]"])
def test_what_is_no_name_is_not_even_asked_for(word: str) -> None:
    def asked(name: str) -> list[str]:
        raise AssertionError(name)

    with pytest.raises(InputError):
        read_sources([word], "h", [], asked)


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_sources(["hv9", "hv2", "10.0.0.1/8"], "h", [], named)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["h[0]", "h[2]"]


def test_what_nobody_can_resolve_has_no_address() -> None:
    assert resolve("no-such-host.invalid") == []
    assert resolve("a" * 300) == []


def test_what_a_host_says_is_a_single_address_or_nothing() -> None:
    good = ["192.0.2.12", "2001:db8::12", "10.0.0.5"]
    bad = ["10.0.0.0/8", "192.0.2.12/32", "hv2", "127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"]
    bad += ["169.254.3.4", "fe80::1", "2001:db8::1%eth0", ""]
    assert said_addresses([*bad, *good]) == (good, bad)
