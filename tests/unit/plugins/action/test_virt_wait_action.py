# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_wait, run by Ansible itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_stage_is_in_the_output_while_the_module_waits(
    tmp_path: Path, collections_root: Path, other_process: dict[str, str]
) -> None:
    env = {**other_process, "ANSIBLE_COLLECTIONS_PATH": str(collections_root), "HOME": str(tmp_path)}
    command = [
        *(sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-i", "localhost,", "-c", "local"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "-m", "brine.virt.virt_wait"),
        *("-a", "uri=test:///default names=test port=1 timeout=8"),
    ]
    answer = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )
    lines = answer.stdout.splitlines()
    told = [
        n for n, line in enumerate(lines) if re.fullmatch(r"  localhost: \d+ s: DHCP lease, no SSH yet: test", line)
    ]
    result = [n for n, line in enumerate(lines) if "was not reachable within" in line]
    assert told, answer
    assert told[0] < result[0]
