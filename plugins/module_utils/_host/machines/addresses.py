# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of a machine's nics, and which of them is the one to use.

Where an address can come from, in the order of preference (and of cost):
static (our own notes), lease (the hypervisor's DHCP servers of libvirt networks), agent (asked inside the guest),
arp (the hypervisor's neighbour table).
Leases are asked once a network, all others once a machine: libvirt has no call for several.
Source: https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainInterfaceAddresses and
https://libvirt.org/html/libvirt-libvirt-network.html#virNetworkGetDHCPLeases
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..._base.errors import VirtError
from ..connection import VirConnect, agent_limit, libvirt, translate_errors

ORIGINS = ("static", "lease", "agent", "arp")
# Of one nic, as many as are kept. A guest agent may claim tens of thousands, and each costs the reader time and room.
MOST_ADDRESSES = 256
# Begins what is said when the last source fails.
NEIGHBOURS_UNREAD = "cannot read the neighbour table"
VirDomain = t.Any
_IPV4_IN_IPV6 = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("::ffff:0:0/96"))


@dataclass(frozen=True)
class NicQuery:
    """What asking for addresses needs to know of a nic: type and network are libvirt's, static_cidrs come from our
    notes."""

    mac: str
    type: str
    static_cidrs: tuple[str, ...] = ()
    network: str | None = None


@dataclass(frozen=True)
class Address:
    """One address of a nic; family is ``ipv4`` or ``ipv6``, origin one of ORIGINS, prefix None when nobody said it."""

    address: str
    prefix: int | None
    family: str
    origin: str

    def as_dict(self) -> dict[str, t.Any]:
        """The shape that records have."""
        return {"address": self.address, "prefix": self.prefix, "family": self.family, "origin": self.origin}


@dataclass(frozen=True)
class AgentLimits:
    """How long the guest agent may take: for one answer, and until which moment (time.monotonic) it is asked at all."""

    answer_seconds: int
    ask_until: float | None = None


class Leases:
    """The DHCP leases of a hypervisor's networks, each network asked when the first machine needs it, and only once."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, dict[str, list[dict[str, t.Any]]] | None] = {}

    def of(self, network: str) -> dict[str, list[dict[str, t.Any]]] | None:
        """libvirt's leases by MAC address; None when the network does not tell them all at once.

        Whoever comes while the network is being asked waits for that answer.
        """
        with self._lock:
            lock = self._locks.setdefault(network, threading.Lock())
        with lock:
            if network not in self._known:
                self._known[network] = self._read(network)
            return self._known[network]

    def _read(self, network: str) -> dict[str, list[dict[str, t.Any]]] | None:
        leases: dict[str, list[dict[str, t.Any]]] = {}
        try:
            for lease in self._conn.networkLookupByName(network).DHCPLeases():
                leases.setdefault((lease.get("mac") or "").lower(), []).append(lease)
        except (libvirt.libvirtError, UnicodeDecodeError):
            # A machine's own answer has the reason, if it matters, and has no host name in it, which one guest may
            # have sent in bytes that the bindings cannot decode.
            return None
        for known in leases.values():
            # A guest that was made anew under its MAC address has another client ID, and its old lease is there still.
            known.sort(key=_until, reverse=True)
        return leases


def _until(lease: Mapping[str, t.Any]) -> float:
    """When a lease ends, as seconds since the epoch; libvirt has 0 for one that never does."""
    return lease.get("expirytime") or math.inf


def make_address(text: str, prefix: int | None, origin: str) -> Address | None:
    """The address, or None for what is no address of a nic: nonsense, loopback, unspecified, multicast.

    Nor is an IPv4 address that is written as an IPv6 one (RFC 4291, 2.5.5): connecting to ::ffff:127.0.0.1 leads to
    the very host that connects.
    """
    try:
        parsed = ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return None
    if parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast:
        return None
    if parsed.version == 6 and any(parsed in network for network in _IPV4_IN_IPV6):
        return None
    return Address(str(parsed), prefix, f"ipv{parsed.version}", origin)


def static_addresses(nic: NicQuery) -> list[Address]:
    """The addresses that the machine's seed gave this nic."""
    found = []
    for cidr in nic.static_cidrs:
        text, _slash, prefix = cidr.partition("/")
        address = make_address(text, int(prefix) if prefix.isdigit() else None, "static")
        if address:
            found.append(address)
    return found


class AddressSearch:
    """Finds the addresses of a machine's nics, in two steps, as the second one may take long.

    leases: of the machine's hypervisor, where other machines are asked for too.

    A source is asked only when some nic has no address yet that another host could use, and only what it can know:
    leases need a libvirt network, the agent must be connected. A source that failed is told only where it may have kept
    an address from the reader: not when all nics have one, nor when the guest itself has said what it has.
    """

    def __init__(
        self,
        domain: VirDomain,
        nics: t.Sequence[NicQuery],
        *,
        running: bool,
        agent_connected: bool,
        limits: AgentLimits,
        leases: Leases | None = None,
    ) -> None:
        self._domain, self._nics, self._running, self._limits = domain, nics, running, limits
        self._agent_connected = agent_connected
        self._leases = leases
        self._found = [static_addresses(nic) for nic in nics]
        self._failed: list[str] = []
        self._guest_answered = False

    @property
    def is_over(self) -> bool:
        """Whether nobody has to be asked any more."""
        return not self._running or all(any(is_usable(one.address) for one in addresses) for addresses in self._found)

    def result(self) -> tuple[list[list[Address]], list[str]]:
        """The addresses of each nic, in the order of ``nics``, and what could not be found out, one sentence each."""
        errors = [] if self.is_over or self._guest_answered else list(self._failed)
        # A thread that was not waited for may add to it still.
        return [list(addresses) for addresses in self._found], errors

    def ask_network(self) -> None:
        """What the hypervisor's own DHCP servers know: no machine is asked for it."""
        if not self.is_over and any(nic.type == "network" for nic in self._nics):
            self._ask_source("lease")

    def ask_machine(self) -> None:
        """What the guest says, which may be slow, or busy with something else, and at last the neighbour table."""
        if self._agent_connected and not self.is_over:
            if self._limits.ask_until is not None and time.monotonic() > self._limits.ask_until:
                self._failed.append("the guest agent was not asked for addresses: no time left")
            else:
                self._guest_answered = self._ask_source("agent")
        if not self.is_over:
            self._ask_source("arp")

    def _ask_source(self, origin: str) -> bool:
        try:
            answer = None
            if origin == "lease":
                answer = _known_leases(self._nics, self._leases or Leases(self._domain.connect()))
            if answer is None:
                answer = _ask(self._domain, origin, self._limits.answer_seconds)
        except VirtError as exc:
            self._failed.append(str(exc))
            return False
        for nic, addresses in zip(self._nics, self._found):
            _add_new(addresses, answer, nic.mac, origin)
        return True


def find_addresses(
    domain: VirDomain, nics: t.Sequence[NicQuery], **given: t.Any
) -> tuple[list[list[Address]], list[str]]:
    """The addresses of each nic, and what could not be found out: an AddressSearch to its end."""
    search = AddressSearch(domain, nics, **given)
    search.ask_network()
    search.ask_machine()
    return search.result()


def _known_leases(nics: t.Sequence[NicQuery], leases: Leases) -> dict[str, t.Any] | None:
    """The leases of these nics in the shape of a machine's own answer; None when the machine has to be asked."""
    answer: dict[str, t.Any] = {}
    for number, nic in enumerate(nics):
        if nic.type != "network":
            continue
        known = leases.of(nic.network) if nic.network else None
        if known is None:
            return None
        found = known.get(nic.mac.lower(), [])
        addresses = [{"addr": lease.get("ipaddr"), "prefix": lease.get("prefix")} for lease in found]
        answer[str(number)] = {"hwaddr": nic.mac, "addrs": addresses}
    return answer


def _ask(domain: VirDomain, origin: str, agent_timeout_seconds: int) -> dict[str, t.Any]:
    """libvirt's answer by the names that the source has for the interfaces."""
    if origin == "lease":
        with translate_errors("cannot read the DHCP leases"):
            return domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE) or {}
    if origin == "arp":
        with translate_errors(NEIGHBOURS_UNREAD):
            return domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP) or {}
    what = "the guest agent did not report its addresses"
    with translate_errors(what), agent_limit(domain, agent_timeout_seconds, required=True):
        return domain.interfaceAddresses(libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT) or {}


