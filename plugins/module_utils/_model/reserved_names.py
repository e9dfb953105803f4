# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that a machine must not have, because they mean something else to Ansible, to SSH, to the live
inventory or to this collection.

Sources: C.LOCALHOST in ansible-core (an inventory host of such a name takes the place of the implicit localhost), and
``_create_implicit_localhost`` and the groups ``all`` and ``ungrouped`` in its inventory/data.py.
"""

from __future__ import annotations

import ipaddress
import re
import socket

from .metadata.migration import is_flush_name

# Names of the machine itself in /etc/hosts of distributions, beside ``localhost`` and what begins with ``localhost.``.
_LOOPBACK = frozenset({"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"})
_GROUPS = frozenset({"all", "ungrouped", "hypervisors", "virt_machines", "virt_building", "virt_provisioned"})
# Groups that the live inventory makes: by state (virDomainState), hypervisor and tag.
_STATE_GROUPS = re.compile(r"virt_(nostate|running|blocked|paused|shutdown|shutoff|crashed|pmsuspended)")
_GROUP_PREFIXES = ("virt_on_", "virt_tag_")
# inet_aton(3) takes 127.1 and 0x7f000001 for addresses. A plain number below this is one to nobody: it is in 0.0.0.0/8.
_LEAST_NUMBER = 2**24


def reserved_meaning(name: str) -> str | None:
    """What a name means already, in words that follow «is»; None for one that a machine may have. Case is no matter."""
    folded = name.casefold()
    if folded in _LOOPBACK or folded.startswith("localhost."):
        return "the controller itself to Ansible and SSH"
    if _is_address(folded):
        return "an address"
    if folded in _GROUPS or _STATE_GROUPS.fullmatch(folded) or folded.startswith(_GROUP_PREFIXES):
        return "a group of the inventory"
    if is_flush_name(folded):
        return "reserved for a helper domain of moves"
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        try:
            # What is after white space it does not read.
            found = "" if " " in text else socket.inet_aton(text)
        except (OSError, ValueError):
            return False
        return bool(found) and not (text.isdecimal() and int(text) < _LEAST_NUMBER)
    return True
