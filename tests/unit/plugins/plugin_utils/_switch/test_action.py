# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which connections a change is confirmed. tests/unit/roles/test_confirm.py has it in whole runs of Ansible."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.brine.virt.plugins.action import virt_bridge_switch, virt_firewall_switch
from ansible_collections.brine.virt.plugins.plugin_utils._switch import action, confirming

ARMED = {
    **{"changed": True, "state": "armed", "change": "bridge-br0", "token": "0123"},
    **{"apply_seconds": 1, "settle_seconds": 1},
}


class Connection:
    """As much of a connection plugin as the action asks for."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self._shell = SimpleNamespace(tmpdir="/root/.ansible/tmp/1")
        self.options: dict[str, t.Any] = {
            **{"ssh_extra_args": "-o Port=222", "ssh_transfer_method": "smart"},
            **{"reconnection_retries": 9, "timeout": 120},
        }
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def get_option(self, name: str) -> t.Any:
        return self.options[name]

    def set_option(self, name: str, value: t.Any) -> None:
        self.options[name] = value


class Action(virt_bridge_switch.ActionModule):
    """Its modules answer what they are told to, in turn."""

    def __init__(self, transport: str, answers: list[t.Any], **args: t.Any) -> None:
        task: t.Any = SimpleNamespace(args=args, async_val=0, check_mode=False, delegate_to=None, action=self.module)
        self.answers, self.called = answers, list[tuple[str, t.Any, t.Any]]()
        self.connection = Connection(transport)
        connection: t.Any = self.connection
        unused: t.Any = None
        super().__init__(task, connection, unused, unused, unused)

    def _execute_module(
        self, module_name: t.Any = None, module_args: t.Any = None, *_more: t.Any, **_words: t.Any
    ) -> dict[str, t.Any]:
        self.called.append((module_name.rpartition(".")[2], (module_args or {}).get("phase"), self.connection.resets))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def said(self) -> dict[str, t.Any]:
        return self.run(None, {"inventory_hostname": "hv1"})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "BEFORE_SECONDS", 0)
    monkeypatch.setattr(confirming, "_AGAIN_SECONDS", 0)


def test_the_modules_are_theirs() -> None:
    for plugin in (virt_bridge_switch, virt_firewall_switch):
        assert issubclass(plugin.ActionModule, action.SwitchAction)
        assert plugin.ActionModule.module == f"brine.virt.{plugin.__name__.rpartition('.')[2]}"


@pytest.mark.parametrize(
    ("answer", "confirm"),
    [
        (ARMED, False),
        (ARMED, "no"),
        ({"changed": True, "state": "absent"}, True),
        ({"changed": False, "state": "present"}, True),
        ({"failed": True, "msg": "no"}, True),
    ],
)
def test_what_need_not_be_confirmed_is_the_modules_own_answer(answer: dict[str, t.Any], confirm: t.Any) -> None:
    ours = Action("ssh", [answer], name="br0", confirm=confirm)
    assert ours.said() == answer
    assert ours.connection.resets == 0
    assert ours.connection.options["reconnection_retries"] == 9


@pytest.mark.parametrize(("seconds", "longest"), [(None, 20), (9, 10), (3600, 120), ("60", 20)])
def test_by_ssh_no_call_shares_a_connection_or_waits_long(seconds: t.Any, longest: int) -> None:
    given = {} if seconds is None else {"confirm_seconds": seconds}
    ours = Action("ssh", [ARMED, {"state": "applied"}, {"state": "confirmed"}], confirm=True, **given)
    assert ours.said() == {**ARMED, "state": "confirmed"}
    assert ours.called == [("virt_bridge_switch", None, 0), ("virt_switch", "wait", 1), ("virt_switch", "confirm", 1)]
    assert ours.connection.options == {
        "ssh_extra_args": "-o Port=222 -S none -o ServerAliveInterval=3 -o ServerAliveCountMax=3",
        "ssh_transfer_method": "piped",
        "reconnection_retries": 0,
        "timeout": longest,
    }


def test_by_another_plugin_each_call_is_after_a_reset() -> None:
    lost = AnsibleConnectionFailure("no route to host")
    ours = Action("paramiko", [ARMED, lost, {"state": "applied"}, {"state": "confirmed"}], confirm=True)
    assert ours.said()["state"] == "confirmed"
    assert [resets for _module, _phase, resets in ours.called] == [0, 2, 3, 4]
    assert ours.connection.options["timeout"] == 120


def test_a_change_that_went_back_has_failed() -> None:
    failed = {"failed": True, "msg": "nmcli refuses it"}
    report = {"state": "rolled_back", "log": ["10:15 failed: nmcli"], "missing": []}
    ours = Action("ssh", [ARMED, failed, report, report], name="br0", confirm=True)
    said = ours.said()
    assert said["failed"] is True
    assert said["msg"] == (
        "hv1 has not got the bridge br0 as it should be: the change was rolled back, and everything is as before. "
        "Seen from here: nmcli refuses it. Seen from the host: 10:15 failed: nmcli."
    )
