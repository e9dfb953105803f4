# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that say, one line an option, what a user may write and where it stands in libvirt's XML.

The same line checks the value, writes it into the XML and reads it back from there. So nothing can be accepted and then
forgotten, and a living machine can be compared with a wish without a second description of each option.

Values are plain data: texts, whole numbers, booleans, sizes in MiB, mappings and lists of them. In a wish only the keys
that the user named are there; reading gives all that the XML has.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model import rules
from ansible_collections.brine.virt.plugins.module_utils._model.units import KIB, parse_size_kib
from ansible_collections.brine.virt.plugins.module_utils._xml import etree

Values = dict[str, t.Any]


class Line(t.Protocol):
    """One line of a table: an option, its rule, and its place."""

    @property
    def key(self) -> str:
        """The user's word for it."""

    def check(self, value: t.Any, where: str) -> t.Any:
        """The clean value; raises InputError."""

    def write(self, parent: etree._Element, value: t.Any) -> None:
        """Put the value into the XML, in place of what is there."""

    def read(self, parent: etree._Element) -> t.Any:
        """The value in the XML, None when there is none."""


Table = t.Sequence[Line]


def check_table(value: t.Any, where: str, table: Table, required: Sequence[str] = ()) -> Values:
    """The mapping that a user wrote, by the lines of a table. Raises InputError with the place."""
    clean = rules.read_mapping(value, where, {line.key: line.check for line in table})
    for key in required:
        if key not in clean:
            raise InputError(f"{key} is missing", where=where or None)
    return clean


def write_table(parent: etree._Element, table: Table, values: Mapping[str, t.Any]) -> None:
    """Write the values that are there; the others stay as they are in the XML."""
    for line in table:
        if values.get(line.key) is not None:
            line.write(parent, values[line.key])


def read_table(parent: etree._Element, table: Table) -> Values:
    """All that the XML says, by the users' words."""
    found = ((line.key, line.read(parent)) for line in table)
    return {key: value for key, value in found if value is not None}


def covers(have: t.Any, want: t.Any) -> bool:
    """Whether what is there has all that is wished; what was not named is no difference.

    Mappings by the keys of the wish, lists item by item, anything else by equality.
    """
    if isinstance(want, Mapping):
        return isinstance(have, Mapping) and all(covers(have.get(key), value) for key, value in want.items())
    if isinstance(want, (list, tuple)):
        return (
            isinstance(have, (list, tuple)) and len(have) == len(want) and all(covers(h, w) for h, w in zip(have, want))  # noqa: B905 - Python 3.9 has no strict
        )
    return bool(have == want)


def _seek(parent: etree._Element, path: str) -> etree._Element | None:
    """The element at a path below the parent; the empty path is the parent itself."""
    return parent.find(path) if path else parent


def _have(parent: etree._Element, path: str) -> etree._Element:
    """The element at a path, made where it is missing."""
    for tag in path.split("/") if path else ():
        child = parent.find(tag)
        parent = etree.SubElement(parent, tag) if child is None else child
    return parent


def _drop(element: etree._Element) -> None:
    home = element.getparent()
    if home is not None:
        home.remove(element)


@dataclass(frozen=True)
class Kind:
    """How a value stands in XML as text."""

    encode: t.Callable[[t.Any], str]
    decode: t.Callable[[str], t.Any]


TEXT = Kind(str, str)
NUMBER = Kind(str, int)
YES_NO = Kind(lambda value: "yes" if value else "no", lambda text: text == "yes")
ON_OFF = Kind(lambda value: "on" if value else "off", lambda text: text == "on")


def kind_of(rule: rules.Rule) -> Kind:
    """The usual kind for a rule: numbers as numbers, booleans as yes and no, anything else as text."""
    if rule is rules.yes_or_no:
        return YES_NO
    return NUMBER if isinstance(rule, rules.whole_number) else TEXT


