# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that would run as templates on the controller."""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.brine.virt.plugins.plugin_utils._events.harmless import without_templates

PIPE = "{{ 6 * 7 }}"


def templated(text: str) -> t.Any:
    return Templar(loader=DataLoader(), variables={}).template(trust_as_template(text))


@pytest.mark.parametrize(
    "text",
    [
        "x" + PIPE,
        "{" + PIPE,
        "{{{{" + PIPE,
        "{% for i in [1] %}{{ 6 * 7 }}{% endfor %}",
        "{{% raw %}{{ 6 * 7 }}",
        "{#" + PIPE,
    ],
)
def test_no_text_is_a_template(text: str) -> None:
    harmless = without_templates(text)
    assert templated(harmless) == harmless
    assert harmless.replace(" ", "") == text.replace(" ", "")


def test_the_names_above_would_run() -> None:
    assert templated("x" + PIPE) == "x42"


def test_all_in_an_event() -> None:
    event = {"machine": PIPE, "tags": ["{%x", ("{#y",)], "at": 1, "{{z": None, "more": {"error": "{{{"}}
    assert without_templates(event) == {
        "machine": "{ " + PIPE[1:],
        "tags": ["{ %x", ["{ #y"]],
        "at": 1,
        "{ {z": None,
        "more": {"error": "{ { {"},
    }
    assert without_templates("web1 {} { } }}") == "web1 {} { } }}"
