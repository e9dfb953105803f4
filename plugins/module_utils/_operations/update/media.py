# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of a disk that is there: a medium changes, also in the running machine; a disk stays where it is."""

from __future__ import annotations

import copy

from ..._base.errors import UnsupportedError
from ..._base.xml import etree, need
from ..._model.attachments import disk_source
from ..._model.spec.disk import REMOVABLE, Disk
from ..._model.spec.fields.table import make
from ..._model.spec.machine import Machine
from ..._model.xml.disk_source import DiskSource, driver_format
from ..disks.planned import PlannedDisk, plan_disk
from .draft import Draft
from .running_disks import find_disk


def compare_source(
    disk: Disk, machine: Machine, element: etree._Element, have: DiskSource | None, draft: Draft
) -> None:
    """A medium changes, also in the running machine; a disk does not turn into another one."""
    if _is_source(disk, element):
        _compare_running_medium(disk, element, have, draft)
        return
    planned = plan_disk(disk, machine, draft.hypervisor, have=have)
    if planned.source == have or (planned.source is not None and planned.source.leads_to(have)):
        _compare_running_medium(disk, element, have, draft)
        return
    if disk.device not in REMOVABLE:
        raise UnsupportedError(
            f"the disk is {have.place if have else 'empty'}, the task names another source",
            where=disk.given.at("source"),
            hint="Remove the disk (state: absent) and add the other one under its own name",
        )
    draft.differ(("disks", disk.name, "source"), have.place if have else None, disk.source)
    dev = need(element, "target").get("dev", "")
    _set_medium(find_disk(draft.record(f"medium of {disk.name}"), dev), planned)
    live = find_disk(draft.live, dev)
    if live is not None:
        _change_medium(disk, live, planned, draft)


def _compare_running_medium(disk: Disk, element: etree._Element, have: DiskSource | None, draft: Draft) -> None:
    """What is in the definition as a medium may not have come to the running machine, as after a run that was
    killed."""
    live = find_disk(draft.live, need(element, "target").get("dev"))
    source = element.find("source")
    known = source is None or (have is not None and source.get("startupPolicy") is None)
    if live is None or disk.device not in REMOVABLE or not known:
        return
    there = DiskSource.read(live)
    if (there.place if there else None) == (have.place if have else None):
        return
    draft.differ(("disks", disk.name, "source"), there.place if there else None, disk.source)
    _change_medium(disk, live, PlannedDisk(disk, driver_format(element), have), draft)


def _change_medium(disk: Disk, live: etree._Element, planned: PlannedDisk, draft: Draft) -> None:
    changed = copy.deepcopy(live)
    _set_medium(changed, planned)
    draft.live_update(f"change the medium of {disk.name} in {draft.name}", live, changed)


def _is_source(disk: Disk, element: etree._Element) -> bool:
    """Whether the machine has what the spec names, as its record says it, though that may be in no pool."""
    if disk.format not in (None, driver_format(element)):
        return False
    source = element.find("source")
    if element.get("type") == "volume" and source is not None and source.get("pool") == disk.pool:
        return disk.source in (source.get("volume"), disk_source(element))
    return disk.source == disk_source(element)


def _set_medium(element: etree._Element | None, planned: PlannedDisk) -> None:
    if element is None:
        return
    for tag in ("source", "backingStore", "auth"):
        for child in element.findall(tag):
            element.remove(child)
    element.set("type", planned.source.type if planned.source else "file")
    make(element, "driver").set("type", planned.format)
    if planned.source:
        planned.source.write(element)
