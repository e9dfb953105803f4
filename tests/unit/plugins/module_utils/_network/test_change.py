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
    InputError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._network import change as planning
from ansible_collections.brine.virt.plugins.module_utils._network.managers import choice, netplan, networkd
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd import Networkd
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd_text import NetworkdSource
from ansible_collections.brine.virt.plugins.module_utils._network.observe import BridgeState, Link, Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec, read_bridge
from ansible_collections.brine.virt.plugins.module_utils._network.switch.control import PendingChange
from ansible_collections.brine.virt.plugins.module_utils._network.switch.guarded import GuardedChange

SOURCE = NetworkdSource(
    (("/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.10/24\n"),)
)


def spec(**words: t.Any) -> BridgeSpec:
    return read_bridge({"name": "br0", **words}, "bridges[0]")


def named(uplink: str | None) -> BridgeSpec:
    return spec() if uplink is None else spec(uplink=uplink)


def link(name: str, **settings: t.Any) -> Link:
    return Link(
        **{
            "name": name,
            "mac": "52:54:00:11:22:33",
            "kind": "",
            "link_type": "ether",
            "master": None,
            "wireless": False,
            "addresses": (),
            **settings,
        }
    )


def network(*links: Link, default: str | None = "eth0") -> Network:
    return Network({item.name: item for item in links}, (Route(default, "192.0.2.1"),) if default else ())


ETH0 = link("eth0", addresses=("192.0.2.10/24",))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Callable[[Networkd | None], None]:
    """Say what systemd-networkd is to know of every link, on a host whose files are in a folder."""

    def answer(value: Networkd | None) -> None:
        monkeypatch.setattr(networkd, "observe_networkd", lambda _link: value)
        monkeypatch.setattr(networkd, "network_file", lambda _link: None)

    monkeypatch.setattr(networkd.NetworkdManager, "runs", lambda _self: True)
    monkeypatch.setattr(choice, "MANAGERS", (networkd.NetworkdManager(),))
    monkeypatch.setattr(networkd, "LASTING", f"{tmp_path}/etc")
    monkeypatch.setattr(networkd, "TRIAL", f"{tmp_path}/run")
    monkeypatch.setattr(networkd, "FOLDERS", (f"{tmp_path}/etc", f"{tmp_path}/run"))
    (tmp_path / "etc").mkdir()
    answer(Networkd(SOURCE, (), None, None))
    return answer


def put(change: GuardedChange) -> None:
    """What the switch does at the end."""
    for file in change.files:
        assert file.text is not None
        Path(file.lasting).write_text(file.text)


@pytest.mark.parametrize(
    ("state", "uplink"),
    [
        (network(link("br0", kind="bridge"), default="br0"), None),
        (network(link("br0", kind="bridge"), link("eth0", master="br0"), default="br0"), "eth0"),
        (network(link("br0", kind="openvswitch"), default=None), None),
    ],
)
def test_a_bridge_that_exists_is_left(host: object, state: Network, uplink: str | None) -> None:
    assert planning.plan_bridge(state, named(uplink)) is None


@pytest.mark.parametrize(
    ("state", "uplink", "error", "words"),
    [
        (network(link("br0", kind="dummy")), None, ConflictError, "br0 exists and is of the kind dummy, not a bridge"),
        (network(link("br0"), ETH0), None, ConflictError, "br0 exists and is a network card"),
        (network(link("br0", kind="bridge"), ETH0), "eth0", ConflictError, "br0 exists, but eth0 is not its port"),
        (network(link("br0", kind="bridge")), "eth7", NotFoundError, "eth7 does not exist"),
        (network(ETH0, default=None), None, InputError, "no interface has a default route"),
        (
            network(link("lan", kind="bridge"), default="lan"),
            None,
            InputError,
            "default route is on lan, which is already a bridge",
        ),
        (network(ETH0), "eth7", NotFoundError, "eth7 does not exist. Possible interfaces: eth0"),
        (
            network(link("bond0", kind="bond"), link("eth0", master="bond0"), default="bond0"),
            "eth0",
            ConflictError,
            "eth0 is a port of the bond bond0",
        ),
        (network(link("wlan0", wireless=True), default="wlan0"), None, UnsupportedError, "wlan0 is wireless"),
        (
            network(link("wg0", link_type="none", kind="wireguard"), default="wg0"),
            None,
            UnsupportedError,
            "kind wireguard",
        ),
        (network(link("lo", link_type="loopback")), "lo", UnsupportedError, "lo cannot be a bridge's port"),
        (
            network(ETH0, link("macvtap0", kind="macvtap", below="eth0")),
            None,
            ConflictError,
            "macvtap0 on the uplink eth0 is of the kind macvtap, which takes all frames of eth0",
        ),
    ],
)
def test_what_could_cut_the_host_off_is_refused(
    host: object, state: Network, uplink: str | None, error: type[VirtError], words: str
) -> None:
    with pytest.raises(error, match=words):
        planning.plan_bridge(state, named(uplink))


