# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Run other programs, marked as the lab's own so that `down` finds whatever a killed `up` left running."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from brine_lab.base.say import LabError, alive

# Every child carries this variable: <lab id>:<role>. It survives double forks and lost pid files.
MARK = "BRINE_VIRT_LAB"
TAIL_LINES = 20


def environment(mark: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: ours, in the C locale (we read outputs), with the lab's mark."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(extra or {}), MARK: mark}


def run(
    argv: Sequence[str], *, mark: str, stdin: str | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a short command and return it with its output; raise LabError with the command and what it said."""
    try:
        done = subprocess.run(argv, input=stdin, text=True, capture_output=True, env=environment(mark), check=False)
    except FileNotFoundError as exc:
        raise LabError(f"The program {argv[0]} is not installed.") from exc
    if check and done.returncode != 0:
        raise LabError(f"`{' '.join(argv)}` failed ({done.returncode}): {(done.stderr or done.stdout).strip()}")
    return done


def run_long(
    argv: Sequence[str], *, doing: str, mark: str, log: Path, extra_env: Mapping[str, str] | None = None
) -> None:
    """Run a command that takes long: its output goes to `log`, its last line into the signs of life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last = ""
    with log.open("w", encoding="utf-8") as out, alive(doing, lambda: last):
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment(mark, extra_env),
        )
        assert child.stdout is not None  # asked for above; for the type checker
        try:
            for line in child.stdout:
                out.write(line)
                last = line.strip()[:100] or last
        except BaseException:
            child.terminate()
            child.wait()
            raise
        code = child.wait()
    if code != 0:
        raise LabError(f"{doing}: `{argv[0]}` failed ({code}). The end of {log}:\n{tail(log)}")


def start(argv: Sequence[str], *, mark: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own, output to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment(mark),
            cwd="/",
            start_new_session=True,
        )


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, or a word that there is none."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) or "(empty)"
    except OSError:
        return "(no log)"
