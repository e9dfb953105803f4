# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What configures the network card of a host that is just installed, in the words of its network manager."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from brine_lab.base.state import DOMAIN, State, write
from brine_lab.images import golden

# A profile needs one; each host has profiles of its own.
PROFILE = str(uuid.UUID("3f5d2c0e-6a0b-4b7e-9a39-0d6a7e1b5c21"))
INTERFACES = """\
# This file describes the network interfaces available on your system
# and how to activate them. For more information, see interfaces(5).

source /etc/network/interfaces.d/*

# The loopback network interface
auto lo
iface lo inet loopback

# The primary network interface
"""


def write_configuration(state: State, host: str, tree: Path, link: str) -> None:
    """Write the file into a tree that makes this manager give `link` the host's address at every boot."""
    manager = state.managers.get(host, golden.NETWORKD)
    address = None if host in state.dhcp else f"{state.address(host)}/24"
    file, text, mode = {
        "networkd": _networkd,
        "ifupdown": _ifupdown,
        "networkmanager": _networkmanager,
        "netplan": _netplan,
    }[manager](state, link, address)
    write(tree / file, text, mode)


def _networkd(state: State, link: str, address: str | None) -> tuple[str, str, int]:
    ip = f"Address={address}\nGateway={state.gateway}\nDNS={state.gateway}" if address else "DHCP=ipv4"
    text = f"[Match]\nName={link}\n\n[Link]\nMTUBytes={state.mtu}\n\n[Network]\n{ip}\nLinkLocalAddressing=ipv6\n"
    return f"etc/systemd/network/10-{link}.network", text, 0o644


def _ifupdown(state: State, link: str, address: str | None) -> tuple[str, str, int]:
    # Not allow-hotplug: a container's interface is there from the beginning, and nobody reports it.
    text = f"{INTERFACES}auto {link}\n"
    if address is None:
        text += f"iface {link} inet dhcp\n"
    else:
        text += (
            f"iface {link} inet static\n\taddress {address}\n\tgateway {state.gateway}\n\tmtu {state.mtu}\n"
            "\t# dns-* options are implemented by the resolvconf package, if installed\n"
            f"\tdns-nameservers {state.gateway}\n\tdns-search {DOMAIN}\n"
        )
    return "etc/network/interfaces", text, 0o644


def _networkmanager(state: State, link: str, address: str | None) -> tuple[str, str, int]:
    if address is None:
        # As the installer writes it, whose file has no suffix and names no interface.
        text = (
            f"[connection]\nid=Wired connection 1\nuuid={PROFILE}\ntype=802-3-ethernet\n\n"
            "[ipv4]\nmethod=auto\n\n[ipv6]\nmethod=auto\n"
        )
        return "etc/NetworkManager/system-connections/Wired connection 1", text, 0o600
    text = (
        f"[connection]\nid={link}\nuuid={PROFILE}\ntype=ethernet\ninterface-name={link}\n\n"
        f"[ethernet]\nmtu={state.mtu}\n\n"
        f"[ipv4]\naddress1={address},{state.gateway}\ndns={state.gateway};\ndns-search={DOMAIN};\nmethod=manual\n\n"
        "[ipv6]\nmethod=auto\n"
    )
    return f"etc/NetworkManager/system-connections/{link}.nmconnection", text, 0o600


def _netplan(state: State, link: str, address: str | None) -> tuple[str, str, int]:
    if address is None:
        definition = "      dhcp4: true\n"
    else:
        definition = (
            f"      addresses: [{json.dumps(address)}]\n"
            f"      routes: [{{to: default, via: {state.gateway}}}]\n"
            f"      nameservers: {{addresses: [{state.gateway}], search: [{DOMAIN}]}}\n"
            f"      mtu: {state.mtu}\n"
        )
    text = f"network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    {link}:\n{definition}"
    return "etc/netplan/01-netcfg.yaml", text, 0o600
