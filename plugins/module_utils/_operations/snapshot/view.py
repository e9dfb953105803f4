# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as whoever takes, reverts or deletes its snapshots sees it. Asks, and changes nothing."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError
from ..._base.xml import etree
from ..._host.backup.checkpoints import checkpoint_names
from ..._host.connection import VirConnect, is_local, libvirt, translate_errors
from ..._host.info.details import read_jobs
from ..._host.machines.domains import description_of, find_machine, keep_command
from ..._host.machines.snapshots import KnownSnapshot, list_snapshots
from ..._model.attachments import agent_is_connected
from ..._model.metadata.machine import MachineNotes, read_notes
from ..._model.metadata.migration import read_migration_note
from ..power.view import HalfMergedError, HalfRevertedError, PowerView, view_machine

# As libvirt counts its versions: 1000000 * major + 1000 * minor + release.
_MAJOR, _MINOR = 1_000_000, 1_000


@dataclass(frozen=True)
class SnapshotView:
    """What is known of one machine.

    power: its state, and what is in the way of changing it. xml: its running description, the permanent one while it is
    off. defined: the permanent one. version: of libvirt there, as libvirt counts. checkpoints: their names.
    """

    power: PowerView
    xml: etree._Element
    defined: etree._Element
    snapshots: tuple[KnownSnapshot, ...]
    version: int
    checkpoints: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.power.name

    @property
    def active(self) -> bool:
        """Whether it is in memory."""
        return self.power.active

    @property
    def agent(self) -> bool:
        """Whether its guest agent has connected."""
        return self.active and agent_is_connected(self.xml)

    @property
    def notes(self) -> MachineNotes | None:
        """What this collection remembers of it; None for a machine that is not ours."""
        return read_notes(self.defined)

    def find(self, name: str) -> KnownSnapshot | None:
        """The snapshot of this name."""
        return next((one for one in self.snapshots if one.facts.name == name), None)

    def children_of(self, name: str) -> list[str]:
        """The names of the snapshots that follow one directly."""
        return [one.facts.name for one in self.snapshots if one.facts.parent == name]


def is_moving(domain: etree._Element) -> bool:
    """Whether a description is that of a machine on the move."""
    return read_migration_note(domain) is not None


def version_words(version: int) -> str:
    """A version of libvirt as people write it."""
    return f"{version // _MAJOR}.{version % _MAJOR // _MINOR}.{version % _MINOR}"


def view(conn: VirConnect, name: str, where: str) -> SnapshotView:
    """A machine now. where: the option that names it. Raises NotFoundError, and HostError for one nobody can read."""
    handle = find_machine(conn, name, where)
    with translate_errors(f"cannot inspect machine {name}", where):
        power = view_machine(handle)
        version = conn.getLibVersion()
    if power.error is not None:
        raise power.error
    defined = description_of(handle, libvirt.VIR_DOMAIN_XML_INACTIVE)
    xml = description_of(handle) if power.active else defined
    return SnapshotView(power, xml, defined, tuple(list_snapshots(handle)), version, checkpoint_names(handle))


def require_settled(machine: SnapshotView, *, reverting: bool = False, deleting: bool = False) -> None:
    """Raise VirtError while somebody else is at work on the machine: a run, a move, a job of libvirt's.

    reverting: it is to be reverted, which also finishes a revert that was cut off. deleting: snapshots are to be
    deleted, which looks at the files itself.
    """
    refusal = machine.power.refusal
    finishes = (
        isinstance(refusal, HalfRevertedError) if reverting else deleting and isinstance(refusal, HalfMergedError)
    )
    if not finishes:
        machine.power.require_changeable()
    _require_whole(machine)
    if not machine.power.persistent:
        raise ConflictError(
            "it is running but not defined here, so its snapshots would be forgotten when it stops: it was undefined "
            "while it ran, or is on its way here by a move",
            hint=f"If it is not being moved, define it first: {keep_command(machine.name)}",
        )
    if not machine.active:
        return
    jobs = read_jobs(machine.power.handle, machine.xml) or []
    if jobs:
        words = " and ".join(_job_words(job) for job in jobs)
        raise ConflictError(f"libvirt is at work on it: {words}", hint="Wait until that has ended, and run it again")


def _job_words(job: dict[str, t.Any]) -> str:
    percent = "" if job["percent"] is None else f" ({job['percent']}%)"
    return f"job {job['type']}{'' if job['disk'] is None else ' of disk ' + job['disk']}{percent}"


def _require_whole(machine: SnapshotView) -> None:
    notes = machine.notes
    adding = [volume.name for volume in notes.volumes if volume.building] if notes is not None else []
    if adding:
        raise ConflictError(
            f"a run is adding volume {', '.join(adding)} to it, or was interrupted while doing so",
            hint="Wait for that run, or run it again: it finishes the machine",
        )
    if machine.power.state == "saved":
        raise ConflictError(
            "its state is saved, and its disks are of no use without it",
            hint="Start it, and shut it down if it is to be off: virt_power with state: running",
        )


def rewrite(machine: SnapshotView, snapshot: KnownSnapshot, change: t.Callable[[str], str], what: str) -> None:
    """Give a snapshot another description. change: makes it of the one that it has. what: as in translate_errors."""
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
    if snapshot.current:
        flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    with translate_errors(f"{what} snapshot {snapshot.facts.name} of machine {machine.name}"):
        text = snapshot.handle.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        machine.power.handle.snapshotCreateXML(change(text), flags)


def is_here(conn: VirConnect) -> bool:
    """Whether the hypervisor is the machine that this runs on, so that its files can be looked at."""
    with translate_errors("cannot ask libvirt for its URI"):
        return is_local(conn.getURI())
