# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.managers.keyfile import (
    BridgeProfiles,
    bridge_profiles,
    changed_profile,
    profile_uuid,
    uuid_of,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers.sections import parse
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    MAC,
    SPECS,
    VLAN_SPECS,
    VLANS,
    wanted,
)

Judge = t.Callable[..., subprocess.CompletedProcess[str]]
STATIC = """[connection]
id=Wired connection 1
uuid=11111111-2222-4333-8444-555555555555
type=ethernet
interface-name=eth0
zone=internal
timestamp=1700000000

[ethernet]
wake-on-lan=64

[ipv4]
address1=192.0.2.10/24,192.0.2.1
dns=192.0.2.53;
method=manual

[ipv6]
addr-gen-mode=stable-privacy
method=auto
"""


def make(words: dict[str, t.Any], source: str | None = STATIC) -> BridgeProfiles:
    want = wanted(**words)
    path = "/etc/NetworkManager/system-connections/eth0.nmconnection"
    return bridge_profiles(want.spec, uplink=want.uplink, mac=MAC, source=source, origin=path, first="eth0")


def values(text: str, group: str) -> dict[str, str]:
    return {key: value for section in parse(text) if section.name == group for key, value in section.entries}


@pytest.mark.parametrize("source", [STATIC, None], ids=["profile", "without one"])
@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_networkmanager_reads_our_profiles_as_they_are_meant(
    judge: Judge, words: dict[str, t.Any], source: str | None
) -> None:
    for profile in make(words, source).all:
        answer = judge("nmcli", "--offline", "connection", "modify", "connection.id", "x", data=profile.text)
        assert (answer.returncode, answer.stderr) == (0, "")
        for section in parse(profile.text):
            read = values(answer.stdout, section.name)
            for key, value in section.entries:
                if key not in ("id", "gateway", "address1"):
                    # It leaves out what is so anyway.
                    assert read.get(key, {"stp": "true", "vlan-filtering": "false"}.get(key)) == value, (
                        profile.name,
                        section.name,
                        key,
                    )
            said = dict(section.entries)
            if "gateway" in said:
                # It writes the gateway beside the first address.
                assert read["address1"] == f"{said['address1']},{said['gateway']}"


def test_a_mistake_in_a_profile_would_be_found(judge: Judge) -> None:
    text = make({"addresses": ["192.0.2.7/24"]}).bridge.text.replace("stp=false", "stp=true")
    assert judge("nmcli", "--offline", "connection", "modify", "connection.id", "x", data=text).returncode != 0


def test_the_uplinks_profile_goes_to_the_bridge() -> None:
    profiles = make({})
    assert values(profiles.bridge.text, "ipv4") == {
        "address1": "192.0.2.10/24,192.0.2.1", "dns": "192.0.2.53;", "method": "manual"
    }  # fmt: skip
    assert values(profiles.bridge.text, "connection") == {
        "id": "brine-br0", "uuid": profile_uuid("brine-br0.nmconnection"), "type": "bridge", "interface-name": "br0",
        "autoconnect-slaves": "1", "zone": "internal",
    }  # fmt: skip
    (port,) = profiles.ports
    assert "ipv4" not in port.text
    assert values(port.text, "ethernet") == {"wake-on-lan": "64"}
    connection = values(port.text, "connection")
    assert (connection["master"], connection["slave-type"]) == (profiles.bridge.uuid, "bridge")
    assert int(connection["autoconnect-priority"]) > 0


def test_uuids_are_stable_and_tell_profiles_apart() -> None:
    first, second = make({}).all, make({"mtu": 9000}).all
    assert [profile.uuid for profile in first] == [profile.uuid for profile in second]
    assert [uuid_of(profile.text) for profile in first] == [profile.uuid for profile in first]
    assert len({profile.uuid for profile in make(SPECS["bond"]).all}) == 4


def test_vlans() -> None:
    profiles = make(VLANS)
    bridge = values(profiles.bridge.text, "bridge")
    assert (bridge["vlan-filtering"], bridge["vlan-default-pvid"]) == ("true", "5")
    port = profiles.ports[0].text
    assert values(port, "bridge-port") == {"vlans": "20,30-39"}
    # What nobody names stays.
    assert changed_profile(profiles.bridge.text, BridgeSpec("br0", vlan_filtering=True), port=False) == (
        profiles.bridge.text
    )
    for filtering in (True, False):
        assert changed_profile(port, BridgeSpec("br0", vlan_filtering=filtering), port=True) == port
    assert "vlans" not in changed_profile(port, BridgeSpec("br0", vlan_filtering=True, vlans=()), port=True)


@pytest.mark.parametrize(
    ("words", "ipv4", "ipv6"),
    [
        ({"dhcp4": True}, "auto", "auto"),
        ({"dhcp4": True, "accept_ra": False}, "auto", "link-local"),
        ({"dhcp4": False}, "disabled", "disabled"),
        ({"dhcp4": False, "accept_ra": True}, "disabled", "auto"),
        ({"dhcp4": False, "dhcp6": True, "accept_ra": False}, "disabled", "dhcp"),
        ({"addresses": ["192.0.2.7/24"]}, "manual", "disabled"),
        ({"addresses": ["2001:db8::7/64"], "accept_ra": False}, "disabled", "manual"),
        ({"addresses": ["192.0.2.7/24"], "dhcp4": True}, "auto", "auto"),
    ],
)
def test_methods(words: dict[str, t.Any], ipv4: str, ipv6: str) -> None:
    text = make(words).bridge.text
    assert (values(text, "ipv4")["method"], values(text, "ipv6")["method"]) == (ipv4, ipv6)


