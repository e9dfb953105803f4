# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-networkd's files of an uplink, and the files that put this uplink into a bridge. Text in, text out.

Format and keys: systemd.network(5), systemd.netdev(5), systemd.syntax(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError

# Sections about the network that a link is in go to the bridge; all others (queueing, hardware) stay at the uplink.
_SECTIONS_OF_THE_BRIDGE = frozenset(
    {
        "Address",
        "DHCP",
        "DHCPPrefixDelegation",
        "DHCPServer",
        "DHCPServerStaticLease",
        "DHCPv4",
        "DHCPv6",
        "DHCPv6PrefixDelegation",
        "IPv6AcceptRA",
        "IPv6AddressLabel",
        "IPv6PREF64Prefix",
        "IPv6Prefix",
        "IPv6PrefixDelegation",
        "IPv6RoutePrefix",
        "IPv6SendRA",
        "Neighbor",
        "NextHop",
        "Route",
        "RoutingPolicyRule",
    }
)
# Keys of [Network] about the cable: the kernel delivers tagged frames and LLDP before the bridge sees them.
_NETWORK_KEYS_OF_THE_UPLINK = frozenset({"EmitLLDP", "LLDP", "VLAN"})
# Keys of [Network] that tie other interfaces to this one, which a bridge port cannot carry or would break.
_NETWORK_KEYS_REFUSED = frozenset(
    {
        "ActiveSlave",
        "BatmanAdvanced",
        "Bond",
        "Bridge",
        "IPVLAN",
        "IPVTAP",
        "MACVLAN",
        "MACVTAP",
        "MACsec",
        "PrimarySlave",
        "Tunnel",
        "VRF",
        "VXLAN",
        "Xfrm",
    }
)
# Keys of [Link] about being online: with the addresses they go to the bridge.
_LINK_KEYS_OF_THE_BRIDGE = frozenset({"RequiredFamilyForOnline", "RequiredForOnline"})

# networkd uses the first file that matches, so the first prefix that sorts before the uplink's own file is taken.
_PREFIXES = ("05-brine-", "00-brine-", "00--brine-")


@dataclass(frozen=True)
class NetworkdSection:
    """One section of a file: its name and its entries in order, each (key, value)."""

    name: str
    entries: tuple[tuple[str, str], ...]


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


def parse(text: str) -> tuple[NetworkdSection, ...]:
    """The sections of a file in order. One that stands twice is given twice: each [Address] or [Route] counts."""
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    # A comment may stand between the lines of a continued value, so comments go first.
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            sections.append((stripped[1:-1], []))
        elif "=" in stripped and sections:
            key, value = stripped.split("=", 1)
            sections[-1][1].append((key.strip(), value.strip()))
    return tuple(NetworkdSection(name, tuple(entries)) for name, entries in sections)


def file_names(bridge: str, source_name: str | None) -> tuple[str, str, str]:
    """The names of our three files, in the order in which it is safe to write them: device, bridge, uplink.

    source_name: the name of the uplink's file, before which ours must sort. Raises ConflictError when none can.
    """
    for prefix in _PREFIXES:
        base = f"{prefix}{bridge}"
        if source_name is None or f"{base}.network" < source_name:
            return (f"{base}.netdev", f"{base}.network", f"{base}-uplink.network")
    raise ConflictError(
        f"the file {source_name} sorts before every name that our files could have",
        hint="systemd-networkd uses the first file that matches: rename it, for example to 10-uplink.network",
    )


def bridge_files(
    *,
    bridge: str,
    uplink: str,
    mac: str,
    source: NetworkdSource | None,
    dhcpv4_iaid: int | None,
    dhcpv6_iaid: int | None,
) -> tuple[NetworkdFile, NetworkdFile, NetworkdFile]:
    """The three files that make ``bridge`` with ``uplink`` as its port and everything that the uplink had.

    mac: the uplink's address, which the bridge takes over so that a DHCP lease stays. source: the uplink's own
    configuration, None when it has none. The two IAIDs: how the uplink's DHCP clients call the interface; networkd
    makes them from the interface's name, so they are kept by number. Raises ConflictError and UnsupportedError.
    """
    netdev_name, bridge_name, uplink_name = file_names(bridge, source.path.rsplit("/", 1)[-1] if source else None)
    of_bridge, of_uplink = (
        _split(source) if source else ([NetworkdSection("Network", (("LinkLocalAddressing", "no"),))], [])
    )
    of_bridge += _dhcp_identity(of_bridge, "DHCPv4", dhcpv4_iaid) + _dhcp_identity(of_bridge, "DHCPv6", dhcpv6_iaid)

    origin = f"from {', '.join(path for path, _text in source.parts)}" if source else f"{uplink} had no configuration"
    head = f"# Made by brine.virt, role virt_bridge: {origin}.\n"
    netdev = (
        NetworkdSection("NetDev", (("Name", bridge), ("Kind", "bridge"), ("MACAddress", mac))),
        # One uplink makes no loop, and without STP a port forwards at once.
        NetworkdSection("Bridge", (("STP", "no"), ("ForwardDelaySec", "0"))),
    )
    port = NetworkdSection("Network", (("Bridge", bridge), ("LinkLocalAddressing", "no")))
    return (
        NetworkdFile(netdev_name, head + _text(netdev)),
        NetworkdFile(bridge_name, head + _text((NetworkdSection("Match", (("Name", bridge),)), *of_bridge))),
        NetworkdFile(uplink_name, head + _text((NetworkdSection("Match", (("Name", uplink),)), port, *of_uplink))),
    )


def _split(source: NetworkdSource) -> tuple[list[NetworkdSection], list[NetworkdSection]]:
    """The sections for the bridge and those for the uplink."""
    of_bridge: list[NetworkdSection] = []
    of_uplink: list[NetworkdSection] = []
    for path, text in source.parts:
        for section in parse(text):
            if section.name == "Match":
                continue
            if section.name == "Network":
                refused = sorted({key for key, _value in section.entries} & _NETWORK_KEYS_REFUSED)
                if refused:
                    raise UnsupportedError(
                        f"{path} has {refused[0]}= in [Network], which cannot be carried over to a bridge",
                        hint="Create the bridge by hand: an existing bridge is left as it is",
                    )
                _share(section, _NETWORK_KEYS_OF_THE_UPLINK, of_uplink, of_bridge)
            elif section.name == "Link":
                _share(section, _LINK_KEYS_OF_THE_BRIDGE, of_bridge, of_uplink)
            elif section.name in _SECTIONS_OF_THE_BRIDGE:
                of_bridge.append(section)
            else:
                of_uplink.append(section)
    return of_bridge, of_uplink


def _share(
    section: NetworkdSection, keys: frozenset[str], chosen: list[NetworkdSection], others: list[NetworkdSection]
) -> None:
    """Put the entries with one of ``keys`` into ``chosen``, the rest into ``others``."""
    for target, wanted in ((chosen, True), (others, False)):
        entries = tuple(entry for entry in section.entries if (entry[0] in keys) is wanted)
        if entries:
            target.append(NetworkdSection(section.name, entries))


def _dhcp_identity(sections: Iterable[NetworkdSection], name: str, iaid: int | None) -> list[NetworkdSection]:
    """A section that keeps the IAID, unless there is none or the user has chosen one."""
    chosen = any(
        key == "IAID" for section in sections if section.name in (name, "DHCP") for key, _value in section.entries
    )
    return [] if iaid is None or chosen else [NetworkdSection(name, (("IAID", str(iaid)),))]


def _text(sections: Iterable[NetworkdSection]) -> str:
    parts = []
    for section in sections:
        parts.append("\n".join([f"[{section.name}]", *(f"{key}={value}" for key, value in section.entries)]) + "\n")
    return "\n".join(parts)
