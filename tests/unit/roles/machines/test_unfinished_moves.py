# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a move that cannot be finished keeps from being done: the parts of the playbooks that move machines."""

from __future__ import annotations

import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
Done = subprocess.CompletedProcess[str]
MOVES = {
    "by_source": {"hv1": [{"name": "db1", "target": "hv3"}]},
    "ahead": {"hv1": []},
    "moves": [{"name": "db1", "source": "hv1", "target": "hv3"}],
    "stay": [],
    "unfinished": {"hv1": [{"name": "web9", "target": "hv2"}]},
}
# No two hypervisors of libvirt's test driver have names of their own, so that none has left a move to another.
MIGRATE = """
from ansible.module_utils.basic import AnsibleModule
options = ("concurrency", "timeout", "bandwidth", "live", "postcopy", "copy_storage", "source_volumes", "tls", "pool",
           "disks", "anti_affinity")
module = AnsibleModule(
    {"machines": {"type": "list", "elements": "dict"}, **{name: {} for name in options}}, supports_check_mode=True
)
names = [machine["name"] for machine in module.params["machines"]]
broken = [name for name in names if name in BROKEN]
machines = [{"name": name, "failed": name in broken} for name in names]
if broken:
    module.fail_json(msg="hv2 does not answer", machines=machines)
module.exit_json(changed=True, moved=names, machines=machines)
"""
MACHINES = [
    {"name": name, "uuid": f"00000000-0000-4000-8000-00000000000{number}", "vcpus": 1, "state": "running"}
    for number, name in enumerate(("db1", "db2", "web9"))
]
PARTS = ("finish.yml", "move.yml", "finish_failed.yml")


def parts_of(file: str) -> list[dict[str, object]]:
    """The tasks of a file that finish moves and make them."""
    tasks = yaml.safe_load((PLAYBOOKS / file).read_text(encoding="utf-8"))
    tasks = tasks if file.startswith("tasks/") else tasks[-1]["tasks"]
    return [task for task in tasks if any(part in str(task) for part in PARTS)]


# One whose move is to be finished is on the target already.
THERE = {"hv1": MACHINES[:2], "hv2": MACHINES[2:]}


def line(name: str, hypervisor: str) -> str:
    """Of the file of host keys, for a machine that has none."""
    uuid = next(machine["uuid"] for machine in MACHINES if machine["name"] == name)
    return f"# virt-{uuid} brine.virt:{hypervisor} {name}"


@pytest.mark.parametrize(
    ("file", "broken"),
    [
        ("migrate.yml", True),
        ("evacuate.yml", True),
        ("balance.yml", True),
        ("balance.yml", False),
        ("tasks/leave_empty.yml", True),
    ],
)
def test_other_machines_move_and_the_run_says_at_its_end_what_is_not_finished(
    tmp_path: Path, file: str, broken: bool
) -> None:
    done, check = play(tmp_path, file, MOVES, ["web9"] if broken else [])
    assert '"moved": ["db1"]' in done.stdout, done.stdout
    known = [line("db1", "hv3"), *([] if broken else [line("web9", "hv2")])]
    assert sorted((tmp_path / "keys").read_text().splitlines()) == known
    sentence = "The move of web9 from hv1 could not be finished: hv2 does not answer"
    assert (sentence in done.stdout) is broken, done.stdout
    assert done.returncode == (2 if broken else 0)
    if file in ("migrate.yml", "evacuate.yml"):
        # db1 waits for what is not done in check mode.
        ahead = check()
        assert '"moved": ["db1"]' not in ahead.stdout, ahead.stdout


TWO = {**MOVES, "by_source": {"hv1": [{"name": "db1", "target": "hv3"}, {"name": "db2", "target": "hv2"}]}}


@pytest.mark.parametrize("file", ["migrate.yml", "tasks/leave_empty.yml"])
def test_where_a_machine_went_is_known_though_another_one_could_not_be_moved(tmp_path: Path, file: str) -> None:
    before = [line(name, "hv1") for name in ("db1", "db2", "web9")]
    (tmp_path / "keys").write_text("".join(f"{one}\n" for one in [*before, line("web9", "hv2")]))
    done, _check = play(tmp_path, file, TWO, ["db2"])
    assert done.returncode == 2 and "hv2 does not answer" in done.stdout, done.stdout
    found = sorted((tmp_path / "keys").read_text().splitlines())
    assert found == [line("db1", "hv3"), line("db2", "hv1"), line("db2", "hv2"), line("web9", "hv2")]


