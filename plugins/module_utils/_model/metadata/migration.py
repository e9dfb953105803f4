# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine on the move carries with it: an element of its own namespace in its metadata.

It is written before anything is made on the target and travels with the machine. A run that was cut off is recognised
by it, on either hypervisor: before the switch it says what may be removed on the target, after the switch what is still
to be removed at the source.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..._base.xml import etree

NAMESPACE = "urn:brine:virt:move:1"
PREFIX = "brinemove"
# The domain that has files written to the disk; see _host/storage/transfer/flush.py.
_FLUSH_DOMAIN = re.compile(r"^brine-virt-sync-[0-9a-f]{32}\Z")


@dataclass(frozen=True)
class VolumeIdentity:
    """What tells a volume from another one that somebody has made under its name; each may be empty.

    mark: a word that was written into the volume, or on it. key: the storage's own id of it. written: when its content
    was written last, of one whose content is complete.
    """

    mark: str = ""
    key: str = ""
    written: str = ""


@dataclass(frozen=True)
class VolumeRef:
    """A volume by its pool and its name. These count in comparisons, what else is known does not.

    identity: what is known of this very one. origin: of one that a move between pools has made, the pool of the volume
    that it is a copy of, which has the same name. pivot: when the running machine was about to be switched from that
    one to this, in seconds since 1970; empty until then.
    """

    pool: str
    name: str
    identity: VolumeIdentity = field(default=VolumeIdentity(), compare=False)
    origin: str = field(default="", compare=False)
    pivot: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


@dataclass(frozen=True)
class MigrationNote:
    """source, target: names that the two hypervisors have for themselves, the same one twice when disks go to other
    pools of one hypervisor; uri: the target's libvirt.

    made: the volumes that are made on the target for this machine. left: those at the source that belong to the machine
    alone and go when it runs on the target. autostart: whether it starts with its hypervisor. running: whether it was
    up when the move began. source_id: what tells the source from others of its name. start: of one that was up, when it
    had been started at the source, as libvirt's log there says. Notes of earlier versions say none of these (None,
    empty) nor what identifies the volumes.
    """

    source: str
    target: str
    uri: str
    made: tuple[VolumeRef, ...] = ()
    left: tuple[VolumeRef, ...] = ()
    autostart: bool = False
    running: bool | None = None
    source_id: str = ""
    start: str = ""

    @property
    def stays(self) -> bool:
        """Whether the machine stays on its hypervisor, and its disks go to other pools there."""
        return self.source == self.target

    @property
    def holds_autostart(self) -> bool:
        """Whether autostart is off until it is settled which volumes the machine has, as a switch was begun."""
        return self.autostart and any(ref.pivot for ref in self.made)

    def removal(self, name: str, *, active: bool, virsh: str = "virsh") -> str:
        """The command that takes the note from a machine, for who decides what becomes of it; with what it held back.

        virsh: the program, with the options that lead it to the machine.
        """
        now = "--live --config" if active else "--config"
        again = f" && {virsh} autostart {name}" if self.autostart else ""
        return f"{virsh} metadata {name} {NAMESPACE} {now} --remove{again}"

    @property
    def words(self) -> str:
        """What happens to the machine, after its name: ``is being moved from hv1 to hv2``."""
        return "is having its disks moved" if self.stays else f"is being moved from {self.source} to {self.target}"

    @property
    def again(self) -> str:
        """What whoever began it has to do once more: ``move it from hv1 to hv2``."""
        if self.stays:
            pools = ", ".join(dict.fromkeys(ref.pool for ref in self.made))
            return f"run virt_migrate with pool: {pools}"
        return f"move it from {self.source} to {self.target}"


def migration_note_to_xml(note: MigrationNote) -> str:
    """The element as virDomainSetMetadata wants it, without the namespace; see metadata.notes_to_bare_xml."""
    root = etree.Element(
        "move", source=note.source, target=note.target, uri=note.uri, autostart="yes" if note.autostart else "no"
    )
    for tag, volumes in (("made", note.made), ("left", note.left)):
        for volume in volumes:
            words = {key: value for key, value in vars(volume.identity).items() if value}
            if volume.origin:
                words["from"] = volume.origin
            if volume.pivot:
                words["pivot"] = volume.pivot
            etree.SubElement(root, tag, pool=volume.pool, name=volume.name, **words)
    if note.running is not None:
        root.set("running", "yes" if note.running else "no")
    if note.source_id:
        root.set("source_id", note.source_id)
    if note.start:
        root.set("start", note.start)
    return etree.tostring(root, encoding="unicode")


def read_migration_note(domain: etree._Element) -> MigrationNote | None:
    """The note in a parsed ``<domain>`` element; None for a machine that nobody is moving."""
    root = domain.find(f"metadata/{{{NAMESPACE}}}move")
    if root is None:
        return None
    return MigrationNote(
        source=root.get("source", ""),
        target=root.get("target", ""),
        uri=root.get("uri", ""),
        made=_volumes(root, "made"),
        left=_volumes(root, "left"),
        autostart=root.get("autostart") == "yes",
        running={"yes": True, "no": False}.get(root.get("running", "")),
        source_id=root.get("source_id", ""),
        start=root.get("start", ""),
    )


def _volumes(root: t.Any, tag: str) -> tuple[VolumeRef, ...]:
    return tuple(
        VolumeRef(
            volume.get("pool", ""),
            volume.get("name", ""),
            VolumeIdentity(volume.get("mark", ""), volume.get("key", ""), volume.get("written", "")),
            volume.get("from", ""),
            volume.get("pivot", ""),
        )
        for volume in root.iterfind(f"{{{NAMESPACE}}}{tag}")
    )


def flush_name(token: str) -> str:
    """What a domain that has files written to the disk is called; token: 32 hexadecimal digits."""
    return f"brine-virt-sync-{token}"


def is_flush_name(name: str) -> bool:
    """Whether a domain is one of these, or a volume the one that its QEMU ends with."""
    return _FLUSH_DOMAIN.match(name) is not None
