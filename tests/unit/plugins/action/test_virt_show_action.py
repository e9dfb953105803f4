# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be shown is printed."""

from __future__ import annotations

import datetime
import json
import typing as t

import pytest
from ansible.errors import AnsibleActionFail
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


class HostVars(dict[str, t.Any]):
    """Ansible's own, whose values are templates that are rendered when they are asked for, but for this."""

    def raw_get(self, host: str) -> t.Any:
        return dict.__getitem__(self, host)

    def __getitem__(self, host: str) -> t.Any:
        raise AssertionError("rendered")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> t.Callable[..., tuple[str, t.Any]]:
    """What is printed for answers that hosts have registered as «found», and the result."""
    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})

    def run(answers: dict[str, t.Any], **options: t.Any) -> tuple[str, t.Any]:
        action = object.__new__(ActionModule)
        task = Task()
        given = {"report": "machines", "registered": "found", **options}
        task.args = {name: value for name, value in given.items() if value is not None}
        monkeypatch.setattr(action, "_task", task, raising=False)
        hosts = HostVars({host: {"found": answer} if answer else {} for host, answer in answers.items()})
        result = action.run(task_vars={"hostvars": hosts, "ansible_play_hosts_all": list(answers)})
        return capsys.readouterr().out, result

    return run


WEB1 = {"machines": [{"name": "web1", "state": "running", "vcpus": 1}]}


def test_a_report_is_the_table_and_its_data(report: t.Callable[..., tuple[str, t.Any]]) -> None:
    printed, result = report({"hv1": WEB1, "hv2": {"failed": True, "msg": "no route"}, "hv3": None})
    assert printed.splitlines()[1].split()[:3] == ["web1", "running", "hv1"]
    assert printed.splitlines()[-2:] == ["hv2: did not answer: no route", "hv3: did not answer: it was not asked"]
    assert result["facts"]["machines"] == [{**WEB1["machines"][0], "hypervisor": "hv1"}]
    assert not result.get("failed")
    assert json.loads(report({"hv1": WEB1}, output="json")[0])["hypervisors"] == ["hv1"]


def test_what_was_asked_for_and_is_not_there_fails_after_it_was_shown(
    report: t.Callable[..., tuple[str, t.Any]],
) -> None:
    printed, result = report({"hv1": WEB1}, names=["web2"])
    assert "web1" in printed
    assert (result["failed"], result["msg"]) == (
        True,
        "There is no machine web2 on the hypervisors that answered. Did you mean web1?",
    )


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        ({"machines": "none"}, {}, "hv1: this is not a list of machines"),
        ({"host": {}}, {"report": "hypervisors"}, "hv1: these are not the facts of a hypervisor"),
    ],
)
def test_an_answer_of_another_module_is_refused(
    report: t.Callable[..., tuple[str, t.Any]], answer: t.Any, options: dict[str, t.Any], message: str
) -> None:
    printed, result = report({"hv1": answer}, **options)
    assert (printed, result["failed"], result["msg"].partition(".")[0]) == ("", True, message)


@pytest.mark.parametrize(
    "options", [{"text": "a"}, {"facts": []}, {"failure": "a"}, {"registered": None}, {"report": None}]
)
def test_a_report_brings_its_own_text(report: t.Callable[..., tuple[str, t.Any]], options: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleActionFail):
        report({"hv1": WEB1}, **options)
