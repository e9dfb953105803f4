# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows how far a module is while it runs: an action plugin's second look, over a connection of its own.

Each look is one small command beside the running module. Progress is a comfort: whatever goes wrong with it is passed
over, and the module goes on.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shlex
import threading
import typing as t
import uuid

from ansible.playbook.task import Task
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import connection_loader
from ansible.utils.display import Display

from ..module_utils._base.errors import visible
from ..module_utils._host.progress import PROGRESS_FILE

_LOOK_SECONDS = 2.0
_WAIT_SECONDS = 3.0
# So often in a row may a reading of the progress fail before it is given up.
_TRIES = 3
# With a password each failed look may be a failed login, after some of which an account is locked.
_TRIES_WITH_PASSWORD = 1
_LONGEST_LINE = 300
# What stands before the output of a command.
_BEGIN = "brine-virt-progress-begins"
# Where a second connection is a process of its own. Others share what is open, such as paramiko's sessions.
_CONNECTIONS = frozenset(f"ansible.{where}.{name}" for where in ("builtin", "legacy") for name in ("ssh", "local"))


def show(line: str) -> None:
    """One line of progress in the play's output. It never fails, whatever becomes of the output.

    It goes where warnings go: what the play's callback prints stays what a program can read, such as JSON.
    """
    with contextlib.suppress(Exception):
        Display().display(f"  {visible(line)}", color="bright blue", stderr=True)


def show_of(host: str | None) -> t.Callable[[str], None]:
    """The same for work that many hosts do at once: each line begins with the host."""
    return lambda line: show(f"{host}: {line}" if host else line)


def own_connection(connection: ConnectionBase) -> ConnectionBase | None:
    """A connection to the same host that shares nothing with the given one, without become; None where there is none.

    A connection plugin keeps the state of the command that it runs (the pipe or memory with the password, how far
    becoming another user is), so that two commands at once over one object disturb each other.
    """
    name = str(getattr(connection, "ansible_name", ""))
    if name not in _CONNECTIONS:
        _write_quietly(f"no progress is shown over the connection {name or type(connection).__name__}")
        return None
    try:
        # What has been found out for this task and host: variables, keywords, the command line and defaults together.
        options = connection.get_options()
        own: ConnectionBase = connection_loader.get(
            connection._load_name,
            copy.copy(connection._play_context),
            new_stdin=None,
            task_uuid=uuid.uuid4().hex,
            ansible_playbook_pid=str(os.getppid()),
        )
        # The next look comes soon enough.
        retries = {"reconnection_retries": 0} if "reconnection_retries" in options else {}
        if type(own) is not type(connection):
            raise TypeError(f"{name} is loaded as {type(own).__name__}")
        own.set_options(direct={**options, **retries})
    except Exception as exc:
        _write_quietly(f"no progress is shown: {exc}")
        return None
    return own


def is_watched(task: Task) -> bool:
    """Whether anybody is told how far a task is. Check mode takes no time, for what goes on in the background nobody
    reads on, and of what is to be in no log nothing is said."""
    return not (task.check_mode or task.async_val or task.no_log)


def host_of(task: Task, task_vars: dict[str, t.Any] | None) -> str:
    """The inventory's name of the host that a task works on, which may be another than it is a task of."""
    return str(task.delegate_to or (task_vars or {}).get("inventory_hostname") or "")


@contextlib.contextmanager
def progress_shown(
    connection: ConnectionBase, args: dict[str, t.Any], host: str | None = None, *, wanted: bool
) -> t.Iterator[dict[str, t.Any]]:
    """During the block, show the progress of a module. Gives the arguments that it is to be called with for that.

    host: the name that each line begins with, if any. wanted: False shows nothing, and the arguments stay as they are.
    """
    if not wanted:
        yield args
        return
    # Nobody else knows the name beforehand.
    path = f"/tmp/.brine-virt-progress-{uuid.uuid4().hex}"
    with follow(connection, path, host):
        yield {**args, PROGRESS_FILE: path}


def follow(connection: ConnectionBase, path: str, host: str | None = None) -> t.ContextManager[None]:
    """During the block, show the lines that a module writes to a file on its host; with the host's name, if given.

    connection: the module's, which is not used itself.
    """
    display = show_of(host)
    read_bytes = 0

    def look(own: ConnectionBase) -> None:
        nonlocal read_bytes
        where = shlex.quote(path)
        # The folder is anybody's: a link there could lead to what the user of the connection alone may read, and who
        # opens a pipe waits for ever.
        command = f"test ! -L {where} && test -f {where} && tail -c +{read_bytes + 1} -- {where}"
        whole = _output_of(own, command).rpartition(b"\n")[0]
        if not whole:
            return
        read_bytes += len(whole) + 1
        for line in whole.decode(errors="replace").splitlines():
            display(line[:_LONGEST_LINE])

    return _looks(connection, look)


def follow_size(connection: ConnectionBase, path: str, on_progress: t.Callable[[int], t.Any]) -> t.ContextManager[None]:
    """During the block, tell how many bytes a file on the host has. connection: the sender's, which is not used."""

    def look(own: ConnectionBase) -> None:
        size = _output_of(own, f"stat -c %s -- {shlex.quote(path)}").strip()
        # Nothing has come yet.
        if size.isdigit():
            on_progress(int(size))

    return _looks(connection, look)


def _output_of(connection: ConnectionBase, command: str) -> bytes:
    """What a command says, in a process of its own as every command; the file that it reads need not be there yet.

    What the user's shell says before, such as a greeting in .bashrc, is left out, as Ansible does with modules.
    """
    whole = f"echo {_BEGIN}; {command} 2>/dev/null || true"
    _status, output, _errors = connection.exec_command(whole, in_data=None, sudoable=False)
    return bytes(output).partition(f"{_BEGIN}\n".encode())[2]


@contextlib.contextmanager
def _looks(connection: ConnectionBase, look: t.Callable[[ConnectionBase], None]) -> t.Iterator[None]:
    own = own_connection(connection)
    if own is None:
        yield
        return
    tries = _TRIES_WITH_PASSWORD if _has_password(own) else _TRIES
    with every(_LOOK_SECONDS, lambda: look(own), tries=tries):
        yield


def _has_password(connection: ConnectionBase) -> bool:
    with contextlib.suppress(Exception):
        given = connection.get_option("password") if connection.has_option("password") else None
        return bool(given or connection._play_context.password)
    return True


@contextlib.contextmanager
def every(seconds: float, look: t.Callable[[], t.Any], *, tries: int = _TRIES) -> t.Iterator[None]:
    """During the block, call ``look`` again and again in a thread beside it, until it has failed so often in a row."""
    over = threading.Event()

    def run() -> None:
        failures = 0
        while not over.wait(seconds):
            try:
                look()
                failures = 0
            except Exception as exc:  # a reading that fails, in whatever way, is not to disturb the work itself
                failures += 1
                if failures >= tries:
                    _write_quietly(f"no more progress is shown: {exc}")
                    return

    thread = threading.Thread(target=run, name="progress", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # No more threads here.
        yield
        return
    try:
        yield
    finally:
        over.set()
        thread.join(_WAIT_SECONDS)


def _write_quietly(line: str) -> None:
    """For those who ask (-v)."""
    with contextlib.suppress(Exception):
        Display().v(line)
