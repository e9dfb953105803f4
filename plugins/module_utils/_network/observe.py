# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's network is now: its links, its default route, and who manages a link. Only reads."""

from __future__ import annotations

import glob
import ipaddress
import json
import os
import re
import shutil
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.commands import run_program
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import NetworkdSource

# systemd.network(5): of two files with one name, the one in the earlier folder counts.
NETWORKD_FOLDERS = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
)
_COMMAND_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Link:
    """A network interface. kind: the kernel's word for a virtual one, such as bridge or veth, else empty."""

    name: str
    mac: str
    kind: str
    link_type: str
    master: str | None
    wireless: bool
    # Global addresses in CIDR form that must not get lost: all IPv4, and IPv6 that is not given for a time.
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """A default route: the interface and the gateway (empty when the link itself is the gateway)."""

    device: str
    gateway: str


@dataclass(frozen=True)
class Network:
    """All links by name, and the default routes, best first (IPv4 before IPv6)."""

    links: dict[str, Link]
    default_routes: tuple[Route, ...]


@dataclass(frozen=True)
class Networkd:
    """What systemd-networkd says of a link. source: None when no file matches it."""

    source: NetworkdSource | None
    foreign_addresses: tuple[str, ...]
    dhcpv4_iaid: int | None
    dhcpv6_iaid: int | None


def run(*command: str) -> str:
    """The output of a command in plain English. Raises HostError with what it said when it fails."""
    try:
        answer = run_program(
            command,
            timeout_seconds=_COMMAND_TIMEOUT_SECONDS,
            environment={"SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
        )
    except FileNotFoundError as exc:
        raise HostError(
            f"the command {command[0]} is not installed", hint=f"Install the package that contains {command[0]}"
        ) from exc
    except TimeoutError as exc:
        raise HostError(f"{' '.join(command)} did not answer within {_COMMAND_TIMEOUT_SECONDS} s") from exc
    if answer.status != 0:
        raise HostError(f"{' '.join(command)} failed: {answer.complaint}")
    return answer.text


def observe_network() -> Network:
    """The host's links and default routes now. Raises HostError."""
    links = {
        link.name: link for link in map(_link, json.loads(run("ip", "-json", "-details", "address", "show") or "[]"))
    }
    routes = [
        (position, route.get("metric", 0), Route(route["dev"], route.get("gateway", "")))
        for position, family in enumerate(("-4", "-6"))
        for route in json.loads(run("ip", "-json", family, "route", "show", "default") or "[]")
        if "dev" in route
    ]
    return Network(links, tuple(route for _position, _metric, route in sorted(routes, key=lambda entry: entry[:2])))


def _link(data: dict[str, t.Any]) -> Link:
    name = data["ifname"]
    return Link(
        name=name,
        mac=data.get("address", ""),
        kind=data.get("linkinfo", {}).get("info_kind", ""),
        link_type=data.get("link_type", ""),
        master=data.get("master"),
        wireless=any(os.path.exists(f"/sys/class/net/{name}/{entry}") for entry in ("wireless", "phy80211")),
        addresses=tuple(
            f"{address['local']}/{address['prefixlen']}"
            for address in data.get("addr_info", [])
            if address.get("scope") == "global"
            and "local" in address
            and (address["family"] == "inet" or not address.get("dynamic"))
        ),
    )


def observe_networkd(uplink: str) -> Networkd | None:
    """What systemd-networkd knows of a link, None when it does not manage it. Raises HostError."""
    if shutil.which("networkctl") is None or not is_active("systemd-networkd.service"):
        return None
    text = run("networkctl", "status", "--no-pager", "--lines=0", uplink)
    status: dict[str, t.Any] = json.loads(run("networkctl", "status", "--json=short", uplink))
    if status.get("AdministrativeState") == "unmanaged":
        return None
    return Networkd(
        source=_source(status.get("NetworkFile"), status.get("NetworkFileDropins")),
        foreign_addresses=tuple(
            f"{ipaddress.ip_address(bytes(entry['Address']))}/{entry['PrefixLength']}"
            for entry in status.get("Addresses", [])
            if entry.get("ConfigSource") == "foreign"
            and entry.get("ScopeString") == "global"
            and "permanent" in entry.get("FlagsString", "")
        ),
        dhcpv4_iaid=_iaid(text, r"DHCPv?4 Client ID:\s*IAID:(0x[0-9a-fA-F]+)"),
        dhcpv6_iaid=_iaid(text, r"DHCPv?6 Client IAID:\s*(0x[0-9a-fA-F]+)"),
    )


def _iaid(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return int(found.group(1), 16) if found else None


def _source(path: str | None, drop_ins: list[str] | None) -> NetworkdSource | None:
    """The text of a link's file and of its drop-ins; older systemd does not list these, so they are looked for."""
    if path is None:
        return None
    if drop_ins is None:
        found: dict[str, str] = {}
        for folder in reversed(NETWORKD_FOLDERS):
            for drop_in in glob.glob(f"{folder}/{os.path.basename(path)}.d/*.conf"):
                found[os.path.basename(drop_in)] = drop_in
        drop_ins = [found[name] for name in sorted(found)]
    return NetworkdSource(tuple((part, _read(part)) for part in (path, *drop_ins)))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise HostError(f"{path}, which systemd-networkd uses, cannot be read: {exc}") from exc


def is_active(unit: str) -> bool:
    """Whether a unit of systemd runs."""
    try:
        return run("systemctl", "is-active", unit).strip() == "active"
    except HostError:
        return False


def other_manager(uplink: str) -> str:
    """In words, who seems to manage a link that systemd-networkd does not."""
    for unit, name in (
        ("NetworkManager.service", "NetworkManager"),
        ("wickedd.service", "wicked"),
        ("connman.service", "ConnMan"),
        ("dhcpcd.service", "dhcpcd"),
    ):
        if is_active(unit):
            return name
    for path in ("/etc/network/interfaces", *sorted(glob.glob("/etc/network/interfaces.d/*"))):
        if os.path.isfile(path) and re.search(rf"^\s*iface\s+{re.escape(uplink)}\s", _read(path), re.MULTILINE):
            return f"ifupdown ({path})"
    return "an unknown program"
