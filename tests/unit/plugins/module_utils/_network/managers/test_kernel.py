# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a bridge that is there: the real kernel takes them, and takes them back, in a network of its own."""

from __future__ import annotations

import functools
import json
import shlex
import shutil
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._network import observe
from ansible_collections.brine.virt.plugins.module_utils._network.managers.kernel import kernel_commands
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import WantedBridge
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Network
from ansible_collections.brine.virt.plugins.module_utils._network.spec import Uplink, read_bridge
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import own_network

# As the role makes it, with the nic of a machine on it.
MAKE = (
    "ip link add eth0 type veth peer name far",
    "ip link add tap0 type veth peer name machine",
    "ip link add br0 type bridge",
    "ip link set br0 type bridge stp_state 0 forward_delay 0{filtering}",
    "ip link set eth0 master br0",
    "ip link set tap0 master br0",
    "for link in far eth0 machine tap0 br0; do ip link set $link up; done",
)
# Separated by what stands in no JSON.
SHOW = "ip -json -details address show && echo @ && { bridge -json vlan show || true; } && echo @"


def _say(texts: t.Mapping[str, str], *command: str) -> str:
    """In place of a command on the host: the text of the word that it has."""
    return next((text for word, text in texts.items() if word in command), "[]")


def states(monkeypatch: pytest.MonkeyPatch, filtering: bool, *then: str) -> list[Network]:
    """The network of a host with a bridge, and what it is after each of these."""
    lines = [line.format(filtering=" vlan_filtering 1" if filtering else "") for line in MAKE]
    answer = own_network("sh", "-c", " && ".join([*lines, SHOW, *(word for one in then for word in (one, SHOW))]))
    if shutil.which("ip") is None or "Operation not permitted" in answer.stderr:
        pytest.skip("no network namespaces here")
    if filtering and "not supported" in answer.stderr.lower():
        pytest.skip("this kernel's bridges know no VLANs")
    assert answer.returncode == 0, answer.stderr
    found = []
    said = answer.stdout.split("@")
    for links, vlans in zip(said[::2], said[1::2]):
        monkeypatch.setattr(
            observe, "run", functools.partial(_say, {"bridge": vlans.strip() or "[]", "address": links})
        )
        found.append(observe.observe_network())
    return found


@pytest.mark.parametrize(
    "words",
    [
        {"mtu": 9000},
        {"mtu": 1280},
        {"stp": True},
        {"mtu": 9000, "stp": True},
        {"vlan_filtering": True, "vlans": [20, "30-39"], "pvid": 5, "mtu": 9000},
    ],
    ids=json.dumps,
)
def test_the_kernel_takes_the_settings_and_takes_them_back(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, t.Any]
) -> None:
    filtering = "vlan_filtering" in words
    (before,) = states(monkeypatch, filtering)
    spec = read_bridge({"name": "br0", **words}, "")
    wanted = WantedBridge(spec, Uplink("eth0"), "", before, existing=before.links["br0"])
    apply, restore = (" && ".join(map(shlex.join, commands)) for commands in kernel_commands(wanted))
    first, changed, back = states(monkeypatch, filtering, apply, restore)
    bridge, port = changed.links["br0"], changed.links["eth0"]
    assert (bridge.mtu, port.mtu) == (words.get("mtu", 1500),) * 2
    assert bridge.bridge is not None
    assert (bridge.bridge.stp, bridge.bridge.forward_delay) == ((True, 400) if "stp" in words else (False, 0))
    # A second run has nothing to do, and the nic of the machine is as it was.
    again = WantedBridge(spec, Uplink("eth0"), "", changed, existing=bridge)
    assert kernel_commands(again) == ((), ())
    assert changed.links["tap0"].mtu == first.links["tap0"].mtu
    for name in ("br0", "eth0", "tap0"):
        old, new = first.links[name], back.links[name]
        assert (new.mtu, new.bridge, new.vlans) == (old.mtu, old.bridge, old.vlans)
