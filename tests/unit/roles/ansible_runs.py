# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs of Ansible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


def run_ansible(directory: Path, *words: str, program: str = "playbook") -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook, or another program of Ansible's, in this directory, which is the user's home as well."""
    return subprocess.run(
        [sys.executable, "-m", f"ansible.cli.{program}", *words],
        cwd=directory,
        # ANSIBLE_COLLECTIONS_PATH is there already, see the conftest.py of all unit tests.
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "HOME": str(directory)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def run_last_play(
    directory: Path,
    playbook: str,
    uri: str,
    *words: str,
    hosts: t.Sequence[str] = ("hv1",),
    replaced: t.Sequence[str] = ("", ""),
    **host_vars: t.Any,
) -> tuple[int, str]:
    """The status of a run of a playbook's last play on this computer, and what it says.

    uri: in place of that of a real hypervisor. words: options; those with an equals sign are variables of the command
    line. replaced: a text in the files of tasks, and what stands in its place. host_vars: variables of the inventory.
    """
    shutil.copytree(PLAYBOOKS, directory / "playbooks", dirs_exist_ok=True)
    old, new = replaced
    for tasks in (directory / "playbooks/tasks").glob("*.yml") if old else ():
        tasks.write_text(tasks.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    file = directory / "playbooks" / f"{playbook}.yml"
    play = yaml.safe_load((PLAYBOOKS / file.name).read_text(encoding="utf-8"))[-1]
    play = {**play, "hosts": "all", "become": False, "module_defaults": {"group/brine.virt.virt": {"uri": uri}}}
    file.write_text(yaml.safe_dump([play]), encoding="utf-8")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **host_vars}
    group = {"hosts": {name: host for name in hosts}}
    inventory = {"all": {"children": {"hypervisors": group}}}
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    options = [part for word in words for part in (["-e", word] if "=" in word else [word])]
    done = run_ansible(directory, "-i", "hosts.yml", str(file), *options)
    return done.returncode, done.stdout + done.stderr


# Notes what the real client makes of its options, and runs the command here: it is the last word.
SSH = """#!/bin/sh
ssh -F none -G "$@" 2>/dev/null |
    grep -E '^(port|controlpath|serveraliveinterval|connecttimeout) ' | tr '\\n' ' ' >>{here}/asked
echo >>{here}/asked
for word; do command=$word; done
exec sh -c "$command"
"""


def ssh_to_here(directory: Path) -> dict[str, t.Any]:
    """Variables of a host that Ansible means to reach by SSH, while all commands run here.

    The file ``asked`` in the directory has a line for each call of ssh, of the settings that came of its options.
    """
    program = directory / "ssh"
    program.write_text(SSH.format(here=directory))
    program.chmod(0o700)
    return {
        "ansible_connection": "ssh",
        "ansible_ssh_executable": str(program),
        "ansible_ssh_transfer_method": "piped",
        "ansible_python_interpreter": sys.executable,
    }
