# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a description of a machine names as storage: its disks, whatever else has a path, and the notes in its metadata.

Read are ``<domain>``, and what has one in it or speaks of its disks: snapshots, checkpoints, backups.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ..._base.xml import attribute, etree
from ..metadata.machine import read_notes
from ..metadata.migration import VolumeRef, read_migration_note
from .disk_source import RAW, noted_format

# A snapshot of a running machine has the permanent description under the second name.
_DESCRIPTIONS = ("domain", "inactiveDomain")
# A mirror had its path as an attribute of its own before it had a source, and still has it beside.
_SOURCES = ("source", "mirror")
_PATHS_OF_SOURCES = ("file", "dev")
# QEMU's own options may have a file anywhere: "file=/x,if=virtio", or in JSON. A comma within a path is doubled.
_QEMU = "{http://libvirt.org/schemas/domain/qemu/"
_PATH_WITHIN = re.compile(r"""(?:^|(?<=[=:"']))/(?:[^,"']|,,)+""")
# What is read from whatever path they name, and never written to.
_ONLY_READ = ("emulator", "kernel", "initrd", "dtb", "loader")


@dataclass(frozen=True)
class Reference:
    """A path, a volume (pool and name) or a place in network storage (DiskSource.place) that a description names.

    noted: in the metadata alone. chained: it is a disk, opened with all that it is backed by. raw: as a raw one; of a
    noted volume, it was made as one. readonly: the guest cannot write to it. writes: whatever the description is of
    may write to it. below: it is what a disk is backed by. moving: noted for a move that is under way, or has not been
    cleared up. origin: noted as the image that a machine was created from.
    """

    path: str | None = None
    volume: tuple[str, str] | None = None
    place: str | None = None
    noted: bool = False
    chained: bool = False
    raw: bool = False
    readonly: bool = False
    writes: bool = False
    below: bool = False
    moving: bool = False
    origin: bool = False


def references_in(root: etree._Element, host: str) -> t.Iterator[Reference]:
    """All references in an XML document. host: the hypervisor's name for itself, to tell which notes of a move are its
    own.

    Of a checkpoint, to which nobody can revert, only the disks count that the machine had itself: what these were
    backed by, and what the machine was created from, may have been replaced since.
    """
    found = _references_in(root, host)
    if root.tag != "domaincheckpoint":
        return found
    return (one for one in found if not (one.below or one.origin))


def _references_in(root: etree._Element, host: str) -> t.Iterator[Reference]:
    for element in _elements(root):
        if element.tag in _DESCRIPTIONS:
            yield from _in_notes(element, host)
        if element.tag in _SOURCES:
            yield from _in_source(element)
        # A kernel, a memory device, a log: whatever it is, a volume may serve as it.
        for name, text in (*element.attrib.items(), ("", (element.text or "").strip())):
            if str(element.tag).startswith(_QEMU):
                for path in _PATH_WITHIN.findall(str(text)):
                    yield Reference(path=path.replace(",,", ","), writes=True)
            known = element.tag in _SOURCES and name in _PATHS_OF_SOURCES
            # What the guest calls a directory that it shares.
            known = known or (element.tag == "target" and name == "dir")
            if str(text).startswith("/") and not known:
                yield Reference(path=str(text), writes=element.tag not in _ONLY_READ)


def _elements(root: etree._Element) -> t.Iterator[etree._Element]:
    """All elements, but for the metadata, which may say anything."""
    if not isinstance(root.tag, str) or root.tag == "metadata":
        return
    yield root
    for child in root:
        yield from _elements(child)


def _in_source(source: etree._Element) -> t.Iterator[Reference]:
    # An element of one of these names is never the outermost one.
    parent = source.getparent()
    if parent is None:
        return
    raw = (parent.tag, source.tag) == ("disk", "source") and attribute(parent, "driver", "type") == "raw"
    readonly = parent.find("readonly") is not None
    below = parent.tag == "backingStore"
    writes = not readonly and not below
    disk = Reference(chained=True, raw=raw, readonly=readonly, writes=writes, below=below)
    if source.get("pool") and source.get("volume"):
        yield replace(disk, volume=(source.get("pool", ""), source.get("volume", "")))
    if source.get("protocol") and source.get("name"):
        yield Reference(place=f"{source.get('protocol')}:{source.get('name')}", writes=writes, below=below)
    for name in _PATHS_OF_SOURCES:
        path = source.get(name, "")
        # A network device is named there too, without a path.
        if path.startswith("/"):
            yield replace(disk, path=path)


def _in_notes(description: etree._Element, host: str) -> t.Iterator[Reference]:
    notes, move = read_notes(description), read_migration_note(description)
    if notes is not None:
        for volume in notes.volumes:
            # Volumes of other kinds than files are raw, and have no ending.
            raw = (noted_format(volume) or RAW) == RAW
            yield Reference(volume=(volume.pool, volume.name), noted=True, raw=raw)
        if notes.image is not None:
            yield Reference(volume=(notes.image.pool, notes.image.volume), noted=True, origin=True)
    refs: list[VolumeRef] = []
    if move is not None and move.target == host:
        refs += move.made
    if move is not None and move.source == host:
        refs += move.left
    for ref in refs:
        yield Reference(volume=(ref.pool, ref.name), noted=True, writes=True, moving=True)
