# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No check is lost: what was not run to its end has failed."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.runner import Check, Runner
from ansible_collections.brine.virt.tests.gate.units.by_pytest import count_both


def verdicts(runner: Runner, *checks: Check) -> dict[str, str]:
    return {result.name: result.verdict for result in runner.run(checks)}


@pytest.mark.parametrize("status", [0, 1])
def test_tests_without_a_report_have_failed_and_the_next_ones_of_the_lane_run(tmp_path: Path, status: int) -> None:
    """Such as those of a pytest that the kernel has killed for memory."""
    runner = Runner(tmp_path)
    killed = Check(
        "killed",
        ["sh", "-c", f"exit {status}"],
        tmp_path,
        lane="one",
        count=functools.partial(count_both, tmp_path / "none.xml"),
    )
    assert verdicts(runner, killed, Check("next", ["true"], tmp_path, lane="one")) == {"killed": "FAILED", "next": "ok"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_check_that_cannot_be_started_has_failed(tmp_path: Path) -> None:
    gone = Check("gone", [str(tmp_path / "no such program")], tmp_path)
    assert verdicts(Runner(tmp_path), gone) == {"gone": "FAILED"}
