# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as whoever changes its power state sees it: its state, what is in the way, and what selects it."""

from __future__ import annotations

import functools
import shlex
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import etree, read_description
from ..._host.connection import is_local, libvirt, translate_errors
from ..._host.machines.domains import unreadable_error
from ..._host.machines.listing import paused_by, words_of
from ..._host.machines.record import PendingOf, record_from_xml, state_name
from ..._host.machines.start_watch import is_off_since
from ..._host.storage.disk_lock import has_content, is_backed_by, is_open_in_qemu, newer_below
from ..._model.attachments import agent_is_connected, written_places
from ..._model.metadata.migration import read_migration_note
from ..._model.metadata.snapshots import (
    SnapshotWork,
    finish_revert_hint,
    read_work,
    reverting_to,
    snapshot_file,
    taking,
)

# Beside the states of a machine's record: it is off, and its memory is saved.
SAVED = "saved"
# virDomainPausedReason, https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainPausedReason
_JOBS = {
    "VIR_DOMAIN_PAUSED_MIGRATION": "moving it between hypervisors",
    "VIR_DOMAIN_PAUSED_POSTCOPY": "moving it between hypervisors",
    "VIR_DOMAIN_PAUSED_POSTCOPY_FAILED": "moving it between hypervisors, which has failed half-way",
    "VIR_DOMAIN_PAUSED_SAVE": "saving it",
    "VIR_DOMAIN_PAUSED_DUMP": "dumping its memory",
    "VIR_DOMAIN_PAUSED_SNAPSHOT": "taking a snapshot of it",
    "VIR_DOMAIN_PAUSED_STARTING_UP": "starting it",
}


# libvirt goes on with a start when the run that asked for it has been killed. QEMU is there within seconds; for all
# machines of a run together no more than this is waited, as it may hold locks.
_START_SECONDS, _LOOK_SECONDS = 20.0, 0.1


class HalfRevertedError(ConflictError):
    """A run is reverting the machine, or was cut off while it did."""


class OlderDataError(ConflictError):
    """The definition of a machine names files with older data than it has written, or it may be so."""


class HalfMergedError(OlderDataError):
    """The deletion of a snapshot was interrupted, and nobody can tell which of two files has the latest data."""


class TakenUnseenError(OlderDataError):
    """QEMU has gone over to the files of a new snapshot, and libvirt, killed meanwhile, does not know it."""


class DisksMovingError(ConflictError):
    """A run is moving the machine's disks to another pool, or was cut off while it did."""


@dataclass(frozen=True)
class PowerView:
    """What is known of one machine's power.

    state: that of its record, or SAVED. active: whether it is in memory. paused_by: why it is paused, where it is not
    because somebody asked for it. refusal: why nobody is to change its state now. pending: what takes effect when it
    is powered off and on; None where that was not asked. order, delay_seconds: when it starts among others, and how
    long those after it wait. deleting: the snapshot whose deletion is noted, and may have ended half-way. error: why it
    could not be read; what is not given is unknown then.
    """

    name: str
    handle: t.Any
    state: str
    active: bool = False
    persistent: bool = True
    paused_by: str | None = None
    refusal: VirtError | None = None
    tags: tuple[str, ...] = ()
    pending: tuple[str, ...] | None = None
    agent: bool = False
    serial_log: str | None = None
    order: int | None = None
    delay_seconds: int = 0
    deleting: str | None = None
    error: VirtError | None = None

    def require_changeable(self, *, only_off: bool = False) -> None:
        """Raise VirtError when nobody is to change its state now.

        only_off: it is to be off, and no more. That may be what its disks wait for, if the run that moved them has
        ended, as whoever holds the machine's lock knows; and what it has written unseen has to wait for that.
        """
        error = self.error or self.refusal
        if error is not None and not (only_off and isinstance(error, (DisksMovingError, TakenUnseenError))):
            raise error

    def require_newest_data(self) -> None:
        """Raise OlderDataError for a machine that would, or may, start with older data than it has written."""
        if isinstance(self.refusal, OlderDataError):
            raise self.refusal


