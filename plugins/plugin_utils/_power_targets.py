# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of the cloud a command line means whose power state it changes, and what is wrong with it. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._base.errors import InputError, Mistakes, NotFoundError, one_of_these
from ..module_utils._model.spec.start_order import in_turn
from ._one_home import one_home
from ._placement.hosts import LEFT_OUT_BY, takes_no_part
from ._reports.text import Records, machines_of

REQUESTS = ("running", "stopped", "paused", "rebooted", "reset", "saved", "cycled")
# Of a machine's record, and the one that virt_power tells from shutoff.
STATES = ("running", "paused", "shutoff", "saved", "crashed", "pmsuspended", "blocked", "shutdown", "nostate")
_OFF = ("shutoff", "crashed")
# States that a machine has in virt_vms, and which have nothing to do with its power.
_OTHER_PLAYBOOKS = {
    "present": "The state present belongs to the playbook provision",
    "absent": "The playbook purge removes machines, and so does provision with the state absent",
}
_SELECTORS = ("vm", "tag", "on", "in_state", "all")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ANSWERED = "the hypervisors that answered"
_OPTIONS = (*_SELECTORS, "state", "only_pending", "force", "timeout")


def power_targets(
    results: t.Any,
    given: Mapping[str, t.Any],
    last_seen: Mapping[str, Sequence[str]] | None = None,
    hypervisors: t.Iterable[str] = (),
    *,
    unless_elsewhere: bool = False,
) -> dict[str, t.Any]:
    """By hypervisor the names of the machines to go by, the mistakes, and what is left out although it may be meant.

    Where machines of several hypervisors start or stop in an order, ``targets`` are the last of them, and ``earlier``
    has those that come before, group by group.
    results: registered results of virt_info by the hypervisors' names. given: the variables of the command line by
    their names; what is None was not given, and a machine may be given by its UUID. last_seen: by machine, the
    hypervisors that it is known on by other means; hypervisors: all of the cloud, also those that were not asked.
    unless_elsewhere: machines that are off are left as they are where they may run on one of those, whatever the state
    is called, unless the machine is named with its hypervisor. Raises InputError for what is no such mapping.
    """
    machines, silent = machines_of(results)
    meant = {**given, "state": "running"} if unless_elsewhere else given
    cloud = {*hypervisors, *silent}
    # Who names a hypervisor to start all there says which ones are meant; to do something else with all, does not.
    named = bool(_words(given.get("on")) and (_words(given.get("vm")) or not unless_elsewhere))
    elsewhere = {} if named else _may_run_elsewhere(machines, meant, last_seen or {}, cloud)
    mistakes = Mistakes()
    with mistakes.noted():
        _check_known(given)
    for check in (_check_state, _check_switches, _check_timeout, _check_selected):
        with mistakes.noted():
            check(given)
    asked = _words(given.get("on"))
    unknown = [name for name in asked if name not in results]
    for name in unknown:
        with mistakes.noted():
            if name in cloud:
                raise takes_no_part(name)
            raise NotFoundError(f"there is no hypervisor {name!r}", where="on", hint=one_of_these(name, results))
    scope = {host: records for host, records in machines.items() if not asked or host in asked}
    missing = {host: reason for host, reason in silent.items() if not asked or host in asked}
    # Who is where is not to be said of a hypervisor that there is not.
    names, tags = ([], []) if unknown else (_words(given.get("vm")), _words(given.get("tag")))
    where = " and ".join(asked) if asked and not missing else _ANSWERED
    left_out = [] if asked else sorted(cloud.difference(results))
    others = {**missing, **({", ".join(left_out): f"not asked {LEFT_OUT_BY}"} if left_out else {})}
    twins = {} if names else _defined_twice(machines, scope, tags)
    targets = _names_but(scope, twins, elsewhere)
    held_back = _held_back(scope, elsewhere, tags, unless_elsewhere=unless_elsewhere)
    if names:
        targets = {host: [] for host in scope}
        for name in dict.fromkeys(_name_of(word, scope) for word in names):
            with mistakes.noted():
                home = _home(name, machines, scope, others, where)
                if (home, name) in elsewhere:
                    raise InputError(
                        f"machine {name!r} is off on {home}, and {elsewhere[home, name]}",
                        where="vm",
                        hint=f"Bring that hypervisor back, or add -e on={home} if it is not there any more",
                    )
                targets[home].append(name)
        # Who is named is found, wherever the others are.
        missing, held_back = {}, {}
    else:
        for tag in tags:
            with mistakes.noted():
                _check_tag(tag, scope, others, where)
    groups = [{}] if mistakes.found else _in_turn(targets, machines, str(given.get("state")), tags)
    return {
        "targets": groups[-1],
        "earlier": groups[:-1],
        "errors": [line for error in mistakes.found for line in str(error).splitlines()],
        "left_out": {**missing, **dict(twins.values()), **held_back},
    }


