# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows how far a module is while it runs: an action plugin's second look over its own connection.

Each look is one small command beside the running module. Progress is a comfort: whatever goes wrong with it is passed
over, and the module goes on.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import typing as t
import uuid

from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

_LOOK_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
# So often in a row may a look fail before nobody looks any more.
_TRIES = 3
_LONGEST_LINE = 300


def new_progress_path() -> str:
    """Where on the host a module may write its progress; nobody else knows the name beforehand."""
    return f"/tmp/.brine-virt-progress-{uuid.uuid4().hex}"


def show(line: str) -> None:
    """One line of progress in the play's output."""
    Display().display(f"  {line}", color="bright blue")


def show_of(host: str | None) -> t.Callable[[str], None]:
    """The same for work that many hosts do at once: each line begins with the host."""
    return lambda line: show(f"{host}: {line}" if host else line)


@contextlib.contextmanager
def follow(connection: ConnectionBase, path: str, host: str | None = None) -> t.Iterator[None]:
    """During the block, show the lines that a module writes to a file on its host; with the host's name, if given."""
    with every(_LOOK_SECONDS, _Reader(connection, path, show_of(host)).look):
        yield


@contextlib.contextmanager
def follow_size(connection: ConnectionBase, path: str, tell: t.Callable[[int], t.Any]) -> t.Iterator[None]:
    """During the block, tell how many bytes a file on the host has."""

    def look() -> None:
        command = f"stat -c %s -- {shlex.quote(path)} 2>/dev/null || true"
        _status, output, _errors = connection.exec_command(command, in_data=None, sudoable=False)
        size = bytes(output).strip()
        # Nothing has come yet, or the shell says more than it was asked for.
        if size.isdigit():
            tell(int(size))

    with every(_LOOK_SECONDS, look):
        yield


@contextlib.contextmanager
def every(seconds: float, look: t.Callable[[], t.Any]) -> t.Iterator[None]:
    """During the block, call ``look`` again and again in a thread beside it, until it fails too often."""
    over = threading.Event()

    def run() -> None:
        failures = 0
        while not over.wait(seconds) and failures < _TRIES:
            try:
                look()
                failures = 0
            except Exception:  # a look that fails, in whatever way, is not to disturb what it looks at
                failures += 1

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_PATIENCE_SECONDS)


class _Reader:
    """Reads what has come to a file since the last look."""

    def __init__(self, connection: ConnectionBase, path: str, display: t.Callable[[str], t.Any]) -> None:
        self._connection = connection
        self._path = path
        self._display = display
        self._read_bytes = 0

    def look(self) -> None:
        # From a process of its own, as every command; the file is not there before the module has begun.
        command = f"tail -c +{self._read_bytes + 1} -- {shlex.quote(self._path)} 2>/dev/null || true"
        _status, output, _errors = self._connection.exec_command(command, in_data=None, sudoable=False)
        whole = bytes(output).rpartition(b"\n")[0]
        if not whole:
            return
        self._read_bytes += len(whole) + 1
        for line in whole.decode(errors="replace").splitlines():
            self._display("".join(letter for letter in line if letter.isprintable())[:_LONGEST_LINE])
