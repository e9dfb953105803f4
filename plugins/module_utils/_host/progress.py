# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a long piece of work is: in lines that a person can follow, and in a file of them, for the action plugin that
reads it meanwhile.

A module's own output reaches the controller only when the module has ended. The lines hold names and figures, nothing
secret: the user of the connection, who need not be root, reads them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t
from dataclasses import dataclass

from .._base.xml import MIB
from .._model.spec.fields.units import format_size

# What the action plugin calls the path, which it sends beside the module's options.
PROGRESS_FILE = "_progress_file"
# Nothing is said of what is over before anybody would ask.
QUIET_SECONDS = 3.0
# A line comes every two seconds at first. What takes long is told less often, or an hour would fill the screen.
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 30.0
_LINES_FOR_ALL_TIME_SO_FAR = 30
# A line without a figure has less to say.
_STILL_SECONDS = 10.0
# More names than that are counted.
_MOST_NAMES = 6
# Bytes per second. An end that is reckoned from less would be in years.
_CRAWL = 1024


class ProgressFile:
    """Lines appended to a file that is made for this run. Without a path nothing is written, and nobody need ask; nor
    is it where the file cannot be made: the disk is full, somebody else has made one. The work itself goes on."""

    def __init__(self, path: str | None) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None
        if path is None:
            return
        with contextlib.suppress(OSError):
            # Not over anything that is there, and through no link: the folder is anybody's.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o644)
            os.fchmod(self._file, 0o644)

    @property
    def is_read(self) -> bool:
        """Whether anybody may read the lines."""
        return self._file is not None

    def write_line(self, line: str) -> None:
        """Append one line. A disk that is full must not end the work itself."""
        with self._lock, contextlib.suppress(OSError):
            if self._file is not None:
                os.write(self._file, (" ".join(line.split()) + "\n").encode(errors="replace"))


@contextlib.contextmanager
def progress_file(path: str | None) -> t.Iterator[ProgressFile]:
    """The file for the block; it is removed after it, if this run has made it."""
    file = ProgressFile(path)
    try:
        yield file
    finally:
        if path is not None and file.is_read:
            with contextlib.suppress(OSError):
                os.unlink(path)


@dataclass(frozen=True)
class HowFar:
    """Where some work is. phase: what it is at. done_bytes, total_bytes: None where nobody can tell. percent: where
    that is known instead."""

    phase: str
    done_bytes: int | None = None
    total_bytes: int | None = None
    percent: float | None = None


