# SPDX-License-Identifier: GPL-3.0-or-later
"""The long part of `make test` and `make test-full`: the scenarios in a lab, and the lab's end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import typing as t
from pathlib import Path

from ...scenario.runner import LAB, LABS
from ..processes import signal_group, wait_for
from ..results import Counts, Result

# Less than what CI gives a whole run, so that the lab still comes down.
TIMEOUT_SECONDS = 4500
# CI has no part in these.
FULL_TIMEOUT_SECONDS = 4 * 3600
# Of `make test-full`: labs beside the first one, with scenarios of their own.
OTHER_LABS = tuple(filter(None, LABS))


class Scenario:
    """Runs `tests/scenario/run FILE`, which prints its own progress and writes its counts into FILE.

    `full`: the scenarios that take long. `lab`: those of the lab of this name, of OTHER_LABS, or without a name.

    FILE holds JSON: {"passed": n, "failed": n, "skipped": n}. In the environment, SCENARIO=no leaves the scenario out,
    and KEEP_LAB=1 leaves the lab up.
    """

    def __init__(self, root: Path, *, full: bool = False, lab: str = "") -> None:
        """Run the scenario of the checkout at `root`."""
        self._root = root
        self._full = full
        self.lab = lab
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._ending = False

    def run(self) -> Result:
        """Run the scenario, and return its counts; a scenario that is not there or gives no counts has failed."""
        name = f"scenarios in the lab {self.lab}" if self.lab else "scenario in the lab"
        program = self._root / "tests/scenario/run"
        report = self._root / (f".build/scenario-{self.lab}.json" if self.lab else ".build/scenario.json")
        if os.environ.get("SCENARIO") == "no":
            return Result(name, "skipped", 0, Counts(skipped=1), "SCENARIO=no")
        if self._stopped:
            return Result(name, "skipped", 0, Counts(skipped=1), "interrupted")
        if not program.exists():
            return Result(name, "FAILED", 0, Counts(failed=1), "tests/scenario/run is not there")
        report.unlink(missing_ok=True)
        print(f"== {name}", flush=True)
        began = time.monotonic()
        words = [f"{LAB}{self.lab}"] if self._full else []
        status = self._call(program, str(report), *words, is_stopped=lambda: self._stopped)
        seconds = time.monotonic() - began
        try:
            counted = json.loads(report.read_text(encoding="utf-8"))
            counts = Counts(int(counted["passed"]), int(counted["failed"]), int(counted["skipped"]))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return Result(name, "FAILED", seconds, Counts(failed=1), f"exit {status}, no counts: {exc}")
        note = f"{counts.passed} steps passed"
        if not counts.failed and (status != 0 or not counts.passed):
            counts += Counts(failed=1)
            note += f", exit {status}"
        elif counts.failed:
            note += f", {counts.failed} failed"
        verdict = "FAILED" if counts.failed else "ok"
        print(f"-- {name}: {verdict}, {seconds:.0f} s, {note}", flush=True)
        return Result(name, verdict, seconds, counts, note)

    def stop(self) -> None:
        """End the scenario when it runs."""
        self._stopped = True
        if self._process is not None and not self._ending:
            signal_group(self._process, signal.SIGTERM)

    def tear_down(self) -> list[Result]:
        """Take the lab down, whatever happened before. Returns a failed result when that failed, else nothing."""
        lab = self._root / "tests/lab/lab"
        if os.environ.get("SCENARIO") == "no" or not lab.exists():
            return []
        if self.lab and not (self._root / f".build/lab-{self.lab}").exists():
            return []
        if os.environ.get("KEEP_LAB") == "1":
            print("== the lab stays up, as KEEP_LAB=1 says; `make lab-down` ends it", flush=True)
            return []
        began = time.monotonic()
        self._ending = True  # a second Ctrl-C must not leave half a lab
        status = self._call(lab, *(["--name", self.lab] if self.lab else []), "down")
        if status == 0:
            return []
        return [
            Result(
                f"lab {self.lab} down" if self.lab else "lab down",
                "FAILED",
                time.monotonic() - began,
                Counts(failed=1),
                f"exit {status}",
            )
        ]

    def _call(self, program: Path, *words: str, is_stopped: t.Callable[[], bool] = lambda: False) -> int | None:
        self._process = subprocess.Popen(
            [str(program), *words],
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            # What is said in one lab is told from what is said in another.
            stdout=subprocess.PIPE if self.lab else None,
            start_new_session=True,
        )
        if self.lab:
            threading.Thread(target=_repeat, args=(self._process.stdout, f"{self.lab} | "), daemon=True).start()
        seconds = FULL_TIMEOUT_SECONDS if self._full else TIMEOUT_SECONDS
        status = wait_for(self._process, seconds, is_stopped)
        self._process = None
        return status


def _repeat(lines: t.IO[bytes], mark: str) -> None:
    """Print what is said there, with a mark before each line."""
    for line in lines:
        print(mark + line.decode(errors="replace").rstrip("\n"), flush=True)
