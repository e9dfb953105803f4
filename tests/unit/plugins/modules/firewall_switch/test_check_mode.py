# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_firewall_switch as a task calls it, on a host that has nothing but a network of its own."""

from __future__ import annotations

import json
import sys
import typing as t

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    own_network,
    require_nft,
)

pytestmark = pytest.mark.medium

CALL = f"""
import json, sys
sys.path[:0] = {sys.path!r}
from ansible.module_utils.testing import patch_module_args
from ansible_collections.brine.virt.plugins.modules import virt_firewall_switch
with patch_module_args(json.loads(sys.argv[1])):
    virt_firewall_switch.main()
"""
CLOSED = "table inet f { chain in { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }\n"
MADE = """\
add chain inet f brine_virt_in
add rule inet f brine_virt_in ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept
add rule inet f brine_virt_in ip saddr 198.51.100.0/24 tcp dport { 16514 } accept
insert rule inet f in jump brine_virt_in
"""
WANTED: dict[str, t.Any] = {"hypervisors": ["192.0.2.12"], "operators": ["198.51.100.0/24"]}


def call(rules: str, address: str | None = None, **options: t.Any) -> dict[str, t.Any]:
    """The module's answer, in check mode, where these rules are. address: of the host's only nic; None for no nic."""
    require_nft()
    arguments = json.dumps({**options, "_ansible_check_mode": True})
    nic = (
        ""
        if address is None
        else f"ip link add e0 type veth peer e1 && ip addr add {address} dev e0 && ip link set e0 up &&"
    )
    answer = own_network(
        "sh",
        "-c",
        f'nft --file - && ip link set lo up && {nic} exec "$@"',
        "sh",
        sys.executable,
        "-c",
        CALL,
        arguments,
        data=rules,
    )
    assert answer.stdout, answer.stderr
    found: dict[str, t.Any] = json.loads(answer.stdout)
    return found


def test_a_host_without_a_firewall_is_left_alone() -> None:
    looked = call("", phase="look")
    assert (looked["changed"], looked["firewalls"], looked["addresses"]) == (False, [], [])
    prepared = call("", **WANTED)
    assert (prepared["changed"], prepared["state"], prepared["firewalls"]) == (False, "settled", [])
    assert "diff" not in prepared


def test_who_is_kept_out_now_is_said_and_nothing_is_asked_for() -> None:
    # The second one is let in at libvirt's port alone. The last one is the host's own as well.
    said = ["192.0.2.12", "198.51.100.7", "2001:db8::12", "10.0.0.0/8", "hv9", "10.88.0.1"]
    looked = call(CLOSED + MADE, "10.88.0.1/16", phase="look", said=said)
    assert looked["addresses"] == ["10.88.0.1"]
    assert (looked["changed"], looked["kept_out"]) == (False, ["198.51.100.7", "2001:db8::12", "10.88.0.1"])
    assert call(CLOSED, phase="look")["kept_out"] == call("", phase="look", said=said)["kept_out"] == []


def test_rules_that_are_there_change_nothing() -> None:
    assert call(CLOSED, phase="look")["firewalls"] == ["nftables"]
    prepared = call(CLOSED + MADE, **WANTED)
    assert (prepared["changed"], prepared["state"], prepared["firewalls"]) == (False, "settled", ["nftables"])


def test_check_mode_shows_what_goes() -> None:
    prepared = call(CLOSED + MADE, state="absent", **WANTED)
    assert (prepared["changed"], prepared["state"]) == (True, "unsettled")
    (shown,) = prepared["diff"]
    assert shown["before_header"] == "nftables, chain inet f brine_virt_in"
    assert shown["before"].splitlines()[1] == "ip saddr 198.51.100.0/24 tcp dport { 16514 } accept"
    assert shown["after"] == ""


def test_hosts_that_were_not_asked_keep_their_rules_and_are_named() -> None:
    prepared = call(CLOSED + MADE, unseen=["hv9.invalid", "192.0.2.12"])
    assert prepared["changed"] is False
    assert "The firewall is not opened to hv9.invalid, 192.0.2.12: " in str(prepared["warnings"])


def test_an_address_of_a_link_alone_is_passed_over() -> None:
    prepared = call(CLOSED + MADE, hypervisors=["169.254.3.4", "fe80::1"], unseen=["hv9"])
    assert prepared["changed"] is False
    assert "The firewall is not opened to 169.254.3.4, fe80::1: nobody comes from there" in str(prepared["warnings"])


def test_no_host_opens_the_firewalls_of_others_to_a_network() -> None:
    prepared = call(CLOSED + MADE, said=["10.0.0.0/8", "localhost", "127.0.0.1"], unseen=["hv9"])
    assert prepared["changed"] is False
    warned = str(prepared["warnings"])
    assert "10.0.0.0/8" in warned and "localhost" in warned and "which another host has said" in warned


def test_what_cannot_last_is_refused() -> None:
    refused = call(CLOSED, **WANTED)
    assert refused["failed"] is True
    assert "nftables refuses the cloud's hosts in inet f in, and it is not known what loads the rules" in refused["msg"]
    assert "add rule inet f brine_virt_in ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept" in refused["msg"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"hypervisors": ["192.0.2.12", "10.0.0.1/8"]},
            "hypervisors[1]: '10.0.0.1/8' is not an address, network or name",
        ),
        ({"operators": ["0.0.0.0/0"]}, "operators[0]: 0.0.0.0/0 is the whole internet"),
        ({"confirm_seconds": 0}, "confirm_seconds: 0 is not allowed: a host that the change cuts off is as long"),
        (
            {"confirm_seconds": 86400},
            "confirm_seconds: 86400 is not allowed: a host that the change cuts off is as long",
        ),
    ],
)
def test_mistakes_are_said_with_their_place(options: dict[str, t.Any], sentence: str) -> None:
    refused = call(CLOSED, **options)
    assert refused["failed"] is True
    assert sentence in refused["msg"]
