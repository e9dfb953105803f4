# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisor that a machine, or one disk, is restored on: among those that see the backup, the one that placement
would choose."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..module_utils._base.errors import ConflictError, InputError, single_line, visible
from ._placement.choice import choose, notes_on
from ._placement.homes import left_among, not_there, way_back
from ._placement.hosts import read_hosts
from ._placement.need import need_of_record
from ._placement.options import PlacementOptions

Results = Mapping[str, t.Any]
# What the playbook calls options of virt_restore.
_OPTIONS = {"machine": "vm", "name": "new_name"}


def restore_target(
    shown: Results,
    hosts: Results,
    machines: Results,
    options: PlacementOptions,
    *,
    name: str,
    disk: str | None = None,
    backup: str | None = None,
    settings: t.Any = None,
) -> dict[str, t.Any]:
    """``target``, ``why``, ``refused`` (the reasons against each other hypervisor) and a ``text``, in plain data.

    By the names of the hypervisors, registered results: shown of virt_restore in check mode, hosts of virt_host_info,
    machines of virt_info. name: of the machine that is made, or whose disk it is. disk: the only one that is restored.
    backup: the id of the one that the user named, None for the newest. settings: as of read_hosts.

    Where there is a machine of this name, that is the place: it is replaced there, or what an interrupted run has left
    of it, or virt_restore refuses it. Raises ConflictError, InputError.
    """
    what = f"disk {disk} of {name}" if disk else name
    if not all(isinstance(results, Mapping) for results in (shown, hosts, machines)):
        raise InputError(
            "the input is not a mapping", hint="Give the registered results of the modules, by the hypervisors' names"
        )
    home = next((host for host, result in machines.items() if name in _names(result)), None)
    seen = {host: str(result["backup"]) for host, result in shown.items() if _looked(result) and result["backup"]}
    if home is not None and seen and home not in seen and _looked(shown.get(home)):
        # Such as after a move, of backups in a directory of one host.
        newest = max(seen.values())
        on = " and ".join(sorted(host for host, one in seen.items() if one == newest))
        raise ConflictError(
            f"{name} is on {home}, which sees no backup of it; the newest, {newest}, is on {on}",
            hint=f"Bring that directory to {home}, or move the machine to where its backups are, and run it again",
        )
    if home is not None:
        return _answer(what, home, f"{name} is there", {host: f"{name} is on {home}" for host in shown if host != home})
    if not seen:
        raise ConflictError(f"no hypervisor sees a backup of {what}: {_listed(shown)}")
    # By its time, with which an id begins.
    newest = max(seen.values())
    unknown = {host: result for host, result in shown.items() if not _looked(result)}
    if unknown and backup is None:
        raise ConflictError(
            f"there may be a newer backup than {newest} on {_listed(unknown)}",
            hint=f"Name the hypervisor with on, or the backup with backup={newest}",
        )
    refused = {host: _reason(result) for host, result in shown.items() if host not in seen}
    refused.update({host: f"has only the older backup {one}" for host, one in seen.items() if one != newest})
    able = {}
    for host, one in seen.items():
        if one == newest and "needs" in shown[host]:
            able[host] = shown[host]["needs"]
        elif one == newest:
            refused[host] = _reason(shown[host])
    known = {host: _facts(hosts.get(host)) for host in able}
    capacities, silent = read_hosts(known, settings, options) if known else ({}, {})
    refused.update(silent)
    if not capacities:
        raise _nowhere(what, newest, refused)
    first = min(capacities)
    need = need_of_record({**able[first], "name": name}, [])
    choice = choose(need, capacities, list(capacities), options)
    refused.update(choice.refused)
    if choice.host is None:
        raise _nowhere(what, newest, refused, choice.hint)
    why = choice.why
    if len([one for one in seen.values() if one == newest]) == 1:
        alone = f"no other hypervisor sees the backup {newest}"
        why = "; ".join([alone, *notes_on(need, capacities[choice.host])])
    return _answer(what, choice.host, why, refused)


def seen_elsewhere(
    results: Results, target: str, name: str | None, last_seen: Mapping[str, t.Sequence[str]], options: PlacementOptions
) -> list[str]:
    """Why a machine is not to be restored, one sentence or none: it was seen on a hypervisor that nobody asks any more.

    results: of virt_info, by the names of all hypervisors; target: the one that it is restored on, where it may be;
    name: of the restored machine, None for a single disk; last_seen: by machine, the hypervisors that it is known on.
    """
    if name is None or options.places_unseen(name) or name in _names(results.get(target)):
        return []
    left = left_among(last_seen.get(name, ()), results)
    if not left:
        return []
    seen = f"{name} was seen on {' and '.join(left)}, {not_there(left)}, and may run there"
    return [f"{seen}: restored on {target}, it would exist twice. {way_back(name, left[0])}."]


def _answer(what: str, target: str, why: str, refused: Mapping[str, str]) -> dict[str, t.Any]:
    return {
        "target": target,
        "why": why,
        "refused": dict(sorted(refused.items())),
        "text": visible(f"{what} goes to {target}: {why}"),
    }


def _nowhere(what: str, backup: str, refused: Mapping[str, str], hint: str | None = None) -> ConflictError:
    listed = "; ".join(f"{host}: {refused[host]}" for host in sorted(refused))
    return ConflictError(f"{what} cannot be restored from {backup} on any hypervisor: {listed}", hint=hint)


def _looked(result: t.Any) -> bool:
    """Whether this hypervisor has said which backup it sees, or that it sees none."""
    return isinstance(result, Mapping) and "backup" in result


def _names(result: t.Any) -> set[str]:
    found = result.get("machines") if isinstance(result, Mapping) else None
    return {str(machine["name"]) for machine in found or ()}


def _facts(result: t.Any) -> t.Any:
    """As read_hosts takes them."""
    if isinstance(result, Mapping) and "host" in result:
        return result["host"]
    return f"did not answer: {_reason(result)}"


def _reason(result: t.Any) -> str:
    words = single_line((result.get("msg") if isinstance(result, Mapping) else None) or "it does not answer")
    option, colon, rest = words.partition(": ")
    return f"{_OPTIONS[option]}{colon}{rest}" if option in _OPTIONS else words


def _listed(results: Results) -> str:
    """Who says what: those that say the same stand together."""
    by_reason: dict[str, list[str]] = {}
    for host, result in sorted(results.items()):
        by_reason.setdefault(_reason(result), []).append(host)
    return "; ".join(f"{', '.join(hosts)}: {reason}" for reason, hosts in by_reason.items())
