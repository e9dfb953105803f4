# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules by which values are read."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import parse_size_mib

ACCEPTED: list[tuple[validators.Rule, t.Any, t.Any]] = [
    (validators.text, "a\tb\n<&>", "a\tb\n<&>"),
    (validators.text, 12, "12"),
    (validators.text, "", ""),
    (validators.name, "web-1.example_x", "web-1.example_x"),
    (validators.name, 7, "7"),
    (validators.name, "a" * 63, "a" * 63),
    (validators.whole_number(1, 8), 8, 8),
    (validators.whole_number(1, 8), " 2 ", 2),
    (validators.cpu_set, "0,1", "0-1"),
    (validators.cpu_set, "8,0-3,^2", "0-1,3,8"),
    (validators.filled_line, " a b ", " a b "),
    (validators.cpu_set, 5, "5"),
    (validators.cpu_set, "16383", "16383"),
    (validators.yes_or_no, "Yes", True),
    (validators.yes_or_no, False, False),
    (validators.yes_or_no, 1, True),
    (validators.yes_or_no, " off ", False),
    (validators.choice("a", "b"), "b", "b"),
    (validators.list_of(validators.name), ["a", 1], ("a", "1")),
    (validators.list_of(validators.name), "a", ("a",)),
    (validators.list_of(validators.name), [], ()),
    (validators.any_mapping, {"a": [1], 2: None}, {"a": [1], "2": None}),
    (parse_size_mib, "1GiB", 1024),
    (validators.mac, "52-54-00-AA-bb-cc ", "52:54:00:aa:bb:cc"),
    (validators.interface_address, "192.0.2.10/24", "192.0.2.10/24"),
    (validators.interface_address, "2001:DB8::1/64", "2001:db8::1/64"),
    (validators.address, "192.0.2.1", "192.0.2.1"),
    (validators.address, "2001:db8:0::1", "2001:db8::1"),
]
REFUSED: list[tuple[validators.Rule, t.Any, str]] = [
    (validators.text, "a\x00b", "has a control character"),
    (validators.text, "a\x1bb", "has a control character"),
    (validators.text, "\ud800", "has a control character"),
    (validators.text, ["a"], "is not a string"),
    (validators.text, {"a": 1}, "is not a string"),
    (validators.text, b"a", "is not a string"),
    (validators.text, None, "null is not a string"),
    (validators.name, "", "is not a name"),
    (validators.name, "-a", "is not a name"),
    (validators.name, ".a", "is not a name"),
    (validators.name, "a/b", "is not a name"),
    (validators.name, "a b", "is not a name"),
    (validators.name, "a\n", "is not a name"),
    (validators.name, "ä", "is not a name"),
    (validators.name, "a" * 64, "is not a name"),
    (validators.name, True, "is not a name"),
    (validators.name, 1.5, "is not a name"),
    (validators.name, ["a"], "is not a name"),
    (validators.whole_number(1, 8), 0, "Give a whole number from 1 to 8"),
    (validators.whole_number(1, 8), 9, "Give a whole number from 1 to 8"),
    (validators.whole_number(1, 8), "9" * 5000, "Give a whole number from 1 to 8"),
    (validators.cpu_set, "3-1", "3-1 ends before it begins"),
    (validators.filled_line, "a\nb", "has more than one line"),
    (validators.filled_line, "", "it is empty"),
    (validators.filled_line, " \t", "it is empty"),
    (validators.cpu_set, "1,^1", "Write it like 0-3,8"),
    (validators.cpu_set, "0-16384", "is beyond what libvirt knows. The last number is 16383"),
    (validators.cpu_set, "0,^16384", "is beyond what libvirt knows. The last number is 16383"),
    (validators.cpu_set, "^1", "Write it like 0-3,8"),
    (validators.whole_number(1, 8), "two", "Give a whole number from 1 to 8"),
    (validators.whole_number(1, 8), "²", "Give a whole number from 1 to 8"),
    (validators.whole_number(1, 8), 2.0, "Give a whole number from 1 to 8"),
    (validators.whole_number(1, 8), True, "Give a whole number from 1 to 8"),
    (validators.yes_or_no, "perhaps", "is neither true nor false"),
    (validators.yes_or_no, 2, "is neither true nor false"),
    (validators.choice("a", "b"), "c", "Choose one of a, b"),
    (validators.choice("a", "b"), ["a"], "Choose one of a, b"),
    (validators.list_of(validators.name), {"a": 1}, "is not a list"),
    (validators.any_mapping, ["a"], "is not a mapping"),
    (parse_size_mib, "big", "is not a size"),
    (validators.mac, "52:54:00:aa:bb", "Write it like"),
    (validators.mac, 41135040001, "Write it like 52:54:00:12:34:56, in quotes, as YAML reads it as a number"),
    (validators.mac, "01:00:5e:00:00:01", "is not a MAC address of a nic"),
    (validators.mac, 525400, "Write it like"),
    (validators.interface_address, "192.0.2.10", "Write it like 192.0.2.10/24"),
    (validators.interface_address, "192.0.2.10/33", "Write it like 192.0.2.10/24"),
    (validators.address, "192.0.2.1/24", "Write it like 192.0.2.1"),
    (validators.address, "router", "Write it like 192.0.2.1"),
]


