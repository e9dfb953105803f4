# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Linux says in /sys and /proc of devices that lie on files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage import volume_facts


class Kernel:
    """One without such devices, instead of that of this machine, until some are added."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.block, self.processes = place / "block", place / "proc"
        self.block.mkdir(parents=True)
        monkeypatch.setattr(volume_facts, "_BLOCK", str(self.block))
        monkeypatch.setattr(volume_facts, "_PROC", str(self.processes))

    def loop(self, name: str, path: str, *, read_only: bool = False) -> None:
        """As after losetup."""
        self._device(name, read_only)
        (self.block / name / "loop").mkdir()
        (self.block / name / "loop" / "backing_file").write_bytes(path.encode(errors="surrogateescape") + b"\n")

    def nbd(self, name: str, number: int, program: str | None, *opened: str, read_only: bool = False) -> None:
        """A device that a process of this number serves, which has such files open; None for one that has ended."""
        self._device(name, read_only)
        (self.block / name / "pid").write_text(f"{number}\n", encoding="utf-8")
        if program is not None:
            process = self.processes / str(number)
            (process / "fd").mkdir(parents=True)
            (process / "exe").symlink_to(f"/usr/bin/{program}")
            for index, path in enumerate(opened):
                (process / "fd" / str(index)).symlink_to(path)

    def _device(self, name: str, read_only: bool) -> None:
        (self.block / name).mkdir()
        (self.block / name / "ro").write_text(f"{int(read_only)}\n", encoding="utf-8")
