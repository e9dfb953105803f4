# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move that is planned, and what all moves of a task have in common."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, HostError, stopped
from ..._host.locks import hypervisor_lock
from ..._host.machines.migration import DISKS
from ..._model.metadata.migration import MigrationNote, VolumeIdentity, VolumeRef
from ..hypervisor_view import HypervisorView
from ..plan import Step
from .endpoints.location import Endpoints, set_autostart, write_note
from .endpoints.options import MigrationOptions
from .endpoints.source_and_target import MigrationTarget
from .storage.disks import MIRROR, DiskMigration

# Who waits for another run looks as often whether it is to stop.
_LOOK_SECONDS = 1.0
ProgressCallback = t.Callable[[str, int, int], t.Any]
# What libvirt calls its figures of a migration that has ended, and we in the result.
_FIGURES = {
    "time_elapsed": "duration_ms",
    "downtime": "downtime_ms",
    "memory_processed": "memory_bytes",
    "disk_processed": "disk_bytes",
}


@dataclass
class MigrationPlan:
    """A planned move. before: steps up to and with the switch; after: what is left to do then, never rolled back.

    recheck: raises an error of ours when what the plan is based on has changed. release: gives back what the move
    holds while it lasts. switched: libvirt has moved the machine, and nothing is rolled back from then on; nor where
    nobody knows whether it has (undecided).
    figures: what libvirt says of a move that has ended; measure asks for it. mirrored_bytes: how much of its disks was
    to be copied while it ran, as far as it was seen. kept: volumes that were to be deleted and were not, and those that
    are none of its disks any more, in sentences. switched_words: what has happened when it is switched, after the
    machine's name.
    timeout_hint: what helps against the time limit. waiting: is told every second while another run keeps the last step
    from beginning, with True the first time.
    """

    name: str
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    disks: Sequence[DiskMigration] = ()
    figures: dict[str, t.Any] = field(default_factory=dict)
    mirrored_bytes: int = 0
    kept: list[str] = field(default_factory=list)
    timeout_seconds: float | None = None
    began: float | None = None
    switched: bool = False
    undecided: bool = False
    switched_words: str = ""
    timeout_hint: str = "Raise timeout, or allow postcopy"
    recheck: t.Callable[[], None] = lambda: None
    release: t.Callable[[], None] = lambda: None
    waiting: t.Callable[[bool], None] = lambda _first: None
    measure: t.Callable[[], dict[str, t.Any]] = dict

    @property
    def actions(self) -> list[str]:
        """What is done, in words."""
        return [step.description for step in (*self.before, *self.after)]

    def left_seconds(self) -> float | None:
        """What is left of the time limit, which begins with the first step; None without a limit."""
        if self.timeout_seconds is None:
            return None
        return self.timeout_seconds - (time.monotonic() - (self.began or time.monotonic()))

    def timed_out(self) -> HostError:
        """The error of a migration that took longer than its limit."""
        words = f"it did not finish within {self.timeout_seconds or 0:g} s"
        return HostError(words, hint=self.timeout_hint)

    def limit(self, on_progress: ProgressCallback) -> ProgressCallback:
        """The same callback, which ends a copy of ours when the time is up."""

        def limited(phase: str, done: int, total: int) -> None:
            on_progress(phase, done, total)
            left = self.left_seconds()
            if left is not None and left <= 0:
                raise self.timed_out()

        return limited

    def noted(self, on_progress: ProgressCallback) -> ProgressCallback:
        """The same callback, which notes how much of the disks libvirt has to copy."""

        def noted(phase: str, done: int, total: int) -> None:
            if phase == DISKS:
                self.mirrored_bytes = max(self.mirrored_bytes, total)
            on_progress(phase, done, total)

        return noted

    def figures_from(self, stats: Mapping[str, t.Any]) -> dict[str, t.Any]:
        """libvirt's figures of a move that has ended, in the words of the result.

        They leave out disks that QEMU has mirrored: what was seen of these counts, and if nothing was, it is not known.
        """
        found = {ours: stats[theirs] for theirs, ours in _FIGURES.items() if theirs in stats}
        if any(disk.method == MIRROR for disk in self.disks) and not found.get("disk_bytes"):
            found.pop("disk_bytes", None)
            if self.mirrored_bytes:
                found["disk_bytes"] = self.mirrored_bytes
        return found


