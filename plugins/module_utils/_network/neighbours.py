# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether another host has an IPv4 address already. Of two that have one, the network reaches now this, now that one.
So it is with two interfaces of one host.

The controller would not notice: the host that it makes the change on answers it. IPv6 looks for duplicates by itself.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
import typing as t

from .._base.errors import ConflictError
from .observe import Network
from .spec import BridgeSpec

_ARP = 0x0806
_ETHERNET, _IPV4, _REQUEST = 1, 0x0800, 1
# Hardware and protocol with the lengths of their addresses, the operation; sender and target. RFC 826.
_PACKET = struct.Struct("!HHBBH6s4s6s4s")
_FRAME = struct.Struct("!6s6sH")
_PROBES, _SECONDS_EACH = 3, 0.4


def check_free(network: Network, spec: BridgeSpec) -> None:
    """Raise ConflictError where somebody else has an address that a bridge is to get, as far as that can be seen."""
    own = {address.partition("/")[0]: name for name, link in network.links.items() for address in link.addresses}
    for address in spec.addresses or ():
        host = ipaddress.ip_interface(address).ip
        link = own.get(str(host))
        # Where the host is a router for its machines, a bridge of theirs may have its address, without a network.
        routed = ipaddress.ip_interface(address).network.num_addresses == 1
        if link is not None and not routed and link not in _giving(network, spec):
            raise ConflictError(
                f"the address {host} of {spec.name} is the one of {link}, which does not become part of {spec.name}",
                hint=f"Choose another address, or name {link} as the uplink, whose address {spec.name} takes over",
            )
        if host.version == 6 or str(host) in own:
            continue
        for device in _devices(network, spec):
            holder = holder_of(str(host), device)
            if holder is not None and holder not in _routers(network, device, str(host)):
                raise ConflictError(
                    f"the address {host} of {spec.name} is taken: {holder} answers at it on {device}",
                    hint="Choose another address, or take it from that host first",
                )


def _routers(network: Network, device: str, address: str) -> set[str | None]:
    """The hardware addresses of the gateways on a device, unless the address is that of one.

    Where hosts of one network may not talk to each other directly, its router answers for all of them (RFC 5517, RFC
    1027), and that says nothing of who has an address.
    """
    gateways = [route.gateway for route in network.default_routes if route.gateway]
    return set() if address in gateways else {holder_of(gateway, device) for gateway in gateways}


def _giving(network: Network, spec: BridgeSpec) -> set[str]:
    """The interfaces that the bridge may take its addresses over from, and itself."""
    found = {spec.name, *network.ports(spec.name), *_devices(network, spec)}
    if spec.uplink is None:
        return found
    # What a VLAN is made on keeps its addresses.
    return found | {spec.uplink.port, *(spec.uplink.below if spec.uplink.vlan is None else ())}


def _devices(network: Network, spec: BridgeSpec) -> list[str]:
    """Where the bridge's neighbours can be asked before it is there; not in a VLAN that is still to be made."""
    if spec.name in network.links:
        return [spec.name]
    if spec.alone:
        return []
    if spec.uplink is None:
        return [route.device for route in network.default_routes[:1]]
    names = [spec.uplink.port, *(spec.uplink.below if spec.uplink.vlan is None else ())]
    return [name for name in dict.fromkeys(names) if name in network.links]


def holder_of(address: str, device: str) -> str | None:
    """The hardware address of who says that this IPv4 address is its own; None where nobody does, or nobody can be
    asked. Like the probe of RFC 5227, 2.1.1, it leaves nothing behind in others' tables."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as link:
            link.bind((device, _ARP))
            mac = link.getsockname()[4]
            for _probe in range(_PROBES):
                link.send(probe(mac, address))
                found = _answer(link, address)
                if found not in (b"", mac):
                    return found.hex(":")
    except OSError:
        # Not allowed to, no such link, or it is down: then nobody is reached by it now.
        return None
    return None


def _answer(link: socket.socket, address: str) -> bytes:
    """Who has said in time that this address is its own; empty for nobody."""
    deadline = time.monotonic() + _SECONDS_EACH
    left = _SECONDS_EACH
    while left > 0:
        # What has come already is read, also when this machine has stood still since.
        link.settimeout(left)
        try:
            found = sender(link.recv(2048), address)
        except socket.timeout:  # noqa: UP041 - another class before Python 3.10
            break
        if found is not None:
            return found
        left = deadline - time.monotonic()
    return b""


def probe(mac: bytes, address: str) -> bytes:
    """The frame that asks who has an address."""
    target = ipaddress.IPv4Address(address).packed
    packet = _PACKET.pack(_ETHERNET, _IPV4, 6, 4, _REQUEST, mac, bytes(4), bytes(6), target)
    return _FRAME.pack(b"\xff" * 6, mac, _ARP) + packet


def sender(frame: bytes, address: str) -> bytes | None:
    """Who says in a frame that this address is its own; None where it says something else."""
    if len(frame) < _FRAME.size + _PACKET.size:
        return None
    fields: tuple[t.Any, ...] = _PACKET.unpack_from(frame, _FRAME.size)
    if fields[:4] != (_ETHERNET, _IPV4, 6, 4) or fields[6] != ipaddress.IPv4Address(address).packed:
        return None
    return bytes(fields[5])
