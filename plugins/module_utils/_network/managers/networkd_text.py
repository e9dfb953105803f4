# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-networkd's files of an uplink, and the files that put this uplink into a bridge. Text in, text out.

Format and keys: systemd.network(5), systemd.netdev(5), systemd.syntax(7).
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from ..._base.errors import ConflictError, UnsupportedError
from ..spec import BridgeSpec, Uplink
from .manager import BY_HAND, HEAD
from .networkd_spec import netdev_with, network_with, port_with
from .sections import Section, as_text, parse

# Sections about the network that a link is in go to the bridge; all others (queueing, hardware) stay at the uplink.
_SECTIONS_OF_THE_BRIDGE = frozenset(
    {
        *("Address", "DHCP", "DHCPPrefixDelegation", "DHCPServer", "DHCPServerStaticLease", "DHCPv4", "DHCPv6"),
        *("DHCPv6PrefixDelegation", "IPv6AcceptRA", "IPv6AddressLabel", "IPv6PREF64Prefix", "IPv6Prefix"),
        *("IPv6PrefixDelegation", "IPv6RoutePrefix", "IPv6SendRA", "Neighbor", "NextHop", "Route"),
        *("RoutingPolicyRule",),
    }
)
# Keys of [Network] about the cable: the kernel delivers tagged frames and LLDP before the bridge sees them.
_NETWORK_KEYS_OF_THE_UPLINK = frozenset({"EmitLLDP", "LLDP", "VLAN"})
# Keys of [Network] that tie other interfaces to this one, which a bridge port cannot carry or would break.
_NETWORK_KEYS_REFUSED = frozenset(
    {
        *("ActiveSlave", "BatmanAdvanced", "Bond", "Bridge", "IPVLAN", "IPVTAP", "MACVLAN", "MACVTAP", "MACsec"),
        *("PrimarySlave", "Tunnel", "VRF", "VXLAN", "Xfrm"),
    }
)
# Keys of [Link] about being online: with the addresses they go to the bridge.
_LINK_KEYS_OF_THE_BRIDGE = frozenset({"RequiredFamilyForOnline", "RequiredForOnline"})

# Keys of [Match] by which an interface is known whatever its name is.
_IDENTITY = ("PermanentMACAddress", "Path")

# networkd uses the first file that matches, so the first prefix that sorts before the uplink's own file is taken.
NO_UPLINK = "it has no uplink"
PREFIXES = ("05-brine-", "00-brine-", "00--brine-")


@dataclass(frozen=True)
class NetworkdFile:
    """A file of ours: its name within the folder of systemd-networkd, and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class NetworkdSource:
    """An uplink's configuration: the path and text of its file, then those of its drop-ins, in order."""

    parts: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        """The path of the file itself."""
        return self.parts[0][0]


def stated_addresses(source: NetworkdSource) -> frozenset[str]:
    """The addresses, with their prefixes, that a link's files give it. What is none is left out."""
    found: list[str] = []
    for _path, text in source.parts:
        for section in parse(text):
            for key, value in section.entries:
                if key != "Address" or section.name not in ("Network", "Address"):
                    continue
                if not value.strip() and section.name == "Network":
                    # What files before it have said no longer counts.
                    found.clear()
                with contextlib.suppress(ValueError):
                    found.append(str(ipaddress.ip_interface(value.strip())))
    return frozenset(found)


def file_names(bridge: str, source_name: str | None) -> tuple[str, str, str]:
    """The names of our three files, in the order in which it is safe to write them: device, bridge, uplink.

    source_name: the name of the uplink's file, before which ours must sort. Raises ConflictError when none can.
    """
    for prefix in PREFIXES:
        base = f"{prefix}{bridge}"
        if source_name is None or f"{base}.network" < source_name:
            return (f"{base}.netdev", f"{base}.network", f"{base}-uplink.network")
    raise ConflictError(
        f"the file {source_name} sorts before every name that our files could have",
        hint="systemd-networkd uses the first file that matches: rename it, for example to 10-uplink.network",
    )


