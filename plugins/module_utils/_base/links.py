# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The links of a host, as ``ip -json -details address`` tells them. Values only."""

from __future__ import annotations

import typing as t


def is_inner_bridge(link: dict[str, t.Any], links: list[dict[str, t.Any]]) -> bool:
    """Whether a link is a bridge of a network inside the host: it has no port but machines' own, whatever its name.

    Each host may have the same addresses there. links: all of the host.
    """
    ports = [other for other in links if other.get("master") == link.get("ifname")]
    return _kind(link) == "bridge" and all(_kind(port) == "tun" for port in ports)


def _kind(link: dict[str, t.Any]) -> str:
    return str(link.get("linkinfo", {}).get("info_kind", ""))