def test_balance_makes_no_move_after_one_that_fails(tmp_path: Path) -> None:
    moves = [{"name": "db2", "source": "hv1", "target": "hv2"}, {"name": "db1", "source": "hv1", "target": "hv3"}]
    done, _check = play(tmp_path, "balance.yml", {**MOVES, "moves": moves, "unfinished": {}}, ["db2"])
    assert done.returncode == 2 and '"moved": ["db1"]' not in done.stdout, done.stdout
    assert (tmp_path / "keys").read_text().splitlines() == [line("db2", "hv2")]


def test_a_file_that_cannot_be_written_keeps_no_machine_from_moving(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done, _check = play(tmp_path, "migrate.yml", MOVES, [], virt_known_hosts=str(tmp_path / "file/keys"))
    assert done.returncode == 0 and '"moved": ["db1"]' in done.stdout, done.stdout
    said = " ".join((done.stdout + done.stderr).split())
    assert "file/keys cannot be written: Not a directory. Where machines are now is not kept there" in said, said


def test_one_that_is_off_stays_known_where_it_may_run(tmp_path: Path) -> None:
    """hv9 is silent: what moves may be the definition that an earlier move away from here has left behind."""
    before = [line("db1", "hv1"), line("db1", "hv9"), line("db2", "hv1"), line("db2", "hv9")]
    # Where a move of it was refused before: hv2 answers, and has not got it.
    before.append(line("db1", "hv2"))
    (tmp_path / "keys").write_text("".join(f"{one}\n" for one in before))
    off = {**TWO, "unfinished": {}}
    done, _check = play(tmp_path, "migrate.yml", off, [], off=["db1"])
    assert done.returncode == 0, done.stdout
    # A machine that runs is nowhere else.
    assert sorted((tmp_path / "keys").read_text().splitlines()) == [
        line("db1", "hv3"),
        line("db1", "hv9"),
        line("db2", "hv2"),
    ]


def test_one_whose_disks_alone_move_stays_where_it_is_for_the_host_keys(tmp_path: Path) -> None:
    """migrate with to and pool, of a machine that is there already, or that an interrupted run has brought there."""
    mixed = {"hv1": [{"name": "db1"}, {"name": "db2", "target": "hv3"}]}
    done, _check = play(tmp_path, "migrate.yml", {**MOVES, "by_source": mixed, "unfinished": {}}, [])
    assert '"moved": ["db1", "db2"]' in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "keys").read_text().splitlines() == [line("db2", "hv3")]


def play(
    tmp_path: Path, file: str, moves: dict[str, t.Any], broken: list[str], off: t.Collection[str] = (), **more: str
) -> tuple[Done, t.Callable[[], Done]]:
    """A run of the parts of a file, and what runs them in check mode. broken: the machines that cannot be moved; off:
    those that do not run."""
    there = {
        host: [{**machine, "state": "shutoff" if machine["name"] in off else "running"} for machine in machines]
        for host, machines in THERE.items()
    }
    shutil.copytree(PLAYBOOKS / "tasks", tmp_path / "tasks")
    for task in (tmp_path / "tasks").glob("*.yml"):
        task.write_text(task.read_text(encoding="utf-8").replace("brine.virt.virt_migrate:", "migrate:"))
    (tmp_path / "library").mkdir()
    (tmp_path / "library/migrate.py").write_text(MIGRATE.replace("BROKEN", str(broken)), encoding="utf-8")
    balance = yaml.safe_load((PLAYBOOKS / "balance.yml").read_text(encoding="utf-8"))[-1]["vars"]
    given = {
        "virt_moves": moves,
        "virt_balance_plan": moves,
        "virt_balance_keys": balance["virt_balance_keys"],
        "virt_migrate_stays": False,
        "virt_fleet": {name: {"machines": there.get(name, [])} for name in ("hv1", "hv2", "hv3")},
        "virt_known_hosts": str(tmp_path / "keys"),
        **more,
    }
    # include_tasks of a file of tasks is found beside it.
    text = yaml.safe_dump(parts_of(file)).replace("tasks/", "") if file.startswith("tasks/") else ""
    tasks = yaml.safe_load(text.replace("include_tasks: ", "include_tasks: tasks/")) if text else parts_of(file)
    one = {"hosts": "all", "gather_facts": False, "vars": given, "any_errors_fatal": bool(text), "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([one], sort_keys=False), encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": dict.fromkeys(("hv1", "hv2", "hv3"), host)}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    words = ("-i", "hosts.yml", "-v")
    return run_ansible(tmp_path, *words, "play.yml"), lambda: run_ansible(tmp_path, *words, "--check", "play.yml")
