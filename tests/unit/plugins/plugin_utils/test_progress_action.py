# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions that only show how far their modules are."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.action import (
    virt_backup,
    virt_image,
    virt_migrate,
    virt_rebase,
    virt_restore,
    virt_snapshot,
    virt_volume,
    virt_wait,
)
from ansible_collections.brine.virt.plugins.plugin_utils._progress_action import ProgressAction


@pytest.mark.parametrize("plugin", [virt_backup, virt_rebase, virt_restore, virt_snapshot, virt_wait])
def test_each_runs_the_module_of_its_name(plugin: t.Any) -> None:
    assert issubclass(plugin.ActionModule, ProgressAction)
    assert plugin.ActionModule.module == f"brine.virt.{plugin.__name__.rpartition('.')[2]}"


@pytest.mark.parametrize("name", ["_progress_file", "_only_asked", "_sent_files"])
@pytest.mark.parametrize("plugin", [virt_image, virt_migrate, virt_snapshot, virt_volume])
def test_what_an_action_sends_beside_the_options_is_no_option(
    monkeypatch: pytest.MonkeyPatch, plugin: t.Any, name: str
) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})
    action = object.__new__(plugin.ActionModule)
    task = Task()
    task.args = {"name": "web1", name: True}
    monkeypatch.setattr(action, "_task", task, raising=False)
    try:
        said = action.run(task_vars={})["msg"]
    except AnsibleActionFail as exc:
        said = str(exc)
    assert said == f"{name}: not for tasks"


@pytest.mark.slow
def test_the_answer_is_that_of_the_module(
    tmp_path: Path, collections_root: Path, other_process: dict[str, str]
) -> None:
    env = {**other_process, "ANSIBLE_COLLECTIONS_PATH": str(collections_root), "HOME": str(tmp_path)}
    command = [
        *(sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-i", "localhost,", "-c", "local"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "-m", "brine.virt.virt_rebase"),
        *("-a", "uri=test:///default name=test"),
    ]
    answer = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert "uri: test:///default is another host" in answer.stdout + answer.stderr, answer
