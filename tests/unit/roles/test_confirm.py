# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change is confirmed over connections of its own, whatever the user has said of connections; and what comes else.

The tasks run as they are, and the real ssh says which settings came of its options.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible, ssh_to_here

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
ROLES = Path(__file__).resolve().parents[3] / "roles"
# No host has a change of this name.
CHANGE = {
    "changed": True,
    "state": "armed",
    "change": "bridge-none-such",
    "token": "0123456789abcdef",
    "apply_seconds": 1,
    "settle_seconds": 1,
}
# In place of the module that would change this computer's network, unless {arms} is empty. What is run is noted, with
# the time; {more} may answer for it.
SSH = """#!/bin/sh
case "$*" in
*"{python} "*AnsiballZ_virt_bridge_switch.py*)
    [ -z "{arms}" ] || {{ echo "{host} $(date +%s.%N) began" >>{here}/times; echo '{change}'; exit; }} ;;
*"{python} "*AnsiballZ_virt_switch.py*) echo "{host} $(date +%s.%N) asked" >>{here}/times ;;
esac
{more}
exec {here}/ssh "$@"
"""


def host_of(directory: Path, name: str, more: str = "", *, arms: str = "yes", **host_vars: t.Any) -> dict[str, t.Any]:
    """Variables of a host that says of its bridge that the change has begun. more: lines of its ssh."""
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    known = ssh_to_here(directory)
    program = directory / f"ssh-{name}"
    words = {"python": sys.executable, "change": json.dumps(CHANGE), "here": directory, "host": name}
    program.write_text(SSH.format(**words, more=more, arms=arms))
    program.chmod(0o700)
    return {**known, "ansible_ssh_executable": str(program), **host_vars}


def make_bridges(directory: Path, hosts: dict[str, dict[str, t.Any]], *words: str, seconds: int = 3) -> str:
    """What a run of the role's own task says."""
    (task,) = yaml.safe_load((ROLES / "virt_bridge/tasks/bridge.yml").read_text())
    before = {"name": "Before", "brine.virt.virt_switch": {"change": CHANGE["change"]}}
    known = {
        "__virt_bridge_item": {"name": "br0"},
        # The module itself would refuse this, so that nothing can happen to this computer.
        "virt_bridge_bridges": [{"name": "br0", "uplink": "no interface"}],
        "virt_bridge_confirm_seconds": seconds,
    }
    play = {"hosts": "all", "gather_facts": False, "vars": known, "tasks": [before, task]}
    (directory / "play.yml").write_text(yaml.safe_dump([play]))
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *words)
    return done.stdout + done.stderr


def confirmed(directory: Path, name: str) -> str:
    """Lines of a host's ssh: once its change has begun, virt_switch answers that all is well."""
    answer = json.dumps({"changed": True, "state": "confirmed", "log": [], "missing": []})
    return f"""case "$*" in *"{sys.executable} "*AnsiballZ_virt_switch.py*)
        grep -q '{name} .* began' {directory}/times 2>/dev/null && {{ echo '{answer}'; exit; }} ;; esac"""


def noted(directory: Path, name: str, what: str) -> list[float]:
    """When this happened on a host."""
    lines = [line.split() for line in (directory / "times").read_text().splitlines()]
    return [float(time) for host, time, word in lines if (host, word) == (name, what)]


def asked(directory: Path, name: str) -> list[float]:
    """When a host was asked about its change."""
    (began,) = noted(directory, name, "began")
    return [time for time in noted(directory, name, "asked") if time > began]


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
    (tmp_path / "ansible.cfg").write_text(
        f"[defaults]\ntimeout = 300\n[ssh_connection]\nretries = 5\n{configuration}\n"
    )
    output = make_bridges(tmp_path, {"hv1": host_of(tmp_path, "hv1", **host_vars)})
    lines = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    calls = [dict(zip(words[::2], words[1::2], strict=True)) for words in lines]
    during = [call for call in calls if call.get("serveraliveinterval") == "3"]
    # What was before may share one, and does so; of what proves something, nothing does.
    assert {"controlpath" in call for call in calls if call not in during} == {True}
    assert len(during) > 8
    assert {call.get("controlpath", "none") for call in during} == {"none"}
    # None takes up all the time, whatever ansible.cfg says.
    assert {int(call["connecttimeout"]) for call in during} == {10}
    # What else the user has said stays.
    assert len({call["port"] for call in calls}) == 1
    assert calls[0]["port"] == ("22" if "ansible_ssh_args" in host_vars else "222")
    said = " ".join(output.split())
    assert "hv1 has not got the bridge br0 as it should be: the host has booted meanwhile" in said
    assert "Seen from here: there is no change bridge-none-such on this host" in said
    assert "failed=1" in output