def test_a_change_names_what_the_bridge_must_have(host: object) -> None:
    change = planning.plan_bridge(network(ETH0, link("eth1")), spec())
    assert change is not None
    expected = planning.expected_from(change.subject)
    assert (expected.uplink, expected.addresses, expected.gateways) == ("eth0", ("192.0.2.10/24",), ("192.0.2.1",))
    assert (change.name, change.description) == ("bridge-br0", "adding eth0 to br0 with systemd-networkd")
    names = ["05-brine-br0.netdev", "05-brine-br0.network", "05-brine-br0-uplink.network"]
    assert [Path(file.lasting).name for file in change.files] == names
    assert [file.trial for file in change.files] == [file.lasting.replace("/etc/", "/run/") for file in change.files]


def test_an_address_that_no_link_is_seen_to_have_is_not_waited_for(host: object) -> None:
    """The kernel counts a link-local one as no global one, and so do we of what a host has."""
    change = planning.plan_bridge(network(link("eth0")), spec(addresses=["fe80::1/64", "198.51.100.1/24"]))
    assert change is not None
    assert "Address=fe80::1/64\n" in str(change.files[1].text)
    assert planning.expected_from(change.subject).addresses == ("198.51.100.1/24",)
    assert planning.plan_bridge(network(link("br0", kind="bridge")), spec(addresses=["fe80::1/64"])) is None


def test_a_large_mtu_of_the_uplink_is_the_bridges_and_stays_the_ports(host: object) -> None:
    state = network(replace(ETH0, mtu=9000))
    change = planning.plan_bridge(state, spec())
    assert change is not None
    _netdev, bridge, port = (str(file.text) for file in change.files)
    assert ("MTUBytes=9000" in bridge, "MTUBytes=9000" in port) == (True, True)
    assert planning.expected_from(change.subject).settings == {"mtu": 9000}
    # Another run that asks for the same takes the change over.
    assert planning.asks_for(spec(), PendingChange(change.subject, ()))
    for one, words in ((ETH0, {}), (replace(ETH0, mtu=1460), {}), (replace(ETH0, mtu=9000), {"mtu": 1500})):
        change = planning.plan_bridge(network(one), spec(**words))
        assert change is not None
        assert [line for file in change.files for line in str(file.text).splitlines() if line == "MTUBytes=9000"] == []


def test_all_of_a_bond_and_the_order_of_default_routes_are_looked_at(host: object) -> None:
    first, second = Route("eth0", "192.0.2.1", metric=100), Route("eth7", "198.51.100.1", metric=101)
    state = Network({one.name: one for one in (ETH0, link("eth1"), link("eth7"))}, (first, second))
    change = planning.plan_bridge(state, spec(uplink={"bond": ["eth0", "eth1"]}))
    assert change is not None
    expected = planning.expected_from(change.subject)
    assert (expected.members, expected.leads) == (("eth0", "eth1"), (4,))
    links = [link("br0", kind="bridge", addresses=ETH0.addresses), link("bond0", kind="bond", master="br0")]
    links += [link("eth0", master="bond0"), link("eth1", master="bond0"), link("eth7")]
    after = Network({one.name: one for one in links}, (replace(first, device="br0"), second))
    assert planning.missing_on_bridge(after, expected) == []
    alone = replace(after, links={**after.links, "eth1": link("eth1")})
    assert planning.missing_on_bridge(alone, expected) == ["eth1 in bond0"]
    # NetworkManager's metric for a bridge that says none.
    behind = replace(after, default_routes=(second, replace(first, device="br0", metric=425)))
    assert planning.missing_on_bridge(behind, expected) == [
        "the first default route of IPv4: another one has a lower metric now"
    ]


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(
    ("uplink", "words"),
    [
        ({"bond": ["eth0", "eth1", "eth2"]}, "its port bond0 is a bond of eth0, eth1"),
        ({"bond": ["eth0"]}, "its port bond0 is a bond of eth0, eth1"),
        (
            {"bond": ["eth0", "eth1"], "mode": "802.3ad"},
            "its port bond0 is a bond with the mode active-backup, not 802",
        ),
        ({"bond": ["eth0", "eth1"], "name": "lan"}, "its port lan is no bond"),
        ({"vlan": 20, "link": "eth2", "name": "lan"}, "its port lan is not VLAN 20 of eth2"),
        ({"vlan": 10, "link": "eth3", "name": "lan"}, "its port lan is not VLAN 10 of eth3"),
        ({"bond": ["eth0", "eth1"]}, None),
        ({"bond": ["eth0", "eth1", "eth9"]}, None),
        ({"bond": ["eth0", "eth1", "eth3"]}, None),
        ({"vlan": 10, "link": "eth2", "name": "lan"}, None),
    ],
)
def test_another_bond_or_vlan_than_that_of_a_bridge_is_refused(
    host: object, monkeypatch: pytest.MonkeyPatch, uplink: t.Any, words: str | None, *, ours: bool
) -> None:
    state = network(
        *(
            link("br0", kind="bridge"),
            link("bond0", kind="bond", mode="active-backup", master="br0"),
            link("eth2"),
            link("eth3", carrier=False),
        ),
        *(link("eth0", master="bond0"), link("eth1", master="bond0")),
        link("lan", kind="vlan", vlan=10, below="eth2", master="br0"),
        default="br0",
    )
    monkeypatch.setattr(networkd.NetworkdManager, "made", lambda _self, _bridge: ours)
    monkeypatch.setattr(networkd.NetworkdManager, "begun", lambda _self, _bridge: False)
    if words is None:
        assert planning.plan_bridge(state, spec(uplink=uplink)) is None
        return
    with pytest.raises(ConflictError, match=f"the bridge br0 exists, but {words}"):
        planning.plan_bridge(state, spec(uplink=uplink))


