# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers import netplan
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import Parts, delete_link
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Route
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    MAC,
    SPECS,
    VLAN_SPECS,
    VLANS,
    wanted,
)

Accepts = t.Callable[[Path, t.Mapping[str, str]], None]
MANAGER = netplan.NetplanManager()
TEXT = "# by hand\nnetwork:\n  version: 2\n  ethernets:\n    eth0:\n      addresses: [192.0.2.10/24]\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose eth0 is in a file of netplan; its folders are in a directory."""
    for name, folder in (
        ("LASTING", "etc"),
        ("TRIAL", "run"),
        ("VENDOR", "lib"),
        ("DROP_INS", "networkd"),
        ("TRIAL_DROP_INS", "run-networkd"),
    ):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(netplan, name, str(tmp_path / folder))
    (tmp_path / "etc/50-x.yaml").write_text(TEXT)
    return tmp_path


def put(parts: Parts) -> None:
    for file in parts.files:
        Path(file.lasting).parent.mkdir(exist_ok=True)
        assert file.text is not None
        Path(file.lasting).write_text(file.text)


def spoken(commands: t.Iterable[tuple[str, ...]]) -> list[str]:
    return [" ".join(command) for command in commands]


def test_the_uplinks_file_is_written_over_and_kept(host: Path) -> None:
    parts = MANAGER.make(wanted())
    kept, changed = parts.files
    assert (kept.lasting, kept.text, kept.trial) == (f"{host}/etc/50-x.yaml.before-br0", TEXT, None)
    # In the trial its namesake in /run hides the file itself.
    assert (changed.lasting, changed.trial) == (f"{host}/etc/50-x.yaml", f"{host}/run/50-x.yaml")
    network = yaml.safe_load(str(changed.text))["network"]
    assert network["bridges"]["br0"]["addresses"] == ["192.0.2.10/24"]
    assert "addresses" not in network["ethernets"]["eth0"]
    assert spoken(parts.restore) == ["netplan generate", *spoken([delete_link("br0")]), "netplan apply"]


def test_an_interface_keeps_what_it_has_when_it_gets_a_vlan(host: Path) -> None:
    """netplan apply has networkd configure it again."""
    words: dict[str, t.Any] = {"uplink": {"vlan": 20, "link": "eth0"}, "addresses": ["198.51.100.5/24"]}
    with pytest.raises(ConflictError, match=r"^192\.0\.2\.77/24 on eth0 is in no file of netplan and would be lost"):
        MANAGER.make(wanted(static=("192.0.2.10/24", "192.0.2.77/24"), **words))
    route = Route("eth0", "192.0.2.9", to="203.0.113.0/24", protocol="boot")
    asked = wanted(**words)
    with pytest.raises(
        ConflictError, match=r"the route to 203\.0\.113\.0/24 via 192\.0\.2\.9 on eth0 is in no file of"
    ):
        MANAGER.make(replace(asked, network=replace(asked.network, routes=(route,))))
    assert MANAGER.make(asked).files


def test_an_alias_for_the_uplinks_definition_keeps_what_it_stands_for(host: Path) -> None:
    (host / "etc/50-x.yaml").write_text(
        "network:\n  version: 2\n  ethernets:\n    eth0: &usual {dhcp4: true}\n    eth1: *usual\n"
    )
    changed = yaml.safe_load(str(MANAGER.make(wanted(static=())).files[-1].text))["network"]
    assert changed["ethernets"] == {"eth0": {"dhcp4": False, "dhcp6": False}, "eth1": {"dhcp4": True}}


def test_the_marks_of_several_bridges_in_one_file_stay(host: Path) -> None:
    put(MANAGER.make(wanted()))
    put(MANAGER.make(wanted(name="br1", uplink="eth0", static=())))
    assert (MANAGER.made("br0"), MANAGER.made("br1"), MANAGER.made("br")) == (True, True, False)


def test_a_bridge_without_uplink_has_a_file_of_its_own(host: Path) -> None:
    (file,) = MANAGER.make(wanted(**SPECS["alone"])).files
    assert file.lasting == f"{host}/etc/95-brine-br0.yaml"
    put(MANAGER.make(wanted(**SPECS["alone"])))
    assert MANAGER.made("br0")


