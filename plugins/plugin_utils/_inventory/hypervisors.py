# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many hypervisors asked at once, from the controller."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
import shutil
import tempfile
import time
import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from ...module_utils._base.errors import InputError, UnreachableError, VirtError
from ...module_utils._host.connection import map_in_threads, open_connection, run_in_time
from ...module_utils._host.machines.listing import observe_machines
from ...module_utils._model.spec.fields import validators
from .host_vars import FACTS, is_unread, needed_of

TRANSPORTS = ("ssh", "tls", "local")
# What libvirt's remote command prints on a host where it finds no libvirt: it calls virt-ssh-helper, or else nc
# (https://libvirt.org/uri.html#proxy-parameter). No code tells this from other errors of the connection.
_NO_NETCAT = re.compile(r"\bnc: (command )?not found")
_NO_SOCKET = re.compile(r"(\bnc: unix connect failed|libvirt-sock\S*): No such file or directory")
# Of a hypervisor's time limit, the part that its single machines may take: what is slow must not hide what is there.
_MACHINES_SHARE = 0.8
# Machines that are asked at once on all hypervisors together, and at least on each: beyond that, threads only wait for
# Python's own lock, which costs more than the line saves.
_ALL_THREADS, _FEWEST_THREADS = 64, 4


@dataclass(frozen=True)
class SshSettings:
    """How Ansible itself would call ssh for this hypervisor; arguments come first, then options of ours."""

    executable: str = "ssh"
    arguments: tuple[str, ...] = ()
    private_key_file: str | None = None
    host_key_checking: bool = True


@dataclass(frozen=True)
class InventoryHypervisor:
    """One hypervisor to ask: uri is libvirt's, without anything of this run in it."""

    name: str
    uri: str
    ssh: SshSettings | None = None


_ENTRY_RULES: dict[str, validators.Rule] = {
    "name": validators.name,
    "uri": validators.text,
    "transport": validators.choice(*TRANSPORTS),
}


@dataclass(frozen=True)
class HypervisorEntry:
    """An item of the option ``hypervisors``: uri and transport may be left to the inventory and the defaults."""

    name: str
    uri: str | None = None
    transport: str | None = None


def read_entries(value: t.Any) -> list[HypervisorEntry]:
    """The option ``hypervisors``: names, URIs, or mappings of both. Raises InputError with the place."""
    if not isinstance(value, (list, tuple)):
        raise InputError(
            f"{value!r} is not a list", where="hypervisors", hint="Give names, or mappings of name and uri"
        )
    entries: list[HypervisorEntry] = []
    for index, item in enumerate(value):
        where = f"hypervisors[{index}]"
        entry = _read_entry(item, where)
        if any(entry.name == other.name for other in entries):
            raise InputError(f"{entry.name} is given twice", where=where, hint="Give each hypervisor its own name")
        entries.append(entry)
    return entries


def with_group(
    entries: Sequence[HypervisorEntry], group_name: str | None, hosts: Sequence[str] | None
) -> list[HypervisorEntry]:
    """The entries, and the hosts of the option ``hypervisor_group`` that they do not name.

    hosts: None where the inventory has no such group. Raises VirtError for that, or where nothing is named at all.
    """
    if group_name:
        if hosts is None:
            raise VirtError(
                f"there is no group {group_name!r} in the inventory parsed before this file",
                where="hypervisor_group",
                hint="Name its inventory first: -i hosts.yml -i cloud.virt.yml",
            )
        listed = {entry.name for entry in entries}
        return [*entries, *(HypervisorEntry(name) for name in hosts if name not in listed)]
    if not entries:
        raise VirtError(
            "no hypervisors are named",
            hint="Set hypervisors to a list of them, or hypervisor_group to a group of the inventory",
        )
    return list(entries)


def _read_entry(item: t.Any, where: str) -> HypervisorEntry:
    if isinstance(item, str) and "://" in item:
        return HypervisorEntry(validators.name(urlsplit(item).hostname or "localhost", where), item)
    if isinstance(item, str):
        return HypervisorEntry(validators.name(item, where))
    clean = validators.read_mapping(item, where, _ENTRY_RULES)
    if "name" not in clean:
        raise InputError("name is missing", where=where, hint="Add the hypervisor's name")
    return HypervisorEntry(clean["name"], clean.get("uri"), clean.get("transport"))


