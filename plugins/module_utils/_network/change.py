# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a bridge is as its spec says. Decides; touches nothing."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from .._base.errors import ConflictError, HostError, InputError, NotFoundError
from .checks import (
    check_new_vlan,
    check_vlans_arrive,
    checked_link,
    could_be_port,
    foreign_differences,
    known,
    uplink_difference,
    vlans_on,
)
from .managers.choice import check_is_of, choose_manager, made_by
from .managers.kernel import settings_of, vlan_difference
from .managers.manager import Manager, Parts, WantedBridge, check_routes_are_known
from .names import file_names
from .observe import Link, Network, stable_mac
from .returning import returning
from .spec import BridgeSpec, Uplink, numbers_in, vlan_word
from .switch.control import PendingChange
from .switch.guarded import GuardedChange

# An Ethernet interface has it where nobody says anything.
_USUAL_MTU = 1500


@dataclass(frozen=True)
class Expected:
    """What a bridge must have before its change is confirmed. uplink: its port, empty for none.

    any_address: it asks for one, and which it gets is not known. settings: of the kernel, by BridgeState's words; its
    mtu, which is its port's as well; and the vlans that its port carries tagged, as ranges [first, last]. members: of
    the bond that is its port. leads: the versions of IP of which its default route comes before all others.
    """

    bridge: str
    uplink: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    any_address: bool = False
    settings: Mapping[str, t.Any] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    leads: tuple[int, ...] = ()


def expected_from(said: Mapping[str, t.Any]) -> Expected:
    """What the switch remembers, also of an earlier version. Raises KeyError, TypeError."""
    return Expected(
        said["bridge"],
        said["uplink"],
        tuple(said["addresses"]),
        tuple(said["gateways"]),
        bool(said.get("any_address")),
        dict(said.get("settings") or {}),
        tuple(said.get("members") or ()),
        tuple(said.get("leads") or ()),
    )


def remembered(change: PendingChange) -> Expected:
    """What a bridge whose change is under way must have. Raises HostError where that cannot be read."""
    try:
        return expected_from(change.subject)
    except (KeyError, TypeError) as exc:
        raise HostError(
            f"the change of the bridge under way cannot be read: {exc}", hint="Run again in a few minutes"
        ) from exc


def asks_for(spec: BridgeSpec, change: PendingChange) -> bool:
    """Whether a change under way is what the spec asks for. An earlier version remembers nothing but the uplink."""
    if "spec" not in change.subject:
        return spec.uplink is None or spec.uplink.port == remembered(change).uplink
    return change.subject["spec"] == _as_json(spec)


def _as_json(one: BridgeSpec | Expected) -> dict[str, t.Any]:
    """As the switch remembers it."""
    found: dict[str, t.Any] = json.loads(json.dumps(asdict(one)))
    return found


def switch_name(bridge: str) -> str:
    """What the change of a bridge is called."""
    return f"bridge-{bridge}"


def plan_bridge(network: Network, spec: BridgeSpec) -> GuardedChange | None:
    """The change that makes a bridge as its spec says, None when it is. Raises where that would be unsafe."""
    existing = network.links.get(spec.name)
    maker = made_by(spec.name) if existing is not None and existing.kind == "bridge" else None
    begun = maker is not None and maker.begun(spec.name)
    if existing is not None and not begun:
        return _plan_existing(network, spec, existing)
    uplink, source = _uplink(network, spec)
    _check_names(network, spec)
    below = uplink.below if uplink else ()
    manager = choose_manager(spec, network, below)
    mac = network.links[source.name if source else below[0]].mac if below else stable_mac(network, spec.name)
    # A larger one may be DHCP's: then it would be the bridge's alone, and the port drop what is larger than usual.
    mtu = source.mtu if source is not None and source.mtu > _USUAL_MTU and spec.mtu is None else spec.mtu
    wanted = WantedBridge(replace(spec, mtu=mtu), uplink, mac, network, source)
    verb = f"adding {uplink.words} to {spec.name}" if uplink else f"creating {spec.name}"
    return _guarded(wanted, spec, verb, manager, manager.make(wanted))


def _check_names(network: Network, spec: BridgeSpec) -> None:
    """Refuse a bridge with a file that would be called as one of another bridge of ours that is there."""
    for link in network.links.values():
        if link.kind != "bridge" or link.name == spec.name or made_by(link.name) is None:
            continue
        ports = [network.links[port] for port in network.ports(link.name)]
        made = next((port.name for port in ports if port.kind in ("bond", "vlan")), "")
        members = [other.name for other in network.links.values() if made and other.master == made]
        shared = sorted({*spec.file_names} & {*file_names(link.name, made, members)})
        if shared:
            raise ConflictError(
                f"a file of {spec.name} would be called as one of the bridge {link.name} ({shared[0]})",
                hint=f"Give it, or its bond or VLAN, another name, for example {spec.name.replace('-', '_')}",
            )


