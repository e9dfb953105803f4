# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs, run without a shell. The one place in module_utils that starts any."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .errors import HostError, UnsupportedError

_PIPE_READ_BYTES = 256 * 1024
# For a process that was killed to be gone.
_END_SECONDS = 5
# Between two looks at a program that runs.
_LOOK_SECONDS = 0.5
# One that complains of more is ended, as the complaints are kept in memory: qemu-img check has a line for each entry of
# each table, and a file of two kilobytes can be made to have a million million of them.
_MOST_ERRORS_BYTES = 64 * 1024 * 1024
# What is handed on of its complaints then.
_FIRST_ERRORS_BYTES = 4096


@dataclass(frozen=True)
class Answer:
    """What a program ended with: its exit status, and all it wrote to standard output and standard error."""

    status: int
    output: bytes
    errors: bytes

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """What it said was wrong, on one line: its errors, or its output when it wrote no errors."""
        return " ".join((self.errors or self.output).decode(errors="replace").split())

    def require(self, what: str, hint: str | None = None) -> Answer:
        """Itself. Raises HostError with what, and its complaint, where the program failed."""
        if self.status != 0:
            raise HostError(f"{what}: {self.complaint}", hint=hint)
        return self


def run_program(
    command: Sequence[str],
    *,
    data: bytes = b"",
    timeout_seconds: float,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[], None] | None = None,
    on_output: Callable[[bytes], t.Any] | None = None,
) -> Answer:
    """Run a program to its end, in plain English. data: its standard input; environment: variables beside ours.

    watch: called again and again meanwhile; what it raises ends the program, and is raised. on_output: the same, with
    all that has come on standard output so far. There can be no more data then than a pipe takes at once, 64 KiB.
    One that gets no data and complains without end is ended: it has failed, with its first complaints.
    Raises FileNotFoundError when it is not there, TimeoutError when it was ended because it took too long. One that
    cannot even be ended, because it waits for a dead disk, is left behind.
    """
    # ansible-test wants AnsibleModule.run_command instead. That has no time limit, and a qemu-img that hangs on a dead
    # NFS server would hang the task for ever; and the rooms that call this know no module, nor do their tests.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C", **(environment or {})},
    )
    try:
        if data and watch is None and on_output is None:
            # Called again after a time-out, communicate sends no more of it, and the program waits for the rest.
            output, errors = process.communicate(data, timeout=timeout_seconds)
        else:
            output, errors = _communicate(process, data, timeout_seconds, watch, on_output)
    except subprocess.TimeoutExpired as exc:
        _end(process)
        raise TimeoutError(f"{command[0]} did not end within {timeout_seconds:g} s") from exc
    except BaseException:
        _end(process)
        raise
    return Answer(process.returncode, output, errors)


def _communicate(
    process: subprocess.Popen[bytes],
    data: bytes,
    timeout_seconds: float,
    watch: Callable[[], None] | None,
    on_output: Callable[[bytes], t.Any] | None,
) -> tuple[bytes, bytes]:
    end = time.monotonic() + timeout_seconds
    to_send: bytes | None = data
    output = b""
    while True:
        if watch is not None:
            watch()
        if on_output is not None:
            on_output(output)
        try:
            # Called again after a time-out, it loses nothing of what has come.
            return process.communicate(to_send, timeout=min(_LOOK_SECONDS, max(0.0, end - time.monotonic())))
        except subprocess.TimeoutExpired as exc:
            to_send = None
            output, errors = exc.output or b"", exc.stderr or b""
            if len(errors) > _MOST_ERRORS_BYTES:
                _end(process)
                return output, errors[:_FIRST_ERRORS_BYTES]
            if time.monotonic() >= end:
                raise


@dataclass(frozen=True)
class Program:
    """A program that a host may lack. missing, hint: what to say then."""

    name: str
    missing: str
    hint: str

    def require(self, where: str | None = None) -> None:
        """Raise UnsupportedError where it is not there, for whoever would find that out too late."""
        if shutil.which(self.name) is None:
            raise UnsupportedError(self.missing, where=where, hint=self.hint)

    def run(self, *arguments: str, late: str, **how: t.Any) -> Answer:
        """As run_program, but it raises UnsupportedError where the program is not there, and HostError where it takes
        too long. late: what to say then. how: the further arguments of run_program."""
        try:
            return run_program([self.name, *arguments], **how)
        except FileNotFoundError as exc:
            raise UnsupportedError(self.missing, hint=self.hint) from exc
        except TimeoutError as exc:
            raise HostError(late) from exc


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def pipe_through(command: Sequence[str], chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Send chunks through a program, and give back what it writes as it comes; neither is ever in memory as a whole.

    Chunks that the program did not want are left in the iterator. Raises FileNotFoundError when the program is not
    there, ChildProcessError with its complaint when it fails, and what the chunks raise. Whoever stops early ends it.
    """
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        process = stack.enter_context(
            # As in run_program; and run_command has all of the input and the output in memory.
            subprocess.Popen(  # pylint: disable=ansible-bad-function
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C"},
            )
        )
        try:
            yield from _exchange(process, chunks)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            errors.seek(0)
            complaint = Answer(process.returncode, b"", errors.read()).complaint
            raise ChildProcessError(complaint or f"{command[0]} ended with status {process.returncode}")


def _exchange(process: subprocess.Popen[bytes], chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Write while the program takes something, read while it gives something, whichever comes first."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("contract violation: a process without pipes")  # pragma: no cover
    to_send = memoryview(b"")
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while True:
            ready = {key.fileobj for key, _events in selector.select()}
            if process.stdout in ready:
                received = os.read(process.stdout.fileno(), _PIPE_READ_BYTES)
                if not received:
                    break
                yield received
            if process.stdin in ready:
                to_send = to_send or memoryview(next(chunks, b""))
                try:
                    sent = os.write(process.stdin.fileno(), to_send) if to_send else 0
                except BrokenPipeError:
                    # It has ended, or wants no more; why, its status tells.
                    sent = 0
                if sent == 0:
                    selector.unregister(process.stdin)
                    process.stdin.close()
                to_send = to_send[sent:]
    process.stdin.close()
