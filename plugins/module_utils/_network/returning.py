# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to know that a host has its old network again, and what brings back what no network manager has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .commands import IS_PORT
from .observe import Link, Network, Route
from .switch.guarded import Check, Command

# Addresses in files are there as soon as these have been read; a DHCP server or a router may take its time.
_STATIC_SECONDS, _DYNAMIC_SECONDS = 20, 60
# By ip(8) itself, by hand or in a script; and by a network manager, of its files.
_FOR_GOOD = ("boot", "static")
# Of one with a peer, ip(8) writes the prefix after that.
_HAS_ADDRESS = 'ip -oneline address show dev "$1" | grep -qF -e " $2 " -e " ${2%/*} peer "'
# The gateways of one route are lines of their own.
_HAS_ROUTE = 'way=$1; shift; ip "$@" | grep -qF -e "$way"'
_IS_GONE = '! ip link show dev "$1"'


@dataclass(frozen=True)
class Returning:
    """The parts of a change that are about its end when it is undone, as GuardedChange has them."""

    mend: tuple[Command, ...] = ()
    back: tuple[Check, ...] = ()
    seconds: int = _STATIC_SECONDS


def returning(network: Network, links: Iterable[Link], *, bridge: str = "", port: str = "") -> Returning:
    """What has to be as before: all addresses of these links, of both versions of IP, whoever has given them; the
    default routes of the whole host; and those of the links' routes that are neither DHCP's nor a router's.

    links: those that the change takes addresses from, or configures again. Only the main routing table is seen to.
    bridge: the one that the change is about: one that was there has its port again, also where it has no address that
    would tell; a new one is gone, with the bond or VLAN that was made for it.
    """
    was_port = bool(port) and port in network.links and network.links[port].master == bridge
    found = list(links)
    names = {link.name for link in found}
    routes = [route for route in network.routes if route.device in names and route.protocol in _FOR_GOOD]
    defaults = network.default_routes
    lasting = [*(route for route in defaults if route.device in names and route.protocol in _FOR_GOOD), *routes]
    dynamic = any(set(link.returning) - set(link.static) for link in found)
    dynamic = dynamic or any(route.device in names and route.protocol not in _FOR_GOOD for route in defaults)
    return Returning(
        mend=(
            *((("ip", "link", "set", "dev", port, "master", bridge, "up"),) if was_port else ()),
            *(
                ("ip", "address", "add", address, "dev", link.name)
                for link in found
                for address in link.static
                if address in link.returning
            ),
            *dict.fromkeys(
                ("ip", f"-{route.version}", "route", "replace", *route.words) for route in lasting if route.words
            ),
        ),
        back=(
            *(
                (Check(("sh", "-c", IS_PORT, "sh", port, bridge), f"{port} is not a port of {bridge}"),)
                if was_port
                else ()
            ),
            *(
                Check(("sh", "-c", _IS_GONE, "sh", name), f"{name} is still there")
                for name in (bridge, port)
                if name and name not in network.links
            ),
            *(
                Check(
                    ("sh", "-c", _HAS_ADDRESS, "sh", link.name, address),
                    f"{link.name} has no address {address}",
                )
                for link in found
                # One that is being checked for duplicates is global, too, and is not lost for that.
                for address in dict.fromkeys((*link.addresses, *link.returning))
            ),
            *(_route_check(route) for route in dict.fromkeys((*defaults, *routes))),
        ),
        seconds=_DYNAMIC_SECONDS if dynamic else _STATIC_SECONDS,
    )


def _route_check(route: Route) -> Check:
    words = [f"-{route.version}", "route", "show", "to", *(["exact"] if route.to != "default" else []), route.to]
    way = f"{f' {route.gateway}' if route.gateway else ''} dev {route.device} "
    via = f" via {route.gateway}" if route.gateway else ""
    return Check(
        ("sh", "-c", _HAS_ROUTE, "sh", way, *words),
        f"there is no {'default route' if route.to == 'default' else f'route to {route.to}'}{via} on {route.device}",
    )
