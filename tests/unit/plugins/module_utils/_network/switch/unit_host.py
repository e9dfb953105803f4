# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder in place of a host, and the switch's transient unit in it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

# It notes what it was called with, and fails where a file broken-WORD is in the folder.
PROGRAM = '#!/bin/sh\necho "$(basename "$0") $*" >> {here}/told\n[ ! -e {here}/broken-"$1" ]\n'
# https://www.freedesktop.org/software/systemd/man/latest/systemctl.html#is-system-running
SYSTEMCTL = """#!/bin/sh
case $1 in
is-system-running) [ -e {jobs} ] && echo stopping || echo running ;;
list-jobs) cat {jobs} ;;
esac
"""


class UnitHost:
    """A folder in place of a host; runs the switch as its transient unit would: `apply`, and `settle` after that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.unit: subprocess.Popen[bytes] | None = None
        # The words of the last systemd-run.
        self.asked: tuple[str, ...] = ()
        # Whether a unit of this name is the one that runs.
        self.is_unit: t.Callable[[str], bool] = lambda _name: True

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def run(self, *command: str) -> str:
        if command[0] == "systemctl":
            runs = self.unit is not None and self.unit.poll() is None and self.is_unit(command[-1])
            return "active\n" if runs else "inactive\n"
        assert command[0] == "systemd-run"
        self.asked = command
        shell, script, word = command[-3:]
        (stop_post,) = (words for words in command if words.startswith("--property=ExecStopPost="))
        assert (shell, word) == ("/bin/sh", "apply")
        whole = f"{shell} {script} apply & echo $! > {self.directory}/pid; wait $!; {stop_post.split('=', 2)[2]}"
        nowhere = subprocess.DEVNULL
        self.unit = subprocess.Popen(
            ["/bin/sh", "-c", whole],
            env={**os.environ, "PATH": f"{self.directory}/bin:{os.environ['PATH']}"},
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        end = time.monotonic() + 300
        while not (self.directory / "pid").exists() or not (self.directory / "pid").read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        return ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(int((self.directory / "pid").read_text()), number)

    def shut_down(self, job: str = "reboot.target") -> None:
        """From now on systemd says that it does this; nothing ends by that alone."""
        (self.directory / "jobs").write_text(f"1 {job} start waiting\n")

    def systemctl(self) -> None:
        """Put one on the path that says how the host is."""
        program = self.directory / "bin/systemctl"
        program.write_text(SYSTEMCTL.format(jobs=self.directory / "jobs"))
        program.chmod(0o700)

    def programs(self, *names: str) -> None:
        """Put programs on the path that only note how they are called."""
        (self.directory / "bin").mkdir(exist_ok=True)
        self.systemctl()
        for name in names:
            (self.directory / "bin" / name).write_text(PROGRAM.format(here=self.directory))
            (self.directory / "bin" / name).chmod(0o700)

    def end(self) -> None:
        """Nothing of it runs on."""
        if self.unit is not None and self.unit.poll() is None:
            os.killpg(self.unit.pid, signal.SIGKILL)
            self.unit.wait(timeout=300)

    def wait(self, seconds: float = 300) -> None:
        assert self.unit is not None
        self.unit.wait(timeout=seconds)

    def texts(self, folder: str) -> dict[str, str]:
        place = self.directory / folder
        return {path.name: path.read_text() for path in place.iterdir()} if place.exists() else {}

    def told(self) -> list[str]:
        lines = (self.directory / "told").read_text().splitlines()
        return [line.removeprefix("tool ") for line in lines if line.startswith("tool ")]
