# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbooks of the command line are the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

pytestmark = pytest.mark.medium


def test_a_playbook_that_is_called_is_told_from_one_of_the_collection(tmp_path: Path) -> None:
    ask = "{{ query('brine.virt.site_playbooks') }}"
    head = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": ask}}]}
    ours = tmp_path / "ansible_collections/brine/virt/playbooks/list.yml"
    ours.parent.mkdir(parents=True)
    for file in (tmp_path / "site.yml", ours):
        file.write_text(json.dumps([head]))
    done = run_ansible(tmp_path, str(ours), "site.yml")
    assert done.stdout.count('"site.yml"') == 2, done.stdout + done.stderr
    done = run_ansible(tmp_path, str(ours))
    assert done.stdout.count('"msg": []') == 1, done.stdout + done.stderr
