# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bridges of many hosts are made side by side, also where each host has an address of its own."""

from __future__ import annotations

import shutil
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

pytestmark = pytest.mark.medium

ROLE = Path(__file__).resolve().parents[4] / "roles" / "virt_bridge"


def test_hosts_with_different_bridges_do_not_wait_for_each_other(tmp_path: Path) -> None:
    shutil.copytree(ROLE, tmp_path / "roles" / "virt_bridge")
    # In place of what would change this computer's network.
    shown: list[dict[str, t.Any]] = [{"ansible.builtin.debug": {"msg": "{{ __virt_bridge_item.addresses[0] }}"}}]
    (tmp_path / "roles" / "virt_bridge" / "tasks" / "bridge.yml").write_text(yaml.safe_dump(shown), encoding="utf-8")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {
        f"host{number}": {
            **local,
            "virt_bridge_bridges": [
                {"name": f"br{bridge}", "uplink": False, "addresses": [f"192.0.2.{number}{bridge}/24"]}
                for bridge in range(2)
            ],
        }
        for number in (1, 2)
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    play = [{"hosts": "all", "gather_facts": False, "roles": ["virt_bridge"]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    # In whichever order they have answered before.
    assert sum(said.count(f"tasks/bridge.yml for {hosts}") for hosts in ("host1, host2", "host2, host1")) == 2, said
    for address in ("192.0.2.10/24", "192.0.2.11/24", "192.0.2.20/24", "192.0.2.21/24"):
        assert address in said
