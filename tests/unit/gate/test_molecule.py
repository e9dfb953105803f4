# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scenarios of molecule are run, and that none is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.gate.lab.molecule import CHAIN, QUICK, Molecule
from ansible_collections.brine.virt.tests.gate.results import Counts, Result

ROOT = Path(__file__).resolve().parents[3]
MOLECULE = ROOT / "extensions/molecule"


def test_each_scenario_is_run_once(tmp_path: Path) -> None:
    there = {path.parent.name for path in MOLECULE.glob("*/molecule.yml")} - {"default"}
    run = [*Molecule(ROOT, tmp_path).names(), *Molecule(ROOT, tmp_path, full=True).names()]
    assert sorted(run) == sorted(there)
    assert set(QUICK) <= set(run)


def imported(path: Path) -> list[str]:
    """The playbooks that one imports, in their order."""
    plays = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [play.get("ansible.builtin.import_playbook", "") for play in plays]


def test_the_first_on_shared_hosts_makes_what_the_others_begin_with() -> None:
    first, *others = (MOLECULE / name / "converge.yml" for name in CHAIN)
    assert imported(first) == ["brine.virt.hypervisors"]
    assert "brine.virt.hypervisors" in imported(MOLECULE / "default/hypervisors.yml")
    assert {path.parent.name: imported(path)[0] for path in others} == dict.fromkeys(
        CHAIN[1:], "../default/hypervisors.yml"
    )


def test_what_leaves_no_two_hypervisors_is_the_last_on_shared_hosts() -> None:
    assert len(CHAIN) == len(set(CHAIN))
    assert CHAIN[-1] == "retire"


@pytest.mark.parametrize("failing", CHAIN)
def test_after_one_that_fails_the_next_one_alone_begins_with_bare_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    begun: dict[str, bool] = {}

    def run_one(_self: Molecule, name: str, hosts: Mapping[str, str]) -> Result:
        begun[name] = hosts == {"KEEP_HOSTS": "1", "HOSTS_ARE_HYPERVISORS": "1"}
        return Result(name, "FAILED" if name == failing else "ok", 0, Counts())

    monkeypatch.setattr(Molecule, "_run_one", run_one)
    monkeypatch.setattr(Molecule, "_lab_is_there", lambda _self: True)
    monkeypatch.delenv("SCENARIO", raising=False)
    molecule = Molecule(ROOT, tmp_path, full=True)
    molecule.run()
    names = molecule.names()
    bare = {CHAIN[0], *names[len(CHAIN) :], names[names.index(failing) + 1]}
    assert {name for name, kept in begun.items() if not kept} == bare


def test_the_others_on_shared_hosts_leave_no_machines_to_one_of_a_playbook() -> None:
    """Else it would see those of the ones before it."""
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        if path.stem not in ("hypervisors", "provision"):
            steps = imported(MOLECULE / path.stem / "converge.yml")
            assert steps.index("../default/machines.yml") < len(steps) - 1 - steps[::-1].index("../default/play.yml")
