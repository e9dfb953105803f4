# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's links can be used for, and what a bridge of somebody else's lacks."""

from __future__ import annotations

from collections.abc import Iterable

from .._base.errors import ConflictError, NotFoundError, UnsupportedError
from .managers.kernel import vlan_difference
from .managers.manager import BY_HAND
from .observe import TAKES_ALL, Link, Network
from .spec import BridgeSpec, Uplink, numbers_in, vlan_word


def checked_link(network: Network, name: str, *, of_vlan: bool = False) -> Link:
    """An interface to become a port, or to get a VLAN on it, when that is safe. Raises."""
    link = network.links.get(name)
    if link is None:
        raise NotFoundError(f"the uplink {name} does not exist", hint=known(network))
    if of_vlan:
        # A VLAN on a bridge is a link as any other.
        if link.link_type != "ether":
            raise UnsupportedError(f"{name} is not an Ethernet interface, so it has no VLANs", hint=known(network))
        return link
    if link.master is not None:
        master = network.links.get(link.master)
        raise ConflictError(
            f"the uplink {name} is a port of the {master.kind if master else 'device'} {link.master}", hint=BY_HAND
        )
    if link.wireless:
        raise UnsupportedError(
            f"the uplink {name} is wireless, and an access point drops frames of other machines",
            hint="Name a wired uplink",
        )
    if not could_be_port(link):
        raise UnsupportedError(
            f"the uplink {name} cannot be a bridge's port: it is of the kind {link.kind or link.link_type}",
            hint=known(network),
        )
    above = next((one for one in network.links.values() if one.below == name and one.kind in TAKES_ALL), None)
    if above is not None:
        raise ConflictError(
            f"{above.name} on the uplink {name} is of the kind {above.kind}, which takes all frames of {name}, so it "
            "cannot be a bridge's port",
            hint=f"Name another uplink, or remove {above.name} first: if it is a machine's nic, shut the machine down",
        )
    return link


def check_new_vlan(network: Network, uplink: Uplink) -> None:
    """Refuse a VLAN to be made where the kernel would not make it, or where its frames go elsewhere. Raises
    ConflictError.
    """
    number, link = uplink.vlan or 0, network.links[uplink.link]
    master = network.links.get(link.master or "")
    if master is not None and master.kind == "bond":
        raise ConflictError(f"{link.name} is a port of the bond {master.name}", hint=f"Write link: {master.name}")
    same = next((one for one in vlans_on(network, link.name) if one.vlan == number), None)
    if same is not None:
        raise ConflictError(
            f"VLAN {number} of {link.name} is there already, and is called {same.name}",
            hint=f"Add name: {same.name} to the uplink, whose addresses the bridge then takes over",
        )
    apart = link.bridge is not None and link.bridge.vlan_filtering
    if apart and link.bridge and (number == link.bridge.pvid or number not in numbers_in(link.vlans)):
        raise ConflictError(
            f"{link.name} keeps VLANs apart, and is not itself in VLAN {number} as a tagged one: nothing would come "
            "through",
            hint=f"Put {link.name} into it first (bridge vlan add dev {link.name} vid {number} self), and write that "
            "into its configuration",
        )
    of_port = master.bridge if master else None
    if of_port and of_port.vlan_filtering and number != of_port.pvid and number in numbers_in(link.vlans):
        raise ConflictError(
            f"{link.name} carries VLAN {number} into the bridge {link.master}, which would no longer get it",
            hint=f"Give the machines a nic on {link.master} with vlan: {number}, or take {number} out of its vlans",
        )


def check_vlans_arrive(network: Network, port: str, vlans: Iterable[tuple[int, int]]) -> None:
    """Raise ConflictError where an interface on a bridge's port takes the frames of a VLAN that the port is to carry:
    the kernel gives it these before the bridge sees them.
    """
    numbers = numbers_in(vlans)
    for above in vlans_on(network, port):
        if above.vlan in numbers:
            raise ConflictError(
                f"{above.name} on {port} takes all frames of VLAN {above.vlan}, so the bridge would get none of them",
                hint=f"Leave {above.vlan} out of vlans, or remove {above.name}",
            )


