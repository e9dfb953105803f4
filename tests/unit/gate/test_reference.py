# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page with every option of a machine says what the documentation of virt_init says, in the words of a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import MACHINE_RULES
from ansible_collections.brine.virt.tests.gate.reference import cells, kinds, make_page
from ansible_collections.brine.virt.tests.gate.schema.values import Values

TOP = Path(__file__).resolve().parents[3]
# A row: its key, and its other cells.
ROW = re.compile(r"^   \* - ``(\S+)``\n((?:     .*\n)+)", re.MULTILINE)


@pytest.fixture(name="page", scope="module")
def made_page() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(TOP)
        return make_page()


def rows(page: str) -> dict[str, list[str]]:
    """What the tables say of each key: what it is, its values, its default, its place in the XML, Salt's word."""
    found = {}
    for key, text in ROW.findall(page):
        joined = re.sub(r"\n {7}", " ", "\n" + text)
        found[key] = [cell.strip() for cell in joined.split("\n     -")[1:]]
    return found


def test_each_key_of_an_entry_has_a_section(page: str) -> None:
    headings = re.findall(r"^(\w+)\n-+$", page, re.MULTILINE)
    assert sorted(headings) == sorted(MACHINE_RULES)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("clock.offset", "``utc``"),
        ("nics[].mode", "``bridge``"),
        ("numatune.memory.mode", "``strict``"),
        ("watchdog.model", "``i6300esb``"),
        ("disks[].state", "``present``"),
        ("disks[].device", "``disk``"),
    ],
)
def test_a_default_that_is_one_value_has_its_column(page: str, key: str, default: str) -> None:
    assert rows(page)[key][2] == default


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("cpu.mode", "``host-model``, without KVM a model of the level x86-64-v2"),
        ("disks[].model", "The default is ``virtio``, for a ``cdrom`` ``sata``"),
        ("disks[].discard", "The default for ``disk`` in ``device`` is ``unmap``."),
        ("serials[].type", "The default is ``tcp`` if there is a ``port``"),
        ("serials[].host", "The default is ``127.0.0.1``, but for ``udp``"),
        ("nics[].dhcp4", "By default exactly when there are no ``addresses``."),
        ("vcpus.maximum", "The default is ``current``."),
    ],
)
def test_a_default_that_depends_on_something_is_said_in_words(page: str, key: str, said: str) -> None:
    assert said in rows(page)[key][0]


def test_a_default_that_the_column_shows_is_not_said_again() -> None:
    entry = {
        "description": ["How it is. More of it.", "The default for a new machine is V(utc). By default V(x) if y."]
    }
    what, _values, default, *_rest = cells(entry, Values(), "", "clock.offset")
    assert (what, default) == ("How it is. By default ``x`` if y.", "``utc``")


def test_no_value_is_said_twice(page: str) -> None:
    assert kinds(Values(words=(1.2, "1.2", "2.0"))) == "``1.2``, ``2.0``"
    for key, cell in rows(page).items():
        values = cell[1].split(", ")
        assert len(values) == len(set(values)), f"{key}: {cell[1]}"


def test_the_page_does_not_speak_of_a_module(page: str) -> None:
    assert not re.search(r"[Tt]his module|this\s+option\s+or|^The notes say|\bThe\s+notes\s+say", page)
    assert "``virt_init`` itself does not enforce them" in " ".join(page.split())