def view_machine(handle: t.Any, *, pending: PendingOf | None = None) -> PowerView:
    """One machine now. pending: says from its two descriptions, the running one first, what waits for power off and on.

    One that libvirt is starting at this moment is waited for, within reason. Raises NotFoundError when it is gone.
    """
    name = handle.name()
    with translate_errors(f"cannot inspect machine {name}"):
        number, reason = _state_once_started(handle)
        active, persistent = bool(handle.isActive()), bool(handle.isPersistent())
        running_text = handle.XMLDesc(0)
        state = state_name(number)
        if not active and persistent and handle.hasManagedSaveImage(0):
            state = SAVED
        defined_text = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) if active and persistent else running_text
    waiting: tuple[str, ...] | None = None if pending is None else ()
    try:
        running_xml = read_description(f"machine {name}", running_text)
        defined_xml = read_description(f"machine {name}", defined_text)
        if pending is not None and active and persistent:
            waiting = tuple(pending(running_xml, defined_xml))
    except HostError as exc:
        return PowerView(name, handle, state, active, persistent, error=unreadable_error(name, exc))
    record = record_from_xml(running_xml, state)
    work = read_work(running_xml)
    paused = state == "paused"
    return PowerView(
        name,
        handle,
        state,
        active,
        persistent,
        paused_by=paused_by(state, reason),
        refusal=_refusal(record, running_xml, active=active)
        or _half_reverted(running_xml)
        or (_merged_unseen(handle, running_xml, defined_xml) if active else _may_be_old(handle, running_xml, work))
        or _taken_unseen(handle, defined_xml, active=active)
        or (_busy(name, reason) if paused else None),
        tags=tuple(record["tags"]),
        pending=waiting,
        agent=agent_is_connected(running_xml),
        serial_log=record["serial_log"],
        order=record["order"],
        delay_seconds=record["delay_seconds"],
        deleting=work.snapshot if work is not None and work.deleting else None,
    )


def _state_once_started(handle: t.Any) -> tuple[int, int]:
    """libvirt's numbers for the state and its reason."""
    while True:
        number, reason = handle.state()
        starting = (number, reason) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
        if not starting or time.monotonic() > _end_of_waiting():
            return number, reason
        time.sleep(_LOOK_SECONDS)


@functools.cache
def _end_of_waiting() -> float:
    """When this process has waited for starts long enough, from the first one on; on the clock of time.monotonic."""
    return time.monotonic() + _START_SECONDS


def _busy(name: str, reason: int) -> VirtError | None:
    job = words_of(reason, _JOBS)
    return None if job is None else ConflictError(f"libvirt is {job}", hint=f"See virsh domjobinfo {name}")


def _half_reverted(xml: etree._Element) -> VirtError | None:
    snapshot = reverting_to(xml)
    if snapshot is None:
        return None
    return HalfRevertedError(
        f"it is being reverted to snapshot {snapshot}, or that was interrupted, so its disks are of different times",
        hint=finish_revert_hint(snapshot),
    )


def _merged_unseen(handle: t.Any, running: etree._Element, defined: etree._Element) -> VirtError | None:
    """Whether QEMU has merged the file of a snapshot that libvirt, killed meanwhile, has the machine on still: stopped
    now, it would start with that older file. Asked for machines alone whose snapshot is noted to be in deletion."""
    work = read_work(running)
    name = handle.name()
    with translate_errors(f"cannot inspect machine {name}"):
        if work is None or not work.deleting or not is_local(handle.connect().getURI()):
            return None
    places = written_places(defined)
    for target, path in written_places(running, "file").items():
        try:
            closed = places.get(target) == path and not is_open_in_qemu(path)
        except HostError as exc:
            # What it does is known all the same.
            return exc
        if closed:
            return ConflictError(
                f"QEMU has merged {path}, the file of its disk {target}, and libvirt does not know it, so it would "
                "start with older data",
                hint=f"Run virt_snapshot with state: absent and name: {work.snapshot} first, which notes it",
            )
    return None


