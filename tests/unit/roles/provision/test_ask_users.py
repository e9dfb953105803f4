# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is asked who uses volumes of shared pools, and whose answers count."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

SEEN = "# virt-00000000-0000-4000-8000-000000000001 brine.virt:hv3 web3\n"
VOLUMES = {
    host: [{"pool": "ceph", "volume": f"on-{host}", "place": f"rbd:vms/on-{host}"}] for host in ("hv1", "hv2", "hv4")
}


def test_all_that_are_known_and_only_answers_of_now(tmp_path: Path) -> None:
    """hv2 drops out after it has answered, hv3 is in another rack and has had a machine; nothing says what hv5 is."""
    hosts = {name: {"uri": "test:///default"} for name in ("hv1", "hv2", "hv4")}
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"rack1": {"hosts": hosts, "vars": connection}, "rack2": {"hosts": {"hv3": {}, "hv5": {}}}}
    (tmp_path / "seen").write_text(SEEN, encoding="utf-8")
    ask = {"ansible.builtin.include_role": {"name": "brine.virt.virt_provision", "tasks_from": "ask_users"}}
    show = {"ansible.builtin.copy": {"content": "{{ virt_provision_elsewhere }}", "dest": f"{tmp_path}/hv1.json"}}
    play = {
        "hosts": "rack1",
        "gather_facts": False,
        "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
        "vars": {
            "virt_hypervisors": "rack1",
            "virt_known_hosts": f"{tmp_path}/seen",
            "virt_provision_shared": VOLUMES,
        },
        "tasks": [
            {
                "ansible.builtin.set_fact": {
                    "virt_provision_users": {"volumes": [{**VOLUMES["hv1"][0], "users": [], "unknown": []}]}
                }
            },
            {"ansible.builtin.fail": {"msg": "gone"}, "when": "inventory_hostname == 'hv2'"},
            ask,
            {**show, "when": "inventory_hostname == 'hv1'"},
        ],
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    text = done.stdout + done.stderr
    assert (tmp_path / "hv1.json").exists(), text
    assert json.loads((tmp_path / "hv1.json").read_text(encoding="utf-8")) == {
        # What hv4 was asked by hv2 is no affair of hv1.
        "hv4": {"volumes": [{"pool": "ceph", "volume": "on-hv1", "users": [], "unknown": []}]},
        "hv2": "it has dropped out of this run",
        "hv3": "it was not asked (it is not in rack1)",
    }
    assert "was asked on hv1, hv4 alone. The inventory has no group hypervisors" in text, text
