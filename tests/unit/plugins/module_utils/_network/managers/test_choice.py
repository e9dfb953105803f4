# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers import choice
from ansible_collections.brine.virt.plugins.module_utils._network.managers.choice import (
    check_is_of,
    choose_manager,
    made_by,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import Parts, WantedBridge
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.spec import MANAGERS, BridgeSpec
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import link


@dataclass
class Some:
    """A manager of some interfaces, which has made some bridges."""

    name: str
    links: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    in_use: bool = True

    @property
    def title(self) -> str:
        return self.name.upper()

    def runs(self) -> bool:
        return self.in_use

    def manages(self, link: str) -> bool:
        return self.in_use and link in self.links

    def made(self, bridge: str) -> bool:
        return bridge in self.bridges

    def begun(self, _bridge: str) -> bool:
        return False

    def make(self, _wanted: WantedBridge) -> Parts:
        return Parts()

    def change(self, _wanted: WantedBridge) -> Parts:
        return Parts()


NETWORK = Network(
    {name: link(name, addresses=("192.0.2.1/24",) if name in ("eth0", "eth9") else ()) for name in
     ("eth0", "eth1", "eth2", "eth3", "eth9")},
    (Route("eth0", "192.0.2.254"),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def managers(monkeypatch: pytest.MonkeyPatch) -> None:
    known = (
        Some("networkd", ("eth1",)),
        Some("ifupdown", ("eth0", "eth2"), ("br7",)),
        Some("netplan", ("eth0", "eth1", "eth2", "eth9")),
    )
    monkeypatch.setattr(choice, "MANAGERS", known)
    monkeypatch.setattr(choice, "is_active", lambda unit: unit == "wickedd.service")


@pytest.mark.parametrize(
    ("links", "name", "chosen"),
    [
        (["eth0"], "auto", "ifupdown"),
        (["eth1"], "auto", "networkd"),
        (["eth0", "eth2"], "auto", "ifupdown"),
        # Nobody's goes along.
        (["eth3", "eth0"], "auto", "ifupdown"),
        (["eth3"], "auto", "ifupdown"),
        ([], "auto", "ifupdown"),
        (["eth0"], "ifupdown", "ifupdown"),
        (["eth0"], "netplan", "netplan"),
        ([], "networkd", "networkd"),
    ],
)
def test_the_manager_of_the_uplink_makes_the_bridge(links: list[str], name: str, chosen: str) -> None:
    assert choose_manager(BridgeSpec("br0", manager=name), NETWORK, links).name == chosen


def test_interfaces_of_two_managers_are_refused() -> None:
    with pytest.raises(ConflictError, match="eth0 is managed by IFUPDOWN and eth1 is managed by NETWORKD"):
        choose_manager(BridgeSpec("br0"), NETWORK, ["eth0", "eth1"])


def test_an_interface_of_somebody_else_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match="eth9 is managed by wicked; the role moves uplinks that NETWORKD, IFUPDOWN"
    ):
        choose_manager(BridgeSpec("br0"), NETWORK, ["eth9"])
    with pytest.raises(ConflictError, match="NETWORKD does not manage eth0. Leave out manager"):
        choose_manager(BridgeSpec("br0", manager="networkd"), NETWORK, ["eth0"])


def test_a_manager_that_is_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MANAGERS", (Some("networkd", in_use=False),))
    with pytest.raises(UnsupportedError, match="no network manager that could make br0 is in use on this host"):
        choose_manager(BridgeSpec("br0"), NETWORK, [])
    with pytest.raises(UnsupportedError, match="NETWORKD is not in use on this host"):
        choose_manager(BridgeSpec("br0", manager="networkd"), NETWORK, ["eth3"])


def test_who_has_made_a_bridge() -> None:
    found = made_by("br7")
    assert (found and found.name, made_by("br0")) == ("ifupdown", None)


@pytest.mark.parametrize(
    ("bridge", "name", "error"),
    [
        ("br7", "auto", None),
        ("br7", "ifupdown", None),
        ("br7", "netplan", "the bridge br7 exists, but IFUPDOWN has it, and not NETPLAN. The manager of an existing"),
        # Of somebody else.
        ("eth1", "auto", None),
        ("eth1", "networkd", None),
        ("eth3", "networkd", "the bridge eth3 exists, but NETWORKD does not manage it. It was not made by this role"),
    ],
)
def test_a_bridge_that_exists_has_the_manager_that_is_named(bridge: str, name: str, error: str | None) -> None:
    with contextlib.nullcontext() if error is None else pytest.raises(ConflictError, match=error):
        check_is_of(BridgeSpec(bridge, manager=name), made_by(bridge))


def test_all_names_of_a_spec_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [manager.name for manager in choice.MANAGERS] == list(MANAGERS)
