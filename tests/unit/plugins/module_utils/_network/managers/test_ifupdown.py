# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers import ifupdown
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import (
    Parts,
    WantedBridge,
    delete_link,
)
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Link, Network, Route
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    SPECS,
    VLAN_SPECS,
    VLANS,
    link,
    wanted,
)

MANAGER = ifupdown.IfupdownManager()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose eth0 has a stanza in a file that another file reads; its folders are in a directory."""
    (tmp_path / "interfaces.d").mkdir()
    (tmp_path / "interfaces").write_text("source interfaces.d/*\nauto lo\niface lo inet loopback\n")
    (tmp_path / "interfaces.d/cards").write_text("auto eth0\niface eth0 inet static\n  address 192.0.2.10/24\n")
    monkeypatch.setattr(ifupdown, "MAIN", f"{tmp_path}/interfaces")
    monkeypatch.setattr(ifupdown, "LASTING", f"{tmp_path}/interfaces.d")
    monkeypatch.setattr(ifupdown, "TRIAL", f"{tmp_path}/run")
    monkeypatch.setattr(ifupdown, "SETTINGS", f"{tmp_path}/proc")
    monkeypatch.setattr(ifupdown.shutil, "which", lambda program: f"/sbin/{program}")
    monkeypatch.setattr(ifupdown, "run", lambda *_command: "ifup version 0.8.41\nCopyright\n")
    return tmp_path


def put(parts: Parts) -> Path:
    (file,) = parts.files
    assert file.text is not None
    Path(file.lasting).write_text(file.text)
    return Path(file.lasting)


def spoken(commands: t.Iterable[tuple[str, ...]]) -> list[str]:
    return [" ".join(command) for command in commands]


def test_what_it_manages(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MANAGER.manages("eth0")
    assert not MANAGER.manages("eth1")
    monkeypatch.setattr(ifupdown, "run", lambda *_command: "info: executing ifup\nifupdown2:3.0.0\n")
    assert not MANAGER.runs()


def test_a_new_bridge_is_one_file(host: Path) -> None:
    parts = MANAGER.make(wanted())
    (file,) = parts.files
    assert (file.lasting, file.trial) == (f"{host}/interfaces.d/brine-br0", f"{host}/run/brine-br0")
    assert "    address 192.0.2.10/24\n" in str(file.text)
    trial = f"--force --interfaces={host}/run/brine-br0"
    # A DHCP client that ifup starts must outlive the switch's unit.
    up = "systemd-run --scope --quiet --collect ifup"
    assert spoken(parts.apply) == ["ifdown --force eth0", f"{up} {trial} eth0", f"{up} {trial} br0"]
    assert spoken(parts.leave) == [f"ifdown {trial} br0", f"ifdown {trial} eth0"]
    assert spoken(parts.restore) == [*spoken([delete_link("br0")]), f"{up} --force eth0"]


def test_files_that_nothing_reads_are_of_no_use(host: Path) -> None:
    (host / "interfaces").write_text("auto lo\n")
    with pytest.raises(ConflictError, match=r"interfaces does not read .*interfaces\.d\. Add this line to it: source"):
        MANAGER.make(wanted())


def test_name_servers_need_somebody_who_takes_them(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ifupdown.shutil, "which", lambda _program: None)
    with pytest.raises(UnsupportedError, match="hands name servers to resolvconf, which is not installed"):
        MANAGER.make(wanted(nameservers=["192.0.2.53"]))


def test_somebody_elses_mapping_or_file_is_left(host: Path) -> None:
    (host / "interfaces.d/map").write_text("mapping eth*\n  script /usr/local/bin/choose\n")
    with pytest.raises(UnsupportedError, match="map has a mapping for eth0"):
        MANAGER.make(wanted())
    (host / "interfaces.d/map").unlink()
    (host / "interfaces.d/brine-br0").write_text("auto br0\n")
    with pytest.raises(ConflictError, match="brine-br0 exists, but the bridge br0 does not"):
        MANAGER.make(wanted())


def test_an_address_that_nothing_would_bring_back_is_not_lost(host: Path) -> None:
    both: list[dict[str, t.Any]] = [{}, {"addresses": ["192.0.2.10/24"]}]
    for words in both:
        with pytest.raises(
            ConflictError, match=r"^192\.0\.2\.99/24, 2001:db8::9/64 on eth0 are in no stanza of ifupdown"
        ):
            MANAGER.make(wanted(static=("192.0.2.10/24", "192.0.2.99/24", "2001:db8::9/64"), **words))


def test_a_vlan_on_the_uplink_keeps_its_routes_and_addresses(host: Path) -> None:
    def with_vlan(*routes: Route, static: tuple[str, ...] = ()) -> WantedBridge:
        asked = wanted()
        vlan = link("eth0.10", kind="vlan", vlan=10, below="eth0", static=static)
        links = {**asked.network.links, "eth0.10": vlan}
        defaults = tuple(route for route in routes if route.to == "default")
        others = tuple(route for route in routes if route.to != "default")
        return dataclasses.replace(asked, network=Network(links, defaults, others))

    by_hand = Route("eth0.10", "198.51.100.1", protocol="boot")
    with pytest.raises(
        ConflictError,
        match=r"eth0\.10 is a VLAN on eth0, .* not get back the route to default via 198\.51\.100\.1\. Use another",
    ):
        MANAGER.make(with_vlan(by_hand))
    with pytest.raises(ConflictError, match=r"the route to 203\.0\.113\.0/24"):
        MANAGER.make(with_vlan(dataclasses.replace(by_hand, to="203.0.113.0/24")))
    with pytest.raises(ConflictError, match=r"would not get back the address 2001:db8::5/64"):
        MANAGER.make(with_vlan(static=("198.51.100.7/24", "2001:db8::5/64")))
    # What the kernel makes itself, and a router says again, comes back; other interfaces stay as they are.
    MANAGER.make(
        with_vlan(
            Route("eth0.10", "fe80::1", protocol="ra", version=6),
            Route("eth0.10", "", to="198.51.100.0/24", protocol="kernel"),
            Route("eth1", "203.0.113.1", protocol="boot"),
            static=("198.51.100.7/24",),
        )
    )


@pytest.mark.parametrize(
    ("words", "links", "first"),
    [
        # A VLAN and a bond with stanzas of their own, and a bond that the stanza of another bridge makes.
        ({"uplink": "eth0.10"}, [link("eth0.10", kind="vlan", vlan=10, below="eth0")], ("eth0.10", "eth0.10")),
        ({"uplink": {"vlan": 20, "link": "bond0"}}, [link("bond0", kind="bond")], ("bond0", "bond0")),
        ({"uplink": {"vlan": 20, "link": "bond1"}}, [link("bond1", kind="bond", master="br1")], ("bond1", "br1")),
    ],
)
def test_what_ifupdown_makes_itself_is_there_before_the_bridge_at_a_boot(
    host: Path, words: dict[str, t.Any], links: list[Link], first: tuple[str, str]
) -> None:
    """The bridge's stanza comes first where `source` stands at the top of /etc/network/interfaces, as with Debian."""
    (host / "interfaces.d/cards").write_text(
        "".join(f"iface {name} inet manual\n" for name in ("eth0", "eth0.10", "bond0", "br1"))
    )
    asked = wanted(**words, dhcp4=False)
    asked = dataclasses.replace(asked, source=None)
    known = {**asked.network.links, **{one.name: one for one in links}}
    path = put(MANAGER.make(dataclasses.replace(asked, network=Network(known, ()))))
    commands = [line.strip() for line in path.read_text().splitlines() if line.startswith("    pre-up ")]
    assert commands[0] == f"pre-up ip link show dev {first[0]} >/dev/null 2>&1 || ifup {first[1]}"
    # A network card is there, whatever its stanza says.
    assert "|| ifup" not in str(MANAGER.make(wanted(static=(), dhcp4=False)).files[0].text)


