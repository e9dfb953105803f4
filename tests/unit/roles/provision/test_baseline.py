# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role says of the CPU that new machines get. Which one that is takes real hypervisors, in the lab."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

TASKS = Path(__file__).resolve().parents[4] / "roles" / "virt_provision" / "tasks" / "baseline.yml"
# Starts a whole run of Ansible.
pytestmark = pytest.mark.slow

ONE = "New machines get the CPU EPYC, which hv1 has, and the machine type pc-q35-9.2, which it knows"
TWO = (
    "New machines get the CPU EPYC, which all of hv1, hv2 have, and the machine type pc-q35-9.2, which all of them "
    "know. hv2 lacks avx, sse"
)


def test_the_cpu_is_named_when_a_machine_is_new_and_in_words_for_one_hypervisor(tmp_path: Path) -> None:
    show = yaml.safe_load(TASKS.read_text(encoding="utf-8"))[-1]
    new = {"name": "web1", "memory_mib": 128, "vcpus": 1}

    def told(missing: dict[str, list[str]], machines: list[t.Any]) -> dict[str, t.Any]:
        plan = {"new_by_host": {"hv1": machines}, "machine_type": "pc-q35-9.2", "silent": {}}
        given = {"virt_provision_cpu": {"cpu": {"model": "EPYC"}, "missing": missing}, "virt_provision_plan": plan}
        return {"block": [show], "vars": given}

    tasks = [told({"hv1": []}, [new]), told({"hv1": [], "hv2": ["avx", "sse"]}, [new]), told({"hv1": ["never"]}, [])]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = run_ansible(tmp_path, "play.yml")
    said = [line.strip() for line in done.stdout.splitlines() if '"msg"' in line]
    assert said == [f'"msg": {json.dumps(words)}' for words in (ONE, TWO)], done.stdout + done.stderr
