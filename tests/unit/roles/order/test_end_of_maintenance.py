# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook brine.virt.maintenance does at the end of a maintenance with machines that are off."""

from __future__ import annotations

import shutil
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import PLAYBOOKS, run_ansible
from ansible_collections.brine.virt.tests.unit.roles.machines.test_power import ORDERED

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
MACHINES = {"hv1": {"web1": 20, "db1": 1}, "hv2": {"app2": 10, "spare2": 30}, "hv3": {"other3": 5}}
# What each task registers. A fact has the same rank among the variables, and the name is the task's own.
NO_MAINTENANCE: dict[str, dict[str, t.Any]] = {
    "brine.virt.virt_maintenance": {"maintenance": None},
    "brine.virt.virt_host_info": {"host": {"maintenance": None, "arriving": []}},
}


def run(
    directory: Path,
    *words: str,
    off: t.Sequence[str] = ("web1", "db1", "app2", "other3"),
    broken: str = "",
    silent: str = "",
    twins: t.Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """The status and the output of the playbook's last play. off: the machines with autostart, all of which are off.
    broken: the hypervisor whose maintenance cannot be ended; silent: the one whose libvirt does not answer. twins: what
    machines have beside their names."""
    shutil.copytree(PLAYBOOKS / "tasks", directory / "tasks")
    play = yaml.safe_load((PLAYBOOKS / "maintenance.yml").read_text(encoding="utf-8"))[-1]
    for index, task in enumerate(play["tasks"]):
        for module, result in NO_MAINTENANCE.items():
            if module in task:
                facts = {task["register"]: result}
                play["tasks"][index] = {"ansible.builtin.set_fact": facts, "when": task.get("when", True)}
    play["tasks"].insert(1, {"ansible.builtin.fail": {}, "when": f"inventory_hostname == '{broken}'"})
    after = directory / "tasks/after_maintenance.yml"
    found, *others = yaml.safe_load(after.read_text(encoding="utf-8"))
    # The test driver forgets who starts with it.
    marked = {
        "ansible.builtin.set_fact": {
            "virt_maintenance_machines": {
                "machines": "{{ virt_maintenance_machines.machines | map('combine', {'autostart': true})"
                f" | selectattr('name', 'in', {list(off)!r}) | list }}}}"
            }
        },
        "when": "inventory_hostname in virt_maintenance_end",
    }
    after.write_text(yaml.safe_dump([found, marked, *others]), encoding="utf-8")
    for host, machines in MACHINES.items():
        domains = "".join(
            ORDERED.format(name=name, order=order).replace("</name>", f"</name>{(twins or {}).get(name, '')}")
            for name, order in machines.items()
        )
        if host != silent:
            (directory / f"{host}.xml").write_text(f"<node>{domains}</node>")
    uri = f"test://{directory}/{{{{ inventory_hostname }}}}.xml"
    play.update(hosts="all", become=False, module_defaults={"group/brine.virt.virt": {"uri": uri}})
    (directory / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": dict.fromkeys(MACHINES, here)}}))
    options = [part for word in words for part in (["-e", word] if "=" in word else [word])]
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *options)
    return done.returncode, done.stdout + done.stderr


def test_machines_that_are_off_are_named_with_the_command(tmp_path: Path) -> None:
    code, output = run(tmp_path, "end=hv1,hv2")
    assert (
        "db1 on hv1: off, with autostart\napp2 on hv2: off, with autostart\nweb1 on hv1: off, with autostart\n"
        "To start what is off, in this order: ansible-playbook -i hosts.yml brine.virt.maintenance -e end=hv1,hv2 "
        "-e start=true\n"
    ) in output, output
    assert (code, "TASK [Change the power state]" in output) == (0, False)


@pytest.mark.parametrize("check", [True, False])
def test_they_are_started_in_their_order(tmp_path: Path, check: bool) -> None:
    code, output = run(tmp_path, "end=hv1,hv2", "start=true", *(["--check"] if check else []))
    assert code == 0, output
    rows = [line.split()[:3] for line in output.splitlines() if line.endswith("start (was shutoff)")]
    assert rows == [["db1", "hv1", "running"], ["web1", "hv1", "running"], ["app2", "hv2", "running"]], output
    assert output.count("TASK [Change the power state]") == 3
    assert output.count("Pausing for 1 seconds") == (0 if check else 2)


@pytest.mark.parametrize("start", [True, False])
def test_one_whose_maintenance_does_not_end_hides_no_other(tmp_path: Path, start: bool) -> None:
    code, output = run(tmp_path, "end=hv1,hv2", f"start={start}", broken="hv2")
    assert ("db1      hv1  running" if start else "db1, web1 on hv1: off, with autostart") in output, output
    assert "hv2: did not answer: its maintenance could not be ended, see above" in output, output
    assert code == 2


def test_one_that_is_elsewhere_as_well_is_not_started(tmp_path: Path) -> None:
    twin = "<uuid>00000000-0000-4000-8000-000000000001</uuid>"
    code, output = run(tmp_path, "end=hv1", "start=true", twins={"web1": twin, "spare2": twin})
    assert "db1      hv1  running" in output, output
    assert "web1     hv1  running" not in output and "web1 on hv1 and hv2" in output, output


def test_one_that_may_run_on_a_silent_hypervisor_is_not_started(tmp_path: Path) -> None:
    """What is off here may be an old definition of it."""
    known = tmp_path / "known"
    known.write_text("# virt-00000000-0000-4000-8000-000000000001 brine.virt:hv3 web1\n")
    code, output = run(tmp_path, "end=hv1", "start=true", f"virt_known_hosts={known}", silent="hv3")
    assert "db1      hv1  running" in output, output
    assert "web1     hv1  running" not in output, output
    assert "web1 on hv1: it was not started, as it may run on hv3, where it was seen before, and which" in output
    assert code == 2, output


def test_nothing_is_said_where_all_of_them_run(tmp_path: Path) -> None:
    code, output = run(tmp_path, "end=hv1", off=["app2"])
    assert (code, "autostart" in output) == (0, False), output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("start=true",),
            "start: machines are started at the end of a maintenance. Say of which hypervisor: -e end=NAME",
        ),
        (("end=hv1", "start=all"), "start: all is neither true nor false"),
        (
            ("end=hv1", "reason=disks"),
            "reason: it is noted when a maintenance begins. Say of which hypervisor: -e begin=NAME",
        ),
        (("begin=hv1", "end=hv1"), "One hypervisor cannot begin and end its maintenance at once"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    code, output = run(tmp_path, *words)
    assert f'"msg": "{sentence}"' in output, output
    assert code == 2
