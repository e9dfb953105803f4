# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs, run without a shell. The one place in module_utils that starts any."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a program ended with: its exit status, and all it wrote to standard output and standard error."""

    status: int
    output: bytes
    errors: bytes

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """What it said was wrong, on one line: its errors, or its output when it wrote no errors."""
        return " ".join((self.errors or self.output).decode(errors="replace").split())


def run_program(
    command: Sequence[str],
    *,
    data: bytes = b"",
    timeout_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Run a program to its end, in plain English. data: its standard input; environment: variables beside ours.

    Raises FileNotFoundError when it is not there, TimeoutError when it was ended because it took too long.
    """
    # ansible-test wants AnsibleModule.run_command instead. That has no time limit, and a qemu-img that hangs on a dead
    # NFS server would hang the task for ever; and the rooms that call this know no module, nor do their tests.
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C", **(environment or {})},
    ) as process:
        try:
            output, errors = process.communicate(data, timeout=timeout_seconds)
        except subprocess.TimeoutExpired as exc:
            process.kill()
            raise TimeoutError(f"{command[0]} did not end within {timeout_seconds} s") from exc
        except BaseException:
            process.kill()
            raise
    return Answer(process.returncode, output, errors)