def _may_run_elsewhere(
    machines: Mapping[str, Records],
    given: Mapping[str, t.Any],
    last_seen: Mapping[str, Sequence[str]],
    hypervisors: t.Collection[str],
) -> dict[tuple[str, str], str]:
    """The machines that are off on a hypervisor, were seen on one that says nothing now, and are to be started: why
    they are not, in words, by hypervisor and name. What stands here may be an old definition of one that runs there.

    One that has left the inventory counts only while another one says
    nothing, which may be it under another name: a machine that was off when it was moved away from there is still known
    there unless the file of host keys was brought up to date between the two, and that file may be another account's or
    another cloud's.
    """
    if given.get("state") != "running":
        return {}
    silent = sorted(one for one in hypervisors if one not in machines)
    found = {}
    for host, records in machines.items():
        for record in records:
            name = str(record["name"])
            seen = [one for one in last_seen.get(name, ()) if one not in machines]
            unseen = [one for one in seen if one in hypervisors]
            if not _is_meant(record, _words(given.get("in_state"))):
                continue
            if unseen:
                found[host, name] = (
                    f"may run on {' or '.join(unseen)}, where it was seen before, and which did not answer or was not "
                    "asked (--limit)"
                )
            elif seen and silent:
                found[host, name] = (
                    f"may run on {' or '.join(seen)}, where it was seen before. No hypervisor has that name now, and "
                    f"{' and '.join(silent)}, which may be the same one, did not answer or was not asked (--limit)"
                )
    return found


def _is_meant(record: Mapping[str, t.Any], in_state: Sequence[str]) -> bool:
    """Whether a machine that is off would be started. in_state: the states that are meant, or none for all."""
    if record["state"] not in _OFF:
        return False
    return not in_state or record["state"] in in_state or bool("saved" in in_state and record.get("saved"))


def _held_back(
    scope: Mapping[str, Records],
    elsewhere: Mapping[tuple[str, str], str],
    tags: Sequence[str] = (),
    *,
    unless_elsewhere: bool = False,
) -> dict[str, str]:
    """Who is not started, and why. tags: only machines with one of them are meant, or all. unless_elsewhere: as of
    power_targets."""

    def words(host: str, name: str) -> str:
        why, named = elsewhere[host, name], f"-e vm={name} -e on={host}"
        if unless_elsewhere:
            return f"it was left as it is, as it {why}. If it is the right one there, name it with {named}"
        return (
            f"it was not started, as it {why}. If it is the right one there: brine.virt.power {named} -e state=running"
        )

    return {
        f"{record['name']} on {host}": words(host, str(record["name"]))
        for host, records in scope.items()
        for record in records
        if (host, record["name"]) in elsewhere and (not tags or set(tags) & set(record.get("tags") or ()))
    }


