# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's network as the four usual programs in an image want it, each by its own files.

Which of them an image has is found out inside it; all four are handed over. Every value in these texts was checked
when the spec was read (addresses, networks, MAC addresses, domains, numbers): none can hold a line break or a bracket.
"""

from __future__ import annotations

import json
import typing as t
import uuid
from collections.abc import Iterable, Sequence

from .._model.spec.machine import Machine, Nic
from .._model.spec.network import family
from .nocloud import (
    INTERFACE_NAME_LENGTH,
    ON_LINK,
    all_routes,
    asks_dhcp4,
    network_config,
    resolver_lines,
    route_command,
)

# Sorts before the files that distributions bring.
_PREFIX = "10-brine-virt-"
# A kernel without IPv6 has none.
_ACCEPT_RA = "/proc/sys/net/ipv6/conf/$IFACE/accept_ra"


def network_files(machine: Machine) -> dict[str, str]:
    """The texts by their names in the seed: a folder for each program, and what is there for all of them."""
    nics = machine.nics
    files = {
        "netplan/10-brine-virt.yaml": json.dumps({"network": _netplan(machine)}, indent=2) + "\n",
        "ifupdown/interfaces": interfaces(nics),
    }
    for nic in nics:
        files[f"keyfiles/{nic.name}.nmconnection"] = keyfile(nic)
        files[f"networkd/{_PREFIX}{nic.name}.network"] = networkd(nic)
    for nic, name in zip(nics, interface_names(nics)):  # noqa: B905 - Python 3.9 has no strict
        files[f"links/{_PREFIX}{nic.name}.link"] = f"[Match]\nMACAddress={nic.mac}\n\n[Link]\nName={name}\n"
    servers, search = _all(nic.nameservers for nic in nics), _all(nic.search for nic in nics)
    if servers or search:
        files["resolver/resolv.conf"] = _lines(*resolver_lines(nics))
        # What a server of DHCP says comes after it.
        quoted = ", ".join(f'"{domain}"' for domain in search)
        plain = ", ".join(server for server in servers if family(server) == 4)
        files["resolver/dhclient.conf"] = _lines(
            *([f"prepend domain-name-servers {plain};"] if plain else []),
            *([f"prepend domain-search {quoted};"] if quoted else []),
        )
    return files


def interface_names(nics: Sequence[Nic]) -> list[str]:
    """The names of the interfaces in the machine: the nics' own, unless systemd-udevd gives no such name (ifname_valid
    in its src/basic/socket-util.c), or Linux has it already."""
    return [nic.name if _is_interface_name(nic.name) else f"nic{index}" for index, nic in enumerate(nics)]


def _is_interface_name(name: str) -> bool:
    return len(name) <= INTERFACE_NAME_LENGTH and not name.isdecimal() and name not in ("all", "default", "lo")


def _netplan(machine: Machine) -> dict[str, t.Any]:
    """As for cloud-init, which gives an interface its name itself: netplan leaves that to systemd-udevd, and looks for
    it by that name too."""
    config = network_config(machine)
    for nic in machine.nics:
        if not _is_interface_name(nic.name):
            config["ethernets"][nic.name].pop("set-name", None)
    return config


def networkd(nic: Nic) -> str:
    """The nic for systemd-networkd: systemd.network(5)."""
    dhcp = {(True, True): "yes", (True, False): "ipv4", (False, True): "ipv6", (False, False): "no"}
    lines = ["[Match]", f"MACAddress={nic.mac}", ""]
    if nic.mtu is not None:
        lines += ["[Link]", f"MTUBytes={nic.mtu}", ""]
    lines += ["[Network]", f"DHCP={dhcp[asks_dhcp4(nic), bool(nic.dhcp6)]}"]
    if nic.accept_ra is not None:
        lines.append(f"IPv6AcceptRA={'yes' if nic.accept_ra else 'no'}")
    lines += [f"Address={address}" for address in nic.addresses]
    lines += [f"DNS={server}" for server in nic.nameservers]
    if nic.search:
        lines.append(f"Domains={' '.join(nic.search)}")
    for route in all_routes(nic):
        lines += ["", "[Route]", f"Destination={route['to']}", f"Gateway={route['via']}"]
        if ON_LINK in route:
            lines.append("GatewayOnLink=yes")
        if "metric" in route:
            lines.append(f"Metric={route['metric']}")
    return _lines(*lines)


def keyfile(nic: Nic) -> str:
    """The nic for NetworkManager: nm-settings-keyfile(5). It finds out itself which gateways are outside of the nic's
    networks."""
    lines = ["[connection]", f"id={nic.name}", f"uuid={uuid.uuid5(uuid.NAMESPACE_OID, nic.mac)}", "type=ethernet"]
    lines += ["", "[ethernet]", f"mac-address={nic.mac}"]
    if nic.mtu is not None:
        lines.append(f"mtu={nic.mtu}")
    for version in (4, 6):
        addresses = _of_family(version, nic.addresses)
        method = _method(nic, version, bool(addresses))
        lines += ["", f"[ipv{version}]", f"method={method}"]
        if method in ("disabled", "link-local"):
            # NetworkManager refuses the rest together with these.
            continue
        lines += [f"address{index}={address}" for index, address in enumerate(addresses, 1)]
        lines += [f"gateway={gateway}" for gateway in _of_family(version, nic.gateway)]
        servers = _of_family(version, nic.nameservers)
        if servers:
            lines.append(f"dns={';'.join(servers)};")
        if nic.search:
            lines.append(f"dns-search={';'.join(nic.search)};")
        for index, route in enumerate((route for route in nic.routes if family(route["via"]) == version), 1):
            metric = f",{route['metric']}" if "metric" in route else ""
            lines.append(f"route{index}={route['to']},{route['via']}{metric}")
    return _lines(*lines)


def _method(nic: Nic, version: int, has_addresses: bool) -> str:
    """How NetworkManager is to come by addresses of a family."""
    if version == 4:
        return "auto" if asks_dhcp4(nic) else "manual" if has_addresses else "disabled"
    if nic.accept_ra is False:
        return "dhcp" if nic.dhcp6 else "manual" if has_addresses else "link-local"
    return "manual" if has_addresses and not (nic.dhcp6 or nic.accept_ra) else "auto"


def interfaces(nics: Sequence[Nic]) -> str:
    """All nics for ifupdown: interfaces(5)."""
    lines = ["auto lo", "iface lo inet loopback"]
    for nic, name in zip(nics, interface_names(nics)):  # noqa: B905 - Python 3.9 has no strict
        lines += ["", f"auto {name}", *_stanzas(nic, name)]
    return _lines(*lines)


def _stanzas(nic: Nic, name: str) -> list[str]:
    """The iface stanzas of a nic; what is to be done once stands in the first of them.

    So does what ifupdown has no option for, where it leaves IPv6 to the kernel.
    """
    stanzas = [["inet dhcp"]] if asks_dhcp4(nic) else []
    for address in nic.addresses:
        stanzas.append([f"inet{'6' if family(address) == 6 else ''} static", f"address {address}"])
    if nic.dhcp6:
        stanzas.append(["inet6 dhcp"])
    elif nic.accept_ra and not _of_family(6, nic.addresses):
        stanzas.append(["inet6 auto"])
    stanzas = stanzas or [["inet manual", "up ip link set dev $IFACE up"]]
    with_option = [stanza for stanza in stanzas if stanza[0] in ("inet6 static", "inet6 dhcp")]
    if nic.accept_ra is not None:
        for stanza in with_option:
            stanza.append(f"accept_ra {2 if nic.accept_ra else 0}")
    if nic.accept_ra is False and not with_option:
        stanzas[0].append(f"pre-up [ ! -e {_ACCEPT_RA} ] || echo 0 >{_ACCEPT_RA}")
    if nic.mtu is not None:
        stanzas[0].append(f"pre-up ip link set dev $IFACE mtu {nic.mtu}")
    if nic.nameservers:
        stanzas[0].append(f"dns-nameservers {' '.join(nic.nameservers)}")
    if nic.search:
        stanzas[0].append(f"dns-search {' '.join(nic.search)}")
    for route in all_routes(nic):
        version = family(route["via"])
        # After the last address of its family, from which the gateway can be reached; a way that is there already, by
        # DHCP for instance, is no failure of the interface.
        fitting = [stanza for stanza in stanzas if stanza[0].startswith("inet6") == (version == 6)] or stanzas
        fitting[-1].append(f"up {route_command(route, '$IFACE')} || true")
    return [line for head, *rest in stanzas for line in (f"iface {name} {head}", *(f"    {word}" for word in rest))]


def _of_family(version: int, addresses: Iterable[str]) -> list[str]:
    return [address for address in addresses if family(address) == version]


def _all(lists: Iterable[Sequence[str]]) -> list[str]:
    """The items of all lists, each once, in their order."""
    return list(dict.fromkeys(item for items in lists for item in items))


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
