# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a machine lives already, and why one that is seen nowhere is not to be made now."""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Mapping, Sequence

from ...module_utils._base.errors import ConflictError, InputError
from ...module_utils._model.spec.existing import Existing, FindExisting
from ...module_utils._model.spec.machine import Machine
from ...module_utils._model.spec.reading.machines import NEW_MACHINE
from .capacity import HostCapacity
from .hosts import LISTED_TWICE, is_of_a_move, is_one_hypervisor, was_asked
from .need import Need
from .options import PlacementOptions, unseen_option

# Of a machine's record.
OFF_STATES = ("shutoff", "crashed")


def find_existing(hosts: t.Any, homes: t.Any, last_seen: t.Any) -> FindExisting:
    """The machines that are on a hypervisor which answered, or were on one that does not answer or is not asked.

    hosts, homes, last_seen: as in place. What an unfinished run has left is recreated, and counts as not there.
    """
    answered = {name: facts for name, facts in _items(hosts) if isinstance(facts, Mapping)}
    found = {
        str(machine["name"])
        for facts in answered.values()
        for machine in facts.get("machines") or ()
        if not machine.get("building")
    }
    unseen = {str(name) for name, host in _items(homes) if host not in answered}
    # One that is on none of those where it was seen may have been moved to one that says nothing.
    silent = len(answered) < len(dict(_items(hosts)))
    unseen |= {str(name) for name, seen in _items(last_seen) if silent or any(host not in answered for host in seen)}

    def find(name: str) -> Existing | None:
        return Existing() if name in found or name in unseen else None

    return find


def _items(value: t.Any) -> t.Iterable[tuple[t.Any, t.Any]]:
    """Of a mapping; what is none is complained of elsewhere."""
    return value.items() if isinstance(value, Mapping) else ()


def unfit_claims(need: Need, capacities: Mapping[str, HostCapacity], brought: t.Container[str]) -> list[str]:
    """The hypervisors that have a claim of this machine's name, and cannot have the machine as they are now.

    brought: images that the run itself brings.
    """
    claimed = [host for host, one in capacities.items() if one.machines.get(need.name, {}).get("claimed")]
    return [host for host in claimed if capacities[host].refusals(need, brought)]


def homes_of(
    machine: Machine, capacities: Mapping[str, HostCapacity], unfit: t.Container[str] = ()
) -> tuple[list[str], list[str]]:
    """The hypervisors that a machine lives on, and those where a claim of its name is to be withdrawn: a run that was
    cut off has left it.

    Where there are only claims, one of them is the home, so that the machine is made there: the one that the task asks
    for, else the first. The others are left to the run that decides about the claims. unfit: hypervisors with a claim
    that cannot have the machine. Nothing was created there, and none of them is its home.
    """
    homes = [host for host, capacity in capacities.items() if machine.name in capacity.machines]
    claimed = [host for host in homes if capacities[host].machines[machine.name].get("claimed")]
    running_on = [host for host in homes if host not in claimed]
    if running_on:
        return running_on, claimed
    fit = [host for host in claimed if host not in unfit]
    home = [machine.hypervisor] if machine.hypervisor in fit else fit[:1]
    return home, [host for host in claimed if host in unfit]


def halted(machine: Machine, home: str, capacity: HostCapacity) -> tuple[str, str] | None:
    """Why what an interrupted run has begun of a machine is not gone on with, or None: its hypervisor gets no machines,
    and its volumes are there."""
    if capacity.maintenance is None:
        return None
    return home, (
        f"a run is creating it on {home}, or was interrupted there, and {home} is in maintenance. End that with "
        f"brine.virt.maintenance -e end={home}, or remove what is there: brine.virt.purge -e vm={machine.name}"
    )


