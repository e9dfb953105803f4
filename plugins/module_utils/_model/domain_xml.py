# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as libvirt's domain XML (https://libvirt.org/formatdomain.html)."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._model.metadata import MachineNotes, notes_to_element
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Disk, Machine, Nic
from ansible_collections.brine.virt.plugins.module_utils._xml import etree

AGENT_CHANNEL = "org.qemu.guest_agent.0"
# Last in the alphabet, so that disks can be added between the first ones and the seed.
SEED_TARGET = "vdz"
_TARGET_PREFIX = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd"}
# virtio-blk shows a guest at most this much of a serial number.
_SERIAL_LENGTH = 20


@dataclass(frozen=True)
class Placed:
    """A disk and where its volume lies: source_type is ``file`` or ``block``, source the path."""

    disk: Disk
    target: str
    source_type: str
    source: str


@dataclass(frozen=True)
class HostChoices:
    """What the hypervisor decides: how guests run there, and on which machine and CPU.

    cpu_mode None: libvirt's default; cpu_model: name of the model, for the mode ``custom`` only.
    """

    domain_type: str
    arch: str
    machine_type: str | None
    cpu_mode: str | None
    serial_log_dir: str | None
    cpu_model: str | None = None


def disk_targets(disks: Sequence[Disk]) -> dict[str, str]:
    """The target device of each disk by its name: vda, vdb, ... for each bus in the order of the list."""
    used: dict[str, int] = {}
    targets = {}
    for disk in disks:
        prefix = _TARGET_PREFIX[disk.model]
        targets[disk.name] = prefix + _letters(used.get(prefix, 0))
        used[prefix] = used.get(prefix, 0) + 1
    return targets


def _letters(index: int) -> str:
    """0 is a, 25 is z, 26 is aa, as the kernel counts disks."""
    word = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        word = chr(ord("a") + letter) + word
    return word


def domain_xml(
    machine: Machine, *, notes: MachineNotes, host: HostChoices, disks: Sequence[Placed], seed: str | None
) -> str:
    """The XML of a new domain.

    disks: where each of the machine's disks lies; seed: path of the seed volume, or None without one.
    """
    domain = etree.Element("domain", type=host.domain_type)
    _add(domain, "name", machine.name)
    for key, value in (("title", machine.title), ("description", machine.description)):
        if value:
            _add(domain, key, value)
    etree.SubElement(domain, "metadata").append(notes_to_element(notes))
    _add(domain, "memory", machine.memory_mib, unit="MiB")
    _add(domain, "vcpu", machine.vcpus)
    _add_os(domain, machine, host)
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    if host.cpu_mode:
        cpu = _add(domain, "cpu", mode=host.cpu_mode, match="exact" if host.cpu_model else None)
        if host.cpu_model:
            _add(cpu, "model", host.cpu_model, fallback="forbid")
    _add(domain, "clock", offset="utc")
    for event, reaction in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _add(domain, f"on_{event}", reaction)
    devices = _add(domain, "devices")
    for order, placed in enumerate(disks, start=1):
        _add_disk(devices, placed, order)
    if seed:
        _add_seed(devices, seed)
    _add(devices, "controller", type="usb", model="qemu-xhci")
    if any(disk.model == "scsi" for disk in machine.disks):
        _add(devices, "controller", type="scsi", model="virtio-scsi")
    for nic in machine.nics:
        _add_nic(devices, nic)
    _add_consoles(devices, machine, host)
    channel = _add(devices, "channel", type="unix")
    _add(channel, "target", type="virtio", name=AGENT_CHANNEL)
    rng = _add(devices, "rng", model="virtio")
    _add(rng, "backend", "/dev/urandom", model="random")
    _add(devices, "memballoon", model="virtio")
    return etree.tostring(domain, encoding="unicode", pretty_print=True)


def _add(parent: etree._Element, tag: str, text: t.Any = None, **attributes: str | None) -> etree._Element:
    """A child with the attributes that are not None; lxml escapes text and attributes."""
    element = etree.SubElement(parent, tag, {key: value for key, value in attributes.items() if value is not None})
    if text is not None:
        element.text = str(text)
    return element


def _add_os(domain: etree._Element, machine: Machine, host: HostChoices) -> None:
    os = _add(domain, "os", firmware="efi" if machine.firmware == "efi" else None)
    _add(os, "type", "hvm", arch=host.arch, machine=host.machine_type)


def _add_disk(devices: etree._Element, placed: Placed, boot_order: int) -> None:
    element = _add(devices, "disk", type=placed.source_type, device="disk")
    _add(element, "driver", name="qemu", type=placed.disk.format, discard="unmap")
    _add_source(element, placed.source_type, placed.source)
    _add(element, "target", dev=placed.target, bus=placed.disk.model)
    _add(element, "serial", placed.disk.name[:_SERIAL_LENGTH])
    _add(element, "boot", order=str(boot_order))


def _add_source(disk: etree._Element, source_type: str, source: str) -> None:
    _add(disk, "source", **{"dev" if source_type == "block" else "file": source})


def _add_seed(devices: etree._Element, path: str) -> None:
    """A virtio disk, not a CD-ROM: the cloud kernels of Debian have no driver for a SATA drive."""
    element = _add(devices, "disk", type="file", device="disk")
    _add(element, "driver", name="qemu", type="raw")
    _add_source(element, "file", path)
    _add(element, "target", dev=SEED_TARGET, bus="virtio")
    _add(element, "readonly")
    _add(element, "serial", "cidata")


def _add_nic(devices: etree._Element, nic: Nic) -> None:
    element = _add(devices, "interface", type=nic.type)
    _add(element, "mac", address=nic.mac)
    _add(element, "source", **{nic.type: nic.source})
    _add(element, "model", type=nic.model)


def _add_consoles(devices: etree._Element, machine: Machine, host: HostChoices) -> None:
    """A serial console that is also logged on the hypervisor, and a picture only for those who asked."""
    serial = _add(devices, "serial", type="pty")
    if host.serial_log_dir:
        _add(serial, "log", file=f"{host.serial_log_dir}/{machine.name}-serial.log", append="on")
    _add(serial, "target", port="0")
    console = _add(devices, "console", type="pty")
    _add(console, "target", type="serial", port="0")
    graphics = machine.graphics
    if graphics is not None and graphics.type != "none":
        element = _add(devices, "graphics", type=graphics.type, autoport="yes")
        _add(element, "listen", type="address", address=graphics.listen)
        video = _add(devices, "video")
        _add(video, "model", type="virtio")
        _add(devices, "input", type="tablet", bus="usb")
