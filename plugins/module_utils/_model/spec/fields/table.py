# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that say, one field an option, what a user may write and where it stands in libvirt's XML.

The same field checks the value, writes it into the XML and reads it back from there. So nothing can be accepted and
then forgotten, and an existing machine can be compared with a spec without a second description of each option.

Values are plain data: texts, whole numbers, booleans, sizes in MiB, mappings and lists of them. In a spec only the keys
that the user named are there; reading gives all that the XML has.

Machines that others made have models, types and numbers that are not offered here. Reading gives them as they stand,
and is never an error; a check accepts them where they are what the machine has already, and nowhere else; and writing
leaves alone what has the requested meaning already, in whatever units and elements it is said.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...._base.errors import InputError
from ...._base.xml import KIB, etree, size_kib_in_xml
from ..fields import validators
from .units import parse_capacity_mib, parse_size_kib, parse_size_mib

Values = dict[str, t.Any]


class Field(t.Protocol):
    """One field of a table: an option, its rule, and its place."""

    @property
    def key(self) -> str:
        """The user's word for it."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> t.Any:
        """The clean value. have: what the machine has, None for a new one (see check_field). Raises InputError."""

    def write(self, parent: etree._Element, value: t.Any) -> None:
        """Put the value into the XML, in place of what is there."""

    def read(self, parent: etree._Element) -> t.Any:
        """The value in the XML, None when there is none."""


Table = t.Sequence[Field]


def check_field(field: Field, value: t.Any, where: str, have: t.Any = None) -> t.Any:
    """The clean value of one field. Raises InputError.

    have: what the machine has there, as the field reads it; None for a new machine.
    """
    return check_against(lambda item, place: field.check(item, place, have), value, where, have)


def check_against(rule: validators.Rule, value: t.Any, where: str, have: t.Any) -> t.Any:
    """What a rule makes of a value, or the value itself where it is what the machine has. Raises InputError.

    Who asks for all that the machine has gets no defaults beside it, and who asks for a part of it need not ask for
    what is offered here.
    """
    if have is not None and covers(have, value) and covers(value, have):
        return value
    try:
        return rule(value, where)
    except InputError:
        if have is None or not covers(have, value):
            raise
        return value


def table_rules(table: Table, have: t.Any = None) -> dict[str, validators.Rule]:
    """The rule of each field by its key. have: what the machine has, as read_table reads it; None for a new machine."""
    there = have if isinstance(have, Mapping) else {}
    return {field.key: partial(check_field, field, have=there.get(field.key)) for field in table}


def rules_beside(
    words: Mapping[str, validators.Rule], table: Table, have: Mapping[str, t.Any] | None
) -> dict[str, validators.Rule]:
    """The rules of words that stand beside the fields of a table, and those of its fields. have: as in table_rules."""
    there = have or {}
    beside = {key: partial(check_against, rule, have=there.get(key)) for key, rule in words.items()}
    return {**beside, **table_rules(table, have)}


def check_table(
    value: t.Any, where: str, table: Table, required: Sequence[str] = (), have: Mapping[str, t.Any] | None = None
) -> Values:
    """The mapping that a user wrote, by the fields of a table. Raises InputError with the place.

    have: what the machine has, as read_table reads it; None for a new machine.
    """
    return validators.read_mapping(value, where, table_rules(table, have), required)


def write_table(parent: etree._Element, table: Table, values: Mapping[str, t.Any]) -> None:
    """Write the values that differ from what is there; all else stays in the XML as it is said there."""
    for field in table:
        want = values.get(field.key)
        if want is not None and not covers(field.read(parent), want):
            field.write(parent, want)


def read_table(parent: etree._Element, table: Table) -> Values:
    """All that the XML says, by the users' words. Never an error, whoever made the XML."""
    found = ((field.key, field.read(parent)) for field in table)
    return {key: value for key, value in found if value is not None}


def covers(have: t.Any, want: t.Any) -> bool:
    """Whether what is there has all that is requested; what was not named is no difference.

    Mappings by the keys of the spec, lists item by item, anything else by equality; no mapping or list at all is an
    empty one.
    """
    if isinstance(want, Mapping):
        have = {} if have is None else have
        return isinstance(have, Mapping) and all(covers(have.get(key), value) for key, value in want.items())
    if isinstance(want, (list, tuple)):
        have = () if have is None else have
        return (
            isinstance(have, (list, tuple)) and len(have) == len(want) and all(covers(h, w) for h, w in zip(have, want))  # noqa: B905 - Python 3.9 has no strict
        )
    return bool(have == want)