def between_two(
    machine: Machine, homes: Sequence[str], capacities: Mapping[str, HostCapacity]
) -> tuple[str, str] | None:
    """Why a machine that a move has defined on two hypervisors is left as it is, with the one that it comes from; or
    None."""
    own_names = {one.own_name: host for host, one in capacities.items() if one.own_name is not None}
    copies = {host: capacities[host].machines[machine.name] for host in homes}
    left = [host for host in homes if is_of_a_move(host, copies[host], copies, own_names)]
    if len(homes) - len(left) != 1 or not left:
        return None
    source, target = (own_names[copies[left[0]]["moving"][end]] for end in ("source", "target"))
    return source, (
        f"it is being moved from {source} to {target}, or that was interrupted, and both have it. Wait until the move "
        "ends; if nobody is moving it any more, finish that: "
        f"brine.virt.migrate -e vm={machine.name} -e to={target}"
    )


def check_home(machine: Machine, homes: Sequence[str], hosts: Mapping[str, t.Any], where: str) -> None:
    """Raises when the machine lives twice, or elsewhere than the spec says, or is requested where nothing is."""
    if len(homes) > 1:
        uuids = [
            m.get("uuid") for host in homes for m in hosts[host].get("machines") or [] if m["name"] == machine.name
        ]
        if is_one_hypervisor([hosts[host].get("name") for host in homes], uuids):
            raise ConflictError(f"{' and '.join(homes)} have it at once, and {LISTED_TWICE}", where=where)
        raise ConflictError(
            f"it is on {' and '.join(homes)} at once",
            where=where,
            hint="Find out which of them is the right one, and rename or purge the other",
        )
    if machine.hypervisor is not None and machine.hypervisor not in hosts:
        raise InputError(
            f"unknown hypervisor {machine.hypervisor!r}", where=where, hint=f"Known: {', '.join(sorted(hosts))}"
        )
    if homes and machine.hypervisor not in (None, homes[0]) and _is_unfinished(machine.name, hosts[homes[0]]):
        raise ConflictError(
            f"a run that has not ended, or was interrupted, is creating it on {homes[0]}, but hypervisor says "
            f"{machine.hypervisor}",
            where=where,
            hint=f"Set hypervisor: {homes[0]} to finish it there; then it can be moved",
        )
    if homes and machine.hypervisor not in (None, homes[0]):
        raise ConflictError(
            f"it is on {homes[0]} already, and hypervisor says {machine.hypervisor}",
            where=where,
            hint=f"To move it, migrate it to {machine.hypervisor}; to leave it, set hypervisor: {homes[0]}",
        )


def check_addresses(machine: Machine, taken: Mapping[str, str]) -> None:
    """Raise InputError for a new machine with the address of a hypervisor, which it would take off the network.

    taken: hypervisors by address.
    """
    for nic in machine.nics:
        for address in nic.addresses:
            host = taken.get(str(ipaddress.ip_interface(address).ip))
            if host is not None:
                raise InputError(
                    f"{address} is the address of hypervisor {host}",
                    where=nic.given.at("addresses"),
                    hint="Give another one",
                )


def _is_unfinished(name: str, facts: Mapping[str, t.Any]) -> bool:
    return any(found["name"] == name and found.get("building") for found in facts.get("machines") or [])


def check_name(machine: Machine, hosts: Mapping[str, t.Any], taken: t.Container[str], where: str) -> None:
    """Raise InputError for a new machine whose name means something else in the inventory."""
    hypervisor = next((host for host in hosts if str(host).casefold() == machine.name.casefold()), None)
    if hypervisor is not None:
        raise InputError(f"{hypervisor} is a hypervisor", where=where, hint="Choose another name for the machine")
    if machine.name in taken:
        raise InputError(
            "another host or a group of the inventory has this name",
            where=where,
            hint="Choose another name, or put that host into the group virt_machines if it is this machine",
        )


def check_whole(machine: Machine, where: str) -> None:
    """Raise InputError for a machine that is there no more, and of which the task does not say enough to create it."""
    missing = [key for key, value in (("vcpus", machine.vcpus), ("memory", machine.memory_mib)) if not value]
    if missing:
        raise InputError(f"{missing[0]} is missing", where=where or None, hint=NEW_MACHINE)


