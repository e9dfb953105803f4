# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name that a task registers or sets as a fact has no other value in ``vars:``: that would never be seen.

Facts last until the end of the run, and people import several playbooks into one. So all names count, of all playbooks
and roles. See Understanding variable precedence in Ansible's documentation.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

COLLECTION = Path(__file__).resolve().parents[4]
TASKS = [
    *COLLECTION.glob("playbooks/**/*.yml"),
    *(path for folder in ("tasks", "handlers") for path in COLLECTION.glob(f"roles/*/{folder}/**/*.yml")),
]
ROLE_VARS = list(COLLECTION.glob("roles/*/vars/*.yml"))
# Their variables outrank facts, see Task.get_include_params in ansible-core.
INCLUDES = {"ansible.builtin.include_tasks", "ansible.builtin.include_role"}
INNER = ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always")


def parts_of(node: t.Any) -> Iterator[Mapping[str, t.Any]]:
    """Every play, block and task of a file."""
    for part in node or ():
        yield part
        for key in INNER:
            yield from parts_of(part.get(key))


def remembered(part: Mapping[str, t.Any]) -> set[str]:
    """The names that stay set when this task is over."""
    facts = set(part.get("ansible.builtin.set_fact") or ()) - {"cacheable"}
    return facts | ({part["register"]} if "register" in part else set())


def given(part: Mapping[str, t.Any]) -> set[str]:
    """The names in ``vars:`` that a fact of the same name outranks."""
    return set() if INCLUDES & set(part) else set(part.get("vars") or ())


def outranked(files: Mapping[str, t.Any]) -> list[str]:
    """The names of ``vars:`` that are also facts, with the files. files: what is in them by their names."""
    parts = [(name, part) for name, content in files.items() for part in parts_of(content)]
    facts = {fact: name for name, part in parts for fact in remembered(part)}
    return sorted(
        f"{value}: in vars of {name}, a fact in {facts[value]}"
        for name, part in parts
        for value in given(part) & set(facts)
    )


def contents(paths: list[Path]) -> dict[str, t.Any]:
    return {str(path.relative_to(COLLECTION)): yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def test_the_look_finds_what_it_is_for() -> None:
    register = {"ansible.builtin.ping": {}, "register": "seen"}
    fact = {"block": [{"ansible.builtin.set_fact": {"seen": 1}}]}
    others: list[dict[str, t.Any]] = [{"ansible.builtin.debug": {}}, {"block": []}, {"hosts": "all"}]
    for part in (*others, {"ansible.builtin.import_tasks": "x"}):
        for before in (register, fact):
            assert outranked({"a": [{"hosts": "all", "tasks": [before]}], "b": [{**part, "vars": {"seen": 2}}]}) == [
                "seen: in vars of b, a fact in a"
            ]
    assert outranked({"a": [register, {"ansible.builtin.include_tasks": "x", "vars": {"seen": 2}}]}) == []
    assert outranked({"a": [register, {"ansible.builtin.debug": {}, "vars": {"other": 2}}]}) == []


def test_no_variable_has_the_name_of_a_fact() -> None:
    assert outranked(contents(TASKS)) == []


def test_no_variable_of_a_role_has_the_name_of_a_fact() -> None:
    values = {name: [{"vars": content}] for name, content in contents(ROLE_VARS).items()}
    assert outranked({**contents(TASKS), **values}) == []