@dataclass(frozen=True)
class BridgeFiles:
    """The files of a bridge: of what is made below it, its own two, those of its uplink. In a safe order to write them.

    Whatever there is of them, a boot brings the old network until the first of ``uplinks`` is there, and then the new.
    """

    devices: tuple[NetworkdFile, ...]
    netdev: NetworkdFile
    network: NetworkdFile
    uplinks: tuple[NetworkdFile, ...]

    @property
    def all(self) -> tuple[NetworkdFile, ...]:
        """All of them in order."""
        return (*self.devices, self.netdev, self.network, *self.uplinks)


def bridge_files(
    spec: BridgeSpec,
    *,
    uplink: Uplink | None,
    mac: str,
    source: NetworkdSource | None,
    first: str = "",
    dhcpv4_iaid: int | None,
    dhcpv6_iaid: int | None,
) -> BridgeFiles:
    """The files that make a bridge with this uplink, and what the spec names or else everything that the uplink had.

    mac: the bridge's, which is its uplink's so that a DHCP lease stays. source: the configuration to take over, None
    when there is none. first: of a bond, the interface that has it. The two IAIDs: how the uplink's DHCP clients call
    the interface; networkd makes them from the interface's name, so they are kept by number. Raises ConflictError and
    UnsupportedError.
    """
    bridge = spec.name
    names = file_names(bridge, source.path.rsplit("/", 1)[-1] if source else None)
    base = names[0].rsplit(".", 1)[0]
    # Of a VLAN's interface nothing is taken: it goes on as it is.
    taken = source if uplink is not None and uplink.vlan is None else None
    of_bridge, of_uplink = _split(taken) if taken else ([Section("Network", (("LinkLocalAddressing", "no"),))], [])
    of_bridge += _dhcp_identity(of_bridge, "DHCPv4", dhcpv4_iaid) + _dhcp_identity(of_bridge, "DHCPv6", dhcpv6_iaid)

    if uplink is None:
        origin = NO_UPLINK
    else:
        origin = (
            f"from {', '.join(path for path, _text in taken.parts)}" if taken else f"{uplink.port} had no configuration"
        )
    head = f"{HEAD}{origin}.\n"
    netdev = (
        Section("NetDev", (("Name", bridge), ("Kind", "bridge"), ("MACAddress", mac))),
        # One uplink makes no loop, and without STP a port forwards at once.
        Section("Bridge", (("STP", "no"), ("ForwardDelaySec", "0"))),
    )
    own = (Section("Match", (("Name", bridge),)), *of_bridge)
    if uplink is None:
        # Without a port it has no carrier, and is not configured, until the first machine runs; a boot is not to wait
        # for that (systemd-networkd-wait-online(8)).
        own = (own[0], Section("Link", (("RequiredForOnline", "no"),)), *of_bridge)
    files: list[NetworkdFile] = []
    devices: tuple[NetworkdFile, ...] = ()
    if uplink is not None:
        in_bridge = Section("Network", (("Bridge", bridge), ("LinkLocalAddressing", "no")))
        port = (_match(uplink.port, None if uplink.bond else taken, mac), in_bridge)
        if uplink.bond:
            if any(key == "VLAN" for section in of_uplink for key, _value in section.entries):
                raise UnsupportedError(
                    f"{first} has VLANs on it, which would have to move to {uplink.port}", hint="Make the bond by hand"
                )
            kind = Section("NetDev", (("Name", uplink.port), ("Kind", "bond"), ("MACAddress", mac)))
            mode = Section("Bond", (("Mode", uplink.mode), ("MIIMonitorSec", "100ms")))
            devices = (NetworkdFile(f"{base}-{uplink.port}.netdev", head + as_text((kind, mode))),)
            in_bond = Section("Network", (("Bond", uplink.port), ("LinkLocalAddressing", "no")))
            # The one with the configuration comes first: from then on the bond has what a boot needs.
            for member in sorted(uplink.bond, key=lambda name: name != first):
                sections = (_match(member, taken if member == first else None, mac), in_bond)
                rest = of_uplink if member == first else []
                files.append(NetworkdFile(f"{base}-port-{member}.network", head + as_text((*sections, *rest))))
            files.insert(0, NetworkdFile(names[2], head + as_text(port_with(port, spec))))
        else:
            files.append(NetworkdFile(names[2], head + as_text(port_with((*port, *of_uplink), spec))))
        if uplink.vlan is not None:
            kind = Section("NetDev", (("Name", uplink.port), ("Kind", "vlan")))
            tag = Section("VLAN", (("Id", str(uplink.vlan)),))
            devices = (NetworkdFile(f"{base}-{uplink.port}.netdev", head + as_text((kind, tag))),)
            on_link = Section("Network", (("VLAN", uplink.port),))
            if source:
                drop_in = f"{source.path.rsplit('/', 1)[-1]}.d/{base}.conf"
                files.append(NetworkdFile(drop_in, head + as_text((on_link,))))
            else:
                match = Section("Match", (("Name", uplink.link),))
                on_link = Section("Network", (("VLAN", uplink.port), ("LinkLocalAddressing", "no")))
                # After every file that somebody else may have for it.
                files.append(NetworkdFile(f"95-brine-{uplink.link}.network", head + as_text((match, on_link))))
    return BridgeFiles(
        devices,
        NetworkdFile(names[0], head + as_text(netdev_with(netdev, spec))),
        NetworkdFile(names[1], head + as_text(network_with(own, spec))),
        tuple(files),
    )


