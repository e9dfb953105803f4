# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the pages find what they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.docsite.blocks import Block, code_blocks, inline_code
from ansible_collections.brine.virt.tests.gate.docsite.pages import (
    check_commands,
    check_links,
    check_named_paths,
    check_readme,
    check_reference,
    check_variables,
)
from ansible_collections.brine.virt.tests.gate.docsite.roles import check_role_variables

ADDRESS = "https://github.com/brine-virt/brine.virt/blob/main"
GUIDE = "docs/docsite/rst"
TABLE = "| `virt_answer` | `45` | seconds |\n| `virt_one_pools`, `virt_one_wait` | one, `true` | pools |\n"
# A tree in which nothing is broken.
GOOD = {
    "README.md": "# A title\n\n[role](roles/one/README.md#what-happens), [here](#a-title), [far](https://example.org/x)\n"
    "\n## Communication\n",
    "CONTRIBUTING.md": "see `roles/one`\n\n```\n  _base/   1\n  _one/    one\n```\n",
    "roles/one/README.md": f"# one\n\n{TABLE}\n## What happens\n\n[back](../../README.md)\n",
    "playbooks/list.yml": (
        "- vars:\n  virt_own: '{{ virt_own | default(1) }}'\n  limit: '{{ virt_limit | default(omit) }}'\n"
        "  answer: '{{ virt_answer | default(2) }}'\n  done: '{{ virt_done | default([]) }}'\n"
    ),
    "roles/one/tasks/main.yml": "- debug:\n  register: virt_done\n",
    "roles/one/meta/argument_specs.yml": (
        "argument_specs: {main: {options: {vm: {}, virt_answer: {type: int}, virt_one_pools: {}, virt_one_wait: {}}}}\n"
    ),
    "roles/one/defaults/main.yml": "virt_answer: 45\nvirt_one_pools: [{name: one}]\nvirt_one_wait: true\n",
    "plugins/modules/virt_info.py": "",
    "plugins/module_utils/_base/errors.py": "",
    "plugins/plugin_utils/_one/one.py": "",
    f"{GUIDE}/reference.rst": (
        "``list`` :ansplugin:`brine.virt.one#role` :ansplugin:`brine.virt.virt_info#module`\n"
        f"``virt_limit`` `x <{ADDRESS}/README.md>`__\n"
    ),
}


@pytest.mark.parametrize(
    ("check", "page", "text", "said"),
    [
        (check_links, "README.md", "[a](roles/two/README.md)", "a link leads to roles/two/README.md"),
        (check_links, "roles/one/README.md", "[a](../../README.md#what)", "there is no such heading"),
        (check_links, "README.md", "[a](#nowhere)", "there is no such heading"),
        (check_links, f"{GUIDE}/page.rst", f"`a <{ADDRESS}/roles/one/README.md#gone>`__", "there is no such heading"),
        (check_links, f"{GUIDE}/page.rst", f"`a <{ADDRESS}/roles/two>`__", "a link leads to roles/two"),
        (check_named_paths, f"{GUIDE}/page.rst", "see ``roles/two``", "there is no roles/two"),
        (check_named_paths, "CONTRIBUTING.md", "  _base/   1\n  _two/    two", "there is no _two/ in plugins"),
        (check_named_paths, "CONTRIBUTING.md", "  _base/   1", "_one/ of plugins/plugin_utils is not in the house"),
        (check_commands, f"{GUIDE}/page.rst", "   $ ansible-playbook brine.virt.lost", "there is no playbook"),
        (check_commands, f"{GUIDE}/page.rst", "by ``ansible-playbook brine.virt.lost``", "there is no playbook"),
        (check_commands, "README.md", '$ ansible-playbook brine.virt.list -e reason="a b"', "quote it once more"),
        (check_reference, f"{GUIDE}/reference.rst", "``list``", "brine.virt.virt_info#module` is missing"),
        (
            check_variables,
            f"{GUIDE}/reference.rst",
            "``virt_limits``",
            "virt_limit can be set, and is explained nowhere",
        ),
        (check_variables, "roles/one/tasks/main.yml", "- debug:", "virt_done can be set"),
        (
            check_role_variables,
            "roles/one/README.md",
            "| `virt_answer` | `45` | s |",
            "virt_one_wait of roles/one/meta",
        ),
        (check_role_variables, "roles/one/README.md", TABLE.replace("45", "15"), "the default of virt_answer is 45"),
        (check_readme, "README.md", "## Communication\n" + "line\n" * 149, "README.md has 151 lines"),
        (check_readme, "README.md", "# A title", "README.md has no section Communication"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_is_broken_is_found(
    check: Callable[[], Iterator[str]], page: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in GOOD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(check()) == []
    (tmp_path / page).write_text(text + "\n", encoding="utf-8")
    assert any(said in line for line in check())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "Text.\n\n```console\n$ one\nout\n\n$ two\n```\n\nMore.\n"),
        ("page.rst", "Text.\n\n.. code-block:: console\n\n   $ one\n   out\n\n   $ two\n\nMore.\n"),
    ],
)
def test_a_code_block_is_the_same_in_both_languages(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert code_blocks(tmp_path / name) == [Block("console", "$ one\nout\n\n$ two\n", 7)]
    assert code_blocks(tmp_path / name)[0].commands == ["one", "two"]


def test_inline_code_of_both_languages() -> None:
    assert inline_code("see `one` and ``two words``, not this") == ["one", "two words"]