@pytest.mark.parametrize(("rule", "value", "clean"), ACCEPTED)
def test_a_good_value_is_read(rule: validators.Rule, value: t.Any, clean: t.Any) -> None:
    found = rule(value, "x.y")
    assert found == clean
    assert type(found) is type(clean)


@pytest.mark.parametrize(("rule", "value", "says"), REFUSED)
def test_a_bad_value_is_refused_with_its_place(rule: validators.Rule, value: t.Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        rule(value, "x.y")
    assert str(caught.value).startswith("x.y: ")
    assert says in str(caught.value)


def test_a_bad_item_of_a_list_is_named_by_its_number() -> None:
    with pytest.raises(InputError, match=r"^x\.y\[1\]: '-' is not a name"):
        validators.list_of(validators.name)(["a", "-"], "x.y")


RULES: dict[str, validators.Rule] = {"size": parse_size_mib, "name": validators.name}


def test_a_mapping_by_its_rules_with_nulls_left_out() -> None:
    given = {"size": "1G", "name": None}
    assert validators.read_mapping(given, "x", RULES) == {"size": 1024}
    assert given == {"size": "1G", "name": None}


@pytest.mark.parametrize(
    ("value", "where", "text"),
    [
        ({"sise": 1}, "x", "x: unknown option 'sise'. Did you mean size?"),
        ({"colour": 1}, "x", "x: unknown option 'colour'. Known: name, size"),
        ({"colour": 1}, "", "unknown option 'colour'. Known: name, size"),
        ({3: 1}, "x", "x: unknown option '3'. Known: name, size"),
        ({"size:1 password": None}, "x", "x: unknown option 'size:...'. Write a space after the colon"),
        ({"size=1": None}, "x", "x: unknown option 'size...'. Did you mean size?"),
        ({"size": "?"}, "x[2]", "x[2].size: '?' is not a size"),
        ({"size": "?"}, "", "size: '?' is not a size"),
        (["size"], "x", "x: a list is not a mapping of options. Known: size, name"),
    ],
)
def test_a_bad_mapping_is_refused_with_its_place(value: t.Any, where: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        validators.read_mapping(value, where, RULES)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("debain", ["debian", "fedora"], "Did you mean debian?"),
        ("x", ["debian", "arch"], "Known: arch, debian"),
        ("x", [], "There are none at all"),
        ("x", [f"{number:03}" for number in range(80)], f"Known: {', '.join(f'{number:03}' for number in range(80))}"),
        (
            "x",
            [f"{number:03}" for number in range(2000)],
            f"Known: {', '.join(f'{n:03}' for n in range(80))} and 1920 more",
        ),
    ],
    ids=["near", "far", "none", "80", "2000"],
)
def test_the_hint_for_an_unknown_word(word: str, known: list[str], hint: str) -> None:
    assert validators.one_of_these(word, known) == hint
