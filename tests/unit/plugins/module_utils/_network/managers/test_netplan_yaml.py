# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers.netplan_yaml import (
    definition_of,
    network_of,
    with_bridge,
    with_spec,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers.sections import parse
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    MAC,
    SPECS,
    wanted,
)

Accepts = t.Callable[[Path, t.Mapping[str, str]], None]
ADDRESSING: dict[str, t.Any] = {
    "addresses": ["192.0.2.10/24"],
    "routes": [{"to": "0.0.0.0/0", "via": "192.0.2.1"}],
    "nameservers": {"addresses": ["192.0.2.53"]},
}
HARDWARE: dict[str, t.Any] = {"match": {"macaddress": MAC}, "set-name": "eth0", "wakeonlan": True}
STATIC: dict[str, t.Any] = {
    "network": {
        "version": 2,
        "ethernets": {
            "eth0": {**HARDWARE, **ADDRESSING},
            "eth1": {"dhcp4": True},
        },
    }
}


def make(
    words: dict[str, t.Any], document: dict[str, t.Any] | None = None, *, renderer: str = "networkd"
) -> dict[str, t.Any]:
    want = wanted(**words)
    return with_bridge(document or STATIC, want.spec, uplink=want.uplink, mac=MAC, first="eth0", renderer=renderer)


@pytest.mark.parametrize("renderer", ["networkd", "NetworkManager"])
@pytest.mark.parametrize("words", SPECS.values(), ids=SPECS)
def test_netplan_makes_of_it_what_is_meant(
    netplan_accepts: Accepts, judge: t.Callable[..., t.Any], tmp_path: Path, words: dict[str, t.Any], renderer: str
) -> None:
    document = make(words, renderer=renderer)
    document["network"]["renderer"] = renderer
    netplan_accepts(tmp_path, {"50-x.yaml": yaml.safe_dump(document, sort_keys=False)})
    if renderer != "networkd":
        profile = (tmp_path / "run/NetworkManager/system-connections/netplan-br0.nmconnection").read_text()
        answer = judge("nmcli", "--offline", "connection", "modify", "connection.id", "x", data=profile)
        assert answer.returncode == 0, answer.stderr + profile
        return
    folder = tmp_path / "run/systemd/network"
    want = wanted(**words)
    bridge = sections(folder / "10-netplan-br0.network")
    if want.uplink is not None:
        assert sections(folder / f"10-netplan-{want.uplink.port}.network")["Network"]["Bridge"] == ["br0"]
        for name in want.uplink.below if want.uplink.vlan is None else ():
            assert not {"Address", "DHCP"} & set(sections(folder / f"10-netplan-{name}.network")["Network"])
    addresses = list(want.spec.addresses or ()) if want.spec.addressing else ["192.0.2.10/24"]
    taken = want.source is not None or want.spec.addressing
    assert bridge["Network"].get("Address", []) == (addresses if taken else [])
    # A bridge without a port has no carrier, so that a boot would wait for it.
    assert bridge.get("Link", {}).get("RequiredForOnline") == (["no"] if want.spec.alone else None)
    # As the role's own files for networkd have it.
    is_silent = want.spec.silent if want.spec.addressing else want.source is None
    assert (bridge["Network"]["LinkLocalAddressing"] == ["no"]) is is_silent
    netdev = sections(folder / "10-netplan-br0.netdev")
    assert netdev["NetDev"]["MACAddress"] == [MAC]
    assert netdev["Bridge"]["STP"] == [str(bool(want.spec.stp)).lower()]


@pytest.mark.parametrize(
    ("words", "methods"),
    [
        ({"dhcp4": False}, ("disabled", "disabled")),
        ({"uplink": False}, ("disabled", "disabled")),
        ({"uplink": {"vlan": 10, "link": "eth1"}}, ("disabled", "disabled")),
        ({"uplink": False, "addresses": ["203.0.113.1/24"]}, ("manual", "disabled")),
        ({"addresses": ["192.0.2.10/24"]}, ("manual", "disabled")),
        ({"addresses": ["192.0.2.10/24"], "accept_ra": True}, ("manual", "auto")),
        ({"dhcp4": True}, ("auto", "auto")),
        ({"dhcp4": True, "accept_ra": False}, ("auto", "link-local")),
        ({"dhcp4": False, "dhcp6": True, "accept_ra": False}, ("disabled", "dhcp")),
        ({"addresses": ["2001:db8::7/64"], "accept_ra": True}, ("disabled", "auto")),
        ({"addresses": ["2001:db8::7/64"], "accept_ra": False}, ("disabled", "manual")),
        # As the uplink has it.
        ({}, ("manual", "ignore")),
    ],
)
def test_networkmanager_below_gets_the_methods_that_its_own_files_would_have(
    netplan_accepts: Accepts, tmp_path: Path, words: dict[str, t.Any], methods: tuple[str, str]
) -> None:
    """netplan makes them of the addresses alone: the host got 169.254.0.0/16, or listened to a router."""
    document = make(words, renderer="NetworkManager")
    document["network"]["renderer"] = "NetworkManager"
    netplan_accepts(tmp_path, {"50-x.yaml": yaml.safe_dump(document, sort_keys=False)})
    profile = sections(tmp_path / "run/NetworkManager/system-connections/netplan-br0.nmconnection")
    assert (profile["ipv4"]["method"], profile["ipv6"]["method"]) == ([methods[0]], [methods[1]])
    want = wanted(**words)
    assert with_spec(document, want.spec, want.uplink, renderer="NetworkManager") == document


