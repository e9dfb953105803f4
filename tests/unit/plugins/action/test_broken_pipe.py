# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook prints into a pipe, whose reader may go away in between."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
LINES = 3000


@pytest.mark.parametrize("taken", [1, 60, None], ids=["before", "meanwhile", "never"])
def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path: Path, taken: int | None) -> None:
    """taken: after so many lines the reader goes away."""
    text = "".join(f"line {number} of a long table\n" for number in range(LINES))
    touch = {"ansible.builtin.copy": {"content": "", "dest": f"{tmp_path}/done"}}
    tasks = [{"brine.virt.virt_show": {"text": text}}, touch]
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": tasks}
    (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    python = f"ansible_python_interpreter={sys.executable}"
    with subprocess.Popen(
        [sys.executable, "-m", "ansible.cli.playbook", "play.yml", "-e", python],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = list(itertools.islice(process.stdout, taken))
            process.stdout.close()
            process.wait(timeout=60)
        finally:
            process.kill()
    assert (tmp_path / "done").exists()
    said = [line for line in found if line.startswith("line ")]
    assert said == text.splitlines(keepends=True)[: len(said)]
    assert taken is not None or len(said) == LINES
