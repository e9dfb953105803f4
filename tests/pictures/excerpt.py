# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a recorded terminal is shown: each command with the end of its output."""

from __future__ import annotations

import re

PROMPT = "$ "
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The colours that say «nothing more»: what is left out, and what stands for it.
DIM, RESET = "\x1b[2m", "\x1b[0m"


def plain(line: str) -> str:
    """Return a line without its colours."""
    return COLOUR.sub("", line)


def lines_of(recorded: bytes) -> list[str]:
    """Return the lines that a terminal showed at the end: of a line that was written over, what was written last."""
    text = recorded.decode("utf-8", errors="replace").replace("\r\n", "\n")
    return [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]


def sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return each command, which stands after a prompt, with the lines that it printed, without empty ones at the ends.

    What comes before the first command belongs to none of them and is left out.
    """
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if plain(line).startswith(PROMPT):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(command, _trimmed(output)) for command, output in found]


def excerpt(recorded: bytes, most: int) -> list[str]:
    """Return the lines to show: of each command at most so many lines of its output, the last ones.

    How many were left out is said in their place.
    """
    shown: list[str] = []
    for command, output in sections(lines_of(recorded)):
        kept = _trimmed(output[-most:])
        left = len(output) - len(kept)
        note = [f"{DIM}... lines left out: {left}{RESET}"] if left else []
        shown += [*([""] if shown else []), command, *note, *kept]
    return shown


def _trimmed(lines: list[str]) -> list[str]:
    """The lines without the empty ones at both ends."""
    full = [number for number, line in enumerate(lines) if plain(line).strip()]
    return lines[full[0] : full[-1] + 1] if full else []