@pytest.mark.parametrize("renderer", ["networkd", "NetworkManager"])
def test_a_silent_dhcp_server_ends_no_bridge_of_networkmanager(
    host: Path, netplan_accepts: Accepts, tmp_path: Path, renderer: str
) -> None:
    (host / "etc/01-all.yaml").write_text(f"network: {{version: 2, renderer: {renderer}}}\n")
    (file,) = [one for one in MANAGER.make(wanted(dhcp4=True)).files if one.trial]
    assert ("dhcp-timeout" in str(file.text)) is (renderer == "NetworkManager")
    everybody = (host / "etc/01-all.yaml").read_text()
    netplan_accepts(tmp_path / "root", {"01-all.yaml": everybody, "50-x.yaml": str(file.text)})
    profile = tmp_path / "root/run/NetworkManager/system-connections/netplan-br0.nmconnection"
    if renderer == "NetworkManager":
        assert {"autoconnect-retries=0", "dhcp-timeout=2147483647"} <= set(profile.read_text().splitlines())


@pytest.mark.parametrize("renderer", ["networkd", "NetworkManager"])
def test_nor_one_that_asks_for_its_addresses_from_now_on(host: Path, renderer: str) -> None:
    (host / "etc/01-all.yaml").write_text(f"network: {{version: 2, renderer: {renderer}}}\n")
    put(MANAGER.make(wanted()))
    assert "dhcp-timeout" not in (host / "etc/50-x.yaml").read_text()
    put(MANAGER.change(wanted(existing=True, dhcp4=True)))
    assert ("dhcp-timeout" in (host / "etc/50-x.yaml").read_text()) is (renderer == "NetworkManager")
    assert MANAGER.change(wanted(existing=True, dhcp4=True)) == Parts()


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_a_second_run_leaves_all_files(host: Path, words: dict[str, t.Any]) -> None:
    put(MANAGER.make(wanted(**words)))
    assert MANAGER.change(wanted(existing=True, **words)).files == ()


@pytest.mark.parametrize(
    ("defined", "link", "called"),
    [
        ("ethernets: {eth2: {}}, bonds: {bond0: {interfaces: [eth2], dhcp4: true}}", "bond0", "bond0"),
        ("ethernets: {eth2: {}}, bridges: {br9: {interfaces: [eth2], dhcp4: true}}", "br9", "br9"),
        (f"ethernets: {{lan: {{match: {{macaddress: '{MAC}'}}, set-name: eth0, dhcp4: true}}}}", "eth0", "lan"),
        ("ethernets: {eth1: {dhcp4: true}}", "eth0", "eth0"),
    ],
)
def test_a_vlan_of_what_another_file_defines(
    host: Path, netplan_accepts: Accepts, tmp_path: Path, defined: str, link: str, called: str
) -> None:
    text = f"network: {{version: 2, {defined}}}\n"
    (host / "etc/50-x.yaml").write_text(text)
    (file,) = MANAGER.make(wanted(static=(), uplink={"vlan": 10, "link": link}, dhcp4=True)).files
    assert yaml.safe_load(str(file.text))["network"]["vlans"] == {f"{link}.10": {"id": 10, "link": called}}
    netplan_accepts(tmp_path / "root", {"50-x.yaml": text, "95-brine-br0.yaml": str(file.text)})
    made = (tmp_path / f"root/run/systemd/network/10-netplan-{called}.network").read_text()
    assert f"VLAN={link}.10" in made
    # Not a second definition, which would come before the one with the addresses.
    assert (tmp_path / "root/run/systemd/network/10-netplan-eth0.network").exists() is (called == "eth0")


