# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's network is now, as the kernel has it: its links, bridges and routes. Only reads."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t
from dataclasses import dataclass, field

from .._base.errors import HostError
from .._base.files import read_text
from .commands import run

# Kinds of interfaces on top of another one that take all its frames: the kernel lets only one of them have these, and
# so no bridge (netdev_rx_handler_register).
TAKES_ALL = ("macvlan", "macvtap", "ipvlan", "ipvtap", "macsec")


@dataclass(frozen=True)
class BridgeState:
    """What the kernel says of a bridge. forward_delay: in hundredths of a second."""

    stp: bool = False
    forward_delay: int = 0
    vlan_filtering: bool = False
    pvid: int = 1


@dataclass(frozen=True)
class Link:
    """A network interface. kind: the kernel's word for a virtual one, such as bridge or veth, else empty.

    bridge: of a bridge alone. vlans: of a bridge's port, those that it carries, as ranges.
    """

    name: str
    mac: str
    kind: str
    link_type: str
    master: str | None
    wireless: bool
    # Global addresses in CIDR form that must not get lost: all IPv4, and IPv6 that is not given for a time.
    addresses: tuple[str, ...]
    mtu: int = 0
    # Those of the addresses that somebody has given it for good, neither DHCP nor a router.
    static: tuple[str, ...] = ()
    # All global addresses that it has again when it is configured again, whoever gives them: DHCP and routers too.
    # Not those of privacy extensions.
    returning: tuple[str, ...] = ()
    bridge: BridgeState | None = None
    vlans: tuple[tuple[int, int], ...] = ()
    # Of a VLAN: its number.
    vlan: int | None = None
    # Of a bond: its mode, in the kernel's word; empty where that is not told.
    mode: str = ""
    # Of a VLAN, and of what takes all frames of an interface: the interface that it is on.
    below: str | None = None
    # Whether it is up, and has a cable or what stands for one.
    carrier: bool = True


@dataclass(frozen=True)
class Route:
    """A route: the interface, the gateway (empty when the link itself is the gateway), where to, and its metric.

    protocol: who has made it, in the words of ip(8): `boot` is ip itself, by hand or in a script. words: all of it, as
    `ip route add` takes it, with the other gateways of the same route. table: empty for the main one.
    """

    device: str
    gateway: str
    to: str = "default"
    metric: int = 0
    version: int = 4
    protocol: str = ""
    words: tuple[str, ...] = ()
    table: str = ""


@dataclass(frozen=True)
class Network:
    """All links by name, the default routes, best first (IPv4 before IPv6), and all other routes of the main table.

    tables: the routes of other tables but the kernel's own one. machine: what identifies the host, for addresses that
    are derived.
    """

    links: dict[str, Link]
    default_routes: tuple[Route, ...]
    routes: tuple[Route, ...] = ()
    tables: tuple[Route, ...] = ()
    machine: str = field(default="", repr=False)

    def ports(self, bridge: str) -> list[str]:
        """The names of a bridge's ports."""
        return [link.name for link in self.links.values() if link.master == bridge]

    def gateways(self, device: str) -> tuple[str, ...]:
        """The gateways of the default routes over an interface."""
        return tuple(route.gateway for route in self.default_routes if route.device == device and route.gateway)

    def leads(self, device: str, version: int) -> bool:
        """Whether an interface has a default route of this version of IP, and none comes before it."""
        routes = [route for route in self.default_routes if route.version == version]
        return any(route.device == device and route.metric == routes[0].metric for route in routes)


def observe_network() -> Network:
    """The host's links and routes now. Raises HostError."""
    vlans = _vlans(run("bridge", "-json", "vlan", "show"))
    links = {
        link.name: link
        for link in (
            _link(data, vlans) for data in json.loads(run("ip", "-json", "-details", "address", "show") or "[]")
        )
    }
    found = [
        (position, int(route.get("metric", 0)), _route(route, hop, 6 if position else 4))
        for position, family in enumerate(("-4", "-6"))
        for route in json.loads(run("ip", "-json", family, "route", "show", "table", "all") or "[]")
        if "dst" in route and route.get("table") != "local"
        # One with several gateways names them and their interfaces there alone.
        for hop in route.get("nexthops", [route])
        if "dev" in hop
    ]
    found.sort(key=lambda entry: entry[:2])
    routes = [route for _position, _metric, route in found if not route.table]
    return Network(
        links,
        tuple(route for route in routes if route.to == "default"),
        tuple(route for route in routes if route.to != "default"),
        tuple(route for _position, _metric, route in found if route.table),
        (read_text("/etc/machine-id") or "").strip(),
    )


