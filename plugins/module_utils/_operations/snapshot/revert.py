# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes back to a snapshot.

libvirt brings back the whole description that the machine had then, with the metadata of that time: its tags, its
variables, and whatever a move or an interrupted run had noted. What this collection remembers of the machine's place
among the others stays as it is now; what belongs to the description and to the disks is as it was then.
"""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import (
    DISK_SNAPSHOT,
    EXTERNAL,
    PAUSED,
    RUNNING,
    SHUTOFF,
    KnownSnapshot,
)
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import written_places
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    READY,
    MachineNotes,
    find_notes,
    notes_to_element,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE as MOVE_NAMESPACE
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    NAMESPACE as SET_ASIDE_NAMESPACE,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.files import require_unused_files
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import (
    REVERTS_EXTERNAL,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView, version_words

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
    if machine.active and not force:
        raise ConflictError(
            f"it is {machine.power.state}, and what it does now would be lost, with all it has not saved elsewhere",
            hint="Shut it down first, or set force: true",
        )
    before, after = machine.power.state, state_after(snapshot)
    words = f"revert {name} to snapshot {facts.name} ({before if before == after else f'{before} -> {after}'})"
    wanted = kept_notes(machine.notes, None if facts.domain is None else read_notes(facts.domain))
    steps = []
    if _would_bring_back(facts.domain, wanted):
        steps.append(
            Step(f"keep the metadata of {name} in snapshot {facts.name}", lambda: _redefine(machine, snapshot, wanted))
        )
    steps.append(Step(words, lambda: _revert(machine, snapshot)))
    return steps


def kept_notes(now: MachineNotes | None, then: MachineNotes | None) -> MachineNotes | None:
    """The notes of a machine after a revert; None for one that is not ours now.

    Of the description, and so of then: image, disks, nics, seed, host keys, the hash of merged XML. Of the machine's
    place among others, and so of now: the rest. What it owns is never forgotten.
    """
    if now is None or then is None:
        return now
    return replace(
        now,
        status=READY,
        claimed=False,
        image=then.image,
        disks=then.disks,
        nics=then.nics,
        seed=then.seed,
        host_keys=then.host_keys,
        fragment=then.fragment,
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


def _would_bring_back(then: etree._Element | None, wanted: MachineNotes | None) -> bool:
    """Whether the metadata of the snapshot are others than the wanted ones."""
    return then is not None and (read_notes(then) != wanted or bool(_moves(then)))


def _moves(domain: etree._Element) -> list[etree._Element]:
    """What a move had noted when the snapshot was taken."""
    return [
        one
        for one in domain.iterfind("metadata/*")
        if etree.QName(one).namespace in (MOVE_NAMESPACE, SET_ASIDE_NAMESPACE)
    ]


def with_notes(snapshot_xml: str, notes: MachineNotes | None) -> str:
    """A snapshot's XML with these notes in the descriptions that it holds, and no note of a move."""
    root = parse_xml(snapshot_xml)
    for domain in (*root.iterfind("domain"), *root.iterfind("inactiveDomain")):
        metadata = domain.find("metadata")
        if metadata is None:
            metadata = etree.Element("metadata")
            place = domain.find("uuid")
            domain.insert(0 if place is None else domain.index(place) + 1, metadata)
        for old in (*find_notes(domain), *_moves(domain)):
            metadata.remove(old)
        if notes is not None:
            metadata.append(notes_to_element(notes))
    return etree.tostring(root, encoding="unicode")


def _redefine(machine: SnapshotView, snapshot: KnownSnapshot, notes: MachineNotes | None) -> None:
    """Write the notes into the snapshot before it is reverted: a run that is killed in between loses nothing.

    libvirt takes the description from there for both kinds of snapshots (qemuSnapshotRevertPrep in
    src/qemu/qemu_snapshot.c).
    """
    name = snapshot.facts.name
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
    if snapshot.current:
        flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    with translate_errors(f"cannot write the metadata into snapshot {name} of machine {machine.name}"):
        text = snapshot.handle.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        machine.power.handle.snapshotCreateXML(with_notes(text, notes), flags)


def _revert(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    # What libvirt calls forced is to start QEMU anew, as the description then was another one.
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_FORCE if machine.active else 0
    with translate_errors(f"cannot revert machine {machine.name} to snapshot {snapshot.facts.name}"):
        machine.power.handle.revertToSnapshot(snapshot.handle, flags)
