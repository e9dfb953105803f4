# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine only reads, after a revert to an external snapshot.

libvirt then puts a new file before every disk, also before an ISO image or a seed, which many machines may share
(virDomainSnapshotAlignDisks with force_default_location, src/conf/snapshot_conf.c). Nothing is ever written to such a
file, so it is taken away again while the machine is off. A run that was killed before that leaves a machine that works;
the next one that is at its snapshots does it.
"""

from __future__ import annotations

import copy

from ..._base.xml import etree, parse_xml
from ..._host.connection import VirConnect
from ..._host.machines.domains import whole_definition
from ..._host.machines.redefine import redefine
from ..._host.machines.snapshots import EXTERNAL, KnownSnapshot
from ..._model.attachments import disk_source, read_only_disks
from .clustered import uuid_of
from .files import delete_created
from .view import SnapshotView, rewrite


def hidden_disks(machine: SnapshotView) -> dict[str, tuple[KnownSnapshot, etree._Element, str]]:
    """The disks that have such a file before them, by target: the snapshot, the disk as it was, the file.

    Also those that have been put back in the machine's description and not yet in the snapshot's.
    """
    found = {}
    now = read_only_disks(machine.defined)
    for one in machine.snapshots:
        files = dict(one.facts.disks)
        if one.facts.kind != EXTERNAL or one.facts.domain is None:
            continue
        for target, disk in read_only_disks(one.facts.domain).items():
            current = now.get(target)
            file = files.get(target)
            if current is not None and file is not None and disk_source(current) in (file, disk_source(disk)):
                found[target] = (one, disk, file)
    return found


def put_back(conn: VirConnect, machine: SnapshotView) -> None:
    """Give a machine that is off its own disks back: first in its description, then in the snapshot; then the files go.

    Raises VirtError; a file that anything uses stays.
    """
    hidden = hidden_disks(machine)
    if machine.active or not hidden:
        return
    name = machine.name
    root = whole_definition(machine.power.handle)
    for target, disk in read_only_disks(root).items():
        if target in hidden:
            put_source_back(disk, hidden[target][1])
    redefine(conn, etree.tostring(root, encoding="unicode"), uuid_of(machine), name)
    for snapshot in {one.facts.name: one for one, _disk, _file in hidden.values()}.values():
        _leave_out(machine, snapshot, [target for target, found in hidden.items() if found[0] is snapshot])
    delete_created(conn, [file for _snapshot, _disk, file in hidden.values()], name)


def put_source_back(disk: etree._Element, then: etree._Element) -> None:
    """Put the source and the format of a disk back."""
    for tag in ("source", "driver", "backingStore"):
        for old in disk.findall(tag):
            disk.remove(old)
        for one in then.findall(tag):
            if tag != "backingStore":
                new = copy.deepcopy(one)
                new.attrib.pop("index", "")
                disk.insert(0, new)
    disk.set("type", then.get("type", "file"))


def _leave_out(machine: SnapshotView, snapshot: KnownSnapshot, targets: list[str]) -> None:
    """Write into a snapshot that nothing of these disks is kept, as it was when it was taken."""

    def change(text: str) -> str:
        root = parse_xml(text)
        for disk in root.iterfind("disks/disk"):
            if disk.get("name") in targets:
                for part in list(disk):
                    disk.remove(part)
                disk.attrib.pop("type", "")
                disk.set("snapshot", "no")
        return etree.tostring(root, encoding="unicode")

    rewrite(machine, snapshot, change, "cannot correct")
