# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a machine is: asked of both hypervisors again, whatever a call has said before; and what each of them has of
it, so whether the target has taken it over for good.

libvirt's daemon at the source may die at the switch. Started again, it leaves the machine paused where it does not know
whether the target runs it, and stops it, without forgetting it, where it does. https://libvirt.org/migration.html
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, replace

from ...._base.errors import NotFoundError
from ...._base.xml import etree, read_description
from ...._host.connection import VirConnect, libvirt, reconnected, suppress_codes, translate_errors
from ...._host.machines.domains import affect
from ...._host.machines.start_watch import last_start
from ...._model.metadata.migration import NAMESPACE, PREFIX, MigrationNote, migration_note_to_xml, read_migration_note

_SETTLE_SECONDS = 15.0
# Numbers, as this file is also read where there is no libvirt. https://libvirt.org/html/libvirt-libvirt-domain.html
# virDomainRunningReason, POSTCOPY and POSTCOPY_FAILED: the memory is still in two places.
_IN_POSTCOPY = (10, 11)
# virDomainPausedReason, MIGRATION, POSTCOPY and POSTCOPY_FAILED
_HELD = (2, 12, 13)
# virDomainShutoffReason, UNKNOWN, MIGRATED and DAEMON: what a daemon says that has ended it at the end of a move, or
# that was started again and found it there (qemuProcessReconnect), or gone. For any other reason it has run on.
_LEFT = (0, 4, 8)


@dataclass(frozen=True)
class Endpoints:
    """The two hypervisors of a move by their URIs.

    source_conn, target_conn: connections of this task, which serve as long as they answer.
    """

    source: str
    target: str
    source_conn: VirConnect = None
    target_conn: VirConnect = None

    def reconnected(self) -> Endpoints:
        """The same two, over new connections: for when something has gone wrong."""
        return Endpoints(self.source, self.target)

    def open_source(self) -> t.ContextManager[VirConnect]:
        """A connection to the source. A new one is tried for a while, as its daemon may be starting."""
        return reconnected(self.source_conn, self.source)

    def open_target(self) -> t.ContextManager[VirConnect]:
        """A connection to the target. A new one is tried for a while."""
        return reconnected(self.target_conn, self.target)


@dataclass(frozen=True)
class MachineLocation:
    """At each end, whether the machine is up (True), off (False) or not there (None)."""

    source: bool | None
    target: bool | None

    @property
    def left(self) -> bool:
        """It is on the target, and does not run at the source."""
        return self.target is not None and not self.source


def find_location(endpoints: Endpoints, uuid: str) -> MachineLocation:
    """Raises UnreachableError when one end does not answer: then nobody knows."""
    at_source = find_state_at_source(endpoints, uuid)
    with endpoints.open_target() as target:
        return MachineLocation(at_source, _state(target, uuid))


def find_state_at_source(endpoints: Endpoints, uuid: str) -> bool | None:
    """Whether it is up at the source (True), off (False) or not there (None)."""
    with endpoints.open_source() as source:
        return _state(source, uuid)


def find_location_after_switch(endpoints: Endpoints, uuid: str) -> MachineLocation:
    """The same, and again for some seconds while it is not plain that it is on the target."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        found = find_location(endpoints, uuid)
        if found.left or time.monotonic() > end:
            return found
        time.sleep(0.3)


def find(conn: VirConnect, uuid: str) -> t.Any:
    """The machine by its UUID, or None."""
    try:
        with translate_errors("cannot look up the machine"):
            return conn.lookupByUUIDString(uuid)
    except NotFoundError:
        return None


def write_note(domain: t.Any, note: MigrationNote | None) -> None:
    """Put the note into a machine's metadata, in the definition and as it runs; None takes it out."""
    with translate_errors(f"cannot write the metadata of machine {domain.name()}"):
        try:
            text = None if note is None else migration_note_to_xml(note)
            # One that came without a record has none to write to.
            flags = affect(domain) if domain.isPersistent() else libvirt.VIR_DOMAIN_AFFECT_LIVE
            domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, PREFIX, NAMESPACE, flags)
        except libvirt.libvirtError as exc:
            if note is not None or exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise


def set_autostart(domain: t.Any, on: bool) -> None:
    """Whether the machine starts with its hypervisor."""
    with translate_errors(f"cannot switch the autostart of {domain.name()} {'on' if on else 'off'}"):
        domain.setAutostart(int(on))


def is_active(domain: t.Any) -> bool:
    """Whether a machine is up at this moment."""
    with translate_errors("cannot read the machine's state"):
        return bool(domain.isActive())


def _state(conn: VirConnect, uuid: str) -> bool | None:
    """Whether a machine is up; None where there is none."""
    domain = find(conn, uuid)
    return None if domain is None else is_active(domain)


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