def _add_new(addresses: list[Address], answer: dict[str, t.Any], mac: str, origin: str) -> None:
    """Add what the answer says of this MAC. The guest's own names of its interfaces mean nothing here."""
    known = {address.address for address in addresses}
    for interface in answer.values():
        if (interface.get("hwaddr") or "").lower() != mac.lower():
            continue
        for entry in interface.get("addrs") or []:
            if len(addresses) >= MOST_ADDRESSES:
                return
            address = make_address(entry.get("addr") or "", entry.get("prefix"), origin)
            if address and address.address not in known:
                known.add(address.address)
                addresses.append(address)


def is_usable(address: str) -> bool:
    """Whether another host can connect to it: link-local and loopback addresses mean something else everywhere."""
    parsed = ipaddress.ip_address(address)
    return not (parsed.is_link_local or parsed.is_loopback)


def best_first(nics: t.Iterable[t.Iterable[Address]]) -> list[str]:
    """The usable addresses of a machine, best first: IPv4 before IPv6, then the order of nics, then that of ORIGINS."""
    ranked = sorted(
        (address.family != "ipv4", number, ORIGINS.index(address.origin), position, address.address)
        for number, addresses in enumerate(nics)
        for position, address in enumerate(addresses)
        if is_usable(address.address)
    )
    return list(dict.fromkeys(text for *_rank, text in ranked))