@contextlib.contextmanager
def hold_hypervisor(migration: MigrationPlan, stop: threading.Event) -> t.Iterator[None]:
    """Hold the lock of those who change machines for the block, after a wait as long as the move's own limit allows.

    Another run may have it for an hour, to merge large snapshots. Until then QEMU keeps the copies of the disks up to
    date, or nobody may write to what was copied: to give up would throw away what took hours.
    Raises ConflictError when the time is up, StoppedError when the task is to stop, HostError as hypervisor_lock does.
    """
    first = True
    with contextlib.ExitStack() as held:
        while True:
            left = migration.left_seconds()
            wait_seconds = _LOOK_SECONDS if left is None else max(0.0, min(_LOOK_SECONDS, left))
            try:
                held.enter_context(hypervisor_lock("init", wait_seconds=wait_seconds))
                break
            except ConflictError as exc:
                if left is not None and left <= wait_seconds:
                    raise ConflictError(
                        f"{migration.timed_out().what}, as another run is at work on this hypervisor", hint=exc.hint
                    ) from exc
                if stop.is_set():
                    raise stopped() from exc
                migration.waiting(first)
                first = False
        yield


@dataclass(frozen=True)
class MigrationContext:
    """What all migrations of a task from one hypervisor to another have in common."""

    endpoints: Endpoints
    source: HypervisorView
    source_name: str
    target: MigrationTarget
    options: MigrationOptions
    stop: threading.Event
    check_mode: bool = False


class NoteWriter:
    """The note of one move: what stands in the machine's metadata, and what comes to be known while it lasts."""

    def __init__(self, note: MigrationNote) -> None:
        self.note = note
        self._named: set[VolumeRef] = set()

    def begin(self, domain: t.Any, left: t.Iterable[VolumeRef], mark: str) -> None:
        """Write it, with what tells the volumes at the source, and the mark that those on the target will get."""
        made = tuple(dataclasses.replace(ref, identity=VolumeIdentity(mark)) for ref in self.note.made)
        self.note = dataclasses.replace(self.note, left=tuple(left), made=made)
        write_note(domain, self.note)

    def keep_only(self, refs: t.Collection[VolumeRef]) -> None:
        """Before it is begun: only these volumes are made after all."""
        self.note = self.note_of(refs)

    def know(self, domain: t.Any, ref: VolumeRef, identity: VolumeIdentity) -> None:
        """What tells a volume on the target from now on."""
        made = tuple(dataclasses.replace(r, identity=identity) if r == ref else r for r in self.note.made)
        changed = [r.identity for r in made] != [r.identity for r in self.note.made]
        self.note = dataclasses.replace(self.note, made=made)
        if identity == VolumeIdentity():
            self._named.discard(ref)
        else:
            self._named.add(ref)
        if changed:
            write_note(domain, self.note)

    def pivots(self, domain: t.Any, ref: VolumeRef) -> None:
        """Before the running machine is asked to go on with a volume: nobody may see how that ends.

        Until somebody has seen it, it does not start with its hypervisor, which would start it on the old volume.
        """
        self._set_pivot(domain, [ref], f"{time.time():.3f}")
        if self.note.autostart:
            set_autostart(domain, False)

    def cancelled(self, domain: t.Any, refs: t.Collection[VolumeRef]) -> None:
        """The machine has stayed where it was: libvirt says that it has cancelled these copies."""
        if any(ref.pivot for ref in self.note.made if ref in refs):
            self.switched(domain)
            self._set_pivot(domain, refs, "")

    def switched(self, domain: t.Any) -> None:
        """Its definition names the volumes that it has, and it may start with its hypervisor again."""
        if self.note.autostart:
            set_autostart(domain, True)

    def _set_pivot(self, domain: t.Any, refs: t.Collection[VolumeRef], pivot: str) -> None:
        made = tuple(dataclasses.replace(ref, pivot=pivot) if ref in refs else ref for ref in self.note.made)
        self.note = dataclasses.replace(self.note, made=made)
        write_note(domain, self.note)

    def forget(self, ref: VolumeRef) -> None:
        """Its mark is about to be written over."""
        self._named.discard(ref)

    def note_of(self, made: t.Collection[VolumeRef]) -> MigrationNote:
        """The note as it is now, with only these volumes on the target."""
        return dataclasses.replace(self.note, made=tuple(ref for ref in self.note.made if ref in made))

    @property
    def unmarked(self) -> list[VolumeRef]:
        """The volumes of this move that nothing tells but their names: those that this run itself has to vouch for."""
        return [ref for ref in self.note.made if ref not in self._named]