@dataclass(frozen=True)
class Attribute:
    """A value in an attribute: path ``topology@cores`` is the attribute ``cores`` of the child ``topology``."""

    key: str
    rule: rules.Rule
    path: str
    kind: Kind | None = None

    def check(self, value: t.Any, where: str) -> t.Any:
        return self.rule(value, where)

    def write(self, parent: etree._Element, value: t.Any) -> None:
        element, _at, name = self.path.partition("@")
        _have(parent, element).set(name, (self.kind or kind_of(self.rule)).encode(value))

    def read(self, parent: etree._Element) -> t.Any:
        path, _at, name = self.path.partition("@")
        element = _seek(parent, path)
        text = None if element is None else element.get(name)
        return None if text is None else (self.kind or kind_of(self.rule)).decode(text)


@dataclass(frozen=True)
class Content:
    """A value that is the text of an element."""

    key: str
    rule: rules.Rule
    path: str

    def check(self, value: t.Any, where: str) -> t.Any:
        return self.rule(value, where)

    def write(self, parent: etree._Element, value: t.Any) -> None:
        _have(parent, self.path).text = kind_of(self.rule).encode(value)

    def read(self, parent: etree._Element) -> t.Any:
        element = _seek(parent, self.path)
        # An element that is there without text, such as <model fallback='allow'/>, has no value.
        return None if element is None or not element.text else kind_of(self.rule).decode(element.text)


@dataclass(frozen=True)
class Size:
    """A size in MiB: the text of an element, or with ``@name`` an attribute; the unit stands in the attribute ``unit``.

    libvirt gives back KiB whatever it was given.
    """

    key: str
    path: str

    def check(self, value: t.Any, where: str) -> int:
        return int(rules.size(value, where))

    def write(self, parent: etree._Element, value: int) -> None:
        path, _at, name = self.path.partition("@")
        element = _have(parent, path)
        if name:
            element.set(name, str(value))
        else:
            element.text = str(value)
        element.set("unit", "MiB")

    def read(self, parent: etree._Element) -> float | int | None:
        path, _at, name = self.path.partition("@")
        element = _seek(parent, path)
        text = None if element is None else (element.get(name) if name else element.text)
        if element is None or not text:
            return None
        kib = parse_size_kib(text.strip(), element.get("unit", "KiB"))
        # A value that somebody else set need not be a whole number of MiB.
        return kib // KIB if kib % KIB == 0 else kib / KIB


@dataclass(frozen=True)
class Mark:
    """A yes that is an empty element, such as ``<readonly/>``; a no is its absence."""

    key: str
    path: str

    def check(self, value: t.Any, where: str) -> bool:
        return rules.yes_or_no(value, where)

    def write(self, parent: etree._Element, value: bool) -> None:
        found = _seek(parent, self.path)
        if value:
            _have(parent, self.path)
        elif found is not None:
            _drop(found)

    def read(self, parent: etree._Element) -> bool:
        return _seek(parent, self.path) is not None


@dataclass(frozen=True)
class Group:
    """A mapping inside the mapping, with a table of its own; its paths begin at ``path``."""

    key: str
    path: str
    table: tuple[Line, ...]
    required: tuple[str, ...] = ()

    def check(self, value: t.Any, where: str) -> Values:
        return check_table(value, where, self.table, self.required)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        if value:
            write_table(_have(parent, self.path), self.table, value)

    def read(self, parent: etree._Element) -> Values:
        element = _seek(parent, self.path)
        return {} if element is None else read_table(element, self.table)


@dataclass(frozen=True)
class Device:
    """A device that a machine has once or not at all: a mapping with a table of its own.

    ``true`` is one with all defaults, ``false`` none; short: the key that a plain word stands for; none: the word that
    means none. fixed: what is set in a new one unless the wish says otherwise, by paths as in Attribute.
    """

    key: str
    path: str
    table: tuple[Line, ...]
    short: str | None = None
    none: str | None = None
    fixed: tuple[tuple[str, str], ...] = ()

    def check(self, value: t.Any, where: str) -> Values | bool:
        if value is False or (self.none is not None and value == self.none):
            return False
        if value is True:
            return {}
        if self.short is not None and not isinstance(value, Mapping):
            value = {self.short: value}
        return check_table(value, where, self.table)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        element = parent.find(self.path)
        if value is False:
            if element is not None:
                _drop(element)
            return
        if element is None:
            element = _have(parent, self.path)
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
            _have(element, path).set(name, value)
        else:
            _have(element, path).text = value


