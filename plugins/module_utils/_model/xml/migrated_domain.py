# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's XML as its next hypervisor is to get it: its disks lie elsewhere there."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from dataclasses import replace

from ..._base.xml import etree
from ..metadata.machine import MachineNotes, find_notes, notes_to_element, read_notes
from ..metadata.migration import VolumeRef
from .disk_source import DiskSource


def migrated_domain_xml(
    domain: etree._Element,
    places: Mapping[str, DiskSource],
    volumes: Mapping[VolumeRef, VolumeRef | None],
    flattened: Container[str] = (),
    shared: Container[VolumeRef] = (),
) -> str | None:
    """The XML with other places for some disks, or None when nothing in it changes.

    places: by a disk's place here (DiskSource.place), where it lies on the next hypervisor. volumes: the volumes of our
    notes under their names there, None for those that stay behind; what is named there is another volume than here, and
    what told the old one from others does not tell the new one. flattened: places of disks that have no backing file
    there. shared: the volumes that are the very same ones there.
    """
    root = copy.deepcopy(domain)
    changed = _move_disks(root, places, flattened)
    notes = read_notes(root)
    if notes is not None:
        moved = _moved_notes(notes, volumes, shared)
        if moved != notes:
            for old in find_notes(root):
                parent = old.getparent()
                if parent is not None:
                    parent.replace(old, notes_to_element(moved))
            changed = True
    return etree.tostring(root, encoding="unicode") if changed else None


def _move_disks(root: etree._Element, places: Mapping[str, DiskSource], flattened: Container[str]) -> bool:
    changed = False
    for disk in root.iterfind("devices/disk"):
        here = DiskSource.read(disk)
        if here is None:
            continue
        there = places.get(here.place, here)
        if there == here and here.place not in flattened:
            continue
        # QEMU on the other hypervisor looks for itself what backs the file; what is said here are paths of this
        # hypervisor.
        for backing in disk.findall("backingStore"):
            disk.remove(backing)
        there.move(disk)
        changed = True
    return changed


def _moved_notes(
    notes: MachineNotes, volumes: Mapping[VolumeRef, VolumeRef | None], shared: Container[VolumeRef]
) -> MachineNotes:
    moved = []
    for note in notes.volumes:
        here = VolumeRef(note.pool, note.name)
        there = volumes.get(here, here)
        if there is not None:
            identity = "" if here in volumes and here not in shared else note.identity
            moved.append(replace(note, pool=there.pool, name=there.name, identity=identity))
    return replace(notes, volumes=tuple(moved))
