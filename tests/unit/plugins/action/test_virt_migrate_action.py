# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_migrate: which address a target has, and what is said of each machine."""

from __future__ import annotations

import typing as t

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.action import virt_migrate
from ansible_collections.brine.virt.plugins.action.virt_migrate import outcome, resolve

KNOWN = {
    "hv1": {},
    "hv2": {"ansible_host": "192.0.2.2"},
    "hv3": {"ansible_host": "192.0.2.3", "virt_tls_address": "10.0.0.3"},
    "hv6": {"ansible_host": "2001:db8::6"},
}


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("hv1", "qemu+tls://hv1/system"),
        ("hv2", "qemu+tls://192.0.2.2/system"),
        # The hypervisors may reach each other by another network.
        ("hv3", "qemu+tls://10.0.0.3/system"),
        ("hv6", "qemu+tls://[2001:db8::6]/system"),
        # What the inventory does not know is the module's to judge.
        ("hv9", "hv9"),
        ("qemu+ssh://root@hv2/system", "qemu+ssh://root@hv2/system"),
        (["hv1"], ["hv1"]),
        (None, None),
    ],
)
def test_a_host_of_the_inventory_is_an_address(target: t.Any, found: t.Any) -> None:
    assert resolve(target, KNOWN) == found


MOVED = {"name": "web1", "source": "hv1", "target": "hv2", "failed": False, "changed": True, "msg": ""}
STAYED = {**MOVED, "target": "hv1", "disks": []}


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        ({**MOVED, "changed": False}, "web1: is on hv2 already"),
        (MOVED, "web1: moved from hv1 to hv2"),
        ({**MOVED, "failed": True, "msg": "no room"}, "web1: no room"),
        (
            {**STAYED, "disks": [{"device": "vda", "pool": "fast"}, {"device": "vdb", "pool": "slow"}]},
            "web1: moved vda to pool fast, vdb to pool slow",
        ),
        (STAYED, "web1: finished what an interrupted run has left"),
        ({**STAYED, "changed": False}, "web1: is where it is to be already"),
        # It names the machine itself.
        ({**MOVED, "failed": True, "msg": "web1 has snapshots"}, "web1 has snapshots"),
        ({**MOVED, "failed": True, "msg": "web10 has its name"}, "web1: web10 has its name"),
    ],
)
def test_what_became_of_a_machine_is_one_line(machine: dict[str, t.Any], line: str) -> None:
    assert outcome(machine) == line


class Task:
    """As much of a task as the action asks for."""

    def __init__(self, args: dict[str, t.Any]) -> None:
        self.args, self.check_mode, self.async_val, self.diff = args, True, 0, False


def test_the_module_gets_addresses_and_the_task_keeps_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    args = {"name": "web0", "target": "hv2", "machines": [{"name": "web1", "target": "hv3"}, {"name": "web2"}, "odd"]}
    task = Task(args)
    given: dict[str, t.Any] = {}

    def execute(**words: t.Any) -> dict[str, t.Any]:
        given.update(words["module_args"])
        return {"changed": False}

    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})
    action = object.__new__(virt_migrate.ActionModule)
    monkeypatch.setattr(action, "_task", task, raising=False)
    monkeypatch.setattr(action, "_connection", None, raising=False)
    monkeypatch.setattr(action, "_execute_module", execute, raising=False)
    assert action.run(task_vars={"hostvars": KNOWN}) == {"changed": False}
    assert given == {
        "name": "web0",
        "target": "qemu+tls://192.0.2.2/system",
        "machines": [{"name": "web1", "target": "qemu+tls://10.0.0.3/system"}, {"name": "web2"}, "odd"],
    }
    assert task.args["machines"][0]["target"] == "hv3"
