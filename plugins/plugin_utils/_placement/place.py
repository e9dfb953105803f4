# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hypervisor for which machine, and why: from live facts alone, without any I/O.

Same input, same answer. Machines that live somewhere stay; machines whose spec names a hypervisor come next, so that no
free choice takes their capacity; all others follow in the user's order. Whatever one of them takes is gone for the
next.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ...module_utils._base.errors import ConflictError, InputError, VirtError, combined_error, one_of_these
from ...module_utils._model.spec.machine import Machine
from ...module_utils._model.spec.machine_state import STOPPED
from .capacity import HostCapacity
from .choice import choose, notes_on
from .homes import (
    between_two,
    check_addresses,
    check_home,
    check_name,
    check_whole,
    halted,
    homes_of,
    started_twice,
    unfit_claims,
    unseen,
)
from .hosts import host_addresses, read_hosts, reasons_against, require_listed_once
from .machine_type import BoundMachines, common_machine_type
from .need import Need, images_of, need_of_spec
from .options import PlacementOptions
from .removals import find_removals


def place(
    machines: Sequence[Machine],
    specs: Sequence[t.Any],
    hosts: Mapping[str, t.Any],
    *,
    images: Mapping[str, t.Any] | None = None,
    images_where: str = "images",
    settings: Mapping[str, t.Any] | None = None,
    options: PlacementOptions,
    places: Sequence[str],
    taken: t.Container[str] = (),
    last_seen: Mapping[str, Sequence[str]] | None = None,
    homes: Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """The hypervisor of each machine, in plain data.

    machines: the specs as read, specs: the same as the user wrote them; hosts: facts by hypervisor, or the sentence
    that says why one did not answer; images: the user's images by name, which messages call images_where; settings: the
    hypervisors' inventory variables; places: what messages call the machines, see places_of; homes: where machines
    lived when the inventory was made; taken: names that mean something else in the inventory; last_seen: by
    machine, the hypervisors that it is known on by other means than their answers.
    The result has ``assignments``, ``by_host``,
    ``places_by_host``, ``new_by_host``, ``withdraw``, ``decisions``, ``images_by_host``,
    ``machine_type``, ``not_started``, ``stopped``, ``removals``, ``not_there``, ``silent`` and
    ``refused_machines``; the filter's documentation describes them.

    Raises InputError or ConflictError, for all machines at once, when any of them cannot be placed; only those that
    may live on, or were asked for on, a hypervisor which did not answer, or is not known any more, are given back as
    refused instead.
    """
    known_images = _known_images(images, images_where)
    require_listed_once(hosts)
    capacities, silent = read_hosts(hosts, settings, options)
    needs = [need_of_spec(machine, options.image_pool) for machine in machines]
    titles = [
        f"{places[index]} ({machine.name})" if places[index] else machine.name for index, machine in enumerate(machines)
    ]
    removals = find_removals(machines, capacities, silent, options, homes or {}, titles, last_seen)
    problems: dict[int, VirtError] = dict(removals.problems)
    refused: dict[int, tuple[str | None, str]] = dict(removals.refused)
    chosen: dict[int, dict[str, t.Any]] = {}
    homeless: list[int] = []
    withdraw: dict[str, dict[str, str]] = {}
    unfinished = {
        (host, name)
        for host, capacity in capacities.items()
        for name, found in capacity.machines.items()
        if found.get("building")
    }
    placed: dict[str, dict[str, str | None]] = {host: {} for host in capacities}
    addresses = host_addresses(hosts, settings)

    for index, machine in enumerate(machines):
        if machine.absent:
            continue
        running_on, left = homes_of(machine, capacities, unfit_claims(needs[index], capacities, known_images))
        for host in left:
            withdraw.setdefault(host, {})[machine.name] = capacities[host].machines[machine.name]["uuid"]
        refusal: tuple[str | None, str] | None = between_two(machine, running_on, capacities)
        if refusal is not None:
            refused[index] = refusal
            continue
        seen = [(homes or {}).get(machine.name), *(last_seen or {}).get(machine.name, ())]
        # What an interrupted run has left of it is no machine yet, and says nothing of one on another hypervisor.
        if not running_on or (running_on[0], machine.name) in unfinished:
            refusal = unseen(machine, hosts, silent, options, [None if one in running_on else one for one in seen])
            if running_on:
                refusal = refusal or halted(machine, running_on[0], capacities[running_on[0]])
        elif len(running_on) == 1:
            state = capacities[running_on[0]].machines[machine.name].get("state")
            refusal = started_twice(machine, running_on[0], state, hosts, silent, options, seen)
        try:
            check_home(machine, running_on, hosts, titles[index])
            if not running_on:
                check_name(machine, hosts, taken, titles[index])
                check_addresses(machine, addresses)
            if refusal is None and (not running_on or (running_on[0], machine.name) in unfinished):
                check_whole(machine, places[index])
            if refusal is None:
                _check_images(machine, known_images, capacities, titles[index])
        except VirtError as exc:
            problems[index] = exc
            continue
        if refusal is not None:
            refused[index] = refusal
        elif running_on:
            home = running_on[0]
            if (home, machine.name) not in unfinished:
                placed[home][machine.name] = capacities[home].machines[machine.name].get("uuid")
            grows = capacities[home].growth_refusals(needs[index])
            if grows:
                problems[index] = _cannot_grow(machine, home, grows, titles[index])
            capacities[home].take(needs[index])
            others = {host: f"it is on {home}" for host in capacities if host != home}
            why = "; ".join(["it lives there", *_misfits(needs[index], capacities[home])])
            chosen[index] = _assignment(machine, home, why, others, silent, existing=True)
        else:
            homeless.append(index)

    bound = BoundMachines(capacities, needed=not options.baseline)
    # Sorting keeps the user's order among equals.
    for index in sorted(homeless, key=lambda number: machines[number].hypervisor is None):
        try:
            found = _pick(machines[index], needs[index], capacities, silent, known_images, options, titles[index])
            chosen[index] = bound.note(found, machines[index].machine_type)
        except VirtError as exc:
            problems[index] = exc
        else:
            capacities[chosen[index]["hypervisor"]].take(needs[index])

    if problems:
        raise combined_error([problems[index] for index in sorted(problems)])
    by_host: dict[str, list[t.Any]] = {host: [] for host in capacities}
    new_by_host: dict[str, list[dict[str, t.Any]]] = {host: [] for host in capacities}
    places_by_host: dict[str, list[str]] = {host: [] for host in capacities}
    images_by_host: dict[str, list[t.Any]] = {host: [] for host in capacities}
    for index in sorted(chosen):
        host, machine = chosen[index]["hypervisor"], machines[index]
        by_host[host].append(specs[index]["name"])
        if not chosen[index]["existing"] or (host, machine.name) in unfinished:
            new_by_host[host].append(_as_new(machine))
        places_by_host[host].append(places[index])
        wanted = images_by_host[host]
        names = [known_images[image] for image in images_of(machine) if image in known_images]
        wanted += [name for name in names if name not in wanted]
    return {
        "assignments": [chosen[index] for index in sorted(chosen)],
        "by_host": by_host,
        "new_by_host": new_by_host,
        "withdraw": withdraw,
        "decisions": {host: capacity.decision(placed[host]) for host, capacity in capacities.items()},
        "places_by_host": places_by_host,
        "images_by_host": images_by_host,
        "machine_type": common_machine_type(capacities) if options.baseline else None,
        "not_started": [machines[index].name for index in sorted(chosen) if not machines[index].start],
        "stopped": [machines[index].name for index in sorted(chosen) if machines[index].state == STOPPED],
        "removals": removals.by_host,
        "not_there": removals.not_there,
        "silent": silent,
        "refused_machines": [
            {"name": machines[index].name, "hypervisor": refused[index][0], "why": refused[index][1]}
            for index in sorted(refused)
        ],
    }


def _as_new(machine: Machine) -> dict[str, t.Any]:
    """A machine that is to be created, in the words of virt_claim."""
    groups = {"anti_affinity": list(machine.anti_affinity)} if machine.anti_affinity else {}
    return {"name": machine.name, "memory_mib": machine.memory_mib, "vcpus": machine.vcpus, **groups}


def _pick(
    machine: Machine,
    need: Need,
    capacities: Mapping[str, HostCapacity],
    silent: Mapping[str, str],
    brought: t.Container[str],
    options: PlacementOptions,
    where: str,
) -> dict[str, t.Any]:
    """The decision for a machine that lives nowhere. Raises ConflictError with all reasons when it fits nowhere."""
    asked = machine.hypervisor
    choice = choose(need, capacities, [asked] if asked is not None else list(capacities), options, brought)
    if choice.host is None:
        raise _fits_nowhere(machine, choice.refused, silent, where, choice.hint)
    if asked is None:
        return _assignment(machine, choice.host, choice.why, choice.refused, silent)
    left_mib = capacities[asked].memory_mib - need.memory_mib
    why = [f"the task names it: {left_mib} MiB of free memory after this machine", *notes_on(need, capacities[asked])]
    others = {name: f"the task names {asked}" for name in capacities if name != asked}
    return _assignment(machine, asked, "; ".join(why), others, silent)


def _misfits(need: Need, capacity: HostCapacity) -> list[str]:
    """What the spec for a machine that lives here asks of a hypervisor and this one is not: only a move changes it."""
    return [f"but it {words}: a migration would help" for words in [*capacity.lacks(need), *capacity.shared_with(need)]]


def _known_images(images: t.Any, where: str) -> Mapping[str, t.Any]:
    """The images' names as the user wrote them, which may be numbers, by their names as texts."""
    if images is None:
        return {}
    if not isinstance(images, Mapping):
        raise InputError(f"{images!r} is not a mapping of images", where=where, hint="Give NAME: {src: FILE} for each")
    return {str(name): name for name in images}


def _check_images(
    machine: Machine, known: Mapping[str, t.Any], capacities: Mapping[str, HostCapacity], where: str
) -> None:
    for image in images_of(machine):
        if image not in known and not any(capacity.stored(image) for capacity in capacities.values()):
            names = {*known, *(name for capacity in capacities.values() for name in capacity.image_names)}
            near = one_of_these(image, names)
            listed = f"Known: {', '.join(sorted(names))}" if names else "No images are known"
            hint = f"{near} {listed}" if near.startswith("Did") else listed
            raise InputError(f"unknown image {image!r}", where=where, hint=hint)


def _assignment(
    machine: Machine,
    host: str,
    why: str,
    others: Mapping[str, str],
    silent: Mapping[str, str],
    *,
    existing: bool = False,
) -> dict[str, t.Any]:
    """One decision, with the reasons against every other hypervisor."""
    refused = {**others, **reasons_against(silent)}
    return {
        "name": machine.name,
        "hypervisor": host,
        "existing": existing,
        "why": why,
        "refused": dict(sorted(refused.items())),
    }


def _cannot_grow(machine: Machine, home: str, reasons: Sequence[str], where: str) -> VirtError:
    return ConflictError(
        f"does not fit on {home}, where it is, as it is described: {', '.join(reasons)}",
        where=where,
        hint=f"Make room there, or move it first: brine.virt.migrate -e vm={machine.name}",
    )


def _fits_nowhere(
    machine: Machine, refused: Mapping[str, str], silent: Mapping[str, str], where: str, hint: str | None
) -> VirtError:
    if machine.hypervisor is not None:
        return ConflictError(
            f"does not fit on {machine.hypervisor}: {refused[machine.hypervisor]}", where=where, hint=hint
        )
    reasons = {**refused, **reasons_against(silent)}
    listed = "; ".join(f"{host}: {reasons[host]}" for host in sorted(reasons))
    return ConflictError(f"fits no hypervisor: {listed}", where=where, hint=hint)
