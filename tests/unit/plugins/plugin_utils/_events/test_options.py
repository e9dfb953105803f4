# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the event source are the same where they are read, in its documentation and on the guide's page."""

from __future__ import annotations

import re
import runpy
import typing as t

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._events.request import RULES, TRANSPORTS, TYPES, read_request
from ansible_collections.brine.virt.tests.unit.conftest import ROOT

COLLECTION = ROOT / "ansible_collections/brine/virt"
SOURCE = runpy.run_path(str(COLLECTION / "extensions/eda/plugins/event_source/domains.py"))
DOCUMENTED: dict[str, dict[str, t.Any]] = yaml.safe_load(SOURCE["DOCUMENTATION"])["options"]
OPTIONS, EVENTS = ["option", "type", "default", "what it is"], ["``type``", "when", "other fields"]


def rows(headings: list[str]) -> list[list[str]]:
    """The cells of the page's table with these headings, each on one line."""
    text = (COLLECTION / "docs/docsite/rst/events.rst").read_text(encoding="utf-8")
    for table in text.split(".. list-table::\n")[1:]:
        lines = re.split(r"\n(?=\S)", table)[0]
        found = [
            [" ".join(cell.split()) for cell in re.split(r"^     -(?: |$)", f"     - {row}", flags=re.MULTILINE)[1:]]
            for row in re.split(r"^   \* - ", lines, flags=re.MULTILINE)[1:]
        ]
        if found[0] == headings:
            return found[1:]
    return []


def test_the_page_has_the_options_that_are_read_in_the_order_of_the_documentation() -> None:
    assert [row[0] for row in rows(OPTIONS)] == [f"``{name}``" for name in DOCUMENTED]
    assert set(DOCUMENTED) == set(RULES)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_page_has_type_default_and_choices_of_an_option(name: str) -> None:
    option = DOCUMENTED[name]
    (row,) = (row for row in rows(OPTIONS) if row[0] == f"``{name}``")
    wanted = {"raw": "mapping or list", "list": "list of names"}.get(option["type"], option["type"])
    assert row[1] == wanted
    assert row[2] == (
        "required" if option.get("required") else f"``{option['default']}``" if "default" in option else ""
    )
    explained = " ".join(event[0] for event in rows(EVENTS)) if name == "types" else row[3]
    assert all(f"``{choice}``" in explained for choice in option.get("choices", []))


def test_the_page_has_the_limits_of_a_number() -> None:
    for name, limits in (("threshold_percent", (1, 100)), ("buffer", (10, 1_000_000)), ("retry_seconds", (1, 3600))):
        (row,) = (row for row in rows(OPTIONS) if row[0] == f"``{name}``")
        least, most = map(int, re.findall(r"^From (\d+) to (\d+)\.", row[3])[0])
        assert (least, most) == limits
        given = {"hypervisors": ["hv1"]}
        for number in limits:
            assert getattr(read_request({**given, name: number}), name) == number
        for number in (least - 1, most + 1):
            with pytest.raises(InputError):
                read_request({**given, name: number})


def test_what_is_documented_is_what_counts_without_the_option() -> None:
    request = read_request({"hypervisors": ["hv1"]})
    assert {name: option["default"] for name, option in DOCUMENTED.items() if "default" in option} == {
        "transport": "ssh",
        "buffer": request.buffer,
        "retry_seconds": request.retry_seconds,
    }
    assert request.hypervisors == {"hv1": "qemu+ssh://hv1/system"}
    assert (DOCUMENTED["transport"]["choices"], DOCUMENTED["types"]["choices"]) == (list(TRANSPORTS), list(TYPES))