def _has_fixed(element: etree._Element, fixed: t.Iterable[tuple[str, str]]) -> bool:
    """Whether an element has all these attributes."""
    for place, value in fixed:
        path, _at, name = place.partition("@")
        found = _seek(element, path)
        if found is None or found.get(name) != value:
            return False
    return True


@dataclass(frozen=True)
class Rows:
    """A list of mappings that are elements of one name, such as ``numa/cell``.

    short: the key that a plain value stands for. fixed: attributes that each of these elements has; others of the same
    name are none of this list. The list of a wish replaces the one that is there.
    """

    key: str
    path: str
    table: tuple[Line, ...]
    short: str | None = None
    fixed: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()

    def check(self, value: t.Any, where: str) -> tuple[Values, ...]:
        if not isinstance(value, (list, tuple)):
            value = [value]
        return tuple(self._check_row(row, f"{where}[{index}]") for index, row in enumerate(value))

    def _check_row(self, row: t.Any, where: str) -> Values:
        if self.short is not None and not isinstance(row, Mapping):
            row = {self.short: row}
        return check_table(row, where, self.table, self.required)

    def _elements(self, parent: etree._Element) -> list[etree._Element]:
        return [element for element in parent.findall(self.path) if _has_fixed(element, self.fixed)]

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        home_path, _slash, tag = self.path.rpartition("/")
        for old in self._elements(parent):
            _drop(old)
        home = _seek(parent, home_path)
        if not value:
            # An element that stood there for its rows alone has no meaning without them.
            if home is not None and home is not parent and not len(home) and not home.attrib:
                _drop(home)
            return
        home = _have(parent, home_path)
        for row in value:
            element = etree.SubElement(home, tag)
            write_fixed(element, self.fixed)
            write_table(element, self.table, row)

    def read(self, parent: etree._Element) -> tuple[Values, ...]:
        return tuple(read_table(element, self.table) for element in self._elements(parent))


@dataclass(frozen=True)
class Named:
    """A mapping from names to mappings that are elements of one name, such as ``<timer name='hpet' present='no'/>``.

    name: the attribute with the name; short: the key of the table that a plain value stands for; default: what a list
    of plain names stands for. Names that a wish does not have stay.
    """

    key: str
    path: str
    name: str
    name_rule: rules.Rule
    table: tuple[Line, ...]
    short: str | None = None
    default: t.Any = None
    required: tuple[str, ...] = ()

    def check(self, value: t.Any, where: str) -> dict[t.Any, Values]:
        if isinstance(value, (list, tuple)) and self.default is not None:
            value = {name: self.default for name in value}
        if not isinstance(value, Mapping):
            raise InputError(f"{value!r} is not a mapping", where=where)
        clean = {}
        for name, row in value.items():
            if self.short is not None and not isinstance(row, Mapping):
                row = {self.short: row}
            clean[self.name_rule(name, where)] = check_table(
                row or {}, rules.inside(where, str(name)), self.table, self.required
            )
        return clean

    def write(self, parent: etree._Element, value: Mapping[t.Any, Mapping[str, t.Any]]) -> None:
        if not value:
            return
        home_path, _slash, tag = self.path.rpartition("/")
        home = _have(parent, home_path)
        there = {element.get(self.name): element for element in home.findall(tag)}
        for name, row in value.items():
            element = there.get(str(name))
            if element is None:
                element = etree.SubElement(home, tag, {self.name: str(name)})
            write_table(element, self.table, row)

    def read(self, parent: etree._Element) -> dict[t.Any, Values]:
        kind = kind_of(self.name_rule)
        return {
            kind.decode(element.get(self.name, "")): read_table(element, self.table)
            for element in parent.findall(self.path)
            if element.get(self.name)
        }
