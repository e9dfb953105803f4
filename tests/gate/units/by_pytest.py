# SPDX-License-Identifier: GPL-3.0-or-later
"""Run pytest, and what fails once more alone.

Beside the lab a machine may stand still for tens of seconds, and a test that waits for another process then fails
without a fault. Alone it fails again only when there is one. What needed the second try is named, so that a test that
needs it every time is noticed. (pytest-rerunfailures tries again at once, in the middle of the same load.)
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from ..results import Counts
from .junit import read_reports

# Of pytest: tests ran, and some of them failed.
_SOME_FAILED = 1
# More than this is a fault, not chance.
MOST = 10


def again(report: Path) -> Path:
    """Return where the report of the second try is written."""
    return report.with_suffix(".again.xml")


def run_twice(program: Path, report: Path, options: Sequence[str], cache: Path) -> int:
    """Run pytest with these options and a JUnit report, and once more what failed. Returns the exit status.

    `program`: a pytest; `python -m pytest` would let tests import from the working directory. `cache`: a directory of
    its own, in which it notes what failed.
    """
    again(report).unlink(missing_ok=True)
    pytest = [str(program), "-o", f"cache_dir={cache}", *options]
    status = subprocess.run([*pytest, f"--junit-xml={report}"], check=False).returncode
    if status != _SOME_FAILED or read_reports([report])[0].failed > MOST:
        return status
    print("\n== what failed, once more and alone", flush=True)
    alone = ["--numprocesses=0", "--last-failed", "--last-failed-no-failures=none", f"--junit-xml={again(report)}"]
    return subprocess.run([*pytest, *alone], check=False).returncode


def count_both(report: Path) -> tuple[Counts, list[str]]:
    """Add up both tries. Returns the sums, in which a test has failed that failed twice, and the complaints about
    skipped tests, see read_reports."""
    counts, complaints = read_reports([report])
    if not again(report).exists():
        return counts, complaints
    second, more = read_reports([again(report)])
    passed = _passed(again(report))
    return counts + Counts(second.passed, -second.passed, retried=tuple(passed)), [*complaints, *more]


def _passed(report: Path) -> list[str]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return [f"{case.get('classname')} {case.get('name')}" for case in cases if not len(case)]


if __name__ == "__main__":
    sys.exit(run_twice(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4:], Path(sys.argv[3])))
