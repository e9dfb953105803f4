# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of a table that hold more than one value: groups, devices, lists and named things."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from ...._base.errors import InputError, inside, shown
from ...._base.xml import etree
from ..fields import validators
from .table import (
    Field,
    Values,
    check_against,
    check_table,
    covers,
    drop,
    encoding_of,
    make,
    read_table,
    seek,
    write_table,
)


@dataclass(frozen=True)
class GroupField:
    """A mapping inside the mapping, with a table of its own; its paths begin at ``path``."""

    key: str
    path: str
    table: tuple[Field, ...]
    required: tuple[str, ...] = ()

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        return check_table(value, where, self.table, self.required, have)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        if value:
            write_table(make(parent, self.path), self.table, value)

    def read(self, parent: etree._Element) -> Values | None:
        element = seek(parent, self.path)
        # What is no element at all is the same to libvirt as one without anything in it.
        return read_table(etree.Element("none") if element is None else element, self.table) or None


@dataclass(frozen=True)
class DeviceField:
    """A device that a machine has once or not at all: a mapping with a table of its own.

    ``true`` is one with all defaults, ``false`` none; short: the key that a plain word stands for; none: the word that
    means none. fixed: what is set in a new one unless the spec says otherwise, by paths as in AttributeField.
    """

    key: str
    path: str
    table: tuple[Field, ...]
    short: str | None = None
    none: str | None = None
    fixed: tuple[tuple[str, str], ...] = ()

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        if value is False or (self.none is not None and value == self.none):
            return False
        if value is True:
            return {}
        if self.short is not None and not isinstance(value, Mapping):
            value = {self.short: value}
        return check_table(value, where, self.table, (), have)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        if value is False:
            # Others may have given it several.
            for old in parent.findall(self.path):
                drop(old)
            return
        element = parent.find(self.path)
        if element is None:
            element = make(parent, self.path)
            write_fixed(element, self.fixed)
        write_table(element, self.table, value if isinstance(value, Mapping) else {})

    def read(self, parent: etree._Element) -> Values | bool:
        element = parent.find(self.path)
        return False if element is None else read_table(element, self.table)


def write_fixed(element: etree._Element, fixed: t.Iterable[tuple[str, str]]) -> None:
    """Set attributes and texts by their paths: ``backend@type``, or without ``@`` the text of the element."""
    for place, value in fixed:
        path, at, name = place.partition("@")
        if at:
            make(element, path).set(name, value)
        else:
            make(element, path).text = value


def _has_fixed(element: etree._Element, fixed: t.Iterable[tuple[str, str]]) -> bool:
    """Whether an element has all these attributes."""
    for place, value in fixed:
        path, _at, name = place.partition("@")
        found = seek(element, path)
        if found is None or found.get(name) != value:
            return False
    return True


@dataclass(frozen=True)
class ListField:
    """A list of mappings that are elements of one name, such as ``numa/cell``.

    short: the key that a plain value stands for. fixed: attributes that each of these elements has; others of the same
    name are none of this list. The list of a spec replaces the one that is there. name: the key that says which element
    a row changes; without one, rows that differ are new elements.
    """

    key: str
    path: str
    table: tuple[Field, ...]
    short: str | None = None
    fixed: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    name: str | None = None

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        if not isinstance(value, (list, tuple)):
            value = [value]
        there = have if isinstance(have, (list, tuple)) else ()
        return tuple(
            check_against(partial(self._check_row, have=known), row, f"{where}[{index}]", known)
            for index, (row, known) in enumerate(zip_longest(value, there[: len(value)]))
        )

    def _check_row(self, row: t.Any, where: str, have: Values | None) -> Values:
        if self.short is not None and not isinstance(row, Mapping):
            row = {self.short: row}
        return check_table(row, where, self.table, self.required, have)

    def _elements(self, parent: etree._Element) -> list[etree._Element]:
        return [element for element in parent.findall(self.path) if _has_fixed(element, self.fixed)]

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        home_path, _slash, tag = self.path.rpartition("/")
        there = self._elements(parent)
        rows = self._pairs(there, value)
        for old in there:
            drop(old)
        home = seek(parent, home_path)
        if not value:
            # An element that stood there for its rows alone has no meaning without them.
            if home is not None and home is not parent and not len(home) and not home.attrib:
                drop(home)
            return
        home = make(parent, home_path)
        for row, kept in rows:
            if kept is None:
                kept = etree.Element(tag)
                write_fixed(kept, self.fixed)
            home.append(kept)
            write_table(kept, self.table, row)

    def read(self, parent: etree._Element) -> tuple[Values, ...]:
        return tuple(read_table(element, self.table) for element in self._elements(parent))

    def _pairs(
        self, elements: Sequence[etree._Element], rows: Sequence[Mapping[str, t.Any]]
    ) -> list[tuple[Mapping[str, t.Any], etree._Element | None]]:
        """Each row with the element that has all of it or that it changes: it keeps what the row has no words for."""
        places = self._places(rows, [read_table(element, self.table) for element in elements])
        return [(row, elements[places[index]] if index in places else None) for index, row in enumerate(rows)]

    def _places(self, rows: Sequence[Mapping[str, t.Any]], have: Sequence[Values]) -> dict[int, int]:
        """By the places of rows those of their elements: the equal one at the same place, another equal one, or the one
        that the row changes. have: what the elements say."""
        places = {index: index for index, (row, values) in enumerate(zip(rows, have)) if covers(values, row)}  # noqa: B905 - Python 3.9
        for index, row in enumerate(rows):
            equal = (place for place, values in enumerate(have) if covers(values, row))
            free = None if index in places else next((place for place in equal if place not in places.values()), None)
            if free is not None:
                places[index] = free
        for index in range(len(rows)):
            changed = None if index in places else self._place_of(rows, index, have)
            if changed is not None and changed not in places.values():
                places[index] = changed
        return places

    def _place_of(self, rows: Sequence[Mapping[str, t.Any]], index: int, have: Sequence[Values]) -> int | None:
        """The place of the element that a row changes. None where it is a new one."""
        if self.name is None:
            return None
        names = [values.get(self.name) for values in have]
        return names.index(rows[index][self.name]) if rows[index].get(self.name) in names else None


