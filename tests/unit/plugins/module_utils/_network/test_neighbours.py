# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether somebody else has an address: the kernel's own answers, between two networks of their own."""

from __future__ import annotations

import contextlib
import sys

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._network import neighbours
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Link, Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec, Uplink, read_bridge

from .firewall.own_network import own_network

MAC = bytes.fromhex("525400112233")
# The other end of a cable is in another network, and has two addresses; the near end has none.
CABLE = """
set -e
unshare --net sleep 60 &
other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link add near type veth peer name far address 52:54:00:00:00:02 netns $other
ip link set near up
nsenter --net=/proc/$other/ns/net ip link set far up
nsenter --net=/proc/$other/ns/net ip address add 192.0.2.2/24 dev far
"""
ASK = """
import sys
from ansible_collections.brine.virt.plugins.module_utils._network.neighbours import holder_of
print([holder_of(address, device) for address, device in zip(sys.argv[1::2], sys.argv[2::2])])
"""


def test_whoever_has_an_address_is_found() -> None:
    if own_network("sh", "-c", CABLE).returncode != 0:
        pytest.skip("no network namespaces here")
    words = ["192.0.2.2", "near", "192.0.2.3", "near", "192.0.2.2", "lo", "192.0.2.2", "missing"]
    ask = f'PYTHONPATH={":".join(sys.path)} "$@"'
    answer = own_network("sh", "-c", f"{CABLE}{ask}", "sh", sys.executable, "-c", ASK, *words)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "['52:54:00:00:00:02', None, None, None]"


def test_only_who_says_that_the_address_is_its_own_has_it() -> None:
    question = neighbours.probe(MAC, "192.0.2.2")
    assert len(question) == 42
    # Somebody else who asks for it has it not, and one that asks for another from it has.
    assert neighbours.sender(question, "192.0.2.2") is None
    used = question[:28] + bytes([192, 0, 2, 2]) + question[32:]
    assert neighbours.sender(used, "192.0.2.2") == MAC
    assert neighbours.sender(used, "192.0.2.3") is None
    assert neighbours.sender(used[:30], "192.0.2.2") is None
    assert neighbours.sender(used[:14] + b"\0\6" + used[16:], "192.0.2.2") is None


def link(name: str, kind: str = "", *addresses: str) -> Link:
    return Link(name, "52:54:00:11:22:33", kind, "ether", None, False, addresses)


NETWORK = Network(
    {"eth0": link("eth0", "", "192.0.2.10/24"), "eth1": link("eth1"), "br1": link("br1", "bridge")},
    (Route("eth0", "192.0.2.1"),),
)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ({"name": "br0"}, ["eth0"]),
        ({"name": "br0", "uplink": "eth1"}, ["eth1"]),
        ({"name": "br1", "uplink": "eth1"}, ["br1"]),
        ({"name": "br0", "uplink": False}, []),
        ({"name": "br0", "uplink": {"bond": ["eth1", "eth2"]}}, ["eth1"]),
        ({"name": "br0", "uplink": {"vlan": 7, "link": "eth1"}}, []),
    ],
)
def test_they_are_asked_where_the_bridge_will_be(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, object], asked: list[str]
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(neighbours, "holder_of", lambda *one: told.append(one))
    # IPv6 does so itself.
    addresses = ["192.0.2.77/24", "2001:db8::7/64"]
    neighbours.check_free(NETWORK, read_bridge({**words, "addresses": addresses}, ""))
    assert told == [("192.0.2.77", device) for device in asked]
    told.clear()
    neighbours.check_free(NETWORK, read_bridge(words, ""))
    assert told == []


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ({"name": "br0"}, True),
        ({"name": "br0", "uplink": "eth0"}, True),
        ({"name": "br0", "uplink": {"bond": ["eth0", "eth1"]}}, True),
        ({"name": "br0", "uplink": False, "addresses": ["192.0.2.10/32"]}, True),
        ({"name": "br0", "uplink": {"vlan": 7, "link": "eth0"}}, False),
        ({"name": "br0", "uplink": "eth1"}, False),
        ({"name": "br0", "uplink": {"bond": ["eth1", "eth2"]}}, False),
        ({"name": "br0", "uplink": False}, False),
        ({"name": "br1", "uplink": "eth1"}, False),
    ],
)
def test_only_its_uplink_gives_a_bridge_its_address(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, object], right: bool
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(neighbours, "holder_of", lambda *one: told.append(one))
    spec = read_bridge({"addresses": ["192.0.2.10/24"], **words}, "")
    if right:
        neighbours.check_free(NETWORK, spec)
        assert told == []
        return
    with pytest.raises(
        ConflictError, match=r"the address 192\.0\.2\.10 of br. is the one of eth0, which does not become"
    ):
        neighbours.check_free(NETWORK, spec)


def test_a_router_that_answers_for_everybody_has_not_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "holder_of", lambda *_one: "52:54:00:00:00:02")
    for address, taken in {"192.0.2.77": False, "192.0.2.1": True}.items():
        spec = BridgeSpec("br0", Uplink("eth0"), addresses=(f"{address}/24",))
        with pytest.raises(ConflictError) if taken else contextlib.nullcontext():
            neighbours.check_free(NETWORK, spec)


def test_an_address_that_somebody_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = BridgeSpec("br0", Uplink("eth0"), addresses=("192.0.2.77/24",))
    monkeypatch.setattr(
        neighbours, "holder_of", lambda address, _device: f"52:54:00:00:00:{address[-2:].strip('.'):0>2}"
    )
    with pytest.raises(ConflictError, match="the address 192.0.2.77 of br0 is taken: 52:54:00:00:00:77 answers at it"):
        neighbours.check_free(NETWORK, spec)