def _plan_existing(network: Network, spec: BridgeSpec, existing: Link) -> GuardedChange | None:
    if existing.kind not in ("bridge", "openvswitch"):
        kind = f"of the kind {existing.kind}" if existing.kind else "a network card"
        raise ConflictError(f"{existing.name} exists and is {kind}, not a bridge", hint="Give the bridge another name")
    differences = foreign_differences(network, spec, existing)
    manager = made_by(spec.name) if existing.kind == "bridge" else None
    check_is_of(spec, manager)
    if manager is None:
        if differences:
            raise ConflictError(
                f"the bridge {spec.name} exists, but {differences[0]}",
                hint="It was not made by this role, so it is left as it is: change it by hand, or leave that out",
            )
        return None
    if spec.uplink is not None or spec.alone:
        port = spec.uplink.port if spec.uplink else ""
        if port and port not in network.links:
            raise NotFoundError(f"the uplink {port} does not exist", hint=known(network))
        wrong = "it has an uplink" if _own_port(network, existing) is not None else ""
        wrong = uplink_difference(network, spec.uplink, existing) if spec.uplink else wrong
        if wrong:
            raise ConflictError(
                f"the bridge {spec.name} exists, but {wrong}",
                hint="The uplink of an existing bridge is not changed: ask for what it is, or remove the bridge first",
            )
    own = spec.uplink or _own_port(network, existing)
    if spec.vlans is not None and own is None:
        raise InputError(f"vlans are the uplink's, and the bridge {spec.name} has none")
    wanted = WantedBridge(spec, own, existing.mac, network, existing=existing)
    _check_untagged(wanted)
    _check_vlans_above(wanted)
    parts = manager.change(wanted)
    if parts == Parts():
        return None
    if any(file.trial for file in parts.files):
        # The manager configures the bridge again, and takes from it what is in none of its files.
        check_routes_are_known(replace(wanted, source=existing), None, f"configuration of {manager.title}")
    return _guarded(wanted, spec, f"changing {spec.name}", manager, parts)


def _check_untagged(wanted: WantedBridge) -> None:
    """Raise InputError for a VLAN that would be tagged and untagged at once, with what the bridge has already."""
    spec, port = wanted.spec, wanted.port
    have = wanted.existing.bridge if wanted.existing else None
    if have is None or (spec.vlans, spec.pvid) == (None, None) or port is None:
        return
    pvid = have.pvid if spec.pvid is None else spec.pvid
    kept = tuple(vlans for vlans in port.vlans if have.pvid not in range(vlans[0], vlans[1] + 1))
    if any(first <= pvid <= last for first, last in (kept if spec.vlans is None else spec.vlans)):
        raise InputError(
            f"VLAN {pvid} is the one that the uplink carries untagged, and one that it carries tagged",
            hint=f"Name both vlans and pvid of {spec.name}",
        )


def _check_vlans_above(wanted: WantedBridge) -> None:
    """Raise ConflictError for VLANs that would no longer get through, on the bridge or on its port."""
    spec, existing, port = wanted.spec, wanted.existing, wanted.port
    if port is not None:
        _extra, lacking = vlan_difference(spec.vlans or (), port.vlans)
        check_vlans_arrive(wanted.network, port.name, lacking)
    if existing is None or existing.bridge is None or existing.bridge.vlan_filtering or not spec.vlan_filtering:
        return
    kept = numbers_in(existing.vlans)
    for vlan in vlans_on(wanted.network, existing.name):
        if vlan.vlan not in kept:
            raise ConflictError(
                f"{vlan.name} is VLAN {vlan.vlan} of {existing.name}, which would no longer let it through",
                hint=f"Put the bridge into it first (bridge vlan add dev {existing.name} vid {vlan.vlan} self), and "
                f"write that into its configuration; or remove {vlan.name}",
            )


def _own_port(network: Network, bridge: Link) -> Uplink | None:
    """The one port of a bridge that is no machine's."""
    ports = [name for name in network.ports(bridge.name) if could_be_port(network.links[name])]
    return Uplink(ports[0]) if len(ports) == 1 else None


def _guarded(wanted: WantedBridge, asked: BridgeSpec, words: str, manager: Manager, parts: Parts) -> GuardedChange:
    """The change as the switch carries it out. asked: what the task says, by which another run knows it again."""
    spec, source = wanted.spec, wanted.source or wanted.existing
    taken = source if not spec.addressing else None
    want = settings_of(wanted)
    settings: dict[str, t.Any] = {} if spec.mtu is None else {"mtu": spec.mtu}
    settings.update({} if spec.stp is None else {"stp": want.stp})
    if spec.vlan_filtering is not None:
        settings.update(vlan_filtering=want.vlan_filtering, **({"pvid": want.pvid} if spec.vlan_filtering else {}))
    settings.update({"vlans": [list(vlans) for vlans in spec.vlans]} if spec.vlans else {})
    uplink = wanted.uplink
    # A bond that is there may have lost an interface, which is not the change's doing.
    members = () if uplink is None else wanted.network.ports(uplink.port) if wanted.existing else uplink.bond
    expected = Expected(
        bridge=spec.name,
        uplink=uplink.port if uplink else "",
        addresses=taken.addresses if taken else spec.seen_addresses,
        gateways=wanted.network.gateways(taken.name) if taken else spec.gateway or (),
        any_address=spec.addressing and spec.asks_dhcp4 and not spec.of_family(4),
        settings=settings,
        members=tuple(members),
        leads=tuple(version for version in (4, 6) if taken and wanted.network.leads(taken.name, version)),
    )
    links = wanted.network.links
    concerned = [links[name] for name in (uplink.below if uplink else ()) if name in links]
    undone = returning(
        wanted.network,
        [wanted.existing] if wanted.existing else concerned,
        bridge=spec.name,
        port=uplink.port if uplink else "",
    )
    return GuardedChange(
        name=switch_name(spec.name),
        description=f"{words} with {manager.title}",
        **vars(parts),
        mend=undone.mend,
        back=undone.back,
        return_seconds=undone.seconds,
        subject={**_as_json(expected), "spec": _as_json(asked)},
    )


