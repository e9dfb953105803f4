# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup that comes to be built on an older one than before, or on none, so that those between can be removed.

It keeps its name and those of its files, so that what is built on it needs no change. The new files are made in a
directory of their own and compared with the old ones. Then the manifest says of each file both what it is and what it
is to be; the new files take their places one by one; and the manifest says the new alone. Killed at any point, the
backup is one that can be verified and restored, and needs no more than before. What it was built on stays meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ..._base.errors import HostError, InputError, VirtError, stopped
from ..._base.files import allocated_bytes, root_hint, sync_folder, write_whole
from ..._base.qemu_img import QCOW2
from ..._model.backup.manifest import MANIFEST, DiskEntry, Manifest, MergedForm
from ..._model.backup.manifest_text import manifest_to_text
from ..backup import directory, images
from ..images.files import copy_file
from ..storage.full_disk import free_in
from .directory import Backups
from .verify import OnBytes, check_image, digest_file, nothing, problem_of

# With no more than this free, what went wrong is that the disk is full: QEMU does not always say so.
_LITTLE_BYTES = 4 * 1024 * 1024


def needed_bytes(backups: Backups, chain: Sequence[Manifest], onto: str | None) -> int:
    """What the new files of a merge take at most, in bytes.

    chain: the backup that is merged, and those that it needs, itself first; what is not there yet counts as nothing.
    onto: the one of them that it is to be built on, None for none.
    """
    between = [backups.path_of(manifest.id) for manifest in chain if onto is None or manifest.id > onto]
    return sum(
        min(disk.size_bytes, sum(allocated_bytes(f"{path}/{disk.file}") for path in between))
        for disk in chain[0].disks
        if disk.backing is not None
    )


def require_free(what: str, path: str, bytes_needed: int, free_bytes: int | None = None) -> None:
    """Raise HostError when a directory has no room for so many bytes. what: what could not be done then.

    free_bytes: how many are free there; None for what the file system says now.
    """
    if free_bytes is None:
        free_bytes = free_in(path)
    if bytes_needed > free_bytes:
        raise images.full(what, path, bytes_needed)


def merge_backup(
    backups: Backups,
    name: str,
    onto: str | None,
    stop: threading.Event,
    on_bytes: OnBytes = nothing,
    just_before: t.Callable[[], None] = lambda: None,
) -> Manifest:
    """Have a backup be built on an older one of its chain, or on none; its content stays as it is.

    The chain has been verified, and the lock of the directory is held. onto: the older one, None for none. on_bytes:
    called with what each new file takes of its disk so far. just_before: called before its files are replaced; what it
    raises ends the merge. Returns what the backup is now. Nothing that it needed may be removed before that. Raises
    VirtError; then the backup is what it was, or end_merge has to be called.
    """
    manifest = backups.by_id[name]
    # Just before QEMU follows the names in there.
    problem = problem_of(backups, manifest)
    if problem is not None:
        raise problem
    if manifest.merging:
        raise HostError(f"the merge of backup {name} in {backups.path} was interrupted, and cannot be ended")
    if onto is not None and onto not in [one.id for one in backups.chain(name)[1:]]:
        raise InputError(f"backup {name} in {backups.path} is not built on {onto}")
    folder = ""
    try:
        with _system_errors(backups, name):
            folder = directory.begin_merge(backups.path, name)
            old = backups.path_of(name)
            disks = tuple(_new_form(old, folder, disk, onto, stop, on_bytes) for disk in manifest.disks)
            begun = replace(manifest, disks=disks)
            _draft_manifest(folder, begun)
    except BaseException:
        with contextlib.suppress(VirtError):
            if folder:
                directory.remove(backups.path, os.path.basename(folder))
        raise
    try:
        # Reading and comparing may have taken hours.
        just_before()
    except BaseException:
        with contextlib.suppress(VirtError):
            directory.remove(backups.path, os.path.basename(folder))
        raise
    with _system_errors(backups, name):
        _place_manifest(folder, old)
        return _finish(backups, begun, folder, [disk.file for disk in disks if disk.merged is not None])


