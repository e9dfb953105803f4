# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a volume: the one answer for everything that would delete or replace one, or give it to another machine.

A volume is deleted when it is owned by whom it is deleted for, and used by nobody. What cannot be known keeps it.
"""

from __future__ import annotations

import copy
import shlex
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, NotFoundError
from ..._model.xml.disk_source import FILE
from ..connection import VirConnect, is_local, translate_errors
from .disk_lock import first_open, is_open_in_qemu
from .pools import Pool
from .proof import deletion
from .shared_pools import seen_elsewhere, shared_because
from .users import UnknownUser, VolumeUser, VolumeUsers, collect_users
from .volumes import delete_volume, require_deletable, volume_exists

USED, UNUSED, UNKNOWN = "used", "unused", "unknown"
PoolVolume = tuple[Pool, str]
# What other hypervisors say of a volume: who uses it there, and what could not be checked there, both in words.
AskElsewhere = t.Callable[[Pool, str], tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True)
class VolumeUse:
    """Who uses a volume.

    users: in words. machines: the names of machines among them, also those that have it only through an overlay or in a
    snapshot. unknown: in words, what could not be checked here. elsewhere: in words, why machines of other
    hypervisors may use it.
    """

    users: tuple[str, ...] = ()
    machines: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    elsewhere: str | None = None

    @property
    def state(self) -> str:
        """USED, UNUSED or UNKNOWN."""
        if self.users:
            return USED
        return UNKNOWN if self.reasons else UNUSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not known whether more use it."""
        return (*self.unknown, *filter(None, [self.elsewhere]))


class Usage:
    """A snapshot of one hypervisor; it says of any volume who used it then.

    local: whether the hypervisor's files can be read here; by default, its URI says so. elsewhere: what all others that
    may see its shared pools have said; without it, that is unknown.
    """

    def __init__(self, conn: VirConnect, *, local: bool | None = None, elsewhere: AskElsewhere | None = None) -> None:
        self._users: VolumeUsers = collect_users(conn, local=local)
        self._elsewhere = elsewhere

    def told(self, elsewhere: AskElsewhere | None) -> Usage:
        """The same snapshot, with what the others have said."""
        one = copy.copy(self)
        one._elsewhere = elsewhere
        return one

    @property
    def collected(self) -> VolumeUsers:
        """All users of everything."""
        return self._users

    @property
    def unknown(self) -> tuple[UnknownUser, ...]:
        """What could not be checked here."""
        return tuple(self._users.unknown)

    def identity_at(self, place: str) -> t.Hashable:
        """The same for all places (DiskSource.place) where the same file or network volume is."""
        return self._users.identify(place) if place.startswith("/") else place

    def identity(self, pool: Pool, volume: str) -> t.Hashable:
        """The same for all names that one file or network volume has, in whatever pools."""
        place = _place_of(pool, volume)
        return (pool.name, volume) if place is None else self.identity_at(place)

    def users_of(self, pool: Pool, volume: str) -> set[VolumeUser]:
        """All that use this volume, by whatever name of it."""
        found = set(self._users.by_volume.get((pool.name, volume), ()))
        place = _place_of(pool, volume)
        return found if place is None else found | self.users_at(place)

    def users_at(self, place: str) -> set[VolumeUser]:
        """All that use what is at a place (DiskSource.place), be it a volume of a pool or not."""
        return self._users.by_place.get(place, set()) | self._users.by_file.get(self._users.identify(place), set())

    def of(
        self,
        pool: Pool,
        volume: str,
        *,
        owner: str | None = None,
        besides: str | None = None,
        left_by: str | None = None,
        together: t.Collection[PoolVolume] = (),
    ) -> VolumeUse:
        """Who uses this volume.

        owner: the machine whose own volume it is; that its metadata list it is no use. besides: a machine that is not
        counted at all, whatever it has of it. left_by: a machine that has a copy of it instead; that its metadata and
        its checkpoints name it is no use. together: volumes that go at the same time, which are not counted either.
        """
        found = self.users_of(pool, volume)
        going = {(other.name, name) for other, name in together}

        def counts(user: VolumeUser) -> bool:
            if user.machine is not None and user.machine == besides:
                return False
            if user.noted and user.machine == owner:
                return False
            if (user.noted or user.checkpoint) and user.machine is not None and user.machine == left_by:
                return False
            return user.volume is None or user.volume not in going

        users = {user for user in found if counts(user)}
        elsewhere = seen_elsewhere(pool)
        others: tuple[str, ...] = ()
        unasked: tuple[str, ...] = ()
        if elsewhere is not None and self._elsewhere is not None:
            others, unasked = self._elsewhere(pool, volume)
            elsewhere = None
        return VolumeUse(
            users=(*sorted({user.words for user in users}), *others),
            machines=frozenset(user.machine for user in users if user.machine is not None),
            unknown=(
                *(
                    unknown.words
                    for unknown in self._users.unknown
                    if unknown.machine is None or unknown.machine != besides
                ),
                *unasked,
            ),
            elsewhere=elsewhere,
        )

    def of_files(self, paths: t.Collection[str], *, besides: t.Collection[str] = ()) -> VolumeUse:
        """Who uses any of these files, which need not be in a pool.

        besides: paths of files that are no users, also where a pool has them as volumes: what they are backed by is
        decided elsewhere.
        """
        uncounted = {self.identity_at(path) for path in besides}
        places = self._users.paths
        users = {
            user
            for path in paths
            for user in self.users_at(path)
            if user.volume is None or self.identity_at(places[user.volume]) not in uncounted
        }
        return VolumeUse(
            users=tuple(sorted({user.words for user in users})),
            machines=frozenset(user.machine for user in users if user.machine is not None),
            unknown=tuple(unknown.words for unknown in self._users.unknown),
        )

    def backs_own_disk(self, pool: Pool, volume: str, machine: str, together: t.Collection[PoolVolume]) -> bool:
        """Whether something of a machine that is not counted (besides) is backed by a volume, and does not go with it.

        together: what goes at the same time.
        """
        tops = {user.top for user in self.users_of(pool, volume) if user.machine == machine and user.top is not None}
        return bool(tops and tops - {self.identity(*going) for going in together})


