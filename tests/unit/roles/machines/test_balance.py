# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of the moves that the playbook brine.virt.balance makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
MOVES = [
    {"name": "web1", "source": "hv2", "target": "hv3"},
    {"name": "web2", "source": "hv1", "target": "hv2"},
    {"name": "web3", "source": "hv3", "target": "hv1"},
]


@pytest.mark.parametrize(("broken", "made"), [("nobody", ["web1", "web2", "web3"]), ("web2", ["web1"])])
def test_after_a_move_that_fails_none_is_made_that_may_need_its_place(
    tmp_path: Path, broken: str, made: list[str]
) -> None:
    """web1 and web2 are of one anti-affinity group, say: web2 may come only when web1 has gone."""
    play = yaml.safe_load((PLAYBOOKS / "balance.yml").read_text(encoding="utf-8"))[-1]
    (moving,) = (task for task in play["tasks"] if task.get("loop"))
    plan = {"ansible.builtin.set_fact": {"virt_balance_plan": {"moves": MOVES}}}
    play.update(hosts="all", become=False, tasks=[plan, moving])
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    (tmp_path / "tasks").mkdir()
    here = "virt_moves.by_source[inventory_hostname] is defined"
    move = [
        {"ansible.builtin.fail": {"msg": "no room"}, "when": [here, f"item.name == '{broken}'"]},
        {"ansible.builtin.debug": {"msg": "moved {{ item.name }}"}, "when": here},
    ]
    (tmp_path / "tasks/move.yml").write_text(yaml.safe_dump(move), encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": dict.fromkeys(("hv1", "hv2", "hv3"), host)}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    assert [name for name in ("web1", "web2", "web3") if f"moved {name}" in done.stdout] == made, done.stdout
    assert done.returncode == (0 if broken == "nobody" else 2)
