# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that ssh finds the machines' host keys in.

One line a key: ``virt-<uuid> <type> <key> brine.virt:<hypervisor> <name>``. The comment at the end is how this code
knows its own lines; all others belong to somebody else and stay. A key is good for the alias alone: a guest can claim
any address, and a machine's name can be that of another host. Lines of earlier versions have both, and lose them.
A line without the machine's name says nothing of where the machine is: another hypervisor has said that it has it now.
The key stays known until the first one says that the machine is gone: a hypervisor that lies could bring another next.
A machine without host keys has a comment, ``# virt-<uuid> brine.virt:<hypervisor> <name>``: where it is has to be known
when nobody asks its hypervisor any more. Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import ipaddress
import os
import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._base.files import locked_file, write_whole
from .host_vars import host_key_alias

_MARK = "brine.virt:"
# Whoever holds the lock writes one small file.
_LOCK_SECONDS = 20.0
_OWN_LINE = re.compile(
    rf"virt-(?P<uuid>[0-9a-f-]{{36}})(?P<others>,\S*)? (?P<key>.*) "
    rf"{re.escape(_MARK)}(?P<hypervisor>\S+)( (?P<name>\S+))?"
)
_OWN_COMMENT = re.compile(rf"# virt-(?P<uuid>[0-9a-f-]{{36}}) {re.escape(_MARK)}(?P<hypervisor>\S+) (?P<name>\S+)")
# Whatever stands in a hypervisor's metadata, only plain names and keys may reach a file that ssh trusts.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RUNS = ("running", "blocked")
_BLANKS = " \t\r"
_KEY = re.compile(r"(?P<type>[a-z0-9][a-z0-9@.-]*) (?P<key>[A-Za-z0-9+/]+={0,3})(?: .*)?")


