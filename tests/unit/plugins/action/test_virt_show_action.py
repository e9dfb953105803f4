# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be shown is printed."""

from __future__ import annotations

import datetime
import json
import typing as t

import pytest
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.action.virt_show import ActionModule


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> t.Callable[..., str]:
    """What is printed for a task with these options and this no_log."""
    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})

    def run(*, no_log: bool = False, **options: t.Any) -> str:
        action = object.__new__(ActionModule)
        task = Task()
        task.args, task.no_log = options, no_log
        monkeypatch.setattr(action, "_task", task, raising=False)
        assert action.run(task_vars={})["facts"] == options.get("facts")
        return capsys.readouterr().out

    return run


def test_the_text_is_printed_as_it_is(show: t.Callable[..., str]) -> None:
    assert show(text="two\n  lines") == "two\n  lines\n"


def test_what_a_hypervisor_says_does_not_draw_on_the_terminal(show: t.Callable[..., str]) -> None:
    assert show(text="hv2 is left out: \x1b[2J\x1b]0;title\x07\rgone\nhv3 täglich") == (
        "hv2 is left out:  [2J ]0;title  gone\nhv3 täglich\n"
    )


def test_what_is_to_be_in_no_log_is_not_printed(show: t.Callable[..., str]) -> None:
    assert show(text="a secret", no_log=True) == ""


def test_values_that_json_has_not_are_printed_as_texts(show: t.Callable[..., str]) -> None:
    facts = {"web1": {"since": datetime.date(2027, 1, 31), "vcpus": 2}}
    assert json.loads(show(text="", facts=facts, output="json")) == {"web1": {"since": "2027-01-31", "vcpus": 2}}
