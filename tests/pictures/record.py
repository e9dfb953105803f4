# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command in a terminal of its own and keeps what it writes there, colours and all.

python -m tests.pictures.record FILE COMMAND...: FILE is written only if the command succeeds; its output also goes to
standard output while it runs.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

# A line of the play recap fits.
COLUMNS, LINES = 122, 50


def record(command: Sequence[str]) -> tuple[int, bytes]:
    """Return the exit status of the command and what it wrote to the terminal, which is that of a user with colours."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        unwanted = ("NO_COLOR", "ANSIBLE_NOCOLOR", "ANSIBLE_FORCE_COLOR")
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        os.execvpe(command[0], list(command), {**environment, "TERM": "xterm-256color"})
    written = bytearray()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            # How Linux says that nobody has the terminal open any more.
            break
        if not data:
            break
        written += data
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), bytes(written)


def main() -> int:
    """Do what the command line says, and return the exit status of the command."""
    file, *command = sys.argv[1:]
    status, written = record(command)
    if status == 0:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(written)
    return status


if __name__ == "__main__":
    sys.exit(main())
