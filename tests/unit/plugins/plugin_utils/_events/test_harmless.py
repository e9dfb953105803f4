# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that would run as templates on the controller."""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from jinja2.nativetypes import NativeEnvironment

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
        # Other delimiters than {{, as Ansible lets a text choose them in its first line.
        "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ 6 * 7 ]]",
    ],
)
def test_no_text_is_a_template(text: str) -> None:
    harmless = without_templates(text)
    assert templated(harmless) == harmless
    assert harmless.replace(" ", "") == text.replace(" ", "")


def handed_on(text: str) -> t.Any:
    """What ansible-rulebook makes of ``vm: "{{ event.machine }}"``: a Python literal becomes its value."""
    return NativeEnvironment().from_string("{{ event.machine }}").render(event={"machine": text})


LITERALS = [
    r"""'\x7b\x7b 6 * 7 }}'""",
    r"""'\173{ 6 * 7 }}'""",
    r"""'\N{LEFT CURLY BRACKET}\u007b 6 * 7 }}'""",
    """'{' '{ 6 * 7 }}'""",
    "'{\\\n{ 6 * 7 }}'",
    r'''"#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ 6 * 7 ]]"''',
    r"""'#' "jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ 6 * 7 ]]" """,
]


@pytest.mark.filterwarnings("ignore:invalid escape sequence", "ignore:.*is an invalid escape sequence")
@pytest.mark.parametrize("text", LITERALS)
def test_no_text_is_a_template_when_it_is_read_as_a_literal(text: str) -> None:
    value = handed_on(without_templates(text))
    assert templated(value) == value
    for item in handed_on(without_templates(f"[{text}]")):
        assert templated(item) == item


@pytest.mark.parametrize("text", ["x" + PIPE, *LITERALS])
def test_the_names_above_would_run(text: str) -> None:
    assert str(templated(handed_on(text))).endswith("42")


def test_all_in_an_event() -> None:
    event = {"machine": PIPE, "tags": ["{%x", ("{#y",)], "at": 1, "{{z": None, "more": {"error": "{{{"}}
    assert without_templates(event) == {
        "machine": "{ " + PIPE[1:],
        "tags": ["{ %x", ["{ #y"]],
        "at": 1,
        "{ { z": None,
        "more": {"error": "{ { { "},
    }
    assert without_templates("web1 #1 vm#2 { } }}") == "web1 #1 vm#2 { } }}"
