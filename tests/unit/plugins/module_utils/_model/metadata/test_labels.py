# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels in the shapes that users write."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.labels import read_labels, read_wanted_labels


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("ssd", ("ssd",)),
        ([], ()),
        (["zone=a", "ssd", "ssd"], ("ssd", "zone=a")),
        ({"ssd": True, "zone": "a", "row": 7}, ("row=7", "ssd", "zone=a")),
        ({"ssd": True, "gpu": False, "zone": None}, ("ssd",)),
    ],
)
def test_every_shape_is_a_sorted_tuple(value: t.Any, labels: tuple[str, ...]) -> None:
    assert read_labels(value, "x") == labels


@pytest.mark.parametrize(
    "value", [["a b"], [""], ["=a"], ["a="], {"a b": True}, {"zone": "a b"}, {"zone": ["a"]}, [[]]]
)
def test_what_is_no_label_is_an_error(value: t.Any) -> None:
    with pytest.raises(InputError, match="x"):
        read_labels(value, "x")


@pytest.mark.parametrize("no", [False, None])
def test_a_machine_cannot_ask_for_the_absence_of_a_label(no: t.Any) -> None:
    with pytest.raises(InputError, match="labels.gpu: a machine can only ask for"):
        read_wanted_labels({"ssd": True, "gpu": no}, "labels")
    assert read_wanted_labels({"ssd": True}, "labels") == ("ssd",)
