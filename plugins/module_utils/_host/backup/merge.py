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
import functools
import os
import threading
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._base.errors import HostError, InputError, VirtError, stopped
from ..._base.files import allocated_bytes, root_hint, sync_folder, write_whole
from ..._base.qemu_img import QCOW2
from ..._model.backup.manifest import MANIFEST, DiskEntry, FileEntry, Manifest, MergedForm
from ..._model.backup.manifest_text import manifest_to_text
from ..backup import directory, images
from ..images.files import copy_file
from ..progress import ProgressMeter
from ..storage.full_disk import free_in
from .directory import Backups
from .verify import check_image, digest_file, problem_of

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
    meter: ProgressMeter | None = None,
    just_before: t.Callable[[], None] = lambda: None,
) -> Manifest:
    """Have a backup be built on an older one of its chain, or on none; its content stays as it is.

    The chain has been verified, and the lock of the directory is held. onto: the older one, None for none. meter: says
    how far it is. just_before: called before its files are replaced; what it raises ends the merge. Returns what the
    backup is now. Nothing that it needed may be removed before that. Raises VirtError; then the backup is what it was,
    or end_merge has to be called.
    """
    meter = meter or _silent(name)
    manifest = backups.by_id[name]
    # Just before QEMU follows the names in there.
    problem = problem_of(backups, manifest)
    if problem is not None:
        raise problem
    if manifest.merging:
        raise HostError(f"the merge of backup {name} in {backups.path} was interrupted, and cannot be ended")
    chain = backups.chain(name)
    if onto is not None and onto not in [one.id for one in chain[1:]]:
        raise InputError(f"backup {name} in {backups.path} is not built on {onto}")
    folder = ""
    try:
        with _system_errors(backups, name):
            folder = directory.begin_merge(backups.path, name)
            old = backups.path_of(name)
            making = _Making(old, folder, onto, stop, meter, f"merge {name}", needed_bytes(backups, chain, onto))
            disks = tuple(_new_form(disk, making) for disk in manifest.disks)
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


@dataclass(frozen=True)
class _Making:
    """How the new files of a backup are made. old, folder: where the old ones are, and where the new ones go. what: is
    done, in the lines of progress. needed: bytes that the new files take at most."""

    old: str
    folder: str
    onto: str | None
    stop: threading.Event
    meter: ProgressMeter
    what: str
    needed: int

    def written(self, length: int) -> None:
        """A new file takes so much of its disk by now."""
        self.meter.at(self.what, length, self.needed)


def _new_form(disk: DiskEntry, making: _Making) -> DiskEntry:
    """The new file of a disk, made, on the disk, and compared with the old one. Raises VirtError, OSError."""
    if disk.backing is None:
        return disk
    folder, onto, stop, meter, what = making.folder, making.onto, making.stop, making.meter, making.what
    source, target = f"{making.old}/{disk.file}", f"{folder}/{disk.file}"
    if onto is None:
        images.convert(source, QCOW2, target, stop, making.written)
    else:
        _copy(source, target, making)
        images.move_to_backing(folder, disk.file, onto, stop, making.written)
    images.settle(target)
    check_image(folder, replace(disk, backing=onto))
    compared = functools.partial(meter.at_percent, f"{what}, comparing disk {disk.target}")
    if not images.same_content(source, target, QCOW2, stop, compared):
        if free_in(folder) < _LITTLE_BYTES:
            raise images.full(f"cannot write {target}", folder)
        raise HostError(f"{target} does not read as {source}, which it was made of")
    return replace(disk, merged=MergedForm(onto, _digest(folder, disk, stop, meter, what)))


def _copy(source: str, target: str, making: _Making) -> None:
    def watch(_phase: str, done_bytes: int, _total_bytes: int | None) -> None:
        if making.stop.is_set():
            raise stopped()
        making.written(done_bytes)

    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        copy_file(source, descriptor, making.folder, on_progress=watch)
    finally:
        os.close(descriptor)


def _digest(folder: str, disk: DiskEntry, stop: threading.Event, meter: ProgressMeter, what: str) -> FileEntry:
    length = os.lstat(f"{folder}/{disk.file}").st_size
    return digest_file(folder, disk.file, stop, meter.counter(f"{what}, checksum of disk {disk.target}", length))


def _silent(name: str) -> ProgressMeter:
    return ProgressMeter(lambda _line: None, name)


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


def end_merge(
    backups: Backups, manifest: Manifest, stop: threading.Event, meter: ProgressMeter | None = None
) -> Manifest:
    """Bring the interrupted merge of a backup to its end, or, where its new files are gone, back to its beginning.

    The lock of the directory is held. meter: says how far it is. Returns what the backup is now. Raises VirtError; then
    it is as it was, which can be verified and restored as well.
    """
    home, meter = backups.path_of(manifest.id), meter or _silent(manifest.id)
    folder = f"{backups.path}/{directory.merge_folder(manifest.id)}"
    what = f"end of merge {manifest.id}"
    with _system_errors(backups, manifest.id):
        if not os.path.lexists(folder):
            directory.begin_merge(backups.path, manifest.id)
        placed, ready = [], []
        for disk in manifest.disks:
            if disk.merged is None:
                continue
            if _has(home, disk, stop, meter, what):
                placed.append(disk.file)
            elif _has(folder, disk, stop, meter, what):
                ready.append(disk.file)
        if len(placed) + len(ready) == sum(disk.merged is not None for disk in manifest.disks):
            return _finish(backups, manifest, folder, ready)
        if placed:
            raise HostError(
                f"some files of the interrupted merge of backup {manifest.id} in {backups.path} are damaged or gone, "
                "so that it still needs what it was built on"
            )
        return _conclude(backups, manifest.before_merge(), folder)


def _has(folder: str, disk: DiskEntry, stop: threading.Event, meter: ProgressMeter, what: str) -> bool:
    """Whether the new file of a disk is in a directory. Raises HostError for one that cannot be read."""
    if disk.merged is None or not os.path.lexists(f"{folder}/{disk.file}"):
        return False
    return _digest(folder, disk, stop, meter, what) == disk.merged.entry


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