def unseen(
    machine: Machine,
    hosts: t.Container[str],
    silent: Mapping[str, str],
    options: PlacementOptions,
    seen: Sequence[str | None],
) -> tuple[str | None, str] | None:
    """Why a machine that lives on no hypervisor which answered is not to be made now, or None.

    hosts: all hypervisors, silent: those that did not answer. seen: where it lived when the inventory was made, None
    where that had it nowhere, and then where it is known to be by other means. With the reason comes the hypervisor
    that it belongs to, where that is known. Why that one did not answer is not repeated for each machine: silent has
    it.
    """
    home = machine.hypervisor
    if home is not None and home in silent:
        return home, f"it is meant for {home}, {no_answer([home], silent)}"
    if options.places_unseen(machine.name):
        return None
    first = next(iter(seen), None)
    if home is None and first is not None and first in silent:
        return first, f"it is on {first}, as the inventory says, {no_answer([first], silent)}"
    elsewhere = silent_among(seen, silent)
    if elsewhere:
        # Without an entry that names one, it may have gone elsewhere since.
        return elsewhere[0] if home is not None else None, (
            f"{_made_twice(home, elsewhere, no_answer(elsewhere, silent))} {_way_out(machine, elsewhere[0], silent)}"
        )
    left = left_among(seen, hosts)
    if left:
        return None, f"{_made_twice(home, left, not_there(left))} {way_back(machine.name, left[0])}"
    moved = may_have_moved(seen, silent)
    if home is not None and moved:
        return (
            None,
            f"{_made_twice(home, moved, _not_any_more(moved, silent))} {_way_out(machine, min(silent), silent)}",
        )
    if home is not None or not silent:
        return None
    remedy = "Bring that hypervisor back" if any(map(was_asked, silent.values())) else "Run it without --limit"
    return None, (
        f"it may be on {' or '.join(silent)}, {no_answer(silent, silent)}; created on another one, it would exist "
        f"twice, with the same addresses. {remedy}, or name this machine's hypervisor, or place it with "
        f"{unseen_option(machine.name)}"
    )


def _made_twice(home: str | None, seen: Sequence[str], why: str) -> str:
    """A sentence that says why a machine is not made: it was seen elsewhere, and why nothing is known of it there.

    home: the hypervisor that its entry names, which may be older than a move.
    """
    said = f"its entry says {home}, and it" if home is not None else "it"
    return (
        f"{said} was seen on {' and '.join(seen)}, {why}: created on {home or 'another one'} as well, it would exist "
        "twice, with the same addresses."
    )


def started_twice(
    machine: Machine,
    found: str,
    state: t.Any,
    hosts: t.Container[str],
    silent: Mapping[str, str],
    options: PlacementOptions,
    seen: t.Sequence[str | None],
) -> tuple[str, str] | None:
    """Why a machine is not to be started where it is off, or None: it may run where nobody answers, and what is here be
    an old definition of it. A hypervisor that has left the inventory counts only while another one does not answer,
    which may be it under another name: a machine that was off when it was moved away from there is still known there
    unless the file of host keys was brought up to date between the two.

    hosts: all hypervisors. found, state: where it is, and its state there; seen: where it was when the inventory was
    made, or is known to be by other means.
    """
    if options.places_unseen(machine.name) or not machine.start or state not in OFF_STATES:
        return None
    elsewhere = [host for host in silent_among(seen, silent) if host != found]
    left = left_among(seen, hosts)
    if not elsewhere and left and silent:
        return found, (
            f"it is off on {found}, and may run on {' or '.join(left)}, where it was seen before. No hypervisor has "
            f"that name now, and {' and '.join(silent)} may be the same one, {no_answer(silent, silent)}: started here "
            f"as well, it would run twice. {_way_out(machine, min(silent), silent)}"
        )
    if not elsewhere:
        return None
    return found, (
        f"it is off on {found}, and may run on {' or '.join(elsewhere)}, where it was seen before, and "
        f"{no_answer(elsewhere, silent)}: started here as well, it would run twice. "
        f"{_way_out(machine, elsewhere[0], silent)}"
    )


