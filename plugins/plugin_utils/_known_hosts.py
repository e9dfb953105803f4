# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that ssh finds the machines' host keys in.

One line a key: ``virt-<uuid>,<name>,<addresses> <type> <key> brine.virt:<hypervisor>``. The comment at the end is how
this code knows its own lines; all others belong to somebody else and stay.
Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import tempfile
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._file_lock import locked_file
from ansible_collections.brine.virt.plugins.plugin_utils._host_vars import host_key_alias

_MARK = "brine.virt:"
# Whoever holds the lock writes one small file.
_LOCK_SECONDS = 20.0
_OWN_LINE = re.compile(rf"virt-(?P<uuid>[0-9a-f-]{{36}})[, ].* {re.escape(_MARK)}(?P<hypervisor>\S+)")
# Whatever stands in a hypervisor's metadata, only plain names and keys may reach a file that ssh trusts.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEY = re.compile(r"(?P<type>[a-z0-9][a-z0-9@.-]*) (?P<key>[A-Za-z0-9+/]+={0,3})(?: .*)?")


def known_hosts_lines(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """The lines of one machine; what is not a proper name, address or key is left out."""
    uuid, name = record.get("uuid") or "", record.get("name") or ""
    if not _UUID.fullmatch(uuid):
        return []
    patterns = [host_key_alias(uuid)]
    if _NAME.fullmatch(name):
        patterns.append(name)
    for address in record.get("addresses") or []:
        with contextlib.suppress(ValueError):
            patterns.append(str(ipaddress.ip_address(address)))
    lines = []
    for text in record.get("host_keys") or []:
        key = _KEY.fullmatch(text.strip())
        if key:
            lines.append(f"{','.join(patterns)} {key['type']} {key['key']} {_MARK}{hypervisor}")
    return lines


def merge_lines(old: Sequence[str], answers: Sequence[Mapping[str, t.Any]], *, drop_gone: bool) -> list[str]:
    """The lines of the file after these answers of hypervisors.

    A hypervisor that did not answer keeps its lines; so does a machine that was listed, but not read. drop_gone: lines
    of machines that a hypervisor no longer has go; False when the answers are not of now.
    """
    answered = {answer["hypervisor"]: answer["machines"] for answer in answers if answer.get("machines") is not None}
    new = {
        hypervisor: {record["uuid"]: known_hosts_lines(record, hypervisor) for record in records}
        for hypervisor, records in answered.items()
    }
    unread = {(h, r["uuid"]) for h, records in answered.items() for r in records if r.get("vcpus") is None}

    def stays(line: str) -> bool:
        own = _OWN_LINE.fullmatch(line)
        if not own or own["hypervisor"] not in new:
            return True
        machines = new[own["hypervisor"]]
        if (own["hypervisor"], own["uuid"]) in unread:
            return True
        return not drop_gone and own["uuid"] not in machines

    kept = [line for line in old if stays(line)]
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
        _write(path, "".join(f"{line}\n" for line in new))
    return True


def _write(path: str, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
