# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of the hypervisor that a machine gets for itself: PCI functions by address, USB devices by their numbers."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ...._base.errors import InputError, shown
from ...._base.xml import etree
from ...attachments import host_device_name, host_device_names
from ..fields.table import make

# As lspci writes it, and as libvirt names the node device (virsh nodedev-list).
_PCI = re.compile(r"(?:pci_)?([0-9a-f]{4})[:_]([0-9a-f]{2})[:_]([0-1][0-9a-f])[._]([0-7])", re.IGNORECASE)
# As lsusb writes it: vendor and product.
_USB = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})", re.IGNORECASE)
_ADDRESS = ("domain", "bus", "slot", "function")


@dataclass(frozen=True)
class HostDevices:
    """A field of a table: a list of ``0000:03:00.0`` (PCI) or ``046d:c52b`` (USB)."""

    key: str
    path: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            value = [value]
        return tuple(_check(device, f"{where}[{index}]") for index, device in enumerate(value))

    def write(self, parent: etree._Element, value: t.Sequence[str]) -> None:
        home = make(parent, "devices")
        there: dict[str, etree._Element] = {}
        for old in parent.findall(self.path):
            name = host_device_name(old)
            if name is not None:
                there[name] = old
                home.remove(old)
        for device in value:
            kept = there.pop(device, None)
            if kept is None:
                _write(home, device)
            else:
                # It keeps what else is said of it, such as its place on the bus.
                home.append(kept)

    def read(self, parent: etree._Element) -> tuple[str, ...]:
        return host_device_names(parent)


def _check(value: t.Any, where: str) -> str:
    pci, usb = _PCI.fullmatch(str(value)), _USB.fullmatch(str(value))
    if pci:
        domain, bus, slot, function = pci.groups()
        return f"{domain}:{bus}:{slot}.{function}".lower()
    if usb:
        return str(value).lower()
    raise InputError(
        f"{shown(value)} is not a device of the hypervisor",
        where=where,
        hint="Write 0000:03:00.0 for a PCI device (lspci -D), or 046d:c52b for a USB device (lsusb)",
    )


def _write(home: etree._Element, device: str) -> None:
    pci = _PCI.fullmatch(device)
    kind = "pci" if pci else "usb"
    element = etree.SubElement(home, "hostdev", mode="subsystem", type=kind, managed="yes")
    source = etree.SubElement(element, "source")
    if pci:
        address = {name: f"0x{digits}" for name, digits in zip(_ADDRESS, pci.groups())}  # noqa: B905 - Python 3.9
        etree.SubElement(source, "address", address)
    else:
        vendor, product = device.split(":")
        etree.SubElement(source, "vendor", id=f"0x{vendor}")
        etree.SubElement(source, "product", id=f"0x{product}")