def require_unused(
    usage: Usage,
    volumes: t.Sequence[PoolVolume],
    *,
    owner: str | None = None,
    besides: str | None = None,
    fresh: bool = False,
) -> None:
    """Raise ConflictError when one of these volumes is used, or when it is not known whether it is.

    They count as going together. owner, besides: as in Usage.of. fresh: they are proven to have been made a moment ago
    for this purpose, by this run or by a killed one, so that only a use that is seen keeps them.
    """
    for pool, volume in volumes:
        use = usage.of(pool, volume, owner=owner, besides=besides, together=volumes)
        kept = why_kept(use, fresh=fresh)
        if kept is None and besides is not None and usage.backs_own_disk(pool, volume, besides, volumes):
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is kept: another disk of machine {besides} is backed by it",
                hint="Detach that one first",
            )
        if kept is not None:
            hint = f"If nothing does: {deletion(pool.name, volume)}"
            raise ConflictError(
                f"volume {volume} of pool {pool.name} is kept: {kept}",
                hint="Detach it there first" if use.state == USED else hint,
            )


def why_kept(use: VolumeUse, *, fresh: bool = False) -> str | None:
    """The reason not to delete a volume, in words; None when it may go. fresh: as in require_unused."""
    if use.state == USED:
        return f"it is used by {', '.join(use.users)}"
    if use.state == UNKNOWN and not fresh:
        return f"it cannot be determined whether something uses it: {'; '.join(use.reasons)}"
    return None