def _plain_names(names: Sequence[t.Any], where: str) -> Sequence[t.Any]:
    for index, name in enumerate(names):
        if isinstance(name, (Mapping, list)):
            raise InputError(f"{shown(name)} is not a name", where=f"{where}[{index}]")
    return names


@dataclass(frozen=True)
class NamedListField:
    """A mapping from names to mappings that are elements of one name, such as ``<timer name='hpet' present='no'/>``.

    name: the attribute with the name; short: the key of the table that a plain value stands for; default: what a list
    of plain names stands for. Names that a spec does not have stay. Of a name that stands there several times, as the
    variables of a network filter may, each value is read as a list; one that a spec gives takes the place of them all.
    """

    key: str
    path: str
    name: str
    name_rule: validators.Rule
    table: tuple[Field, ...]
    short: str | None = None
    default: t.Any = None
    required: tuple[str, ...] = ()

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> dict[t.Any, Values]:
        if isinstance(value, (list, tuple)) and self.default is not None:
            value = dict.fromkeys(_plain_names(value, where), self.default)
        if not isinstance(value, Mapping):
            raise InputError(f"{shown(value, as_text=False)} is not a mapping", where=where)
        there = have if isinstance(have, Mapping) else {}
        clean = {}
        for name, row in value.items():
            if self.short is not None and not isinstance(row, Mapping):
                row = {self.short: row}
            # A name that is not offered is one that the machine has.
            clean_name = name if name in there else self.name_rule(name, where)
            known = there.get(clean_name)
            rule = partial(check_table, table=self.table, required=self.required, have=known)
            clean[clean_name] = check_against(rule, row or {}, inside(where, str(name)), known)
        return clean

    def write(self, parent: etree._Element, value: Mapping[t.Any, Mapping[str, t.Any]]) -> None:
        if not value:
            return
        home_path, _slash, tag = self.path.rpartition("/")
        home = make(parent, home_path)
        have = self.read(parent) or {}
        for name, row in value.items():
            if name in have and covers(have[name], row):
                continue
            there = [element for element in home.findall(tag) if element.get(self.name) == str(name)]
            for further in there[1:]:
                drop(further)
            element = there[0] if there else etree.SubElement(home, tag, {self.name: str(name)})
            write_table(element, self.table, row)

    def read(self, parent: etree._Element) -> dict[t.Any, Values] | None:
        kind = encoding_of(self.name_rule)
        found: dict[t.Any, list[Values]] = {}
        for element in parent.findall(self.path):
            if element.get(self.name):
                found.setdefault(kind.decode(element.get(self.name, "")), []).append(read_table(element, self.table))
        return {name: rows[0] if len(rows) == 1 else _together(rows) for name, rows in found.items()} or None


def _together(rows: Sequence[Values]) -> Values:
    return {key: [row.get(key) for row in rows] for key in rows[0]}
