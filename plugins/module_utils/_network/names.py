# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files and profiles of a bridge are called, with any network manager: two bridges must not share a name."""

from __future__ import annotations

from collections.abc import Iterable

# What the names of files end in that make the uplink of a bridge a port: brine-br0-uplink.network, and so on.
ENDINGS = ("-uplink", "-port")


def file_names(bridge: str, made: str = "", members: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of the files of a bridge, without what is before and after them in all of them.

    made: the bond or VLAN that is made for it, empty for none. members: the interfaces of the bond.
    """
    found = [bridge, *(f"{bridge}{ending}" for ending in ENDINGS)]
    found += [f"{bridge}-{made}"] if made else []
    for member in members:
        found += [f"{bridge}-{member}", f"{bridge}-port-{member}"]
    return tuple(found)
