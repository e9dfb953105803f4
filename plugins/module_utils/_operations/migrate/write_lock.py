# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that nobody may write to while they are copied, and a machine that has to stay off meanwhile."""

from __future__ import annotations

from ..._base.errors import ConflictError, HostError, VirtError
from ..._host.connection import VirConnect
from ..._host.machines.start_watch import StartWatch
from ..._host.storage.disk_lock import DiskLock
from .endpoints.location import is_active
from .endpoints.source_and_target import SourceMachine

_AGAIN = "Nothing was changed here. Run it again"


class WriteGuard:
    """From the first copy to the switch: what was copied is what the machine has.

    A machine that runs may have disks that are copied as files too: those for its next start, and read-only ones.
    """

    def __init__(self, machine: SourceMachine, conn: VirConnect) -> None:
        self._machine = machine
        self._conn = conn
        self._disks: dict[str, DiskLock] = {}
        self._watch: StartWatch | None = None

    def begin(self, path: str) -> None:
        """Before a disk is copied. Raises ConflictError when the machine is on, or somebody writes to the disk."""
        if not self._machine.active and self._watch is None:
            self._watch = StartWatch(self._conn, self._machine.handle)
        disk = self._disks.setdefault(path, DiskLock(path))
        disk.hold()
        self._require_off("was started before its disks were copied")

    def check(self) -> None:
        """Before the switch. Raises ConflictError when a disk may have changed since it was copied."""
        self._require_off("was started while its disks were being copied")
        name = self._machine.name
        if self._watch is not None:
            started = self._watch.was_started()
            if started is None:
                raise HostError(
                    f"libvirt's daemon stopped while the disks of {name} were being copied, so it is "
                    "unknown whether it was started in the meantime",
                    hint=_AGAIN,
                )
            if started:
                raise ConflictError(
                    f"{name} was started, and stopped again, while its disks were being copied: the copies are out "
                    "of date",
                    hint=_AGAIN,
                )
        for disk in self._disks.values():
            try:
                disk.check()
            except VirtError as exc:
                raise type(exc)(f"{exc.what}, so the copy is out of date", hint=_AGAIN) from exc

    def end(self) -> None:
        """Let go of all; may be called twice."""
        for disk in self._disks.values():
            disk.release()
        if self._watch is not None:
            self._watch.close()

    def _require_off(self, words: str) -> None:
        if not self._machine.active and is_active(self._machine.handle):
            raise ConflictError(
                f"{self._machine.name} {words}, and runs here", hint="Run it again: it is then moved while it runs"
            )