def _believed(
    old: Sequence[str], answers: Sequence[Mapping[str, t.Any]], *, complete: bool
) -> list[Mapping[str, t.Any]]:
    """The answers without host keys that one hypervisor has for the machine of another.

    A machine keeps its keys when it moves. So other keys from another hypervisor than the one that is known to have the
    machine, or different ones from two hypervisors that nobody has asked before, are those of whoever wants to pass for
    it. complete: what a hypervisor does not list has left it.
    """
    known: dict[str, dict[str, set[str]]] = {}
    for line in old:
        key = _own_key(line)
        if key:
            known.setdefault(key["uuid"], {}).setdefault(key["hypervisor"], set()).add(key["key"])
    listed: dict[str, dict[str, set[str]]] = {}
    for answer in answers:
        for record in answer.get("machines") or ():
            listed.setdefault(record["uuid"], {})[answer["hypervisor"]] = _keys(record)
    answered = {answer["hypervisor"] for answer in answers if answer.get("machines") is not None}

    def record_of(hypervisor: str, record: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
        uuid = record["uuid"]
        there, before = listed[uuid], known.get(uuid, {})
        has_it = [one for one in before if one in there or not complete or one not in answered]
        elsewhere = [before[one] for one in has_it if one != hypervisor]
        if not has_it:
            elsewhere = [keys for one, keys in there.items() if one != hypervisor and keys]
        if not elsewhere:
            return record
        right = set().union(*elsewhere)
        return {**record, "host_keys": [text for text in record.get("host_keys") or [] if _key_of(text) in right]}

    return [
        answer
        if answer.get("machines") is None
        else {**answer, "machines": [record_of(answer["hypervisor"], record) for record in answer["machines"]]}
        for answer in answers
    ]


def _key_of(text: str) -> str | None:
    """A public key without its comment; None for anything else."""
    key = _KEY.fullmatch(text.strip())
    return f"{key['type']} {key['key']}" if key else None


def _keys(record: Mapping[str, t.Any]) -> set[str]:
    return {key for key in map(_key_of, record.get("host_keys") or []) if key}


def known_hosts_lines(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """The lines of one machine; what is not a proper alias or key is left out."""
    uuid = record.get("uuid") or ""
    if not _UUID.fullmatch(uuid):
        return []
    lines = []
    for text in record.get("host_keys") or []:
        key = _key_of(text)
        if key:
            lines.append(_line(uuid, key, hypervisor, record.get("name")))
    return lines


def _keyless_line(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """The comment for a machine that has no key; none where its name is no plain word."""
    uuid, name = record.get("uuid") or "", record.get("name") or ""
    if not _UUID.fullmatch(uuid) or not _NAME.fullmatch(name):
        return []
    return [f"# {host_key_alias(uuid)} {_MARK}{hypervisor} {name}"]


def last_seen(lines: Sequence[str]) -> dict[str, list[str]]:
    """The hypervisors that the file knows a machine of each name on, by the names of the machines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        own = _own(line)
        if own and own.name and own.hypervisor not in found.setdefault(own.name, []):
            found[own.name].append(own.hypervisor)
    return found


def moved_away(lines: Sequence[str]) -> set[tuple[str, str]]:
    """Hypervisors and UUIDs of machines whose keys the file has from there, and that it knows on another one now."""
    keys = [own for own in map(_own, (line for line in lines if _own_key(line))) if own]
    here = {own.uuid for own in keys if own.name}
    named = {(own.hypervisor, own.uuid) for own in map(_own, lines) if own and own.name}
    return {(own.hypervisor, own.uuid) for own in keys if own.uuid in here} - named


def known_elsewhere(lines: Sequence[str], answers: Sequence[Mapping[str, t.Any]]) -> dict[str, set[str]]:
    """By name, the UUIDs of machines of the file that may be where nobody answers; none where all answer.

    These are all that no hypervisor lists under the name, whatever the file says where they are: one that lies may have
    listed any of them before, also under another name.
    """
    if all(answer.get("machines") is not None for answer in answers):
        return {}
    listed = {(r["name"], r["uuid"]) for answer in answers for r in answer.get("machines") or ()}
    found: dict[str, set[str]] = {}
    for line in lines:
        own = _own(line)
        if own and own.name and (own.name, own.uuid) not in listed:
            found.setdefault(own.name, set()).add(own.uuid)
    return found


@dataclass(frozen=True)
class _Own:
    """What a line of ours is about. name: None where none is known."""

    uuid: str
    hypervisor: str
    name: str | None


def _own_key(line: str) -> re.Match[str] | None:
    """The parts of a line of ours with a key. An editor may have put blanks or a carriage return at its end."""
    return _OWN_LINE.fullmatch(line.rstrip(_BLANKS))


def _own(line: str) -> _Own | None:
    """What a line is about, if it is ours."""
    key = _own_key(line)
    if key:
        return _Own(key["uuid"], key["hypervisor"], _name_in(key))
    comment = _OWN_COMMENT.fullmatch(line.rstrip(_BLANKS))
    return _Own(comment["uuid"], comment["hypervisor"], comment["name"]) if comment else None


def _line(uuid: str, key: str, hypervisor: str, name: str | None) -> str:
    comment = f" {name}" if name and _NAME.fullmatch(name) else ""
    return f"{host_key_alias(uuid)} {key} {_MARK}{hypervisor}{comment}"


def _name_in(own: re.Match[str]) -> str | None:
    """The machine's name in a line of ours. Before it stood in the comment it was the first pattern after the alias."""
    first = (own["others"] or "").removeprefix(",").partition(",")[0]
    return own["name"] or (first if _NAME.fullmatch(first) and not _is_address(first) else None)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _alias_alone(line: str) -> str:
    """A line of ours without names and addresses beside the alias; any other line as it is."""
    own = _own_key(line)
    if not own or not own["others"]:
        return line
    return _line(own["uuid"], own["key"], own["hypervisor"], _name_in(own))


def _key_alone(line: str) -> str | None:
    """A line of ours that no longer says where the machine is; None of one without a key."""
    own = _own_key(line)
    return _line(own["uuid"], own["key"], own["hypervisor"], None) if own else None


def merge_lines(old: Sequence[str], answers: Sequence[Mapping[str, t.Any]], *, drop_gone: bool) -> list[str]:
    """The lines of the file after these answers of hypervisors.

    A line that is right keeps its place: the file changes only when its content does. A hypervisor that did not answer
    keeps its lines, without the name where the machine runs on another one now; so does a machine that was listed, but
    not read. drop_gone: lines of machines that a hypervisor no longer has go, unless they may have been moved to one
    that did not answer; False when the answers are not all that it has.
    """
    answers = _believed(old, answers, complete=drop_gone)
    answered = {answer["hypervisor"]: answer["machines"] for answer in answers if answer.get("machines") is not None}
    new = {
        hypervisor: {record["uuid"]: known_hosts_lines(record, hypervisor) for record in records}
        for hypervisor, records in answered.items()
    }
    unread = {(h, r["uuid"]) for h, records in answered.items() for r in records if r.get("vcpus") is None}

    # Whoever turns up elsewhere without a key leaves the one that is known where it is.
    moved_here = {uuid for machines in new.values() for uuid, lines in machines.items() if lines}
    listed_here = {uuid for machines in new.values() for uuid in machines}
    # Any other, such as one that is off, may be what is left of a machine that runs where nobody answers.
    runs = {record["uuid"] for records in answered.values() for record in records if record.get("state") in _RUNS}
    # A machine keeps its name when it moves.
    names = {(record["uuid"], record.get("name")) for records in answered.values() for record in records}
    silent = len(answered) < len(answers)
    comments = {
        (hypervisor, record["uuid"]): _keyless_line(record, hypervisor)
        for hypervisor, records in answered.items()
        for record in records
        if not new[hypervisor][record["uuid"]] and (hypervisor, record["uuid"]) not in unread
    }
    own_lines = [line for machines in new.values() for lines in machines.values() for line in lines]
    own_lines += [line for lines in comments.values() for line in lines]
    right = set(own_lines)

    def left_of(line: str) -> str | None:
        own = _own(line)
        if not own or _alias_alone(line) in right:
            return _alias_alone(line)
        if own.hypervisor not in new:
            gone = moved_here if not line.startswith("#") else listed_here
            has_moved = own.uuid in gone & runs and (own.name is None or (own.uuid, own.name) in names)
            return _key_alone(line) if drop_gone and has_moved else _alias_alone(line)
        stays = (own.hypervisor, own.uuid) in unread or (not drop_gone and own.uuid not in new[own.hypervisor])
        # It may have been moved to where nobody answers.
        stays = stays or (silent and own.uuid not in listed_here)
        return _alias_alone(line) if stays else None

    kept = [left for line in old if (left := left_of(line)) is not None]
    # Of equal lines of ours one is enough; somebody else's may be there twice, such as blank ones.
    merged: list[str] = []
    seen: set[str] = set()
    for line in kept:
        if line not in seen or not _own(line):
            merged.append(line)
        seen.add(line)
    return [*merged, *(line for line in dict.fromkeys(sorted(own_lines)) if line not in seen)]


def add_lines(old: Sequence[str], answers: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """The lines of the file with these machines where they are now; what else a hypervisor has is not known.

    One that does not run may be an old definition of a machine that runs where nobody was asked: that stays known.
    """
    believed = _believed(old, answers, complete=False)
    # Whoever has keys that are not believed says nothing of the machine that they are not of.
    here = {
        record["uuid"]
        for answer, original in zip(believed, answers, strict=True)
        for record, said in zip(answer["machines"], original["machines"], strict=True)
        if record.get("vcpus") is not None and _keys(record) == _keys(said)
    }

    runs = {record["uuid"] for answer in answers for record in answer["machines"] if record.get("state") in _RUNS}
    right = set(merge_lines([], believed, drop_gone=False))
    asked = {(answer["hypervisor"], record["uuid"]) for answer in answers for record in answer["machines"]}

    def left_of(line: str) -> str | None:
        own = _own(line)
        if own is None or own.uuid not in here or _alias_alone(line) in right:
            return line
        if (own.hypervisor, own.uuid) in asked:
            return None
        return _key_alone(line) if own.uuid in runs else line

    return merge_lines([left for line in old if (left := left_of(line)) is not None], believed, drop_gone=False)


def add_keys(old: Sequence[str], cached: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """The lines of the file, and keys from answers of an earlier time for machines that it has no key of.

    SSH needs a key in any case. Where the machines are now, such answers do not say: they may have been moved since,
    and the file may have been told.
    """
    known = {key["uuid"] for key in map(_own_key, old) if key}
    added = [
        line
        for answer in _believed(old, cached, complete=False)
        for record in answer.get("machines") or ()
        if record["uuid"] not in known
        for line in known_hosts_lines({**record, "name": None}, answer["hypervisor"])
    ]
    return [*old, *dict.fromkeys(sorted(added))]


def add_arriving(old: Sequence[str], answers: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """The lines of the file, and of each of these machines one that says it may be on this hypervisor soon.

    A key that it has left there, when it moved away, says nothing of that.
    """
    known = {(own.hypervisor, own.uuid) for own in map(_own, old) if own and own.name}
    added = [
        line
        for answer in answers
        for record in answer["machines"]
        if (answer["hypervisor"], record["uuid"]) not in known
        for line in _keyless_line(record, answer["hypervisor"])
    ]
    return [*old, *dict.fromkeys(added)]


def without_hypervisors(lines: Sequence[str], left: t.Collection[str]) -> list[str]:
    """The lines without all of those about these hypervisors."""
    return [line for line in lines if not (own := _own(line)) or own.hypervisor not in left]


def without_machines(
    lines: Sequence[str], gone: Mapping[str, t.Collection[str]], *, keep_keys: bool = False
) -> list[str]:
    """The lines without those of machines that are no longer there. gone: their names by hypervisor; keep_keys: they
    are elsewhere, so that their keys stay, which say no place."""

    def left_of(line: str) -> str | None:
        own = _own(line)
        if own is None or own.name not in gone.get(own.hypervisor, ()):
            return line
        return _key_alone(line) if keep_keys else None

    return [left for line in lines if (left := left_of(line)) is not None]


def update_known_hosts(
    path: str, answers: Sequence[Mapping[str, t.Any]], *, cached: Sequence[Mapping[str, t.Any]] = ()
) -> bool:
    """Bring the file up to date with answers of now; returns whether it changed. cached: answers of an earlier time.

    Made with its directory (0700) when missing and there is something to write; written whole and put in place at
    once, under a lock, so that inventories that run at the same time do not lose each other's lines. Raises OSError
    (LockTimeout when another one holds the lock for too long).
    """

    def change(old: list[str]) -> list[str]:
        return add_keys(merge_lines(old, answers, drop_gone=True), cached)

    return (os.path.exists(path) or bool(change([]))) and rewrite(path, change)


def rewrite(path: str, change: t.Callable[[list[str]], list[str]]) -> bool:
    """Write what change makes of the file's lines, as update_known_hosts does; returns whether it changed."""
    # A link, as to a file that several people use, stays one; and a relative path gets a directory.
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with locked_file(f"{path}.lock", _LOCK_SECONDS):
        old = read_lines(path)
        new = change(old)
        if new == old:
            return False
        write_whole(path, "".join(f"{line}\n" for line in new).encode(errors="surrogateescape"), 0o600)
    return True


def read_lines(path: str) -> list[str]:
    """The lines of the file; none of one that is missing. Raises OSError.

    A line ends at a line feed, and only there: whatever else stands in a line of somebody else's is part of it.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return text.removesuffix("\n").split("\n") if text else []
