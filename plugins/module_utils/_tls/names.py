# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names and addresses that a host answers to."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import typing as t

from .._base.commands import run_program
from .._base.errors import HostError, InputError
from .._base.links import is_inner_bridge

_TIMEOUT_SECONDS = 30
# Networks that live inside one host, such as libvirt's own with 192.168.122.1 on each, whatever is in them.
_INNER_LINKS = re.compile(
    r"virbr\d|docker|br-[0-9a-f]{12}$|veth|vnet\d|tap|cni|podman|lxcbr|lxdbr|incusbr|flannel|cali"
)
# Given for a day, or not yet, or no longer good.
_PASSING_FLAGS = ("temporary", "deprecated", "tentative", "dadfailed")
_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")


def own_names() -> list[str]:
    """The host's short name, its full name and its global addresses."""
    short = socket.gethostname()
    return [short, short.split(".")[0], socket.getfqdn(), *own_addresses()]


def own_addresses() -> list[str]:
    """The global addresses of the host, without those that live inside it. Raises HostError."""
    try:
        answer = run_program(["ip", "-json", "-details", "address", "show"], timeout_seconds=_TIMEOUT_SECONDS)
    except FileNotFoundError as exc:
        raise HostError("this host has no program ip", hint="Install the package iproute2 (iproute elsewhere)") from exc
    return global_addresses(json.loads(answer.require("ip cannot list the addresses").text or "[]"))


def global_addresses(links: list[dict[str, t.Any]]) -> list[str]:
    """The addresses that others reach the host by, of what ``ip -json -details address`` says."""
    found = []
    for link in links:
        if _INNER_LINKS.match(link.get("ifname", "")) or is_inner_bridge(link, links):
            continue
        for info in link.get("addr_info", []):
            if info.get("scope") == "global" and not any(info.get(flag) for flag in _PASSING_FLAGS):
                found.append(str(ipaddress.ip_address(info["local"])))
    return sorted(dict.fromkeys(found))


def is_dns_name(name: str) -> bool:
    """Whether a name can stand in a certificate as the name of a host."""
    return len(name) <= 253 and bool(_DNS_NAME.fullmatch(name)) and not name.replace(".", "").isdigit()


def is_name(name: str) -> bool:
    """Whether something is a host's name, or an address that others reach a host by."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return is_dns_name(name) and not name.lower().startswith("localhost")
    # A certificate does not say which link an address is on: it would be good for the one without a zone.
    return not address.is_loopback and not address.is_link_local and "%" not in name


def as_name(name: str) -> str:
    """A name or an address in the form that certificates have it in."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def check_name(name: str, where: str) -> str:
    """The same for a name that the user gives. Raises InputError."""
    if not is_name(name):
        raise InputError(f"{name!r} is neither a host name nor an address", where=where)
    return as_name(name)