def seek(parent: etree._Element, path: str) -> etree._Element | None:
    """The element at a path below the parent; the empty path is the parent itself."""
    return parent.find(path) if path else parent


def make(parent: etree._Element, path: str) -> etree._Element:
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
class ValueEncoding:
    """How a value stands in XML as text."""

    encode: t.Callable[[t.Any], str]
    decode: t.Callable[[str], t.Any]


def number_or_text(text: str) -> int | str:
    """A number in XML; what is none is shown as it is, because a machine that somebody else made may have it."""
    try:
        return int(text)
    except ValueError:
        return text.strip()


TEXT = ValueEncoding(str, str)
NUMBER = ValueEncoding(str, number_or_text)
YES_NO = ValueEncoding(lambda value: "yes" if value else "no", lambda text: text == "yes")
ON_OFF = ValueEncoding(lambda value: "on" if value else "off", lambda text: text == "on")


def encoding_of(rule: validators.Rule) -> ValueEncoding:
    """The usual kind for a rule: numbers as numbers, booleans as yes and no, anything else as text."""
    if rule is validators.yes_or_no:
        return YES_NO
    return NUMBER if isinstance(rule, validators.whole_number) else TEXT


@dataclass(frozen=True)
class AttributeField:
    """A value in an attribute: path ``topology@cores`` is the attribute ``cores`` of the child ``topology``."""

    key: str
    rule: validators.Rule
    path: str
    kind: ValueEncoding | None = None

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> t.Any:
        return self.rule(value, where)

    def write(self, parent: etree._Element, value: t.Any) -> None:
        element, _at, name = self.path.partition("@")
        make(parent, element).set(name, (self.kind or encoding_of(self.rule)).encode(value))

    def read(self, parent: etree._Element) -> t.Any:
        path, _at, name = self.path.partition("@")
        element = seek(parent, path)
        text = None if element is None else element.get(name)
        return None if text is None else (self.kind or encoding_of(self.rule)).decode(text)


@dataclass(frozen=True)
class TextField:
    """A value that is the text of an element."""

    key: str
    rule: validators.Rule
    path: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> t.Any:
        return self.rule(value, where)

    def write(self, parent: etree._Element, value: t.Any) -> None:
        make(parent, self.path).text = encoding_of(self.rule).encode(value)

    def read(self, parent: etree._Element) -> t.Any:
        element = seek(parent, self.path)
        # An element that is there without text, such as <model fallback='allow'/>, has no value.
        text = None if element is None else element.text
        return encoding_of(self.rule).decode(text) if text and text.strip() else None


@dataclass(frozen=True)
class SizeField:
    """A size in MiB: the text of an element, or with ``@name`` an attribute; the unit stands in the attribute ``unit``.

    libvirt gives back KiB whatever it was given. A size that is no whole number of MiB is rounded up, in a spec as in a
    machine that somebody else made. exact: it is kept instead, and read as a text such as ``64KiB``.
    capacity: of a memory, where a small plain number has lost its unit.
    """

    key: str
    path: str
    exact: bool = False
    capacity: bool = False

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> int | str:
        clean = (parse_capacity_mib if self.capacity else parse_size_mib)(value, where)
        kib = parse_size_kib(value) if self.exact else clean * KIB
        return clean if kib == clean * KIB else f"{kib}KiB"

    def write(self, parent: etree._Element, value: int | str) -> None:
        path, _at, name = self.path.partition("@")
        element = make(parent, path)
        number, unit = (value, "MiB") if isinstance(value, int) else (parse_size_kib(value), "KiB")
        if name:
            element.set(name, str(number))
        else:
            element.text = str(number)
        element.set("unit", unit)

    def read(self, parent: etree._Element) -> int | str | None:
        path, _at, name = self.path.partition("@")
        element = seek(parent, path)
        text = None if element is None else (element.get(name) if name else element.text)
        if element is None or not text or not text.strip():
            return None
        kib = size_kib_in_xml(text, element.get("unit"))
        if kib is None:
            return " ".join((text.strip(), element.get("unit", ""))).strip()
        return f"{kib}KiB" if self.exact and kib % KIB else -(-kib // KIB)


@dataclass(frozen=True)
class FlagField:
    """A yes that is an empty element, such as ``<readonly/>``; a no is its absence."""

    key: str
    path: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> bool:
        return validators.yes_or_no(value, where)

    def write(self, parent: etree._Element, value: bool) -> None:
        found = seek(parent, self.path)
        if value:
            make(parent, self.path)
        elif found is not None:
            drop(found)

    def read(self, parent: etree._Element) -> bool:
        return seek(parent, self.path) is not None
