# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of a host's firewalls that name an interface: what arrives comes from the bridge once it is a port of one."""

from __future__ import annotations

import json
import shutil
import typing as t
from collections.abc import Mapping

from ..._base.errors import HostError
from ..commands import is_active, run
from .firewalld import Zone, read_zones

# A bridge's port is still a device of its own to them.
_OF_PORTS = ("netdev", "bridge", "arp")
_FIREWALLD_TABLE = "firewalld"


def names_uplink(link: str) -> list[str]:
    """Where rules name an interface, in words; empty for none, and where the rules cannot be read."""
    try:
        found = []
        if shutil.which("firewall-cmd") is not None and is_active("firewalld.service"):
            zones = read_zones(run("firewall-cmd", "--list-all-zones"))
            found += zones_that_name(link, zones, run("firewall-cmd", "--get-default-zone").strip())
        if shutil.which("nft") is not None:
            found += chains_that_name(link, run("nft", "--json", "list", "ruleset"))
        return found
    except HostError:
        # It is a warning only; the firewall's own role says what it cannot read.
        return []


def zones_that_name(link: str, zones: Mapping[str, Zone], default: str) -> list[str]:
    """The zones of firewalld that an interface is bound to, without the default one, into which its bridge gets."""
    return [
        f"the zone {name} of firewalld" for name, zone in zones.items() if link in zone.interfaces and name != default
    ]


def chains_that_name(link: str, ruleset: str) -> list[str]:
    """The chains and sets of nftables that name an interface. ruleset: as ``nft --json list ruleset`` lists it.

    iptables writes its rules there too. Those that firewalld makes are left out: its zones say the same.
    """
    found: dict[str, None] = {}
    for item in json.loads(ruleset or "{}").get("nftables", []):
        for kind, value in item.items():
            if value.get("family") in _OF_PORTS or value.get("table") == _FIREWALLD_TABLE:
                continue
            place = f"of the table {value.get('family')} {value.get('table')}"
            if kind == "rule" and _names(value.get("expr"), link):
                found[f"the chain {value['chain']} {place}"] = None
            elif kind in ("set", "map") and _names(value.get("elem"), link):
                found[f"the {kind} {value['name']} {place}"] = None
    return list(found)


def _names(value: t.Any, link: str) -> bool:
    """Whether a name, or a pattern such as ``eth*``, stands anywhere in it."""
    if isinstance(value, str):
        return value == link or (len(value) > 1 and value.endswith("*") and link.startswith(value[:-1]))
    if isinstance(value, dict):
        return any(_names(one, link) for one in value.values())
    return isinstance(value, list) and any(_names(one, link) for one in value)
