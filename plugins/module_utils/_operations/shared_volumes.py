# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of pools that several hypervisors share: what one asks the others, what they answer, and what that means.

The same file has the same inode number on every host that has its network or cluster file system mounted, but not with
every file system in user space; it has the same name wherever it is not reached by another one. A file counts as used
elsewhere if either is the same: rather one that is kept for nothing.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._base.errors import InputError, inside, single_line
from .._host.connection import VirConnect, is_local
from .._host.storage.pools import Pool
from .._host.storage.shared_pools import shared_because
from .._host.storage.usage import AskElsewhere, Usage
from .._host.storage.users import VolumeUser, VolumeUsers
from .._model.spec.fields import validators
from .._model.xml.disk_source import FILE

_INODE = validators.whole_number(0, 2**64)


@dataclass(frozen=True)
class SharedVolume:
    """A volume that other hypervisors may use.

    place: DiskSource.place, on the hypervisor that asks. inode: of a file; None for what is none, or cannot be read.
    """

    pool: str
    volume: str
    place: str
    inode: int | None = None

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the modules' options and results."""
        return {"pool": self.pool, "volume": self.volume, "place": self.place, "inode": self.inode}


def shared_volume(pool: Pool, volume: str) -> SharedVolume | None:
    """A volume that is there, as others are asked about it; None in a pool of this hypervisor alone."""
    if shared_because(pool) is None:
        return None
    place, inode = pool.source_of(volume).place, None
    if pool.source_type == FILE and pool.local:
        try:
            inode = os.stat(place).st_ino
        except OSError:
            inode = None
    return SharedVolume(pool.name, volume, place, inode)


def read_shared_volumes(value: t.Any, where: str) -> list[SharedVolume]:
    """What is asked about, as virt_purge returned it. Raises InputError with the place."""
    rules: dict[str, validators.Rule] = {
        "pool": validators.text,
        "volume": validators.text,
        "place": validators.text,
        "inode": _INODE,
    }
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list of volumes", where=where)
    return [
        SharedVolume(**validators.read_mapping(item, f"{where}[{index}]", rules, ("pool", "volume", "place")))
        for index, item in enumerate(value)
    ]


def users_of_shared(conn: VirConnect, asked: Sequence[SharedVolume]) -> list[dict[str, t.Any]]:
    """Who uses these volumes on this hypervisor, which did not ask. Raises VirtError when libvirt cannot be asked.

    What is backed by a volume that is asked about as well, and is that one itself, is no user: who asks sees it too.
    """
    if not asked:
        return []
    collected = Usage(conn).collected
    unknown = [one.words for one in collected.unknown]
    local = is_local(conn.getURI())
    themselves = {name for name in collected.paths if any(_is_same(collected, name, one) for one in asked)}
    return [
        {
            "pool": one.pool,
            "volume": one.volume,
            "users": sorted({user.words for user in _users(collected, one) if user.volume not in themselves}),
            "unknown": [*unknown, *_unclear(one, local=local)],
        }
        for one in asked
    ]


def _unclear(asked: SharedVolume, *, local: bool) -> list[str]:
    """What keeps a file or a device from being recognised here. local: whether this hypervisor's files can be seen."""
    known = not asked.place.startswith("/") or (local and asked.inode is not None)
    return [] if known else [f"whether {asked.place} is a file of a machine cannot be told"]


def _is_same(collected: VolumeUsers, name: tuple[str, str], asked: SharedVolume) -> bool:
    """Whether a volume here is the very one that is asked about. Where it cannot be told, it is not."""
    identity = collected.identify(collected.paths[name])
    return name[1] == asked.volume and asked.inode is not None and _inode_of(identity) == asked.inode


def _users(collected: VolumeUsers, asked: SharedVolume) -> set[VolumeUser]:
    found = set(collected.by_place.get(asked.place, ()))
    for (_pool, name), users in collected.by_volume.items():
        if name == asked.volume:
            found |= users
    name = os.path.basename(asked.place)
    for identity, users in collected.by_file.items():
        same = asked.inode is not None and _inode_of(identity) == asked.inode
        if same or name in collected.names.get(identity, ()):
            found |= users
    return found


def _inode_of(identity: t.Hashable) -> int | None:
    """Of a file's identity (file_id). None for devices, and for what is not there."""
    if isinstance(identity, tuple) and isinstance(identity[0], int):
        return int(identity[1])
    return None


def read_used_elsewhere(value: t.Any, where: str) -> AskElsewhere | None:
    """What all other hypervisors have answered; None when they were not asked.

    value: by hypervisor, the result of virt_usage_info, or the sentence that says why there is none. Raises InputError
    with the place.
    """
    if value is None:
        return None
    rules: dict[str, validators.Rule] = {
        "pool": validators.text,
        "volume": validators.text,
        "users": validators.list_of(validators.text),
        "unknown": validators.list_of(validators.text),
    }
    answers: dict[str, str | dict[tuple[str, str], dict[str, t.Any]]] = {}
    for host, answer in validators.any_mapping(value, where).items():
        place = inside(where, host)
        if not isinstance(answer, (str, Mapping)):
            raise InputError(
                f"{answer!r} is neither a result of virt_usage_info nor a sentence that says why there is none",
                where=place,
            )
        volumes = None if isinstance(answer, str) else answer.get("volumes")
        if volumes is None:
            why = answer if isinstance(answer, str) else answer.get("msg")
            answers[host] = single_line(why or "it does not answer")
        else:
            said: dict[tuple[str, str], dict[str, t.Any]] = {}
            answers[host] = said
            for index, item in enumerate(volumes):
                read = validators.read_mapping(item, f"{place}.volumes[{index}]", rules, rules)
                known = said.setdefault((read["pool"], read["volume"]), {"users": (), "unknown": ()})
                # Asked about by two hypervisors that have each one of this name: what is said of both counts.
                known.update({key: (*known[key], *read[key]) for key in ("users", "unknown")})
    return lambda pool, volume: _said_of(answers, pool, volume)


def _said_of(
    answers: Mapping[str, str | Mapping[tuple[str, str], Mapping[str, t.Any]]], pool: Pool, volume: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who uses a volume elsewhere, and what could not be checked."""
    users: list[str] = []
    unknown: list[str] = []
    for host, answer in answers.items():
        if isinstance(answer, str):
            unknown.append(f"{shared_because(pool)}, and {host}, which may use it too, did not say: {answer}")
            continue
        said = answer.get((pool.name, volume))
        if said is None:
            unknown.append(f"{shared_because(pool)}, and {host} was not asked who uses this volume")
            continue
        users += [f"{words} on {host}" for words in said["users"]]
        unknown += [f"{words} on {host}" for words in said["unknown"]]
    return tuple(users), tuple(unknown)
