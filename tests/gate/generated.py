# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a program writes and that are in git: checked against what it makes now, or with `--write` written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

Makers = Mapping[Path, Callable[[], str]]


class TextError(Exception):
    """A text without a key, a key without a text, or one that says too little."""


def check_or_write(what: str, program: str, makers: Makers) -> int:
    """Say what is wrong with the files that `program`, a module, makes, or write them; return 1 when something is."""
    wrong = []
    for target, make in makers.items():
        try:
            made = make()
        except TextError as exc:
            wrong.append(str(exc))
            continue
        if "--write" in sys.argv:
            target.write_text(made, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != made:
            wrong.append(f"{target} is out of date: run python -m {program} --write")
    print("\n".join(wrong) or f"{what} is up to date")
    return 1 if wrong else 0
