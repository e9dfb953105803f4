# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many machines in one task: all of them planned before the first is touched, then built side by side."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from .._base.errors import ConflictError, Mistakes, VirtError, as_virt_error, inside
from .._host.connection import VirConnect, translate_errors
from .._host.identity import host_identity
from .._host.locks import machine_lock
from .._host.machines.domains import Domain, keep_command
from .._host.machines.listing import observe_machines
from .._model.as_text import declared
from .._model.metadata.machine import BUILDING
from .._model.metadata.migration import read_migration_note
from .._model.metadata.snapshots import finish_revert_hint, reverting_to
from .._model.spec.existing import Existing, FindExisting, read_values
from .._model.spec.hardware.devices import REMOTE_CONSOLES, console_in_words
from .._model.spec.machine import Machine, places_of
from .._model.spec.names import DirectoryAsPoolError, with_pool_named
from .._operations import plan
from .create.claims import Claim, check_claim
from .create.decision import PlacementDecision, check_hypervisor, growth_of
from .create.machine import steps_to_build
from .hypervisor import Hypervisor
from .machine_plan import MachinePlan
from .power.view import OlderDataError
from .start_turns import StartTurns
from .update.machine import difference
from .update.power import STOP_SECONDS, plan_power, with_power


def read_specs_here(
    read: t.Callable[[FindExisting], list[Machine]], hypervisor: Hypervisor, gone: t.Container[str] = ()
) -> list[Machine]:
    """The machines that a task asks for on this hypervisor, whose own machines may keep what they have.

    read: reads them, given what is there already. gone: machines that were there when the run looked. What they had is
    not known any more, and is no mistake.
    Where the task has the directory of a pool, the error has the pool's name.
    """

    def existing(name: str) -> Existing | None:
        domain = hypervisor.domains.get(name)
        if name in gone:
            return Existing()
        if domain is not None:
            domain.require_readable()
        return None if domain is None or is_new(domain) else Existing(read_values(domain.xml, domain.notes))

    try:
        return read(existing)
    except DirectoryAsPoolError as exc:
        raise with_pool_named(exc, {pool.path: pool.name for pool in hypervisor.pools.all()}) from exc


def check_still_chosen(
    machines: Sequence[Machine],
    hypervisor: Hypervisor,
    decision: PlacementDecision,
    *,
    leaving: Container[str] = (),
    ahead: bool = False,
) -> None:
    """Raise ConflictError when the hypervisor is not any more what it was when it was chosen for its new machines, and
    for what others grow by.

    leaving: machines that are there and count as removed. ahead: the run has not created machines on any hypervisor
    yet, see check_decision.
    """
    new = [machine for machine in machines if is_new(hypervisor.domains.get(machine.name))]
    needs = [Claim(machine.name, machine.memory_mib, machine.vcpus) for machine in new]
    there = [(machine, hypervisor.domains[machine.name]) for machine in machines if machine not in new]
    grown = [growth_of(machine.name, machine.memory_mib, machine.vcpus, domain) for machine, domain in there]
    staying = {name: domain for name, domain in hypervisor.domains.items() if name not in leaving}
    growth = [more for more in grown if more is not None]
    hypervisor.growth = [] if decision.machines else None
    check_hypervisor(needs, decision, hypervisor.conn, staying, hypervisor.pools, ahead=ahead, growth=growth)


def make_plans(
    machines: Sequence[Machine],
    hypervisor: Hypervisor,
    where: str,
    places: Sequence[str] | None = None,
    gone: Mapping[str, str] | None = None,
    *,
    stop_seconds: float = STOP_SECONDS,
) -> list[MachinePlan]:
    """A plan for each machine, in order; nothing is changed.

    where, places: what messages call the machines, see places_of; where is empty for a single machine's own options.
    gone: machines that are not what the run takes them for any more, with the words for it: the error of each.
    stop_seconds: how long the operating system of one that is to be stopped may take.
    Raises what makes any of them impossible, with a line for each: a mistake in one changes nothing at all.
    A fault that nobody expected is another thing: it is the error of its machine, and the others are made. So is a
    power state that a machine cannot be brought to from the one that it is in.
    """
    plans = []
    mistakes = Mistakes()
    for place, machine in zip(places_of(len(machines), where, places), machines):  # noqa: B905 - not in Python 3.9
        with mistakes.noted():
            if gone and machine.name in gone:
                error = ConflictError(gone[machine.name], where=place or None, hint="Run it again, to check again")
                plans.append(MachinePlan(machine, False, (), before={}, after={}, error=error))
            else:
                plans.append(_make_plan(machine, hypervisor, place, stop_seconds))
    for error in hypervisor.unasked:
        with mistakes.noted():
            raise error
    mistakes.conclude()
    return plans


