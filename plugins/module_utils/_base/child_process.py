# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a process of its own that notices when nobody waits for it any more.

A module can be killed in ways that it cannot answer to, and the person who started it can go away (Ctrl-C, a lost
connection) without its hearing of it. The work goes on in a child process. It holds one end of a pipe; when the other
end closes, for whatever reason, the work is told to stop, rolls back what it did and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import traceback
import typing as t

from .errors import HostError, VirtError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ_BYTES = 65536


def run_guarded(work: t.Callable[[threading.Event], dict[str, t.Any]]) -> dict[str, t.Any]:
    """The result of ``work(stop)``, plain data, done in a child process; stop is set when nobody waits any more.

    Raises the VirtError that the work raised, HostError when its process died. No thread may have been started before.
    """
    result_out, result_in = os.pipe()
    waiting_out, waiting_in = os.pipe()
    # A signal that comes before there is somebody to take it waits: it would end this process, and lose the result.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        child = os.fork()
        if child == 0:
            os.close(result_out)
            os.close(waiting_in)
            _work_alone(work, waiting_out, result_in, mask)
        os.close(result_in)
        os.close(waiting_out)
        patience = _Patience(waiting_in)
        with _signals_end(patience):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            answer = _receive(result_out, patience)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _pid, status = os.waitpid(child, 0)
    return _open_answer(answer, status)


def _work_alone(
    work: t.Callable[[threading.Event], dict[str, t.Any]], waiting: int, result: int, mask: set[int]
) -> t.NoReturn:
    """All that the child process does. It never returns into the code of its parent. mask: the signals to block."""
    try:
        # No signal that is meant for the one who waits, and none of its files: its output must end when it ends.
        os.setsid()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        stop = threading.Event()
        threading.Thread(target=_listen, args=(waiting, stop), daemon=True).start()
        answer: dict[str, t.Any] = {"result": work(stop)}
    except VirtError as exc:
        answer = {"error": [type(exc).__name__, exc.what, exc.where, exc.hint]}
    except BaseException:  # the parent raises it
        answer = {"fault": traceback.format_exc()}
    # Whoever was waiting may be gone, and the pipe with it.
    with contextlib.suppress(OSError), os.fdopen(result, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)


def _listen(waiting: int, stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(waiting, 1):
            pass
    stop.set()


class _Patience:
    """The end of the pipe that is open as long as somebody waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def end(self) -> None:
        """Tell the child that nobody waits any more; once is enough, and the number may be another file's by then."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def _signals_end(patience: _Patience) -> t.Iterator[None]:
    """Inside the block, a signal to end ends the patience, and the block goes on until the work has ended."""

    def end(_number: int, _frame: t.Any) -> None:
        patience.end()

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        patience.end()


def _receive(result: int, patience: _Patience) -> bytes:
    """All that the child says. When the reader of our own output is gone, so is the one who waits."""
    chunks: list[bytes] = []
    poll = select.poll()
    poll.register(result, select.POLLIN)
    with contextlib.suppress(OSError):
        poll.register(1, 0)  # hang-up and error are always told
    with os.fdopen(result, "rb", buffering=0) as pipe:
        while True:
            for descriptor, _event in poll.poll():
                if descriptor == 1:
                    poll.unregister(1)
                    patience.end()
            if select.select([pipe], [], [], 0)[0]:
                chunk = pipe.read(_READ_BYTES)
                if not chunk:
                    return b"".join(chunks)
                chunks.append(chunk)


def _open_answer(text: bytes, status: int) -> dict[str, t.Any]:
    if not text:
        raise HostError(f"the worker process died (status {status})", hint="Run it again")
    answer = json.loads(text)
    if "error" in answer:
        name, what, where, hint = answer["error"]
        known = {kind.__name__: kind for kind in _kinds(VirtError)}
        raise known.get(name, HostError)(what, where=where, hint=hint)
    if "fault" in answer:
        raise RuntimeError(answer["fault"])
    return dict(answer["result"])


def _kinds(base: type[VirtError]) -> list[type[VirtError]]:
    return [base, *(kind for child in base.__subclasses__() for kind in _kinds(child))]