def test_a_bond_that_has_lost_an_interface_does_not_undo_another_change(host: object) -> None:
    """One that was there already: that an interface is gone is not the change's doing."""
    bond = {"bond": ["eth0", "eth1"]}
    change = planning.plan_bridge(network(ETH0, link("eth1")), spec(uplink=bond))
    assert change is not None
    put(change)
    bridge = link("br0", kind="bridge", addresses=ETH0.addresses, mtu=1500, bridge=BridgeState())
    port = link("bond0", kind="bond", mode="active-backup", master="br0")
    state = network(bridge, port, link("eth0", master="bond0"), default="br0")
    change = planning.plan_bridge(state, spec(uplink=bond, stp=True))
    assert change is not None
    expected = planning.expected_from(change.subject)
    assert expected.members == ("eth0",)
    after = replace(state, links={**state.links, "br0": replace(bridge, bridge=BridgeState(stp=True))})
    assert planning.missing_on_bridge(after, expected) == []


def test_the_manager_of_a_bridge_that_exists_is_not_silently_another_one(
    host: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = planning.plan_bridge(network(ETH0), spec())
    assert change is not None
    put(change)
    monkeypatch.setattr(choice, "MANAGERS", (networkd.NetworkdManager(), netplan.NetplanManager()))
    bridge = link("br0", kind="bridge", addresses=ETH0.addresses, bridge=BridgeState())
    state = network(bridge, link("eth0", master="br0"), default="br0")
    assert planning.plan_bridge(state, spec(manager="networkd")) is None
    words = "the bridge br0 exists, but systemd-networkd has it, and not netplan"
    with pytest.raises(ConflictError, match=f"{words}. .* name networkd, leave out manager, or remove the bridge"):
        planning.plan_bridge(state, spec(manager="netplan"))


def test_another_manager_is_named(host: t.Callable[[Networkd | None], None], monkeypatch: pytest.MonkeyPatch) -> None:
    host(None)
    monkeypatch.setattr(choice, "is_active", lambda unit: unit == "connman.service")
    with pytest.raises(UnsupportedError, match="eth0 is managed by ConnMan; .* systemd-networkd"):
        planning.plan_bridge(network(ETH0), spec())


@pytest.mark.parametrize("known", [Networkd(SOURCE, ("192.0.2.99/24",), None, None), Networkd(None, (), None, None)])
def test_an_address_that_no_file_explains_is_not_lost(
    host: t.Callable[[Networkd | None], None], known: Networkd
) -> None:
    host(known)
    with pytest.raises(ConflictError, match=r"192\.0\.2\.\d+/24 on eth0 is in no configuration"):
        planning.plan_bridge(network(ETH0), spec())
    if known.source is None:
        # Whoever names the bridge's addresses knows, as far as eth0's come back by themselves.
        assert planning.plan_bridge(network(ETH0), spec(addresses="192.0.2.99/24")) is not None


def test_missing_on_bridge_tells_each_thing(host: object) -> None:
    change = planning.plan_bridge(network(ETH0), spec(mtu=9000, stp=True, vlan_filtering=True, vlans=[20, "30-32"]))
    assert change is not None
    expected = planning.expected_from(change.subject)
    port = link("eth0", master="br0", mtu=9000, vlans=((1, 1), (20, 20), (30, 32)))
    state = BridgeState(stp=True, vlan_filtering=True)
    whole = network(link("br0", kind="bridge", addresses=ETH0.addresses, mtu=9000, bridge=state), port, default="br0")
    assert planning.missing_on_bridge(whole, expected) == []
    bare = network(link("br0", kind="bridge", mtu=1500, bridge=BridgeState(pvid=7)), ETH0)
    assert planning.missing_on_bridge(bare, expected) == [
        "its port eth0",
        "the address 192.0.2.10/24",
        "the gateway 192.0.2.1",
        "mtu 9000 of its port eth0",
        "mtu 9000",
        "stp true",
        "vlan_filtering true",
        "pvid 1",
        "VLAN 20 on its port",
        "VLAN 30-32 on its port",
    ]
    # A driver may refuse an MTU, and systemd-networkd goes on without.
    small = replace(whole, links={**whole.links, "eth0": replace(port, mtu=1500, vlans=((1, 1), (20, 32)))})
    assert planning.missing_on_bridge(small, expected) == ["mtu 9000 of its port eth0"]
    assert planning.missing_on_bridge(network(port), expected) == ["the interface br0"]


def test_a_bridge_that_asks_dhcp_has_to_have_an_answer(host: object) -> None:
    change = planning.plan_bridge(network(ETH0), spec(dhcp4=True))
    assert change is not None
    expected = planning.expected_from(change.subject)
    port = link("eth0", master="br0")
    without = network(link("br0", kind="bridge", addresses=("2001:db8::1/64",)), port)
    assert planning.missing_on_bridge(without, expected) == ["an address by DHCP"]
    given = network(link("br0", kind="bridge", addresses=("192.0.2.77/24",)), port)
    assert planning.missing_on_bridge(given, expected) == []


def test_a_bridge_without_uplink(host: object) -> None:
    one = planning.plan_bridge(network(ETH0), spec(uplink=False))
    assert one is not None
    assert planning.expected_from(one.subject).uplink == ""
    assert [Path(file.lasting).name for file in one.files] == ["05-brine-br0.netdev", "05-brine-br0.network"]
    assert "MACAddress=02:" in str(one.files[0].text)
    other = planning.plan_bridge(Network({}, (), machine="another host"), spec(uplink=False))
    assert other is not None
    assert one.files[0].text != other.files[0].text


def test_a_bond_takes_over_from_the_one_that_has_addresses(host: object) -> None:
    state = network(link("eth1", mac="52:54:00:00:00:01"), ETH0)
    change = planning.plan_bridge(state, spec(uplink={"bond": ["eth1", "eth0"]}))
    assert change is not None
    assert [Path(file.lasting).name for file in change.files] == [
        "05-brine-br0-bond0.netdev", "05-brine-br0.netdev", "05-brine-br0.network", "05-brine-br0-uplink.network",
        # From the first of these on, a boot brings the new network.
        "05-brine-br0-port-eth0.network", "05-brine-br0-port-eth1.network",
    ]  # fmt: skip
    assert f"MACAddress={ETH0.mac}" in str(change.files[0].text)
    assert planning.expected_from(change.subject).uplink == "bond0"


def test_a_bond_of_somebody_else_with_another_mode_is_not_what_was_asked_for(host: object) -> None:
    there = (link("bond0", kind="bond", mode="802.3ad"), link("eth0", master="bond0"), link("eth1", master="bond0"))
    state = network(*there, default="bond0")
    with pytest.raises(ConflictError, match="bond0 exists as a bond with the mode 802.3ad, not active-backup"):
        planning.plan_bridge(state, spec(uplink={"bond": ["eth0", "eth1"]}))
    change = planning.plan_bridge(state, spec(uplink={"bond": ["eth0", "eth1"], "mode": "802.3ad"}))
    assert change is not None
    assert planning.expected_from(change.subject).uplink == "bond0"


def test_an_interface_that_nobody_has_configured_yet_can_be_an_uplink(
    host: t.Callable[[Networkd | None], None],
) -> None:
    host(None)
    change = planning.plan_bridge(network(ETH0, link("eth1")), spec(uplink="eth1"))
    assert change is not None
    assert "LinkLocalAddressing=no" in str(change.files[1].text)
    named = planning.plan_bridge(network(ETH0, link("eth1")), spec(uplink="eth1", addresses="198.51.100.7/24"))
    assert named is not None
    assert "Address=198.51.100.7/24" in str(named.files[1].text)


def test_of_two_configurations_none_is_lost(host: object) -> None:
    state = network(ETH0, link("eth1", addresses=("198.51.100.1/24",)))
    with pytest.raises(ConflictError, match="eth0 and eth1 have addresses"):
        planning.plan_bridge(state, spec(uplink={"bond": ["eth0", "eth1"]}))


def test_a_vlan_leaves_the_interface_below_as_it_is(host: object) -> None:
    change = planning.plan_bridge(network(ETH0), spec(uplink={"vlan": 10, "link": "eth0"}))
    assert change is not None
    drop_in = change.files[-1]
    assert drop_in.lasting.endswith("/etc/10-eth0.network.d/05-brine-br0.conf")
    assert str(drop_in.text).endswith("[Network]\nVLAN=eth0.10\n")
    expected = planning.expected_from(change.subject)
    assert (expected.uplink, expected.addresses, expected.gateways) == ("eth0.10", (), ())


def test_a_vlan_that_is_there_is_an_uplink_as_any_other(host: object) -> None:
    vlan = link("eth0.10", kind="vlan", vlan=10, below="eth0", addresses=("198.51.100.1/24",))
    change = planning.plan_bridge(network(ETH0, vlan), spec(uplink={"vlan": 10, "link": "eth0"}))
    assert change is not None
    assert [Path(file.lasting).name for file in change.files][-1] == "05-brine-br0-uplink.network"
    wrong = link("eth0.10", kind="vlan", vlan=11, below="eth0")
    with pytest.raises(ConflictError, match=r"eth0\.10 exists, and is not eth0\.10 \(VLAN 10 of eth0\)"):
        planning.plan_bridge(network(ETH0, wrong), spec(uplink={"vlan": 10, "link": "eth0"}))


BR0 = link("br0", kind="bridge", bridge=BridgeState(vlan_filtering=True), vlans=((1, 1), (30, 30)))


@pytest.mark.parametrize(
    ("links", "words", "sentence"),
    [
        (
            [link("vlan20", kind="vlan", vlan=20, below="eth0")],
            {"uplink": {"vlan": 20, "link": "eth0"}},
            r"VLAN 20 of eth0 is there already, and is called vlan20\. Add name: vlan20",
        ),
        (
            [link("bond0", kind="bond"), link("eth1", master="bond0")],
            {"uplink": {"vlan": 20, "link": "eth1"}},
            r"eth1 is a port of the bond bond0\. Write link: bond0",
        ),
        # With a veth for a machine, of the kernel 6.1: neither got an answer from the network.
        ([BR0], {"name": "br20", "uplink": {"vlan": 20, "link": "br0"}}, "br0 keeps VLANs apart, and is not itself in"),
        ([BR0], {"name": "br20", "uplink": {"vlan": 1, "link": "br0"}}, "br0 keeps VLANs apart, and is not itself in"),
        (
            [BR0, link("eth1", master="br0", vlans=((1, 1), (20, 29)))],
            {"name": "br20", "uplink": {"vlan": 20, "link": "eth1"}},
            "eth1 carries VLAN 20 into the bridge br0, which would no longer get it",
        ),
        (
            [link("eth0.20", kind="vlan", vlan=20, below="eth0")],
            {"uplink": "eth0", "vlan_filtering": True, "vlans": ["10-29"]},
            r"eth0\.20 on eth0 takes all frames of VLAN 20, so the bridge would get none of them",
        ),
        (
            [link("eth1"), link("eth1.7", kind="vlan", vlan=7, below="eth1")],
            {"uplink": {"bond": ["eth0", "eth1"]}},
            r"eth1\.7 is a VLAN on eth1, and would have to move to bond0",
        ),
    ],
)
def test_a_vlan_whose_frames_would_go_elsewhere_is_refused(
    host: object, links: list[Link], words: dict[str, t.Any], sentence: str
) -> None:
    with pytest.raises(ConflictError, match=sentence):
        planning.plan_bridge(network(ETH0, *links), spec(**words))


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([link("eth0.7", kind="vlan", vlan=7, below="eth0")], {"uplink": {"vlan": 20, "link": "eth0"}}),
        ([BR0], {"name": "br30", "uplink": {"vlan": 30, "link": "br0"}}),
        (
            [BR0, link("eth1", master="br0", vlans=((1, 1), (20, 29)))],
            {"name": "br30", "uplink": {"vlan": 30, "link": "eth1"}},
        ),
        (
            [link("eth0.7", kind="vlan", vlan=7, below="eth0")],
            {"uplink": "eth0", "vlan_filtering": True, "vlans": [20]},
        ),
    ],
)
def test_a_vlan_beside_others_is_made(host: object, links: list[Link], words: dict[str, t.Any]) -> None:
    assert planning.plan_bridge(network(ETH0, *links), spec(**words)) is not None


