# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines are listed, and how they are called, with a stand-in for who evaluates expressions."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.selection import (
    Filter,
    HostSelection,
    names_in_expressions,
    read_filters,
    read_hostnames,
)

WEB = {"virt_name": "web1", "virt_state": "running", "virt_hypervisor": "hv1", "name": "a variable", "tier": "web"}


def _evaluate(expression: str, known: Mapping[str, t.Any]) -> t.Any:
    """A name alone, or ``name=value``; an unknown one raises, as Jinja does."""
    name, is_equal, value = expression.partition("=")
    return known[name] == value if is_equal else known[name]


def _selection(
    filters: list[Filter] | None = None, hostnames: list[str] | None = None, strict: bool = False
) -> HostSelection:
    return HostSelection(filters or [], hostnames or [], _evaluate, strict=strict)


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ([], True),
        ([Filter(True, "state=running")], True),
        # Nothing excludes what no filter is true for.
        ([Filter(True, "state=shutoff")], True),
        ([Filter(True, "state=shutoff"), Filter(False, True)], False),
        ([Filter(False, "tier=web"), Filter(True, True)], False),
        ([Filter(True, "virt_state=running"), Filter(False, "tier=web")], True),
        ([Filter(False, False)], True),
        ([Filter(False, "nowhere=x")], True),
    ],
)
def test_the_first_filter_that_is_true_decides(filters: list[Filter], listed: bool) -> None:
    assert _selection(filters).includes(WEB) is listed


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("web1", "web1"),
        ("web1.example.org", "web1.example.org"),
        ("_x-1", "_x-1"),
        ("", None),
        (None, None),
        (7, None),
        (["web1"], None),
        ("two words", None),
        ("web:prod", None),
        ("!web", None),
        ("web1\n", None),
        ("{{ evil }}", None),
    ],
)
def test_only_a_name_is_one(value: t.Any, name: str | None) -> None:
    assert _selection(hostnames=["virt_title"]).name({**WEB, "virt_title": value}) == name


def test_the_first_name_counts_and_failures_are_told_once() -> None:
    selection = _selection([Filter(False, "rack=9")], ["nowhere", "hypervisor", "name"])
    for name in ("web1", "web2"):
        machine = {**WEB, "virt_name": name}
        assert selection.includes(machine)
        assert selection.name(machine) == "hv1"
    assert selection.warnings() == [
        "filters[0] cannot be evaluated for machine web1 ('rack') and 1 more, and has no value there",
        "hostnames[0] cannot be evaluated for machine web1 ('nowhere') and 1 more, and has no value there",
    ]


def test_strict_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^filters\[0\]: cannot be evaluated for machine web1: 'rack'"):
        _selection([Filter(False, "rack=9")], strict=True).includes(WEB)


def test_a_variable_of_the_machine_does_not_pose_as_its_name() -> None:
    known = names_in_expressions(WEB)
    assert (known["name"], known["hypervisor"], known["tier"], known["virt_state"]) == ("web1", "hv1", "web", "running")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (["state"], "filters[0]: 'state' is not a filter. Give include or exclude with a condition"),
        ([{"include": True}, {"only": "x"}], "filters[1]: {'only': 'x'} is not a filter."),
        ([{"include": "a", "exclude": "b"}], "filters[0]: {'include': 'a', 'exclude': 'b'} is not a filter."),
        ([{"exclude": ""}], "filters[0].exclude: '' is not a condition. Give a Jinja expression"),
        ([{"exclude": 3}], "filters[0].exclude: 3 is not a condition."),
    ],
)
def test_wrong_filters_are_refused(value: list[t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_filters(value)
    assert str(caught.value).startswith(sentence)


def test_wrong_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"^hostnames\[1\]: ' ' is not an expression"):
        read_hostnames(["name", " "])
