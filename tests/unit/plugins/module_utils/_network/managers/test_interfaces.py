# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers.interfaces import (
    Stanza,
    bridge_file,
    iface_stanzas,
    sources,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    MAC,
    SPECS,
    VLAN_SPECS,
    VLANS,
    wanted,
)

Judge = t.Callable[..., subprocess.CompletedProcess[str]]
MAIN = """source {folder}/*
auto lo
iface lo inet loopback

# the first card
allow-hotplug eth0
auto eth0
iface eth0 inet static
    address 192.0.2.10/24
    gateway \\
        192.0.2.1
    hwaddress 52:54:00:11:22:33
    dns-nameservers 192.0.2.53
    up ip rule add from 192.0.2.0/24 table 7
    up ip route add 198.51.100.0/24 via 192.0.2.2 dev $IFACE
iface eth0 inet6 auto
"""


def make(words: dict[str, t.Any], text: str = MAIN) -> str:
    want = wanted(**words)
    source = iface_stanzas(text, "eth0")
    return bridge_file(
        want.spec, uplink=want.uplink, mac=MAC, source=source, origin="/etc/network/interfaces", first="eth0"
    )


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_stanzas_are_read() -> None:
    assert iface_stanzas(MAIN, "eth0") == [
        Stanza(
            "eth0",
            "inet",
            "static",
            (
                ("address", "192.0.2.10/24"),
                ("gateway", "192.0.2.1"),
                ("hwaddress", "52:54:00:11:22:33"),
                ("dns-nameservers", "192.0.2.53"),
                ("up", "ip rule add from 192.0.2.0/24 table 7"),
                ("up", "ip route add 198.51.100.0/24 via 192.0.2.2 dev $IFACE"),
            ),
        ),
        Stanza("eth0", "inet6", "auto", ()),
    ]
    assert iface_stanzas(MAIN, "eth1") == []
    assert sources("source a/*\nsource-directory b\n") == [(False, "a/*"), (True, "b")]


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_ifupdown_would_bring_up_the_bridge_and_not_the_uplinks_own_stanza(
    judge: Judge, tmp_path: Path, words: dict[str, t.Any]
) -> None:
    (tmp_path / "interfaces.d").mkdir()
    (tmp_path / "interfaces").write_text(MAIN.format(folder=tmp_path / "interfaces.d"))
    (tmp_path / "interfaces.d/brine-br0").write_text(make(words))
    # --no-act runs no command but the mapping's.
    common = ("--no-act", "--verbose", "--no-scripts", f"--state-dir={tmp_path}", "-i", str(tmp_path / "interfaces"))
    answer = judge("ifup", *common, "-a")
    assert answer.returncode == 0, answer.stderr
    told = answer.stderr.splitlines()
    want = wanted(**words)
    below = want.uplink.below if want.uplink and want.uplink.vlan is None else ()
    for name in below:
        if name == "eth0":
            assert "ifup: configuring interface eth0=brine-port-eth0 (inet)" in told
    assert "ifup: configuring interface br0=br0 (inet)" in told
    assert ("ifup: configuring interface eth0=eth0 (inet)" in told) is ("eth0" not in below)
    # The commands that make the bridge come first, each as it is written.
    made = told[told.index("ifup: configuring interface br0=br0 (inet)") :]
    assert "ip link show dev br0 >/dev/null 2>&1 || ip link add name br0 type bridge" in made
    if want.uplink is not None:
        assert f"ip link set dev {want.uplink.port} master br0 up" in made
    for address in want.spec.of_family(4):
        assert any(line.startswith(f"ip addr add {address.split('/')[0]}/") for line in made), made
    for address in want.spec.of_family(6):
        assert any(line.startswith(f"ip -6 addr add {address} ") for line in made), made
    for gateway in want.spec.gateway or ():
        assert any(f" default via {gateway} " in line or f"/0 via {gateway} " in line for line in made), made
    # Without a carrier nobody can be asked who else has an address, and ifup would fail when it has waited for that.
    unasked = bool(want.spec.of_family(6)) and want.spec.alone
    assert any(line.endswith(" nodad") for line in made) is unasked, made


def test_the_uplinks_stanzas_go_to_the_bridge() -> None:
    text = make({})
    (inet, inet6) = iface_stanzas(text, "br0")
    assert (inet.method, inet6.method) == ("static", "auto")
    own = [option for option in inet.options if option[0] not in ("pre-up", "post-down")]
    assert own == [
        ("address", "192.0.2.10/24"),
        ("gateway", "192.0.2.1"),
        ("dns-nameservers", "192.0.2.53"),
        ("up", "ip rule add from 192.0.2.0/24 table 7"),
        ("up", "ip route add 198.51.100.0/24 via 192.0.2.2 dev $IFACE"),
    ]
    (port,) = iface_stanzas(text, "brine-port-eth0")
    assert port == Stanza("brine-port-eth0", "inet", "manual", (("hwaddress", "52:54:00:11:22:33"),))


def test_vlans_and_settings() -> None:
    told = lines(make({**VLANS, "mtu": 9000, "stp": True}))
    settings = "stp_state 1 forward_delay 400 vlan_filtering 1 vlan_default_pvid 5"
    assert f"pre-up ip link set dev br0 type bridge {settings}" in told
    enslaved = told.index("pre-up ip link set dev eth0 master br0 up")
    vlans = [told.index(f"pre-up bridge vlan add dev eth0 vid {vlan}") for vlan in ("20", "30-39")]
    assert enslaved < min(vlans)
    assert told.index("pre-up ip link set dev eth0 mtu 9000") < enslaved


def test_the_mtu_of_a_bridge_without_an_uplink() -> None:
    told = lines(make({"name": "inside_br", "uplink": False, "mtu": 1400, "addresses": ["192.0.2.1/24"]}))
    assert "pre-up ip link set dev inside_br mtu 1400" in told


def test_a_bond_and_a_vlan_are_made_below_the_bridge() -> None:
    told = lines(make(SPECS["bond"]))
    assert "pre-up ip link show dev bond0 >/dev/null 2>&1 || ip link add name bond0 type bond" in told
    assert "pre-up ip link set dev eth1 down && ip link set dev eth1 master bond0" in told
    assert {"mapping eth0", "mapping eth1"} <= set(told)
    told = lines(make(SPECS["vlan"]))
    add = "ip link add link eth0 name eth0.10 type vlan id 10"
    assert f"pre-up ip link show dev eth0.10 >/dev/null 2>&1 || {add}" in told
    assert "mapping eth0" not in told


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("bond-slaves none", "has bond-slaves, which cannot be carried over"),
        ("wpa-ssid home", "has wpa-ssid"),
        ("up ethtool -K eth0 gro off", "has a command that names it: up ethtool -K eth0 gro off"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(option: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        make({}, f"iface eth0 inet dhcp\n    {option}\n")


def test_a_name_that_only_begins_like_the_uplinks_is_no_matter() -> None:
    assert "up ip route add 192.0.2.0/24 dev eth0.5" in make(
        {}, "iface eth0 inet dhcp\n up ip route add 192.0.2.0/24 dev eth0.5\n"
    )


def test_an_interface_that_inherits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="has inherits"):
        make({}, "iface eth0 inet dhcp inherits office\n")
