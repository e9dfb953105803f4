# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor as networks are planned on it: what is there, what the host itself has, and what the task adds."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._host.connection import VirConnect, is_local
from ..._host.facts.host_routes import (
    HostRoute,
    IPAddress,
    bridge_ports,
    interface_exists,
    observe_connections,
    observe_name_servers,
    observe_routes,
)
from ..._host.networks.existing import ExistingNetwork, read_networks
from ..._host.networks.users import NetworkUsers, kept_states_on, network_users
from ..._model.spec.fields.table import Values
from ..._model.spec.resources.network.table import OWN_BRIDGE, read_xml


@dataclass
class NetworkView:
    """What plans are made from. routes, has_interface and ports_of (the interfaces on a bridge): of the host, where
    libvirt is that of this very host; else None. connections: its own, each with both ends. name_servers: that it asks.
    planned: the networks of the task, as they are to be, by name. going: those that it removes."""

    conn: VirConnect
    networks: dict[str, ExistingNetwork]
    routes: list[HostRoute] | None = None
    has_interface: t.Callable[[str], bool] | None = None
    ports_of: t.Callable[[str], list[str]] | None = None
    connections: list[tuple[IPAddress, IPAddress]] = field(default_factory=list)
    name_servers: list[IPAddress] = field(default_factory=list)
    planned: dict[str, Values] = field(default_factory=dict)
    going: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, conn: VirConnect, uri: str) -> NetworkView:
        """Look now. Raises VirtError."""
        if not is_local(uri):
            return cls(conn, read_networks(conn))
        return cls(
            conn,
            read_networks(conn),
            observe_routes(),
            interface_exists,
            bridge_ports,
            observe_connections(),
            observe_name_servers(),
        )

    def values(self, name: str) -> Values | None:
        """What the definition of a network says, in the words of the options; None where there is none."""
        network = self.networks.get(name)
        return None if network is None else read_xml(network.xml)

    def users(self, network: ExistingNetwork) -> NetworkUsers:
        """Who is on a network now. Asked again each time."""
        return network_users(self.conn, network, own_bridges(network), self.ports_of)

    def kept_states(self, network: ExistingNetwork) -> list[str]:
        """The snapshots and saved states whose machine has a nic on a network then, in words."""
        return kept_states_on(self.conn, network, own_bridges(network))

    def bridges_in_use(self) -> set[str]:
        """The bridges that libvirt has made for its networks."""
        live = [network for network in self.networks.values() if network.live is not None]
        return {name for network in live for name in own_bridges(network)}

    def others(self, name: str, *, running: bool = False) -> list[tuple[str, Mapping[str, t.Any]]]:
        """All networks but this one as they are, as they run, and as the task makes them; running: these alone."""
        found: list[tuple[str, Mapping[str, t.Any]]] = [
            (other.name, read_xml(xml))
            for other in self.networks.values()
            if other.name not in (name, *self.going, *self.planned)
            for xml in ((other.live,) if running else (other.xml, other.live))
            if xml is not None
        ]
        return found + [(other, values) for other, values in self.planned.items() if other != name]


def own_bridges(network: ExistingNetwork) -> set[str]:
    """The bridges that libvirt makes for a network; a bridge of the host's may have nics that are none of it."""
    return network.bridges if read_xml(network.xml)["mode"] in OWN_BRIDGE else set()


def missing_bridges(view: NetworkView, network: ExistingNetwork) -> list[str]:
    """The bridges that libvirt has made for a network that runs, and that somebody has deleted: it does not notice."""
    if view.has_interface is None or network.live is None or read_xml(network.live)["mode"] not in OWN_BRIDGE:
        return []
    name = read_xml(network.live).get("bridge")
    return [name] if name and not view.has_interface(name) else []
