# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that is cut off while an SSH connection to it is open keeps no task waiting: what only asks has a limit."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

COLLECTION = Path(__file__).resolve().parents[3]
FILES = sorted(
    path.relative_to(COLLECTION)
    for pattern in ("playbooks/**/*.yml", "roles/*/tasks/*.yml")
    for path in COLLECTION.glob(pattern)
)
# They answer at once, or as soon as another run gives up the hypervisor's lock.
ASKING = {
    *("virt_info", "virt_spec_info", "virt_host_info", "virt_usage_info"),
    *("virt_cpu_baseline", "virt_claim", "virt_maintenance"),
}
ASKING_BUILTIN = {"setup", "raw", "command", "ping"}
# They take as long as their work, or have a limit of their own.
WORKING = {
    "virt_init",
    "virt_backup",
    "virt_restore",
    "virt_image",
    "virt_migrate",
    "virt_power",
    "virt_adopt",
    "virt_purge",
    "virt_snapshot",
    "virt_wait",
    "virt_keys",
    "virt_network",
    "virt_pool",
    "virt_secret",
    "virt_volume",
    "virt_kernel",
    "virt_bridge_switch",
    "virt_firewall_switch",
    "virt_switch",
}
# In check mode too, as they read the content of files and disks.
READING = {"brine.virt.virt_volume", "brine.virt.virt_image"}
# Of the modules that have a limit of their own: less than the task has, so that they can say what they waited for.
MODULE_SECONDS = "{{ [30, virt_answer_seconds | default(45) | int - 15] | max }}"
CONTROLLER = {"virt_show", "virt_profile_info", "virt_known_hosts"}


def tasks_in(node: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """All tasks of plays, blocks and files of tasks, with everything else that is a mapping."""
    if isinstance(node, dict):
        yield node
        for key in ("pre_tasks", "tasks", "post_tasks", "block", "rescue", "always"):
            yield from tasks_in(node.get(key, []))
    elif isinstance(node, list):
        for item in node:
            yield from tasks_in(item)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_task_that_asks_a_host_has_a_time_limit(path: Path) -> None:
    asking = {f"brine.virt.{name}" for name in ASKING}
    if path.parts[0] == "playbooks":
        asking |= {f"ansible.builtin.{name}" for name in ASKING_BUILTIN}
    tasks = list(tasks_in(yaml.safe_load((COLLECTION / path).read_text(encoding="utf-8"))))
    only_ask = [
        task
        for task in tasks
        if asking & set(task)
        or (task.get("check_mode") is True and "brine.virt" in str(task) and not READING & set(task))
    ]
    without = [task["name"] for task in only_ask if "virt_answer_seconds" not in str(task.get("timeout"))]
    assert without == []
    ours = {key.rpartition(".")[2] for task in tasks for key in task if key.startswith("brine.virt.virt_")}
    assert ours <= ASKING | WORKING | CONTROLLER, "Say whether this module only asks"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_who_gives_a_hypervisor_more_time_gives_it_to_the_module_as_well(path: Path) -> None:
    """These two have a limit of their own, which is less than the task's."""
    tasks = tasks_in(yaml.safe_load((COLLECTION / path).read_text(encoding="utf-8")))
    own = [
        (task["name"], (task[f"brine.virt.{name}"] or {}).get("timeout"))
        for task in tasks
        for name in ("virt_info", "virt_host_info")
        if f"brine.virt.{name}" in task
    ]
    assert [task for task, limit in own if limit != MODULE_SECONDS] == []


@pytest.mark.parametrize(("given", "seconds"), [({}, 30), ({"virt_answer_seconds": "300"}, 285)])
def test_the_module_gives_up_before_the_task_does(given: dict[str, str], seconds: int) -> None:
    assert int(Templar(DataLoader(), given).template(trust_as_template(MODULE_SECONDS))) == seconds
