# SPDX-License-Identifier: GPL-3.0-or-later
"""The README of a role has its variables in a table, each with its default."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from .blocks import inline_code

PREFIX = "virt_"


def check_role_variables() -> Iterator[str]:
    """Yield each variable that a role documents for `ansible-doc` and not in its README, and each other default there.

    Of the defaults those that one literal shows: `true`, `600`, `[]`, a word.
    """
    for specs in sorted(Path("roles").glob("*/meta/argument_specs.yml")):
        role = specs.parents[1]
        readme, defaults = role / "README.md", role / "defaults/main.yml"
        options = yaml.safe_load(specs.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
        given = yaml.safe_load(defaults.read_text(encoding="utf-8")) if defaults.exists() else {}
        rows = _rows(readme)
        for name in (name for name in options if name.startswith(PREFIX)):
            value = given.get(name)
            literal = value if isinstance(value, str) else json.dumps(value)
            if name not in rows:
                yield f"{readme}: {name} of {specs} is in no table"
            elif value in (None, "") or (value and isinstance(value, (list, dict))):
                continue
            elif literal not in inline_code(rows[name]):
                yield f"{readme}: the default of {name} is {literal}"


def _rows(readme: Path) -> dict[str, str]:
    """Return by the variables in the first cell of a row what its second one says."""
    rows = [row.split(" | ") for row in readme.read_text(encoding="utf-8").split("\n") if row.startswith("| `")]
    return {name: row[1] for row in rows if len(row) > 1 for name in inline_code(row[0])}
