# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_power, called as Ansible calls it, on libvirt's test driver."""

from __future__ import annotations

import functools
import json
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._base.errors import NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host import locks as host_locks
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._operations.power import change, late, locks, wait
from ansible_collections.brine.virt.plugins.module_utils._operations.power.plan import REQUESTS, Action
from ansible_collections.brine.virt.plugins.modules import virt_power

Call = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], node_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run main() with arguments and give back its result."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    for module in (locks, host_locks):
        monkeypatch.setattr(module, "hypervisor_lock", locked)
    # It forks, for which no thread may run; this process has libvirt's for its events. Seen in 6 of 1,800 forks: the
    # thread holds a lock of libvirt's then, and the child waits for it for ever.
    monkeypatch.setattr(virt_power, "run_guarded", lambda work: work(threading.Event()))

    def run(**arguments: t.Any) -> dict[str, t.Any]:
        with patch_module_args({"uri": node_uri, **arguments}), pytest.raises(SystemExit):
            virt_power.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return run


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_result(call: Call, check_mode: bool) -> None:
    result = call(name="web1,db1", state="stopped", _ansible_check_mode=check_mode)
    # Newer cores give it only when asked for more output.
    result.pop("invocation", None)
    assert "machines" in result, result
    for machine in result["machines"]:
        assert 0.0 <= machine.pop("seconds") < 300
    assert result == {
        "changed": True,
        "msg": "1 changed, 1 already so",
        "delay_seconds": 0,
        "machines": [
            {"name": "db1", "changed": False, "before": "shutoff", "state": "shutoff", "actions": [], "failed": False},
            {
                "name": "web1",
                "changed": True,
                "before": "running",
                "state": "shutoff",
                "actions": ["shut down"],
                "failed": False,
            },
        ],
        "diff": [
            {
                "before": "state: running\n",
                "after": "state: shutoff\n",
                "before_header": "web1",
                "after_header": "web1",
            }
        ],
    }


@pytest.mark.parametrize("check_mode", [True, False])
def test_one_fails_and_the_others_go_on(call: Call, check_mode: bool) -> None:
    result = call(all=True, state="running", _ansible_check_mode=check_mode)
    assert result["failed"] is True
    assert result["msg"] == (
        "1 changed, 1 already so, 1 failed; half: it is unfinished: a run is creating it, or was interrupted. "
        "Run provision again to finish it"
    )
    assert {machine["name"]: machine["state"] for machine in result["machines"]} == {
        "db1": "running",
        "half": "shutoff",
        "web1": "running",
    }
    assert result["changed"] is True


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
def test_a_guest_that_is_late_is_looked_at(call: Call, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    def ignore(handle: t.Any) -> None:
        if gone:
            handle.undefine()

    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.1)
    monkeypatch.setitem(change._CALLS, Action.SHUT_DOWN, ignore)
    if gone:
        # It is found by its handle until then.
        monkeypatch.setattr(late, "find_domains", _not_there)
    result = call(all=True, state="stopped", timeout=1)
    by_name = {machine["name"]: machine for machine in result["machines"]}
    assert by_name["web1"]["msg"].startswith("it did not shut down within 1 s: it is running")
    assert {name for name, machine in by_name.items() if "stages" in machine} == (set() if gone else {"web1"})
    if gone:
        assert "report" not in result
        return
    stages = {stage["stage"]: (stage["ok"], stage["seen"]) for stage in by_name["web1"]["stages"]}
    assert list(stages) == ["defined", "running", "boot", "lease", "agent", "address", "SSH", "cloud-init"]
    assert stages["running"] == (True, "yes")
    assert stages["boot"] == (None, "no serial console with a log")
    assert by_name["web1"]["serial_log_end"] == []
    first, *lines = result["report"].splitlines()
    assert first == "What was seen of web1:"
    assert [line.split()[0] for line in lines] == list(stages)
    documented = yaml.safe_load(virt_power.RETURN)["machines"]["contains"]["stages"]["description"]
    assert all(f"V({stage})" in " ".join(documented) for stage in stages)


def _not_there(*_arguments: t.Any) -> None:
    raise NotFoundError("there is no machine 'web1' on this hypervisor")


def test_what_is_not_done_by_its_guest_is_not_looked_at(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.1)
    monkeypatch.setitem(change._CALLS, Action.SAVE, lambda _handle: None)
    result = call(name="web1", state="saved", timeout=1)
    assert "it did not save within 1 s" in result["msg"]
    assert "report" not in result


def test_selected_by_tag_and_state(call: Call) -> None:
    result = call(tag="web", in_state=["running", "paused"], state="paused")
    assert [(machine["name"], machine["state"]) for machine in result["machines"]] == [("web1", "paused")]
    result = call(tag="web", in_state=["shutoff"], state="running")
    assert (result["changed"], result["machines"], result["msg"]) == (False, [], "No machine is selected")


def test_nothing_is_pending(call: Call) -> None:
    assert call(all=True, only_pending=True, state="cycled")["msg"] == "No machine is selected"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"state": "stopped"}, "no machine is selected. Give name, tag, in_state, or all: true"),
        ({"state": "stopped", "nme": "web1"}, "Unsupported parameters for"),
        ({"state": "stopped", "all": False}, "no machine is selected. Give name, tag, in_state, or all: true"),
        ({"state": "stopped", "name": ["web", "db1"]}, "name: there is no machine 'web' on this hypervisor. Did you"),
        ({"state": "off", "all": True}, "value of state must be one of: running, stopped"),
        ({"state": "running", "all": True, "only_pending": True}, "only_pending: running makes no pending change"),
        ({"state": "stopped", "all": True, "timeout": 0}, "timeout: 0 is less than 1. With force: true it may be 0"),
        ({"state": "stopped", "all": True, "timeout": -1, "force": True}, "timeout: -1 is less than 0"),
        ({"state": "stopped", "all": True, "concurrency": 0}, "concurrency: 0 is less than 1"),
        ({"state": "stopped", "all": True, "lock_timeout": -1}, "lock_timeout: -1 is less than 0"),
    ],
)
def test_mistakes(call: Call, arguments: dict[str, t.Any], sentence: str) -> None:
    result = call(**arguments)
    assert sentence in result["msg"]
    assert result["failed"] is True
    assert "machines" not in result


def test_the_documentation_has_every_state_and_action() -> None:
    options = yaml.safe_load(virt_power.DOCUMENTATION)["options"]
    assert options["state"]["choices"] == list(REQUESTS)
    actions = " ".join(yaml.safe_load(virt_power.RETURN)["machines"]["contains"]["actions"]["description"])
    assert all(f"V({action.value})" in actions for action in Action)
