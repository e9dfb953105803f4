# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a machine, as libvirt has them. https://libvirt.org/formatsnapshot.html

Nothing here changes anything. Whether one was taken by this collection stands in its description, as a snapshot has no
metadata of its own, and a machine's metadata are replaced by a revert.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ..._base.xml import attribute, etree, read_description
from ..._model.attachments import OWN_SNAPSHOT
from ..connection import libvirt, suppress_codes, translate_errors

INTERNAL, EXTERNAL, CEPH = "internal", "external", "ceph"
# The last line of the description of one that this collection has taken.
MARK = "brine.virt:1"
# The states of a machine in a snapshot; of the last one, no more than the disks of one that was running were kept.
RUNNING, PAUSED, SHUTOFF, DISK_SNAPSHOT = "running", "paused", "shutoff", "disk-snapshot"
# Of a time: more of them are not the clock's.
_MOST_DIGITS = 100


@dataclass(frozen=True)
class Snapshot:
    """One snapshot.

    created: seconds since the epoch. state: of the machine then. kind: INTERNAL, EXTERNAL, CEPH, None where nothing was
    kept. memory: whether the memory was kept too. own: this collection has taken it. disks: the targets of what was
    kept, each with the file that an external one writes to since then. memory_file: of an external one.
    domain: the machine's description then, None where the snapshot has none.
    """

    name: str
    created: int
    state: str
    kind: str | None
    memory: bool
    parent: str | None
    description: str
    own: bool
    disks: tuple[tuple[str, str | None], ...] = ()
    memory_file: str | None = None
    domain: etree._Element | None = None

    @property
    def time(self) -> str:
        """When it was taken, in UTC (ISO 8601)."""
        try:
            return datetime.datetime.fromtimestamp(self.created, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (OverflowError, OSError, ValueError):
            # Somebody's hand, as libvirt writes the clock's.
            return ""


def read_snapshot(root: etree._Element) -> Snapshot:
    """A snapshot from its ``<domainsnapshot>``."""
    description, own = split_mark(root.findtext("description") or "")
    places = {disk.get("snapshot") for disk in root.iterfind("disks/disk")}
    memory = attribute(root, "memory", "snapshot") or "no"
    state = root.findtext("state") or ""
    if _is_in_cluster(root):
        kind: str | None = CEPH
    elif EXTERNAL in places or memory == EXTERNAL:
        kind = EXTERNAL
    elif INTERNAL in places or memory == INTERNAL:
        kind = INTERNAL
    else:
        # Versions before the element <disks> knew no other kind.
        kind = None if places else INTERNAL
    time = root.findtext("creationTime") or ""
    return Snapshot(
        name=root.findtext("name") or "",
        created=int(time) if time.isascii() and time.isdigit() and len(time) < _MOST_DIGITS else 0,
        state=state,
        kind=kind,
        memory=memory != "no" or (not places and state in (RUNNING, PAUSED)),
        parent=root.findtext("parent/name"),
        description=description,
        own=own,
        disks=tuple(
            (disk.get("name", ""), attribute(disk, "source", "file"))
            for disk in root.iterfind("disks/disk")
            if disk.get("snapshot") in (INTERNAL, EXTERNAL)
        ),
        memory_file=attribute(root, "memory", "file"),
        domain=root.find("domain"),
    )


def _is_in_cluster(root: etree._Element) -> bool:
    """Whether a ``<domainsnapshot>`` describes what a Ceph cluster keeps; see storage/cluster/record.py."""
    return any(
        (attribute(disk, "source/snapshot", "name") or "").startswith(OWN_SNAPSHOT)
        for disk in root.iterfind("disks/disk[@snapshot='external']")
    )


def as_record(snapshot: Snapshot, *, current: bool) -> dict[str, object]:
    """It in the words of a machine's record."""
    return {
        "name": snapshot.name,
        "current": current,
        "time": snapshot.time,
        "state": snapshot.state,
        "kind": snapshot.kind,
        "memory": snapshot.memory,
        "parent": snapshot.parent,
        "description": snapshot.description,
        "own": snapshot.own,
    }


def with_mark(description: str) -> str:
    """A description that says that this collection has taken the snapshot."""
    return f"{description.rstrip()}\n{MARK}" if description.strip() else MARK


def split_mark(text: str) -> tuple[str, bool]:
    """The description without the mark, and whether it was there."""
    rest, _line, last = text.rstrip().rpartition("\n")
    return (rest.rstrip(), True) if last.strip() == MARK else (text, False)


@dataclass(frozen=True)
class KnownSnapshot:
    """A snapshot with libvirt's handle. current: the next one would follow it."""

    handle: t.Any
    facts: Snapshot
    current: bool


def list_snapshots(domain: t.Any) -> list[KnownSnapshot]:
    """A machine's snapshots, each after the one that it follows. domain: libvirt's handle.

    One that goes meanwhile is left out. Raises VirtError, also for one whose description cannot be read.
    """
    with translate_errors("cannot list its snapshots"):
        handles = domain.listAllSnapshots(libvirt.VIR_DOMAIN_SNAPSHOT_LIST_TOPOLOGICAL)
        current = None
        # It may go between the two calls.
        with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
            current = domain.snapshotCurrent().getName() if handles else None
        found = []
        for handle in handles:
            with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
                name = handle.getName()
                root = read_description(f"snapshot {name}", handle.getXMLDesc(0))
                found.append(KnownSnapshot(handle, read_snapshot(root), name == current))
        return found


def snapshot_records(domain: t.Any) -> list[dict[str, t.Any]]:
    """A machine's snapshots in the words of its record."""
    return [as_record(one.facts, current=one.current) for one in list_snapshots(domain)]
