# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that nobody may write to for a while, because it is being copied; and one that a single run may replace.

Two means together. QEMU's own lock on image files keeps every QEMU from opening the disk for writing: a machine with it
cannot be started, and says that somebody else has the lock. The kernel lets go of it when this process dies. And what
the file says of its last change tells of everybody who does not ask for that lock. The same two tell whether a file
was written to that a machine is not said to be on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Sequence

from ..._base.errors import ConflictError, HostError
from ..._base.files import file_errors
from ..._base.qemu_img import FORMATS, QCOW2, run_qemu_img
from ..._model.image.qcow2 import BrokenQcow2Error, read_header

# QEMU's locks are single bytes, one for each thing that somebody does (from 100 on) and one for each that somebody
# cannot bear others to do (from 200 on); all of them are shared locks, and what others have is tested for.
# Numbers: https://gitlab.com/qemu-project/qemu/-/blob/master/block/file-posix.c (RAW_LOCK_PERM_BASE), and the bits of
# BLK_PERM_WRITE and BLK_PERM_RESIZE in include/block/block-common.h
_WRITE, _RESIZE = 1, 3
_DOING, _UNBEARABLE = 100, 200
# Whatever QEMU does with an image; all that it has so far are fewer.
_ALL = 64
# Of ReplacementLock, far from QEMU's.
_REPLACING = 300
# struct flock of 64-bit Linux: type, whence, start, length, process
_FLOCK = "hhqqi4x"
# How long QEMU may take to close what libvirt has just told it to.
_CLOSE_SECONDS = 10.0
_LOOK_SECONDS = 0.25
# While one file is merged into another, a guest that writes has both written to.
_MARGIN_SECONDS = 1.0
_COMPARE_SECONDS = 6 * 3600
_NO_SUCH_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class _Opened:
    """A file that is open from hold() to release()."""

    _descriptor: int | None = None

    def release(self) -> None:
        """End; may be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class DiskLock(_Opened):
    """A file or block device that is held from hold() to release().

    Raises ConflictError when somebody is writing to it at the time, HostError when it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen: tuple[int, ...] = ()

    def hold(self) -> None:
        """Begin. From now on no QEMU opens the disk for writing, and nobody else does so unseen."""
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._lock(self._descriptor)
            self._seen = _state(os.fstat(self._descriptor))
        except OSError as exc:
            self.release()
            raise HostError(f"cannot read {self.path}: {exc.strerror}") from exc
        except ConflictError:
            self.release()
            raise

    def check(self) -> None:
        """Raise ConflictError when somebody has changed the disk since it is held, or put another in its place."""
        with file_errors(f"cannot inspect {self.path}"):
            now = _state(os.stat(self.path))
        if now != self._seen:
            raise ConflictError(f"{self.path} was changed while it was being copied")

    def _lock(self, descriptor: int) -> None:
        try:
            for what in (_WRITE, _RESIZE):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_RDLCK, _UNBEARABLE + what))
            for what in (_WRITE, _RESIZE):
                found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, _DOING + what))
                if struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK:
                    raise ConflictError(
                        f"a machine, or another QEMU program, has {self.path} open for writing",
                        hint="Wait until it ends, or stop it; fuser shows its process",
                    )
        except OSError as exc:
            # A file system without such locks. Then QEMU takes none either, and the file's own times have to tell.
            if exc.errno not in _NO_SUCH_LOCKS:
                raise


