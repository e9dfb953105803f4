# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines from what a guest or a program wrote, fit to be shown: bounded, and without what could draw on a terminal."""

from __future__ import annotations

import math
import os
import re

MOST_COLUMNS = 200
# So much of a serial console's log is looked at.
CONSOLE_BYTES = 64 * 1024
# ECMA-48: CSI and OSC sequences (the latter also ended by BEL), then those of two characters; C1 codes in one byte too.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]"
)


def visible_lines(text: str) -> list[str]:
    """The lines that have something in them, each of at most MOST_COLUMNS characters."""
    lines = ("".join(c for c in line if c.isprintable()) for line in _ESCAPES.sub("", text).splitlines())
    return [shortened(line.rstrip()) for line in lines if line.strip()]


def shortened(text: str, most: int = MOST_COLUMNS) -> str:
    """The text, cut where it is longer than that, with dots for the rest."""
    return text if len(text) <= most else text[: most - 3] + "..."


def read_end(path: str, most_bytes: int) -> str:
    """The end of a file as text, whatever bytes it has. Raises OSError."""
    with open(path, "rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - most_bytes))
        return file.read(most_bytes).decode("utf-8", errors="replace")


def console_lines(path: str, most_lines: int) -> list[str]:
    """The last lines of a serial console's log, none where there is no log, or none that may be read."""
    try:
        return visible_lines(read_end(path, CONSOLE_BYTES))[-most_lines:]
    except OSError:
        return []


def written_at(path: str) -> float:
    """When something was last written to the file, in seconds since 1970; infinite where nobody can tell."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return math.inf
