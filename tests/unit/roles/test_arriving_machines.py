# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks about maintenance, where machines are still on their way to the hypervisor."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.host import observe_host
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


def run(directory: Path, play: dict[str, t.Any], *options: str) -> tuple[int, str]:
    """Run a play on two hypervisors that are this computer; its status and its output."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"hypervisors": {"hosts": {"hv1": local, "hv2": local}}}
    for file, data in (("hosts.yml", inventory), ("play.yml", [play])):
        (directory / file).write_text(yaml.safe_dump(data), encoding="utf-8")
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *options)
    return done.returncode, done.stdout + done.stderr


def play_of(playbook: str, facts: dict[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    """A playbook's last play, without the tasks that begin maintenance, which would begin on this computer.

    facts: what tasks would find out, as facts that are set in their place, by their module or file of tasks. Nothing is
    ever on its way to a hypervisor of the test driver.
    """
    play: dict[str, t.Any] = yaml.safe_load((PLAYBOOKS / f"{playbook}.yml").read_text(encoding="utf-8"))[-1]
    tasks: list[dict[str, t.Any]] = []
    for task in play["tasks"]:
        file = task.get("ansible.builtin.import_tasks")
        known = [values for what, values in facts.items() if what == file or what in task]
        if known:
            tasks.append({"ansible.builtin.set_fact": known[0]})
        elif file != "tasks/begin_maintenance.yml":
            found = {} if file is None else {"ansible.builtin.import_tasks": str(PLAYBOOKS / file)}
            tasks.append({**task, **found})
    return {**play, "become": False, "tasks": tasks}


@pytest.mark.parametrize(
    ("arriving", "words"),
    [
        ([], None),
        (["a1"], "a1 is still being moved to hv1: run evacuate again when it has arrived"),
        (["a1", "a2"], "a1, a2 are still being moved to hv1: run evacuate again when they have arrived"),
    ],
)
@pytest.mark.parametrize("ahead", [False, True])
def test_what_is_still_on_its_way_is_named(
    tmp_path: Path, node_uri: str, arriving: list[str], words: str | None, ahead: bool
) -> None:
    with open_connection(node_uri, read_only=True) as conn:
        host = {**observe_host(conn), "machines": []}
    coming = {"hv1": arriving, "hv2": []}
    fleet = {name: {"host": {**host, "name": name, "arriving": coming[name]}, "machines": []} for name in coming}
    status, output = run(
        tmp_path,
        play_of("evacuate", {"tasks/fleet.yml": {"virt_fleet": fleet}}),
        "-e",
        "from=hv1",
        *(["--check"] if ahead else []),
    )
    assert "No machine needs to be moved." in output, output
    assert (status == 0) is (ahead or words is None), output
    if words is None:
        assert "being moved" not in output, output
    elif ahead:
        # The real run would wait for it, and most likely move it with the others.
        assert f"{words.partition(':')[0]}: evacuate would wait for that, up to five minutes" in output, output
    else:
        assert f"{words}\n" in output, output


def test_the_playbook_maintenance_shows_what_is_still_on_its_way(tmp_path: Path) -> None:
    seen = {"host": {"maintenance": {"since": "2026-11-21T10:00:00Z", "reason": "fan"}, "arriving": ["a1", "a2"]}}
    play = play_of("maintenance", {"brine.virt.virt_host_info": {"virt_maintenance_seen": seen}})
    status, output = run(tmp_path, play)
    assert status == 0, output
    assert "hv1: since 2026-11-21T10:00:00Z (fan); still being moved there: a1, a2\n" in output, output
