# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address ranges and bridges that somebody else has already, or that the host would lose its connections by.

libvirt finds out when it starts a network, and only where the two prefixes are the same («Network is already in use by
interface», networkCheckRouteCollision in its src/network/bridge_driver_linux.c). This is said before anything is done.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Iterable, Mapping

from ..._base.errors import ConflictError, Mistakes
from ..._host.facts.host_routes import HostRoute, IPAddress, IPNetwork
from ..._model.spec.resources.network.spec import NetworkSpec
from ..._model.spec.resources.network.table import OWN_BRIDGE
from .view import NetworkView

_UNREACHABLE = "Choose another prefix, or the host itself would no longer reach what is there"


def check_collisions(view: NetworkView, spec: NetworkSpec, *, only_starts: bool = False) -> None:
    """Raises ConflictError with all that stands in the way of a network that is to be defined or started.

    only_starts: its definition keeps its addresses and its bridge, so that only what runs can be in its way.
    """
    mistakes = Mistakes()
    if spec.whole["mode"] not in OWN_BRIDGE:
        return
    others = view.others(spec.name, running=only_starts)
    with mistakes.noted():
        _check_bridge(view, spec, others)
    # What other networks have in the table of routes is said by their names.
    made = view.bridges_in_use()
    routes = [route for route in view.routes or () if route.interface not in made]
    # What is on an interface is said by that, and what is on a libvirt network, or behind it, by that one.
    near = [route.network for route in view.routes or () if route.direct or route.interface in made]
    # One with its own end in the network is with a machine on it, or behind it: it outlives a network that is stopped.
    networks = [ipaddress.ip_interface(text).network for text in spec.whole.get("addresses", ())]
    far = [peer for own, peer in view.connections if not any(own in one for one in networks)]
    far = [peer for peer in far if not any(peer in network for network in near)]
    # A network that is stopped may have the name server on it.
    defined = view.values(spec.name) or {}
    own_already = [ipaddress.ip_interface(text).network for text in defined.get("addresses", ())]
    own_already += [ipaddress.ip_network(row["to"]) for row in defined.get("routes", ())]
    asked = [one for one in view.name_servers if not any(one in network for network in (*near, *own_already))]
    for index, text in enumerate(spec.whole.get("addresses", ())):
        interface = ipaddress.ip_interface(text)
        network = interface.network
        if network.is_link_local:
            # Each link has the same.
            continue
        with mistakes.noted():
            where = f"{spec.given.at('addresses')}[{index}]" if "addresses" in spec.options else spec.given.at("name")
            _check_networks(network, text, others, where)
            _check_routes(network, text, routes, where)
            _check_peers(network, text, far, where)
            _check_name_servers(network, text, [one for one in asked if one != interface.ip], where)
    for index, row in enumerate(spec.whole.get("routes", ())):
        with mistakes.noted():
            where = f"{spec.given.at('routes')}[{index}]" if "routes" in spec.options else spec.given.at("name")
            network = ipaddress.ip_network(row["to"])
            _check_routes(network, f"the route to {network}", routes, where)
            _check_peers(network, f"the route to {network}", far, where)
            _check_name_servers(network, f"the route to {network}", asked, where)
    mistakes.conclude()


def _check_bridge(view: NetworkView, spec: NetworkSpec, others: Iterable[tuple[str, Mapping[str, t.Any]]]) -> None:
    bridge = spec.whole.get("bridge")
    if bridge is None:
        return
    where = spec.given.at("bridge") if "bridge" in spec.options else spec.given.at("name")
    for name, values in others:
        if values.get("bridge") == bridge:
            raise ConflictError(
                f"the bridge {bridge} is that of network {name}", where=where, hint="Choose another name for the bridge"
            )
    if view.has_interface is not None and view.has_interface(bridge) and bridge not in view.bridges_in_use():
        raise ConflictError(
            f"the host has an interface {bridge} already, which is not that of network {spec.name}",
            where=where,
            hint="Choose another name for the bridge that libvirt makes, or set mode: bridge for machines on this one",
        )


def _check_networks(
    network: IPNetwork, text: str, others: Iterable[tuple[str, Mapping[str, t.Any]]], where: str
) -> None:
    for name, values in others:
        for other in values.get("addresses", ()):
            if network.overlaps(ipaddress.ip_interface(other).network):
                raise ConflictError(
                    f"{text} overlaps {other} of network {name}", where=where, hint="Choose another prefix"
                )


def _check_routes(network: IPNetwork, text: str, routes: Iterable[HostRoute], where: str) -> None:
    """A route over a gateway to more than this prefix goes on to serve the rest of it, as the longest prefix counts."""
    for route in routes:
        if route.network.version != network.version or not network.overlaps(route.network):
            continue
        if route.direct or route.network.prefixlen >= network.prefixlen:
            raise ConflictError(
                f"{text} overlaps {route.network}, which the host has on its interface {route.interface}",
                where=where,
                hint=_UNREACHABLE,
            )


def _check_peers(network: IPNetwork, text: str, far: Iterable[IPAddress], where: str) -> None:
    """What the host reaches over a gateway only because no other route is longer, such as the controller itself."""
    peer = next((peer for peer in far if peer in network), None)
    if peer is not None:
        raise ConflictError(
            f"{text} includes {peer}, with which the host has a connection over its gateway",
            where=where,
            hint=_UNREACHABLE,
        )


def _check_name_servers(network: IPNetwork, text: str, servers: Iterable[IPAddress], where: str) -> None:
    server = next((server for server in servers if server in network), None)
    if server is not None:
        raise ConflictError(
            f"{text} includes {server}, the name server of the host, which it reaches over its gateway",
            where=where,
            # Whether there is one already, only a question to it could tell, which may take long to be answered.
            hint=f"{_UNREACHABLE}. If it is to be a machine on this network, name it in the host's resolv.conf later",
        )
