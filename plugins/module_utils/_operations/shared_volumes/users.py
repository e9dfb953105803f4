# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses volumes here that another hypervisor asks about, in pools that both may see.

The same file has the same inode number on every host that has its network or cluster file system mounted, but not with
every file system in user space; it has the same name wherever it is not reached by another one. A file counts as used
if either is the same: rather one that is kept for nothing. On a file system that this host alone has, the inode numbers
begin as on any other, and say nothing: of what this host gives to others by NFS they count; by other servers, as Samba,
the name does. A LUN has the same serial number on every host; its name, such as unit:0:0:1, is that of one on every
other target too. A volume of Ceph is where it is.

A device is also used by the host itself: mounted, as swap, in LVM or RAID. A file that it has as a device is among the
users that are collected.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ..._base.errors import NotFoundError
from ..._base.xml import read_description
from ..._host.connection import VirConnect, is_local, translate_errors
from ..._host.storage.shared_pools import shared_path_because
from ..._host.storage.usage import Usage
from ..._host.storage.users import VolumeUser, VolumeUsers
from ..._host.storage.volume_facts import UNIT_POOL_TYPES, serial_of
from .devices import is_other_unit, is_used_by_host
from .units import is_same_everywhere, iscsi_place, portal_paths, rbd_paths, unit_paths
from .volume import SharedVolume

# How a user was recognised, in words for a message: nothing where there is no doubt.
_SURE, _BY_NAME, _BY_INODE = "", "by the same name", "by the same inode number"
_Found = dict[VolumeUser, str]


def users_of_shared(conn: VirConnect, asked: Sequence[SharedVolume]) -> list[dict[str, t.Any]]:
    """Who uses these volumes on this hypervisor, which did not ask. Raises VirtError when libvirt cannot be asked.

    What is backed by a volume that is asked about as well, and is that one itself, is no user: who asks sees it too.
    """
    if not asked:
        return []
    collected = Usage(conn).collected
    local = is_local(conn.getURI())
    files = _Files(collected)
    by_name: dict[str, list[SharedVolume]] = {}
    for one in asked:
        by_name.setdefault(one.volume, []).append(one)
    themselves = {name for name in collected.paths if any(files.is_same(name, one) for one in by_name.get(name[1], ()))}
    serials = _serials(conn, collected) if any(map(_is_unit, asked)) else {}
    answers = []
    for one in asked:
        found: _Found
        paths: Iterable[str] = ()
        if _is_unit(one):
            paths = _paths_of_unit(one, collected.by_path, local=local)
            found = _users_of_unit(collected, one, serials, paths)
        elif one.place.startswith("rbd:"):
            paths = rbd_paths(one.place)
            found = _users_in_cluster(collected, one, paths)
        else:
            found = files.users(one)
        in_use = next(filter(is_used_by_host, sorted(paths) if local else ()), None)
        hosts = [f"the host itself ({in_use} is mounted, swap, or in LVM or RAID)"] if in_use else []
        answers.append(
            {
                "pool": one.pool,
                "volume": one.volume,
                "users": sorted({*_words(found, themselves), *hosts}),
                "unknown": [*(unknown.words for unknown in collected.unknown), *_unclear(one, local=local)],
            }
        )
    return answers


def _words(found: _Found, themselves: Iterable[tuple[str, str]]) -> set[str]:
    """Each user once, with what speaks for it where that is not all."""
    known: dict[str, tuple[bool, str]] = {}
    for user, how in found.items():
        if user.volume is None or user.volume not in themselves:
            said = (user.noted and not user.moving, how)
            known[user.words] = min(said, known.get(user.words, said))
    words = set()
    for name, (noted, how) in known.items():
        doubts = [*(["in its metadata, not as a disk"] if noted else []), *([how] if how else [])]
        words.add(f"{name} ({', '.join(doubts)})" if doubts else name)
    return words


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


def _paths_of_unit(asked: SharedVolume, named: Iterable[str], *, local: bool) -> list[str]:
    """What leads to a LUN on this host, but for what is another one here: a target may show each host its own LUNs.

    named: all paths that something names, also by another portal, while this host has not logged in there.
    """
    place = iscsi_place(asked.place)
    paths = [asked.place] if is_same_everywhere(asked.place) else []
    if place.startswith("iscsi:"):
        paths += [*(portal_paths(place) if local else []), *(path for path in named if iscsi_place(path) == place)]
    own = unit_paths(asked.serial) if local and asked.serial is not None else []
    return [*own, *(path for path in paths if not (local and is_other_unit(path, asked.serial)))]


