# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines, profiles and images as the documentation and the integration tests write them fit the schema."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.modules import virt_init
from ansible_collections.brine.virt.tests.gate.docsite.blocks import code_blocks
from ansible_collections.brine.virt.tests.unit.schema.editor import SCHEMA, TOP, complaints, complaints_of_machine

GUIDE = TOP / "docs/docsite/rst"
DOCUMENTS = [TOP / "README.md", *sorted(TOP.glob("roles/*/README.md")), *sorted(GUIDE.glob("*.rst"))]
EXAMPLES = re.compile(r'^EXAMPLES = r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
PLUGINS = sorted(TOP.glob("plugins/*/*.py"))
TASKS = [*sorted(TOP.glob("playbooks/**/*.yml")), *sorted(TOP.glob("tests/integration/**/*.yml"))]
VARIABLES = set(SCHEMA["properties"])


def mappings(data: t.Any) -> Iterator[dict[str, t.Any]]:
    """All mappings in some data, the outer ones first."""
    if isinstance(data, dict):
        yield data
    if isinstance(data, (dict, list)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from mappings(item)


def variables_in(data: t.Any) -> list[dict[str, t.Any]]:
    return [found for found in mappings(data) if VARIABLES & set(found)]


def tasks_in(data: t.Any) -> list[tuple[str, dict[str, t.Any]]]:
    """The options of each task with virt_init or virt_profile_info."""
    names = ("brine.virt.virt_init", "brine.virt.virt_profile_info")
    return [(name, found[name]) for found in mappings(data) for name in names if isinstance(found.get(name), dict)]


def test_variables_of_readmes_and_guide_fit() -> None:
    found = [
        variables
        for path in DOCUMENTS
        for block in code_blocks(path)
        if block.language == "yaml"
        for variables in variables_in(yaml.safe_load(block.text))
    ]
    assert sum("virt_vms" in variables for variables in found) >= 9
    assert [complaints(variables) for variables in found] == [[]] * len(found)


def test_examples_of_modules_and_plugins_fit() -> None:
    texts = [example for path in PLUGINS for example in EXAMPLES.findall(path.read_text(encoding="utf-8"))]
    data = [document for text in texts for document in yaml.safe_load_all(text)]
    found = [wrong_in_task(*task) for task in tasks_in(data)] + [complaints(item) for item in variables_in(data)]
    assert len(found) >= 7
    assert found == [[]] * len(found)


def test_tasks_and_variables_of_yaml_files_fit() -> None:
    data = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in TASKS]
    found = [wrong_in_task(*task) for task in tasks_in(data)] + [complaints(item) for item in variables_in(data)]
    assert found
    assert found == [[]] * len(found)


def wrong_in_task(module: str, options: dict[str, t.Any]) -> list[str]:
    """What is wrong with the machines of a task. What a list lacks may stand beside it, and has its own value there."""
    profiles = {key: options[key] for key in ("disk_profiles", "nic_profiles") if key in options}
    common = {key: value for key, value in options.items() if key in {*virt_init.MACHINE_OPTIONS, *ALIASES}}
    machines = options.get("machines", [{}])
    if isinstance(machines, str):
        return complaints({"virt_vms": machines})
    bare = {"name": "a", "vcpus": 1, "memory": "1MiB"} if module.endswith("info") else {}
    return [wrong for machine in machines for wrong in complaints_of_machine({**bare, **common, **machine}, **profiles)]


ALIASES = {alias for spec in virt_init.ARGUMENTS.values() for alias in spec.get("aliases", ())}


def test_the_demo_gives_images_that_fit() -> None:
    demo = TOP / "tests/demo/run"
    if not demo.exists():
        pytest.skip("the demo is not in the built collection")
    (shape,) = re.findall(r'json\.dumps\(\{"virt_images": (.*)\}\)\)', demo.read_text(encoding="utf-8"))
    image, *keys = re.findall(r'"(\w+)": ', shape)
    assert complaints({"virt_images": {image: dict.fromkeys(keys, "x")}}) == []


@pytest.mark.parametrize("page", [TOP / "README.md", GUIDE / "provision.rst"], ids=lambda path: path.name)
def test_the_readme_and_the_guide_have_the_schema_where_it_is_installed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    (path,) = re.findall(r"^ *# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    installed, _collection, inside = path.partition("/ansible_collections/brine/virt/")
    assert installed.endswith("/.ansible/collections")
    assert (TOP / inside).exists()


def test_every_key_of_a_machine_has_words_of_the_documentation() -> None:
    without = [
        path
        for path, node in described(SCHEMA["$defs"]["machine"], "machine")
        if "$ref" not in node and not node.get("description", "").strip()
    ]
    assert without == []
    marks = re.compile(r"\b[OVCPM]\(")
    assert not [node["description"] for node in mappings(SCHEMA) if marks.search(str(node.get("description", "")))]


def described(schema: t.Any, place: str) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """All properties below a schema, with their places."""
    for part in (schema, *schema.get("anyOf", ())):
        for key, node in part.get("properties", {}).items():
            yield f"{place}.{key}", node
            yield from described(node, f"{place}.{key}")


def test_patterns_are_what_javascript_knows_too() -> None:
    """With the flag u, JavaScript refuses an escaped character that needs no escape; it has no \\Z and no (?i)."""
    patterns = {node["pattern"] for node in mappings(SCHEMA) if isinstance(node.get("pattern"), str)}
    assert patterns
    for pattern in patterns:
        assert not set(re.findall(r"\\(.)", pattern)) - set(r"sdnrtx.$+*?()[]{}|\/^"), pattern
        assert not re.search(r"\(\?(?![:=!])", pattern), pattern
