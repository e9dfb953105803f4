# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each of the two hypervisors has of one machine, and whether the target has taken it over for good.

libvirt's daemon at the source may die at the switch. Started again, it leaves the machine paused where it does not know
whether the target runs it, and stops it, without forgetting it, where it does. https://libvirt.org/migration.html
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...._base.xml import etree, read_description
from ...._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ...._host.machines.start_watch import last_start
from ...._model.metadata.migration import MigrationNote, migration_note_to_xml, read_migration_note
from .location import find

# Numbers, as this file is also read where there is no libvirt. https://libvirt.org/html/libvirt-libvirt-domain.html
# virDomainRunningReason, POSTCOPY and POSTCOPY_FAILED: the memory is still in two places.
_IN_POSTCOPY = (10, 11)
# virDomainPausedReason, MIGRATION, POSTCOPY and POSTCOPY_FAILED
_HELD = (2, 12, 13)
# virDomainShutoffReason, UNKNOWN, MIGRATED and DAEMON: what a daemon says that has ended it at the end of a move, or
# that was started again and found it there (qemuProcessReconnect), or gone. For any other reason it has run on.
_LEFT = (0, 4, 8)


@dataclass(frozen=True)
class Presence:
    """What one hypervisor has of a machine.

    state, reason: libvirt's numbers; no state where there is no such machine. busy: a job is at work on it. note: that
    of its move. started: of one that is off, when it was last started here, as libvirt's log says.
    """

    state: int | None = None
    reason: int = 0
    persistent: bool = False
    busy: bool = False
    note: MigrationNote | None = None
    started: str = ""

    @property
    def runs(self) -> bool:
        """All of it runs here."""
        return self.state == libvirt.VIR_DOMAIN_RUNNING and self.reason not in _IN_POSTCOPY

    @property
    def paused(self) -> bool:
        """It is in memory and stands still, for whatever reason."""
        return self.state == libvirt.VIR_DOMAIN_PAUSED

    @property
    def held(self) -> bool:
        """It is paused because it is, or was, on its way."""
        return self.paused and self.reason in _HELD

    @property
    def off(self) -> bool:
        """It is defined, and not in memory."""
        return self.state in (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED)

    @property
    def left(self) -> bool:
        """It is off, as a move leaves it behind, and was not started since that began."""
        if not self.off or self.reason not in _LEFT or self.note is None:
            return False
        return self.note.start != "" and self.note.start == self.started

    @property
    def words(self) -> str:
        """``is paused`` and such."""
        if self.state is None:
            return "is not defined"
        if self.off:
            return "is off"
        return "is paused" if self.paused else "runs"


@dataclass(frozen=True)
class Presences:
    """What the source (here) and the target (there) have of a machine at one moment."""

    here: Presence
    there: Presence

    @property
    def same_move(self) -> bool:
        """Both say that they are the two ends of one live move, down to the marks of its volumes."""
        here, there = self.here.note, self.there.note
        if here is None or there is None or not here.running:
            return False
        return migration_note_to_xml(here) == migration_note_to_xml(there)

    @property
    def taken_over(self) -> bool:
        """Whether the target has the machine for good, and the source only what a finished move would have ended.

        libvirt lets a machine run at the target, and defines it there, only once all of it has come; and a source that
        stands still since then has nothing newer. Who has started that one again, and shut it down, has two machines.
        """
        if self.here.busy or self.there.busy or not self.same_move:
            return False
        stands_still = self.here.paused and self.here.reason == libvirt.VIR_DOMAIN_PAUSED_MIGRATION
        return self.there.runs and (stands_still or self.here.left)


def see_both(source: VirConnect, target: VirConnect, uuid: str) -> Presences:
    """What the two have of a machine now."""
    return Presences(see(find(source, uuid)), see(find(target, uuid)))


def see(handle: t.Any) -> Presence:
    """What is behind libvirt's handle, which may be None; one that vanishes meanwhile is not there."""
    if handle is None:
        return Presence()
    with translate_errors("cannot inspect the machine"), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
        xml = read_description("the machine", handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        state, reason = read_state(handle)
        note = read_migration_note(xml)
        here = Presence(state, reason, bool(handle.isPersistent()), has_job(handle), note)
        return replace(here, started=last_start(handle.name())) if here.off and note is not None else here
    return Presence()


def read_state(handle: t.Any) -> tuple[int, int]:
    """libvirt's numbers for a machine's state and its reason."""
    state, reason = handle.state(0)
    return state, reason


def has_job(handle: t.Any) -> bool:
    """Whether libvirt is at work on a machine: a migration, a snapshot, a save."""
    try:
        return bool(handle.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError as exc:
        # A driver without jobs has none, and neither has a machine that is off.
        if exc.get_error_code() in (libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_INVALID):
            return False
        raise


def written_files(running_xml: etree._Element) -> dict[str, str]:
    """The disks that a machine writes to and that are files or devices: their paths, or volumes' names, by device."""
    found = {}
    for disk in running_xml.iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if source is None or target is None or disk.find("readonly") is not None:
            continue
        place = source.get("file") or source.get("dev") or source.get("volume")
        if place:
            found[target.get("dev", "")] = place
    return found


def shared_files(running_xml: etree._Element, note: MigrationNote) -> list[str]:
    """Of these the devices of those that did not travel and are files: both ends have them open.

    A libvirt that ends a machine takes such a file from QEMU's user, at the other end as well, unless a migration ends
    it (virSecurityDACRestoreAllLabel).
    """
    travelled = {ref.name for ref in note.made}
    return [
        device
        for device, place in written_files(running_xml).items()
        if not place.startswith("/dev/") and place.rpartition("/")[2] not in travelled
    ]
