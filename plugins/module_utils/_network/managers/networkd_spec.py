# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a spec names, in systemd-networkd's files of a bridge and its uplink. Sections in, sections out.

Format and keys: systemd.network(5), systemd.netdev(5).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..spec import STP_DELAY_SECONDS, BridgeSpec, vlan_word
from .sections import Section, changed_text, with_entries

# What a spec that names addresses replaces as a whole: these keys of [Network], and these sections.
_ADDRESSING_KEYS = frozenset(
    {
        *("Address", "DefaultRouteOnDevice", "DHCP", "DNS", "Domains", "Gateway", "IPv6AcceptRA", "IPv6Token"),
        *("LinkLocalAddressing", "ConfigureWithoutCarrier"),
    }
)
_ADDRESSING_SECTIONS = frozenset({"Address", "IPv6AcceptRA", "NextHop", "Route"})


def changed_file(kind: str, text: str, spec: BridgeSpec) -> str:
    """One of our files with what the spec names in it, and all else as it is.

    kind: ``netdev`` (the device), ``network`` (its addresses) or ``uplink`` (its port).
    """
    change = {"netdev": netdev_with, "network": network_with, "uplink": port_with}[kind]
    return changed_text(text, lambda sections: change(sections, spec))


def netdev_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    """The bridge's device with what the spec names."""
    entries: dict[str, str | None] = {}
    if spec.stp is not None:
        entries.update({"STP": _word(spec.stp), "ForwardDelaySec": str(STP_DELAY_SECONDS if spec.stp else 0)})
    return filtering_with(with_entries(sections, "Bridge", entries), spec)


def filtering_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    """The bridge's device with what the spec names of VLANs."""
    entries: dict[str, str | None] = {}
    if spec.vlan_filtering is not None:
        entries["VLANFiltering"] = _word(spec.vlan_filtering)
    if spec.pvid is not None:
        entries["DefaultPVID"] = str(spec.pvid)
    return with_entries(sections, "Bridge", entries)


def port_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    """The uplink, which is the bridge's port, with what the spec names."""
    return vlans_with(with_entries(sections, "Link", {} if spec.mtu is None else {"MTUBytes": str(spec.mtu)}), spec)


def vlans_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    """The uplink with the VLANs that the spec names."""
    if spec.vlans is None:
        return tuple(sections)
    # Untagged frames are in the bridge's DefaultPVID without a word here.
    vlans = tuple(Section("BridgeVLAN", (("VLAN", vlan_word(first, last)),)) for first, last in spec.vlans)
    return (*(section for section in sections if section.name != "BridgeVLAN"), *vlans)


def network_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    """The bridge's own network with what the spec names."""
    changed = with_entries(sections, "Link", {} if spec.mtu is None else {"MTUBytes": str(spec.mtu)})
    if not spec.addressing:
        return changed
    asks = {4: spec.asks_dhcp4, 6: bool(spec.dhcp6)}
    kept = [section for section in changed if section.name not in _ADDRESSING_SECTIONS]
    kept = [section for section in kept if section.name not in ("DHCP", "DHCPv4") or asks[4]]
    kept = [section for section in kept if section.name != "DHCPv6" or asks[6]]
    found = [entry for section in kept if section.name == "Network" for entry in section.entries]
    network = [entry for entry in found if entry[0] not in _ADDRESSING_KEYS]
    network += [("Address", address) for address in spec.addresses or ()]
    network += [("Gateway", gateway) for gateway in spec.gateway or ()]
    if any(asks.values()):
        network.append(("DHCP", "yes" if all(asks.values()) else "ipv4" if asks[4] else "ipv6"))
    if spec.silent:
        network.append(("LinkLocalAddressing", "no"))
    if spec.accept_ra is not None or spec.silent:
        network.append(("IPv6AcceptRA", _word(bool(spec.accept_ra))))
    network += [("DNS", server) for server in spec.nameservers or ()]
    if spec.search:
        network.append(("Domains", " ".join(spec.search)))
    if spec.addresses and spec.alone:
        # Its carrier is the machines', and the host's address is there before the first of them.
        network.append(("ConfigureWithoutCarrier", "yes"))
    order = [*(section for section in kept if section.name in ("Match", "Link")), Section("Network", tuple(network))]
    order += sorted(
        (section for section in kept if section.name not in ("Match", "Link", "Network")),
        key=lambda section: section.name,
    )
    if spec.dhcp6 is False:
        order.append(Section("IPv6AcceptRA", (("DHCPv6Client", "no"),)))
    for route in spec.routes or ():
        entries = [("Destination", route["to"]), ("Gateway", route["via"])]
        entries += [("Metric", str(route["metric"]))] if "metric" in route else []
        order.append(Section("Route", tuple(entries)))
    return tuple(order)


def _word(value: bool) -> str:
    return "yes" if value else "no"
