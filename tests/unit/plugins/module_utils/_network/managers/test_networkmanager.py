# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers import networkmanager
from ansible_collections.brine.virt.plugins.module_utils._network.managers.keyfile import profile_uuid
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import Parts, delete_link
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Route
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    SPECS,
    VLAN_SPECS,
    VLANS,
    wanted,
)

OLD = "11111111-2222-4333-8444-555555555555"
PROFILE = f"[connection]\nid=eth0\nuuid={OLD}\ntype=ethernet\n\n[ipv4]\naddress1=192.0.2.10/24\nmethod=manual\n"
BRIDGE, PORT = profile_uuid("brine-br0.nmconnection"), profile_uuid("brine-br0-port.nmconnection")
MANAGER = networkmanager.NetworkManagerManager()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose eth0 has a profile, and whose eth2 NetworkManager leaves alone; its folders are in a directory."""
    for name, folder in (("LASTING", "etc"), ("TRIAL", "run")):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(networkmanager, name, str(tmp_path / folder))
    (tmp_path / "etc/office.nmconnection").write_text(PROFILE)

    def run(*command: str) -> str:
        if command[-2:] == ("connection", "show"):
            return f"99999999-2222-4333-8444-555555555555:/x\n{OLD}:{tmp_path}/etc/office.nmconnection\n"
        device = command[-1]
        if device == "eth9":
            raise HostError("Error: Device 'eth9' not found")
        if "GENERAL.STATE" in command:
            states = {"eth2": "10 (unmanaged)", "br0": "100 (connected (externally))"}
            return states.get(device, "100 (connected)") + "\n"
        assert "GENERAL.CON-UUID" in command
        return f"{OLD}\n" if device == "eth0" else "\n"

    monkeypatch.setattr(networkmanager, "run", run)
    monkeypatch.setattr(networkmanager.NetworkManagerManager, "runs", lambda _self: True)
    return tmp_path


def put(parts: Parts) -> None:
    for file in parts.files:
        assert file.text is not None
        Path(file.lasting).write_text(file.text)


def spoken(commands: t.Iterable[tuple[str, ...]]) -> list[str]:
    return [" ".join(command) for command in commands]


@pytest.mark.parametrize(("device", "managed"), [("eth0", True), ("eth2", False), ("eth9", False), ("br0", False)])
def test_what_it_manages(host: Path, device: str, managed: bool) -> None:
    assert MANAGER.manages(device) is managed


def test_a_new_bridge_is_tried_in_run_and_the_old_profile_comes_back(host: Path) -> None:
    parts = MANAGER.make(wanted())
    names = ["brine-br0.nmconnection", "brine-br0-port.nmconnection"]
    assert [file.lasting for file in parts.files] == [f"{host}/etc/{name}" for name in names]
    assert [file.trial for file in parts.files] == [f"{host}/run/{name}" for name in names]
    # It reads no file that others could read.
    assert {file.mode for file in parts.files} == {0o600}
    assert spoken(parts.apply) == [
        f"nmcli connection load {host}/run/{names[0]} {host}/run/{names[1]}",
        f"nmcli --wait 30 connection up uuid {PORT}",
    ]
    assert spoken(parts.restore) == [
        "nmcli connection reload",
        spoken([delete_link("br0")])[0],
        f"nmcli --wait 30 connection up uuid {OLD} ifname eth0",
    ]


@pytest.mark.parametrize(("words", "old"), [({}, 100), ({"dhcp4": True}, 100), ({}, 20100)])
def test_the_default_route_stays_before_those_of_others(host: Path, words: dict[str, t.Any], old: int) -> None:
    want = wanted(**words)
    routes = (Route("eth0", "192.0.2.1", metric=old), Route("eth1", "198.51.100.1", metric=101))
    parts = MANAGER.make(replace(want, network=replace(want.network, default_routes=routes)))
    assert "route-metric=100\n" in str(parts.files[0].text)
    put(parts)
    # With other addresses later, too.
    change = MANAGER.change(wanted(existing=True, addresses=["192.0.2.11/24"]))
    assert "route-metric=100\n" in str(change.files[0].text)


@pytest.mark.parametrize("words", [{}, {"uplink": {"bond": ["eth1", "eth0"]}}])
def test_a_vlan_that_knows_the_uplink_by_its_profile_is_not_lost(
    host: Path, words: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    vlan = host / "etc/vlan.nmconnection"
    run = networkmanager.run

    def with_vlan(*command: str) -> str:
        more = f"88888888-2222-4333-8444-555555555555:{vlan}\n" if command[-2:] == ("connection", "show") else ""
        return run(*command) + more

    monkeypatch.setattr(networkmanager, "run", with_vlan)
    profile = "[connection]\nid=storage\ntype=vlan\n\n[vlan]\nid=10\nparent={}\n"
    vlan.write_text(profile.format(OLD))
    with pytest.raises(
        ConflictError,
        match=r"vlan\.nmconnection is for something on eth0, .*connection modify 88888888\S* vlan\.parent e",
    ):
        MANAGER.make(wanted(**words))
    vlan.write_text(profile.format("eth0"))
    assert MANAGER.make(wanted(**words)).files


def test_a_bridge_without_uplink_is_brought_up_itself(host: Path) -> None:
    parts = MANAGER.make(wanted(**SPECS["alone"]))
    assert spoken(parts.apply)[-1] == f"nmcli --wait 30 connection up uuid {BRIDGE}"
    assert len(parts.files) == 1


def test_an_address_of_no_profile_is_not_lost(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networkmanager, "run", lambda *_command: "\n")
    with pytest.raises(ConflictError, match=r"192\.0\.2\.10/24 on eth0 is in no profile of NetworkManager"):
        MANAGER.make(wanted())
    # One by DHCP comes back by itself.
    assert MANAGER.make(wanted(static=(), addresses=["192.0.2.10/24"])).files


def test_an_address_that_nothing_would_bring_back_is_not_lost(host: Path) -> None:
    both: list[dict[str, t.Any]] = [{}, {"addresses": ["192.0.2.10/24"]}]
    for words in both:
        with pytest.raises(
            ConflictError, match=r"^192\.0\.2\.99/24, 2001:db8::9/64 on eth0 are in no profile of NetworkManager"
        ):
            MANAGER.make(wanted(static=("192.0.2.10/24", "192.0.2.99/24", "2001:db8::9/64"), **words))


def test_a_profile_of_another_format_is_refused(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"show": f"{OLD}:/etc/sysconfig/network-scripts/ifcfg-eth0\n"}
    monkeypatch.setattr(networkmanager, "run", lambda *command: answers.get(command[-1], f"{OLD}\n"))
    with pytest.raises(UnsupportedError, match="the profile of eth0 is not a keyfile: .*nmcli connection migrate"):
        MANAGER.make(wanted())


def test_a_file_of_others_is_not_written_over_but_an_interrupted_change_is(host: Path) -> None:
    parts = MANAGER.make(wanted())
    Path(parts.files[0].lasting).write_text(str(parts.files[0].text))
    assert MANAGER.made("br0")
    assert MANAGER.begun("br0")
    first, *others = parts.files
    # What the interrupted change has left is what it replaces.
    assert MANAGER.make(wanted()) == replace(parts, files=(replace(first, before=first.text), *others))
    put(parts)
    assert not MANAGER.begun("br0")
    Path(parts.files[1].lasting).write_text("[connection]\nid=somebody's\n")
    with pytest.raises(ConflictError, match=r"brine-br0-port\.nmconnection exists, but the bridge br0 does not"):
        MANAGER.make(wanted())


def test_a_change_is_tried_beside_the_lasting_profiles(host: Path) -> None:
    put(MANAGER.make(wanted()))
    assert MANAGER.change(wanted(existing=True)) == Parts()
    parts = MANAGER.change(wanted(existing=True, addresses=["192.0.2.11/24"], **VLANS))
    assert [Path(file.lasting).name for file in parts.files] == [
        "brine-br0.nmconnection",
        "brine-br0-port.nmconnection",
    ]
    assert spoken(parts.apply)[0].startswith("nmcli connection load")
    assert parts.apply[1][-2:] == ("br0", BRIDGE)
    assert parts.apply[2][-2:] == ("eth0", PORT)
    assert "bridge vlan add dev eth0 vid 30-39" in spoken(parts.apply)
    assert "bridge vlan del dev eth0 vid 30-39" in spoken(parts.restore)
    assert not any("delete" in command for command in parts.restore)


def test_ports_that_a_bridge_lost_come_back(host: Path) -> None:
    """Those of a bond after it, and none of another bridge whose name begins alike."""
    put(MANAGER.make(wanted(**SPECS["bond"])))
    for name in ("br0-x", "br0x"):
        (host / f"etc/brine-{name}-port.nmconnection").write_text(
            f"[connection]\nuuid=u\ntype=ethernet\ninterface-name=eth7\nmaster={profile_uuid(f'brine-{name}.nmconnection')}\n"
        )
    again = [command for command in MANAGER.change(wanted(stp=True, **SPECS["bond"])).restore if command[0] == "sh"]
    (bond, above), *members = [command[4:6] for command in again if "master" in command[2]]
    assert above == "br0"
    assert members == [("eth0", bond), ("eth1", bond)]


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_a_second_run_leaves_all_files(host: Path, words: dict[str, t.Any]) -> None:
    put(MANAGER.make(wanted(**words)))
    assert MANAGER.change(wanted(existing=True, **words)).files == ()
