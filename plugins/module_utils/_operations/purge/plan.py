# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done to remove one machine, and whether that may be done. Nothing here changes anything.

The order of the steps is what makes a killed run harmless. The machine goes last, as its metadata are the only memory
of what is its own: whenever the run dies, the machine is still there with the list, and the next run finishes. What
libvirt itself keeps of it (NVRAM, TPM state, saved state, metadata of snapshots and checkpoints) goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.domains import Domain, keep_command
from ..._host.machines.record import state_name
from ..._host.machines.undefine import undefine
from ..._host.storage.usage import AskElsewhere, PoolVolume, delete_unused
from ..._model.metadata.migration import read_migration_note
from ..create.claims import require_no_claim
from ..hypervisor_view import HypervisorView
from ..ownership import OTHER, identify
from ..plan import Step
from ..power.machines import PowerResult
from ..power.plan import Action, plan_actions
from ..power.view import view_machine
from .refusal import ACTIVE, FOREIGN, SAVED, UNABLE, RefusedError
from .volumes import DELETE, NOT_CREATED, PurgeOptions, VolumeDecision, decide, volumes_of


@dataclass(frozen=True)
class PurgePlan:
    """A machine that may be removed, as it was when somebody looked.

    state: libvirt's word for it. elsewhere: what other hypervisors say of its volumes, as in Usage. power: how it is
    shut down first, if that is asked for and it is active. power_words: how one that is active is switched off first.
    snapshots: the names of those that go with it.
    """

    name: str
    uuid: str
    active: bool
    state: str
    decisions: tuple[VolumeDecision, ...]
    elsewhere: AskElsewhere | None = field(default=None, compare=False, repr=False)
    power: PowerResult | None = field(default=None, compare=False, repr=False)
    power_words: str | None = field(default=None, compare=False)
    snapshots: tuple[str, ...] = field(default=(), compare=False)

    @property
    def going(self) -> list[VolumeDecision]:
        """The volumes that are deleted, in the order of that."""
        return [decision for decision in self.decisions if decision.action == DELETE]


def plan_purge(name: str, view: HypervisorView, options: PurgeOptions) -> PurgePlan | None:
    """What is to be done to remove a machine; None when it is not there.

    Raises ConflictError, with what to do, for a machine that may not be removed; InputError for a disk that it does not
    have.
    """
    domain = view.domains.get(name)
    if domain is None:
        return None
    domain.require_readable()
    with translate_errors(f"cannot inspect machine {name}"):
        state = state_name(domain.handle.state()[0])
        in_definition, uuid = bool(domain.handle.isPersistent()), domain.handle.UUIDString()
    _require_settled(domain, uuid)
    if not in_definition:
        raise ConflictError(
            f"{name} is {state} but not defined here, so what it owns is forgotten when it stops: it was undefined "
            "while it ran, or is on its way here by a move",
            hint=f"If it is not being moved, define it first: {keep_command(name)}",
        )
    if domain.notes is None and not options.adopt:
        raise RefusedError(
            f"{name} was not created by this collection, so it is not removed",
            hint="With adopt: true it is. Its disks are kept, except those that disks names",
            obstacle=FOREIGN,
        )
    if domain.active and not options.force and not options.stop:
        raise RefusedError(
            f"{name} is {state}, so it is not removed",
            hint="Set stop: true to have it shut down first, or force: true, which powers it off at once",
            obstacle=ACTIVE,
        )
    if (options.keep_disks or domain.notes is None) and not options.force:
        _require_no_saved_state(domain)
    power = _plan_stop(domain, options) if domain.active and options.stop else None
    words = _power_words(power, options) if domain.active else None
    decisions = tuple(decide(domain, view, options))
    with translate_errors(f"cannot list the snapshots of machine {name}"):
        snapshots = tuple(sorted(one.getName() for one in domain.handle.listAllSnapshots(0)))
    return PurgePlan(name, uuid, domain.active, state, decisions, view.elsewhere, power, words, snapshots)


def _plan_stop(domain: Domain, options: PurgeOptions) -> PowerResult | None:
    """How an active machine is shut down; None for one that is off by now. Raises VirtError when it cannot be."""
    with translate_errors(f"cannot inspect machine {domain.name}"):
        machine = view_machine(domain.handle)
    try:
        actions = plan_actions(machine, options.shut_down)
    except ConflictError as exc:
        # What force does not help with either is raised as it is.
        plan_actions(machine, replace(options.shut_down, force=True))
        reason = f" {machine.paused_by}" if machine.paused_by else ""
        raise RefusedError(
            f"{machine.name} is {machine.state}{reason}, so its operating system cannot shut down",
            hint="Set force: true to have it powered off",
            obstacle=UNABLE,
        ) from exc
    return PowerResult(machine, actions, state=machine.state) if actions else None


