# SPDX-License-Identifier: GPL-3.0-or-later
"""``ansible-inventory`` as it is, which says on standard error how long it had its sources read."""

from __future__ import annotations

import sys
import time
import typing as t

from ansible.cli.inventory import main
from ansible.inventory.manager import InventoryManager

_parse = InventoryManager.parse_sources


def _timed_parse(self: InventoryManager, *args: t.Any, **kwargs: t.Any) -> None:
    began = time.perf_counter()
    _parse(self, *args, **kwargs)
    sys.stderr.write(f"\nseconds in parse_sources: {time.perf_counter() - began:.3f}\n")


InventoryManager.parse_sources = _timed_parse  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(["ansible-inventory", *sys.argv[1:]]))
