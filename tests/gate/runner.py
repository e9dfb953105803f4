# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs checks side by side, says what it is at, and keeps what each one answered."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from .processes import signal_group, step_back, wait_for
from .results import Counts, Result

# Two checks at once fill two cores; more would only take memory from the lab that another checkout may be running.
WORKERS = 2
HEARTBEAT_SECONDS = 20
CHECK_TIMEOUT_SECONDS = 1800
# Beside the scenario, which says itself what it is at and takes the time that it needs.
GENTLE_HEARTBEAT_SECONDS = 120
GENTLE_TIMEOUT_SECONDS = 4500
# Beside two labs there is little left of two processors, and nobody waits for the end of the day.
FULL_TIMEOUT_SECONDS = 4 * 3600
# What is printed of a line of output; a tool may print a whole file as one.
LINE_LENGTH = 400


@dataclass(frozen=True)
class Check:
    """One command that must exit with 0.

    `lane`: checks of one lane run one after another, because they share a directory. `skip`: why it cannot run on this
    machine. `count`: after the command, gives how many unit tests passed, failed and were skipped, and in a line each
    what is wrong besides; None for a check that is one claim. `errors`: which lines of its output say what is wrong,
    when not all do.
    """

    name: str
    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    lane: str = ""
    skip: str = ""
    count: t.Callable[[], tuple[Counts, list[str]]] | None = None
    errors: re.Pattern[str] | None = None


class Runner:
    """Runs a list of checks. Start with `run`; `stop` ends what is running, from a signal handler too."""

    def __init__(self, log_directory: Path) -> None:
        """Write each check's output to a file in `log_directory`."""
        self.logs = log_directory
        self._lock = threading.Lock()
        self._running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self._pending: list[Check] = []
        self._busy_lanes: set[str] = set()
        self._results: dict[str, Result] = {}
        self._stopped = False
        self._gently = False
        self._timeout_seconds = CHECK_TIMEOUT_SECONDS

    def run(self, checks: Sequence[Check], *, gently: bool = False, full: bool = False) -> list[Result]:
        """Run all checks, and return their results in the order of the list.

        `gently`: with a low priority, as something else is running that must hardly be slowed down; with `full`, that
        is two labs.
        """
        self._gently = gently
        if gently:
            self._timeout_seconds = FULL_TIMEOUT_SECONDS if full else GENTLE_TIMEOUT_SECONDS
        heartbeat = GENTLE_HEARTBEAT_SECONDS if gently else HEARTBEAT_SECONDS
        self.logs.mkdir(parents=True, exist_ok=True)
        self._pending = list(checks)
        workers = [threading.Thread(target=self._work, daemon=True) for _number in range(WORKERS)]
        for worker in workers:
            worker.start()
        began = spoke = time.monotonic()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            if time.monotonic() - spoke >= heartbeat:
                spoke = time.monotonic()
                self._say_running(spoke - began)
        if not self._stopped:
            for check in checks:
                # Something in here has failed: what was not run must not pass for what was.
                lost = Result(check.name, "FAILED", 0, Counts(failed=1), "it gave no result")
                self._results.setdefault(check.name, lost)
        return [self._results[check.name] for check in checks if check.name in self._results]

    def stop(self) -> None:
        """End the checks that run, and start no other."""
        self._stopped = True
        for process, _began in list(self._running.values()):
            signal_group(process, signal.SIGTERM)

    def _say_running(self, elapsed: float) -> None:
        with self._lock:
            now = time.monotonic()
            names = ", ".join(f"{name} ({now - began:.0f} s)" for name, (_process, began) in self._running.items())
            print(f"   {elapsed:4.0f} s: at {names}; {len(self._pending)} to go", flush=True)

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._stopped or not self._pending:
                    return
                check = next((check for check in self._pending if check.lane not in self._busy_lanes), None)
                if check is not None:
                    self._pending.remove(check)
                    self._busy_lanes |= {check.lane} - {""}
            if check is None:
                time.sleep(0.2)
                continue
            result = self._run_one(check)
            with self._lock:
                self._busy_lanes.discard(check.lane)
                if result is not None:
                    self._results[check.name] = result

    def _run_one(self, check: Check) -> Result | None:
        if check.skip:
            self._print(f"-- {check.name}: SKIPPED, {check.skip}")
            return Result(check.name, "skipped", 0, Counts(skipped=1), check.skip)
        log = self.logs / (re.sub(r"[^\w.]+", "-", check.name).strip("-") + ".log")
        began = time.monotonic()
        note = ""
        timeout = self._timeout_seconds
        with log.open("wb") as output:
            process = subprocess.Popen(
                list(check.command),
                cwd=check.directory,
                env=dict(check.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running[check.name] = (process, began)
            if self._gently:
                step_back(process)
            status = wait_for(process, timeout, lambda: self._stopped)
            del self._running[check.name]
        if status is None:
            status, note = 1, f"not finished after {timeout} s"
        if self._stopped:
            return None
        seconds = time.monotonic() - began
        counts = Counts()
        complaints: list[str] = []
        if check.count is not None:
            try:
                counts, complaints = check.count()
            except (OSError, ElementTree.ParseError) as exc:
                # It was killed, or ended before its first test.
                status, complaints = status or 1, [f"nothing says which tests ran: {exc}"]
            note = note or f"{counts.passed} tests passed" + (f", {counts.skipped} skipped" if counts.skipped else "")
            if not counts.passed and not status:
                status, note = 1, "no test ran"
        verdict = "FAILED" if status or counts.failed else "ok"
        if verdict == "FAILED" and not counts.failed:
            counts += Counts(failed=1)
        elif verdict == "ok" and check.count is None:
            counts += Counts(passed=1)
        if verdict == "FAILED":
            text = log.read_text(encoding="utf-8", errors="replace").rstrip()
            if check.errors is not None:
                text = "\n".join(filter(check.errors.search, text.splitlines())) or text
            text = "\n".join(line[:LINE_LENGTH] for line in [*text.splitlines(), *complaints])
            self._print(f"\n{text}\n-- {check.name}: FAILED (exit {status}) after {seconds:.0f} s; all output: {log}\n")
        else:
            self._print(f"-- {check.name}: ok, {seconds:.0f} s{', ' + note if note else ''}")
        return Result(check.name, verdict, seconds, counts, note)

    def _print(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)
