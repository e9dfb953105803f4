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
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer, run_program
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, stopped
from ansible_collections.brine.virt.plugins.module_utils._base.files import sync_folder
from ansible_collections.brine.virt.plugins.module_utils._base.qemu_img import QCOW2, run_qemu_img
from ansible_collections.brine.virt.plugins.module_utils._host.storage.full_disk import disk_full
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import volume_file
from ansible_collections.brine.virt.plugins.module_utils._model.image.qcow2 import BrokenQcow2Error, Header, read_header

_SECONDS = 7 * 24 * 3600.0
_BLOCK_BYTES = 512
_NO_SPACE = "No space left on device"
# Phase, and the bytes that it has written so far.
OnProgress = Callable[[str, int], None]


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
        raise HostError(f"{path} is no qcow2 image, although the machine has it as one")
    return header


class RebasedFile:
    """The file that is to take the place of the one at a path, from make() to put_in_place() or remove().

    path: of the old one, in which nobody writes meanwhile, and no link. base: what it is to be backed by; None for
    nothing. stop: ends it, with StoppedError.
    """

    def __init__(self, path: str, base: Base | None, stop: threading.Event, on_progress: OnProgress) -> None:
        folder, name = os.path.split(path)
        self._path = path
        # Always the same one: the next run finds what a killed one has left.
        self.part = os.path.join(folder, f".{name}.rebase")
        self._base = base
        self._stop = stop
        self._on_progress = on_progress

    def make(self) -> None:
        """Make it, and compare it with the old one. Raises HostError; there may be something to remove then."""
        self.remove()
        try:
            self._copy()
            self._rebase()
            self._settle()
        except OSError as exc:
            raise HostError(f"cannot write {self.part}: {exc.strerror}") from exc
        self._require_same()

    def put_in_place(self) -> None:
        """Have it be the file from now on, also after a power cut. Raises HostError."""
        try:
            os.rename(self.part, self._path)
            sync_folder(os.path.dirname(self._path))
        except OSError as exc:
            raise HostError(f"cannot replace {self._path}: {exc.strerror}") from exc

    def remove(self) -> None:
        """Remove it, unless it is in its place. Raises HostError."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.part)
        except OSError as exc:
            raise HostError(f"cannot remove {self.part}: {exc.strerror}") from exc

    def _copy(self) -> None:
        os.close(os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # It shares the blocks where the file system can, and leaves the holes.
        command = ["cp", "--reflink=auto", "--sparse=always", "--", self._path, self.part]
        answer = run_program(command, timeout_seconds=_SECONDS, watch=self._watch("copy"))
        self._require(answer, f"cannot copy {self._path}")

    def _rebase(self) -> None:
        words = ["-b", ""] if self._base is None else ["-F", self._base.format, "-b", self._base.path]
        answer = run_qemu_img("rebase", QCOW2, *words, self.part, timeout_seconds=_SECONDS, watch=self._watch("rebase"))
        self._require(answer, f"cannot rebase {self._path}")

    def _settle(self) -> None:
        """Whose it is and what is noted on it, as on the old one; and all of it on the disk."""
        old = os.stat(self._path)
        descriptor = os.open(self.part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
            # Not every file system has them, and not every one can be set.
            with contextlib.suppress(OSError):
                for name in os.listxattr(self._path):
                    with contextlib.suppress(OSError):
                        os.setxattr(descriptor, name, os.getxattr(self._path, name))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _require_same(self) -> None:
        header = header_of(self.part)
        found = None if header.backing_file is None else Base(header.backing_file, header.backing_format or "")
        if found != self._base:
            raise HostError(f"{self.part} is backed by {found} after qemu-img has finished, not by {self._base}")
        words = ["-F", QCOW2, self._path, self.part]
        answer = run_qemu_img(
            "compare", QCOW2, *words, timeout_seconds=_SECONDS, watch=self._watch("comparing both, with")
        )
        if answer.status == 1:
            raise HostError(f"the new file does not read as {self._path} does: {answer.complaint}")
        self._require(answer, f"cannot compare {self._path} with the new file")

    def _watch(self, phase: str) -> Callable[[], None]:
        def watch() -> None:
            if self._stop.is_set():
                raise stopped()
            self._on_progress(phase, allocated_bytes(self.part))

        return watch

    def _require(self, answer: Answer, what: str) -> None:
        if answer.status == 0:
            return
        if _NO_SPACE in answer.complaint:
            raise disk_full(what, os.path.dirname(self._path))
        raise HostError(f"{what}: {answer.complaint}")


def allocated_bytes(path: str) -> int:
    """What a file takes of its disk; nothing for one that is not there."""
    try:
        return os.stat(path).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


def snapshots_inside(path: str) -> int:
    """How many internal snapshots a qcow2 file has. Raises HostError.

    https://www.qemu.org/docs/master/interop/qcow2.html: nb_snapshots, four bytes from byte 60 on.
    """
    try:
        with volume_file(path) as read:
            return int.from_bytes(read(60, 4), "big")
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}") from exc