def namesake(found: str, seen: Sequence[str | None], hosts: t.Container[str], silent: Mapping[str, str]) -> str | None:
    """A clause that says where a machine is besides, as far as anybody knows; None where it is found alone.

    found: the hypervisor that has it, of those which answered. seen, hosts, silent: as in unseen; one that has left the
    inventory counts only while another one says nothing, which may be it under another name.
    """
    others = [host for host in silent_among(seen, silent) if host != found]
    if others:
        home = next(iter(seen), None)
        at_reading = f"was on {home} when the inventory was read"
        before = at_reading if others == [home] else f"was seen on {' and '.join(others)} before"
        return f"{before}, {no_answer(others, silent)}"
    left = left_among(seen, hosts)
    if not left or not silent:
        return None
    return (
        f"was seen on {' and '.join(left)} before, {not_there(left)}, and {' or '.join(silent)}, "
        f"{no_answer(silent, silent)}, may be the same one"
    )


def silent_among(seen: t.Iterable[str | None], silent: Mapping[str, str]) -> list[str]:
    """Those of the hypervisors where a machine was seen that did not answer."""
    return [host for host in dict.fromkeys(seen) if host is not None and host in silent]


def _way_out(machine: Machine, host: str, silent: Mapping[str, str]) -> str:
    if not was_asked(silent[host]):
        return f"Run it without --limit, or place it with {unseen_option(machine.name)}"
    return (
        f"Bring {host} back. If it is lost, take it out for good: brine.virt.retire -e from={host} -e lost=true. If "
        f"you know that the machine is not there, place it with {unseen_option(machine.name)}"
    )


def no_answer(hosts: t.Iterable[str], silent: Mapping[str, str]) -> str:
    """A clause that says why nothing is known of these hypervisors. silent: the reasons by hypervisor."""
    reasons = [silent[host] for host in hosts]
    words = ["did not answer"] if any(map(was_asked, reasons)) else []
    words += sorted({reason.removeprefix("it ") for reason in reasons if not was_asked(reason)})
    return f"which {' or '.join(words)}"


def may_have_moved(seen: t.Iterable[str | None], silent: Mapping[str, str]) -> list[str]:
    """Of a machine that no hypervisor has which answered, those of them where it was seen: it may have been moved from
    there to one that did not answer."""
    return [host for host in dict.fromkeys(seen) if host is not None and host not in silent] if silent else []


def _not_any_more(moved: Sequence[str], silent: Mapping[str, str]) -> str:
    has = "does" if len(moved) == 1 else "do"
    return f"which {has} not have it any more, so it may be on {' or '.join(silent)}, {no_answer(silent, silent)}"


def left_among(seen: t.Iterable[str | None], hosts: t.Container[str]) -> list[str]:
    """Those of the hypervisors where a machine was seen that are not among the hypervisors now."""
    return [host for host in dict.fromkeys(seen) if host is not None and host not in hosts]


def not_removed(
    machine: Machine, hosts: t.Container[str], options: PlacementOptions, seen: t.Iterable[str | None]
) -> tuple[None, str] | None:
    """Why it is not known whether a machine that is to be removed is gone, or None: it was seen on a hypervisor that
    nobody asks any more."""
    left = left_among(seen, hosts)
    if options.places_unseen(machine.name) or not left:
        return None
    seen_on = " and ".join(left)
    return None, f"it is to be removed, and was seen on {seen_on}, {not_there(left)}. {way_back(machine.name, left[0])}"


def not_there(left: Sequence[str]) -> str:
    """A clause that says what is known of these hypervisors: nothing."""
    return f"which {'is' if len(left) == 1 else 'are'} not among the hypervisors now"


def way_back(name: str, host: str) -> str:
    """What to do about a machine that was seen on a hypervisor which is not among them now."""
    return (
        "Put that hypervisor back into the inventory. If it never comes back, take it out for good: "
        f"brine.virt.retire -e from={host} -e lost=true. If it has another name now, or you know that the machine is "
        f"not there, add {unseen_option(name)}. If it is another cloud that has a machine of this name there, give "
        "each cloud its own file of host keys: known_hosts of its live inventory, and virt_known_hosts"
    )
