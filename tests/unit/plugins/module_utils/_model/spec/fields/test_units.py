# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as users write them."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import (
    format_size,
    parse_capacity_mib,
    parse_size_mib,
)


@pytest.mark.parametrize(
    ("value", "size_mib"),
    [
        (8192, 8192),
        ("8192", 8192),
        (512.0, 512),
        ("512MiB", 512),
        ("512 m", 512),
        (" 8GiB ", 8192),
        ("8G", 8192),
        ("1.5g", 1536),
        ("1T", 1024 * 1024),
        ("1B", 1),
        ("1025K", 2),
        ("1MB", 1),
        ("2MB", 2),
        ("10GB", 9537),
        ("1TiB", 1024 * 1024),
    ],
)
def test_a_size_in_mib_rounded_up(value: t.Any, size_mib: int) -> None:
    assert parse_size_mib(value) == size_mib


@pytest.mark.parametrize(
    "value", ["", "G", "8X", "-1", -1, 0, "0", "0G", True, None, "1,5G", "1e3", "8G G", "nan", "²"]
)
def test_what_is_no_size_is_refused_with_its_place(value: t.Any) -> None:
    with pytest.raises(InputError) as caught:
        parse_size_mib(value, "vms[3].disks[0].size")
    assert str(caught.value).startswith(f"vms[3].disks[0].size: {value!r} is no")
    assert "512MiB" in str(caught.value)


@pytest.mark.parametrize(("value", "words"), [([8], "a list"), ("9" * 400, "a text of 400 characters")])
def test_what_is_no_size_is_not_repeated_at_length(value: t.Any, words: str) -> None:
    with pytest.raises(InputError, match=f"^size: {words} is no"):
        parse_size_mib(value, "size")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0.0B"),
        (1023, "1023.0B"),
        (1024, "1.0K"),
        (2 * 1024**3, "2.0G"),
        (1536 * 1024**2, "1.5G"),
        (5 * 1024**5, "5120.0T"),
    ],
)
def test_a_size_as_people_read_it(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@given(st.integers(1, 10**9))
def test_a_whole_number_of_mib_is_itself_in_every_spelling(size_mib: int) -> None:
    assert parse_size_mib(size_mib) == parse_size_mib(f"{size_mib}MiB") == parse_size_mib(f"{size_mib * 1024}k")


@pytest.mark.parametrize("value", [16, "16", "8192", 8192, "1MiB", "1B", "15M", "1GiB"])
def test_a_capacity_is_a_size(value: t.Any) -> None:
    assert parse_capacity_mib(value) == parse_size_mib(value)


@pytest.mark.parametrize(("value", "digits"), [(1, "1"), ("8", "8"), (8.0, "8"), ("1.5", "1.5"), (" 15 ", "15")])
def test_a_capacity_without_its_unit_is_refused_with_what_is_meant(value: t.Any, digits: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_capacity_mib(value, "virt_vms[0].memory")
    assert str(caught.value) == (
        f"virt_vms[0].memory: {digits} without a unit is {digits} MiB. "
        f"Write {digits}GiB, or {digits}MiB if so little is meant"
    )