# A bridge that is there


def made(host: object, **words: t.Any) -> Network:
    """The network after a bridge was made, as the kernel would say."""
    change = planning.plan_bridge(network(ETH0), spec(**words))
    assert change is not None
    put(change)
    addresses = words.get("addresses", ETH0.addresses)
    settings = BridgeState(vlan_filtering=words.get("vlan_filtering", False), pvid=words.get("pvid", 1))
    bridge = link("br0", kind="bridge", addresses=tuple(addresses), mtu=words.get("mtu", 1500), bridge=settings)
    vlans = ((settings.pvid, settings.pvid), *((vlan, vlan) for vlan in words.get("vlans", ())))
    return network(bridge, link("eth0", master="br0", mtu=words.get("mtu", 1500), vlans=vlans), default="br0")


ALL: dict[str, t.Any] = {
    "dhcp4": True,
    "dhcp6": False,
    "accept_ra": True,
    "addresses": ["192.0.2.10/24", "2001:db8::1/64"],
    "gateway": ["192.0.2.1", "2001:db8::2"],
    "nameservers": ["192.0.2.53"],
    "search": ["example.org", "example.net"],
    "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.2", "metric": 7}],
    "mtu": 9000,
    "vlan_filtering": True,
    "vlans": [20, 30],
}


