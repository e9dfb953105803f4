# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image files on a local file system: hash, copy, and put into place whole or not at all. No libvirt."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
import typing as t
from dataclasses import dataclass

from ..._base.errors import HostError
from ..._base.files import LockTimeout, lock_descriptor, sync_folder
from ..._model.image.name import STORED_MODE
from ..._model.spec.fields.units import format_size
from ..storage.full_disk import disk_full
from .stream import HashedContent, ProgressCallback, copy_stream, file_chunks, no_progress, with_progress

PART_PREFIX = ".brine-part-"
# Beside the lock of the directory; see locked_directory.
LOCK_FILE = ".brine-lock"
_NO_SUCH_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)

# What a stream of unknown length leaves free on a file system: this much, or this part of a small one.
_RESERVE_BYTES = 1024**3
_RESERVE_PART = 50
# How much may be written between two checks of the space.
_LOOK_BYTES = 16 * 1024 * 1024
# ioctl_ficlone(2): share all blocks of one file with another.
_FICLONE = 0x40049409


class Deadline:
    """A point in time that a piece of work must not go beyond."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """The seconds that are left, or zero."""
        return max(0.0, self._end - time.monotonic())


@contextlib.contextmanager
def disk_errors(what: str, directory: str | None = None, needed_bytes: int | None = None) -> t.Iterator[None]:
    """Inside the block, an error of the file system is raised as HostError; what: what was being done, in words.

    directory: what is written to, for the error of a full file system, and how much there is to write in all.
    """
    try:
        yield
    except OSError as exc:
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        if full and directory is not None:
            raise disk_full(what, directory, needed_bytes) from exc
        hint = "Free some space, or choose another pool" if full else None
        raise HostError(f"{what}: {exc.strerror or exc}", hint=hint) from exc


def chunks_with_progress(source: t.BinaryIO, on_progress: ProgressCallback, phase: str) -> t.Iterator[bytes]:
    """All bytes of an open file, with word of how far they are."""
    return with_progress(file_chunks(source), on_progress, phase, os.fstat(source.fileno()).st_size)


def hash_file(
    path: str, algorithms: t.Iterable[str] = (), on_progress: ProgressCallback = no_progress
) -> HashedContent:
    """The content of a file by sha256 and the other algorithms asked for. Raises HostError when it cannot be read."""
    with disk_errors(f"cannot read {path}"), open(path, "rb") as source:
        return copy_stream(chunks_with_progress(source, on_progress, "checksum"), None, algorithms)


def copy_file(
    source_path: str,
    target_fd: int,
    target_directory: str,
    algorithms: t.Iterable[str] = (),
    on_progress: ProgressCallback = no_progress,
) -> HashedContent:
    """Bring all of a file into an empty one: shared blocks where the file system can, else a copy with its holes kept.

    The content is that of what stands in the target afterwards. Raises HostError when it cannot be read or has no
    space.
    """
    what = f"cannot copy {source_path} to {target_directory}"
    with disk_errors(what, target_directory), open(source_path, "rb") as source:
        if _share_blocks(source.fileno(), target_fd):
            with open(target_fd, "rb", closefd=False) as target:
                return copy_stream(chunks_with_progress(target, on_progress, "checksum"), None, algorithms)
        require_free_disk_space(target_directory, os.fstat(source.fileno()).st_blocks * 512, source_path)
        return copy_stream(chunks_with_progress(source, on_progress, "copy"), target_fd, algorithms)


def _share_blocks(source_fd: int, target_fd: int) -> bool:
    try:
        fcntl.ioctl(target_fd, _FICLONE, source_fd)
    except OSError:
        # Another file system, or one that cannot: what is left is to copy.
        return False
    return True


def require_free_disk_space(directory: str, needed_bytes: int, what: str) -> None:
    """Raises HostError when a file of this size would fill the file system, which would stop the machines on it."""
    free_bytes, _all_bytes = _space(directory)
    if needed_bytes > free_bytes:
        raise HostError(
            f"{what} needs {format_size(needed_bytes)} in {directory}, and {format_size(free_bytes)} are free",
            hint="Free some space, or choose another pool",
        )


def _space(directory: str) -> tuple[int, int]:
    """The bytes that are free in a file system, and those that it has in all."""
    with disk_errors(f"cannot inspect {directory}"):
        file_system = os.statvfs(directory)
    return file_system.f_bavail * file_system.f_frsize, file_system.f_blocks * file_system.f_frsize


class FreeSpaceGuard:
    """Watches the space of a file system while a stream of unknown length is written to it.

    A full disk stops the machines on it, and a small compressed file can hold as much as anybody likes.
    """

    def __init__(self, directory: str, what: str) -> None:
        self._directory = directory
        self._what = what
        self._unseen_bytes = _LOOK_BYTES

    def wrote(self, size_bytes: int) -> None:
        """To be told before so much is written. Raises HostError when there is too little space left."""
        self._unseen_bytes += size_bytes
        if self._unseen_bytes < _LOOK_BYTES:
            return
        self._unseen_bytes = 0
        free_bytes, all_bytes = _space(self._directory)
        if free_bytes < min(_RESERVE_BYTES, all_bytes // _RESERVE_PART) + _LOOK_BYTES:
            raise HostError(
                f"{self._what} needs more free space than there is in {self._directory}: only "
                f"{format_size(free_bytes)} are still free",
                hint="Free some space, or choose another pool",
            )


@contextlib.contextmanager
def locked_directory(path: str, deadline: Deadline, *, shared: bool = False) -> t.Iterator[None]:
    """The directory is this process's alone, among all that ask, for the block. A killed process holds no lock.

    shared: other hosts may see the directory. The lock of a directory is not theirs on NFS, nor where user space serves
    it (nfs_dir_operations in fs/nfs/dir.c and fuse_dir_operations in fs/fuse/dir.c of Linux have no flock), but that of
    a file is. Raises HostError when another process has it until the deadline.
    """
    with contextlib.ExitStack() as held:
        with disk_errors(f"cannot lock {path}"):
            _lock(held, path, os.O_RDONLY | os.O_DIRECTORY, path, deadline)
            if shared:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                try:
                    _lock(held, os.path.join(path, LOCK_FILE), flags, path, deadline)
                except OSError as exc:
                    # A mount without locks: those of other hosts cannot be seen then.
                    if exc.errno not in _NO_SUCH_LOCKS:
                        raise
        yield


def _lock(held: contextlib.ExitStack, name: str, flags: int, directory: str, deadline: Deadline) -> None:
    lock_fd = os.open(name, flags | os.O_CLOEXEC, 0o600)
    held.callback(os.close, lock_fd)
    try:
        lock_descriptor(lock_fd, deadline.left)
    except LockTimeout as exc:
        raise HostError(
            f"another run is working on the images in {directory}, and did not finish within {deadline.seconds:g} s"
        ) from exc


def clear_parts(path: str) -> list[str]:
    """Remove what killed runs left in the directory; only for who holds its lock. Gives the names back."""
    cleared = []
    with disk_errors(f"cannot clean up {path}"):
        for name in sorted(os.listdir(path)):
            if name.startswith(PART_PREFIX):
                os.unlink(os.path.join(path, name))
                cleared.append(name)
    return cleared


@dataclass(frozen=True)
class PartialFile:
    """A file that is not yet in its place."""

    path: str
    fd: int


@contextlib.contextmanager
def partial_file(directory: str) -> t.Iterator[PartialFile]:
    """A new, empty file in the directory for the block; gone afterwards unless it was published."""
    with disk_errors(f"cannot write to {directory}"):
        fd, path = tempfile.mkstemp(prefix=PART_PREFIX, dir=directory)
    try:
        yield PartialFile(path, fd)
    finally:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def publish(part: PartialFile, final_path: str, mode: int = STORED_MODE) -> None:
    """Give a complete part its name, read-only and safe on the disk. For who holds the lock and saw the name free."""
    with disk_errors(f"cannot store {final_path}"):
        os.fchmod(part.fd, mode)
        os.fsync(part.fd)
        os.rename(part.path, final_path)
        sync_folder(os.path.dirname(final_path))


def link_image(path: str, final_path: str) -> bool:
    """Give a stored image another name in its directory, a hard link, safe on the disk; False where that cannot be.

    Images are never written to, and each name is deleted by itself.
    """
    try:
        os.link(path, final_path, follow_symlinks=False)
    except OSError:
        # The name is taken, the file has too many, or a file system without links.
        return False
    with disk_errors(f"cannot store {final_path}"):
        sync_folder(os.path.dirname(final_path))
    return True
