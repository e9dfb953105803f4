# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables are on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.medium

ASK = "msg={{ query('brine.virt.extra_vars', 'vm', 'memory', 'disks', 'tags') }}"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], []),
        (["-e", "vm=web1 other=1"], ["vm"]),
        (["-e", '{"disks": [], "vm": null}', "-e", "@file.yml"], ["vm", "memory", "disks"]),
    ],
)
def test_only_what_is_on_the_command_line(tmp_path: Path, options: list[str], found: list[str]) -> None:
    """tags is a variable of the inventory."""
    (tmp_path / "hosts").write_text("here ansible_connection=local tags=web vm=db1\n", encoding="utf-8")
    (tmp_path / "file.yml").write_text("memory: 512\n", encoding="utf-8")
    command = ["-m", "ansible.cli.adhoc", "-i", "hosts", "here", "-m", "ansible.builtin.debug", "-a", ASK, *options]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    assert json.loads(done.stdout.partition("=>")[2])["msg"] == found