def _match(name: str, source: NetworkdSource | None, mac: str) -> Section:
    """What an uplink's file matches: its name, and what else its own file knows it by.

    The kernel's own names may be others after a boot. Then our file matches nothing, rather than another interface, and
    the uplink has its old network. mac: its address now; one that it has had before networkd changed it is left out.
    """
    found = [
        (key, value)
        for _path, text in (source.parts if source else ())
        for section in parse(text)
        for key, value in section.entries
        if section.name == "Match" and (key in _IDENTITY or (key == "MACAddress" and mac in value.lower()))
    ]
    return Section("Match", (("Name", name), *found))


def _split(source: NetworkdSource) -> tuple[list[Section], list[Section]]:
    """The sections for the bridge and those for the uplink."""
    of_bridge: list[Section] = []
    of_uplink: list[Section] = []
    for path, text in source.parts:
        for section in parse(text):
            if section.name == "Match":
                continue
            if section.name == "Network":
                refused = sorted({key for key, _value in section.entries} & _NETWORK_KEYS_REFUSED)
                if refused:
                    raise UnsupportedError(
                        f"{path} has {refused[0]}= in [Network], which cannot be carried over to a bridge",
                        hint=BY_HAND,
                    )
                _share(section, _NETWORK_KEYS_OF_THE_UPLINK, of_uplink, of_bridge)
            elif section.name == "Link":
                _share(section, _LINK_KEYS_OF_THE_BRIDGE, of_bridge, of_uplink)
            elif section.name in _SECTIONS_OF_THE_BRIDGE:
                of_bridge.append(section)
            else:
                of_uplink.append(section)
    return of_bridge, of_uplink


def _share(section: Section, keys: frozenset[str], chosen: list[Section], others: list[Section]) -> None:
    """Put the entries with one of ``keys`` into ``chosen``, the rest into ``others``."""
    for target, wanted in ((chosen, True), (others, False)):
        entries = tuple(entry for entry in section.entries if (entry[0] in keys) is wanted)
        if entries:
            target.append(Section(section.name, entries))


def _dhcp_identity(sections: Iterable[Section], name: str, iaid: int | None) -> list[Section]:
    """A section that keeps the IAID, unless there is none or the user has chosen one."""
    chosen = any(
        key == "IAID" for section in sections if section.name in (name, "DHCP") for key, _value in section.entries
    )
    return [] if iaid is None or chosen else [Section(name, (("IAID", str(iaid)),))]
