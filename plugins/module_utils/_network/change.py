# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a bridge is there. Decides; touches nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import NetworkdFile, bridge_files
from ansible_collections.brine.virt.plugins.module_utils._network.observe import (
    NETWORKD_FOLDERS,
    Link,
    Network,
    Route,
    observe_networkd,
    other_manager,
)

BY_HAND = "Create the bridge by hand: an existing bridge is left as it is"


@dataclass(frozen=True)
class Change:
    """A bridge to be made: the files that make it, and what must be on it afterwards."""

    bridge: str
    uplink: str
    files: tuple[NetworkdFile, ...]
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]


def plan_bridge(network: Network, bridge: str, uplink: str | None) -> Change | None:
    """The change that gives a host this bridge, None when it is there. Raises where that would be unsafe.

    uplink: the interface that becomes the bridge's port; None is the one with the default route.
    """
    existing = network.links.get(bridge)
    if existing is not None:
        _check_existing(network, existing, uplink)
        return None
    link = _uplink(network, bridge, uplink)
    networkd = observe_networkd(link.name)
    if networkd is None:
        raise UnsupportedError(
            f"the uplink {link.name} is managed by {other_manager(link.name)}; the role moves uplinks that"
            " systemd-networkd manages, also by netplan's files",
            hint=BY_HAND,
        )
    if networkd.foreign_addresses or (networkd.source is None and link.addresses):
        lost = ", ".join(networkd.foreign_addresses or link.addresses)
        raise ConflictError(
            f"{lost} on {link.name} is in no configuration of systemd-networkd and would be lost",
            hint=f"Write it into the .network file of {link.name}, or remove it",
        )
    files = bridge_files(
        bridge=bridge,
        uplink=link.name,
        mac=link.mac,
        source=networkd.source,
        dhcpv4_iaid=networkd.dhcpv4_iaid,
        dhcpv6_iaid=networkd.dhcpv6_iaid,
    )
    _check_no_file_in_the_way(bridge, files)
    return Change(bridge, link.name, files, link.addresses, _gateways(network.default_routes, link.name))


def missing_on_bridge(network: Network, change: Change) -> list[str]:
    """What the uplink had and the bridge has not, in words; empty when nothing is missing."""
    bridge = network.links.get(change.bridge)
    if bridge is None:
        return [f"the interface {change.bridge}"]
    uplink = network.links.get(change.uplink)
    missing = [] if uplink is not None and uplink.master == change.bridge else [f"its port {change.uplink}"]
    missing += [f"the address {address}" for address in change.addresses if address not in bridge.addresses]
    present = _gateways(network.default_routes, change.bridge)
    return missing + [f"the gateway {gateway}" for gateway in change.gateways if gateway not in present]


def _gateways(routes: tuple[Route, ...], device: str) -> tuple[str, ...]:
    return tuple(route.gateway for route in routes if route.device == device and route.gateway)


def _check_existing(network: Network, existing: Link, uplink: str | None) -> None:
    if existing.kind not in ("bridge", "openvswitch"):
        kind = f"of the kind {existing.kind}" if existing.kind else "a network card"
        raise ConflictError(f"{existing.name} exists and is {kind}, not a bridge", hint="Give the bridge another name")
    if uplink is None:
        return
    link = network.links.get(uplink)
    if link is None:
        raise NotFoundError(f"the uplink {uplink} does not exist", hint=_known(network))
    if link.master != existing.name:
        raise ConflictError(
            f"the bridge {existing.name} exists, but {uplink} is not its port",
            hint="An existing bridge is left as it is: add the port by hand, or leave out its uplink",
        )


def _uplink(network: Network, bridge: str, name: str | None) -> Link:
    """The link to become a port, when that is safe."""
    if name is None:
        if not network.default_routes:
            raise InputError(
                f"no interface has a default route, so the uplink of {bridge} cannot be guessed", hint="Name it"
            )
        name = network.default_routes[0].device
        if network.links[name].kind == "bridge":
            raise InputError(
                f"the default route is on {name}, which is already a bridge",
                hint=f"Name the uplink of {bridge}, or call the bridge {name}",
            )
    link = network.links.get(name)
    if link is None:
        raise NotFoundError(f"the uplink {name} does not exist", hint=_known(network))
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
    if not _could_be_port(link):
        raise UnsupportedError(
            f"the uplink {name} cannot be a bridge's port: it is of the kind {link.kind or link.link_type}",
            hint=_known(network),
        )
    return link


def _could_be_port(link: Link) -> bool:
    # The kernel takes no bridge into a bridge, and a tun or tap device belongs to a machine.
    return link.link_type == "ether" and link.kind not in ("bridge", "tun")


def _known(network: Network) -> str:
    names = [
        link.name
        for link in network.links.values()
        if _could_be_port(link) and link.master is None and not link.wireless
    ]
    return f"Possible interfaces: {', '.join(names) or 'none'}"


def _check_no_file_in_the_way(bridge: str, files: tuple[NetworkdFile, ...]) -> None:
    for file in files:
        for folder in NETWORKD_FOLDERS:
            path = f"{folder}/{file.name}"
            if os.path.exists(path):
                raise ConflictError(
                    f"{path} exists, but the bridge {bridge} does not",
                    hint="Remove the file, or let `networkctl reload` create the bridge from it, and run again",
                )