class ProgressMeter:
    """Says at fitting times how much of a transfer is done, how fast it goes and when it will end.

    write_line: takes each line. subject: what is under way (``web1``), until turn_to. clock: seconds, for tests.
    """

    def __init__(
        self,
        write_line: t.Callable[[str], t.Any],
        subject: str,
        *,
        quiet_seconds: float = QUIET_SECONDS,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._write_line = write_line
        self._subject = subject
        self._clock = clock
        self._began = clock()
        self._turned = self._began
        self._next = self._began + quiet_seconds
        self._phase: str | None = ""
        self._seen: tuple[float, float] = (self._began, 0)
        self._rate = 0.0

    def turn_to(self, subject: str) -> None:
        """Go on with something else, whose time and rate begin now. The next line comes no sooner for that."""
        self._subject, self._phase, self._turned = subject, None, self._clock()

    def still(self, phase: str = "") -> None:
        """The work goes on, and nobody can tell how far it is. phase: what it is at, if known. It never fails."""
        with contextlib.suppress(Exception):
            now = self._clock()
            # What comes with figures afterwards is measured from then on.
            self._phase = None
            if self._is_due(now, _STILL_SECONDS):
                so_far = f"{format_seconds(now - self._turned)} so far"
                self._write_line(f"{self._subject}: {f'{phase}, ' if phase else ''}{so_far}")

    def at(self, phase: str, done_bytes: int, total_bytes: int | None) -> None:
        """Where the transfer is now. total_bytes: None where nobody knows; it may grow on the way. It never fails."""
        with contextlib.suppress(Exception):
            self._at(phase, done_bytes, total_bytes)

    def at_percent(self, phase: str, percent: float) -> None:
        """Where the work is now, where its bytes are not known. It never fails."""
        with contextlib.suppress(Exception):
            now = self._clock()
            self._enter(phase, now, percent)
            if self._is_due(now):
                # By all of the phase: who tells percents tells whole ones, which may be minutes apart.
                began, first = self._seen
                seconds_each = (now - began) / (percent - first) if percent > first else None
                left = "" if seconds_each is None else f", about {format_seconds((100 - percent) * seconds_each)} left"
                self._write_line(f"{self._subject}: {phase} {min(100, int(percent))}%{left}")

    def show(self, far: HowFar) -> None:
        """The same by what somebody else has found out. It never fails."""
        if far.percent is not None:
            self.at_percent(far.phase, far.percent)
        elif far.done_bytes is not None:
            self.at(far.phase, far.done_bytes, far.total_bytes)
        else:
            self.still(far.phase)

    def counter(self, phase: str, total_bytes: int) -> t.Callable[[int], None]:
        """What is told of each piece of a transfer that is done, by its bytes, and has the meter say where it is."""
        done_bytes = 0

        def add(length: int) -> None:
            nonlocal done_bytes
            done_bytes += length
            self.at(phase, done_bytes, total_bytes)

        return add

    def _at(self, phase: str, done_bytes: int, total_bytes: int | None) -> None:
        now = self._clock()
        self._enter(phase, now, done_bytes)
        if not self._is_due(now):
            return
        self._measure(now, done_bytes)
        self._write_line(describe(self._subject, phase, done_bytes, total_bytes, self._rate))

    def _enter(self, phase: str, now: float, done: float) -> None:
        if phase != self._phase:
            self._phase, self._seen, self._rate = phase, (now, done), 0.0

    def _is_due(self, now: float, least_seconds: float = _LEAST_SECONDS) -> bool:
        """Whether a line is to be written now; the next one comes in a while then."""
        if now < self._next:
            return False
        self._next = now + min(_MOST_SECONDS, max(least_seconds, (now - self._began) / _LINES_FOR_ALL_TIME_SO_FAR))
        return True

    def _measure(self, now: float, done_bytes: int) -> None:
        """The rate, smoothed: what has come since the last line counts as much as all before it."""
        seconds = now - self._seen[0]
        if seconds > 0:
            fresh = max(0, done_bytes - self._seen[1]) / seconds
            self._rate = fresh if self._rate == 0 else (self._rate + fresh) / 2
            self._seen = (now, done_bytes)


def describe(subject: str, phase: str, done_bytes: int, total_bytes: int | None, bytes_per_second: float) -> str:
    """One line: ``web1: disks 43%, 1.2G of 2.8G, 95 MiB/s, about 17 s left``."""
    if total_bytes:
        done_bytes = min(done_bytes, total_bytes)
        parts = [f"{100 * done_bytes // total_bytes}%", f"{format_size(done_bytes)} of {format_size(total_bytes)}"]
    else:
        parts = [format_size(done_bytes)]
    if 0 < bytes_per_second < _CRAWL:
        parts.append("stalled")
    elif bytes_per_second > 0:
        rate = bytes_per_second / MIB
        parts.append(f"{rate:.0f} MiB/s" if rate >= 100 else f"{rate:.3g} MiB/s")
        if total_bytes:
            parts.append(f"about {format_seconds((total_bytes - done_bytes) / bytes_per_second)} left")
    return f"{subject}: {phase} {', '.join(parts)}"


def some_of(names: t.Sequence[str]) -> str:
    """The names, of many only the first ones: ``web1, web2, web3, web4, web5, web6 and 12 more``."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def format_seconds(seconds: float) -> str:
    """A length of time in the two greatest words that it has: ``17 s``, ``4 min 10 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
