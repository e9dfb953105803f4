# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role virt_provision in a play of the user's own, where it must not end well without having done anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

COLLECTIONS = Path(__file__).resolve().parents[6]


@pytest.mark.parametrize(
    ("serial", "text"),
    [
        (0, "web1 was not provisioned: it may live on a hypervisor that did not answer"),
        (1, "this play has serial, which keeps hv2 for later. Leave serial out"),
    ],
)
def test_nothing_done_is_an_error(tmp_path: Path, serial: int, text: str) -> None:
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {name: {"uri": f"test:///{tmp_path}/{name}.xml"} for name in ("hv1", "hv2")}
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "serial": serial,
        "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
        "roles": [{"role": "brine.virt.virt_provision"}],
        "vars": {"vm": "web1", "vcpus": 1, "memory": 128},
    }
    for name, data in (("hosts.yml", {"hypervisors": {"hosts": hosts, "vars": connection}}), ("play.yml", [play])):
        (tmp_path / name).write_text(yaml.safe_dump(data), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts.yml", "play.yml", "--check"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert text in done.stdout + done.stderr
    assert done.returncode == 2