@pytest.mark.parametrize(
    ("words", "source", "ipv4", "ipv6"),
    [
        ({"dhcp4": True}, STATIC, True, False),
        ({"dhcp4": False, "dhcp6": True, "accept_ra": False}, STATIC, False, True),
        ({"addresses": ["192.0.2.7/24"]}, STATIC, False, False),
        ({}, STATIC, False, False),
        ({}, "[connection]\ntype=ethernet\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=auto\n", True, False),
    ],
)
def test_a_silent_dhcp_server_ends_no_bridge(words: dict[str, t.Any], source: str, ipv4: bool, ipv6: bool) -> None:
    text = make(words, source).bridge.text
    found = [values(text, group).get("dhcp-timeout") for group in ("ipv4", "ipv6")]
    assert found == ["2147483647" if waits else None for waits in (ipv4, ipv6)]


def test_a_profile_without_a_word_of_ipv4_asks_for_it_and_so_waits_too(judge: Judge) -> None:
    source = "[connection]\nid=x\nuuid=11111111-2222-4333-8444-555555555555\ntype=ethernet\n"
    told = judge("nmcli", "--offline", "connection", "modify", "connection.id", "x", data=source)
    assert values(told.stdout, "ipv4") == {"method": "auto"}
    assert values(make({}, source).bridge.text, "ipv4") == {"method": "auto", "dhcp-timeout": "2147483647"}


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ({"dhcp4": False, "accept_ra": True}, STATIC),
        ({"addresses": ["2001:db8::7/64"]}, STATIC),
        ({}, "[connection]\ntype=ethernet\n[ipv4]\nmethod=disabled\n[ipv6]\nmethod=auto\n"),
        ({}, "[connection]\ntype=ethernet\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=auto\nmay-fail=false\n"),
    ],
)
def test_a_silent_router_ends_no_bridge_that_has_nothing_else(words: dict[str, t.Any], source: str) -> None:
    found = values(make(words, source).bridge.text, "ipv6")
    assert (found["method"], found["ra-timeout"], found["dhcp-timeout"]) == ("auto", "2147483647", "2147483647")
    # With IPv4, NetworkManager does without.
    assert "ra-timeout" not in make({}).bridge.text


def test_how_long_somebody_waits_for_a_dhcp_server_is_kept() -> None:
    text = make({}, "[connection]\ntype=ethernet\n[ipv4]\nmethod=auto\ndhcp-timeout=90\n").bridge.text
    assert values(text, "ipv4")["dhcp-timeout"] == "90"


def test_what_networkmanager_cannot_do_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="dhcp6: false, set accept_ra: false"):
        make({"dhcp4": True, "dhcp6": False})
    servers = ["192.0.2.53", "2001:db8::53"]
    with pytest.raises(UnsupportedError, match="no name server of IPv6 for br0.* nameservers: 2001:db8::53"):
        make({"addresses": ["192.0.2.7/24"], "nameservers": servers})
    with pytest.raises(UnsupportedError, match="no name server of IPv6 for br0.* nameservers: 2001:db8::53"):
        make({"dhcp4": True, "accept_ra": False, "nameservers": ["2001:db8::53"]})
    with pytest.raises(UnsupportedError, match="no name server of IPv4 for br0.* nameservers: 192.0.2.53"):
        make({"addresses": ["2001:db8::7/64"], "nameservers": servers})


@pytest.mark.parametrize("group", ["802-1x", "bond", "wifi"])
def test_what_cannot_be_carried_over_is_refused(group: str) -> None:
    with pytest.raises(UnsupportedError, match=r"eth0\.nmconnection has .* cannot be carried over"):
        make({}, f"{STATIC}\n[{group}]\nmode=x\n")


def test_notes_of_other_programs_are_no_matter() -> None:
    text = f"{STATIC}\n[user]\norg.freedesktop.NetworkManager.origin=cloud-init\n"
    assert make({}, text).all[1].text == make({}).all[1].text


def test_a_change_keeps_what_nobody_names() -> None:
    text = make({}).bridge.text + "\n[proxy]\nmethod=1\n"
    assert changed_profile(text, BridgeSpec("br0"), port=False) == text
    changed = changed_profile(text, BridgeSpec("br0", mtu=9000, addresses=("192.0.2.7/24",)), port=False)
    assert values(changed, "ethernet") == {"mtu": "9000"}
    assert values(changed, "proxy") == {"method": "1"}
    assert values(changed, "ipv4") == {"method": "manual", "address1": "192.0.2.7/24"}
    assert changed.startswith(text.split("\n", 1)[0])


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_a_second_run_changes_nothing(words: dict[str, t.Any]) -> None:
    profiles, spec = make(words), wanted(**words).spec
    assert changed_profile(profiles.bridge.text, spec, port=False) == profiles.bridge.text
    for port in (*profiles.middle, *profiles.ports)[:1]:
        assert changed_profile(port.text, spec, port=True) == port.text
