# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose nics are on libvirt's networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..._base.errors import HostError
from ..._base.xml import attribute, etree, read_description
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..storage.users import descriptions_of
from .existing import ExistingNetwork

# What a machine can be brought back to: a checkpoint, and a backup that is being made, are none.
_KEPT_STATES = ("domain", "domainsnapshot")


@dataclass
class NetworkUsers:
    """The machines with a nic on a network, or on its bridge.

    ports: what else is on its bridge, such as the nics of containers and of machines of a user's own session. unknown:
    what could not be looked into, in words. portgroups: the machines with a nic in each of its port groups.
    """

    running: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    portgroups: dict[str, set[str]] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        """Those that run and those that are only defined, by name."""
        return sorted(self.running | self.defined)


def network_users(
    conn: VirConnect,
    network: ExistingNetwork,
    bridges: Iterable[str],
    ports_of: Callable[[str], Iterable[str]] | None = None,
) -> NetworkUsers:
    """Who is on a network now, or will be at the next start. Raises VirtError when libvirt cannot be asked.

    bridges: those that are the network's own, which a nic may be on without naming the network. ports_of: gives the
    interfaces on a bridge, where this is the hypervisor itself.
    """
    users = NetworkUsers()
    own = set(bridges)
    # Older versions of libvirt give each of their bridges an interface of this name, so that it keeps its MAC address
    # (networkBridgeDummyNicName in their src/network/bridge_driver.c).
    known = {f"{bridge}-nic" for bridge in own}
    with translate_errors("cannot list the machines"):
        domains = conn.listAllDomains(0)
    for domain in domains:
        with translate_errors("cannot inspect a machine"), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
            name, active = domain.name(), domain.isActive()
            for flag, found in (
                (libvirt.VIR_DOMAIN_XML_INACTIVE, users.defined),
                *(((0, users.running),) if active else ()),
            ):
                try:
                    root = read_description(f"machine {name}", domain.XMLDesc(flag))
                except HostError as exc:
                    users.unknown.append(exc.what)
                    continue
                for nic in root.findall("devices/interface"):
                    if _is_on(nic, network, own):
                        found.add(name)
                        known.add(attribute(nic, "target", "dev") or "")
                    group = attribute(nic, "source", "portgroup")
                    if group and attribute(nic, "source", "network") == network.name:
                        users.portgroups.setdefault(group, set()).add(name)
    users.running.update(_owners_of_ports(network))
    if ports_of is not None:
        users.ports = sorted({port for bridge in own for port in ports_of(bridge)} - known)
    return users


def kept_states_on(conn: VirConnect, network: ExistingNetwork, bridges: Iterable[str]) -> list[str]:
    """Snapshots and saved states, in words, whose machine has a nic on a network then: without it, it could not start
    again. bridges: as in network_users. Raises VirtError."""
    found, own = set(), set(bridges)
    with translate_errors("cannot list the machines"):
        domains = conn.listAllDomains(0)
    for domain in domains:
        with translate_errors("cannot inspect a machine"), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
            machine = f"machine {domain.name()}"
            for words, text in descriptions_of(domain):
                if words == machine or text is None:
                    continue
                root = read_description(words, text)
                if root.tag in _KEPT_STATES and any(_is_on(nic, network, own) for nic in root.iter("interface")):
                    found.add(words)
    return sorted(found)


def _is_on(nic: etree._Element, network: ExistingNetwork, own: set[str]) -> bool:
    return attribute(nic, "source", "network") == network.name or attribute(nic, "source", "bridge") in own


def _owners_of_ports(network: ExistingNetwork) -> set[str]:
    """Whom libvirt itself has plugged in: also machines of its other drivers, which this connection does not list."""
    owners = set()
    gone = (libvirt.VIR_ERR_NO_NETWORK, libvirt.VIR_ERR_NO_NETWORK_PORT)
    what = f"cannot list the ports of network {network.name}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_SUPPORT, *gone):
        # libvirt refuses to list those of a network that is off.
        for port in network.handle.listAllPorts(0) if network.handle.isActive() else ():
            with suppress_codes(*gone):
                root = read_description(f"a port of network {network.name}", port.XMLDesc(0))
                owners.add(root.findtext("owner/name") or "an unknown machine")
    return owners
