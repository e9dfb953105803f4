# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is there already, in the words in which a task would ask for it.

A request is checked against it: what the machine has is accepted, whether it is offered for new machines or not, and
what the task does not name stays as it is.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.xml import attribute, etree
from ..attachments import disk_source, nic_source, nic_type
from ..metadata.machine import MachineNotes
from .disk import DISK_OPTIONS
from .fields.table import Values, read_table
from .hardware.description import HARDWARE
from .nic import NIC_OPTIONS


@dataclass(frozen=True)
class Existing:
    """A machine that is there. values: what it has, as read_values gives it; None where only its hypervisor knows."""

    values: Values | None = None

    def device(self, kind: str, name: str) -> Values | None:
        """What the machine's own disk or nic of this name has; None when it has none, or that is not known here."""
        found: Values | None = (self.values or {}).get(f"{kind}s", {}).get(name)
        return found


# The machine of a name, None when it is still to be made.
FindExisting = t.Callable[[str], "Existing | None"]


def none_exists(_name: str) -> None:
    """For requests of which it does not matter what is there."""


def read_values(domain: etree._Element, notes: MachineNotes | None = None) -> Values:
    """All that a machine's XML says, by the options of a machine; never an error, whoever made the XML.

    ``disks`` and ``nics`` are mappings by name. notes: what we remember of the machine; disks and nics that are not
    named there are left out. Without notes all are there, disks by their targets and nics as eth0, eth1 and so on.
    """
    disks = {note.target: note.name for note in notes.disks} if notes else None
    nics = {note.mac.lower(): note.name for note in notes.nics} if notes else None
    values = {
        **{key: domain.findtext(key) for key in ("name", "title", "description")},
        "machine_type": attribute(domain, "os/type", "machine"),
        **read_table(domain, HARDWARE),
        "disks": {},
        "nics": {},
    }
    for index, element in enumerate(domain.iterfind("devices/disk")):
        target = attribute(element, "target", "dev") or f"disk{index}"
        name = target if disks is None else disks.get(target)
        if name is not None:
            values["disks"].setdefault(name, _disk(element))
    for index, element in enumerate(domain.iterfind("devices/interface")):
        mac = attribute(element, "mac", "address") or ""
        name = f"eth{index}" if nics is None else nics.get(mac.lower())
        if name is not None:
            values["nics"].setdefault(name, _nic(element))
    return _named(values)


def _disk(element: etree._Element) -> Values:
    return _named(
        {
            "device": element.get("device", "disk"),
            "model": attribute(element, "target", "bus"),
            "source": disk_source(element),
            "format": attribute(element, "driver", "type"),
            **read_table(element, DISK_OPTIONS),
        }
    )


def _nic(element: etree._Element) -> Values:
    return _named(
        {
            "type": nic_type(element) or None,
            "source": nic_source(element),
            "model": attribute(element, "model", "type"),
            "mac": attribute(element, "mac", "address"),
            **read_table(element, NIC_OPTIONS),
        }
    )


def _named(values: Values) -> Values:
    return {key: value for key, value in values.items() if value is not None}
