# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored images that go: those that nothing uses, or one by name. Never one that something uses."""

from __future__ import annotations

import contextlib
import os
import typing as t
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, VirtError, with_done
from ..._model.image.name import ImageName, newest_first, parse_image_volume
from ..._model.metadata.machine import VolumeNote
from ..._model.xml.disk_source import FILE
from ..connection import VirConnect
from ..images import files as image_files
from ..locks import LOCK_DIR, hypervisor_lock
from ..storage.pool_refresh import refresh_pool
from ..storage.pools import Pool, Pools
from ..storage.proof import by_hand
from ..storage.shared_pools import seen_elsewhere, shared_because
from ..storage.usage import Usage, unseen_users
from ..storage.volumes import delete_volume, volume_names
from .clustered import clear_parts, delete_image, not_brought, stored_seconds, users_in_cluster
from .files import Deadline
from .inspection import is_brought
from .listing import RECENT_SECONDS, store_pool, stored_at, stored_names, used_lately

OTHER_HYPERVISOR = "another hypervisor"
ASK_THE_OTHERS = "Ask all hypervisors that share the pool, and list what they return as used_here in used_elsewhere"
_RECENT = (
    f"it has come or been taken into use in the last {RECENT_SECONDS // 60} minutes, "
    "perhaps after the others were asked"
)
_FOREIGN = "nothing shows that it is an image which was brought there: it only has the name of one"
# What virt_init holds from its first look at the store until its machines use what it saw there.
_MACHINES_LOCK = "init"


@dataclass(frozen=True)
class PruneDecision:
    """What becomes of an image: it goes, unless there is a reason to keep it."""

    image: ImageName
    size_bytes: int | None
    users: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def goes(self) -> bool:
        """Whether it is removed."""
        return self.reason is None


@dataclass(frozen=True)
class PruneResult:
    """One look at the store: all of its volumes that are images, what becomes of those in question; blocked: some stay
    because of what was not seen, and unseen says what that is; shared: that is what other hypervisors use. used_here:
    the volumes in question, listed by libvirt or not, that something here uses, or may use."""

    before: tuple[str, ...]
    decisions: tuple[PruneDecision, ...]
    unseen: tuple[str, ...]
    blocked: bool = False
    shared: bool = False
    used_here: tuple[str, ...] = ()

    @property
    def gone(self) -> tuple[str, ...]:
        """The volumes that go."""
        return tuple(decision.image.volume for decision in self.decisions if decision.goes)


@dataclass(frozen=True)
class PruneOptions:
    """What may be removed.

    keep: how many of the newest images of each name stay in any case. ignore_unseen: whether to go on where users may
    be that cannot be seen on this hypervisor. used_elsewhere: the volumes that other hypervisors use; None when they
    were not asked.
    """

    keep: int
    ignore_unseen: bool
    used_elsewhere: frozenset[str] | None = None


@dataclass(frozen=True)
class _Use:
    """users: in words, by the image's volume. unseen: what keeps all of them, after what the user knows of it; shared:
    that machines of other hypervisors may use them is among it. foreign: what only has the name of an image. recent:
    what others may have begun to use after they were asked. here: what something on this hypervisor uses, or all of
    them where something that cannot be seen here may use them."""

    users: dict[str, tuple[str, ...]]
    unseen: tuple[str, ...]
    shared: bool
    foreign: frozenset[str] = frozenset()
    recent: frozenset[str] = frozenset()
    here: tuple[str, ...] = ()


def prune_images(
    conn: VirConnect,
    pool_name: str,
    name: str | None,
    prune_options: PruneOptions,
    deadline: Deadline,
    *,
    check_mode: bool,
) -> PruneResult:
    """Remove the images that nothing uses, of one name or of all; in check mode only say which.

    Raises the errors of store_pool, and HostError or ConflictError when another run is not done at the deadline.
    """
    pool = _pool(conn, pool_name)
    with _alone(pool, deadline, check_mode=check_mode):
        images = stored_names(pool)
        chosen = [image for image in images if name in (None, image.name)]
        use = _use(conn, pool, chosen, prune_options, read_only=check_mode)
        decisions = tuple(_decide(pool, chosen, use, prune_options))
        blocked = any(decision.reason == _words(use) for decision in decisions)
        if not check_mode:
            decisions = _carry_out_all(pool, decisions, prune_options)
        return PruneResult(_volumes(images), decisions, use.unseen, blocked, use.shared, use.here)


