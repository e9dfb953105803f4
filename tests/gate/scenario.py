# SPDX-License-Identifier: GPL-3.0-or-later
"""The long part of `make test`: the scenario in the lab, and the lab's end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from .runner import Counts, Result, end_group


class Scenario:
    """Runs `tests/scenario/run FILE`, which prints its own progress and writes its counts into FILE.

    FILE holds JSON: {"passed": n, "failed": n, "skipped": n}. In the environment, SCENARIO=no leaves the scenario out,
    and KEEP_LAB=1 leaves the lab up.
    """

    def __init__(self, root: Path) -> None:
        """Run the scenario of the checkout at `root`."""
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self) -> Result:
        """Run the scenario, and return its counts; a scenario that is not there or gives no counts has failed."""
        name = "scenario in the lab"
        program = self._root / "tests/scenario/run"
        report = self._root / ".build/scenario.json"
        if os.environ.get("SCENARIO") == "no":
            return Result(name, "skipped", 0, Counts(skipped=1), "SCENARIO=no")
        if not program.exists():
            return Result(name, "FAILED", 0, Counts(failed=1), "tests/scenario/run is not there")
        report.unlink(missing_ok=True)
        print(f"== {name}", flush=True)
        began = time.monotonic()
        status = self._call(program, str(report))
        seconds = time.monotonic() - began
        try:
            counted = json.loads(report.read_text(encoding="utf-8"))
            counts = Counts(*(int(counted[key]) for key in ("passed", "failed", "skipped")))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return Result(name, "FAILED", seconds, Counts(failed=1), f"exit {status}, no counts: {exc}")
        note = f"{counts.passed} steps passed"
        if not counts.failed and (status or not counts.passed):
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
        if self._process is not None:
            end_group(self._process)

    def tear_down(self) -> list[Result]:
        """Take the lab down, whatever happened before. Returns a failed result when that failed, else nothing."""
        lab = self._root / "tests/lab/lab"
        if os.environ.get("SCENARIO") == "no" or not lab.exists():
            return []
        if os.environ.get("KEEP_LAB") == "1":
            print("== the lab stays up, as KEEP_LAB=1 says; `make lab-down` ends it", flush=True)
            return []
        began = time.monotonic()
        status = self._call(lab, "down")
        if not status:
            return []
        return [Result("lab down", "FAILED", time.monotonic() - began, Counts(failed=1), f"exit {status}")]

    def _call(self, program: Path, *words: str) -> int:
        self._process = subprocess.Popen(
            [str(program), *words], cwd=self._root, stdin=subprocess.DEVNULL, start_new_session=True
        )
        status = self._process.wait()
        self._process = None
        return status