@pytest.mark.parametrize("words", [{}, {"dhcp4": False}, {"mtu": 1400}, {"uplink": "eth0"}, ALL], ids=str)
def test_a_second_run_changes_nothing(host: object, words: dict[str, t.Any]) -> None:
    state = made(host, **words)
    assert planning.plan_bridge(state, spec(**words)) is None
    # Who names nothing leaves everything.
    assert planning.plan_bridge(state, spec()) is None


def test_a_changed_address_is_tried_beside_the_lasting_file(host: object) -> None:
    state = made(host)
    change = planning.plan_bridge(state, spec(addresses=["192.0.2.11/24"], gateway="192.0.2.1"))
    assert change is not None
    (file,) = change.files
    assert file.lasting.endswith("/etc/05-brine-br0.network")
    # It has to sort before the lasting one: networkd uses the first file that matches.
    assert file.trial is not None
    assert Path(file.trial).name == "05-brine--br0.network" < Path(file.lasting).name
    assert "Address=192.0.2.11/24" in str(file.text)
    assert "192.0.2.10" not in str(file.text)
    complaints = [check.complaint for check in change.back]
    assert complaints[:2] == ["eth0 is not a port of br0", "br0 has no address 192.0.2.10/24"]
    assert not any("delete" in command for command in change.restore)
    put(change)
    after = network(link("br0", kind="bridge", addresses=("192.0.2.11/24",)), link("eth0", master="br0"))
    assert planning.plan_bridge(after, spec(addresses=["192.0.2.11/24"], gateway="192.0.2.1")) is None