def wrapper_script(ssh: SshSettings, timeout_seconds: float) -> str:
    """A program to stand for ssh in libvirt: what Ansible would say to ssh, nothing that could ask a person."""
    options = [
        "BatchMode=yes",
        # Of a master connection of Ansible's it may be a guest, but it must not leave one behind.
        "ControlMaster=no",
        *([] if ssh.host_key_checking else ["StrictHostKeyChecking=no"]),
        *([f"IdentityFile={ssh.private_key_file}"] if ssh.private_key_file else []),
    ]
    command = [ssh.executable]
    for option in options:
        command += ["-o", option]
    # ssh takes the first value it sees: a ConnectTimeout of the user's wins over ours.
    command += [*ssh.arguments, "-o", f"ConnectTimeout={max(1, int(timeout_seconds))}"]
    return f'#!/bin/sh\nexec {" ".join(shlex.quote(word) for word in command)} "$@"\n'


@contextlib.contextmanager
def _ssh_wrappers(
    hypervisors: Sequence[InventoryHypervisor], timeout_seconds: float, tmpdir: str | None
) -> t.Iterator[dict[str, str]]:
    """URIs to open, by name of the hypervisor; those by ssh go through a wrapper of their own."""
    directory = tempfile.mkdtemp(prefix="brine-virt-", dir=tmpdir)  # 0700
    try:
        uris = {}
        for number, hypervisor in enumerate(hypervisors):
            uris[hypervisor.name] = hypervisor.uri
            if hypervisor.ssh is not None:
                path = os.path.join(directory, str(number))
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w", encoding="utf-8") as file:
                    file.write(wrapper_script(hypervisor.ssh, timeout_seconds))
                joint = "&" if urlsplit(hypervisor.uri).query else "?"
                uris[hypervisor.name] += joint + urlencode({"command": path, "no_tty": 1}, quote_via=quote)
        yield uris
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def ask_hypervisors(
    hypervisors: Sequence[InventoryHypervisor],
    *,
    concurrency: int,
    timeout_seconds: float,
    tmpdir: str | None = None,
    facts: Collection[str] = tuple(FACTS),
) -> list[dict[str, t.Any]]:
    """The machines of every hypervisor, as plain data, in the order given.

    Each answer has ``hypervisor``, ``uri``, ``machines`` (of each record what needed_of() leaves, or null when it did
    not answer), ``error`` (why not) and ``at`` (the time). concurrency: how many are asked at once. timeout_seconds:
    for one hypervisor's whole answer. tmpdir: where the short-lived directory for ssh is made. facts: what is asked
    for. Never raises for a hypervisor.
    """
    side_by_side = max(1, min(concurrency, len(hypervisors)))
    threads = max(_FEWEST_THREADS, _ALL_THREADS // side_by_side)
    with _ssh_wrappers(hypervisors, timeout_seconds, tmpdir) as uris:

        def ask_in_time(hypervisor: InventoryHypervisor) -> list[dict[str, t.Any]]:
            # A thread of its own: this one must come back when the time is up, whatever libvirt does.
            return run_in_time(
                lambda: _ask(uris[hypervisor.name], hypervisor, timeout_seconds, facts, threads), timeout_seconds
            )

        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        outcomes = map_in_threads(ask_in_time, hypervisors, threads=concurrency)
        return [
            {
                "hypervisor": one.name,
                "uri": one.uri,
                "machines": outcome.value,
                "error": None if outcome.error is None else str(outcome.error),
                "at": now,
            }
            for one, outcome in zip(hypervisors, outcomes, strict=True)
        ]


def _ask(
    uri: str, hypervisor: InventoryHypervisor, timeout_seconds: float, facts: Collection[str], threads: int
) -> list[dict[str, t.Any]]:
    started = time.monotonic()
    try:
        # The caller has a limit for the whole answer, and the controller forks: it is to have no thread of libvirt's.
        with open_connection(uri, timeout_seconds=timeout_seconds, keepalive=False) as conn:
            left = timeout_seconds - (time.monotonic() - started)
            records = observe_machines(
                conn,
                addresses="address" in facts,
                sizes="disks" in facts,
                threads=threads,
                timeout_seconds=max(0.1, left) * _MACHINES_SHARE,
            )
        return [needed_of(record, facts) for record in records]
    except VirtError as exc:
        if hypervisor.ssh is not None:
            _explain_missing_libvirt(exc)
        # The user knows the hypervisor's own URI, not that of this run's wrapper.
        raise type(exc)(exc.what.replace(uri, hypervisor.uri), where=exc.where, hint=exc.hint) from exc
    except Exception as exc:  # not even a fault of ours may hide the other hypervisors
        raise UnreachableError(f"{type(exc).__name__}: {exc}") from exc


def _explain_missing_libvirt(exc: VirtError) -> None:
    """Raise an error in place of one that only says how libvirt was looked for on a host that has none."""
    if _NO_NETCAT.search(exc.what):
        raise UnreachableError("no libvirt is installed there yet", hint="Run brine.virt.hypervisors first") from exc
    if _NO_SOCKET.search(exc.what):
        raise UnreachableError(
            "no libvirt runs there, or none is installed", hint="Run brine.virt.hypervisors"
        ) from exc


def unasked(hypervisor: str, reason: str) -> dict[str, t.Any]:
    """What stands in place of the answer of a hypervisor that nobody knows how to reach."""
    return {"hypervisor": hypervisor, "uri": None, "machines": None, "error": reason}


def warn_of(answer: Mapping[str, t.Any]) -> str:
    """The one line about a hypervisor that did not answer, or could not be asked."""
    what = "was not asked" if answer["uri"] is None else "did not answer"
    if answer.get("stale_since"):
        since = answer["stale_since"]
        return f"Hypervisor {answer['hypervisor']} {what}, its machines are listed as of {since}: {answer['error']}"
    return f"Hypervisor {answer['hypervisor']} {what}, its machines are missing: {answer['error']}"


def warn_of_unread(answer: Mapping[str, t.Any]) -> list[str]:
    """What is to be said of machines that a hypervisor listed, but that could not be read."""
    records = answer.get("machines") or []
    missing = [record["name"] for record in records if is_unread(record)]
    old = [record["name"] for record in records if record.get("stale_since")]
    found = []
    if missing:
        found.append(
            f"Hypervisor {answer['hypervisor']} could not read {', '.join(missing)}: listed without tags, "
            "user and address. Raise timeout, or look at the hypervisor"
        )
    if old:
        found.append(
            f"Hypervisor {answer['hypervisor']} could not read {', '.join(old)}: listed as they were when they "
            "were last read. Raise timeout, or look at the hypervisor"
        )
    return found


def answers_suffix(facts: Collection[str]) -> str:
    """What the name of the answers in a cache ends with: those with other facts are of no use."""
    return "" if set(facts) == set(FACTS) else "_" + "_".join(fact for fact in FACTS if fact in facts)


def are_of(
    answers: Sequence[Mapping[str, t.Any]],
    entries: Sequence[HypervisorEntry],
    uri_of: t.Callable[[HypervisorEntry], str],
) -> bool:
    """Whether answers are those of these hypervisors: with other inventories beside it, a file may name others.
    uri_of: raises VirtError for one whose URI is unknown."""
    uris = {answer["hypervisor"]: answer["uri"] for answer in answers}
    if set(uris) != {entry.name for entry in entries}:
        return False
    for entry in entries:
        with contextlib.suppress(VirtError):  # it was not asked then either, or is listed as it was
            if uris[entry.name] not in (None, uri_of(entry)):
                return False
    return True


def with_last_answers(
    answers: Sequence[dict[str, t.Any]], last: Sequence[Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """The answers, with the last good one of each hypervisor that has none now.

    One that stands in has ``stale_since`` besides, the time when it was given, and the ``error`` of the one that is
    missing. last: answers of an earlier time, good ones and others. A machine that another hypervisor has now is left
    out of an old answer: it has moved.
    """
    good = {one["hypervisor"]: one for one in last if one.get("machines") is not None and one.get("at")}
    here_now = {record["uuid"] for answer in answers for record in answer.get("machines") or []}
    found = []
    for answer in answers:
        old = good.get(answer["hypervisor"])
        if answer.get("machines") is not None and old is not None:
            answer = {**answer, "machines": _with_last_records(answer["machines"], old)}
        if answer.get("machines") is not None or old is None:
            found.append(answer)
            continue
        machines = [record for record in old["machines"] if record["uuid"] not in here_now]
        uri = answer["uri"] or old["uri"]
        found.append({**answer, "uri": uri, "machines": machines, "at": old["at"], "stale_since": old["at"]})
    return found


def of_now(answers: Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The answers without machines that are only remembered."""
    found = []
    for answer in answers:
        if answer.get("stale_since"):
            found.append({**answer, "machines": None})
            continue
        records = [
            {**record, "vcpus": None, "host_keys": []} if record.get("stale_since") else record
            for record in answer.get("machines") or []
        ]
        found.append({**answer, "machines": None if answer.get("machines") is None else records})
    return found


def as_asked(
    answers: Sequence[dict[str, t.Any]], asked: Collection[str]
) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """The answers, those of hypervisors that were not asked now as if they were silent; and what these said earlier."""
    new = [answer if answer["hypervisor"] in asked else {**answer, "machines": None} for answer in answers]
    return new, [answer for answer in answers if answer["hypervisor"] not in asked]


def _with_last_records(records: Sequence[dict[str, t.Any]], last: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """The records, with the last good one of each machine that could not be read now: its name and state are of now."""
    good = {record["uuid"]: record for record in last["machines"] if not is_unread(record)}
    found = []
    for record in records:
        old = good.get(record["uuid"]) if is_unread(record) else None
        if old is not None:
            since = old.get("stale_since") or last["at"]
            record = {**old, "name": record["name"], "state": record["state"], "stale_since": since}
        found.append(record)
    return found
