# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws a recorded terminal as SVG:  python -m tests.pictures.terminal RECORDED FILE TITLE"""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .excerpt import excerpt
from .record import COLUMNS

# Of a playbook this is its last words and the recap.
OUTPUT_LINES = 14
# rich would have the browser fetch a font; a picture loads nothing.
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
# Each line has a clip of its own, for wide characters, which no output here has, and the end of the line as text.
NEEDLESS = re.compile(r' clip-path="url\(#[^)]*\)"|<text [^>]*>\n</text>')


def draw(lines: list[str], title: str) -> str:
    """Return lines with the colours of a terminal as SVG."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=False, highlight=False)
    template = FORMAT.replace("TITLE", html.escape(title))
    return NEEDLESS.sub("", console.export_svg(title=title, code_format=template, unique_id="terminal"))


def main() -> None:
    """Do what the command line says."""
    recorded, file, title = sys.argv[1:]
    # All is run in the checkout, whose place is of no interest: paths in it are shown from there.
    shown = Path(recorded).read_bytes().replace(f"{Path.cwd()}/".encode(), b"")
    Path(file).write_text(draw(excerpt(shown, OUTPUT_LINES), title), encoding="utf-8")


if __name__ == "__main__":
    main()
