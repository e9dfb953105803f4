# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scenarios of molecule are run, and that none is forgotten."""

from __future__ import annotations

from pathlib import Path

import yaml

from ansible_collections.brine.virt.tests.gate.lab.molecule import CHAIN, COVERED, QUICK, Molecule

ROOT = Path(__file__).resolve().parents[3]
MOLECULE = ROOT / "extensions/molecule"


def test_each_scenario_is_run_or_covered(tmp_path: Path) -> None:
    there = {path.parent.name for path in MOLECULE.glob("*/molecule.yml")} - {"default"}
    run = [*Molecule(ROOT, tmp_path).names(), *Molecule(ROOT, tmp_path, full=True).names()]
    assert sorted([*run, *COVERED]) == sorted(there)
    assert set(QUICK) <= set(run)


def test_what_is_covered_is_done_and_verified_elsewhere() -> None:
    for name in COVERED:
        play = yaml.safe_load((MOLECULE / name / "converge.yml").read_text(encoding="utf-8"))
        other = yaml.safe_load((MOLECULE / "virt_tls/converge.yml").read_text(encoding="utf-8"))
        assert play[0]["roles"][0] in other[0]["roles"]
        verified = yaml.safe_load((MOLECULE / "virt_tls/verify.yml").read_text(encoding="utf-8"))
        assert {"ansible.builtin.import_playbook": f"../{name}/verify.yml"}.items() <= verified[0].items()


def test_the_first_on_shared_hosts_makes_what_the_others_begin_with() -> None:
    first, *others = (MOLECULE / name / "converge.yml" for name in CHAIN)
    for path in (first, *others):
        plays = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert "brine.virt.hypervisors" in [play.get("ansible.builtin.import_playbook") for play in plays]