def _users_of_unit(
    collected: VolumeUsers, asked: SharedVolume, serials: Mapping[tuple[str, str], str], paths: Iterable[str]
) -> _Found:
    """Who has a LUN, by whatever name of it. serials: see _serials; paths: of _paths_of_unit."""
    found = set(collected.by_place.get(iscsi_place(asked.place), ()))
    for name, users in collected.by_volume.items():
        serial = serials.get(name)
        # Where it is not known what another pool's is, one of the same name in a pool of the same name counts as it.
        same = serial == asked.serial
        if serial is None or asked.serial is None:
            same = name == (asked.pool, asked.volume)
        if same:
            found |= users
    for path in paths:
        found |= collected.by_file.get(collected.identify(path), set())
        found |= collected.by_path.get(path, set())
    return dict.fromkeys(found, _SURE)


def _users_in_cluster(collected: VolumeUsers, asked: SharedVolume, paths: Iterable[str]) -> _Found:
    """Who has a volume of a Ceph cluster: at its place, or as a device that the kernel has made of it. paths: of
    rbd_paths."""
    found = collected.by_place.get(asked.place, set()) | collected.by_file.get(asked.place, set())
    for identity in map(collected.identify, paths):
        found |= collected.by_file.get(identity, set())
    named = {
        user: _BY_NAME
        for (pool, name), users in collected.by_volume.items()
        # Where this host's libvirt does not know the pool, it may be that one.
        if name == asked.volume and pool not in collected.kinds
        for user in users
    }
    return {**named, **dict.fromkeys(found, _SURE)}


class _Files:
    """The files that something here uses, by their inode numbers and their names."""

    def __init__(self, collected: VolumeUsers) -> None:
        self._collected = collected
        self._by_inode: dict[int, list[t.Hashable]] = {}
        self._by_name: dict[str, list[t.Hashable]] = {}
        self._shared: dict[t.Hashable, bool] = {}
        for identity in collected.by_file:
            inode = _inode_of(identity)
            if inode is not None:
                self._by_inode.setdefault(inode, []).append(identity)
            for name in self._names(identity):
                self._by_name.setdefault(name, []).append(identity)

    def users(self, asked: SharedVolume) -> _Found:
        """Who has a file that another hypervisor asks about, or one that may be it."""
        collected = self._collected
        found: _Found = {}
        for (_pool, name), users in collected.by_volume.items():
            if name == asked.volume:
                found.update(dict.fromkeys(users, _BY_NAME))
        by_inode = [] if asked.inode is None else self._by_inode.get(asked.inode, [])
        by_inode = [identity for identity in by_inode if self._may_be_shared(identity)]
        by_name = self._by_name.get(posixpath.basename(asked.place), [])
        for identities, how in ((by_name, _BY_NAME), (by_inode, _BY_INODE)):
            for identity in identities:
                found.update(dict.fromkeys(collected.by_file[identity], how))
        for identity in {*by_name} & {*by_inode}:
            found.update(dict.fromkeys(collected.by_file[identity], _SURE))
        return {**found, **dict.fromkeys(collected.by_place.get(asked.place, ()), _SURE)}

    def is_same(self, name: tuple[str, str], asked: SharedVolume) -> bool:
        """Whether a volume here is the very one that is asked about. Where it cannot be told, it is not."""
        if name[1] != asked.volume or asked.inode is None:
            return False
        identity = self._collected.identify(self._collected.paths[name])
        return _inode_of(identity) == asked.inode and self._may_be_shared(identity)

    def _names(self, identity: t.Hashable) -> set[str]:
        """The last parts of all paths that led to a file, and the name of the file itself where that was a link."""
        ways = self._collected.ways.get(identity, set())
        links = {way for way in ways if _inode_of(identity) is not None and os.path.islink(way)}
        return {posixpath.basename(way) for way in [*ways, *map(os.path.realpath, links)]}

    def _may_be_shared(self, identity: t.Hashable) -> bool:
        """Whether a file may be one that other hosts have as well: by where it is, or as it has several names, of which
        only one need be known here."""
        if identity not in self._shared:
            ways = self._collected.ways.get(identity, set())
            self._shared[identity] = not ways or any(map(_is_linked, ways)) or any(map(shared_path_because, ways))
        return self._shared[identity]


def _is_linked(path: str) -> bool:
    """Whether a file has several names, or cannot be looked at any more."""
    try:
        return os.stat(path).st_nlink != 1
    except OSError:
        return True


def _inode_of(identity: t.Hashable) -> int | None:
    """Of a file's identity (file_id). None for devices, and for what is not there."""
    if isinstance(identity, tuple) and isinstance(identity[0], int):
        return int(identity[1])
    return None
