# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GitHub runs on a change, and what once a week."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.gate.__main__ import CHECKS, PARTS

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
NOT_ON_A_CHANGE = {"schedule", "workflow_dispatch"}


def commands(job: dict[str, t.Any]) -> str:
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


def events(job: dict[str, t.Any]) -> set[str]:
    """Those that a job runs on: of the workflow's own, the ones that its condition names, or all."""
    return set(re.findall(r"github\.event_name == '(\w+)'", job.get("if", ""))) or set(WORKFLOW["on"])


def jobs_with(words: str) -> list[dict[str, t.Any]]:
    return [job for job in WORKFLOW["jobs"].values() if words in commands(job)]


def test_a_change_is_tested_with_the_same_command_as_everywhere_else() -> None:
    (job,) = jobs_with("./.ci/run")
    assert events(job) == set(WORKFLOW["on"]) >= {"pull_request", "push", "schedule"}


def test_the_checks_of_the_full_test_run_every_week_and_not_on_a_change() -> None:
    (job,) = jobs_with("make test-full")
    assert events(job) == NOT_ON_A_CHANGE <= set(WORKFLOW["on"])
    (parts,) = re.findall(r"make test-full PART='?([\w ]+?)'? SCENARIO=no", commands(job))
    assert CHECKS in parts.split() and set(parts.split()) <= set(PARTS)


@pytest.mark.parametrize("name", WORKFLOW["jobs"])
def test_a_job_that_fails_leaves_its_logs_and_ends_by_itself(name: str) -> None:
    job = WORKFLOW["jobs"][name]
    # GitHub ends one after six hours, and keeps nothing of it then.
    assert 0 < job["timeout-minutes"] < 360
    kept = [step for step in job["steps"] if step.get("if") == "failure()"]
    assert [step["with"]["path"] for step in kept] == [".build/log"]
    others = [step["with"]["name"] for other in WORKFLOW["jobs"].values() for step in other["steps"] if "if" in step]
    assert others.count(kept[0]["with"]["name"]) == 1