def test_a_route_by_hand_is_not_lost_when_the_bridge_changes(host: object) -> None:
    """systemd-networkd and NetworkManager take it away when they configure the bridge again."""
    state = made(host)
    route = Route("br0", "192.0.2.9", to="203.0.113.0/24", protocol="boot")
    with pytest.raises(
        ConflictError, match=r"the route to 203\.0\.113\.0/24 via 192\.0\.2\.9 on br0 is in no configuration of systemd"
    ):
        planning.plan_bridge(replace(state, routes=(route,)), spec(mtu=9000))
    # This is the kernel's alone until a boot; and these addresses replace everything.
    for words in ({"stp": True}, {"addresses": ["192.0.2.11/24"]}):
        assert planning.plan_bridge(replace(state, routes=(route,)), spec(**words)) is not None


def test_settings_of_the_kernel_change_at_once_and_go_back(host: object) -> None:
    state = made(host)
    change = planning.plan_bridge(state, spec(mtu=9000, stp=True, vlan_filtering=True, vlans=[20, 21], pvid=5))
    assert change is not None
    assert [Path(file.lasting).name for file in change.files] == [
        "05-brine-br0.netdev", "05-brine-br0.network", "05-brine-br0-uplink.network"
    ]  # fmt: skip
    assert change.files[0].trial is None
    bridge = "ip link set dev br0 type bridge"
    assert [" ".join(command) for command in change.apply[1:]] == [
        f"{bridge} stp_state 1",
        f"{bridge} forward_delay 400",
        f"{bridge} vlan_default_pvid 5",
        f"{bridge} vlan_filtering 1",
        "ip link set dev eth0 mtu 9000",
        "ip link set dev br0 mtu 9000",
        "bridge vlan add dev eth0 vid 20-21",
    ]
    assert [" ".join(command) for command in change.restore[1:]] == [
        # With STP on, the kernel would take no delay of 0.
        f"{bridge} stp_state 0",
        f"{bridge} forward_delay 0",
        f"{bridge} vlan_filtering 0",
        f"{bridge} vlan_default_pvid 1",
        "ip link set dev eth0 mtu 1500",
        "ip link set dev br0 mtu 1500",
        "bridge vlan del dev eth0 vid 20-21",
    ]
    texts = [str(file.text) for file in change.files]
    assert "VLANFiltering=yes\nDefaultPVID=5\n" in texts[0]
    assert texts[2].endswith("[BridgeVLAN]\nVLAN=20-21\n")


