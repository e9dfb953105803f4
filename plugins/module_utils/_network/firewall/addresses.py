# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a host's own connections come from: its addresses that others know it by. Values only."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t
from dataclasses import dataclass

from ..._base.links import is_inner_bridge

# Bridges of networks inside one host, whatever is in them. Each host may have the same addresses there.
_INSIDE_NAMES = re.compile(r"(virbr\d|docker\d|br-[0-9a-f]{12}|podman|cni|lxcbr|lxdbr|incusbr).*")


@dataclass(frozen=True)
class Outside:
    """The links over which other hosts can be reached, all links, and the addresses of the former."""

    interfaces: tuple[str, ...]
    links: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def versions(self) -> list[int]:
        """The versions of IP by which the host can be reached."""
        return sorted({ipaddress.ip_address(address).version for address in self.addresses})


def read_addresses(text: str) -> Outside:
    """What ``ip -json -details address show`` says. Left out: what others never see, or only for a time.

    That is the loopback interface, bridges that have no port but machines' own, link-local addresses, and addresses of
    IPv6 that privacy extensions change.
    """
    links: list[dict[str, t.Any]] = json.loads(text or "[]")
    interfaces, addresses = [], []
    for link in links:
        found = [
            entry["local"]
            for entry in link.get("addr_info", [])
            if entry.get("scope") == "global"
            and "local" in entry
            # Such an address can have the scope global, if somebody said no other one.
            and not ipaddress.ip_address(entry["local"]).is_link_local
            and not (entry.get("temporary") or entry.get("deprecated"))
        ]
        if found and not _is_inside(link, links):
            interfaces.append(link["ifname"])
            addresses += found
    return Outside(tuple(interfaces), tuple(link["ifname"] for link in links), tuple(addresses))


def _is_inside(link: dict[str, t.Any], links: list[dict[str, t.Any]]) -> bool:
    if link.get("link_type") == "loopback" or _INSIDE_NAMES.fullmatch(link["ifname"]):
        return True
    return is_inner_bridge(link, links)
