# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and nics of a machine as the entries that would make them, in the words of their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.xml import etree
from ..metadata.machine import DiskNote, MachineNotes, NicNote
from ..spec.disk import DEFAULT_MODELS, DISK_OPTIONS, SERIAL_LENGTH
from ..spec.fields.table import Values, read_table
from ..spec.nic import NIC_OPTIONS, SOURCE_ATTRIBUTES, stable_mac
from ..spec.seed import DEFAULT_POOL
from .filled_in import without_usual


@dataclass(frozen=True)
class DiskOrigin:
    """Where a disk's content comes from, as options: pool, format, and size, image, backing or source.

    obstacle: why that cannot be said, and then the disk is in no entry; size_note: what its size is where that can be
    no option; backing_note: what it is an overlay on where that can be none.
    """

    options: Values = field(default_factory=dict)
    obstacle: str | None = None
    size_note: str | None = None
    backing_note: str | None = None


@dataclass
class Devices:
    """The devices of one kind, as entries, and what cannot be in them, in words."""

    entries: list[Values] = field(default_factory=list)
    not_exported: list[str] = field(default_factory=list)


def find_disk(domain: etree._Element, note: DiskNote) -> etree._Element | None:
    """The ``<disk>`` of a note in a parsed ``<domain>`` element."""
    targets = domain.iterfind("devices/disk/target")
    return next((target.getparent() for target in targets if target.get("dev") == note.target), None)


def find_nic(domain: etree._Element, note: NicNote) -> etree._Element | None:
    """The ``<interface>`` of a note in a parsed ``<domain>`` element; the first of its address."""
    wanted = note.mac.lower()
    macs = domain.iterfind("devices/interface/mac")
    return next((mac.getparent() for mac in macs if (mac.get("address") or "").lower() == wanted), None)


def export_disks(domain: etree._Element, notes: MachineNotes, origins: Mapping[str, DiskOrigin]) -> Devices:
    """An entry for each disk that has a name. origins: of these disks, by their names."""
    found = Devices()
    for note in notes.disks:
        element, origin = find_disk(domain, note), origins.get(note.name, DiskOrigin())
        if element is None:
            continue
        if origin.obstacle is not None:
            found.not_exported.append(f"disks.{note.name}: {origin.obstacle}")
            continue
        if origin.size_note is not None:
            found.not_exported.append(f"disks.{note.name}.size: {origin.size_note}")
        if origin.backing_note is not None:
            found.not_exported.append(f"disks.{note.name}.backing: {origin.backing_note}")
        found.entries.append({"name": note.name, **_disk(note, element, origin.options)})
    return found


def _disk(note: DiskNote, element: etree._Element, origin: Values) -> Values:
    device, target = element.get("device", "disk"), element.find("target")
    model = None if target is None else target.get("bus")
    entry: Values = {}
    if device != "disk":
        entry["device"] = device
    entry.update(origin)
    if entry.get("pool") == DEFAULT_POOL:
        del entry["pool"]
    if model is not None and model != DEFAULT_MODELS.get(device):
        entry["model"] = model
    usual: Values = {"readonly": device == "cdrom", "shareable": False, "cache": "default"}
    if device in ("disk", "lun"):
        usual["serial"] = note.name[:SERIAL_LENGTH]
    if device == "disk":
        usual["discard"] = "unmap"
    return {**entry, **without_usual(read_table(element, DISK_OPTIONS), usual)}


def export_nics(domain: etree._Element, notes: MachineNotes, machine: str) -> Devices:
    """An entry for each nic that has a name. machine: the machine's name, which MAC addresses follow from."""
    found = Devices()
    for note in notes.nics:
        element = find_nic(domain, note)
        if element is None:
            continue
        kind = element.get("type") or ""
        source = element.find("source")
        name = None if source is None or kind not in SOURCE_ATTRIBUTES else source.get(SOURCE_ATTRIBUTES[kind])
        if not name:
            found.not_exported.append(f"nics.{note.name}: a nic of type {kind}")
            continue
        entry: Values = {"name": note.name, kind: name}
        if note.mac.lower() != stable_mac(machine, note.name):
            entry["mac"] = note.mac.lower()
        model = element.find("model")
        if model is not None and model.get("type") not in (None, "virtio"):
            entry["model"] = model.get("type")
        if note.addresses:
            entry["addresses"] = list(note.addresses)
        usual: Values = {"link": "up", "vlan": (), "queues": 1}
        if kind == "direct":
            usual["mode"] = "bridge"
        found.entries.append({**entry, **without_usual(read_table(element, NIC_OPTIONS), usual)})
    return found


def settle_boot_order(disks: Sequence[Values], nics: Sequence[Values]) -> None:
    """Take the order of single devices out of the entries where it is the one that new machines get by themselves."""
    ordered = {entry["name"]: entry["boot_order"] for entry in (*disks, *nics) if "boot_order" in entry}
    bootable = [entry["name"] for entry in disks if entry.get("device") != "floppy"]
    if ordered == {name: number for number, name in enumerate(bootable, start=1)}:
        drop_boot_order(disks, nics)


def drop_boot_order(disks: Sequence[Values], nics: Sequence[Values]) -> None:
    """Take the order of single devices out of the entries."""
    for entry in (*disks, *nics):
        entry.pop("boot_order", None)