@pytest.mark.parametrize("words", [{"uplink": {"vlan": 10, "link": "eth0"}, "dhcp4": True}, {}])
@pytest.mark.parametrize(
    "match", ["name: 'eth*'", f"macaddress: '{MAC.upper()}'", f"{{name: 'eth?', macaddress: '{MAC}'}}"]
)
def test_an_interface_that_a_file_does_not_name_is_refused(host: Path, words: dict[str, t.Any], match: str) -> None:
    match = match if match.startswith("{") else f"{{{match}}}"
    (host / "etc/50-x.yaml").write_text(f"network: {{version: 2, ethernets: {{all: {{match: {match}, dhcp4: true}}}}}}")
    with pytest.raises(UnsupportedError, match=r"50-x\.yaml means eth0 by a match, and calls it all\. Call it eth0"):
        MANAGER.make(wanted(static=(), **words))
    (host / "etc/50-x.yaml").write_text("network: {version: 2, ethernets: {all: {match: {name: 'en*'}, dhcp4: true}}}")
    assert MANAGER.make(wanted(static=(), dhcp4=True, uplink={"vlan": 10, "link": "eth0"}))


def test_a_renderer_that_another_file_names_counts_for_vlans(host: Path) -> None:
    (host / "etc/01-all.yaml").write_text("network: {version: 2, renderer: NetworkManager}\n")
    with pytest.raises(UnsupportedError, match="netplan has no words for VLAN filtering"):
        MANAGER.make(wanted(**VLANS))


def test_an_address_that_nothing_would_bring_back_is_not_lost(host: Path) -> None:
    both: list[dict[str, t.Any]] = [{}, {"addresses": ["192.0.2.10/24"]}]
    for words in both:
        with pytest.raises(ConflictError, match=r"^192\.0\.2\.99/24, 2001:db8::9/64 on eth0 are in no file of netplan"):
            MANAGER.make(wanted(static=("192.0.2.10/24", "192.0.2.99/24", "2001:db8::9/64"), **words))


@pytest.mark.parametrize(
    "content", [f"# caf\u00e9\n{TEXT}".encode("latin-1"), TEXT.replace("\n", "\r\n").encode()], ids=["latin-1", "dos"]
)
def test_a_file_that_would_not_stay_as_it_is_is_refused(host: Path, content: bytes) -> None:
    (host / "etc/50-x.yaml").write_bytes(content)
    with pytest.raises(
        UnsupportedError, match=r"50-x\.yaml (is not UTF-8|has carriage returns), and would not stay as it is"
    ):
        MANAGER.make(wanted())


def test_definitions_in_two_files_are_refused(host: Path) -> None:
    (host / "etc/60-y.yaml").write_text("network: {ethernets: {eth0: {mtu: 9000}}}\n")
    with pytest.raises(UnsupportedError, match=r"50-x\.yaml and .*60-y\.yaml define eth0, and netplan adds them"):
        MANAGER.make(wanted())


def test_a_file_of_another_program_is_left(host: Path) -> None:
    (host / "etc/50-x.yaml").rename(host / "run/50-x.yaml")
    with pytest.raises(UnsupportedError, match=r"run/50-x\.yaml defines eth0, and is written by another program"):
        MANAGER.make(wanted())


def test_a_file_that_cloud_init_writes_at_boot_is_refused(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "etc/50-x.yaml").rename(host / "etc/50-cloud-init.yaml")
    (host / "cloud/cloud.cfg.d").mkdir(parents=True)
    monkeypatch.setattr(netplan, "CLOUD", f"{host}/cloud")
    monkeypatch.setattr(netplan.shutil, "which", lambda _name: None)
    assert MANAGER.make(wanted()).files
    monkeypatch.setattr(netplan.shutil, "which", lambda name: f"/usr/bin/{name}")
    said = host / "cloud/cloud.cfg.d/99-x.cfg"
    for text in ("", "# network: {config: disabled}\n", "datasource_list: [NoCloud]\n"):
        said.write_text(text)
        with pytest.raises(UnsupportedError, match=r"50-cloud-init\.yaml defines eth0, and cloud-init may write it"):
            MANAGER.make(wanted())
    for text in ("network: {config: disabled}\n", 'network:\n  config: "disabled"\n'):
        said.write_text(text)
        assert MANAGER.make(wanted()).files
    said.unlink()
    (host / "cloud/cloud-init.disabled").touch()
    assert MANAGER.make(wanted()).files


def test_an_address_of_no_file_is_not_lost(host: Path) -> None:
    (host / "etc/50-x.yaml").unlink()
    with pytest.raises(ConflictError, match=r"192\.0\.2\.10/24 on eth0 is in no file of netplan"):
        MANAGER.make(wanted())
    # One by DHCP comes back by itself.
    assert MANAGER.make(wanted(static=(), addresses=["192.0.2.10/24"])).files