class ReplacementLock(_Opened):
    """The one run, on any host, that makes the file of a disk anew to put the new one in its place. QEMU does not mind.

    Raises ConflictError while another run does so, and HostError when the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def hold(self) -> None:
        """Begin. path is no link."""
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._lock(self._descriptor)
            held, there = os.fstat(self._descriptor), os.stat(self._path)
        except OSError as exc:
            self.release()
            raise HostError(f"cannot lock {self._path}: {exc.strerror}") from exc
        if (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
            # The lock is on the file that another run has just replaced.
            self.release()
            raise ConflictError(f"{self._path} was replaced a moment ago", hint="Run it again")

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, _REPLACING))
        except OSError as exc:
            if exc.errno in (errno.EAGAIN, errno.EACCES):
                self.release()
                raise ConflictError(f"another run is at work on {self._path}", hint="Wait for it to end") from exc
            if exc.errno not in _NO_SUCH_LOCKS:
                raise


def is_open_in_qemu(path: str) -> bool:
    """Whether a QEMU has a file open, be it only to read it, whatever libvirt says. False where there is no file.

    Not for devices: libvirt gives each QEMU device nodes of its own, and locks on those are seen by nobody else. Raises
    HostError when the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}") from exc
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, _DOING, _ALL))
    except OSError as exc:
        if exc.errno not in _NO_SUCH_LOCKS:
            raise
        return False
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)


def first_open(paths: Sequence[str], wait_seconds: float = _CLOSE_SECONDS) -> str | None:
    """The first of these files that a QEMU has open, as is_open_in_qemu; None when none has, at the latest by then.

    libvirt may have told one to close a file a moment ago.
    """
    end = time.monotonic() + wait_seconds
    while True:
        opened = next((path for path in paths if is_open_in_qemu(path)), None)
        if opened is None or time.monotonic() > end:
            return opened
        time.sleep(_LOOK_SECONDS)


def has_newer_below(file: str, below: str, below_format: str, *, devices: bool = True) -> bool:
    """Whether the file below was written to after the one that is to be merged into it, and they differ.

    devices: whether a device below is compared, whose times tell nothing. Raises OSError, and VirtError of qemu-img.
    """
    upper, lower = os.stat(file), os.stat(below)
    if stat.S_ISREG(lower.st_mode):
        if lower.st_mtime <= upper.st_mtime + _MARGIN_SECONDS:
            return False
    elif not devices:
        return False
    return run_qemu_img("compare", QCOW2, "-F", below_format, file, below, timeout_seconds=_COMPARE_SECONDS).status != 0


def newer_below(file: str) -> str | None:
    """The file that a qcow2 file is backed by, where has_newer_below says so of it; None for anything else. Raises
    VirtError of qemu-img."""
    try:
        below, below_format = _backing(file)
        if below is None or below_format not in FORMATS:
            return None
        return below if has_newer_below(file, below, below_format, devices=False) else None
    except (OSError, BrokenQcow2Error):
        return None


def is_backed_by(file: str, below: str) -> bool:
    """Whether a qcow2 file is an overlay of the other. True of one that is there and that nobody can read, as on an NFS
    server that makes nobody of root."""
    try:
        found = _backing(file)[0]
    except (OSError, BrokenQcow2Error):
        return os.path.exists(file)
    return found is not None and os.path.realpath(found) == os.path.realpath(below)


def _backing(file: str) -> tuple[str | None, str | None]:
    """The file that a qcow2 file is backed by, and its format. Raises OSError and BrokenQcow2Error."""
    with open(file, "rb") as image:
        header = read_header(lambda offset, length: os.pread(image.fileno(), length, offset))
    if header is None or header.backing_file is None:
        return None, None
    return os.path.join(os.path.dirname(file), header.backing_file), header.backing_format


def has_content(file: str) -> bool:
    """Whether a qcow2 file has anything beside what backs it. False for anything else, and where there is none; True
    where nobody can tell."""
    try:
        with open(file, "rb") as image:
            header = read_header(lambda offset, length: os.pread(image.fileno(), length, offset))
            # Of its first table, each entry leads to one that says where something is.
            table = b"" if header is None else os.pread(image.fileno(), 8 * header.l1_entries, header.l1_offset)
    except FileNotFoundError:
        return False
    except (OSError, BrokenQcow2Error):
        return True
    return bool(table.strip(b"\0"))


def _flock(kind: int, byte: int, length: int = 1) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, byte, length, 0)


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What changes whenever a file's content does.

    Its owner is left out: libvirt gives the file to QEMU, and takes it back, at a start that fails for the lock. The
    times of a device's node tell nothing of its content.
    """
    if stat.S_ISBLK(found.st_mode):
        return (found.st_rdev,)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
