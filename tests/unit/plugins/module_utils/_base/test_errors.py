# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of one machine among several."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    VirtError,
    outcome,
    own_error,
    shown,
    with_done,
)


@dataclass
class Result:
    error: VirtError | None = None


def test_whatever_one_machine_raises_is_its_own_error() -> None:
    results = [Result(), Result(), Result()]
    for number, result in enumerate(results):
        with own_error(result):
            if number == 1:
                raise ConflictError("it is in use")
            divmod(1, number)
    first, second, third = results
    assert str(first.error).startswith("unexpected ZeroDivisionError in test_errors.py, line ")
    assert isinstance(second.error, ConflictError) and third.error is None


@pytest.mark.parametrize(
    ("value", "words", "where_no_text_is_right"),
    [
        ("web1", "'web1'", "'web1'"),
        ("52:54:00:g", "'52:54:00:g'", "a text"),
        ("a b", "'a b'", "a text"),
        ("", "''", "''"),
        (None, "None", "None"),
        (1.5, "1.5", "1.5"),
        ([], "[]", "[]"),
        (["web1"], "a list", "a list"),
        ({"a": 1}, "a mapping", "a mapping"),
        (b"a", "binary data", "binary data"),
        (" {a: 1}", "a text that begins with {", "a text that begins with {"),
        ("a" * 80, repr("a" * 80), "a text"),
        ("a" * 81, "a text of 81 characters", "a text of 81 characters"),
        ("a\nb", "a text of 3 characters", "a text of 3 characters"),
    ],
)
def test_a_complaint_repeats_what_can_hold_no_secret(value: t.Any, words: str, where_no_text_is_right: str) -> None:
    assert shown(value) == words
    assert shown(value, as_text=False) == where_no_text_is_right


def test_an_interruption_is_no_error_of_a_machine() -> None:
    result = Result()
    with pytest.raises(KeyboardInterrupt), own_error(result):
        raise KeyboardInterrupt
    assert result.error is None


def test_an_error_says_what_was_done_before_it() -> None:
    error = ConflictError("it is in use", where="name", hint="Stop it")
    assert with_done(error, [], hint="Run it again") is error
    assert str(with_done(error, ["stop a", "delete b"])) == (
        "name: it is in use. Done before that: stop a, delete b. Stop it"
    )
    again = with_done(error, ["stop a"], hint="Run it again")
    assert (type(again), again.hint) == (ConflictError, "Run it again")


def test_the_outcome_of_one_machine() -> None:
    assert outcome("web1", True, None, {"state": "off"}) == {
        "name": "web1",
        "changed": True,
        "failed": False,
        "state": "off",
    }
    failed = outcome("web1", False, ConflictError("it is in use", where="vm"), {})
    assert failed == {"name": "web1", "changed": False, "failed": True, "msg": "vm: it is in use"}