def is_new(domain: Domain | None) -> bool:
    """Whether a machine is to be made: it is not there, or only what an unfinished run has left of it."""
    return domain is None or (domain.notes is not None and domain.notes.status == BUILDING)


def _has_unfinished(domain: Domain | None) -> bool:
    """Whether a machine, or a volume of it, is not whole: by what is there, an interrupted run has left it.

    Or a run is at work on it that holds the machine's lock, and not the hypervisor's, such as a restore.
    """
    if domain is None or domain.notes is None or domain.notes.claimed:
        return False
    return domain.notes.status == BUILDING or any(note.building for note in domain.notes.volumes)


def machines_taken(decision: PlacementDecision, domains: Mapping[str, Domain]) -> dict[str, str]:
    """The names that were to be new and that another run has created a machine of, in words, by name.

    As far as it goes by names alone, that machine would be changed to what this run describes.
    """
    found = {name: domains.get(name) for name in decision.new}
    return {
        name: "since this run checked, another one has created a machine of this name here: its UUID is"
        f" {domain.handle.UUIDString()}"
        for name, domain in found.items()
        if domain is not None and not is_new(domain)
    }


def _make_plan(machine: Machine, hypervisor: Hypervisor, where: str, stop_seconds: float) -> MachinePlan:
    try:
        return _plan(machine, hypervisor, where, stop_seconds)
    except VirtError:
        raise
    except Exception as exc:  # whatever it is, it is not the other machines' fault
        return MachinePlan(machine, False, (), before={}, after={}, error=as_virt_error(exc))


def _plan(machine: Machine, hypervisor: Hypervisor, where: str, stop_seconds: float) -> MachinePlan:
    domain = hypervisor.domains.get(machine.name)
    check_claim(machine.name, domain, hypervisor.claims)
    unfinished = _has_unfinished(domain)
    if unfinished:
        try:
            with machine_lock(machine.name, wait_seconds=0):
                pass
        except ConflictError as exc:
            return MachinePlan(machine, False, (), before={}, after={}, error=exc)
    if domain is None or is_new(domain):
        steps = steps_to_build(machine, hypervisor, where, domain)
        return MachinePlan(machine, True, steps, before={}, after=declared(machine), alone=unfinished)
    domain.require_readable(inside(where, "name"))
    try:
        found = difference(machine, domain, hypervisor, where)
    except OlderDataError as exc:
        return MachinePlan(machine, False, (), before={}, after={}, error=exc)
    if found.steps():
        _require_settled(domain, where)
        _require_defined(domain, where)
    try:
        power = plan_power(machine, domain, stop_seconds)
    except VirtError as exc:
        return MachinePlan(machine, False, (), before={}, after={}, error=exc)
    return with_power(
        MachinePlan(
            machine, False, found.steps(), found.before, found.after, found.pending, found.outdated, alone=unfinished
        ),
        power,
    )


def _require_settled(domain: Domain, where: str) -> None:
    """Raise ConflictError for a machine that is on its way to another hypervisor, which would get the old one.

    Also for one whose move was cut off: its next run removes what that has left. One that has come here is settled. And
    for one that is being reverted to a snapshot, which brings another description.
    """
    snapshot = reverting_to(domain.xml)
    if snapshot is not None:
        raise ConflictError(
            f"{domain.name} is being reverted to snapshot {snapshot}, or that was interrupted, so it is not changed",
            where=inside(where, "name"),
            hint=finish_revert_hint(snapshot),
        )
    note = read_migration_note(domain.xml)
    if note is None or not note.source_id or note.source_id != host_identity():
        return
    if note.stays:
        raise ConflictError(
            f"{domain.name} {note.words} to other pools, or that was interrupted, so it is not changed",
            where=inside(where, "name"),
            hint=f"Wait until that ends. If nobody is moving them, {note.again} again, which finishes it",
        )
    raise ConflictError(
        f"{domain.name} is being moved to {note.target}, or its move was interrupted, so it is not changed here",
        where=inside(where, "name"),
        hint=f"Wait until the move ends. If it is no longer being moved, run virt_migrate to {note.target} again, "
        "which finishes the move",
    )


