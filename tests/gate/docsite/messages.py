# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule of the page `messages`: every message that it explains is one that the collection can still say.

A message is a term of the page in literals (``there is no machine ... on``); `...` stands for anything. It is found
when its words stand in this order in one text of the code: in one string of a Python file, where values count as
anything, or in the tasks of a role or playbook, or in the variables of a role.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path("docs/docsite/rst/messages.rst")
TERM = re.compile(r"^``(.+)``\n(?= +\S)", re.MULTILINE)
GAP = "..."
# What stands between two parts of a message in the code: a few words and expressions.
MOST_BETWEEN = 250
YAML_FILES = ("playbooks/**/*.yml", "roles/*/tasks/*.yml", "roles/*/vars/*.yml")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}


def messages(page: Path) -> list[str]:
    """Return the messages that the page explains."""
    return TERM.findall(page.read_text(encoding="utf-8"))


def pattern(message: str) -> re.Pattern[str]:
    """Return what finds a message in the code's texts."""
    parts = [re.escape(part.strip(" ,:")) for part in message.split(GAP)]
    return re.compile(rf".{{0,{MOST_BETWEEN}}}?".join(part for part in parts if part), re.DOTALL)


def python_texts(source: str) -> Iterator[str]:
    """Yield the strings of a Python file, without documentation; a value in one is a blank."""
    tree = ast.parse(source)
    needless: set[int] = set()
    for node in ast.walk(tree):
        named = isinstance(node, ast.Assign) and any(getattr(to, "id", "") in DOCUMENTATION for to in node.targets)
        if named or isinstance(node, ast.Expr):
            value = getattr(node, "value", None)
            needless.add(id(value)) if isinstance(value, ast.Constant) else None
        elif isinstance(node, ast.JoinedStr):
            needless |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else " " for part in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in needless:
            yield node.value


@functools.cache
def texts(root: Path) -> tuple[str, ...]:
    """Return all texts of the collection at `root` that may be said, each with single blanks."""
    found = [text for path in root.glob("plugins/**/*.py") for text in python_texts(path.read_text(encoding="utf-8"))]
    for path in (path for files in YAML_FILES for path in root.glob(files)):
        lines = path.read_text(encoding="utf-8").splitlines()
        found.append("\n".join(line for line in lines if not line.lstrip().startswith("#")))
    return tuple(" ".join(text.split()) for text in found if " " in text)


def check_messages() -> Iterator[str]:
    """Yield each message of the page that nothing in the collection says any more, and a page without any."""
    known = messages(PAGE)
    if not known:
        yield f"{PAGE}: no message is explained"
    said = texts(Path.cwd())
    for message in known:
        found = pattern(message)
        if not any(found.search(text) for text in said):
            yield f"{PAGE}: nothing says ``{message}`` any more"
