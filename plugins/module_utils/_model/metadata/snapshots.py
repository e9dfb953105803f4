# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the metadata of a machine say of its snapshots for a while, in two elements of their own namespaces.

libvirt moves no machine that has snapshots. So they are set aside here, which travels with the machine, and defined
again where it arrives. What the snapshots hold stays in the disks' files, or in their Ceph cluster, all the while.

The other element says that one with files of its own is being deleted, in the permanent description: until that is
done, the file below may be half of one state and half of the other. Or that a machine is being reverted, also there:
until that is done, some disks may be those of the snapshot and others not yet. Or that one in a Ceph cluster, or one
with files of its own of a machine that runs, is being taken: the cluster may have it, or QEMU may write to its files,
and libvirt does not know it yet; that note is in the permanent description. The running machine may be paused and its
file systems may be frozen; that one is in its running description only, and goes when it stops.
"""

from __future__ import annotations

import copy
import posixpath
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.xml import etree

NAMESPACE = "urn:brine:virt:snapshots:1"
PREFIX = "brinesnapshots"
WORK_NAMESPACE = "urn:brine:virt:snapshotting:1"
WORK_PREFIX = "brinesnapshotting"
_TAKE, _REVERT, _DELETE = "take", "revert", "delete"


@dataclass(frozen=True)
class SetAside:
    """A snapshot by its own XML. current: the next one would follow it."""

    name: str
    xml: str
    current: bool = False


def set_aside_to_xml(snapshots: Sequence[SetAside]) -> str:
    """The element as virDomainSetMetadata wants it, without the namespace; see metadata.notes_to_bare_xml."""
    root = etree.Element("snapshots")
    for one in snapshots:
        element = etree.SubElement(root, "snapshot", name=one.name)
        if one.current:
            element.set("current", "yes")
        element.text = one.xml
    return etree.tostring(root, encoding="unicode")


def read_set_aside(domain: etree._Element) -> tuple[SetAside, ...]:
    """Those in a parsed ``<domain>`` element, each after the one that it follows; none for most machines."""
    root: t.Any = domain.find(f"metadata/{{{NAMESPACE}}}snapshots")
    if root is None:
        return ()
    return tuple(
        SetAside(one.get("name", ""), one.text or "", one.get("current") == "yes")
        for one in root.iterfind(f"{{{NAMESPACE}}}snapshot")
    )


@dataclass(frozen=True)
class SnapshotWork:
    """snapshot: its name. reverting: whether the machine is reverted to it; otherwise it is taken, and frozen and
    paused say what was to be done to the machine for that; or it is deleting, and its files are being merged. off: the
    machine was off when that began, so nothing but the merge writes to the files below until it is started. started:
    its last start by libvirt's log at that time, empty where the log has none; None where it was not noted."""

    snapshot: str
    reverting: bool = False
    frozen: bool = False
    paused: bool = False
    deleting: bool = False
    off: bool = False
    started: str | None = None


def work_to_element(work: SnapshotWork) -> etree._Element:
    """The element as it stands in the ``<metadata>`` of a domain."""
    root = etree.Element(f"{{{WORK_NAMESPACE}}}snapshotting", nsmap={WORK_PREFIX: WORK_NAMESPACE})
    _fill(root, work)
    return root


def work_to_bare_xml(work: SnapshotWork) -> str:
    """The element as virDomainSetMetadata wants it, without the namespace; see metadata.notes_to_bare_xml."""
    root = etree.Element("snapshotting")
    _fill(root, work)
    return etree.tostring(root, encoding="unicode")


def _fill(root: etree._Element, work: SnapshotWork) -> None:
    root.set("snapshot", work.snapshot)
    root.set("work", _REVERT if work.reverting else _DELETE if work.deleting else _TAKE)
    for name, value in (("frozen", work.frozen), ("paused", work.paused), ("off", work.off)):
        if value:
            root.set(name, "yes")
    if work.started is not None:
        root.set("started", work.started)


def read_work(domain: etree._Element) -> SnapshotWork | None:
    """The one in a parsed ``<domain>`` element; None for most machines."""
    root: t.Any = domain.find(f"metadata/{{{WORK_NAMESPACE}}}snapshotting")
    if root is None:
        return None
    return SnapshotWork(
        root.get("snapshot", ""),
        root.get("work") == _REVERT,
        root.get("frozen") == "yes",
        root.get("paused") == "yes",
        root.get("work") == _DELETE,
        root.get("off") == "yes",
        root.get("started"),
    )


def without_work(domain: etree._Element) -> etree._Element:
    """A copy of a ``<domain>`` element that says of no work."""
    found = copy.deepcopy(domain)
    metadata: t.Any = found.find("metadata")
    for note in () if metadata is None else metadata.findall(f"{{{WORK_NAMESPACE}}}snapshotting"):
        metadata.remove(note)
    return found


def taking(domain: etree._Element) -> str | None:
    """The snapshot that a run takes of a machine, or has not ended to take. domain: its permanent description."""
    work = read_work(domain)
    return work.snapshot if work is not None and not (work.reverting or work.deleting) else None


def snapshot_file(machine: str, target: str, disk: str, snapshot: str) -> str:
    """The file that a machine writes to after an external snapshot, instead of that of the disk."""
    return f"{posixpath.dirname(disk)}/{machine}-{target}.{snapshot}.qcow2"


def reverting_to(domain: etree._Element) -> str | None:
    """The snapshot that a machine is being reverted to, or was when that was interrupted: its disks may be of different
    times. domain: its permanent description."""
    work = read_work(domain)
    return work.snapshot if work is not None and work.reverting else None


def finish_revert_hint(snapshot: str) -> str:
    """What to do about it."""
    task = f"virt_snapshot with state: reverted and name: {snapshot}"
    return f"If nobody is reverting it, run {task} again, which finishes it"


def removal_of_work(machine: str) -> str:
    """The command that takes the note out of a machine's permanent definition."""
    return f"virsh metadata {machine} {WORK_NAMESPACE} --config --remove"
