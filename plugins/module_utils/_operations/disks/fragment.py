# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks in the user's own XML: they are put into the machine as they are, and get no volume that others have either."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import inside
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fragment import fragment_disks
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.sharing import (
    how_attached,
    require_no_image_at,
    require_unshared,
    users_of_source,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.task_volumes import VolumeUseByDisk


def check_fragment_disks(machine: Machine, hypervisor: Hypervisor, where: str) -> None:
    """Raise ConflictError when a disk of the machine's ``xml`` would write to what others have, or are backed by."""
    place = inside(where, "xml")
    for disk in fragment_disks(machine.xml) if machine.xml else ():
        if disk.get("device") != "cdrom" and disk.find("readonly") is None:
            _check(disk, machine, hypervisor, place)


def _check(disk: etree._Element, machine: Machine, hypervisor: Hypervisor, where: str) -> None:
    how = how_attached(disk)
    found, target = users_of_source(disk, hypervisor, where), disk.find("target")
    if found is None:
        return
    name, identity, users = found
    require_no_image_at(disk, hypervisor, where)
    require_unshared(how, users, name, machine, hypervisor, where)
    device = "" if target is None else target.get("dev", "")
    hypervisor.task_volumes.add(VolumeUseByDisk(machine.name, device, name, how, where, lambda: identity))
