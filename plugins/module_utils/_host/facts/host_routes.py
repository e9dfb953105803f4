# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes, connections, interfaces and ports of bridges that this host has. Only reads."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

IPNetwork = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
IPAddress = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

# Flags of routes that are no way to other hosts: include/uapi/linux/ipv6_route.h.
_RTF_ANYCAST, _RTF_LOCAL = 0x00100000, 0x80000000
_IPV6_COLUMNS = 10
# Of a TCP connection: include/net/tcp_states.h.
_ESTABLISHED = "01"


@dataclass(frozen=True)
class HostRoute:
    """What the host reaches over an interface. direct: its hosts are on the interface itself, without a gateway."""

    network: IPNetwork
    interface: str
    direct: bool


def observe_routes(root: str = "/proc/net") -> list[HostRoute]:
    """The routes of the main table, but for default routes and what is the host's own. root: where the kernel says it.

    libvirt looks at the first of the two files when it starts a network: networkCheckRouteCollision in its
    src/network/bridge_driver_linux.c. Their columns: net/ipv4/fib_trie.c and net/ipv6/route.c of Linux.
    """
    return [route for route in (*_ipv4(root), *_ipv6(root)) if route.network.prefixlen and route.interface != "lo"]


def observe_connections(root: str = "/proc/net") -> list[tuple[IPAddress, IPAddress]]:
    """The host's TCP connections, each as its own end and the other one, which may be the controller that is logged in
    or a server of files. In the order of the other ends.

    root: where the kernel says it. Columns: net/ipv4/tcp_ipv4.c and net/ipv6/tcp_ipv6.c of Linux.
    """
    found: set[tuple[IPAddress, IPAddress]] = set()
    for columns in (*_lines(os.path.join(root, "tcp")), *_lines(os.path.join(root, "tcp6"))):
        with contextlib.suppress(ValueError, IndexError):
            own, peer = (_address(column.partition(":")[0]) for column in columns[1:3])
            if columns[3] == _ESTABLISHED and not peer.is_loopback:
                found.add((own, peer))
    return sorted(found, key=lambda ends: (ends[1].version, *reversed(ends)))


def observe_name_servers(*files: str) -> list[IPAddress]:
    """The name servers that the host asks, but for itself; see resolv.conf(5) and systemd-resolved.service(8)."""
    found: set[IPAddress] = set()
    for path in files or ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        for columns in _lines(path):
            with contextlib.suppress(ValueError, IndexError):
                server = ipaddress.ip_address(columns[1].partition("%")[0])
                if columns[0] == "nameserver" and not server.is_loopback:
                    found.add(server)
    return sorted(found, key=lambda server: (server.version, server))


def _address(text: str) -> IPAddress:
    """An address as the kernel writes one: in words of 32 bits, each as in memory."""
    words = [text[start : start + 8] for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words))
    # A server that listens for both protocols has IPv4 written so.
    return getattr(address, "ipv4_mapped", None) or address


def interface_exists(name: str, root: str = "/sys/class/net") -> bool:
    """Whether the host has a network interface of this name."""
    return os.path.exists(os.path.join(root, name))


def bridge_ports(bridge: str, root: str = "/sys/class/net") -> list[str]:
    """The interfaces on a bridge of the host; none where there is no such bridge."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(os.path.join(root, bridge, "brif")))
    return []


def _lines(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return [line.split() for line in file]
    except OSError:
        # A kernel without the protocol has no such file.
        return []


def _ipv4(root: str) -> Iterator[HostRoute]:
    for columns in _lines(os.path.join(root, "route"))[1:]:
        with contextlib.suppress(ValueError, IndexError):
            # As in memory, whatever the order of bytes is there.
            address, gateway, mask = (
                ipaddress.IPv4Address(int(columns[place], 16).to_bytes(4, sys.byteorder)) for place in (1, 2, 7)
            )
            yield HostRoute(ipaddress.IPv4Network(f"{address}/{mask}"), columns[0], int(gateway) == 0)


def _ipv6(root: str) -> Iterator[HostRoute]:
    for columns in _lines(os.path.join(root, "ipv6_route")):
        if len(columns) < _IPV6_COLUMNS:
            continue
        with contextlib.suppress(ValueError):
            if int(columns[8], 16) & (_RTF_ANYCAST | _RTF_LOCAL):
                continue
            network = ipaddress.IPv6Network((int(columns[0], 16), int(columns[1], 16)))
            if not network.is_link_local and not network.is_multicast:
                yield HostRoute(network, columns[9], int(columns[4], 16) == 0)
