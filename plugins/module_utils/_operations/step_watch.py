# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What machines are at while they are worked on, told every few seconds to whoever waits.

A step is mostly one call of libvirt's, which comes back when all is done. So a thread beside it looks how far it is,
where somebody can tell, and says otherwise for how long it has been at work. Progress is a comfort: whatever goes wrong
with it is passed over.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from .._host.progress import QUIET_SECONDS, HowFar, ProgressFile, ProgressMeter, some_of
from .plan import Step

_LOOK_SECONDS = 1.0
# So long the end of a look is waited for; one that hangs is left behind.
_WAIT_SECONDS = 3.0
# So often in a row may a look fail before it is given up: each may leave an error in libvirt's log.
_TRIES = 3
# Of more machines at once a line has their names only.
_MOST_STEPS = 3


@dataclass
class _Work:
    words: str
    look: Callable[[], t.Any] | None
    failures: int = 0

    def how_far(self) -> HowFar | None:
        if self.look is None or self.failures >= _TRIES:
            return None
        try:
            far = self.look()
            if far is not None and not isinstance(far, HowFar):
                raise TypeError(f"{far!r} does not say how far it is")
        except Exception:  # noqa: BLE001 - nobody can tell then
            self.failures += 1
            return None
        self.failures = 0
        return far


def _steps_of(at_work: Mapping[str, Step]) -> str:
    """The steps of a few machines, the names of many; with how far they are, where they tell a percentage."""
    percents = {name: _percent_of(step) for name, step in at_work.items()}
    if len(at_work) <= _MOST_STEPS:
        return "; ".join(f"{step.description}{percents[name]}" for name, step in at_work.items())
    # Who can tell comes first, as not all are named.
    names = sorted(at_work, key=lambda name: not percents[name])
    return some_of([f"{name}{percents[name]}" for name in names])


def _percent_of(step: Step) -> str:
    """In words: `` 43%``, or nothing."""
    with contextlib.suppress(Exception):
        far = None if step.look is None else step.look()
        if isinstance(far, HowFar) and far.percent is not None:
            return f" {int(far.percent)}%"
    return ""


class StepWatch:
    """Tells what a machine is at, or several, during the block.

    progress: takes the lines; if nobody reads it, nobody looks.
    """

    def __init__(self, progress: ProgressFile) -> None:
        self._progress = progress
        self._work: _Work | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def turn_to(self, words: str, look: Callable[[], t.Any] | None = None) -> None:
        """From now on the machine is at this. words: with its name; look: as in Step."""
        self._work = _Work(words, look)

    def wait_for(self, words: str, at_work: Collection[str], without: str) -> None:
        """From now on these machines are at this, which others change meanwhile; without: the words for none."""
        self.turn_to(words, lambda: HowFar(some_of(list(at_work)) or without))

    def follow(self, words: str, at_work: Mapping[str, Step]) -> None:
        """From now on these machines are at these steps, by their names, which others change meanwhile."""
        self.turn_to(words, lambda: HowFar(_steps_of(dict(at_work))))

    def apply(self, step: Step) -> None:
        """Apply a step, and tell of it meanwhile. Raises what it raises."""
        self.turn_to(step.description, step.look)
        step.apply()

    def __enter__(self) -> StepWatch:
        if self._progress.is_read:
            thread = threading.Thread(target=self._run, name="progress", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # No more threads here.
                return self
            self._thread = thread
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)

    def _run(self) -> None:
        meter = ProgressMeter(self._progress.write_line, "", quiet_seconds=QUIET_SECONDS)
        told: _Work | None = None
        while not self._over.wait(_LOOK_SECONDS):
            work = self._work
            if work is None:
                continue
            if work is not told:
                meter.turn_to(work.words)
                told = work
                # A job that has only just begun does not let anybody look yet.
                continue
            far = work.how_far()
            # The look may have taken longer than the work.
            if work is not self._work or self._over.is_set():
                continue
            if far is None:
                meter.still()
            else:
                meter.show(far)