def test_vlans_that_nobody_names_stay(host: object) -> None:
    state = made(host, vlan_filtering=True, vlans=[20, 30], pvid=5)
    assert planning.plan_bridge(state, spec(vlan_filtering=True)) is None
    change = planning.plan_bridge(state, spec(vlan_filtering=False))
    assert change is not None
    assert [" ".join(command) for command in change.apply] == ["ip link set dev br0 type bridge vlan_filtering 0"]
    none = planning.plan_bridge(state, spec(vlan_filtering=True, vlans=[]))
    assert none is not None
    assert [" ".join(command) for command in none.apply[1:]] == [
        f"bridge vlan del dev eth0 vid {vlan}" for vlan in (20, 30)
    ]


def test_a_vlan_on_the_bridge_or_its_port_is_not_cut_off(host: object) -> None:
    state = made(host)
    on_bridge = link("br0.20", kind="vlan", vlan=20, below="br0", addresses=("198.51.100.5/24",))
    on_port = link("eth0.20", kind="vlan", vlan=20, below="eth0")

    def plan(above: Link, own: tuple[tuple[int, int], ...] = (), **words: t.Any) -> GuardedChange | None:
        links = {**state.links, above.name: above, "br0": replace(state.links["br0"], vlans=own)}
        return planning.plan_bridge(replace(state, links=links), spec(**words))

    with pytest.raises(ConflictError, match=r"br0\.20 is VLAN 20 of br0, which would no longer let it through"):
        plan(on_bridge, ((1, 1),), vlan_filtering=True)
    assert plan(on_bridge, ((1, 1), (20, 20)), vlan_filtering=True) is not None
    with pytest.raises(ConflictError, match=r"eth0\.20 on eth0 takes all frames of VLAN 20"):
        plan(on_port, vlan_filtering=True, vlans=[20])
    assert plan(on_port, vlan_filtering=True, vlans=[30]) is not None
    # What is so already is not this run's doing.
    state = made(host, vlan_filtering=True, vlans=[20])
    assert plan(on_port, vlan_filtering=True, vlans=[20]) is None


@pytest.mark.parametrize("words", [{"vlans": [5, 20]}, {"pvid": 20}])
def test_a_vlan_is_not_tagged_and_untagged_at_once(host: object, words: dict[str, t.Any]) -> None:
    """What stays counts as what is named."""
    state = made(host, vlan_filtering=True, vlans=[20, 30], pvid=5)
    with pytest.raises(InputError, match=r"VLAN (5|20) is the one that the uplink carries untagged"):
        planning.plan_bridge(state, spec(vlan_filtering=True, **words))


def test_what_the_kernel_lost_is_set_again_without_a_file(host: object) -> None:
    state = made(host, stp=False)
    wrong = link("br0", kind="bridge", addresses=ETH0.addresses, bridge=BridgeState(stp=True, forward_delay=1500))
    change = planning.plan_bridge(network(wrong, state.links["eth0"], default="br0"), spec(stp=False))
    assert change is not None
    assert (change.files, len(change.apply)) == ((), 2)


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_power_cut_left_of_our_files_is_made_whole(host: object, count: int) -> None:
    """Before the uplink's file is there, a boot makes the bridge at most, and the uplink has its addresses."""
    change = planning.plan_bridge(network(ETH0), spec())
    assert change is not None
    for file in change.files[:count]:
        Path(file.lasting).write_text(str(file.text))
    state = network(link("br0", kind="bridge", bridge=BridgeState()), ETH0)
    again = planning.plan_bridge(state, spec())
    assert again is not None
    assert again.description == "adding eth0 to br0 with systemd-networkd"
    assert [(file.lasting, file.text) for file in again.files] == [(file.lasting, file.text) for file in change.files]
    # What lasts already would hide its namesake in /run.
    trials = [Path(str(file.trial)).name for file in again.files]
    assert trials == [
        Path(file.lasting).name.replace("brine-", "brine--", 1) if number < count else Path(file.lasting).name
        for number, file in enumerate(change.files)
    ]
    # A bridge that was meant to have no uplink is whole without one.
    alone = planning.plan_bridge(network(ETH0), spec(name="br1", uplink=False))
    assert alone is not None
    put(alone)
    state.links["br1"] = link("br1", kind="bridge", bridge=BridgeState())
    assert planning.plan_bridge(state, spec(name="br1")) is None


def test_the_uplink_of_a_bridge_is_not_changed(host: object) -> None:
    state = made(host)
    state.links["eth1"] = link("eth1")
    with pytest.raises(ConflictError, match="br0 exists, but eth1 is not its port"):
        planning.plan_bridge(state, spec(uplink="eth1"))
    with pytest.raises(ConflictError, match="br0 exists, but it has an uplink"):
        planning.plan_bridge(state, spec(uplink=False))


