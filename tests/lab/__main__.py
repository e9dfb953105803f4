# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The lab's command line; tests/lab/lab gives this directory to Python, which then finds brine_lab in it."""

from __future__ import annotations

import sys

from brine_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
