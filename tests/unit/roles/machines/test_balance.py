# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves that the playbook brine.virt.balance makes: what it asks before, and their order."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible, run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
MOVES = [
    {"name": "web1", "source": "hv2", "target": "hv3"},
    {"name": "web2", "source": "hv1", "target": "hv2"},
    {"name": "web3", "source": "hv3", "target": "hv1"},
]


@pytest.mark.parametrize(("broken", "made"), [("nobody", ["web1", "web2", "web3"]), ("web2", ["web1"])])
def test_after_a_move_that_fails_none_is_made_that_may_need_its_place(
    tmp_path: Path, broken: str, made: list[str]
) -> None:
    """web1 and web2 are of one anti-affinity group, say: web2 may come only when web1 has gone."""
    play = yaml.safe_load((PLAYBOOKS / "balance.yml").read_text(encoding="utf-8"))[-1]
    (moving,) = (task for task in play["tasks"] if task.get("loop"))
    plan = {"ansible.builtin.set_fact": {"virt_balance_plan": {"moves": MOVES}}}
    play.update(hosts="all", become=False, tasks=[plan, moving])
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    (tmp_path / "tasks").mkdir()
    here = "virt_moves.by_source[inventory_hostname] is defined"
    move = [
        {"ansible.builtin.fail": {"msg": "no room"}, "when": [here, f"item.name == '{broken}'"]},
        {"ansible.builtin.debug": {"msg": "moved {{ item.name }}"}, "when": here},
    ]
    (tmp_path / "tasks/move.yml").write_text(yaml.safe_dump(move), encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": dict.fromkeys(("hv1", "hv2", "hv3"), host)}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    assert [name for name in ("web1", "web2", "web3") if f"moved {name}" in done.stdout] == made, done.stdout
    assert done.returncode == (0 if broken == "nobody" else 2)


MACHINE = """
<domain type='test'><name>{}</name><memory unit='MiB'>512</memory><os><type>hvm</type></os></domain>
"""
# Says of some machines what virt_migrate says of those that it refuses.
REFUSING = """
import time

from ansible.module_utils.basic import AnsibleModule

options = {**dict.fromkeys(%r, {}), "machines": {"type": "list", "elements": "dict"}}
module = AnsibleModule(options, supports_check_mode=True)
names = [machine["name"] for machine in module.params["machines"]]
found = [
    {"name": name, "failed": name in %r, "msg": "machines[%%d]: %%s has snapshots. Delete them" %% (number, name)}
    for number, name in enumerate(names)
]
if not module.check_mode:
    module.exit_json(changed=True, moved=names)
if set(names) & {"slow", "slower"}:
    time.sleep(60)
if any(machine["failed"] for machine in found):
    module.fail_json(msg="not all", machines=found)
module.exit_json(changed=True, machines=found)
"""


def options_of(file: str) -> dict[str, t.Any]:
    """What a file of tasks gives virt_migrate."""
    tasks = yaml.safe_load((PLAYBOOKS / "tasks" / file).read_text(encoding="utf-8"))
    all_of_it = [inner for task in tasks for inner in task.get("block", [task])]
    return next(task["brine.virt.virt_migrate"] for task in all_of_it if "brine.virt.virt_migrate" in task)


def balance(
    directory: Path,
    *words: str,
    names: tuple[str, ...] = ("a", "b"),
    refused: tuple[str, ...] | None = None,
    **more: str,
) -> tuple[int, str]:
    """A run for machines on one of two hypervisors. refused: those that cannot go; None: virt_migrate says. more:
    variables of the inventory."""
    for host, there in {"hv1": names, "hv2": ()}.items():
        (directory / f"{host}.xml").write_text(f"<node>{''.join(map(MACHINE.format, there))}</node>")
    uri = f"test://{directory}/{{{{ inventory_hostname }}}}.xml"
    replaced = ("", "")
    if refused is not None:
        (directory / "library").mkdir()
        (directory / "library/fake_migrate.py").write_text(REFUSING % (tuple(options_of("move.yml")), refused))
        (directory / "ansible.cfg").write_text("[defaults]\nlibrary = library\n")
        replaced = ("brine.virt.virt_migrate:", "fake_migrate:")
    settings = {"virt_hypervisors": "all", "virt_memory_reserve_mib": 0, **more}
    words = ("limit=20", *words)
    return run_last_play(directory, "balance", uri, *words, hosts=("hv1", "hv2"), replaced=replaced, **settings)


def test_virt_migrate_is_asked_with_the_options_that_it_moves_with() -> None:
    asked, moving = options_of("ask_moves.yml"), options_of("move.yml")
    assert {**asked, "machines": None} == {**moving, "machines": None}


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_what_virt_migrate_refuses_is_said_before_anything_is_moved(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It moves no machines of the test driver, none of them."""
    code, output = balance(tmp_path, *words)
    for name in ("a", "b"):
        assert f") {name} cannot be moved: uri: test:///" in output, output
    assert "No machine was moved." in output and "TASK [Move the machines]" not in output
    assert "\na        running  512 MiB  hv1   -   uri: test:///" in output, output
    assert code == 2


@pytest.mark.parametrize("refused", [("a",), ("a", "b"), ("a", "b", "c")], ids=len)
def test_the_plan_is_made_again_without_machines_that_cannot_be_moved(tmp_path: Path, refused: tuple[str, ...]) -> None:
    """As often as it takes: the next run would choose the same again."""
    code, output = balance(tmp_path, "--diff", names=("a", "b", "c", "d"), refused=refused)
    assert "running  512 MiB  hv1   hv2  hv1 from" in output, output
    for name in refused:
        assert f"\n{name}        running  512 MiB  hv1   -    {name} has snapshots. Delete them\n" in output, output
    # The moves themselves, and not that they were asked about.
    assert f"changed={output.count('hv1   hv2  hv1 from')}" in output, output
    assert code == 0


def test_a_hypervisor_that_does_not_say_in_time_what_can_be_moved_is_not_the_end_of_the_run(tmp_path: Path) -> None:
    """A time-out is no failure that failed_when catches."""
    soon = "{{ 1 if virt_moves_ahead is defined else 60 }}"
    code, output = balance(tmp_path, names=("slow", "slower"), refused=(), virt_answer_seconds=soon)
    assert "slow cannot be moved: it did not answer within 4 s" in output, output
    assert "No machine was moved." in output and code == 2