def stable_mac(network: Network, bridge: str) -> str:
    """An address for a bridge without an uplink: the same after each boot, and another one on each host.

    It is locally administered (IEEE 802: the second bit of the first octet).
    """
    digest = hashlib.sha256(f"brine.virt bridge {bridge} {network.machine}".encode()).hexdigest()
    return "02:" + ":".join(digest[index : index + 2] for index in range(0, 10, 2))


# What ip(8) says of a route, and the word by which it is told the same.
_ROUTE_WORDS = {"protocol": "proto", "metric": "metric", "scope": "scope", "table": "table"}
_ROUTE_WORDS.update(prefsrc="src", pref="pref", tos="tos")


def _route(data: dict[str, t.Any], hop: dict[str, t.Any], version: int) -> Route:
    """A route. hop: the one of its gateways that this is about."""
    words = [data.get("type", "unicast"), data["dst"]]
    for key, word in _ROUTE_WORDS.items():
        words += [word, str(data[key])] if key in data else []
    # Such as its MTU.
    words += [word for found in data.get("metrics", []) for pair in found.items() for word in map(str, pair)]
    words += _way(data)
    for one in data.get("nexthops", []):
        words += ["nexthop", *_way(one), "weight", str(one.get("weight", 1))]
    return Route(
        hop["dev"],
        hop.get("gateway", ""),
        data["dst"],
        int(data.get("metric", 0)),
        version,
        # The one that ip(8) does not say.
        str(data.get("protocol", "boot")),
        tuple(words),
        "" if data.get("table") in (None, "main") else str(data["table"]),
    )


def _way(hop: dict[str, t.Any]) -> list[str]:
    """Where a route, or one gateway of it, leads, as `ip route add` takes it."""
    words = [word for key, name in (("gateway", "via"), ("dev", "dev")) if key in hop for word in (name, hop[key])]
    # A gateway of the other version of IP.
    words += ["via", hop["via"]["family"], hop["via"]["host"]] if "via" in hop else []
    return [*words, *(["onlink"] if "onlink" in hop.get("flags", []) else [])]


# What ip(8) says of addresses that an interface does not get again: those of privacy extensions, those that are about
# to go, and those that another host may have.
_NOT_FOR_LONG = ("temporary", "deprecated", "tentative", "dadfailed")


def _link(data: dict[str, t.Any], vlans: dict[str, tuple[tuple[int, int], ...]]) -> Link:
    name = data["ifname"]
    info = data.get("linkinfo", {})
    kind, details = info.get("info_kind", ""), info.get("info_data", {})
    return Link(
        name=name,
        mac=data.get("address", ""),
        kind=kind,
        link_type=data.get("link_type", ""),
        master=data.get("master"),
        wireless=any(os.path.exists(f"/sys/class/net/{name}/{entry}") for entry in ("wireless", "phy80211")),
        addresses=_addresses(data, _is_kept),
        mtu=int(data.get("mtu", 0)),
        static=_addresses(data, lambda address: not address.get("dynamic")),
        returning=_addresses(data, lambda address: not any(address.get(word) for word in _NOT_FOR_LONG)),
        bridge=_bridge(details) if kind == "bridge" else None,
        vlans=vlans.get(name, ()),
        vlan=details.get("id") if kind == "vlan" else None,
        mode=details.get("mode", "") if kind == "bond" else "",
        below=data.get("link") if kind in ("vlan", *TAKES_ALL) else None,
        carrier="LOWER_UP" in data.get("flags", ()),
    )


def _is_kept(address: dict[str, t.Any]) -> bool:
    """Whether an address must not get lost: not where the kernel does not use it, as another host has it."""
    return not address.get("dadfailed") and (address["family"] == "inet" or not address.get("dynamic"))


def _addresses(data: dict[str, t.Any], counts: t.Callable[[dict[str, t.Any]], bool]) -> tuple[str, ...]:
    """Those global addresses of an interface that count, in CIDR form."""
    return tuple(
        f"{address['local']}/{address['prefixlen']}"
        for address in data.get("addr_info", [])
        if address.get("scope") == "global" and "local" in address and counts(address)
    )


def _bridge(details: dict[str, t.Any]) -> BridgeState:
    return BridgeState(
        stp=bool(details.get("stp_state")),
        forward_delay=int(details.get("forward_delay", 0)),
        vlan_filtering=bool(details.get("vlan_filtering")),
        pvid=int(details.get("vlan_default_pvid", 1)),
    )


def _vlans(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """The VLANs of each port, out of the answer of bridge(8)."""
    try:
        said = json.loads(text or "[]")
        # As iproute2 before 5.0 says it.
        ports = said.items() if isinstance(said, dict) else ((port["ifname"], port["vlans"]) for port in said)
        return {
            name: tuple((vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"])) for vlan in vlans) for name, vlans in ports
        }
    except (ValueError, KeyError, TypeError) as exc:
        raise HostError(f"the answer of bridge vlan show cannot be read: {exc}") from exc
