# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_init: what it sends beside the options."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.brine.virt.plugins.action.virt_init import ActionModule
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import HOST_NAME, OPTION
from ansible_collections.brine.virt.plugins.plugin_utils import _withholding_action


def run(
    monkeypatch: pytest.MonkeyPatch, args: dict[str, t.Any], **words: t.Any
) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """What the module gets, and the task's result. words: what else the task has."""
    given: dict[str, t.Any] = {}

    def execute(**call: t.Any) -> dict[str, t.Any]:
        given.update(call["module_args"])
        return {"changed": False}

    monkeypatch.setattr(_withholding_action.ActionBase, "run", lambda *_words: {})
    action = object.__new__(ActionModule)
    keywords = {"check_mode": False, "async_val": 0, "no_log": False, "delegate_to": None, **words}
    task = types.SimpleNamespace(args=args, **keywords)
    for name, value in (
        ("_task", task),
        ("_connection", types.SimpleNamespace(has_native_async=False)),
        ("_execute_module", execute),
    ):
        monkeypatch.setattr(action, name, value, raising=False)
    return given, action.run(task_vars={"inventory_hostname": "hv1"})


def test_the_module_is_told_what_the_inventory_calls_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    given, _result = run(monkeypatch, {"name": "web1"})
    assert given.pop(OPTION) is not None
    assert given.pop(PROGRESS_FILE).startswith("/tmp/")
    assert given == {"name": "web1", HOST_NAME: "hv1"}


def test_a_delegated_task_is_told_the_name_of_the_host_that_it_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given, _result = run(monkeypatch, {"name": "web1"}, delegate_to="hv2")
    assert given[HOST_NAME] == "hv2"


@pytest.mark.parametrize("words", [{"check_mode": True}, {"async_val": 10}, {"no_log": True}])
def test_nobody_is_told_of_the_progress_of_what_nobody_waits_for_or_may_see(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, t.Any]
) -> None:
    given, _result = run(monkeypatch, {"name": "web1"}, **words)
    assert HOST_NAME in given and PROGRESS_FILE not in given


@pytest.mark.parametrize("name", [OPTION, HOST_NAME, PROGRESS_FILE])
def test_what_goes_beside_the_options_is_no_option(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(AnsibleActionFail, match=f"{name}: not for tasks"):
        run(monkeypatch, {"name": "web1", name: "x"})