def _require_defined(domain: Domain, where: str) -> None:
    """Raise ConflictError for a machine that only runs until it stops: there is no next boot to change anything for."""
    with translate_errors(f"cannot inspect machine {domain.name}"):
        in_definition = bool(domain.handle.isPersistent())
    if not in_definition:
        raise ConflictError(
            f"{domain.name} is running but not defined here, so it is lost when it stops: it was undefined while "
            "it ran, or is on its way here by a move",
            where=inside(where, "name"),
            hint=f"If it is not being moved, keep it: {keep_command(domain.name)}",
        )


def left_running(plans: Sequence[MachinePlan], hypervisor: Hypervisor) -> list[str]:
    """The machines that run though the task asks for ``start: false``, which starts nothing and stops nothing.

    Who asks for a state has said that they may.
    """
    old = [todo.machine for todo in plans if todo.error is None and not todo.created and not todo.machine.start]
    names = [machine.name for machine in old if machine.given.values.get("state") is None]
    return [name for name in names if hypervisor.domains[name].active]


def further_consoles(plans: Sequence[MachinePlan], hypervisor: Hypervisor) -> dict[str, list[str]]:
    """What else others can connect to in machines whose ``graphics`` the task names, in words, by name.

    ``graphics`` is the first console, and says nothing of the others that somebody has given the machine.
    """
    old = [todo.machine for todo in plans if todo.error is None and not todo.created]
    found = {}
    for machine in old:
        if machine.hardware.get("graphics"):
            consoles = hypervisor.domains[machine.name].xml.findall("devices/graphics")[1:]
            found[machine.name] = [console_in_words(one) for one in consoles if one.get("type") in REMOTE_CONSOLES]
    return {name: consoles for name, consoles in found.items() if consoles}


def unbootable(plans: Sequence[MachinePlan]) -> list[str]:
    """The new machines that have nothing to boot from."""
    return [todo.machine.name for todo in plans if todo.created and todo.machine.boots_from_nothing]


def run_plans(
    plans: Sequence[MachinePlan], *, concurrency: int, at_work: dict[str, plan.Step] | None = None
) -> list[MachinePlan]:
    """Run the plans side by side; one that fails is rolled back and comes back with its error, the others go on.

    Machines are started in their order, with their delays; all else does not wait.
    at_work: has the step that each machine is at, by its name, for as long as its plan is run.
    """
    under_way = {} if at_work is None else at_work
    turns = StartTurns([todo.steps for todo in plans])
    with ThreadPoolExecutor(max_workers=max(1, concurrency)) as executor:
        outcomes = {
            index: executor.submit(_run_plan, plans[index], index, turns, under_way) for index in turns.sequence
        }
    return [outcomes[index].result() for index in range(len(plans))]


def _run_plan(todo: MachinePlan, index: int, turns: StartTurns, under_way: dict[str, plan.Step]) -> MachinePlan:
    started, error = False, todo.error
    name = todo.machine.name
    began = time.monotonic()
    try:
        # Whoever holds the hypervisor's lock waits no time for a machine's.
        with machine_lock(name, wait_seconds=0) if todo.alone else contextlib.nullcontext():
            plan.run(turns.steps(index), lambda step: under_way.update({name: step}))
        started = True
    except Exception as exc:  # one machine's error is not to hide what became of the others
        error = as_virt_error(exc)
    finally:
        under_way.pop(name, None)
        turns.end(index, started=started)
    return replace(todo, error=error, seconds=time.monotonic() - began)


def records_of(conn: VirConnect, names: Sequence[str], warn: t.Callable[[str], None]) -> dict[str, t.Any]:
    """What is true of the machines now. A failure here must not hide what became of them."""
    try:
        return {record["name"]: record for record in observe_machines(conn, addresses=False, names=names)}
    except Exception as exc:
        warn(f"The current state of the machines cannot be determined: {as_virt_error(exc)}")
        return {}
