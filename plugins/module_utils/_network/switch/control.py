# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a host that undoes itself unless somebody outside confirms it: a dead man's switch.

A transient unit of systemd applies the change, with files below /run that last until the next boot at most, and waits.
Confirmed, it puts the files into their lasting places. Not confirmed in time, told to go back, stopped or killed, it
undoes everything; while the host shuts down, its files alone, as the kernel goes anyway.
A host that loses its power half-way boots as it was.

Whoever begins a change gets its token, and only who names it may confirm it or end it: of two operators, none confirms
what only the other one has looked at. A run that takes over what a killed one has left gets a new one, and the old one
is no longer valid.

The change waits in a folder of its own, /run/brine-virt/NAME: docs/docsite/rst/formats.rst.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import typing as t
from dataclasses import asdict, dataclass

from ..._base.errors import ConflictError, HostError, InputError
from ..._base.files import LockTimeout, locked_file, read_text
from ..commands import run
from .connection import check_newer
from .guarded import GuardedChange
from .script import (
    ABORT,
    APPLIED,
    ARMED,
    CONFIRM,
    CONFIRMED,
    ROLLED_BACK,
    ROLLING_BACK,
    apply_seconds,
    script,
    settle_seconds,
)

__all__ = ["APPLIED", "ARMED", "CONFIRMED", "ROLLED_BACK", "ROLLING_BACK"]

_STATE_ROOT = "/run/brine-virt"
# Held while a change is started or decided: of two operators, one is told of the other. No change is called so.
_LOCK = "switch.lock"
_LOCK_SECONDS = 10
# Time for the answer "armed" to reach the controller over the old network.
_DELAY_SECONDS = 3
# Who has cut a host off by a mistake has to wait as long.
_MOST_CONFIRM_SECONDS = 3600
# What an earlier version's change may take to be applied, and to go back; it did not say so.
_UNSAID_APPLY_SECONDS, _UNSAID_SETTLE_SECONDS = 120, 420
# What the first two versions wrote beside the files: they knew nothing but bridges.
_FIRST_SUBJECT = ("bridge", "uplink", "addresses", "gateways")


@dataclass(frozen=True)
class PendingChange:
    """A change that waits for its confirmation: what its caller wanted to remember, and its files, (path, text).

    token: who names it may confirm the change; empty for one that an earlier version has begun.
    apply_seconds: after how long at most it is applied, or has begun to go back; settle_seconds: how long it then
    takes at most to make it last, or to go back.
    """

    subject: dict[str, t.Any]
    files: tuple[tuple[str, str | None], ...]
    token: str = ""
    apply_seconds: int = _UNSAID_APPLY_SECONDS
    settle_seconds: int = _UNSAID_SETTLE_SECONDS


def arm(change: GuardedChange, seconds: int) -> PendingChange:
    """Start the switch of a change: some seconds later it applies, then it waits ``seconds`` for ``confirm``.

    Raises ConflictError when a change of any name is under way, a file is in the way of the trial, or one is no
    longer what it was when the change was planned; HostError.
    """
    check_name(change.name)
    with _alone("another change is just being started on this host"):
        _check_free(change)
        armed = PendingChange(
            change.subject,
            tuple((file.lasting, file.text) for file in change.files),
            secrets.token_hex(8),
            apply_seconds(change, seconds, _DELAY_SECONDS),
            settle_seconds(change),
        )
        _start(change, _stage(change, seconds, armed))
    return armed


