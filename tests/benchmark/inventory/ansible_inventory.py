# SPDX-License-Identifier: GPL-3.0-or-later
"""``ansible-inventory`` as it is, which says on standard error what having its sources read took: time, memory."""

from __future__ import annotations

import sys
import time
import typing as t
from pathlib import Path

from ansible.cli.inventory import main
from ansible.inventory.manager import InventoryManager

_parse = InventoryManager.parse_sources


def _mebibytes(field: str) -> float:
    """Memory of this process as proc_pid_status(5) has it: VmRSS of now, VmHWM the most so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def _timed_parse(self: InventoryManager, *args: t.Any, **kwargs: t.Any) -> None:
    began, before = time.perf_counter(), _mebibytes("VmRSS")
    _parse(self, *args, **kwargs)
    seconds, more = time.perf_counter() - began, _mebibytes("VmHWM") - before
    sys.stderr.write(f"\nseconds and MiB more in parse_sources: {seconds:.3f} {more:.1f}\n")


InventoryManager.parse_sources = _timed_parse  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(["ansible-inventory", *sys.argv[1:]]))