# Ends as ssh does that cannot connect.
CUT = 'echo "no route to host" >&2; exit 255'


def test_a_host_that_is_cut_off_meanwhile_is_reported(tmp_path: Path) -> None:
    first = f"grep -q began {tmp_path}/times 2>/dev/null && mkdir {tmp_path}/cut 2>/dev/null"
    cut = f'case "$*" in *AnsiballZ_virt_switch*) {first} && {{ {CUT}; }} ;; esac'
    output = make_bridges(tmp_path, {"hv1": host_of(tmp_path, "hv1", cut)})
    assert (tmp_path / "cut").exists()
    assert "hv1 has not got the bridge br0 as it should be: the host has booted meanwhile" in " ".join(output.split())
    assert "unreachable=0" in output


def test_a_host_that_stays_away_has_failed_and_is_not_unreachable(tmp_path: Path) -> None:
    """The sentence is worth more than Ansible's; and no tidying up takes its place."""
    gone = f"grep -q began {tmp_path}/times 2>/dev/null && {{ {CUT}; }}"
    output = make_bridges(tmp_path, {"hv1": host_of(tmp_path, "hv1", gone)})
    said = " ".join(output.split())
    assert "hv1 has not got the bridge br0 as it should be: the host does not answer any more. Seen from here: " in said
    assert "no route to host" in said
    assert "unreachable=0" in output and "failed=1" in output


def test_a_host_that_stays_away_keeps_no_other_from_being_confirmed(tmp_path: Path) -> None:
    """Not even with one fork, where the others have to wait until it is given up: their changes begin after that."""
    gone = f"grep -q 'hv1 .* began' {tmp_path}/times 2>/dev/null && {{ {CUT}; }}"
    hosts = {"hv1": host_of(tmp_path, "hv1", gone), "hv2": host_of(tmp_path, "hv2", confirmed(tmp_path, "hv2"))}
    output = make_bridges(tmp_path, hosts, "--forks", "1", seconds=10)
    assert re.search(r"hv1 .*changed=0 .*failed=1", output), output
    assert re.search(r"hv2 .*changed=1 .*failed=0", output), output
    (first,), (second,) = (noted(tmp_path, name, "began") for name in ("hv1", "hv2"))
    # hv1 has been waited for before that or afterwards, not while hv2 waits.
    assert abs(first - second) > 10
    assert len(asked(tmp_path, "hv2")) == 2
    assert max(asked(tmp_path, "hv2")) - second < 6 + 10


def test_a_host_whose_change_hangs_keeps_no_other_from_being_confirmed(tmp_path: Path) -> None:
    """It can be reached all the time: what it waits for is a DHCP server, for example."""
    hangs = f"""case "$*" in *"{sys.executable} "*AnsiballZ_virt_switch.py*)
        grep -q 'hv1 .* began' {tmp_path}/times 2>/dev/null && sleep 8 ;; esac"""
    hosts = {"hv1": host_of(tmp_path, "hv1", hangs), "hv2": host_of(tmp_path, "hv2", confirmed(tmp_path, "hv2"))}
    output = make_bridges(tmp_path, hosts)
    assert re.search(r"hv1 .*changed=0 .*failed=1", output), output
    assert re.search(r"hv2 .*changed=1 .*failed=0", output), output
    last = max(asked(tmp_path, "hv1"))
    assert max(asked(tmp_path, "hv2")) < last - 8


def test_a_bridge_that_is_as_it_should_be_takes_no_time(tmp_path: Path) -> None:
    present = json.dumps({"changed": False, "state": "present"})
    settled = f"""case "$*" in *"{sys.executable} "*AnsiballZ_virt_bridge_switch.py*) echo '{present}'; exit ;; esac"""
    output = make_bridges(tmp_path, {"hv1": host_of(tmp_path, "hv1", settled, arms="")})
    assert "changed=0" in output and "failed=0" in output, output
    assert (tmp_path / "times").read_text().count("asked") == 1


@pytest.mark.parametrize(
    ("role", "file", "seconds"),
    [
        ("virt_bridge", "bridge.yml", "virt_bridge_confirm_seconds"),
        ("virt_hypervisor", "firewall.yml", "virt_hypervisor_firewall_confirm_seconds"),
    ],
)
def test_a_change_is_begun_and_confirmed_by_one_task(role: str, file: str, seconds: str) -> None:
    """With its own time: what is said of bridges is not for firewalls, not even with -e."""
    (task,) = yaml.safe_load((ROLES / role / "tasks" / file).read_text())
    (options,) = (options for name, options in task.items() if name.startswith("brine.virt."))
    assert options["confirm"] is True
    assert options["confirm_seconds"] == f"{{{{ {seconds} }}}}"
