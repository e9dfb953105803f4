# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scenarios are run in which lab, and what they are given there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.__main__ import FIRST
from ansible_collections.brine.virt.tests.scenario.needs import NEEDS
from ansible_collections.brine.virt.tests.scenario.runner import LABS, SCENARIOS

PACKAGE = "ansible_collections.brine.virt.tests.scenario.scenarios"
SCENARIO_FILES = sorted(
    path
    for path in (Path(__file__).resolve().parents[2] / "scenario/scenarios").glob("*/*.py")
    if "\ndef run(" in path.read_text(encoding="utf-8")
)


def test_each_scenario_is_run_once() -> None:
    listed = [*SCENARIOS, *(name for names in LABS.values() for name in names)]
    assert sorted(listed) == sorted(path.stem for path in SCENARIO_FILES)


def test_contributing_names_every_lab() -> None:
    """Who runs the full test in the parts that are named there runs all of it."""
    text = (Path(__file__).resolve().parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"`make test-full` runs the long ones in (\w+) labs, .*?\. If", text, re.DOTALL)
    assert found is not None
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert numbers.index(found[1]) + 1 == len(LABS)
    assert set(re.findall("`([^`]+)`", found[0])) == {"make test-full", *(lab or FIRST for lab in LABS)}


@pytest.mark.parametrize("path", SCENARIO_FILES, ids=lambda path: path.stem)
def test_a_scenario_is_given_what_it_needs(path: Path) -> None:
    module = importlib.import_module(f"{PACKAGE}.{path.parent.name}.{path.stem}")
    assert set(module.NEEDS) <= set(NEEDS)


def test_what_is_killed_by_its_file_has_one() -> None:
    killers = []
    for path in SCENARIO_FILES:
        text = path.read_text(encoding="utf-8")
        if "nsiballZ" in text or "import MODULE" in text:
            killers.append(path.stem)
            # Move has them so.
            assert "modules_in_files()" in text or "Move" in text or "on_its_way" in text, path
    assert "rebasing" in killers