def missing_on_bridge(network: Network, expected: Expected) -> list[str]:
    """What the bridge should have and has not, in words; empty when nothing is missing."""
    bridge = network.links.get(expected.bridge)
    if bridge is None:
        return [f"the interface {expected.bridge}"]
    missing = []
    uplink = network.links.get(expected.uplink)
    if expected.uplink:
        missing += [] if uplink is not None and uplink.master == expected.bridge else [f"its port {expected.uplink}"]
        of_bond = network.ports(expected.uplink)
        missing += [f"{name} in {expected.uplink}" for name in expected.members if name not in of_bond]
    missing += [f"the address {address}" for address in expected.addresses if address not in bridge.addresses]
    missing += (
        ["an address by DHCP"] if expected.any_address and not any("." in own for own in bridge.addresses) else []
    )
    present = network.gateways(expected.bridge)
    missing += [f"the gateway {gateway}" for gateway in expected.gateways if gateway not in present]
    missing += [
        f"the first default route of IPv{version}: another one has a lower metric now"
        for version in expected.leads
        if not missing and not network.leads(expected.bridge, version)
    ]
    for word, value in expected.settings.items():
        if word == "vlans":
            carried = uplink.vlans if uplink is not None else ()
            _extra, lacking = vlan_difference(tuple((first, last) for first, last in value), carried)
            missing += [f"VLAN {vlan_word(*vlans)} on its port" for vlans in lacking]
            continue
        if word == "mtu" and uplink is not None and uplink.mtu != value:
            missing.append(f"mtu {value} of its port {uplink.name}")
        have = bridge.mtu if word == "mtu" else getattr(bridge.bridge, word, value)
        missing += [] if have == value else [f"{word} {str(value).lower()}"]
    return missing


def _uplink(network: Network, spec: BridgeSpec) -> tuple[Uplink | None, Link | None]:
    """What becomes the bridge's port, and the interface that it takes the configuration of, when that is safe."""
    if spec.alone:
        return None, None
    uplink = spec.uplink
    if uplink is None:
        if not network.default_routes:
            raise InputError(
                f"no interface has a default route, so the uplink of {spec.name} cannot be guessed", hint="Name it"
            )
        name = network.default_routes[0].device
        if network.links[name].kind == "bridge":
            raise InputError(
                f"the default route is on {name}, which is already a bridge",
                hint=f"Name the uplink of {spec.name}, or call the bridge {name}",
            )
        uplink = Uplink(name)
    there = network.links.get(uplink.port)
    if there is not None and uplink.made:
        if uplink.bond:
            same = there.kind == "bond" and {*network.ports(there.name)} == {*uplink.bond}
        else:
            same = (there.kind, there.vlan, there.below) == ("vlan", uplink.vlan, uplink.link)
        if not same:
            raise ConflictError(f"{there.name} exists, and is not {uplink.words}", hint="Give it another name")
        if there.mode not in ("", uplink.mode):
            raise ConflictError(
                f"{there.name} exists as a bond with the mode {there.mode}, not {uplink.mode}",
                hint=f"Ask for the mode {there.mode}, change it by hand, or give the bond another name and interfaces",
            )
        # Somebody else's, and just what was asked for.
        uplink = Uplink(uplink.port)
    links = [checked_link(network, name, of_vlan=uplink.vlan is not None) for name in uplink.below]
    if uplink.vlan is not None:
        check_new_vlan(network, uplink)
        return uplink, None
    check_vlans_arrive(network, uplink.port, spec.vlans or ())
    above = [vlan for name in uplink.bond for vlan in vlans_on(network, name)]
    if above:
        raise ConflictError(
            f"{above[0].name} is a VLAN on {above[0].below}, and would have to move to {uplink.port}",
            hint="Make the bond by hand",
        )
    with_addresses = [link for link in links if link.addresses or network.gateways(link.name)]
    if len(with_addresses) > 1 and not spec.addressing:
        both = " and ".join(link.name for link in with_addresses[:2])
        raise ConflictError(
            f"{both} have addresses, and the bridge can take over those of one", hint="Name the bridge's addresses"
        )
    return uplink, (with_addresses or links)[0]
