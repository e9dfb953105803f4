# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every boolean of a role takes what the command line gives, which is a text: ``-e virt_provision_wait=false``.

Ansible refuses a text as a condition, and as part of an expression the text "false" counts as true. So a boolean goes
through the filter ``bool``, or as it stands into a module's option, which reads such texts itself.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
import yaml
from jinja2 import nodes

pytestmark = pytest.mark.medium

TOP = Path(__file__).resolve().parents[3]
CONDITIONS = ("when", "failed_when", "changed_when", "until", "that", "check_mode", "diff")
SOURCES = sorted(
    [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("roles/*/vars/*.yml"), *TOP.glob("roles/*/handlers/*.yml")]
    + [*TOP.glob("playbooks/**/*.yml")]
)


@functools.lru_cache(maxsize=1)
def booleans() -> set[str]:
    """The names of all boolean options of all roles."""
    found = set()
    for path in TOP.glob("roles/*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            found |= {name for name, option in spec["options"].items() if option["type"] == "bool"}
    return found


def templates(value: t.Any, condition: bool = False) -> Iterator[tuple[str, bool]]:
    """Every template of a file, and whether it is a condition."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from templates(item, key in CONDITIONS)
    elif isinstance(value, list):
        for item in value:
            yield from templates(item, condition)
    elif isinstance(value, str):
        yield (value if "{{" in value or not condition else f"{{{{ {value} }}}}"), condition


def unread(source: str, condition: bool, names: set[str]) -> list[str]:
    """The booleans that a template uses as they come."""
    tree = jinja2.Environment(autoescape=False).parse(source)  # noqa: S701 - it is only parsed
    whole = [node for output in tree.find_all(nodes.Output) for node in output.nodes]
    passed_on = whole[0] if len(whole) == 1 and not condition else None
    return [*_unread(tree, False, names, passed_on)]


def _unread(node: nodes.Node, read: bool, names: set[str], passed_on: nodes.Node | None) -> Iterator[str]:
    if isinstance(node, nodes.Name) and node.name in names and not read:
        yield node.name
    is_bool = isinstance(node, nodes.Filter) and node.name == "bool"
    # The test "defined" asks nothing about the value.
    asks_nothing = isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
    is_default = isinstance(node, nodes.Filter) and node.name == "default"
    for child in node.iter_child_nodes():
        good = is_bool or asks_nothing or (is_default and read) or child is passed_on
        good = good or (is_default and node is passed_on)
        yield from _unread(child, good, names, passed_on)


def test_the_look_finds_what_it_is_for() -> None:
    names = {"wait"}
    assert unread("{{ wait }}", True, names) == ["wait"]
    assert unread("{{ 1 if wait else 2 }}", False, names) == ["wait"]
    assert unread("{{ wait | default(false) }}", True, names) == ["wait"]
    for good in ("{{ wait | bool }}", "{{ wait | default(false) | bool }}", "{{ not wait | bool and x }}"):
        assert unread(good, True, names) == []
    for good in ("{{ wait }}", "{{ wait | default(omit) }}"):
        assert unread(good, False, names) == []
    assert {"virt_provision_wait", "virt_cpu_baseline", "virt_tls_enabled"} <= booleans()


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(TOP)) for path in SOURCES])
def test_no_boolean_is_used_as_it_comes(path: Path) -> None:
    for value, condition in templates(yaml.safe_load(path.read_text(encoding="utf-8"))):
        assert unread(value, condition, booleans()) == [], value
