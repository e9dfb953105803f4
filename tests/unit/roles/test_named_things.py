# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that take names on the command line: a text with commas, a list, a number."""

from __future__ import annotations

import json
import os
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("playbook", "variables", "sentence"),
    [
        ("maintenance", {"begin": ["hv1", "hv8"]}, "There is no hypervisor hv8. Known: hv1"),
        ("maintenance", {"end": "hv1, hv9"}, "There is no hypervisor hv9. Known: hv1"),
        ("maintenance", {"begin": 7}, "There is no hypervisor 7. Known: hv1"),
        ("evacuate", {"host": "hv1"}, "host: unknown option. Did you mean from? Nothing was changed."),
        pytest.param(
            "evacuate",
            {"from": "hv1"},
            "hv1 would get no new machines until: ansible-playbook",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="a maintenance is root's"),
        ),
        ("migrate", {"vm": 5}, "there is no machine '5' on the hypervisors that answered"),
        ("migrate", {"vm": [" "]}, "vm: it is empty. Give a value, or leave it out."),
    ],
)
def test_names_of_any_shape(tmp_path: Path, playbook: str, variables: dict[str, t.Any], sentence: str) -> None:
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(json.dumps({"hypervisors": {"hosts": {"hv1": connection}}}))
    given = json.dumps({**variables, "ansible_become": False})
    done = run_ansible(tmp_path, "-i", "hosts.yml", "--check", f"brine.virt.{playbook}", "-e", given)
    assert sentence in done.stdout, done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("playbook", "variables", "sentence"),
    [
        ("maintenance", "end=hv1", "--limit hv2 leaves out hv1. Name it there as well, or run it without --limit."),
        ("evacuate", "from=hv1", "--limit hv2 leaves out hv1. Name it there as well, or run it without --limit."),
        ("evacuate", "from=hv2 to=hv1", "--limit hv2 leaves out hv1. Name it there as well, or run it without"),
        ("evacuate", "from=hv3", "There is no hypervisor hv3. Known: hv2"),
        ("purge", "vm=web1 on=hv1", "on: hv1 does not take part in this run (--limit, virt_hypervisors). Name"),
        ("adopt", "vm=web1 on=hv1", "on: hv1 does not take part in this run (--limit, virt_hypervisors). Name"),
        ("restore", "vm=web1 src=/srv on=hv1", "on: --limit hv2 leaves out hv1. Name it there as well, or run it"),
    ],
)
def test_a_hypervisor_that_the_limit_leaves_out_is_not_said_to_be_missing(
    tmp_path: Path, playbook: str, variables: str, sentence: str
) -> None:
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"hypervisors": {"hosts": {"hv1": connection, "hv2": connection}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts))
    words = ("--check", "--limit", "hv2", "-e", variables, "-e", '{"ansible_become": false}')
    done = run_ansible(tmp_path, "-i", "hosts.yml", f"brine.virt.{playbook}", *words)
    assert sentence in done.stdout, done.stdout + done.stderr
    assert done.returncode == 2
