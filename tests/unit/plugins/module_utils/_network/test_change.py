# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._network import change as planning
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import NetworkdSource
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Link, Network, Networkd, Route

SOURCE = NetworkdSource(
    (("/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.10/24\n"),)
)


def link(name: str, **settings: t.Any) -> Link:
    return Link(
        **{
            "name": name,
            "mac": "52:54:00:11:22:33",
            "kind": "",
            "link_type": "ether",
            "master": None,
            "wireless": False,
            "addresses": (),
            **settings,
        }
    )


def network(*links: Link, default: str | None = "eth0") -> Network:
    return Network({item.name: item for item in links}, (Route(default, "192.0.2.1"),) if default else ())


ETH0 = link("eth0", addresses=("192.0.2.10/24",))


@pytest.fixture
def networkd(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[Networkd | None], None]:
    """Say what systemd-networkd is to know of every link."""

    def answer(value: Networkd | None) -> None:
        monkeypatch.setattr(planning, "observe_networkd", lambda _uplink: value)

    answer(Networkd(SOURCE, (), None, None))
    return answer


@pytest.mark.parametrize(
    ("state", "uplink"),
    [
        (network(link("br0", kind="bridge"), default="br0"), None),
        (network(link("br0", kind="bridge"), link("eth0", master="br0"), default="br0"), "eth0"),
        (network(link("br0", kind="openvswitch"), default=None), None),
    ],
)
def test_a_bridge_that_exists_is_left(state: Network, uplink: str | None) -> None:
    assert planning.plan_bridge(state, "br0", uplink) is None


@pytest.mark.parametrize(
    ("state", "uplink", "error", "words"),
    [
        (network(link("br0", kind="dummy")), None, ConflictError, "br0 exists and is of the kind dummy, not a bridge"),
        (network(link("br0"), ETH0), None, ConflictError, "br0 exists and is a network card"),
        (network(link("br0", kind="bridge"), ETH0), "eth0", ConflictError, "br0 exists, but eth0 is not its port"),
        (network(link("br0", kind="bridge")), "eth7", NotFoundError, "eth7 does not exist"),
        (network(ETH0, default=None), None, InputError, "no interface has a default route"),
        (
            network(link("lan", kind="bridge"), default="lan"),
            None,
            InputError,
            "default route is on lan, which is already a bridge",
        ),
        (network(ETH0), "eth7", NotFoundError, "eth7 does not exist. Possible interfaces: eth0"),
        (
            network(link("bond0", kind="bond"), link("eth0", master="bond0"), default="bond0"),
            "eth0",
            ConflictError,
            "eth0 is a port of the bond bond0",
        ),
        (network(link("wlan0", wireless=True), default="wlan0"), None, UnsupportedError, "wlan0 is wireless"),
        (
            network(link("wg0", link_type="none", kind="wireguard"), default="wg0"),
            None,
            UnsupportedError,
            "kind wireguard",
        ),
        (network(link("lo", link_type="loopback")), "lo", UnsupportedError, "lo cannot be a bridge's port"),
    ],
)
def test_what_could_cut_the_host_off_is_refused(
    state: Network, uplink: str | None, error: type[VirtError], words: str
) -> None:
    with pytest.raises(error, match=words):
        planning.plan_bridge(state, "br0", uplink)


def test_a_change_names_what_the_bridge_must_have(networkd: object) -> None:
    change = planning.plan_bridge(network(ETH0, link("eth1")), "br0", None)
    assert change is not None
    assert (change.uplink, change.addresses, change.gateways) == ("eth0", ("192.0.2.10/24",), ("192.0.2.1",))
    assert [file.name for file in change.files] == [
        "05-brine-br0.netdev", "05-brine-br0.network", "05-brine-br0-uplink.network"
    ]  # fmt: skip


def test_another_manager_is_named(
    networkd: t.Callable[[Networkd | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    networkd(None)
    monkeypatch.setattr(planning, "other_manager", lambda _uplink: "NetworkManager")
    with pytest.raises(UnsupportedError, match="eth0 is managed by NetworkManager; .* systemd-networkd"):
        planning.plan_bridge(network(ETH0), "br0", None)


@pytest.mark.parametrize("known", [Networkd(SOURCE, ("192.0.2.99/24",), None, None), Networkd(None, (), None, None)])
def test_an_address_that_no_file_explains_is_not_lost(
    networkd: t.Callable[[Networkd | None], None], known: Networkd
) -> None:
    networkd(known)
    with pytest.raises(ConflictError, match=r"192\.0\.2\.\d+/24 on eth0 is in no configuration"):
        planning.plan_bridge(network(ETH0), "br0", None)


def test_missing_on_bridge_tells_each_thing(networkd: object) -> None:
    change = planning.plan_bridge(network(ETH0), "br0", None)
    assert change is not None
    port = link("eth0", master="br0")
    whole = network(link("br0", kind="bridge", addresses=ETH0.addresses), port, default="br0")
    assert planning.missing_on_bridge(whole, change) == []
    assert planning.missing_on_bridge(network(link("br0", kind="bridge"), ETH0), change) == [
        "its port eth0",
        "the address 192.0.2.10/24",
        "the gateway 192.0.2.1",
    ]
    assert planning.missing_on_bridge(network(port), change) == ["the interface br0"]
