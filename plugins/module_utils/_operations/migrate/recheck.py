# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a move was planned on is checked again where it is acted on: much may have changed since, in a long task.

And nobody may write to disks while they are copied as files, nor start a machine that has to stay off meanwhile.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import attribute, etree, need, read_description
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.domains import Domain, description_of
from ..._host.machines.start_watch import StartWatch
from ..._host.storage.disk_lock import DiskLock
from ..._model.metadata.machine import read_notes
from ..._model.metadata.migration import NAMESPACE
from ..._model.metadata.snapshots import NAMESPACE as SNAPSHOTS_NAMESPACE
from .context import MigrationContext
from .endpoints.location import is_active
from .endpoints.source_and_target import MigrationTarget, SourceMachine, read_source_machine, source_words
from .preflight import check_free_space_on_target, check_target
from .storage.disks import DiskMigration

_AGAIN = "Nothing was changed here. Run it again"


def recheck_source(planned: SourceMachine, check: Callable[[SourceMachine], None], where: str) -> None:
    """Raise when the machine is not as it was planned: its state, its disks, or something that keeps it here.

    check: raises for what keeps it here.
    """
    now = read_source_machine(_domain_of(planned), where)
    if now.active != planned.active:
        words = "was started" if now.active else "has stopped"
        raise ConflictError(
            f"{planned.name} {words} since its move was planned",
            where=where,
            hint=f"Run it again: it is then moved {'while it runs' if now.active else 'while it is off'}",
        )
    if _disks(now) != _disks(planned):
        raise ConflictError(
            f"{planned.name} has different disks than when its move was planned", where=where, hint="Run it again"
        )
    check(now)


def with_definition_of_now(planned: SourceMachine) -> SourceMachine:
    """The machine with its record as it is now, for who has just changed it."""
    return dataclasses.replace(planned, defined_xml=_domain_of(planned).xml)


def recheck_definition(planned: SourceMachine) -> None:
    """Raise ConflictError when the machine's record is another than the one whose move was planned.

    For who holds the lock of those who change machines. The move's own note does not count.
    """
    if _record(_domain_of(planned).xml) != _record(planned.defined_xml):
        raise ConflictError(
            f"{planned.name} has been changed since its move was planned",
            hint="Nothing is lost: it is here, with these changes. Run the move again",
        )


def recheck_running_disks(planned: SourceMachine) -> None:
    """Raise ConflictError when a machine that runs has a disk that it had not when its move was planned.

    One that was attached to the running machine alone is not in its record. Of a file that is only here, libvirt
    refuses to move the machine; a device of the same name on the target it takes for the same one.
    """
    if not planned.active:
        return
    known = {source_words(disk) for disk in planned.running_xml.iterfind("devices/disk")}
    now = description_of(planned.handle).iterfind("devices/disk[source]")
    new = [attribute(disk, "target", "dev") or "" for disk in now if source_words(disk) not in known]
    if new:
        raise ConflictError(
            f"{planned.name} has got another disk since its move was planned: {', '.join(new)}",
            hint="Nothing is lost: it is here, with that disk. Detach it, or run the move again, which checks it too",
        )


def _record(xml: etree._Element) -> bytes:
    """What the machine is at its next start, in words that can be compared."""
    defined_xml = copy.deepcopy(xml)
    # The move's own: its note, and the snapshots that it has set aside.
    for tag in (f"{{{NAMESPACE}}}move", f"{{{SNAPSHOTS_NAMESPACE}}}snapshots"):
        for note in defined_xml.findall(f"metadata/{tag}"):
            need(defined_xml, "metadata").remove(note)
    for element in defined_xml.iter():
        # What is between the elements moves when notes come and go.
        element.tail = None
        if len(element):
            element.text = (element.text or "").strip()
    for empty in [found for found in defined_xml.findall("metadata") if not len(found)]:
        defined_xml.remove(empty)
    return bytes(etree.tostring(defined_xml, method="c14n"))


class TargetRecheck:
    """What the target is like where a move comes to it: checked again after each step that takes long, else once."""

    def __init__(self, context: MigrationContext, where: str) -> None:
        self._context = context
        self._where = where
        self._seen: MigrationTarget | None = None

    def outdate(self) -> None:
        """Time has passed."""
        self._seen = None

    def check(self, planned: SourceMachine) -> MigrationTarget:
        """Raise when something there speaks against the machine; the target as it is now."""
        if self._seen is None:
            target = self._context.target
            now = MigrationTarget(target.uri, target.hypervisor.conn)
            now.name = target.name
            there = now.hypervisor.domains
            # Machines of this task that are still on their way count, those that have arrived are counted there.
            now.allocations = {
                name: mib for name, mib in target.allocations.items() if name != planned.name and name not in there
            }
            check_target(planned, now, self._context.options, self._where)
            self._seen = now
        return self._seen

    def check_free_space(self, planned: SourceMachine, disks: Sequence[DiskMigration]) -> None:
        """Raise when the target's pools, as they are now, have no space for the volumes of this machine."""
        now = self.check(planned)
        pools = now.hypervisor.pools
        fresh = [dataclasses.replace(disk, target_pool=pools.get(disk.target_pool.name)) for disk in disks]
        check_free_space_on_target(fresh, now, self._where)


def _domain_of(planned: SourceMachine) -> Domain:
    handle = planned.handle
    with translate_errors(f"cannot inspect machine {planned.name}"):
        xml = read_description(f"machine {planned.name}", handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        return Domain(planned.name, handle, bool(handle.isActive()), xml, read_notes(xml))


def _disks(machine: SourceMachine) -> list[tuple[str, bool]]:
    return [(source_words(disk), in_use) for disk, in_use in machine.disks()]


class WriteGuard:
    """From the first copy to the switch: what was copied is what the machine has.

    A machine that runs may have disks that are copied as files too: those for its next start, and read-only ones.
    """

    def __init__(self, machine: SourceMachine, conn: VirConnect) -> None:
        self._machine = machine
        self._conn = conn
        self._disks: dict[str, DiskLock] = {}
        self._watch: StartWatch | None = None

    def begin(self, path: str) -> None:
        """Before a disk is copied. Raises ConflictError when the machine is on, or somebody writes to the disk."""
        if not self._machine.active and self._watch is None:
            self._watch = StartWatch(self._conn, self._machine.handle)
        disk = self._disks.setdefault(path, DiskLock(path))
        disk.hold()
        self._require_off("was started before its disks were copied")

    def check(self) -> None:
        """Before the switch. Raises ConflictError when a disk may have changed since it was copied."""
        self._require_off("was started while its disks were being copied")
        name = self._machine.name
        if self._watch is not None:
            started = self._watch.was_started()
            if started is None:
                raise HostError(
                    f"libvirt's daemon stopped while the disks of {name} were being copied, so it is "
                    "unknown whether it was started in the meantime",
                    hint=_AGAIN,
                )
            if started:
                raise ConflictError(
                    f"{name} was started, and stopped again, while its disks were being copied: the copies are out "
                    "of date",
                    hint=_AGAIN,
                )
        for disk in self._disks.values():
            try:
                disk.check()
            except VirtError as exc:
                raise type(exc)(f"{exc.what}, so the copy is out of date", hint=_AGAIN) from exc

    def end(self) -> None:
        """Let go of all; may be called twice."""
        for disk in self._disks.values():
            disk.release()
        if self._watch is not None:
            self._watch.close()

    def _require_off(self, words: str) -> None:
        if not self._machine.active and is_active(self._machine.handle):
            raise ConflictError(
                f"{self._machine.name} {words}, and runs here", hint="Run it again: it is then moved while it runs"
            )
