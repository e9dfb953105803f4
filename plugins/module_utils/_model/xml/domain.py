# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as libvirt's domain XML (https://libvirt.org/formatdomain.html): what a new one is made of."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.xml import etree
from ..attachments import AGENT_CHANNEL
from ..metadata.machine import MachineNotes, notes_to_element
from ..spec.disk import Disk
from ..spec.fields.table import Values, make, write_table
from ..spec.fragment import merge_fragment
from ..spec.hardware.description import HARDWARE
from ..spec.machine import Machine
from ..spec.nic import Nic
from .devices import Placed, add_disk, add_nic, add_seed
from .disk_source import DiskSource

_SPICE_CHANNEL = "com.redhat.spice.0"
# A q35 machine has as many places for devices as it has root ports; these leave some free for what comes later.
_ROOT_PORTS = 14


@dataclass(frozen=True)
class GuestPlatform:
    """What the hypervisor decides: how guests run there, and on which machine and CPU.

    cpu: the fields of option ``cpu`` for a machine that does not say them itself.
    """

    domain_type: str
    arch: str
    machine_type: str | None
    cpu: Values
    serial_log_dir: str | None


def domain_xml(
    machine: Machine,
    *,
    notes: MachineNotes,
    host: GuestPlatform,
    disks: Sequence[Placed],
    seed: DiskSource | None,
    uuid: str | None = None,
) -> str:
    """The XML of a new domain.

    disks: where each of the machine's disks lies; seed: the seed volume, or None without one; uuid: that of the domain
    whose place it takes, None leaves it to libvirt.
    """
    domain = etree.Element("domain", type=host.domain_type)
    _add(domain, "name", machine.name)
    if uuid is not None:
        _add(domain, "uuid", uuid)
    for key, value in (("title", machine.title), ("description", machine.description)):
        if value:
            _add(domain, key, value)
    etree.SubElement(domain, "metadata").append(notes_to_element(notes))
    _add_os(domain, machine, host)
    write_table(domain, HARDWARE, _defaults(machine, host))
    devices = make(domain, "devices")
    orders = _boot_orders(machine)
    for placed in disks:
        add_disk(devices, placed, orders.get(placed.disk.name))
    if seed:
        add_seed(devices, seed)
    _add_controllers(devices, machine, host)
    for nic in machine.nics:
        add_nic(devices, nic, orders.get(nic.name))
    channel = _add(devices, "channel", type="unix")
    _add(channel, "target", type="virtio", name=AGENT_CHANNEL)
    _add(devices, "memballoon", model="virtio")
    write_table(domain, HARDWARE, machine.hardware)
    _add_for_graphics(devices, machine)
    if machine.xml:
        domain = merge_fragment(domain, machine.xml)
    return etree.tostring(domain, encoding="unicode", pretty_print=True)


def _defaults(machine: Machine, host: GuestPlatform) -> Values:
    """What a new machine is where its spec does not say it."""
    serial: Values = {"type": "pty", "target_port": 0}
    if host.serial_log_dir:
        serial["log"] = f"{host.serial_log_dir}/{machine.name}-serial.log"
    values: Values = {
        "features": {"acpi": True, "apic": True},
        "cpu": {**host.cpu, "fallback": "forbid"} if host.cpu.get("model") else host.cpu,
        "clock": {"offset": "utc"},
        "events": {"poweroff": "destroy", "reboot": "restart", "crash": "destroy"},
        "serials": (serial,),
        "consoles": ({"type": "pty", "target_type": "serial", "target_port": 0},),
        "rng": {},
    }
    if "mode" in machine.hardware.get("cpu", {}):
        # The host's choice has a model, or a check, that belongs to its own mode.
        values.pop("cpu")
    if "serials" in machine.hardware and "consoles" not in machine.hardware:
        # libvirt makes the console of the first serial device by itself.
        values.pop("consoles")
    return {key: value for key, value in values.items() if value or key == "rng"}


def _add(parent: etree._Element, tag: str, text: t.Any = None, **attributes: str | None) -> etree._Element:
    """A child with the attributes that are not None; lxml escapes text and attributes."""
    element = etree.SubElement(parent, tag, {key: value for key, value in attributes.items() if value is not None})
    if text is not None:
        element.text = str(text)
    return element


def _add_os(domain: etree._Element, machine: Machine, host: GuestPlatform) -> None:
    os = _add(domain, "os", firmware="efi" if machine.firmware == "efi" else None)
    _add(os, "type", "hvm", arch=host.arch, machine=host.machine_type)
    if machine.firmware == "efi" and machine.secure_boot is not None:
        # With secure boot, keys that trust the distributions' boot loaders; without, none at all.
        firmware = _add(os, "firmware")
        for name in ("secure-boot", "enrolled-keys"):
            _add(firmware, "feature", enabled="yes" if machine.secure_boot else "no", name=name)
    if machine.secure_boot:
        features = _add(domain, "features")
        _add(features, "smm", state="on")


def _boot_orders(machine: Machine) -> dict[str, int]:
    """The place of each device in the boot order: as the spec has it, or else the disks in their order."""
    if "devices" in machine.hardware.get("boot", {}):
        return {}
    devices: list[Disk | Nic] = [*machine.disks, *machine.nics]
    named = {device.name: device.options["boot_order"] for device in devices if "boot_order" in device.options}
    bootable = (disk for disk in machine.disks if disk.device != "floppy")
    return named or {disk.name: order for order, disk in enumerate(bootable, start=1)}


def _add_controllers(devices: etree._Element, machine: Machine, host: GuestPlatform) -> None:
    _add(devices, "controller", type="usb", model="qemu-xhci")
    if any(disk.model == "scsi" for disk in machine.disks):
        _add(devices, "controller", type="scsi", model="virtio-scsi")
    if "q35" in (host.machine_type or ""):
        _add(devices, "controller", type="pci", model="pcie-root")
        for _index in range(_ROOT_PORTS):
            _add(devices, "controller", type="pci", model="pcie-root-port")


def _add_for_graphics(devices: etree._Element, machine: Machine) -> None:
    """What a console with a picture needs beside itself."""
    graphics = machine.hardware.get("graphics")
    if not graphics:
        return
    video = machine.hardware.get("video")
    if video is None or video is False:
        # Without a word of it, libvirt chooses a card.
        _add(_add(devices, "video"), "model", type="virtio" if video is None else "none")
    _add(devices, "input", type="tablet", bus="usb")
    if graphics["type"] == "spice":
        channel = _add(devices, "channel", type="spicevmc")
        _add(channel, "target", type="virtio", name=_SPICE_CHANNEL)