def remove_images(
    conn: VirConnect,
    pool_name: str,
    name_or_volume: str,
    prune_options: PruneOptions,
    deadline: Deadline,
    *,
    check_mode: bool,
) -> PruneResult:
    """Remove the image of this volume name, or else all of this plain name; none if one of them is used.

    Raises ConflictError that names the users, and what prune_images raises.
    """
    pool = _pool(conn, pool_name)
    with _alone(pool, deadline, check_mode=check_mode):
        images = stored_names(pool)
        chosen = [image for image in images if image.volume == name_or_volume]
        chosen = chosen or [image for image in images if image.name == name_or_volume]
        use = _use(conn, pool, chosen, prune_options, read_only=check_mode)
        for image in chosen:
            if use.users[image.volume]:
                raise ConflictError(
                    f"image {image.volume} is used by {', '.join(use.users[image.volume])}",
                    where="name",
                    hint="Remove these first",
                )
            if image.volume in use.foreign:
                raise ConflictError(
                    f"volume {image.volume} of pool {pool.name} is kept: {_FOREIGN}",
                    where="name",
                    hint=by_hand(VolumeNote(pool.name, image.volume, "disk")),
                )
            if image.volume in use.recent:
                raise _recent_error(image)
        if chosen and use.unseen:
            raise ConflictError(
                f"image {chosen[0].volume} may be in use where that cannot be checked: {_words(use)}",
                where="name",
                hint=ASK_THE_OTHERS if use.shared else "Make it possible to check, or set ignore_unseen: true",
            )
        decisions = tuple(PruneDecision(image, _size(pool, image)) for image in chosen)
        if not check_mode:
            _carry_out_all(pool, decisions, prune_options, must_go=True)
        return PruneResult(_volumes(images), decisions, use.unseen)


def _pool(conn: VirConnect, name: str) -> Pool:
    """The pool that images are in: that of a store, or one that clones images."""
    pool = Pools(conn).get(name, "pool")
    return pool if pool.clones_images else store_pool(conn, name)


@contextlib.contextmanager
def _alone(pool: Pool, deadline: Deadline, *, check_mode: bool) -> t.Iterator[None]:
    """No machine is being made and no image is being brought during the block; in check mode, as it comes."""
    if check_mode:
        yield
        return
    machines_lock = hypervisor_lock(_MACHINES_LOCK, wait_seconds=deadline.seconds, lock_dir=LOCK_DIR)
    if pool.clones_images:
        # Nobody can lock a cluster, and nobody need: it refuses to delete what has a clone, or is open.
        clear_parts(pool)
        with machines_lock:
            yield
        return
    shared = shared_because(pool) is not None
    # Another run, on another hypervisor perhaps, may download into it for long, which no machine here is to wait for.
    with image_files.locked_directory(pool.path, deadline, shared=shared), machines_lock:
        if image_files.clear_parts(pool.path):
            refresh_pool(pool.handle, pool.name)
        yield


def _use(
    conn: VirConnect, pool: Pool, images: t.Sequence[ImageName], prune_options: PruneOptions, *, read_only: bool
) -> _Use:
    """Who uses these images. read_only: as for is_brought."""
    usage, there = Usage(conn), prune_options.used_elsewhere
    elsewhere = seen_elsewhere(pool) if there is None else None
    doubt = [] if prune_options.ignore_unseen else [unknown.words for unknown in usage.unknown]
    unseen = doubt if images else []
    in_cluster = users_in_cluster(pool, _volumes(images)) if pool.clones_images else {}
    users = {
        image.volume: (
            *usage.of(pool, image.volume).users,
            *in_cluster.get(image.volume, ()),
            *([OTHER_HYPERVISOR] if image.volume in (there or ()) else []),
        )
        for image in images
    }
    unused = [image.volume for image in images if not users[image.volume]]
    for index, words in unseen_users(conn, [(pool, volume) for volume in unused]).items():
        users[unused[index]] = (words,)
    if pool.clones_images:
        foreign = not_brought(pool, _volumes(images))
    else:
        # Of what is used nobody need know: it stays, and is counted. To note what was found would be a change of the
        # file, as is its use on another hypervisor.
        read_only = read_only or there is not None
        foreign = frozenset(
            image.volume
            for image in images
            if not users[image.volume]
            and not is_brought(pool.volume_path(image.volume), image.digest, read_only=read_only)
        )
    recent = frozenset(image.volume for image in images if _is_recent(pool, image, prune_options))
    asked = {**{volume: usage.of(pool, volume).users for volume in _unlisted(pool)}, **users}
    here = tuple(volume for volume in asked if doubt or set(asked[volume]) - {OTHER_HYPERVISOR})
    return _Use(users, (*unseen, *filter(None, [elsewhere])), elsewhere is not None, foreign, recent, here)


