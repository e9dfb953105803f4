# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be remembered of a machine that somebody else made, and whether that may be done. Changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, InputError, NotFoundError, UnsupportedError, one_of_these
from ..._host.connection import translate_errors
from ..._host.machines.domains import Domain, keep_command
from ..._host.machines.record import state_name
from ..._model.metadata.machine import BUILDING, NAMESPACE, MachineNotes
from ..._model.metadata.migration import read_migration_note
from ..._model.spec.device_names import named_notes
from ..._model.spec.names import machine_name
from ..create.claims import require_no_claim
from ..hypervisor_view import HypervisorView
from .volumes import DiskDecision, decide_disks

# All versions of our metadata have it; what follows is the version.
_ANY_VERSION = NAMESPACE.rpartition(":")[0]


@dataclass(frozen=True)
class AdoptionPlan:
    """A machine that may be adopted, as it was when somebody looked. state: libvirt's word for it.

    known: what is remembered of it, None for a machine that is not ours; notes: what is to be.
    """

    name: str
    uuid: str
    state: str
    known: MachineNotes | None
    notes: MachineNotes
    disks: tuple[DiskDecision, ...]
    remarks: tuple[str, ...] = ()

    @property
    def actions(self) -> list[str]:
        """What is to be done, in words; nothing for a machine that is ours as it is."""
        return [] if self.notes == self.known else [f"write the metadata of {self.name}"]


def plan_adoption(name: str, view: HypervisorView, disks: Sequence[str]) -> AdoptionPlan:
    """What is to be remembered of a machine.

    disks: those that are to become its own, by target device or ``pool/volume``. Raises NotFoundError for a machine
    that is not there, InputError and ConflictError, with what to do, for one that cannot be adopted.
    """
    domain = view.domains.get(name)
    if domain is None:
        raise NotFoundError(f"there is no machine {name!r} on this hypervisor", hint=one_of_these(name, view.domains))
    domain.require_readable()
    _require_usable_name(name)
    with translate_errors(f"cannot inspect machine {name}"):
        state, uuid = state_name(domain.handle.state()[0]), domain.handle.UUIDString()
    _require_whole(domain, uuid)
    known = named_notes(domain.xml, domain.notes)
    decisions = decide_disks(domain, known, view, disks)
    new = tuple(decision.note for decision in decisions if decision.note is not None)
    notes = replace(known, volumes=(*known.volumes, *new))
    plan = AdoptionPlan(name, uuid, state, domain.notes, notes, decisions)
    if not plan.actions:
        return plan
    _require_settled(domain)
    return replace(plan, remarks=_remarks(domain))


def _require_usable_name(name: str) -> None:
    """Raise InputError for a name that no machine of the collection can have."""
    try:
        machine_name(name, "")
    except InputError as exc:
        rename = f"virsh domrename {shlex.quote(name)} NEW_NAME"
        raise InputError(exc.what, hint=f"Shut it down and rename it first: {rename}") from exc


def _require_whole(domain: Domain, uuid: str) -> None:
    """Raise ConflictError for what is no machine yet, UnsupportedError for one of a later version."""
    name = domain.name
    require_no_claim(domain, uuid)
    if domain.notes is not None and domain.notes.status == BUILDING:
        raise ConflictError(
            f"{name} is being created by a run of this collection, or such a run was interrupted",
            hint="Wait for that run, or run it again",
        )
    for element in domain.xml.iterfind("metadata/*"):
        space = str(element.tag)[1:].partition("}")[0]
        version = space.rpartition(":")[2]
        if space == f"{_ANY_VERSION}:{version}" and version.isdecimal() and space != NAMESPACE:
            raise UnsupportedError(
                f"{name} belongs to another version of this collection already: its metadata are {space}",
                hint="Update this collection",
            )


def _require_settled(domain: Domain) -> None:
    """Raise ConflictError for a machine whose metadata would be lost, or would not be what is defined."""
    name, move = domain.name, read_migration_note(domain.xml)
    if move is not None:
        raise ConflictError(
            f"{name} {move.words}, or its move was interrupted",
            hint="Wait until the move ends. If nobody is moving it, move it again, which finishes the move",
        )
    with translate_errors(f"cannot inspect machine {name}"):
        in_definition = bool(domain.handle.isPersistent())
        saved = not domain.active and bool(domain.handle.hasManagedSaveImage(0))
    if not in_definition:
        raise ConflictError(
            f"{name} is running but not defined here, so what is remembered of it is lost when it stops",
            hint=f"If it is not being moved, define it first: {keep_command(name)}",
        )
    if saved:
        raise ConflictError(
            f"the state of {name} is saved, and it would resume without the metadata",
            hint="Start it first",
        )


def _remarks(domain: Domain) -> tuple[str, ...]:
    """What is to be known of a machine that is adopted."""
    with translate_errors(f"cannot list the snapshots of machine {domain.name}"):
        snapshots = [snapshot.getName() for snapshot in domain.handle.listAllSnapshots(0)]
    if not snapshots:
        return ()
    return (
        f"{domain.name} has snapshots from before ({', '.join(sorted(snapshots))}): after a revert to one of them it "
        "has to be adopted again",
    )


def require_unchanged(planned: AdoptionPlan, now: AdoptionPlan) -> None:
    """Raise ConflictError when a machine is not any more what the plan was made for."""
    same = (planned.uuid, planned.known, planned.notes) == (now.uuid, now.known, now.notes)
    if not same:
        raise ConflictError(
            f"machine {planned.name} has changed since this run looked, so it is not adopted", hint="Run it again"
        )
