# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place of devices in the boot order of a machine that is there already."""

from __future__ import annotations

import typing as t

from ..._base.xml import etree, need
from ..._model.spec.disk import Disk
from ..._model.spec.hardware.description import drop_boot_orders
from ..._model.spec.machine import Machine
from ..._model.xml.devices import SEED_TARGET
from .draft import Draft
from .running_disks import find_disk

_ORDERS = "devices/*/boot"


def settle_boot_order(machine: Machine, draft: Draft) -> None:
    """Where the spec orders single devices, those that it does not name are in no order, as in a new machine."""
    disks = {disk.name for disk in machine.disks if "boot_order" in disk.options}
    macs = {nic.mac for nic in machine.nics if "boot_order" in nic.options}
    if not disks and not macs:
        return
    targets = {note.target for note in draft.notes.disks if note.name in disks}

    def named(device: etree._Element) -> bool:
        target, mac = device.find("target"), device.find("mac")
        return (target is not None and target.get("dev") in targets) or (mac is not None and mac.get("address") in macs)

    def others(xml: etree._Element) -> bool:
        ordered = [order.getparent() for order in xml.iterfind(_ORDERS)]
        return xml.find("os/boot") is not None or any(home is not None and not named(home) for home in ordered)

    if not others(draft.domain.xml):
        return
    draft.differ(("boot_order",), "of all devices", "of those that are named")
    record = draft.record("boot order")
    drop_boot_orders(record, [device for device in record.iterfind("devices/*") if named(device)])
    for kind in record.findall("os/boot"):
        need(record, "os").remove(kind)


def order_of_new(disk: Disk, machine: Machine, draft: Draft) -> int | None:
    """The place of a disk that is added: as the spec has it; else where it is among the disks of the spec.

    It takes the place of one that goes in the same task, or one before the next disk, if there is one; or else the last
    one, so that the machine goes on booting from what it has booted from. None where kinds of devices are ordered, or
    others alone.
    """
    if "boot_order" in disk.options:
        return int(disk.options["boot_order"])
    ordered = any("boot_order" in device.options for device in (*machine.disks, *machine.nics))
    if ordered or disk.device == "floppy" or machine.hardware.get("boot", {}).get("devices"):
        return None
    record = draft.record(f"disk {disk.name}")
    if record.find("os/boot") is not None and not _drop_default(record, draft):
        return None
    before, used = _orders(draft.domain.xml), _orders(record)
    places = {note.name: note.target for note in draft.notes.disks}
    own = [_order(find_disk(record, places.get(other.name))) for other in machine.disks]
    index = next(number for number, other in enumerate(machine.disks) if other.name == disk.name)
    least = max([0, *(order for order in own[:index] if order)])
    most = min([order for order in own[index + 1 :] if order], default=None)
    free = sorted(order for order in before - used if order > least and (most is None or order < most))
    if free:
        return free[0]
    between = [] if most is None else [order for order in range(least + 1, most) if order not in used]
    return between[-1] if between else max([0, *used]) + 1


def _drop_default(record: etree._Element, draft: Draft) -> bool:
    """Take out what libvirt writes for a machine without any disk: the kind of devices that boots is ``hd``."""
    disks = [need(disk, "target").get("dev") for disk in draft.domain.xml.iterfind("devices/disk")]
    kinds = record.findall("os/boot")
    if [kind.get("dev") for kind in kinds] != ["hd"] or set(disks) - {SEED_TARGET}:
        return False
    need(record, "os").remove(kinds[0])
    return True


def _order(device: etree._Element | None) -> int | None:
    boot = None if device is None else device.find("boot")
    text = "" if boot is None else boot.get("order", "")
    return int(text) if text.isdigit() else None


def _orders(xml: etree._Element) -> set[int]:
    homes: t.Iterable[t.Any] = (boot.getparent() for boot in xml.iterfind(_ORDERS))
    return {order for order in map(_order, homes) if order is not None}
