# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a move that cannot be finished keeps from being done: the parts of the playbooks that move machines."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
MOVES = {
    "by_source": {"hv1": [{"name": "db1", "target": "hv3"}]},
    "ahead": {"hv1": []},
    "moves": [{"name": "db1", "source": "hv1", "target": "hv3"}],
    "stay": [],
    "unfinished": {"hv1": [{"name": "web9", "target": "hv2"}]},
}
# No two hypervisors of libvirt's test driver have names of their own, so that none has left a move to another.
MIGRATE = """
from ansible.module_utils.basic import AnsibleModule
options = ("concurrency", "timeout", "bandwidth", "live", "postcopy", "copy_storage", "source_volumes", "tls", "pool",
           "disks", "anti_affinity")
module = AnsibleModule(
    {"machines": {"type": "list", "elements": "dict"}, **{name: {} for name in options}}, supports_check_mode=True
)
names = [machine["name"] for machine in module.params["machines"]]
if "web9" in names and BROKEN:
    module.fail_json(msg="hv2 does not answer")
module.exit_json(changed=True, moved=names)
"""
DB1 = {"name": "db1", "uuid": "00000000-0000-4000-8000-000000000001", "vcpus": 1, "state": "running"}
PARTS = ("finish.yml", "move.yml", "finish_failed.yml")


def parts_of(file: str) -> list[dict[str, object]]:
    """The tasks of a file that finish moves and make them."""
    tasks = yaml.safe_load((PLAYBOOKS / file).read_text(encoding="utf-8"))
    tasks = tasks if file.startswith("tasks/") else tasks[-1]["tasks"]
    return [task for task in tasks if any(part in str(task) for part in PARTS)]


@pytest.mark.parametrize(
    ("file", "broken"),
    [
        ("migrate.yml", True),
        ("evacuate.yml", True),
        ("balance.yml", True),
        ("balance.yml", False),
        ("tasks/leave_empty.yml", True),
    ],
)
def test_other_machines_move_and_the_run_says_at_its_end_what_is_not_finished(
    tmp_path: Path, file: str, broken: bool
) -> None:
    shutil.copytree(PLAYBOOKS / "tasks", tmp_path / "tasks")
    for task in (tmp_path / "tasks").glob("*.yml"):
        task.write_text(task.read_text(encoding="utf-8").replace("brine.virt.virt_migrate:", "migrate:"))
    (tmp_path / "library").mkdir()
    (tmp_path / "library/migrate.py").write_text(MIGRATE.replace("BROKEN", str(broken)), encoding="utf-8")
    balance = yaml.safe_load((PLAYBOOKS / "balance.yml").read_text(encoding="utf-8"))[-1]["vars"]
    given = {
        "virt_moves": MOVES,
        "virt_balance_plan": MOVES,
        "virt_balance_keys": balance["virt_balance_keys"],
        "virt_migrate_stays": False,
        "virt_fleet": {name: {"machines": [DB1] if name == "hv1" else []} for name in ("hv1", "hv2", "hv3")},
        "virt_known_hosts": str(tmp_path / "keys"),
    }
    # include_tasks of a file of tasks is found beside it.
    text = yaml.safe_dump(parts_of(file)).replace("tasks/", "") if file.startswith("tasks/") else ""
    tasks = yaml.safe_load(text.replace("include_tasks: ", "include_tasks: tasks/")) if text else parts_of(file)
    play = {"hosts": "all", "gather_facts": False, "vars": given, "any_errors_fatal": bool(text), "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": dict.fromkeys(("hv1", "hv2", "hv3"), host)}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "-v", "play.yml")
    assert '"moved": ["db1"]' in done.stdout, done.stdout
    assert (tmp_path / "keys").read_text() == f"# virt-{DB1['uuid']} brine.virt:hv3 db1\n"
    sentence = "The move of web9 from hv1 could not be finished: hv2 does not answer"
    assert (sentence in done.stdout) is broken, done.stdout
    assert done.returncode == (2 if broken else 0)
    if file in ("migrate.yml", "evacuate.yml"):
        # db1 waits for what is not done in check mode.
        ahead = run_ansible(tmp_path, "-i", "hosts.yml", "-v", "--check", "play.yml")
        assert '"moved": ["db1"]' not in ahead.stdout, ahead.stdout
