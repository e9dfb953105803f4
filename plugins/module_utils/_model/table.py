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


def seek(parent: etree._Element, path: str) -> etree._Element | None:
    """The element at a path below the parent; the empty path is the parent itself."""
    return parent.find(path) if path else parent


def have(parent: etree._Element, path: str) -> etree._Element:
    """The element at a path, made where it is missing."""
    for tag in path.split("/") if path else ():
        child = parent.find(tag)
        parent = etree.SubElement(parent, tag) if child is None else child
    return parent


def drop(element: etree._Element) -> None:
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
        have(parent, element).set(name, (self.kind or kind_of(self.rule)).encode(value))

    def read(self, parent: etree._Element) -> t.Any:
        path, _at, name = self.path.partition("@")
        element = seek(parent, path)
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
        have(parent, self.path).text = kind_of(self.rule).encode(value)

    def read(self, parent: etree._Element) -> t.Any:
        element = seek(parent, self.path)
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
        element = have(parent, path)
        if name:
            element.set(name, str(value))
        else:
            element.text = str(value)
        element.set("unit", "MiB")

    def read(self, parent: etree._Element) -> float | int | None:
        path, _at, name = self.path.partition("@")
        element = seek(parent, path)
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
        found = seek(parent, self.path)
        if value:
            have(parent, self.path)
        elif found is not None:
            drop(found)

    def read(self, parent: etree._Element) -> bool:
        return seek(parent, self.path) is not None
