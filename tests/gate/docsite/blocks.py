# SPDX-License-Identifier: GPL-3.0-or-later
"""The code blocks and inline code of a page, in Markdown or reStructuredText."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A directive at the margin, and all indented or empty lines after it.
DIRECTIVE = re.compile(r"^\.\. code-block:: (\w+)\n\n((?:(?: +.*)?\n)+)", re.MULTILINE)
INLINE = re.compile(r"(`+)([^`\n]+)\1")


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text without the indentation, and where in the page it begins (a character)."""

    language: str
    text: str
    start: int

    @property
    def commands(self) -> list[str]:
        """The command lines, without the prompt `$`. What a command prints stands between them."""
        return [command for command, _lines in self.dialogue]

    @property
    def dialogue(self) -> list[tuple[str, list[str]]]:
        """The command lines, each with the lines that it prints as far as the page shows them."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif found and line.strip():
                found[-1][1].append(line)
        return found


def code_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order. Its name has to end in .md or .rst."""
    text = page.read_text(encoding="utf-8")
    pattern = {".md": FENCED, ".rst": DIRECTIVE}[page.suffix]
    return [
        Block(found[1], textwrap.dedent(found[2]).rstrip("\n") + "\n", found.start())
        for found in pattern.finditer(text)
    ]


def inline_code(row: str) -> list[str]:
    """Return what stands between backticks in one line of a page."""
    return [found[2] for found in INLINE.finditer(row)]
