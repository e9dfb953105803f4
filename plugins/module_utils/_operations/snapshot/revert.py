# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes back to a snapshot."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator

from ..._base.errors import ConflictError, UnsupportedError, VirtError
from ..._base.xml import etree
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.snapshots import CEPH, DISK_SNAPSHOT, EXTERNAL, INTERNAL, PAUSED, RUNNING, SHUTOFF, KnownSnapshot
from ..._host.progress import HowFar
from ..._model.attachments import written_places
from ..._model.metadata.machine import MachineNotes, read_notes
from ..._model.metadata.revert import kept_notes, with_notes, would_bring_back
from ..._model.metadata.snapshots import SnapshotWork, removal_of_work
from ..plan import Step
from ..power.view import HalfRevertedError
from .clustered import forget, note_begin
from .files import require_unused_files, stamps
from .method import REVERTS_EXTERNAL, has_added_vcpus, unable_to_add
from .rolling_back import require_whole, roll_back
from .tracking import removed_unknown_bitmaps, require_no_bitmaps, require_one, steps_before_revert
from .view import SnapshotView, rewrite, version_words

_STATES = (RUNNING, PAUSED, SHUTOFF, DISK_SNAPSHOT)


def state_after(snapshot: KnownSnapshot) -> str:
    """The state of the machine after a revert, as in its record."""
    return snapshot.facts.state if snapshot.facts.state in (RUNNING, PAUSED) else SHUTOFF


def steps_to_revert(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot, *, force: bool) -> list[Step]:
    """The steps that revert a machine. force: its memory, and what it runs, may be lost.

    Raises ConflictError and UnsupportedError for what cannot be, or would lose what nobody has said may be lost.
    """
    name, facts = machine.name, snapshot.facts
    _require_revertible(machine, snapshot)
    # What is backed by a disk, or has it as well, would find another content below it.
    require_unused_files(conn, machine, f"reverted to {facts.name}")
    require_force(machine.power.state, active=machine.active, force=force)
    before, after = machine.power.state, state_after(snapshot)
    words = f"revert {name} to snapshot {facts.name} ({before if before == after else f'{before} -> {after}'})"
    wanted = kept_notes(machine.notes, None if facts.domain is None else read_notes(facts.domain))
    if facts.kind == CEPH:
        require_whole(conn, machine, snapshot)
        at: list[HowFar] = []
        return [
            Step(
                words,
                lambda: roll_back(conn, machine, snapshot, wanted, lambda disk: at.append(HowFar(disk))),
                look=lambda: at[-1] if at else None,
            )
        ]
    if facts.kind == INTERNAL:
        require_one(conn, machine, facts.name, "reverted to")
    steps = steps_before_revert(conn, machine) if facts.kind == INTERNAL else []
    if would_bring_back(facts.domain, wanted):
        steps.append(
            Step(f"keep the metadata of {name} in snapshot {facts.name}", lambda: _redefine(machine, snapshot, wanted))
        )
    steps.append(Step(words, lambda: _revert(conn, machine, snapshot)))
    return steps


def require_force(state: str, *, active: bool, force: bool) -> None:
    """Raise ConflictError for a machine whose memory would be lost though nobody has said that it may."""
    if active and not force:
        raise ConflictError(
            f"it is {state}, and what it does now would be lost, with all it has not saved elsewhere",
            hint="Shut it down first, or set force=true",
        )


