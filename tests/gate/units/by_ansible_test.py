# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the unit tests of what runs on hypervisors by ansible-test, and once more the files of what fails; see by_pytest.

ansible-test takes files, not tests, and ends with the first of its contexts that has a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from ..results import Counts
from .by_pytest import MOST
from .junit import read_reports

# What ansible-test runs with a Python that is none of a controller's, in this order, with a report each.
CONTEXTS = ("modules", "module_utils")


def first_try(reports: Path) -> Path:
    """Return where the reports of the first try are, when there was a second one."""
    return reports / "first-try"


def run_twice(reports: Path, pattern: str, command: Sequence[str]) -> int:
    """Run the command, which writes JUnit files of this pattern into `reports`; once more with the files that failed.

    Run it in the directory that the names of the tests begin in. Returns the exit status."""
    shutil.rmtree(first_try(reports), ignore_errors=True)
    status = subprocess.run(list(command), check=False).returncode
    found = sorted(reports.glob(pattern))
    failed = list(_failed(found))
    # What cannot be imported is no test of a file, and fails again.
    known = all(name for name, _test in failed)
    if status == 0 or len(found) < len(CONTEXTS) or not 0 < len(failed) <= MOST or not known:
        return status
    first_try(reports).mkdir()
    for report in found:
        report.rename(first_try(reports) / report.name)
    print("\n== the files of what failed, once more", flush=True)
    return subprocess.run([*command, *sorted({_file(name) for name, _test in failed})], check=False).returncode


def count_both(reports: Path, pattern: str) -> tuple[Counts, list[str]]:
    """Add up both tries, as by_pytest.count_both does."""
    first = sorted(first_try(reports).glob(pattern))
    second = sorted(reports.glob(pattern))
    if not first:
        return read_reports(second)
    counts, complaints = read_reports(first)
    well = set(_passed(second))
    passed = [test for test in _failed(first) if test in well]
    retried = tuple(" ".join(test) for test in passed)
    return counts + Counts(len(passed), -len(passed), retried=retried), complaints


def _cases(reports: Sequence[Path]) -> Iterator[tuple[tuple[str, str], set[str]]]:
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            yield (case.get("classname", ""), case.get("name", "")), {child.tag for child in case}


def _failed(reports: Sequence[Path]) -> Iterator[tuple[str, str]]:
    return (test for test, tags in _cases(reports) if tags & {"failure", "error"})


def _passed(reports: Sequence[Path]) -> Iterator[tuple[str, str]]:
    return (test for test, tags in _cases(reports) if not tags)


def _file(name: str) -> str:
    """Return the file of a test's module or class, relative to the working directory."""
    path = name.replace(".", os.sep)
    while path and not os.path.exists(f"{path}.py"):
        path = os.path.dirname(path)
    return f"{path}.py"


if __name__ == "__main__":
    sys.exit(run_twice(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
