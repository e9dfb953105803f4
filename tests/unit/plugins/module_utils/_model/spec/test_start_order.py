# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which machines start: what may be written, and who starts together."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._model.spec.start_order import in_start_order, order_of

PLAIN = {"name": "a", "vcpus": 1, "memory": 64}


def read(**options: t.Any) -> tuple[t.Any, t.Any]:
    (machine,) = read_machines([{**PLAIN, **options}], where="virt_vms")
    return machine.order, machine.delay_seconds


def test_what_may_be_written() -> None:
    assert read() == (None, None)
    assert read(order=0, delay_seconds=0) == (0, 0)
    assert read(order="10", delay_seconds="3600") == (10, 3600)
    assert read(order="none") == ("none", None)
    assert (order_of("none"), order_of(None), order_of(0)) == (None, None, 0)


@pytest.mark.parametrize("value", [-1, 10000, "first", 1.5, True, ""])
def test_an_order_is_a_whole_number(value: t.Any) -> None:
    with pytest.raises(InputError) as caught:
        read(order=value)
    assert str(caught.value) == (
        f"virt_vms[0].order: {value!r} is not allowed. Give a whole number from 0 to 9999, or none for no order"
    )


@pytest.mark.parametrize("value", [-1, 3601, "30s", False])
def test_a_delay_is_a_number_of_seconds(value: t.Any) -> None:
    with pytest.raises(InputError, match=r"virt_vms\[0\]\.delay_seconds: .* Give a whole number from 0 to 3600"):
        read(delay_seconds=value)


def test_the_lowest_order_is_first_and_those_without_one_are_last() -> None:
    orders = {"web": 20, "any": None, "db": 3, "cache": 20, "other": None, "dns": 0}
    assert in_start_order(orders, orders.__getitem__) == [["dns"], ["db"], ["web", "cache"], ["any", "other"]]
    assert in_start_order([], order_of) == []
    assert in_start_order(["any"], lambda _name: None) == [["any"]]
