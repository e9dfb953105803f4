# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.query on libvirt's test driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PLAYBOOK = Path(__file__).resolve().parents[3] / "playbooks" / "query.yml"
# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "found"), [("web1", True), ("web1,gone", False), ("gone", False)])
def test_a_machine_that_is_not_there_is_named(tmp_path: Path, node_uri: str, name: str, found: bool) -> None:
    # The play itself, with another URI than the one of a real hypervisor.
    play = yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8"))[-1]
    play = {**play, "hosts": "all", "module_defaults": {"group/brine.virt.virt": {"uri": node_uri}}}
    play["tasks"] = [{key: value for key, value in task.items() if key != "become"} for task in play["tasks"]]
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    for file, data in (("hosts.yml", {"all": {"hosts": {"hv1": host}}}), ("play.yml", [play])):
        (tmp_path / file).write_text(yaml.safe_dump(data), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.yml", "play.yml", "-e", f"vm={name}"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert (done.returncode == 0) is found, output
    assert (f"There is no machine {name} on the hypervisors that answered." in output) is not found, output