def test_vlans_are_drop_ins_that_do_nothing_without_the_main_file(host: Path) -> None:
    parts = MANAGER.make(wanted(**VLANS))
    assert [file.lasting.removeprefix(f"{host}/") for file in parts.files] == [
        "etc/50-x.yaml.before-br0",
        "networkd/10-netplan-br0.netdev.d/brine-br0.conf",
        "networkd/10-netplan-eth0.network.d/brine-br0.conf",
        "etc/50-x.yaml",
    ]
    assert str(parts.files[1].text).endswith("[Bridge]\nVLANFiltering=yes\nDefaultPVID=5\n")
    assert str(parts.files[2].text).endswith("[BridgeVLAN]\nVLAN=20\n\n[BridgeVLAN]\nVLAN=30-39\n")
    assert all(file.trial for file in parts.files[1:])


def test_vlans_that_nobody_names_stay(host: Path) -> None:
    put(MANAGER.make(wanted(**VLANS)))
    assert MANAGER.change(wanted(existing=True, vlan_filtering=True)).files == ()
    (plain,) = MANAGER.change(wanted(existing=True, vlan_filtering=False)).files
    assert str(plain.text).endswith("[Bridge]\nVLANFiltering=no\nDefaultPVID=5\n")
    (none,) = MANAGER.change(wanted(existing=True, vlan_filtering=True, vlans=[])).files
    assert "BridgeVLAN" not in str(none.text)
    # Of a bridge that is gone nothing is taken.
    (host / "etc/50-x.yaml").write_text(TEXT)
    new = MANAGER.make(wanted(vlan_filtering=True))
    assert not any("BridgeVLAN" in str(file.text) or "DefaultPVID" in str(file.text) for file in new.files)


def test_vlans_with_networkmanager_below_are_refused(host: Path) -> None:
    (host / "etc/50-x.yaml").write_text(TEXT + "  renderer: NetworkManager\n")
    with pytest.raises(UnsupportedError, match="netplan has no words for VLAN filtering"):
        MANAGER.make(wanted(**VLANS))


def test_a_second_run_changes_nothing_and_a_change_is_tried_first(host: Path) -> None:
    put(MANAGER.make(wanted()))
    assert MANAGER.change(wanted(existing=True)) == Parts()
    parts = MANAGER.change(wanted(existing=True, addresses=["192.0.2.11/24"], mtu=9000))
    (file,) = parts.files
    assert (file.lasting, file.trial) == (f"{host}/etc/50-x.yaml", f"{host}/run/50-x.yaml")
    network = yaml.safe_load(str(file.text))["network"]
    assert network["bridges"]["br0"]["addresses"] == ["192.0.2.11/24"]
    assert (network["bridges"]["br0"]["mtu"], network["ethernets"]["eth0"]["mtu"]) == (9000, 9000)
    assert str(file.text).startswith("# Made by brine.virt")
    assert "ip link set dev br0 mtu 9000" in spoken(parts.apply)
    put(parts)
    assert MANAGER.made("br0")


def test_what_is_no_yaml_is_named(host: Path) -> None:
    """Not by the line itself, which may have a password of a wireless network in it."""
    (host / "etc/60-y.yaml").write_text("network:\n  wifis: {password: @Geheim99}\n")
    with pytest.raises(HostError, match=r"60-y\.yaml is not valid YAML in line 2, column 21\Z"):
        MANAGER.make(wanted())


def test_what_yaml_would_take_for_numbers_stays_as_it_stood() -> None:
    """The file is written again, with other interfaces in it."""
    text = (
        "network:\n  version: 2\n  ethernets:\n    eth0:\n      macaddress: 11:22:33:44:55:06\n      mtu: 1500\n"
        "      dhcp4: true\n  wifis:\n    wlan0:\n      optional: yes\n      access-points:\n        0123:\n"
        "          password: 0755\n        on:\n          password: '11:22'\n"
        "        2026-11-23:\n          password: 1_0\n"
    )
    assert netplan._dump(netplan._load("x.yaml", text)) == text
