# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that ssh finds the machines' host keys in.

One line a key: ``virt-<uuid> <type> <key> brine.virt:<hypervisor> <name>``. The comment at the end is how this code
knows its own lines; all others belong to somebody else and stay. A key is good for the alias alone: a guest can claim
any address, and a machine's name can be that of another host. Lines of earlier versions have both, and lose them.
Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import ipaddress
import os
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.files import locked_file, write_whole
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import host_key_alias

_MARK = "brine.virt:"
# Whoever holds the lock writes one small file.
_LOCK_SECONDS = 20.0
_OWN_LINE = re.compile(
    rf"virt-(?P<uuid>[0-9a-f-]{{36}})(?P<others>,\S*)? (?P<key>.*) "
    rf"{re.escape(_MARK)}(?P<hypervisor>\S+)( (?P<name>\S+))?"
)
# Whatever stands in a hypervisor's metadata, only plain names and keys may reach a file that ssh trusts.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEY = re.compile(r"(?P<type>[a-z0-9][a-z0-9@.-]*) (?P<key>[A-Za-z0-9+/]+={0,3})(?: .*)?")


def known_hosts_lines(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """The lines of one machine; what is not a proper alias or key is left out."""
    uuid = record.get("uuid") or ""
    if not _UUID.fullmatch(uuid):
        return []
    lines = []
    for text in record.get("host_keys") or []:
        key = _KEY.fullmatch(text.strip())
        if key:
            lines.append(_line(uuid, f"{key['type']} {key['key']}", hypervisor, record.get("name")))
    return lines


def last_seen(lines: Sequence[str]) -> dict[str, list[str]]:
    """The hypervisors that the file knows a machine of each name on, by the names of the machines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        own = _OWN_LINE.fullmatch(line)
        name = _name_in(own) if own else None
        if own and name and own["hypervisor"] not in found.setdefault(name, []):
            found[name].append(own["hypervisor"])
    return found


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
    own = _OWN_LINE.fullmatch(line)
    if not own or not own["others"]:
        return line
    return _line(own["uuid"], own["key"], own["hypervisor"], _name_in(own))


def merge_lines(old: Sequence[str], answers: Sequence[Mapping[str, t.Any]], *, drop_gone: bool) -> list[str]:
    """The lines of the file after these answers of hypervisors.

    A hypervisor that did not answer keeps its lines, but for machines that have turned up on another one; so does a
    machine that was listed, but not read. drop_gone: lines of machines that a hypervisor no longer has go; False when
    the answers are not of now.
    """
    answered = {answer["hypervisor"]: answer["machines"] for answer in answers if answer.get("machines") is not None}
    new = {
        hypervisor: {record["uuid"]: known_hosts_lines(record, hypervisor) for record in records}
        for hypervisor, records in answered.items()
    }
    unread = {(h, r["uuid"]) for h, records in answered.items() for r in records if r.get("vcpus") is None}

    moved_here = {uuid for machines in new.values() for uuid, lines in machines.items() if lines}

    def stays(line: str) -> bool:
        own = _OWN_LINE.fullmatch(line)
        if not own:
            return True
        if own["hypervisor"] not in new:
            return not (drop_gone and own["uuid"] in moved_here)
        machines = new[own["hypervisor"]]
        if (own["hypervisor"], own["uuid"]) in unread:
            return True
        return not drop_gone and own["uuid"] not in machines

    kept = [_alias_alone(line) for line in old if stays(line)]
    own = [line for machines in new.values() for lines in machines.values() for line in lines]
    return list(dict.fromkeys([*kept, *sorted(own)]))


def update_known_hosts(path: str, answers: Sequence[Mapping[str, t.Any]], *, drop_gone: bool = True) -> bool:
    """Bring the file up to date; returns whether it changed.

    Made with its directory (0700) when missing and there is something to write; written whole and put in place at
    once, under a lock, so that inventories that run at the same time do not lose each other's lines. Raises OSError
    (LockTimeout when another one holds the lock for too long).
    """
    if not os.path.exists(path) and not merge_lines([], answers, drop_gone=drop_gone):
        return False
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with locked_file(f"{path}.lock", _LOCK_SECONDS):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                old = file.read().splitlines()
        except FileNotFoundError:
            old = []
        new = merge_lines(old, answers, drop_gone=drop_gone)
        if new == old:
            return False
        write_whole(path, "".join(f"{line}\n" for line in new).encode(errors="surrogateescape"), 0o600)
    return True
