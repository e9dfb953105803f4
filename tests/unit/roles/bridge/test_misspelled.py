# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A misspelled variable in a play of one's own ends the run before the role has looked at the host."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("role", "variables", "said"),
    [
        (
            "virt_bridge",
            {"virt_bridge_bridge": []},
            "virt_bridge_bridge: unknown variable. Did you mean virt_bridge_bridges?",
        ),
        ("virt_tls", {"virt_tls_enable": False}, "virt_tls_enable: unknown variable. Did you mean virt_tls_enabled?"),
    ],
)
def test_it_is_refused(tmp_path: Path, role: str, variables: dict[str, t.Any], said: str) -> None:
    host: dict[str, t.Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    # Of other roles and playbooks, and of nobody.
    host |= {"virt_provision_wait": False, "virt_power_concurrency": 2, "virt_site": "prague"}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"hv1": host}}}), encoding="utf-8")
    play = {"hosts": "all", "gather_facts": False, "roles": [{"role": f"brine.virt.{role}", "vars": variables}]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "--check", "play.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stdout and "virt_site" not in done.stdout, done.stdout
