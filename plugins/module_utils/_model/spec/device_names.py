# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that we give to the disks and nics of a machine that somebody else made."""

from __future__ import annotations

from ..._base.errors import InputError
from ..._base.xml import attribute, etree
from ..metadata.machine import DiskNote, MachineNotes, NicNote
from .fields import validators


def named_notes(domain: etree._Element, notes: MachineNotes | None) -> MachineNotes:
    """What is remembered of a machine (notes); of one that somebody else made, what would be."""
    return MachineNotes(disks=name_disks(domain), nics=name_nics(domain)) if notes is None else notes


def name_disks(domain: etree._Element) -> tuple[DiskNote, ...]:
    """A name for each disk of a parsed ``<domain>`` element: its target device, such as ``vda``.

    One whose target could be no name of a disk gets none.
    """
    targets = dict.fromkeys(target.get("dev", "") for target in domain.iterfind("devices/disk/target"))
    return tuple(DiskNote(target, target) for target in targets if _is_name(target))


def name_nics(domain: etree._Element) -> tuple[NicNote, ...]:
    """A name for each nic: ``eth0``, ``eth1`` and so on in the order of the XML.

    Nics are known by their MAC addresses. One that has none, or that of another nic of the machine, gets no name.
    """
    found: dict[str, NicNote] = {}
    for index, nic in enumerate(domain.iterfind("devices/interface")):
        mac = attribute(nic, "mac", "address")
        if mac:
            found.setdefault(mac.lower(), NicNote(f"eth{index}", mac))
    return tuple(found.values())


def _is_name(text: str) -> bool:
    try:
        validators.name(text, "")
    except InputError:
        return False
    return True
