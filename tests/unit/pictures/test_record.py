# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command is recorded as it looks in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.brine.virt.tests.pictures import record


def run(file: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Record a command in a process of its own, which has to be without threads."""
    words = [sys.executable, str(record.__file__), str(file), *command]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)


def test_the_command_has_a_terminal_with_colours(tmp_path: Path) -> None:
    result = run(tmp_path / "new/file", "sh", "-c", "stty size; test -t 1 && echo terminal; echo ${NO_COLOR-colours}")
    assert result.returncode == 0
    wanted = f"{record.LINES} {record.COLUMNS}\r\nterminal\r\ncolours\r\n".encode()
    assert (tmp_path / "new/file").read_bytes() == result.stdout == wanted


def test_a_command_that_fails_leaves_no_file(tmp_path: Path) -> None:
    result = run(tmp_path / "file", "sh", "-c", "echo wrong; exit 3")
    assert (result.returncode, result.stdout) == (3, b"wrong\r\n")
    assert not (tmp_path / "file").exists()