def delete_unused(
    conn: VirConnect,
    volumes: t.Sequence[PoolVolume],
    *,
    owner: str | None = None,
    clearing: str | None = None,
    fresh: bool = False,
    elsewhere: AskElsewhere | None = None,
    deleted: t.Callable[[PoolVolume], None] | None = None,
) -> list[str]:
    """Delete volumes that nothing uses at this moment; the names of those that were there.

    For who holds the lock that keeps others from taking them into use. Nothing is deleted when one of them may not be:
    ConflictError, as of require_unused. One that is not there (any more) is no error. clearing: the machine that goes
    with its volumes; ConflictError while it runs. elsewhere: as in Usage. deleted: is told of each that is gone, also
    where a later one then cannot be deleted.
    """
    there = [(pool, volume) for pool, volume in volumes if volume_exists(pool, volume)]
    if not there:
        return []
    if clearing is not None:
        require_off(conn, clearing)
    require_unused(Usage(conn, elsewhere=elsewhere), there, owner=owner, besides=clearing, fresh=fresh)
    if len(there) > 1:
        for pool, volume in there:
            require_deletable(pool, volume)
    for index, opened in unseen_users(conn, there).items():
        pool, volume = there[index]
        raise ConflictError(
            f"volume {volume} of pool {pool.name} is kept: it is used by {opened}",
            hint="Shut its guest down, from within if libvirt does not know it, or end the process",
        )
    names = []
    for pool, volume in there:
        if delete_volume(pool, volume):
            names.append(volume)
            if deleted is not None:
                deleted((pool, volume))
    return names


def delete_those_unused(
    conn: VirConnect, volumes: t.Sequence[PoolVolume], *, fresh: bool = False, left_by: str | None = None
) -> dict[int, VolumeUse]:
    """Delete those of the volumes that nothing uses at this moment; of the others, by their place in the list, who uses
    them, or may: why_kept says it in words.

    Otherwise as delete_unused; left_by: as in Usage.of. What one that stays is backed by stays as well.
    """
    going = [index for index, (pool, volume) in enumerate(volumes) if volume_exists(pool, volume)]
    kept: dict[int, VolumeUse] = {}
    if not going:
        return kept
    usage = Usage(conn)
    while True:
        together = [volumes[index] for index in going]
        uses = {index: usage.of(*volumes[index], left_by=left_by, together=together) for index in going}
        found = {index: use for index, use in uses.items() if why_kept(use, fresh=fresh) is not None}
        kept.update(found)
        going = [index for index in going if index not in found]
        if not found:
            opened = unseen_users(conn, [volumes[index] for index in going])
            found = {going[number]: VolumeUse((words,)) for number, words in opened.items()}
            kept.update(found)
            going = [index for index in going if index not in found]
        if not found:
            break
    for index in going:
        delete_volume(*volumes[index])
    return kept


def unseen_users(conn: VirConnect, volumes: t.Sequence[PoolVolume]) -> dict[int, str]:
    """What has files of volumes open though no machine that libvirt knows here uses them, in words, by their places in
    the list.

    A daemon of libvirt that was killed may say of a machine that it is off, while its QEMU goes on. Devices and network
    volumes have no locks to tell that by, and of a file of another host nobody here can know.
    """
    files = {}
    for index, (pool, volume) in enumerate(volumes):
        path = _place_of(pool, volume) if pool.source_type == FILE and is_local(conn.getURI()) else None
        if path is not None:
            files[index] = path
    if first_open(tuple(files.values())) is None:
        return {}
    return {
        index: unseen_program(path, shared=shared_because(volumes[index][0]) is not None)
        for index, path in files.items()
        if is_open_in_qemu(path)
    }


def unseen_program(path: str, *, shared: bool = False) -> str:
    """Words for what has a file open. shared: the file is on storage that other hypervisors see as well."""
    word = shlex.quote(path)
    if shared:
        return f"a QEMU program, here (fuser {word} shows it) or on another hypervisor"
    return f"a QEMU program that libvirt does not know of (fuser {word} shows it)"


def require_off(conn: VirConnect, machine: str) -> None:
    """Raise ConflictError when a machine runs or is paused; one that is not there is off."""
    try:
        with translate_errors(f"cannot inspect machine {machine}"):
            active = conn.lookupByName(machine).isActive()
    except NotFoundError:
        return
    if active:
        raise ConflictError(f"machine {machine} is running, and so nothing of it is removed")


def _place_of(pool: Pool, volume: str) -> str | None:
    try:
        return pool.volume_path(volume)
    except NotFoundError:
        return None
