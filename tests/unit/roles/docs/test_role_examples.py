# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-doc shows of a role begins with a play that uses it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.plugin_utils._resource_mistakes import resource_mistakes, type_mistakes
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

ROLES = Path(__file__).resolve().parents[4] / "roles"
SPECS = {role.name: yaml.safe_load((role / "meta/argument_specs.yml").read_text("utf-8")) for role in ROLES.iterdir()}
ENTRIES = [(role, entry) for role, spec in SPECS.items() for entry in spec["argument_specs"]]


@pytest.mark.parametrize(("role", "entry"), ENTRIES)
def test_the_play_uses_the_role_with_its_own_variables(tmp_path: Path, role: str, entry: str) -> None:
    spec = SPECS[role]["argument_specs"][entry]
    (play,) = yaml.safe_load(spec["examples"])
    used: dict[str, t.Any]
    if entry == "main":
        (used,) = play["roles"]
        assert used["role"] == f"brine.virt.{role}"
    else:
        (used,) = play["tasks"]
        assert used["ansible.builtin.include_role"] == {"name": f"brine.virt.{role}", "tasks_from": entry}
    variables = used.get("vars", {})
    assert variables.keys() <= spec["options"].keys()
    assert {name for name, option in spec["options"].items() if option.get("required")} <= variables.keys()
    assert not type_mistakes(variables, spec["options"])
    assert not resource_mistakes({name: value for name, value in variables.items() if name.endswith("_bridges")})
    (tmp_path / "play.yml").write_text(spec["examples"], encoding="utf-8")
    done = run_ansible(tmp_path, "--syntax-check", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