def autostart_targets(
    results: t.Any,
    hypervisors: t.Iterable[str],
    last_seen: Mapping[str, Sequence[str]] | None = None,
    cloud: t.Iterable[str] = (),
) -> dict[str, t.Any]:
    """The machines of these hypervisors that start with them and are off, ``targets`` and ``earlier`` as of
    power_targets; and as ``left_out`` why hypervisors did not answer, and who is defined on several, or may run on one
    that says nothing. What is unfinished or being moved is not meant.

    last_seen, cloud: as last_seen and hypervisors of power_targets.
    """
    machines, silent = machines_of(results)
    elsewhere = _may_run_elsewhere(machines, {"state": "running"}, last_seen or {}, {*cloud, *silent})
    off = {host: [one for one in machines[host] if _is_left_off(one)] for host in hypervisors if host in machines}
    twins = _defined_twice(machines, off, ())
    groups = _in_turn(_names_but(off, twins, elsewhere), machines, "running", ())
    return {
        "targets": groups[-1],
        "earlier": groups[:-1],
        "left_out": {
            **{host: reason for host, reason in silent.items() if host in hypervisors},
            **dict(twins.values()),
            **_held_back(off, elsewhere),
        },
    }


def _names_but(
    scope: Mapping[str, Records], twins: t.Container[str], elsewhere: t.Container[tuple[str, str]]
) -> dict[str, list[str]]:
    """By hypervisor, the names of its machines, without those that nothing is done to."""
    return {
        host: [
            str(record["name"])
            for record in records
            if record.get("uuid") not in twins and (host, record["name"]) not in elsewhere
        ]
        for host, records in scope.items()
    }


def _is_left_off(record: Mapping[str, t.Any]) -> bool:
    off = bool(record.get("autostart")) and record["state"] == "shutoff"
    return off and not record.get("building") and not record.get("moving")


def _in_turn(
    targets: Mapping[str, Sequence[str]], machines: Mapping[str, Records], state: str, tags: Sequence[str]
) -> list[dict[str, list[str]]]:
    """The targets in the groups that are changed one after the other. One task keeps to the order of one hypervisor.

    tags: only machines with one of them are meant, or all. The others are in the last group, where the module looks
    at their tags.
    """
    records = {host: {str(record["name"]): record for record in machines[host]} for host in targets}
    flat = [(host, records[host][name]) for host, names in targets.items() for name in names]
    meant = [target for target in flat if not tags or set(tags) & set(target[1].get("tags") or ())]
    groups = in_turn(meant, state, lambda target: target[1].get("order")) or [[]]
    groups[-1] += [target for target in flat if target not in meant]
    if sum(bool(names) for names in targets.values()) == 1:
        groups = [[target for group in groups for target in group]]
    return [_by_host(group) for group in groups]