def check_name(name: str) -> None:
    """Raise InputError for what no change is called: the name is part of a path."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        raise InputError(f"no change is called {name!r}", where="change", hint="Changes are called like bridge-br0")


def check_seconds(seconds: int) -> None:
    """Raise InputError for a time to wait for the confirmation that is none, or that nobody who is cut off can wait."""
    if not 1 <= seconds <= _MOST_CONFIRM_SECONDS:
        raise InputError(
            f"{seconds} is not allowed: a host that the change cuts off is as long without its network",
            where="confirm_seconds",
            hint=f"Give a whole number from 1 to {_MOST_CONFIRM_SECONDS}",
        )


@contextlib.contextmanager
def _alone(otherwise: str) -> t.Iterator[None]:
    """While no other call starts or decides a change. otherwise: what is so where one does so all the time."""
    os.makedirs(_STATE_ROOT, mode=0o755, exist_ok=True)
    try:
        with locked_file(f"{_STATE_ROOT}/{_LOCK}", _LOCK_SECONDS):
            yield
    except LockTimeout as exc:
        raise ConflictError(otherwise, hint="Run again") from exc


def _check_free(change: GuardedChange) -> None:
    """Refuse to begin where another change is under way, be it of another name: both may be about one uplink."""
    # Those of this name are asked for also where somebody has removed the folder.
    for name in sorted({change.name, *(path.split("/")[-2] for path in glob.glob(f"{_STATE_ROOT}/*/switch.sh"))}):
        if _is_running(name):
            raise ConflictError(f"another change of {name} is under way", hint="Run again when it is over")
    for file in change.files:
        if file.trial is not None and os.path.lexists(file.trial):
            raise ConflictError(
                f"{file.trial} exists, where the change would be tried", hint="Remove the file, and run again"
            )
        if os.path.islink(file.lasting):
            raise ConflictError(f"{file.lasting} is a symbolic link", hint="Put the file itself there, and run again")
        if read_text(file.lasting) != file.before:
            raise ConflictError(f"{file.lasting} was changed just now by somebody else", hint="Run again")


def _stage(change: GuardedChange, seconds: int, armed: PendingChange) -> str:
    """Write the folder of a change; gives its path."""
    here = _folder(change.name)
    shutil.rmtree(here, ignore_errors=True)
    # Only root enters it: a NetworkManager profile may hold a secret.
    staged = tempfile.mkdtemp(prefix=f".{change.name}-", dir=_STATE_ROOT)
    for folder in ("files", "before", "placed"):
        os.mkdir(f"{staged}/{folder}")
    old_modes: dict[int, int] = {}
    for number, file in enumerate(change.files):
        if file.text is not None:
            _write(f"{staged}/files/{number}", file.text)
        if os.path.lexists(file.lasting):
            shutil.copyfile(file.lasting, f"{staged}/before/{number}")
            old_modes[number] = stat.S_IMODE(os.stat(file.lasting).st_mode)
    limits = {"apply_seconds": armed.apply_seconds, "settle_seconds": armed.settle_seconds}
    _write(f"{staged}/change.json", json.dumps({**asdict(change), **limits}))
    _write(f"{staged}/token", armed.token)
    _write(f"{staged}/state", f"{ARMED}\n")
    _write(f"{staged}/switch.sh", script(change, here, seconds=seconds, delay=_DELAY_SECONDS, old_modes=old_modes))
    os.rename(staged, here)
    return here


def _start(change: GuardedChange, here: str) -> None:
    run(
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={_unit(change.name)}",
        f"--description={change.description}, and back unless confirmed",
        # What a killed switch leaves is put back all the same.
        f"--property=ExecStopPost=/bin/sh {here}/switch.sh settle",
        f"--property=TimeoutStopSec={settle_seconds(change)}",
        "/bin/sh",
        f"{here}/switch.sh",
        "apply",
    )


def pending(name: str) -> PendingChange | None:
    """The change of this name that waits for its confirmation now, None when there is none.

    Where an earlier change is just going back, or is just made permanent, waits until that is done.
    """
    if _is_running(name) and (state(name) in (ROLLING_BACK, CONFIRMED) or _decision(name)):
        _wait_until_over(name)
    if not _is_running(name) or state(name) not in (ARMED, APPLIED):
        return None
    return read(name)


def read(name: str) -> PendingChange:
    """The last change of this name, whatever has become of it. Raises HostError."""
    try:
        with open(f"{_folder(name)}/change.json", encoding="utf-8") as stream:
            return _read_change(json.load(stream), read_text(f"{_folder(name)}/token") or "")
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise HostError(
            f"the change {name} under way cannot be read: {exc}",
            hint="Another version of the collection may have started it. Run again in a few minutes: unless it is "
            "confirmed, it is rolled back automatically",
        ) from exc


def _read_change(said: t.Any, token: str) -> PendingChange:
    """A change as another version may have written it: what it says besides is passed over."""
    limits = (
        int(said.get("apply_seconds", _UNSAID_APPLY_SECONDS)),
        int(said.get("settle_seconds", _UNSAID_SETTLE_SECONDS)),
    )
    if "subject" in said:
        files = tuple((file["lasting"], file["text"]) for file in said["files"])
        return PendingChange(dict(said["subject"]), files, token, *limits)
    files = tuple((f"/etc/systemd/network/{file['name']}", file["text"]) for file in said["files"])
    return PendingChange({word: said[word] for word in _FIRST_SUBJECT}, files, token, *limits)


def take_over(name: str) -> PendingChange:
    """The change of this name that waits, with a new token: whoever had the former one may no longer confirm it.

    Raises ConflictError when it has just been decided.
    """
    with _alone(f"the change {name} is just being decided"):
        _check_undecided(name)
        _replace(f"{_folder(name)}/token", secrets.token_hex(8))
        return read(name)


def state(name: str) -> str | None:
    """How far the last switch of this name is since the host booted, None when there was none."""
    text = read_text(f"{_folder(name)}/state")
    return None if text is None else text.strip()


def log(name: str) -> list[str]:
    """What the last switch of this name said, line by line."""
    return (read_text(f"{_folder(name)}/log") or "").splitlines()


def missing(name: str) -> list[str]:
    """What was not as before when the last switch of this name had gone back, a clause each."""
    return (read_text(f"{_folder(name)}/missing") or "").splitlines()


def why(name: str) -> str:
    """Why the last switch of this name has gone back, as its log has it; empty where it has not."""
    lines = [line.partition(" ")[2] for line in log(name)]
    return next((before for before, line in zip(lines, lines[1:]) if line == "undoing it"), "")  # noqa: B905, RUF007 - not in Python 3.9


def how_it_ended(name: str) -> str:
    """Of a change that has gone back, what the host has now, for people."""
    if state(name) != ROLLED_BACK:
        return "It goes back, and is not done with that yet"
    lacking = missing(name)
    return f"Not everything is as before: {'; '.join(lacking)}" if lacking else "Everything is as before"


def wait_until_applied(name: str, token: str) -> None:
    """Wait until the change is applied, and leave the mark that ``confirm`` asks for.

    The connection that carries this call may be older than the change. The next call's connection has to be opened
    after this one had its answer: that it gets through proves that new connections reach the host.
    Raises ConflictError for another's token.
    """
    check_token(name, token)
    _wait_until(lambda: state(name) != ARMED, read(name).apply_seconds)
    if state(name) == APPLIED:
        _write(f"{_folder(name)}/applied-seen", f"{token} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n")


def confirm(name: str, token: str) -> None:
    """Tell the switch that the change is good; waits until it has made it last, or has gone back instead.

    Raises ConflictError for another's token, and where it has been decided already; HostError when
    ``wait_until_applied`` was not called before with this token, or over the same connection.
    """
    check_token(name, token)
    with _alone(f"the change {name} is just being decided"):
        check_token(name, token)
        seen_by, _blank, seen_at = (read_text(f"{_folder(name)}/applied-seen") or "").strip().partition(" ")
        if not seen_at or seen_by != token:
            # Who was so slow that it went back meanwhile is told that.
            _check_undecided(name)
            raise HostError(f"the change {name} has not been seen as applied", hint="Call phase=wait first")
        check_newer(float(seen_at))
        _decide(name, CONFIRM)
    _wait_until_over(name)


def abort(name: str, token: str, reason: str) -> None:
    """Tell the switch to go back now, and wait until it has. A command that runs is not interrupted.

    What is decided already stays so: ``state`` says what has become of it. Raises ConflictError for another's token.
    """
    check_token(name, token)
    with _alone(f"the change {name} is just being decided"):
        check_token(name, token)
        with contextlib.suppress(ConflictError):
            _decide(name, f"{ABORT} {' '.join(reason.split())}")
    _wait_until_over(name)


def check_token(name: str, token: str) -> None:
    """Raise ConflictError unless this is the token of the last change of this name."""
    if state(name) is None:
        raise ConflictError(f"there is no change {name} on this host", hint="It may have booted since: run again")
    if not token or token != (read_text(f"{_folder(name)}/token") or ""):
        raise ConflictError(
            f"this run has not begun the change {name} that is under way or was the last one: another run has",
            hint="Wait until that is over, and run again",
        )


def _decision(name: str) -> str:
    """What is decided of the change, empty while nothing is."""
    return (read_text(f"{_folder(name)}/decision") or "").split("\n")[0].partition(" ")[0]


def _check_undecided(name: str) -> None:
    decision, now = _decision(name), state(name)
    if decision == CONFIRM or now == CONFIRMED:
        raise ConflictError(f"the change {name} has been confirmed already")
    if decision or now not in (ARMED, APPLIED):
        why = "was told to roll back" if decision == ABORT else "was not confirmed in time, or has failed"
        raise ConflictError(f"the change {name} {why}, and goes back", hint="See its log, and run again")


def _decide(name: str, decision: str) -> None:
    """Say what is to become of the change, unless that is decided: then raise ConflictError.

    The script decides in the same way when the time is up: a link is made by one of them alone.
    """
    folder = _folder(name)
    _check_undecided(name)
    _write(f"{folder}/decision.new", f"{decision}\n")
    try:
        os.link(f"{folder}/decision.new", f"{folder}/decision")
    except FileExistsError:
        _check_undecided(name)
        raise
    finally:
        os.unlink(f"{folder}/decision.new")
    if not _decides(name):
        word, _blank, reason = decision.partition(" ")
        _write(f"{folder}/{word}", f"{reason}\n")


def _decides(name: str) -> bool:
    """Whether the script asks for the decision; those of earlier versions ask for a file ``confirm`` or ``abort``."""
    return '"settle_seconds"' in (read_text(f"{_folder(name)}/change.json") or "")


def _wait_until_over(name: str) -> None:
    """Wait until the switch has done all that it does after the decision: the next change must not find it doing so."""
    limits = read(name)
    _wait_until(lambda: not _is_running(name), limits.apply_seconds + limits.settle_seconds)


def wait_until_over(name: str) -> None:
    """Wait until the last change of this name is over, whatever becomes of it; not at all where there was none."""
    if state(name) is not None:
        _wait_until_over(name)


def _wait_until(true: t.Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not true():
        time.sleep(0.2)


def _folder(name: str) -> str:
    return f"{_STATE_ROOT}/{name}"


def _unit(name: str) -> str:
    return f"brine-virt-{name}.service"


def _is_running(name: str) -> bool:
    # While its unit goes back it is `deactivating`.
    active_state = run("systemctl", "show", "--property=ActiveState", "--value", _unit(name)).strip()
    return active_state in ("active", "activating", "deactivating")


def _replace(path: str, text: str) -> None:
    _write(f"{path}.new", text)
    os.rename(f"{path}.new", path)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