def _may_be_old(handle: t.Any, defined: etree._Element, work: SnapshotWork | None) -> VirtError | None:
    """Whether the machine may have been on the file below unseen, as above, and was stopped since: it would start with
    older data, and write to them. Asked as above."""
    name = handle.name()
    with translate_errors(f"cannot inspect machine {name}"):
        if work is None or not work.deleting or not is_local(handle.connect().getURI()) or is_off_since(work, name):
            return None
    for target, path in written_places(defined, "file").items():
        below = newer_below(path)
        if below is not None:
            return HalfMergedError(
                f"the deletion of its snapshot {work.snapshot} was interrupted, and {below} was written to after "
                f"{path}, the file of its disk {target}, so it may start with older data",
                hint=f"Run virt_snapshot with state: absent and name: {work.snapshot}, which says what to look at",
            )
    return None


def _taken_unseen(handle: t.Any, defined: etree._Element, *, active: bool) -> VirtError | None:
    """Whether QEMU has gone over to the files of a new snapshot that libvirt, killed meanwhile, does not know: it would
    start with the files below, and all that was written since would be missing. Asked for machines alone of which a
    snapshot is noted to be taken: libvirt lists one after the definition names its files. The note may be an old one:
    it is in the snapshot as well, and virsh snapshot-revert brings it back."""
    snapshot = taking(defined)
    name = handle.name()
    with translate_errors(f"cannot inspect machine {name}"):
        if snapshot is None or not is_local(handle.connect().getURI()) or snapshot in handle.snapshotListNames():
            return None
    places = written_places(defined, "file")
    possible = {snapshot_file(name, target, place, snapshot): place for target, place in places.items()}
    files = [file for file, place in possible.items() if file not in places.values() and is_backed_by(file, place)]
    if not any(map(_may_be_open if active else has_content, files)):
        return None
    newer = None if active else next(filter(None, map(newer_below, files)), None)
    if newer is not None:
        hint = (
            f"{newer} was written to since as well, so the two are not to be put together. To go on without what is "
            f"in {', '.join(files)}: move that away"
        )
    else:
        commands = " && ".join(f"qemu-img commit -f qcow2 {path} && rm {path}" for path in map(shlex.quote, files))
        hint = (
            f"{'Shut it down (virt_power with state: stopped). ' if active else ''}While it is off, this puts what was "
            f"written there into its disks: {commands}. Then start it, and run virt_snapshot again"
        )
    return TakenUnseenError(
        f"libvirt was killed while snapshot {snapshot} of it was taken, and does not know that the latest data are in "
        f"{', '.join(files)}, so it would start with older data",
        hint=hint,
    )


def _may_be_open(path: str) -> bool:
    """Whether a QEMU has a file open. True where nobody can read it, as on an NFS server that makes nobody of root."""
    try:
        return is_open_in_qemu(path)
    except HostError:
        return True


def _refusal(record: Mapping[str, t.Any], xml: etree._Element, *, active: bool) -> VirtError | None:
    if record["claimed"]:
        return ConflictError(
            "only its name is claimed, by a run that is about to create it or was interrupted",
            hint="Run provision again to finish it",
        )
    if record["building"]:
        return ConflictError(
            "it is unfinished: a run is creating it, or was interrupted", hint="Run provision again to finish it"
        )
    note = read_migration_note(xml)
    if note is None:
        return None
    if note.stays:
        return DisksMovingError(
            "its disks are being moved to another pool, or that was interrupted",
            hint="Wait until that ends. If nobody is moving them, run virt_migrate with that pool again, which "
            "finishes it",
        )
    return ConflictError(
        f"it {note.words}, or its move was interrupted",
        hint=f"Wait until the move ends. If it is no longer being moved, run migrate to {note.target} again, "
        "which finishes the move; if one of the two is gone for good: "
        f"{note.removal(record['name'], active=active)}",
    )