def test_an_uplink_that_goes_back_makes_its_ipv6_addresses_as_before(host: Path) -> None:
    (host / "proc/eth0").mkdir(parents=True)
    (host / "proc/eth0/addr_gen_mode").write_text("0\n")
    restore = spoken(MANAGER.make(wanted()).restore)
    assert restore[-2].endswith(f"sh {host}/proc/eth0/addr_gen_mode 0")
    assert restore[-1].endswith("ifup --force eth0")


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_a_second_run_changes_nothing(host: Path, words: dict[str, t.Any]) -> None:
    put(MANAGER.make(wanted(**words)))
    assert MANAGER.made("br0")
    assert MANAGER.change(wanted(existing=True)) == Parts()
    # The host's bridge has none of the settings; the file has all of them.
    assert MANAGER.change(wanted(existing=True, **words)).files == ()


def test_a_second_run_is_not_misled_by_commands_of_the_uplink(host: Path) -> None:
    words: dict[str, t.Any] = {**VLANS, "mtu": 9000}
    (host / "interfaces.d/cards").write_text(
        "iface eth0 inet static\n  address 192.0.2.10/24\n  pre-up logger up\n"
        "iface eth0 inet6 auto\n  pre-up logger up6\n"
    )
    put(MANAGER.make(wanted(**words)))
    assert MANAGER.change(wanted(existing=True, **words)).files == ()
    (fresh,) = MANAGER.make(wanted(**{**words, "mtu": 1400})).files
    (changed,) = MANAGER.change(wanted(existing=True, **{**words, "mtu": 1400})).files
    assert changed.text == fresh.text


