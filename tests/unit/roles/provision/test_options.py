# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the roles that are of the wrong type, where the playbooks of the collection are run."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.test_bare_hosts import bare_host, play

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("playbook", "everywhere", "on_hv1", "sentences"),
    [
        (
            "provision",
            {"virt_policy": "sprad"},
            {"virt_memory_reserve_mib": "two"},
            {"value of virt_policy must be one of": "(hv1, hv2)", "argument 'virt_memory_reserve_mib' is": "(hv1)"},
        ),
        (
            "hypervisors",
            {"virt_tls_days": "long", "virt_bridge_bridges": [{"uplink": "eth0"}]},
            {"virt_tls_own_names": "perhaps"},
            {
                "argument 'virt_tls_own_names' is": "(hv1)",
                "virt_bridge_bridges[0]: name is missing.": "(hv1, hv2)",
                "argument 'virt_tls_days' is": "(hv1, hv2)",
            },
        ),
    ],
)
def test_a_wrong_type_is_one_sentence(
    tmp_path: Path, playbook: str, everywhere: dict[str, t.Any], on_hv1: dict[str, t.Any], sentences: dict[str, str]
) -> None:
    bare = bare_host(tmp_path)
    hosts = {"hypervisors": {"hosts": {"hv1": {**bare, **on_hv1}, "hv2": bare}}}
    # As from a playbook of the user's own, which is somewhere else.
    (tmp_path / "site.yml").write_text(json.dumps([{"import_playbook": f"brine.virt.{playbook}"}]))
    done = play(tmp_path, str(tmp_path / "site.yml"), hosts, "-e", json.dumps(everywhere))
    output = done.stdout + done.stderr
    for sentence, where in sentences.items():
        (line,) = (line for line in output.splitlines() if line.startswith(sentence))
        assert line.endswith(where)
    assert "argument_spec_data" not in output
    assert re.search(rf'"msg": "\(1\) [^\n]* \({len(sentences)}\) [^\n]*\. Nothing was changed\."', output), output
    assert done.returncode == 2
