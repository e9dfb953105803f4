# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisors that a decision is made among: those that answered, with their capacity, and the others."""

from __future__ import annotations

import contextlib
import ipaddress
import typing as t
from collections.abc import Mapping, Sequence

from ...module_utils._base.errors import ConflictError, InputError
from .capacity import NEEDED_FACTS, HostCapacity
from .options import PlacementOptions, host_options
from .shared_storage import SharedStorage

LISTED_TWICE = "look like one hypervisor that the inventory has twice: take out one of these names"
# How the reason begins of one that the user has left out of the run.
NOT_ASKED = "it was not asked"
# What leaves hypervisors out of a run, as messages name it.
LEFT_OUT_BY = "(--limit, virt_hypervisors)"


def was_asked(reason: str) -> bool:
    """Whether a hypervisor of which nothing is known was asked at all."""
    return not reason.startswith(NOT_ASKED)


def takes_no_part(host: str) -> InputError:
    """That the option ``on`` names a hypervisor that is left out of the run."""
    return InputError(f"{host} does not take part in this run {LEFT_OUT_BY}", where="on", hint="Name it there as well")


def reasons_against(silent: Mapping[str, str]) -> dict[str, str]:
    """Why each hypervisor of which nothing is known cannot be chosen."""
    return {host: f"did not answer: {why}" if was_asked(why) else why for host, why in silent.items()}


def is_one_hypervisor(own_names: Sequence[str | None], uuids: Sequence[str | None]) -> bool:
    """Whether hypervisors that all have a machine look like one that the inventory has several times.

    own_names: those that they have for themselves. uuids: of the machine on each of them.
    """
    return len({*own_names}) == len({*uuids}) == 1 and None not in (*own_names, *uuids)


def is_left_over(
    host: str, copy: Mapping[str, t.Any], copies: Mapping[str, Mapping[str, t.Any]], own_names: Mapping[str, str]
) -> bool:
    """Whether a move that was killed has left this one, and the machine is another one of its copies.

    host, copy, copies, own_names: as in is_of_a_move. One of a stopped machine has only defined it on its target; a
    machine that came running, and is off there now, has the newest disks there. virt_migrate ends both, or says what is
    against it.
    """
    move = copy.get("moving") or {}
    only_defined = own_names.get(move.get("target", "")) != host or move.get("running") is False
    return only_defined and is_of_a_move(host, copy, copies, own_names)


def is_of_a_move(
    host: str, copy: Mapping[str, t.Any], copies: Mapping[str, Mapping[str, t.Any]], own_names: Mapping[str, str]
) -> bool:
    """Whether a move that was killed has left this copy and another one, whichever of them is the machine now.

    host: where it is. copies: all that there are, by hypervisor, with name, UUID, ``state`` and ``moving``. own_names:
    hypervisors by the names that they have for themselves. A move of a stopped machine defines it on its target before
    it is undefined; one of a running machine may break off as it arrives, before its source has let go of it.
    """
    move = copy.get("moving") or {}
    source, target = (own_names.get(move.get(end, "")) for end in ("source", "target"))
    if source == target:
        return False
    if host == target and copy.get("state") == "shutoff":
        others = [found for other, found in copies.items() if other == source]
    elif host == source and copy.get("state") in ("shutoff", "paused"):
        others = [found for other, found in copies.items() if other == target and found.get("state") == "running"]
    else:
        others = []
    return any(all(found.get(key) == copy.get(key) for key in ("uuid", "moving")) for found in others)


def listed_twice(hosts: Mapping[str, t.Any]) -> list[str]:
    """A sentence for each hypervisor that looks as if the inventory had it under several names.

    hosts: facts by hypervisor; what is none is passed over. It takes libvirt's UUID of the hypervisor and its name for
    itself: there are boards that have all the same UUID, and cloned hosts that have all the same name.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for host, facts in hosts.items():
        if isinstance(facts, Mapping) and facts.get("uuid") and facts.get("name"):
            names.setdefault((str(facts["uuid"]), str(facts["name"])), []).append(str(host))
    return [f"{' and '.join(sorted(twice))} {LISTED_TWICE}" for twice in names.values() if len(twice) > 1]


def require_listed_once(hosts: t.Any) -> None:
    """Raise ConflictError for a hypervisor whose memory and space would count twice. hosts: as in listed_twice."""
    twice = listed_twice(hosts) if isinstance(hosts, Mapping) else []
    if twice:
        raise ConflictError("; ".join(twice))


def is_whole(facts: t.Any) -> bool:
    """Whether these are facts of a hypervisor with all that a decision needs, and not some subset of them."""
    return (
        isinstance(facts, Mapping)
        and all(key in facts for key in NEEDED_FACTS)
        and "committed_mib" in facts["memory"]
        and "committed" in facts["vcpus"]
    )


def host_addresses(hosts: t.Iterable[str], settings: Mapping[str, t.Any] | None) -> dict[str, str]:
    """The hypervisors whose address stands in the inventory (``ansible_host``), by that."""
    found = {}
    for host in hosts:
        given = settings[host].get("ansible_host") if settings is not None and host in settings else None
        with contextlib.suppress(ValueError):
            found[str(ipaddress.ip_address(str(given if given is not None else host)))] = str(host)
    return found


def read_hosts(
    hosts: t.Any, settings: t.Any, options: PlacementOptions
) -> tuple[dict[str, HostCapacity], dict[str, str]]:
    """The hypervisors that answered, in the order of their names, and the others with the reason.

    hosts: facts by hypervisor, or the sentence that says why one did not answer. settings: their inventory variables by
    hypervisor, or None. Raises InputError.
    """
    if not isinstance(hosts, Mapping):
        raise InputError(f"{hosts!r} is not a mapping of hypervisors", where="hosts", hint="Give NAME: FACTS for each")
    if not hosts:
        raise InputError("there is no hypervisor", where="hosts", hint="Put at least one into the inventory")
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(f"{settings!r} is not a mapping of hypervisors", where="settings", hint="Give hostvars")
    capacities, silent = {}, {}
    shared = SharedStorage(facts for facts in hosts.values() if is_whole(facts))
    for host in sorted(hosts):
        facts = hosts[host]
        if isinstance(facts, str):
            silent[str(host)] = facts or "it did not answer"
        elif is_whole(facts):
            variables = settings[host] if settings is not None and host in settings else {}
            capacities[str(host)] = HostCapacity(facts, options, host_options(variables, options, str(host)), shared)
        else:
            raise InputError(
                "this is neither the facts of a hypervisor nor a sentence that says why it did not answer",
                where=f"hosts[{str(host)!r}]",
                hint="Give what virt_host_info returned as host, with machines and pools in its gather_subset",
            )
    return capacities, silent
