# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses volumes here that another hypervisor asks about, in pools that both may see.

The same file has the same inode number on every host that has its network or cluster file system mounted, but not with
every file system in user space; it has the same name wherever it is not reached by another one. A file counts as used
if either is the same: rather one that is kept for nothing. A LUN has the same serial number on every host; its name,
such as unit:0:0:1, is that of one on every other target too.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Mapping, Sequence

from ..._base.errors import NotFoundError
from ..._base.xml import read_description
from ..._host.connection import VirConnect, is_local, translate_errors
from ..._host.storage.usage import Usage
from ..._host.storage.users import VolumeUser, VolumeUsers
from ..._host.storage.volume_facts import UNIT_POOL_TYPES, serial_of
from .units import is_same_everywhere, iscsi_place, portal_paths, unit_paths
from .volume import SharedVolume


def users_of_shared(conn: VirConnect, asked: Sequence[SharedVolume]) -> list[dict[str, t.Any]]:
    """Who uses these volumes on this hypervisor, which did not ask. Raises VirtError when libvirt cannot be asked.

    What is backed by a volume that is asked about as well, and is that one itself, is no user: who asks sees it too.
    """
    if not asked:
        return []
    collected = Usage(conn).collected
    local = is_local(conn.getURI())
    themselves = {name for name in collected.paths if any(_is_same(collected, name, one) for one in asked)}
    serials = _serials(conn, collected) if any(map(_is_unit, asked)) else {}
    answers = []
    for one in asked:
        users = _users_of_unit(collected, one, serials, local=local) if _is_unit(one) else _users(collected, one)
        answers.append(
            {
                "pool": one.pool,
                "volume": one.volume,
                "users": sorted({user.words for user in users if user.volume not in themselves}),
                "unknown": [*(unknown.words for unknown in collected.unknown), *_unclear(one, local=local)],
            }
        )
    return answers


def _unclear(asked: SharedVolume, *, local: bool) -> list[str]:
    """What keeps a file or a device from being recognised here. local: whether this hypervisor's files can be seen."""
    known = asked.inode is not None or (
        _is_unit(asked) and (asked.serial is not None or is_same_everywhere(asked.place))
    )
    if not asked.place.startswith("/") or (local and known):
        return []
    return [f"whether {asked.place} is a {'device' if _is_unit(asked) else 'file'} of a machine cannot be told"]


def _is_unit(asked: SharedVolume) -> bool:
    """Whether it is a LUN."""
    return asked.inode is None and asked.place.startswith(("/dev/", "iscsi:"))


def _serials(conn: VirConnect, collected: VolumeUsers) -> dict[tuple[str, str], str]:
    """The serial numbers of the LUNs that machines have by the names of pool and volume, as far as libvirt knows them
    now."""
    serials = {}
    for name in set(collected.by_volume) - set(collected.paths):
        pool_name, volume = name
        with contextlib.suppress(NotFoundError), translate_errors(f"cannot inspect storage pool {pool_name}"):
            pool = conn.storagePoolLookupByName(pool_name)
            kind = read_description(f"storage pool {pool_name}", pool.XMLDesc(0)).get("type")
            if kind in UNIT_POOL_TYPES and pool.isActive():
                serial = serial_of(pool.storageVolLookupByName(volume))
                if serial is not None:
                    serials[name] = serial
    return serials


def _users_of_unit(
    collected: VolumeUsers, asked: SharedVolume, serials: Mapping[tuple[str, str], str], *, local: bool
) -> set[VolumeUser]:
    """Who has a LUN, by whatever name of it. serials: see _serials."""
    place = iscsi_place(asked.place)
    found = set(collected.by_place.get(place, ()))
    for name, users in collected.by_volume.items():
        serial = serials.get(name)
        # Where it is not known what another pool's is, one of the same name in a pool of the same name counts as it.
        same = serial == asked.serial
        if serial is None or asked.serial is None:
            same = name == (asked.pool, asked.volume)
        if same:
            found |= users
    paths = [*portal_paths(place), *(unit_paths(asked.serial) if asked.serial is not None else [])] if local else []
    if is_same_everywhere(asked.place):
        paths.append(asked.place)
    for identity in map(collected.identify, paths):
        found |= collected.by_file.get(identity, set())
    # By the path of another portal, while this host has not logged in there.
    for path, users in collected.by_path.items():
        if place.startswith("iscsi:") and iscsi_place(path) == place:
            found |= users
    return found


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