def _by_host(group: Sequence[tuple[str, Mapping[str, t.Any]]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for host, record in group:
        names.setdefault(host, []).append(str(record["name"]))
    return names


def _words(value: t.Any) -> list[str]:
    """A list, or a text with commas, as a list of texts."""
    values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [word.strip() for item in values for word in str(item).split(",") if word.strip()]


def _check_known(given: Mapping[str, t.Any]) -> None:
    for name in given:
        if name not in _OPTIONS:
            raise InputError(f"unknown option {name!r}", hint=one_of_these(name, _OPTIONS))


def _check_state(given: Mapping[str, t.Any]) -> None:
    state = given.get("state")
    if not state:
        raise InputError("Say what is to be done with -e state=STATE", hint=f"Known: {', '.join(REQUESTS)}")
    if state not in REQUESTS:
        of_other = _OTHER_PLAYBOOKS.get(str(state))
        hint = f"Known: {', '.join(REQUESTS)}. {of_other}" if of_other else one_of_these(str(state), REQUESTS)
        raise InputError(f"there is no {state!r}", where="state", hint=hint)
    for word in _words(given.get("in_state")):
        if word not in STATES:
            raise InputError(f"there is no {word!r}", where="in_state", hint=one_of_these(word, STATES))


def _check_switches(given: Mapping[str, t.Any]) -> None:
    for name in ("force", "only_pending", "all"):
        _switch(given, name)
    if _switch(given, "only_pending") and given.get("state") != "cycled":
        raise InputError("only -e state=cycled makes pending changes take effect", where="only_pending")


def _switch(given: Mapping[str, t.Any], name: str) -> bool:
    value = given.get(name)
    if value in (None, ""):
        return False
    try:
        return bool(boolean(value))
    except TypeError:
        raise InputError(f"{value!r} is neither true nor false", where=name) from None


def _check_timeout(given: Mapping[str, t.Any]) -> None:
    value = given.get("timeout")
    if value is not None and not str(value).strip().isdecimal():
        raise InputError(f"{value!r} is not a number of seconds", where="timeout")


def _check_selected(given: Mapping[str, t.Any]) -> None:
    """Raise InputError when nothing selects machines; false selects none, and an empty value not all of the others."""
    empty = [name for name in _SELECTORS if given.get(name) is not None and not _words(given[name])]
    if empty:
        raise InputError("it is empty", where=empty[0], hint="Give a value, or leave it out")
    if not any(_words(given.get(name)) for name in _SELECTORS if name != "all") and not _switch(given, "all"):
        raise InputError(
            "No machine is named. Give its name with -e vm=NAME, or -e tag=TAG, -e on=HYPERVISOR, -e in_state=STATE, "
            "or -e all=true"
        )


def _name_of(word: str, scope: Mapping[str, Records]) -> str:
    """The name of the machine that has a word for its UUID, or the word."""
    if not _UUID.fullmatch(word):
        return word
    return next((str(one["name"]) for records in scope.values() for one in records if one.get("uuid") == word), word)


def _home(
    name: str, machines: Mapping[str, Records], scope: Mapping[str, Records], silent: Mapping[str, str], where: str
) -> str:
    """The hypervisor that a machine is on. Raises NotFoundError, or InputError when there are several.

    machines: of all hypervisors; scope: of those that are meant, which messages call where.
    """
    homes = _hosts_with(scope, lambda record: record["name"] == name and not record.get("claimed"))
    # One of which there is only the name is refused there, with the reason.
    homes = homes or _hosts_with(scope, lambda record: record["name"] == name)[:1]
    home = one_home(name, homes)
    if home is None:
        known = {str(record["name"]) for records in scope.values() for record in records}
        elsewhere = _hosts_with(machines, lambda record: record["name"] == name and not record.get("claimed"))
        hint = f"It is on {' and '.join(elsewhere)}" if elsewhere else one_of_these(name, known)
        raise NotFoundError(f"there is no machine {name!r} on {where}", where="vm", hint=_with_silent(hint, silent))
    return home


def _defined_twice(
    machines: Mapping[str, Records], scope: Mapping[str, Records], tags: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """By UUID, who is defined on several hypervisors, and why nothing is done to them: both would run at once.

    One that is being moved is refused where it is, with the reason. tags: only machines with one of them, or all.
    """
    homes: dict[str, list[str]] = {}
    for host, records in machines.items():
        for record in records:
            if record.get("uuid") and not record.get("moving"):
                homes.setdefault(record["uuid"], []).append(host)
    return {
        record["uuid"]: (
            f"{record['name']} on {' and '.join(homes[record['uuid']])}",
            "it is the same machine (UUID), so nothing was done to it. If the inventory has one hypervisor twice, take "
            "out one of its names; else find out which of them is the right one, and undefine the other, or name it "
            "with its hypervisor: -e vm=NAME -e on=HYPERVISOR",
        )
        for records in scope.values()
        for record in records
        if len(homes.get(record.get("uuid", ""), ())) > 1 and (not tags or set(tags) & set(record.get("tags") or ()))
    }


def _check_tag(tag: str, scope: Mapping[str, Records], silent: Mapping[str, str], where: str) -> None:
    known = {str(known) for records in scope.values() for record in records for known in record.get("tags") or ()}
    if tag not in known:
        raise NotFoundError(
            f"no machine has the tag {tag!r} on {where}",
            where="tag",
            hint=_with_silent(one_of_these(tag, known) if known else "No machine there has a tag", silent),
        )


def _with_silent(hint: str, silent: Mapping[str, str]) -> str:
    words = "; ".join(f"{host}: {reason}" for host, reason in silent.items())
    return " ".join([hint if hint.endswith("?") or not silent else f"{hint}.", words]).strip()


def _hosts_with(scope: Mapping[str, Records], wanted: Callable[[Mapping[str, t.Any]], bool]) -> Sequence[str]:
    return [host for host, records in scope.items() if any(wanted(record) for record in records)]
