# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_init did, or would do, and a whole run of the role virt_provision, as a table. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ...module_utils._base.errors import InputError
from .table import Column, table_lines
from .text import POWER_CYCLE

_COLUMNS = (
    Column("MACHINE"),
    Column("ON"),
    Column("RESULT"),
    Column("ADDRESS"),
    Column("SECONDS", right=True),
    Column("WHAT"),
)
# Every change is noted in the machine's own metadata, which is of no interest to people unless it is all that changed.
_NOTES = ("write the metadata of ", "record the new disks of ")
# A machine of which there is only what a check has announced, or not even that: its hypervisor fell out before.
_NOT_DONE, _FELL_OUT = "not done", "an earlier task has failed there, see above"
# So many machines are named that stay as they were created; after a new version of an image it may be all.
_MOST_NAMED = 10
# What check mode only announces.
_DONE = frozenset({"created", "changed", "removed"})
Result = Mapping[str, t.Any]
# The cells of _COLUMNS.
Row = tuple[str, t.Any, str, t.Any, t.Any, str]
# A machine in another state has no address that anything could answer at, even if its seed gave it one.
_UP = frozenset({"running", "blocked"})


def changes_text(
    made: t.Any,
    plan: t.Any = None,
    waited: t.Any = None,
    removed: t.Any = None,
    silent: t.Any = None,
    check: bool = False,
) -> str:
    """A row for each machine that is not as it was, or is to be; the others are counted, and those of them named that
    were created from something else than is asked for now.

    made, waited, removed: registered results of virt_init, virt_wait and virt_purge by the hypervisors' names; one that
    has no machines, because its task was skipped, says nothing. plan: as brine.virt.place returned it. silent: by
    hypervisor and name, why a machine does not answer. check: whether these are results of check mode. Raises
    InputError for what is no such mapping.
    """
    for what, given in (("input", made), ("plan", plan), ("waited", waited), ("removed", removed), ("silent", silent)):
        if not isinstance(given, Mapping) and (given is not None or what == "input"):
            raise InputError(
                f"the {what} is not a mapping", hint="Give the registered results, by the hypervisors' names"
            )
    late = {(host, one["name"]): one for host, one in _machines(waited or {})}
    machines = [
        *(_removed(host, one) for host, one in _machines(removed or {})),
        *(
            _fallen_out(host, one["name"])
            if made[host].get("checked") and not check and one.get("changed")
            else _made(host, one, late.get((host, one["name"])), (silent or {}).get(host, {}).get(one["name"]))
            for host, one in _machines(made)
        ),
        *(_fallen_out(host, name) for host, name in _without_result(made, plan or {})),
        *(_left_out(one) for one in (plan or {}).get("refused_machines") or ()),
    ]
    shown = [one for one in machines if one[2] != "unchanged" or one[-1]]
    if check:
        shown = [(*one[:2], f"to be {one[2]}" if one[2] in _DONE else one[2], *one[3:]) for one in shown]
    still = len(machines) - len(shown)
    in_rows = {one[:2] for one in shown}
    quiet = [one for host, one in _machines(made) if (one["name"], host) not in in_rows]
    return "\n".join([*table_lines(_COLUMNS, shown), *_count(still, others=bool(shown)), *_as_created(quiet)])


def _machines(results: Mapping[str, t.Any]) -> Iterator[tuple[str, Result]]:
    for host, result in results.items():
        for machine in (result.get("machines") if isinstance(result, Mapping) else None) or ():
            yield host, machine


def _made(host: str, one: Result, wait: Result | None, silent: str | None) -> Row:
    result = "created" if one.get("created") else "changed" if one.get("changed") else "unchanged"
    said = _actions(one.get("actions") or []) if result == "changed" else ""
    seconds = one.get("seconds") or 0
    if wait is not None:
        seconds += wait.get("waited_seconds") or 0
        if not wait.get("ready"):
            result, said = "not reachable", "; ".join(filter(None, [said or result, wait.get("seen")]))
    if silent is not None:
        result, said = "not reachable", "; ".join(filter(None, [said or result, silent]))
    if one.get("failed"):
        result, said = "failed", str(one.get("msg"))
    pending, outdated = one.get("pending") or [], one.get("outdated") or []
    words = [
        said,
        f"pending until {POWER_CYCLE}: {', '.join(pending)}" if pending else "",
        # It stays so from run to run: without anything else to say it is no row of its own.
        f"stays as it was created: {', '.join(map(_outdated, outdated))}" if outdated and (said or pending) else "",
    ]
    return (one["name"], host, result, _address(one, wait), _time(seconds), "; ".join(filter(None, words)))


def _address(one: Result, wait: Result | None) -> str | None:
    """Where the machine was seen at last; a new one gets its address only after virt_init has looked at it."""
    record = one.get("machine") or {}
    known = record.get("address") if record.get("state") in _UP else None
    return (wait or {}).get("address") or known


def _without_result(made: Mapping[str, t.Any], plan: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    """The machines of which a hypervisor was to make or change some, and said nothing."""
    for host, names in (plan.get("by_host") or {}).items():
        result = made.get(host)
        if host in made and not (isinstance(result, Mapping) and result.get("machines") is not None):
            yield from ((host, str(name)) for name in names)


def _fallen_out(host: str, name: str) -> Row:
    return (name, host, _NOT_DONE, None, None, _FELL_OUT)


def _removed(host: str, one: Result) -> Row:
    if one.get("failed"):
        return (one["name"], host, "not removed", None, None, str(one.get("msg")))
    return (one["name"], host, "removed" if one.get("changed") else "unchanged", None, None, "")


def _left_out(one: Result) -> Row:
    return (one["name"], one.get("hypervisor"), "left out", None, None, one.get("why") or "")


def _actions(actions: Sequence[str]) -> str:
    return "; ".join([action for action in actions if not action.startswith(_NOTES)] or actions)


def _outdated(what: str) -> str:
    return "seed (seed_policy: refresh gives it the new one)" if what == "seed" else what


def _time(seconds: float) -> str | None:
    """In check mode it takes none."""
    return f"{seconds:.1f}" if seconds else None


def _count(still: int, *, others: bool) -> list[str]:
    if not still:
        return []
    machines = f"{still} {'other ' if others else ''}machine{'' if still == 1 else 's'}"
    return [f"{machines} {'is' if still == 1 else 'are'} already up to date."]


def _as_created(quiet: Sequence[Result]) -> list[str]:
    """The machines without a row of which the image, for one, is another than is asked for."""
    named = [f"{one['name']} ({', '.join(one['outdated'])})" for one in quiet if one.get("outdated")]
    if not named:
        return []
    more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
    return [f"Still as created, not as asked for now: {', '.join([*named[:_MOST_NAMED], *more])}."]
