# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fails is run once more, and only what fails twice has failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.results import Counts
from ansible_collections.brine.virt.tests.gate.units.by_pytest import count_both, run_twice

PYTEST = Path(sys.executable).with_name("pytest")
GOOD = "def test_good():\n    pass\n"
BAD = "def test_bad():\n    raise AssertionError\n"
# Fails the first time that it is run, and never again.
ONCE = """
from pathlib import Path
def test_once():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError
"""
NEVER_ALONE = "import os\ndef test_alone():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n"


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in a worker of pytest-xdist, and what they start does not."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)


def run(folder: Path, text: str) -> tuple[int, Counts]:
    """Run these tests as the gate does. Returns the exit status and the sums."""
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests/test_it.py").write_text(text)
    report = folder / "report.xml"
    options = ["-q", "--numprocesses=2", f"--rootdir={folder}", f"-c{folder / 'pytest.ini'}", str(folder / "tests")]
    status = run_twice(PYTEST, report, options, folder / "cache")
    counts, complaints = count_both(report)
    assert not complaints
    return status, counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "status", "passed", "failed", "retried"),
    [
        (GOOD + ONCE + NEVER_ALONE, 0, 3, 0, ["test_once", "test_alone"]),
        (GOOD + ONCE + BAD, 1, 2, 1, ["test_once"]),
        ("import nothing_of_this_name\n", 2, 0, 1, []),
        (BAD + "".join(f"def test_{n}():\n    raise AssertionError\n" for n in range(10)), 1, 0, 11, []),
    ],
)
def test_only_what_fails_twice_has_failed(
    tmp_path: Path, text: str, status: int, passed: int, failed: int, retried: list[str]
) -> None:
    found, counts = run(tmp_path, text)
    assert (found, counts.passed, counts.failed) == (status, passed, failed)
    assert [name.rpartition(" ")[2] for name in counts.retried] == retried


@pytest.mark.slow
def test_a_second_try_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    run(tmp_path, ONCE)
    report = tmp_path / "report.xml"
    status = run_twice(
        PYTEST, report, ["-q", f"-c{tmp_path / 'pytest.ini'}", str(tmp_path / "tests")], tmp_path / "cache"
    )
    assert (status, count_both(report)[0]) == (0, Counts(passed=1))
