# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema by which editors complete and check vms.yml.

Run as `python -m tests.gate.schema` from the top of the collection: says whether docs/schema/vms.schema.json is what
the field tables and the documentation make of it. With `--write` it writes the file.
"""

import json
import sys
import typing as t
from pathlib import Path

from ..generated import check_or_write
from .variables import make_schema

TARGET = Path("docs/schema/vms.schema.json")
WIDTH = 120


def as_json(value: t.Any, indent: str = "") -> str:
    """Return JSON in which what fits on a line stands on one: that is shorter, and a change of it is seen."""
    short = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, (dict, list)) or len(indent) + len(short) <= WIDTH // 2:
        return short
    deeper = f"{indent} "
    if isinstance(value, list):
        rows = [as_json(item, deeper) for item in value]
        return f"[\n{deeper}" + f",\n{deeper}".join(rows) + f"\n{indent}]"
    rows = [f"{json.dumps(key)}: {as_json(item, deeper)}" for key, item in value.items()]
    return f"{{\n{deeper}" + f",\n{deeper}".join(rows) + f"\n{indent}}}"


def main() -> int:
    """Say what is wrong, or write; return 1 when something is."""
    return check_or_write("the schema", "tests.gate.schema", {TARGET: lambda: as_json(make_schema()) + "\n"})


if __name__ == "__main__":
    sys.exit(main())