def _new_form(
    old: str, folder: str, disk: DiskEntry, onto: str | None, stop: threading.Event, on_bytes: OnBytes
) -> DiskEntry:
    """The new file of a disk, made, on the disk, and compared with the old one. Raises VirtError, OSError."""
    if disk.backing is None:
        return disk
    source, target = f"{old}/{disk.file}", f"{folder}/{disk.file}"
    if onto is None:
        images.convert(source, QCOW2, target, stop, on_bytes)
    else:
        _copy(source, target, folder, stop)
        images.move_to_backing(folder, disk.file, onto, stop, on_bytes)
    images.settle(target)
    check_image(folder, replace(disk, backing=onto))
    if not images.same_content(source, target, QCOW2, stop):
        if free_in(folder) < _LITTLE_BYTES:
            raise images.full(f"cannot write {target}", folder)
        raise HostError(f"{target} does not read as {source}, which it was made of")
    return replace(disk, merged=MergedForm(onto, digest_file(folder, disk.file, stop)))


def _copy(source: str, target: str, folder: str, stop: threading.Event) -> None:
    def watch(*_how_far: t.Any) -> None:
        if stop.is_set():
            raise stopped()

    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        copy_file(source, descriptor, folder, on_progress=watch)
    finally:
        os.close(descriptor)


def _draft_manifest(folder: str, manifest: Manifest) -> None:
    """Write what a backup is to say of itself; outside of it, so that a kill leaves nothing foreign in there."""
    write_whole(f"{folder}/{MANIFEST}", manifest_to_text(manifest).encode(), 0o600)


def _place_manifest(folder: str, home: str) -> None:
    """Have a backup say this from now on, also after a power cut. Raises OSError."""
    os.rename(f"{folder}/{MANIFEST}", f"{home}/{MANIFEST}")
    sync_folder(home)


def _finish(backups: Backups, begun: Manifest, folder: str, files: Sequence[str]) -> Manifest:
    """Put the new files that are in this directory in their places, and remove it. Raises VirtError, OSError."""
    home = backups.path_of(begun.id)
    for file in files:
        os.rename(f"{folder}/{file}", f"{home}/{file}")
    sync_folder(home)
    return _conclude(backups, begun.after_merge(), folder)


def _conclude(backups: Backups, manifest: Manifest, folder: str) -> Manifest:
    """Have a backup say one form alone, and remove the directory of its merge. Raises VirtError, OSError."""
    _draft_manifest(folder, manifest)
    _place_manifest(folder, backups.path_of(manifest.id))
    directory.remove(backups.path, os.path.basename(folder))
    return manifest


def end_merge(backups: Backups, manifest: Manifest, stop: threading.Event) -> Manifest:
    """Bring the interrupted merge of a backup to its end, or, where its new files are gone, back to its beginning.

    The lock of the directory is held. Returns what the backup is now. Raises VirtError; then it is as it was, which can
    be verified and restored as well.
    """
    home = backups.path_of(manifest.id)
    folder = f"{backups.path}/{directory.merge_folder(manifest.id)}"
    with _system_errors(backups, manifest.id):
        if not os.path.lexists(folder):
            directory.begin_merge(backups.path, manifest.id)
        placed, ready = [], []
        for disk in manifest.disks:
            if disk.merged is None:
                continue
            if _has(home, disk, stop):
                placed.append(disk.file)
            elif _has(folder, disk, stop):
                ready.append(disk.file)
        if len(placed) + len(ready) == sum(disk.merged is not None for disk in manifest.disks):
            return _finish(backups, manifest, folder, ready)
        if placed:
            raise HostError(
                f"some files of the interrupted merge of backup {manifest.id} in {backups.path} are damaged or gone, "
                "so that it still needs what it was built on"
            )
        return _conclude(backups, manifest.before_merge(), folder)


def _has(folder: str, disk: DiskEntry, stop: threading.Event) -> bool:
    """Whether the new file of a disk is in a directory. Raises HostError for one that cannot be read."""
    if disk.merged is None or not os.path.lexists(f"{folder}/{disk.file}"):
        return False
    return digest_file(folder, disk.file, stop) == disk.merged.entry


@contextlib.contextmanager
def _system_errors(backups: Backups, name: str) -> t.Iterator[None]:
    """An error of the system in the block, in words that say what was being done."""
    try:
        yield
    except OSError as exc:
        what = f"cannot merge backup {name} in {backups.path}"
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise images.full(what, backups.path) from exc
        raise HostError(f"{what}: {exc.strerror}", hint=root_hint(exc)) from exc
