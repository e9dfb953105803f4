# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a table accepts, made from the table itself."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import shapes as field_shapes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import table, validators

# What XML can carry; the rules refuse the rest. A carriage return comes back from XML as a line feed.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"), max_size=30
).filter(lambda text: text.strip() != "")
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


def of_rule(rule: validators.Rule) -> st.SearchStrategy[t.Any]:
    """Values that a rule takes."""
    if isinstance(rule, validators.choice):
        return st.sampled_from(rule.words)
    if isinstance(rule, validators.whole_number):
        return st.integers(rule.minimum, rule.maximum)
    if isinstance(rule, validators.pattern):
        return st.from_regex(rule.expression, fullmatch=True).filter(lambda text: text.isascii() and len(text) < 60)
    simple: dict[t.Any, st.SearchStrategy[t.Any]] = {
        validators.yes_or_no: st.booleans(),
        validators.name: NAMES,
        validators.text: TEXTS,
        validators.filled_line: TEXTS,
        validators.cpu_set: st.sets(st.integers(0, 99), min_size=1, max_size=9).map(
            lambda numbers: validators.cpu_set(",".join(map(str, numbers)), "")
        ),
        validators.address: st.ip_addresses().map(str),
    }
    return simple[rule]


def of_field(field: table.Field) -> st.SearchStrategy[t.Any]:
    """Values that a field of a table takes, most of them."""
    if isinstance(field, (table.AttributeField, table.TextField)):
        return of_rule(field.rule)
    if isinstance(field, table.SizeField):
        return st.integers(1, 10**6)
    if isinstance(field, table.FlagField):
        return st.booleans()
    if field.key == "numa" and isinstance(field, field_shapes.ListField):
        return st.lists(of_table(field.table, field.required), max_size=3).map(_numbered)
    if isinstance(field, field_shapes.ListField):
        return st.lists(of_table(field.table, field.required), max_size=3)
    if isinstance(field, field_shapes.NamedListField):
        return st.dictionaries(of_rule(field.name_rule), of_table(field.table, field.required), max_size=3)
    if isinstance(field, field_shapes.DeviceField):
        return st.one_of(st.booleans(), of_table(field.table))
    if isinstance(field, field_shapes.GroupField):
        return of_table(field.table, field.required)
    if hasattr(field, "rows"):
        return st.one_of(st.booleans(), of_field(field.rows))
    if field.key == "host_devices":
        pci = st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", fullmatch=True)
        return st.lists(st.one_of(pci, st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{4}", fullmatch=True)), max_size=3)
    return st.integers(1, 65535)


def _numbered(cells: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """NUMA cells with the ids of their places, if any, and with distances to cells of the list, none to themselves."""
    count = len(cells)
    for index, cell in enumerate(cells):
        if "id" in cell:
            cell["id"] = index
        if "distances" in cell:
            distances = {int(other) % count: distance for other, distance in cell["distances"].items()}
            cell["distances"] = {other: distance for other, distance in distances.items() if other != index}
    return cells


def of_table(fields: table.Table, required: t.Sequence[str] = ()) -> st.SearchStrategy[dict[str, t.Any]]:
    """Mappings with some of the keys of a table."""
    all_of_them = {field.key: of_field(field) for field in fields}
    return st.fixed_dictionaries(
        {key: all_of_them[key] for key in required},
        optional={key: value for key, value in all_of_them.items() if key not in required},
    )


def checked(field: table.Field) -> st.SearchStrategy[t.Any]:
    """Clean values of a field: what it makes of what it accepts."""

    def check(value: t.Any) -> t.Any:
        try:
            return field.check(value, "here")
        except InputError:
            return None

    return of_field(field).map(check).filter(lambda value: value is not None)
