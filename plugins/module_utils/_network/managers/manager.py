# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a network manager of a host has to be able to do, so that bridges can be made with it: the back-end's seam."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, UnsupportedError
from ..._model.spec.network import family
from ..observe import Link, Network
from ..spec import BridgeSpec, Uplink
from ..switch.guarded import Command, GuardedFile

# The first line of each file of ours begins so.
HEAD = "# Made by brine.virt, role virt_bridge: "
BY_HAND = "Create the bridge by hand: an existing bridge is left as it is"


@dataclass(frozen=True)
class WantedBridge:
    """A bridge to make or to change, with all that was found out about the host.

    uplink: what goes into it, as the spec has it or as it was guessed. mac: the bridge's. source: the interface whose
    configuration the bridge takes over, None where there is none to take. existing: the bridge as it is, None for a
    new one.
    """

    spec: BridgeSpec
    uplink: Uplink | None
    mac: str
    network: Network
    source: Link | None = None
    existing: Link | None = None

    @property
    def port(self) -> Link | None:
        """The bridge's port as it is, where it is there."""
        return self.network.links.get(self.uplink.port) if self.uplink else None

    @property
    def made_links(self) -> tuple[str, ...]:
        """The interfaces that are there only for it: the bridge itself, and a bond or VLAN that is made below it."""
        made = self.uplink.made if self.uplink else ""
        return (self.spec.name, made) if made else (self.spec.name,)


@dataclass(frozen=True)
class Parts:
    """What a manager adds to a change: its files and commands, as GuardedChange has them.

    How to know that the host has its old network again is the same for all of them.
    """

    files: tuple[GuardedFile, ...] = ()
    apply: tuple[Command, ...] = ()
    keep: tuple[Command, ...] = ()
    leave: tuple[Command, ...] = ()
    restore: tuple[Command, ...] = ()
    last_resort: tuple[Command, ...] = ()


class Manager(t.Protocol):
    """A program that configures a host's network, and how it is told of a bridge."""

    # The word for it in a spec, and for people.
    name: str
    title: str

    def runs(self) -> bool:
        """Whether it is in use on this host, so that it could make a bridge without an uplink."""

    def manages(self, link: str) -> bool:
        """Whether it configures this interface now."""

    def made(self, bridge: str) -> bool:
        """Whether it has files of ours for this bridge."""

    def begun(self, bridge: str) -> bool:
        """Whether a power cut left some of our files and not its uplink's: it is to be made as if it were new."""

    def make(self, wanted: WantedBridge) -> Parts:
        """A new bridge. Raises ConflictError, UnsupportedError where something would be lost or cannot be said."""

    def change(self, wanted: WantedBridge) -> Parts:
        """A bridge of our files becomes as the spec has it; without files and commands where it is."""


def check_routes_are_known(wanted: WantedBridge, configuration: str | None, what: str) -> None:
    """Raise ConflictError for routes of the interface whose configuration the bridge takes over that are not in it.

    They would be gone with its addresses, and nothing would bring them back. configuration: as text; None where the
    manager's own routes are told apart by the kernel, as none of them is of the protocol `boot`.
    """
    link = wanted.source
    if link is None or wanted.spec.addressing:
        return
    if configuration is not None and len(link.static) < len(link.addresses):
        # A client for DHCP makes its routes by ip(8), too.
        return
    for route in (*wanted.network.default_routes, *wanted.network.routes, *wanted.network.tables):
        named = configuration is not None and route.to.partition("/")[0] in configuration
        named = named or (configuration is not None and bool(route.gateway) and route.gateway in configuration)
        if route.device == link.name and route.protocol == "boot" and not named:
            via = f" via {route.gateway}" if route.gateway else ""
            via += f" in table {route.table}" if route.table else ""
            raise ConflictError(
                f"the route to {route.to}{via} on {link.name} is in no {what} and would be lost",
                hint=f"Write it into the configuration of {link.name}, remove it, or name all that the bridge is to "
                "have (addresses, gateway, routes)",
            )


def check_is_known(link: Link | None, configuration: str, what: str) -> None:
    """Raise ConflictError for addresses of an interface that its configuration does not name.

    Nothing would bring them back, not even the end of a change that is undone. configuration: all that the manager
    has of the interface, as text; what: one piece of it, such as «stanza of ifupdown».
    """
    known = set()
    for word in re.findall(r"[0-9A-Fa-f:.]+", configuration):
        with contextlib.suppress(ValueError):
            known.add(ipaddress.ip_address(word))
    static = link.static if link is not None else ()
    lost = [address for address in static if ipaddress.ip_interface(address).ip not in known]
    if link is not None and lost:
        raise ConflictError(
            f"{', '.join(lost)} on {link.name} {'is' if len(lost) == 1 else 'are'} in no {what} and would be lost",
            hint=f"Write what is to stay into the configuration of {link.name}, and remove the rest",
        )


def refuse_servers(spec: BridgeSpec, version: int) -> None:
    """Raise UnsupportedError for name servers of a version of IP that NetworkManager gives the bridge no address of.

    It refuses the whole profile then.
    """
    servers = [server for server in spec.nameservers or () if family(server) == version]
    if servers:
        raise UnsupportedError(
            f"NetworkManager takes no name server of IPv{version} for {spec.name}, which has neither an address of "
            f"IPv{version} nor DHCP for it",
            hint=f"Leave out of nameservers: {', '.join(servers)}",
        )


def delete_link(name: str) -> Command:
    """The command that removes an interface of a change; where the manager has done so already, it has nothing to
    do, and nothing to complain of in the log."""
    return ("sh", "-c", '! ip link show dev "$1" >/dev/null 2>&1 || ip link delete dev "$1"', "sh", name)