def _require_revertible(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    facts = snapshot.facts
    if facts.domain is None or facts.kind is None or facts.state not in _STATES:
        raise UnsupportedError(
            f"snapshot {facts.name} cannot be reverted: it was taken by hand, of a machine in state {facts.state!r}, "
            f"{'without its description' if facts.domain is None else 'and keeps no disk'}"
        )
    if facts.kind == EXTERNAL:
        if machine.version < REVERTS_EXTERNAL:
            raise UnsupportedError(
                f"snapshot {facts.name} is external, and libvirt {version_words(machine.version)} cannot revert it "
                "(9.9 and later can)"
            )
        children = machine.children_of(facts.name)
        if children:
            raise ConflictError(
                f"snapshot {facts.name} is external, and others follow it, whose files depend on its files: "
                f"{', '.join(children)}",
                hint="Delete those first",
            )
    elif facts.state in (RUNNING, PAUSED) and has_added_vcpus(facts.domain, machine.version):
        raise UnsupportedError(
            f"when snapshot {facts.name} was taken, it had vCPUs that were added while it ran, "
            f"{unable_to_add(machine.version)}",
            hint="Shut it down, move it to a hypervisor with a later libvirt, and revert it there",
        )
    _require_same_disks(machine, facts.name, facts.domain, external=facts.kind == EXTERNAL)


def _require_same_disks(machine: SnapshotView, name: str, then: etree._Element, *, external: bool) -> None:
    now_disks, then_disks = written_places(machine.defined), written_places(then)
    for target in sorted({*now_disks, *written_places(machine.xml)} - set(then_disks)):
        raise ConflictError(
            f"its disk {target} was attached after snapshot {name}, and a revert would take it away",
            hint="Detach it first, if it is not needed any more",
        )
    for target, place in sorted(then_disks.items()):
        if target not in now_disks:
            raise ConflictError(
                f"it had a disk {target} ({place}) when snapshot {name} was taken, and has none now",
                hint="Attach that volume again first",
            )
        if not external and now_disks[target] != place:
            raise ConflictError(
                f"its disk {target} is {now_disks[target]} now, and was {place} when snapshot {name} was taken",
                hint="Attach that one again first",
            )


def _redefine(machine: SnapshotView, snapshot: KnownSnapshot, notes: MachineNotes | None) -> None:
    """Write the notes into the snapshot before it is reverted: a run that is killed in between loses nothing.

    libvirt takes the description from there for both kinds of snapshots (qemuSnapshotRevertPrep in
    src/qemu/qemu_snapshot.c).
    """
    rewrite(machine, snapshot, lambda text: with_notes(text, notes), "cannot write the metadata into")


def _revert(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    handle, name = machine.power.handle, snapshot.facts.name
    if snapshot.facts.kind == INTERNAL:
        require_no_bitmaps(conn, machine)
    # What libvirt calls forced is to start QEMU anew, as the description then was another one.
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_FORCE if machine.active else 0
    with _noted(machine, snapshot), translate_errors(f"cannot revert machine {machine.name} to snapshot {name}"):
        try:
            handle.revertToSnapshot(snapshot.handle, flags)
        except libvirt.libvirtError:
            if snapshot.facts.kind != INTERNAL or not machine.active or not removed_unknown_bitmaps(conn, machine.name):
                raise
            handle.revertToSnapshot(snapshot.handle, flags)
    if snapshot.facts.kind == EXTERNAL:
        # While it was taken, the permanent description said so, which libvirt has brought back.
        forget(handle)


@contextlib.contextmanager
def _noted(machine: SnapshotView, snapshot: KnownSnapshot) -> Iterator[None]:
    """In the block, libvirt or QEMU reverts the disks one after the other. Where there are several, a note in the
    machine's definition says so, for a run, a daemon or a host that ends meanwhile; the snapshot's own definition, with
    which libvirt replaces it when all is done, has none."""
    disks = written_places(machine.defined)
    if snapshot.facts.kind != INTERNAL or len(disks) < 2:
        yield
        return
    handle, files = machine.power.handle, [place for place in disks.values() if place]
    before, process = stamps(files), _process(handle)
    begun = isinstance(machine.power.refusal, HalfRevertedError)
    work = SnapshotWork(snapshot.facts.name, reverting=True)
    note_begin(handle, work)
    try:
        yield
    except VirtError as exc:
        untouched = False
        # A daemon that has just died answers nothing: the note is there.
        with contextlib.suppress(VirtError):
            # It runs on as it did, or no file was written to.
            runs_on = process is not None and _process(handle) == process
            untouched = not begun and (runs_on or (before is not None and stamps(files) == before))
            if untouched:
                forget(handle)
            else:
                note_begin(handle, work)
        if untouched:
            raise
        raise type(exc)(
            exc.what,
            where=exc.where,
            hint=f"{exc.hint or 'Run it again'}. Its disks may be of different times until it is reverted. "
            f"If it cannot be, {removal_of_work(machine.name)} lets it start as it is",
        ) from exc
    forget(handle)


def _process(handle: t.Any) -> tuple[int, int] | None:
    """What tells whether the same QEMU runs on; None for a machine that is off."""
    with translate_errors(f"cannot ask for the state of machine {handle.name()}"):
        return (handle.ID(), handle.state()[0]) if handle.isActive() else None
