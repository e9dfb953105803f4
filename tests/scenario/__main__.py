# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the scenarios that the command line names; tests/scenario/run calls this."""

from __future__ import annotations

import sys

from .runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
