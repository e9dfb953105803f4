# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change is confirmed over connections of its own, whatever the user has said of connections; and what comes else.

The tasks run as they are, and the real ssh says which settings came of its options.
"""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible, ssh_to_here

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
# No host has a change of this name.
CHANGE = {
    "state": "armed",
    "change": "bridge-none-such",
    "token": "0123456789abcdef",
    "apply_seconds": 10,
    "settle_seconds": 10,
}


def confirm(directory: Path, **host_vars: t.Any) -> str:
    """What a run says that cannot confirm the change, as the host has booted since."""
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    include = {
        "name": "Confirm",
        "ansible.builtin.include_role": {"name": "brine.virt.virt_bridge", "tasks_from": "confirm"},
        "vars": {
            "__virt_bridge_switch": CHANGE,
            "__virt_bridge_lacking": "has not got what it needs",
            "virt_bridge_confirm_seconds": 20,
        },
    }
    before = {"name": "Before", "brine.virt.virt_switch": {"change": CHANGE["change"]}}
    play = [{"hosts": "hv1", "gather_facts": False, "tasks": [before, include]}]
    (directory / "play.yml").write_text(yaml.safe_dump(play))
    host = {**ssh_to_here(directory), **host_vars}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"hv1": host}}}))
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml")
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("host_vars", "configuration"),
    [
        ({"ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s -o ControlPath=/nowhere/%C"}, ""),
        (
            {"ansible_ssh_common_args": "-S /nowhere/common", "ansible_ssh_extra_args": "-o Port=2{{ '2' }}2"},
            "ssh_args = -o ControlPath=/nowhere/file",
        ),
        ({}, "ssh_extra_args = -S /nowhere/file -o Port=222"),
    ],
    ids=["usual", "variables", "ansible.cfg"],
)
def test_no_call_shares_a_connection(tmp_path: Path, host_vars: dict[str, t.Any], configuration: str) -> None:
    (tmp_path / "ansible.cfg").write_text(f"[ssh_connection]\n{configuration}\n")
    output = confirm(tmp_path, **host_vars)
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    calls = [dict(zip(words[::2], words[1::2], strict=True)) for words in asked]
    during = [call for call in calls if call.get("serveraliveinterval") == "3"]
    # What was before may share one, and does so; of what proves something, nothing does.
    assert {"controlpath" in call for call in calls if call not in during} == {True}
    assert len(during) > 8
    assert {call.get("controlpath", "none") for call in during} == {"none"}
    # What else the user has said stays.
    assert len({call["port"] for call in calls}) == 1
    assert calls[0]["port"] == ("22" if "ansible_ssh_args" in host_vars else "222")
    assert "there is no change bridge-none-such on this host" in output
    sentence = (
        "hv1 has not got what it needs: the host has booted meanwhile, and has what it had before. Seen from here: "
    )
    assert sentence in output.replace("\n", " ")
    assert "failed=1" in output


def test_a_host_that_is_cut_off_meanwhile_is_reported(tmp_path: Path) -> None:
    # Ends as ssh does that has lost its connection, when a task of the confirmation first sends its module.
    cut = tmp_path / "cut"
    cut.write_text(
        f"""#!/bin/sh
case "$*" in
*ServerAliveInterval=3*AnsiballZ_virt_switch*) mkdir {tmp_path}/was-cut 2>/dev/null && exit 255 ;;
esac
exec {tmp_path}/ssh "$@"
"""
    )
    cut.chmod(0o700)
    output = confirm(tmp_path, ansible_ssh_executable=str(cut))
    assert (tmp_path / "was-cut").exists()
    assert "hv1 has not got what it needs: the host has booted meanwhile" in output.replace("\n", " ")
    assert "unreachable=0" in output


# wait: however many hosts there are, one that does not answer takes nothing of the time for the other rounds.
@pytest.mark.parametrize(
    ("forks", "seconds", "limit", "wait"), [(5, 60, 60 + 2 * 15, 36), (12, 60, 60, 36), (1, 3590, 3600, 2154)]
)
def test_the_first_of_many_hosts_waits_for_the_last(
    tmp_path: Path, forks: int, seconds: int, limit: int, wait: int
) -> None:
    roles = Path(__file__).resolve().parents[3] / "roles"
    tasks = yaml.safe_load((roles / "virt_bridge/tasks/confirm.yml").read_text())
    reached = next(task for block in tasks for task in block.get("block", []) if "new connection" in task["name"])
    waits = reached["ansible.builtin.wait_for_connection"]["timeout"]
    names = {
        "virt_bridge": ("__virt_bridge_confirm_seconds", "virt_bridge_confirm_seconds"),
        "virt_hypervisor": ("__virt_hypervisor_firewall_seconds", "virt_hypervisor_firewall_confirm_seconds"),
    }
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(roles / role / "vars/main.yml") for role in names],
        "vars": {given: seconds for _made, given in names.values()},
        "tasks": [
            {
                "ansible.builtin.debug": {
                    "msg": " ".join([*(f"{{{{ {made} }}}}" for made, _given in names.values()), waits])
                },
                "run_once": True,
            }
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    hosts = {f"hv{number}": {"ansible_connection": "local"} for number in range(12)}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "--forks", str(forks), "play.yml")
    assert f'"msg": "{limit} {limit} {wait}"' in done.stdout, done.stdout + done.stderr
