# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A message of the guide that nothing says any more is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.gate.docsite.messages import PAGE, check_messages

CODE = '''
"""In a docstring: nothing says this."""
DOCUMENTATION = "in the documentation: nor this"
def check(name, pool):
    raise Error(f"there is no volume {name!r} " f"in pool {pool}", hint="Disks are never shrunk")
'''
TASKS = """
# In a comment: nobody says that.
- fail:
    msg: >-
      {{ host }} is not
      supported by this role
"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("there is no volume ... in pool ...", True),
        ("Disks are never shrunk", True),
        ("... is not supported by this role", True),
        ("there is no volume ... of pool ...", False),
        ("in pool ... there is no volume", False),
        ("nothing says this", False),
        ("nor this", False),
        ("nobody says that", False),
    ],
)
def test_a_message_that_is_not_said_any_more(
    message: str, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"Title\n=====\n\n``{message}``\n  What it means.\n\n``no term``, but text.\n"
    for name, text in {str(PAGE): page, "plugins/modules/one.py": CODE, "roles/one/tasks/main.yml": TASKS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(check_messages()) == ([] if said else [f"{PAGE}: nothing says ``{message}`` any more"])


def test_a_page_without_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text("Title\n=====\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(check_messages()) == [f"{PAGE}: no message is explained"]
