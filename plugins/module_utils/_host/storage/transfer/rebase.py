# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A qcow2 file that is backed by something else, or by nothing, and reads the same for a guest.

It is made beside the old file and takes its place when both read the same: ``qemu-img rebase`` on the file itself
writes the new name into its header while what it has copied need not be on the disk yet, and a power cut there is the
end of the disk. The new file keeps owner, mode, labels and the marks that say whose it is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from ...._base.commands import Answer
from ...._base.errors import ConflictError, HostError, stopped
from ...._base.files import allocated_bytes, file_errors, sync_folder
from ...._base.qemu_img import QCOW2, run_qemu_img
from ...._model.image.qcow2 import BrokenQcow2Error, Header, read_header
from ...images.bitmaps import bitmaps_in
from ...images.files import copy_file
from ...progress import HowFar
from ..disk_lock import ReplacementLock
from ..file_chain import file_id
from ..full_disk import disk_full
from ..volume_facts import volume_file

_SECONDS = 7 * 24 * 3600.0
# With no more than this free, what went wrong is that the disk is full.
_LITTLE_BYTES = 4 * 1024 * 1024
_NO_SPACE = "No space left on device"
OnProgress = Callable[[HowFar], None]


@dataclass(frozen=True)
class Base:
    """What an overlay is backed by: the path of an image file, and its format."""

    path: str
    format: str


def header_of(path: str) -> Header:
    """The header of a qcow2 file of this machine. Raises HostError for anything else."""
    try:
        with volume_file(path) as read:
            header = read_header(read)
    except (OSError, BrokenQcow2Error) as exc:
        raise HostError(f"cannot read {path}: {exc}") from exc
    if header is None:
        raise HostError(f"{path} is not a qcow2 image, although the machine has it as one")
    return header


class RebasedFile:
    """The file that is to take the place of the one at a path, from begin() to end().

    path: of the old one, in which nobody writes meanwhile, and no link. base: what it is to be backed by; None for
    nothing. stop: ends it, with StoppedError.
    """

    def __init__(self, path: str, base: Base | None, stop: threading.Event, on_progress: OnProgress) -> None:
        self._path = path
        self._base = base
        self._stop = stop
        self._on_progress = on_progress
        self._lock = ReplacementLock(path)
        self._new: int | None = None
        self._part = ""

    def begin(self) -> None:
        """Keep every other run, also one on another host, from doing the same. Raises ConflictError, HostError."""
        self._lock.hold()

    def make(self) -> None:
        """Make it, and compare it with the old one. Raises HostError."""
        folder, name = os.path.split(self._path)
        with file_errors(f"cannot write a new {self._path}"):
            self._new, self._part = tempfile.mkstemp(prefix=_part_prefix(name), dir=folder)
            copy_file(self._path, self._new, folder, (), self._copied)
            self._rebase()
            self._settle(self._new)
        self._require_same()

    def put_in_place(self) -> None:
        """Have it be the file from now on, also after a power cut. Raises HostError, ConflictError."""
        with file_errors(f"cannot replace {self._path}"):
            if file_id(self._part) != file_id(self._path_of_new):
                raise ConflictError(f"{self._part} has been replaced by somebody else")
            os.rename(self._part, self._path)
            self._part = ""
            sync_folder(os.path.dirname(self._path))

    def end(self) -> None:
        """Remove what has not been put in its place. What cannot be removed is for the next run."""
        if self._part:
            with contextlib.suppress(OSError):
                os.unlink(self._part)
            self._part = ""
        descriptor, self._new = self._new, None
        if descriptor is not None:
            os.close(descriptor)
        self._lock.release()

    @property
    def _path_of_new(self) -> str:
        """By the descriptor: who may write to the folder could put a link in the place of the name."""
        return f"/proc/{os.getpid()}/fd/{self._new}"

    def _copied(self, phase: str, done_bytes: int, total_bytes: int | None) -> None:
        self._go_on()
        self._on_progress(HowFar(phase, done_bytes, total_bytes))

    def _rebase(self) -> None:
        words = ["-b", ""] if self._base is None else ["-F", self._base.format, "-b", self._base.path]
        answer = run_qemu_img("rebase", QCOW2, *words, self._path_of_new, timeout_seconds=_SECONDS, watch=self._rebased)
        self._require(answer, f"cannot rebase {self._path}")

    def _settle(self, descriptor: int) -> None:
        """Whose it is and what is noted on it, as on the old one; and all of it on the disk."""
        old = os.stat(self._path)
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, old.st_mode & 0o7777)
        # Not every file system has them, and not every one can be set.
        with contextlib.suppress(OSError):
            for name in os.listxattr(self._path):
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(self._path, name))
        os.fsync(descriptor)

    def _require_same(self) -> None:
        header = header_of(self._path_of_new)
        found = None if header.backing_file is None else Base(header.backing_file, header.backing_format or "")
        if found != self._base:
            raise HostError(f"the new {self._path} is backed by {found} after qemu-img has finished, not {self._base}")
        words = ["-F", QCOW2, self._path, self._path_of_new]
        how: dict[str, t.Any] = {"timeout_seconds": _SECONDS, "watch": self._go_on, "on_percent": self._compared}
        answer = run_qemu_img("compare", QCOW2, *words, **how)
        same = answer.status == 0
        if answer.status not in (0, 1):
            self._require(answer, f"cannot compare {self._path} with the new file")
        if same and bitmaps_in(self._path) == bitmaps_in(self._path_of_new):
            return
        # QEMU does not always say what it could not write.
        found_space = os.statvfs(os.path.dirname(self._path))
        if found_space.f_bavail * found_space.f_frsize < _LITTLE_BYTES:
            raise disk_full(f"cannot rebase {self._path}", os.path.dirname(self._path))
        what = "has other bitmaps than" if same else f"does not read as ({answer.complaint})"
        raise HostError(f"the new file {what} {self._path}")

    def _rebased(self) -> None:
        """By what is written: the percentage of qemu-img passes over what is in the file already (QEMU 7.2)."""
        self._go_on()
        self._on_progress(HowFar("rebase", allocated_bytes(self._path_of_new)))

    def _compared(self, percent: float) -> None:
        self._on_progress(HowFar("comparing both", percent=percent))

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise stopped()

    def _require(self, answer: Answer, what: str) -> None:
        if answer.status != 0 and _NO_SPACE in answer.complaint:
            raise disk_full(what, os.path.dirname(self._path))
        answer.require(what)


def _part_prefix(name: str) -> str:
    return f".{name}.rebase-"


def leftovers(path: str) -> list[str]:
    """The files that killed runs may have left beside this one. Whether somebody uses them is another question."""
    folder, name = os.path.split(path)
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_part_prefix(name)) and entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                if facts.st_nlink == 1:
                    found.append(entry.path)
    return sorted(found)


def snapshots_inside(path: str) -> int:
    """How many internal snapshots a qcow2 file has. Raises HostError.

    https://www.qemu.org/docs/master/interop/qcow2.html: nb_snapshots, four bytes from byte 60 on.
    """
    with file_errors(f"cannot read {path}"), volume_file(path) as read:
        return int.from_bytes(read(60, 4), "big")
