# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and nics as elements of libvirt's domain XML, for new machines and for those that are there already."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..._base.xml import etree, need
from ..spec.disk import DISK_OPTIONS, SERIAL_LENGTH, TARGET_PREFIXES, Disk
from ..spec.fields.table import write_table
from ..spec.nic import NIC_OPTIONS, SOURCE_ATTRIBUTES, Nic
from .disk_source import DiskSource

# Last in the alphabet, so that disks can be added between the first ones and the seed.
SEED_TARGET = "vdz"
# The kinds of devices in <os>, which exclude an order of single ones: of each, the first device boots.
# https://libvirt.org/formatdomain.html#bios-bootloader
_KINDS = {
    "hd": "devices/disk[@device='disk']",
    "cdrom": "devices/disk[@device='cdrom']",
    "fd": "devices/disk[@device='floppy']",
    "network": "devices/interface",
}


@dataclass(frozen=True)
class Placed:
    """A disk, its target device, and where its content lies in which format; source None: a drive without a medium."""

    disk: Disk
    target: str
    source: DiskSource | None
    format: str


def disk_targets(disks: Iterable[Disk], taken: Iterable[str] = ()) -> dict[str, str]:
    """A target device for each disk by its name: vda, vdb, ... for each bus in the order of the list.

    taken: targets of the machine that other disks have already.
    """
    used = {SEED_TARGET, *taken}
    targets = {}
    for disk in disks:
        prefix, index = TARGET_PREFIXES[disk.model], 0
        while prefix + _letters(index) in used:
            index += 1
        targets[disk.name] = prefix + _letters(index)
        used.add(targets[disk.name])
    return targets


def _letters(index: int) -> str:
    """0 is a, 25 is z, 26 is aa, as the kernel counts disks."""
    word = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        word = chr(ord("a") + letter) + word
    return word


def attachable(element: etree._Element, live: etree._Element | None) -> str:
    """A device's XML for a running machine, without the places on the bus and in the boot order that it has in its
    definition, where they may be taken. live: the running machine's XML."""
    bare = copy.deepcopy(element)
    boot = bare.find("boot")
    if boot is not None and live is not None:
        taken = [one.get("order") for one in live.iterfind("devices/*/boot")]
        # Of an order of kinds of devices, no single one can be a part.
        if boot.get("order") in taken or live.find("os/boot") is not None:
            bare.remove(boot)
    for tag in ("address", "alias"):
        for child in bare.findall(tag):
            bare.remove(child)
    return etree.tostring(bare, encoding="unicode")


def add_disk(devices: etree._Element, placed: Placed, boot_order: int | None = None) -> etree._Element:
    """The <disk> of a disk, below <devices>."""
    disk = placed.disk
    source_type = placed.source.type if placed.source else "file"
    element = etree.SubElement(devices, "disk", type=source_type, device=disk.device)
    driver = etree.SubElement(element, "driver", name="qemu", type=placed.format)
    if disk.device == "disk":
        driver.set("discard", "unmap")
    if placed.source:
        placed.source.write(element)
    etree.SubElement(element, "target", dev=placed.target, bus=disk.model)
    if disk.device in ("disk", "lun"):
        etree.SubElement(element, "serial").text = disk.name[:SERIAL_LENGTH]
    if boot_order is not None:
        etree.SubElement(element, "boot", order=str(boot_order))
    if disk.device == "cdrom":
        etree.SubElement(element, "readonly")
    write_table(element, DISK_OPTIONS, disk.options)
    return element


def add_seed(devices: etree._Element, source: DiskSource) -> None:
    """A virtio disk, not a CD-ROM: the cloud kernels of Debian have no driver for a SATA drive."""
    element = etree.SubElement(devices, "disk", type=source.type, device="disk")
    etree.SubElement(element, "driver", name="qemu", type="raw")
    source.write(element)
    etree.SubElement(element, "target", dev=SEED_TARGET, bus="virtio")
    etree.SubElement(element, "readonly")
    etree.SubElement(element, "serial").text = "cidata"


def add_nic(devices: etree._Element, nic: Nic, boot_order: int | None = None) -> etree._Element:
    """The <interface> of a nic, below <devices>."""
    element = etree.SubElement(devices, "interface", type=nic.type)
    etree.SubElement(element, "mac", address=nic.mac)
    source = etree.SubElement(element, "source", {SOURCE_ATTRIBUTES[nic.type]: nic.source})
    if nic.type == "direct":
        source.set("mode", "bridge")
    etree.SubElement(element, "model", type=nic.model)
    if boot_order is not None:
        etree.SubElement(element, "boot", order=str(boot_order))
    write_table(element, NIC_OPTIONS, nic.options)
    return element


def arrange_boot_order(domain: etree._Element, named: Collection[str | None], known: Collection[str | None]) -> bool:
    """Put a machine's devices in order; whether anything changed.

    named: those that have their place already, by target or MAC address. The others of known are in no order, as in a
    new machine. Those that are not known at all, as nobody has said anything of them, come after them, as they are.
    """
    before = etree.tostring(domain)
    ordered = _ordered(domain)
    kinds = domain.findall("os/boot")
    rest = [home for home in ordered if _boot_key(home) not in known]
    rest += [first for kind in kinds for first in _firsts(domain, kind.get("dev", ""), known) if first not in rest]
    used = {boot_number(home) for home in ordered if _boot_key(home) in named}
    for home in ordered:
        if _boot_key(home) in known and _boot_key(home) not in named:
            home.remove(need(home, "boot"))
    last = 0
    for home in rest:
        last = max(boot_number(home), last + 1)
        while last in used:
            last += 1
        boot = home.find("boot")
        if boot is None:
            boot = etree.SubElement(home, "boot")
        boot.set("order", str(last))
    for kind in kinds:
        need(domain, "os").remove(kind)
    return etree.tostring(domain) != before


def in_boot_order(domain: etree._Element) -> list[str]:
    """The devices that have a place in the order, by target or MAC address."""
    return [_boot_key(home) or str(home.tag) for home in _ordered(domain)]


def _ordered(domain: etree._Element) -> list[etree._Element]:
    homes = (boot.getparent() for boot in domain.iterfind("devices/*/boot"))
    return sorted((home for home in homes if home is not None), key=boot_number)


def _firsts(domain: etree._Element, kind: str, known: Collection[str | None]) -> list[etree._Element]:
    found = domain.findall(_KINDS.get(kind, "none"))
    return [device for device in found if _boot_key(device) not in (*known, SEED_TARGET)][:1]


def _boot_key(device: etree._Element) -> str | None:
    if device.tag == "disk":
        return need(device, "target").get("dev")
    mac = device.find("mac")
    return None if mac is None else mac.get("address")


def boot_number(device: etree._Element) -> int:
    """Its place in the boot order; 0 where it is in none."""
    boot = device.find("boot")
    text = "" if boot is None else boot.get("order", "")
    return int(text) if text.isdigit() else 0