def vlans_on(network: Network, name: str) -> list[Link]:
    """The VLANs that are made on an interface."""
    return [link for link in network.links.values() if link.kind == "vlan" and link.below == name]


def could_be_port(link: Link) -> bool:
    """Whether the kernel takes it into a bridge: no bridge; and a tun or tap device belongs to a machine."""
    return link.link_type == "ether" and link.kind not in ("bridge", "tun")


def known(network: Network) -> str:
    """The hint with the interfaces that could become ports."""
    names = [
        link.name
        for link in network.links.values()
        if could_be_port(link) and link.master is None and not link.wireless
    ]
    return f"Possible interfaces: {', '.join(names) or 'none'}"


def uplink_difference(network: Network, uplink: Uplink, bridge: Link) -> str:
    """How a bridge's port differs from the uplink that is asked for, as a clause; empty where it does not.

    An interface of a bond that is gone from the host is no difference, nor one without a cable: NetworkManager puts
    it into the bond when it has one.
    """
    port = network.links.get(uplink.port)
    if port is None or port.master != bridge.name:
        return f"{uplink.port} is not its port"
    if uplink.vlan is not None and (port.vlan != uplink.vlan or port.below not in (None, uplink.link)):
        return f"its port {port.name} is not VLAN {uplink.vlan} of {uplink.link}"
    if uplink.bond:
        have = network.ports(port.name)
        more = [name for name in have if name not in uplink.bond]
        lacking = [name for name in uplink.bond if name not in have]
        lacking = [name for name in lacking if name in network.links and network.links[name].carrier]
        if more or lacking or port.kind != "bond":
            return (
                f"its port {port.name} is a bond of {', '.join(have)}" if have else f"its port {port.name} is no bond"
            )
        if port.mode not in ("", uplink.mode):
            return f"its port {port.name} is a bond with the mode {port.mode}, not {uplink.mode}"
    return ""


def foreign_differences(network: Network, spec: BridgeSpec, bridge: Link) -> list[str]:
    """What the spec names and the kernel does not say of a bridge, in words. DHCP and name servers it does not know."""
    found = []
    if spec.uplink is not None:
        link = network.links.get(spec.uplink.port)
        if link is None and not spec.uplink.bond and spec.uplink.vlan is None:
            raise NotFoundError(f"the uplink {spec.uplink.port} does not exist", hint=known(network))
        different = uplink_difference(network, spec.uplink, bridge)
        found += [different] if different else []
    found += [f"it has no address {address}" for address in spec.seen_addresses if address not in bridge.addresses]
    gateways = network.gateways(bridge.name)
    found += [f"{gateway} is not its gateway" for gateway in spec.gateway or () if gateway not in gateways]
    routes = {(route.to, route.gateway) for route in network.routes if route.device == bridge.name}
    routes |= {("default", gateway) for gateway in gateways}
    for route in spec.routes or ():
        to = "default" if route["to"].endswith("/0") else route["to"].removesuffix("/32").removesuffix("/128")
        found += [] if (to, route["via"]) in routes else [f"it has no route to {route['to']} via {route['via']}"]
    if spec.mtu is not None and bridge.mtu != spec.mtu:
        found.append(f"its MTU is {bridge.mtu}, not {spec.mtu}")
    if bridge.bridge is None:
        # Open vSwitch: the kernel knows neither its STP nor its VLANs.
        return found
    for word, value in (("stp", spec.stp), ("vlan_filtering", spec.vlan_filtering)):
        if value is not None and getattr(bridge.bridge, word) is not value:
            found.append(f"{word} is {str(not value).lower()}")
    if spec.vlan_filtering:
        if spec.pvid is not None and bridge.bridge.pvid != spec.pvid:
            found.append(f"its pvid is {bridge.bridge.pvid}, not {spec.pvid}")
        link = network.links.get(spec.uplink.port) if spec.uplink else None
        if spec.vlans is not None and link is not None:
            _extra, missing = vlan_difference(spec.vlans, link.vlans)
            found += [f"{link.name} does not carry VLAN {vlan_word(*vlans)}" for vlans in missing]
    return found
