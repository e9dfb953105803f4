# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules about plugins, roles, playbooks and their scenarios find."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.rules import check_assignments, check_layout, check_orders

SCENARIO = Path("extensions/molecule/stir")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection with nothing but the playbook `stir` and its scenario."""
    monkeypatch.chdir(tmp_path)
    SCENARIO.mkdir(parents=True)
    Path("playbooks").mkdir()
    Path("playbooks/stir.yml").touch()
    for name in ("molecule.yml", "verify.yml"):
        (SCENARIO / name).touch()
    (SCENARIO / "converge.yml").write_text("molecule_play: brine.virt.stir -e vm=web1\n", encoding="utf-8")


def test_a_playbook_with_a_scenario_is_well() -> None:
    assert list(check_layout()) == []


@pytest.mark.parametrize("name", ["molecule.yml", "converge.yml", "verify.yml"])
@pytest.mark.parametrize("kind", ["playbook", "role"])
def test_what_a_scenario_lacks_is_named(kind: str, name: str) -> None:
    if kind == "role":
        Path("playbooks/stir.yml").unlink()
        Path("roles/stir/meta").mkdir(parents=True)
        for file in ("README.md", "meta/argument_specs.yml"):
            Path("roles/stir", file).touch()
    (SCENARIO / name).unlink()
    assert list(check_layout()) == [f"{SCENARIO}: {name} is not there, and so no scenario of the {kind}"]


@pytest.mark.parametrize("called", ["brine.virt.stirring", "brine.virt.virt_stir", "stir"])
def test_a_scenario_that_runs_another_playbook_is_none(called: str) -> None:
    (SCENARIO / "converge.yml").write_text(f"molecule_play: {called}\n", encoding="utf-8")
    assert list(check_layout()) == [f"{SCENARIO}/converge.yml: does not run brine.virt.stir"]


def test_a_playbook_that_cannot_be_called_is_named() -> None:
    Path("playbooks/stir.yml").rename("playbooks/stir-well.yml")
    assert any("the name is no identifier" in line for line in check_layout())


def test_several_names_at_once_are_nothing_for_ansible_doc() -> None:
    Path("plugins/lookup").mkdir(parents=True)
    source = Path("plugins/lookup/stirred.py")
    source.write_text("A = B = 1\nC, D = 1, 2\n", encoding="utf-8")
    assert [line.rpartition(": ")[0] for line in check_assignments()] == [f"{source}:2"]


def test_what_has_another_order_in_each_run_is_named() -> None:
    source = Path("playbooks/stir.yml")
    source.write_text(
        "a: \"{{ [reason] | union(['x', f()]) | join(': ') }}\"\n"
        "b: \"{{ (mine | difference(f('y')) | intersect(z)) | sort }}\"\n"
        'c: "{{ mine | intersect(z) | length > 0 }}"\n'
        'd: "{{ mine | difference(z) }}"\n',
        encoding="utf-8",
    )
    assert [line.partition(": ")[0] for line in check_orders()] == [f"{source}:1", f"{source}:4"]