def test_the_untagged_vlan_of_others_is_not_compared_unless_named(host: object) -> None:
    bridge = link("br0", kind="bridge", bridge=BridgeState(vlan_filtering=True, pvid=5))
    assert planning.plan_bridge(network(bridge), spec(vlan_filtering=True)) is None


FOREIGN = {
    "kind": "bridge", "addresses": ("192.0.2.10/24",), "mtu": 1500, "bridge": BridgeState(vlan_filtering=True, pvid=1)
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "difference"),
    [
        ({"addresses": ["192.0.2.10/24"], "gateway": "192.0.2.1", "dhcp4": False, "nameservers": "192.0.2.53"}, None),
        ({"mtu": 1500, "stp": False, "vlan_filtering": True, "vlans": [20], "uplink": "eth0"}, None),
        ({"routes": [{"to": "198.51.100.0/24", "via": "192.0.2.2"}, {"to": "default", "via": "192.0.2.1"}]}, None),
        ({"addresses": ["192.0.2.11/24"]}, r"it has no address 192\.0\.2\.11/24"),
        ({"addresses": ["192.0.2.10/24"], "gateway": "192.0.2.3"}, r"192\.0\.2\.3 is not its gateway"),
        ({"routes": [{"to": "203.0.113.0/24", "via": "192.0.2.2"}]}, r"it has no route to 203\.0\.113\.0/24"),
        ({"mtu": 9000}, "its MTU is 1500, not 9000"),
        ({"stp": True}, "stp is false"),
        ({"vlan_filtering": False}, "vlan_filtering is true"),
        ({"vlan_filtering": True, "pvid": 9}, "its pvid is 1, not 9"),
        ({"vlan_filtering": True, "vlans": [20, 21], "uplink": "eth0"}, "eth0 does not carry VLAN 21"),
        ({"uplink": "eth1"}, "eth1 is not its port"),
    ],
)
def test_a_bridge_of_others_is_left_or_refused(host: object, words: dict[str, t.Any], difference: str | None) -> None:
    links = (link("br0", **FOREIGN), link("eth0", master="br0", vlans=((1, 1), (20, 20))), link("eth1"))
    state = Network(
        {item.name: item for item in links},
        (Route("br0", "192.0.2.1"),),
        (Route("br0", "192.0.2.2", "198.51.100.0/24"),),
    )
    if difference is None:
        assert planning.plan_bridge(state, spec(**words)) is None
    else:
        with pytest.raises(ConflictError, match=f"the bridge br0 exists, but {difference}"):
            planning.plan_bridge(state, spec(**words))


def test_a_file_of_a_bridge_that_is_there_is_not_written_over(host: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one of ours, so it would be taken for what an interrupted change has left."""
    there = network(ETH0, link("eth1"), link("br0-bond0", kind="bridge"))
    bond = spec(uplink={"bond": ["eth0", "eth1"]})
    monkeypatch.setattr(planning, "made_by", lambda name: object() if name == "br0-bond0" else None)
    with pytest.raises(ConflictError, match="a file of br0 would be called as one of the bridge br0-bond0 .br0-bond0."):
        planning.plan_bridge(there, bond)
    # And the other way round.
    made = network(
        link("eth9", addresses=("192.0.2.10/24",)),
        *(link("br1", kind="bridge"), link("bond0", kind="bond", master="br1"), link("eth2", master="bond0")),
        default="eth9",
    )
    monkeypatch.setattr(planning, "made_by", lambda name: object() if name == "br1" else None)
    for name in ("br1-bond0", "br1-port-eth2", "br1-eth2"):
        with pytest.raises(ConflictError, match=f"as one of the bridge br1 .{name}."):
            planning.plan_bridge(made, read_bridge({"name": name}, ""))


def test_a_route_by_hand_is_not_lost(host: object) -> None:
    words = ("unicast", "203.0.113.0/24", "via", "192.0.2.2", "dev", "eth0")
    by_hand = Route("eth0", "192.0.2.2", "203.0.113.0/24", protocol="boot", words=words)
    state = Network({"eth0": ETH0}, (Route("eth0", "192.0.2.1", protocol="static"),), (by_hand,))
    with pytest.raises(ConflictError, match="the route to 203.0.113.0/24 via 192.0.2.2 on eth0 is in no configuration"):
        planning.plan_bridge(state, spec())
    # Who names all that the bridge is to have has thought of it; and it comes back with the old network.
    change = planning.plan_bridge(state, spec(addresses=["192.0.2.10/24"]))
    assert change is not None
    assert ("ip", "-4", "route", "replace", *words) in change.mend
    assert "there is no route to 203.0.113.0/24 via 192.0.2.2 on eth0" in [check.complaint for check in change.back]
