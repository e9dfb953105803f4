# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk in the definition, what the running machine has in its place, and how it gets it and gives it back."""

from __future__ import annotations

import typing as t

from ..._base.errors import ConflictError
from ..._base.xml import etree, need
from ..._model.spec.disk import REMOVABLE, Disk
from ..._model.xml.disk_source import DiskSource
from .draft import Draft

# Buses on which a running machine takes and gives back a disk.
_HOT_MODELS = ("virtio", "scsi", "usb")
_SCSI_CONTROLLER = "devices/controller[@type='scsi']"


def find_disk(xml: t.Any, target: str | None) -> etree._Element | None:
    """The disk with this target; xml may be None."""
    return None if xml is None or target is None else xml.find(f"devices/disk/target[@dev='{target}']/..")


def same_place(one: etree._Element, other: etree._Element) -> bool:
    """Whether two disks lie at one place, or nothing can be said of it."""
    places = [source.place for source in map(DiskSource.read, (one, other)) if source is not None]
    return len(places) < 2 or places[0] == places[1]


def running_disk(disk: Disk, element: etree._Element, draft: Draft) -> etree._Element | None:
    """What the running machine has of a disk that is in the definition, None when it has not.

    Raises ConflictError when it has another one there, which is not what the task speaks of.
    """
    target = need(element, "target").get("dev", "")
    live = find_disk(draft.live, target)
    if live is None or disk.device in REMOVABLE or same_place(live, element):
        return live
    there, known = DiskSource.read(live), DiskSource.read(element)
    raise ConflictError(
        f"the running machine has {there.place if there else 'nothing'} as {target}, and its definition has "
        f"{known.place if known else 'nothing'} there",
        where=disk.given.place,
        hint="Somebody has changed one of the two. Power it off and on first, or detach that disk with virsh "
        "detach-disk",
    )


def plug_in(disk: Disk, element: etree._Element, draft: Draft, controller: etree._Element | None = None) -> None:
    """Give the running machine a disk that it has in its definition; one that it cannot take now is pending."""
    if disk.model not in _HOT_MODELS or disk.device in REMOVABLE or not _has_thread(element, draft.live):
        draft.pending.append(f"disks.{disk.name}")
        return
    if controller is not None and draft.live is not None and draft.live.find(_SCSI_CONTROLLER) is None:
        draft.live_attach(f"attach a SCSI controller to {draft.name}", controller, None)
    draft.live_attach(f"attach disk {disk.name} to {draft.name}", element, lambda xml: _same_disk(xml, element))


def _has_thread(disk: etree._Element, live: t.Any) -> bool:
    """Whether the running machine has the I/O thread of a disk, if any: it gets no more of them before it is off."""
    driver = disk.find("driver")
    number = int("0" if driver is None else driver.get("iothread", "0"))
    # Those of a machine made by hand may have other numbers than the first ones.
    ids = [int(thread.get("id", "0")) for thread in live.iterfind("iothreadids/iothread")]
    return number == 0 or number in (ids or range(1, int(live.findtext("iothreads", "0")) + 1))


def scsi_controller(devices: etree._Element, disk: Disk) -> etree._Element | None:
    """The controller that a SCSI disk needs; libvirt's own choice would be one that few guests have a driver for."""
    if disk.model != "scsi" or devices.find(_SCSI_CONTROLLER.partition("/")[2]) is not None:
        return None
    return etree.SubElement(devices, "controller", type="scsi", model="virtio-scsi")


def _same_disk(xml: etree._Element, ours: etree._Element) -> etree._Element | None:
    """A disk in the running machine's XML; None where others have attached one there in its place."""
    element = find_disk(xml, need(ours, "target").get("dev"))
    return element if element is not None and same_place(element, ours) else None


def unplug(disk: Disk, element: etree._Element, draft: Draft) -> None:
    """Take from the running machine a disk that its definition no longer has; one that it cannot give now is
    pending."""
    live = running_disk(disk, element, draft)
    if live is None:
        return
    if need(live, "target").get("bus") not in _HOT_MODELS:
        draft.pending.append(f"disks.{disk.name}")
        return
    draft.live_detach(f"detach disk {disk.name} from {draft.name}", live)


def leaving_disks(draft: Draft) -> list[str]:
    """The disks that only the running machine has, and that it cannot give before it is powered off.

    By their names, which are forgotten when the definition loses the disk; then by their targets.
    """
    if draft.live is None:
        return []
    names = {note.target: note.name for note in draft.known_notes.disks}
    found = [need(disk, "target") for disk in draft.live.iterfind("devices/disk")]
    targets = [target.get("dev", "") for target in found if target.get("bus") not in _HOT_MODELS]
    return [names.get(target, target) for target in targets if find_disk(draft.domain.xml, target) is None]
