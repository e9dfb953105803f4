# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of which hypervisor are removed or adopted, from what virt_purge and virt_adopt say in check mode;
and the text of it. Pure."""

from __future__ import annotations

import difflib
import typing as t
from collections.abc import Container, Mapping, Sequence

from ...module_utils._base.errors import InputError, Mistakes, one_of_these
from ...module_utils._operations.purge.refusal import ACTIVE, FOREIGN, SAVED, UNABLE
from .._one_home import one_home
from .._placement.homes import namesake
from .._placement.hosts import LEFT_OUT_BY, NOT_ASKED, takes_no_part
from .table import printable_line
from .text import split_answers

MODULE, PURGE, PROVISION = "module", "purge", "provision"
# What to do about each obstacle, for who cannot set an option of virt_purge.
_COMMAND_LINE = {
    ACTIVE: "Add -e stop=true to have it shut down first, or -e force=true, which powers it off at once",
    UNABLE: "Add -e force=true to have it powered off",
    SAVED: "Start it and shut it down first (brine.virt.power), or add -e force=true, which drops the saved state",
}
_HINTS: dict[str, dict[str, str]] = {
    MODULE: {},
    PURGE: {
        **_COMMAND_LINE,
        FOREIGN: "With -e adopt=true it is. Its disks are kept, except those that -e disks=DISK names",
    },
    PROVISION: {
        **_COMMAND_LINE,
        FOREIGN: "Remove it with the playbook purge (-e vm={name} -e adopt=true), or adopt it first with the playbook "
        "adopt (-e vm={name})",
    },
}
HINTS = tuple(_HINTS)
# Why those of which nothing is known that this run leaves out.
_LEFT_OUT = f"{NOT_ASKED} {LEFT_OUT_BY}"
_Found = Mapping[str, Mapping[str, t.Any]]


def choose_purges(
    results: t.Any,
    names: Sequence[str],
    on: str | None = None,
    *,
    hints: str = MODULE,
    homes: Mapping[str, str] | None = None,
    unasked: Sequence[str] = (),
    last_seen: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, t.Any]:
    """What goes where, as the filter brine.virt.purges returns it.

    results: registered results of virt_purge in check mode by the hypervisors' names. on: the one that is meant where
    several have a machine of a name. hints: one of HINTS, whose options are named where one allows what was refused.
    homes: where machines were when the inventory was read. unasked: hypervisors that this run leaves out.
    last_seen: by machine, the hypervisors that it is known on by other means. Raises InputError with a line for each
    machine that cannot be removed.
    """
    if hints not in _HINTS:
        raise InputError(f"there is no {hints!r}", where="hints", hint=one_of_these(hints, HINTS))
    answered, silent = _find_answers(results, on, unasked)
    by_hypervisor: dict[str, list[str]] = {}
    shared: dict[str, list[t.Any]] = {}
    lines: list[str] = []
    machines: list[dict[str, t.Any]] = []
    absent: list[str] = []
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes.noted():
            hypervisor = _find_home(name, answered, silent)
            if hypervisor is None:
                absent.append(name)
                lines.append(_absent(name, answered, unasked))
                lines += _elsewhere(name, (last_seen or {}).get(name, ()), results, unasked)
                continue
            if on is None:
                seen = [(homes or {}).get(name), *(last_seen or {}).get(name, ())]
                _require_only_one(name, hypervisor, seen, results, {**silent, **dict.fromkeys(unasked, _LEFT_OUT)})
            result = answered[hypervisor][name]
            if result.get("failed"):
                raise InputError(f"{hypervisor}: {_refusal(result, hints)}")
            by_hypervisor.setdefault(hypervisor, []).append(name)
            if result.get("shared"):
                shared.setdefault(hypervisor, []).extend(result["shared"])
            kept = {key: result.get(key) for key in ("name", "state", "power", "volumes")}
            machines.append({**kept, "hypervisor": hypervisor})
            lines += _lines(result, hypervisor)
    mistakes.conclude()
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in silent.items()]
    return {
        "by_hypervisor": by_hypervisor,
        "shared": shared,
        "machines": machines,
        "absent": absent,
        "silent": silent,
        "text": "\n".join(map(printable_line, lines)),
    }


def _require_only_one(
    name: str, found: str, seen: Sequence[str | None], asked: Container[str], silent: Mapping[str, str]
) -> None:
    """Raise InputError for a machine that was seen before on a hypervisor which says nothing now, or was not asked."""
    hosts = {host for host in seen if host is not None and (host in asked or host in silent)}
    other = namesake(found, seen, hosts, silent)
    if other is not None:
        raise InputError(
            f"machine {name!r} is on {found}, but {other}: there may be two of this name",
            where="vm",
            hint=f"Add -e on={found} if that one is to go",
        )


def _absent(name: str, answered: Mapping[str, _Found], unasked: Sequence[str]) -> str:
    """That a machine is nowhere, and why that may be."""
    similar = {other for found in answered.values() for other in found.get(name, {}).get("similar") or []}
    line = f"{name}: there is no such machine on {', '.join(answered)}"
    if similar:
        line += f". Did you mean {difflib.get_close_matches(name, sorted(similar), n=1, cutoff=0)[0]}?"
    # A question has its end already.
    return line + _not_asked(unasked).lstrip("." if similar else "")


def _not_asked(unasked: Sequence[str]) -> str:
    """The end of a sentence, and which hypervisors this run leaves out."""
    were = "was" if len(unasked) == 1 else "were"
    return f". {', '.join(unasked)} {were} not asked {LEFT_OUT_BY}" if unasked else ""


def _elsewhere(name: str, seen: Sequence[str], asked: Container[str], unasked: Container[str]) -> list[str]:
    """That a machine which is nowhere may be on a hypervisor that this run or the inventory has left out."""
    hosts = [host for host in seen if host not in asked]
    gone = [host for host in hosts if host not in unasked]
    out = [host for host in hosts if host in unasked]
    here = "not among the hypervisors now"
    return [
        f"{name} was seen on {' and '.join(found)}, which {one if len(found) == 1 else several}, and may be there still"
        for found, one, several in ((gone, f"is {here}", f"are {here}"), (out, "was not asked", "were not asked"))
        if found
    ]


def _refusal(result: Mapping[str, t.Any], hints: str) -> str:
    """Why a machine is not removed, and what to do there."""
    hint = _HINTS[hints].get(str(result.get("obstacle")))
    if hint is None:
        return str(result.get("msg", "no reason given"))
    return f"{result.get('reason')}. {hint.format(name=result['name'])}"


def _lines(result: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """A machine that goes, and its volumes, a line each."""
    lines = [f"{result['name']} on {hypervisor} ({result.get('state')}):"]
    if result.get("power"):
        lines.append(f"  {result['power']}")
    for volume in result.get("volumes") or []:
        place = "/".join(filter(None, [volume.get("pool"), volume.get("volume")]))
        lines.append(f"  {volume.get('action')} {place}: {volume.get('reason')}")
    snapshots = result.get("snapshots") or []
    with_them = f", with snapshot{'' if len(snapshots) == 1 else 's'} {', '.join(snapshots)}" if snapshots else ""
    return [*lines, f"  delete the machine itself{with_them}"]


def _find_answers(
    results: t.Any, on: str | None = None, unasked: Sequence[str] = ()
) -> tuple[dict[str, _Found], dict[str, str]]:
    """The machines that hypervisors spoke of, by their names; and why others said nothing.

    results: registered results of a module that was asked for machines by name, by the hypervisors' names. on: the only
    hypervisor that is meant. unasked: those that this run leaves out. Raises InputError for what is no mapping, for a
    hypervisor that there is not, and for one that was left out.
    """
    heard = results
    if isinstance(results, Mapping):
        heard = {hypervisor: _heard(result) for hypervisor, result in results.items()}
    answered, silent = split_answers(heard, "machines")
    found: dict[str, _Found] = {
        host: {machine["name"]: machine for machine in machines} for host, machines in answered.items()
    }
    if on is None:
        return found, silent
    if on in unasked:
        raise takes_no_part(on)
    if on not in results:
        raise InputError(f"there is no hypervisor {on!r}", where="on", hint=f"Known: {', '.join(results)}")
    return (
        {hypervisor: machines for hypervisor, machines in found.items() if hypervisor == on},
        {hypervisor: reason for hypervisor, reason in silent.items() if hypervisor == on},
    )


def _heard(result: t.Any) -> dict[str, t.Any]:
    """One that has failed because of a machine has answered all the same; one that says nothing has not."""
    known = dict(result) if isinstance(result, Mapping) else {}
    if known.get("machines") is not None:
        return {"machines": known["machines"]}
    return {"msg": "no reason given", **known}


def _find_home(name: str, answered: Mapping[str, _Found], silent: Mapping[str, str]) -> str | None:
    """The hypervisor that has a machine of this name; None when none has it. Raises InputError where that is open."""
    home = one_home(name, [host for host, found in answered.items() if name in found and found[name].get("present")])
    if home is None and silent:
        reasons = "; ".join(f"{hypervisor}: {reason}" for hypervisor, reason in silent.items())
        where = f" on the hypervisors that answered ({', '.join(answered)})" if answered else ""
        raise InputError(f"machine {name!r} was not found{where}. {reasons}")
    return home


def choose_adoptions(
    results: t.Any, names: Sequence[str], on: str | None = None, *, unasked: Sequence[str] = ()
) -> dict[str, t.Any]:
    """What is adopted where, as the filter brine.virt.adoptions returns it.

    results: registered results of virt_adopt in check mode by the hypervisors' names. on: the one that is meant where
    several have a machine of a name. unasked: hypervisors that this run leaves out. Raises InputError with a line for
    each machine that cannot be adopted.
    """
    answered, silent = _find_answers(results, on, unasked)
    by_hypervisor: dict[str, list[str]] = {}
    lines: list[str] = []
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes.noted():
            hypervisor = _find_home(name, answered, silent)
            if hypervisor is None:
                raise InputError(
                    f"there is no machine {name!r} on {', '.join(answered)}{_not_asked(unasked)}", where="vm"
                )
            result = answered[hypervisor][name]
            if result.get("failed"):
                raise InputError(f"{hypervisor}: {result.get('msg', 'no reason given')}")
            if result.get("changed"):
                by_hypervisor.setdefault(hypervisor, []).append(name)
            lines += _adopted_lines(result, hypervisor)
    mistakes.conclude()
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in silent.items()]
    return {"by_hypervisor": by_hypervisor, "text": "\n".join(map(printable_line, lines))}


def _adopted_lines(result: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """A machine that is adopted, and its disks and nics, a line each."""
    what = "is adopted" if result.get("changed") else "belongs to this collection already"
    lines = [f"{result['name']} on {hypervisor} ({result.get('state')}) {what}:"]
    for disk in result.get("disks") or []:
        place = "/".join(filter(None, [disk.get("pool"), disk.get("volume")]))
        own = "its own" if disk.get("own") else "not its own"
        lines.append(f"  disk {disk.get('name') or disk.get('target')}, {place}: {own}, as {disk.get('reason')}")
    lines += [f"  nic {nic.get('name')}, {nic.get('mac')}" for nic in result.get("nics") or []]
    return lines + [f"  {remark}" for remark in result.get("remarks") or []]