@pytest.mark.parametrize("before", [{}, {"mtu": 1400}, {"vlan_filtering": True, "vlans": [7], "stp": True}])
@pytest.mark.parametrize("words", [{"mtu": 9000}, {"stp": True}, *VLAN_SPECS.values()])
def test_settings_change_in_the_kernel_and_in_the_file(
    host: Path, before: dict[str, t.Any], words: dict[str, t.Any]
) -> None:
    words = {key: value for key, value in words.items() if key in (*VLANS, "mtu", "stp")}
    path = put(MANAGER.make(wanted(**before)))
    parts = MANAGER.change(wanted(existing=True, **words))
    assert not any("ifdown" in command for command in (*parts.apply, *parts.restore))
    assert ("ip link set dev br0 mtu 9000" in spoken(parts.apply)) is ("mtu" in words)
    (file,) = parts.files or (None,)
    if file is not None:
        assert file.trial is None
        put(parts)
    changed = path.read_text()
    # As a new bridge with these words would have it.
    path.unlink()
    both = {**before, **words}
    if not both.get("vlan_filtering"):
        # It keeps them, and a new one would not have them.
        both.pop("vlans", None)
        changed = changed.replace("    pre-up bridge vlan add dev eth0 vid 7\n", "")
    (fresh,) = MANAGER.make(wanted(**both)).files
    assert changed == str(fresh.text)


def test_vlans_that_nobody_names_stay(host: Path) -> None:
    path = put(MANAGER.make(wanted(**VLANS)))
    text = path.read_text()
    assert MANAGER.change(wanted(existing=True, vlan_filtering=True)).files == ()
    (plain,) = MANAGER.change(wanted(existing=True, vlan_filtering=False)).files
    assert plain.text == text.replace("vlan_filtering 1", "vlan_filtering 0")
    (none,) = MANAGER.change(wanted(existing=True, vlan_filtering=True, vlans=[])).files
    assert none.text == "".join(line for line in text.splitlines(keepends=True) if "bridge vlan add" not in line)


def test_an_mtu_of_the_uplinks_own_stanza_does_not_come_back_at_boot(host: Path) -> None:
    """The uplink's stanza is done after the bridge's where `auto eth0` stands below `source`, as with Debian."""
    (host / "interfaces.d/cards").write_text("iface eth0 inet static\n  address 192.0.2.10/24\n  mtu 1400\n")
    path = put(MANAGER.make(wanted()))
    assert "    mtu 1400\n" in path.read_text()
    (changed,) = MANAGER.change(wanted(existing=True, mtu=9000)).files
    path.unlink()
    (fresh,) = MANAGER.make(wanted(mtu=9000)).files
    assert "mtu 1400" not in str(fresh.text)
    assert changed.text == fresh.text


def test_other_addresses_would_take_the_bridge_from_its_machines(host: Path) -> None:
    put(MANAGER.make(wanted()))
    with pytest.raises(
        UnsupportedError, match="cannot change the addresses of br0 without taking it from the machines"
    ):
        MANAGER.change(wanted(existing=True, addresses=["192.0.2.11/24"]))


@pytest.mark.parametrize(("before", "after"), [(None, False), (False, None)])
def test_router_advertisements_are_of_the_addresses(host: Path, before: bool | None, after: bool | None) -> None:
    """What makes a bridge deaf to them is a command of its own, where it has no stanza of IPv6."""
    both: dict[str, t.Any] = {"dhcp4": True}
    made, asked = (both if word is None else {**both, "accept_ra": word} for word in (before, after))
    put(MANAGER.make(wanted(**made)))
    with pytest.raises(UnsupportedError, match="cannot change the addresses of br0"):
        MANAGER.change(wanted(existing=True, **asked))
    assert MANAGER.change(wanted(existing=True, **made)) == Parts()