def _power_words(power: PowerResult | None, options: PurgeOptions) -> str:
    """How a machine that is active is switched off before it is removed. power: what _plan_stop said."""
    if power is None:
        return Action.POWER_OFF.value
    words = ", then ".join(action.value for action in power.actions)
    if Action.SHUT_DOWN not in power.actions:
        return words
    hard = f", else {Action.POWER_OFF.value}" if options.force else ""
    return f"{words} within {options.stop_seconds:g} s{hard}"


def _require_settled(domain: Domain, uuid: str) -> None:
    """Raise ConflictError for a name that is only claimed, and for a machine that is on its way."""
    name = domain.name
    require_no_claim(domain, uuid)
    note = read_migration_note(domain.xml)
    if note is not None:
        raise ConflictError(
            f"{name} {note.words}, or its move was interrupted, so it is not removed",
            hint=f"Wait until the move ends. If nobody is moving it, {note.again} again, which finishes the move; if "
            f"{'that hypervisor' if note.stays else 'one of the two'} is gone for good: "
            f"{note.removal(name, active=domain.active)}",
        )


def _require_no_saved_state(domain: Domain) -> None:
    """Raise ConflictError for a machine whose memory is saved, as its disks, which stay, are of no use without it."""
    with translate_errors(f"cannot inspect machine {domain.name}"):
        saved = bool(domain.handle.hasManagedSaveImage(0))
    if saved:
        raise RefusedError(
            f"the state of {domain.name} is saved, so it is not removed: its disks would be as after a power cut",
            hint="Start it and shut it down first, or set force: true, which drops the saved state",
            obstacle=SAVED,
        )


def still_to_do(planned: PurgePlan, now: PurgePlan | None) -> PurgePlan:
    """The plan as it is carried out, on what is true now. Raises ConflictError when what it stood on has changed.

    What could go now, and was shown to stay, stays, unless it was nobody's then: what it is backed by would stay too.
    """
    name = planned.name
    if now is None or now.uuid != planned.uuid:
        raise ConflictError(
            f"machine {name} has gone since this run looked: it was moved, or another run has removed it",
            hint="Nothing was removed here. Look for it on the other hypervisors",
        )
    if now.active and (not planned.active or planned.power is not None):
        raise ConflictError(f"machine {name} has been started since this run looked, so it is not removed")
    known = {(decision.pool, decision.volume): decision.reason for decision in planned.decisions}
    shown = {(decision.pool, decision.volume) for decision in planned.going}
    for decision in now.decisions:
        volume = (decision.pool, decision.volume)
        if volume not in known:
            # Undefined without it, the machine would leave it behind as nobody's.
            change = f"{decision.words} is new"
        elif volume in shown and decision.action != DELETE:
            change = f"{decision.words} would now be kept: {decision.reason}"
        elif known[volume] == NOT_CREATED and decision.action == DELETE:
            # libvirt had taken a snapshot, and its files were not noted yet.
            change = f"{decision.words} is its own now"
        else:
            continue
        raise ConflictError(
            f"machine {name} has changed since this run looked, so it is not removed: {change}",
            hint="Run it again to see what goes now",
        )
    going = tuple(decision for decision in now.going if (decision.pool, decision.volume) in shown)
    return PurgePlan(name, now.uuid, now.active, now.state, going, now.elsewhere)


def steps_to_purge(conn: VirConnect, plan: PurgePlan, deleted: list[str] | None = None) -> list[Step]:
    """The steps that remove a machine, which is off by then, or is powered off by them.

    None can be taken back; each finds what an earlier run has left of its work. deleted: gets the words for each volume
    as soon as it is gone.
    """
    name = plan.name
    steps = []
    if plan.active and plan.power is None:
        steps.append(Step(f"power off {name}", lambda: _power_off(conn, name)))
    if plan.going:
        words = ", ".join(decision.words for decision in plan.going)
        steps.append(Step(f"delete {words}", lambda: _delete(conn, plan, deleted)))
    steps.append(Step(f"undefine {name}", lambda: undefine(conn, name, tpm=True)))
    return steps


def _power_off(conn: VirConnect, name: str) -> None:
    with translate_errors(f"cannot power off machine {name}"):
        handle = conn.lookupByName(name)
        try:
            handle.destroy()
        except libvirt.libvirtError:
            if handle.isActive():
                raise


def _delete(conn: VirConnect, plan: PurgePlan, deleted: list[str] | None) -> None:
    """Delete the volumes, all of which are looked at once more first: whose they are, and who uses them."""
    for decision in plan.going:
        pool, note = decision.found, decision.note
        if pool is not None and note is not None and identify(pool, note) == OTHER:
            raise ConflictError(f"{decision.words} has been replaced by another one since this run looked")
    words = {(decision.found, decision.volume): decision.words for decision in plan.going}

    def tell(volume: PoolVolume) -> None:
        if deleted is not None:
            deleted.append(words[volume])

    going, name = volumes_of(plan.going), plan.name
    delete_unused(conn, going, owner=name, clearing=name, elsewhere=plan.elsewhere, deleted=tell)