def test_how_networkmanager_gets_addresses_changes_with_the_spec() -> None:
    made = make({"dhcp4": True}, renderer="NetworkManager")
    made["network"]["bridges"]["br0"]["networkmanager"]["passthrough"]["ipv4.dhcp-timeout"] = "90"
    want = wanted(addresses=["192.0.2.7/24"])
    changed = with_spec(made, want.spec, want.uplink, renderer="NetworkManager")
    passed = changed["network"]["bridges"]["br0"]["networkmanager"]["passthrough"]
    # What somebody has written stays.
    assert (passed["ipv4.method"], passed["ipv6.method"], passed["ipv4.dhcp-timeout"]) == ("manual", "disabled", "90")


@pytest.mark.parametrize(
    ("renderer", "who"), [("networkd", "netplan cannot say that DHCPv6"), ("NetworkManager", "NetworkManager asks")]
)
def test_that_dhcpv6_is_not_asked_can_only_be_said_where_nobody_listens(renderer: str, who: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^{who}.* says so. For dhcp6: false, set accept_ra: false as well"):
        make({"dhcp4": True, "dhcp6": False}, renderer=renderer)
    assert make({"dhcp4": True, "dhcp6": False, "accept_ra": False}, renderer=renderer)
    assert make({"addresses": ["192.0.2.7/24"], "dhcp6": False}, renderer=renderer)


def sections(path: Path) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for section in parse(path.read_text()):
        for key, value in section.entries:
            found.setdefault(section.name, {}).setdefault(key, []).append(value)
    return found


def test_the_definition_moves_to_the_bridge() -> None:
    network = make({})["network"]
    assert network["ethernets"] == {
        "eth0": {**HARDWARE, "dhcp4": False, "dhcp6": False},
        "eth1": {"dhcp4": True},
    }
    assert network["bridges"]["br0"] == {
        **ADDRESSING,
        "interfaces": ["eth0"],
        "macaddress": MAC,
        "parameters": {"stp": False, "forward-delay": 0},
    }
    # The file that was read is not changed itself.
    assert "bridges" not in STATIC["network"]


def test_an_interface_is_found_by_the_name_that_it_is_given() -> None:
    document = {"network": {"version": 2, "ethernets": {"lan": {"match": {}, "set-name": "eth0", "dhcp4": True}}}}
    assert definition_of(document["network"], "eth0") == ("ethernets", document["network"]["ethernets"]["lan"])  # type: ignore[index]
    assert make({}, document)["network"]["bridges"]["br0"]["interfaces"] == ["lan"]


@pytest.mark.parametrize("words", SPECS.values(), ids=SPECS)
def test_a_renderer_of_a_whole_kind_is_no_interface(
    netplan_accepts: Accepts, tmp_path: Path, words: dict[str, t.Any]
) -> None:
    kinds = {
        "ethernets": {"renderer": "networkd", "eth0": {"dhcp4": True}, "eth1": {}},
        "bonds": {"renderer": "networkd"},
    }
    document = make(words, {"network": {"version": 2, **kinds}})
    assert document["network"]["ethernets"]["renderer"] == "networkd"
    assert definition_of(document["network"], "renderer") is None
    netplan_accepts(tmp_path, {"50-x.yaml": yaml.safe_dump(document, sort_keys=False)})


@pytest.mark.parametrize("words", SPECS.values(), ids=SPECS)
def test_a_second_run_changes_nothing(words: dict[str, t.Any]) -> None:
    want, document = wanted(**words), make(words)
    assert with_spec(document, want.spec, want.uplink) == document


def test_a_login_is_not_carried_over() -> None:
    with pytest.raises(UnsupportedError, match=r"eth0 has a login \(802\.1X\)"):
        make({}, {"network": {"ethernets": {"eth0": {"auth": {"password": "x"}}}}})


def test_a_name_server_that_networkmanager_would_refuse_is_refused() -> None:
    want = wanted(addresses=["192.0.2.7/24"], nameservers=["192.0.2.53", "2001:db8::53"])
    assert make({"addresses": ["192.0.2.7/24"], "nameservers": ["2001:db8::53"]})
    with pytest.raises(UnsupportedError, match="no name server of IPv6 for br0.* nameservers: 2001:db8::53"):
        with_bridge(STATIC, want.spec, uplink=want.uplink, mac=MAC, first="eth0", renderer="NetworkManager")


@pytest.mark.parametrize("document", [{"network": {"version": 1}}, {"network": []}, ["network"]])
def test_what_netplan_would_not_read_is_refused(document: t.Any) -> None:
    with pytest.raises(UnsupportedError, match=r"x\.yaml is not a netplan file of version 2"):
        network_of(document, "x.yaml")