def _unlisted(pool: Pool) -> list[str]:
    """Images that another hypervisor has brought to the directory since libvirt here last looked into it."""
    if pool.source_type != FILE:
        return []
    with contextlib.suppress(OSError):
        there = {name for name in os.listdir(pool.path) if parse_image_volume(name) is not None}
        return sorted(there - volume_names(pool))
    return []


def _decide(
    pool: Pool, images: t.Sequence[ImageName], use: _Use, prune_options: PruneOptions
) -> t.Iterator[PruneDecision]:
    newest = _newest(pool, [image for image in images if image.volume not in use.foreign], prune_options.keep)
    for image in images:
        users = use.users[image.volume]
        reason = None
        if users:
            reason = f"used by {', '.join(users)}"
        elif image.volume in use.foreign:
            reason = _FOREIGN
        elif image in newest:
            reason = (
                "the newest of its name"
                if prune_options.keep == 1
                else f"one of the {prune_options.keep} newest of its name"
            )
        elif image.volume in use.recent:
            reason = _RECENT
        elif use.unseen:
            reason = _words(use)
        yield PruneDecision(image, _size(pool, image), users, reason)


def _words(use: _Use) -> str:
    return "; ".join(use.unseen)


def _newest(pool: Pool, images: t.Sequence[ImageName], keep: int) -> set[ImageName]:
    """The images that came last under each name; when, says the time of their files."""
    ages = stored_seconds(pool, _volumes(images)) if pool.clones_images else None
    ordered = newest_first(images, lambda image: stored_at(pool, image) if ages is None else ages.get(image.volume, 0))
    newest = set()
    for name in {image.name for image in images}:
        newest.update([image for image in ordered if image.name == name][:keep])
    return newest


def _size(pool: Pool, image: ImageName) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(pool.volume_path(image.volume)).st_size
    return None


def _volumes(images: t.Sequence[ImageName]) -> tuple[str, ...]:
    return tuple(image.volume for image in images)


def _is_recent(pool: Pool, image: ImageName, prune_options: PruneOptions) -> bool:
    """Whether others may have begun to use it after they were asked."""
    asked = prune_options.used_elsewhere is not None
    return asked and pool.source_type == FILE and used_lately(pool.volume_path(image.volume))


def _recent_error(image: ImageName) -> ConflictError:
    return ConflictError(f"image {image.volume} is kept: {_RECENT}", where="name", hint="Ask them again later")


def _carry_out_all(
    pool: Pool, decisions: t.Sequence[PruneDecision], prune_options: PruneOptions, *, must_go: bool = False
) -> tuple[PruneDecision, ...]:
    """Remove those that go. An error says which are gone by then; must_go: one that stays after all is one."""
    found: list[PruneDecision] = []
    for decision in decisions:
        try:
            carried = _carry_out(pool, decision, prune_options)
            if must_go and not carried.goes:
                raise _recent_error(decision.image)
        except VirtError as exc:
            raise with_done(exc, [f"remove image {one.image.volume}" for one in found if one.goes]) from exc
        found.append(carried)
    return tuple(found)


def _carry_out(pool: Pool, decision: PruneDecision, prune_options: PruneOptions) -> PruneDecision:
    """Remove the image if it goes, and give back what has become of it: to delete those before it takes time."""
    image = decision.image
    if decision.goes and _is_recent(pool, image, prune_options):
        return replace(decision, reason=_RECENT)
    if decision.goes and pool.clones_images:
        delete_image(pool, image.volume)
    elif decision.goes:
        delete_volume(pool, image.volume)
    return decision
