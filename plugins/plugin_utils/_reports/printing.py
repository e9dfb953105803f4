# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints from a task, also into a pipe whose reader goes away, such as head, or less that somebody has left.

Ansible prints what the process of a task says in a thread that ends with the first error of its output
(results_thread_main in its plugins/strategy/__init__.py); then nobody takes the task's result, and the run hangs for
ever. So into a pipe goes a little at a time, when there is room for it, and nothing more once nobody reads.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import select
import stat
import time
import typing as t

from ansible.utils.display import Display

# Less than a page of memory, which a pipe that can be written to has room for (pipe(7)).
_PIECE = 2000
# Until Ansible has written a piece; and how often it is looked whether there is room for the next.
_PAUSE_SECONDS, _LOOK_SECONDS = 0.005, 0.2


def print_text(text: str) -> None:
    """A text on Ansible's standard output, as Display does it; what nobody reads is left out."""
    parent = multiprocessing.parent_process()
    pipe = None if parent is None else Pipe.at(f"/proc/{parent.pid}/fd/1")
    if pipe is None:
        Display().display(text)
        return
    with pipe:
        for piece in pieces(text):
            if not pipe.has_reader():
                break
            Display().display(piece)
            time.sleep(_PAUSE_SECONDS)


def pieces(text: str) -> t.Iterator[str]:
    """The text in pieces of whole lines, each without its last line break."""
    lines: list[str] = []
    length = 0
    for line in text.split("\n"):
        if lines and length + len(line) > _PIECE:
            yield "\n".join(lines)
            lines, length = [], 0
        lines.append(line)
        length += len(line) + 1
    yield "\n".join(lines)


class Pipe:
    """The end of a pipe that is written to."""

    def __init__(self, descriptor: int | None) -> None:
        """descriptor: None for a pipe without a reader."""
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Pipe | None:
        """The pipe at a path; None for what is none, and where that cannot be told, as without /proc."""
        try:
            if not stat.S_ISFIFO(os.stat(path).st_mode):
                return None
            # Without a reader it cannot be opened so: fifo(7).
            return cls(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as exc:
            return cls(None) if exc.errno == errno.ENXIO else None

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def has_reader(self) -> bool:
        """Whether somebody reads it; comes back when there is room in it."""
        if self._descriptor is None:
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while True:
            events = [event for _descriptor, event in poll.poll(_LOOK_SECONDS * 1000)]
            if any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for event in events):
                return False
            if events:
                return True
