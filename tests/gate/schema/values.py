# SPDX-License-Identifier: GPL-3.0-or-later
"""What a value may be, type by type of JSON, and the schema that says so.

A value is described by its types with the keywords of each, and not by `anyOf`: in an editor the types complete each
other, and a mistake gets one message. Only words to choose from stand beside the rest, so that an editor offers them.

Patterns are read by Python here and by JavaScript (with the flag `u`) in editors, so they are what both understand.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import LEAST_PLAIN_MIB

Schema = dict[str, t.Any]

# What Ansible makes another text of: expressions, and what `ansible-vault encrypt_string` writes.
TEMPLATE = r"\{[{%#]|^\$ANSIBLE_VAULT;"
_ORDER = ("object", "array", "integer", "number", "boolean", "string", "null")


@dataclass(frozen=True)
class Values:
    """What is accepted. types: keywords by type, without texts; words: the texts and numbers to choose from; patterns:
    of other texts, the empty one for any text. hint: what an editor says of a text that is none of them."""

    types: Mapping[str, Mapping[str, t.Any]] = field(default_factory=dict)
    words: tuple[t.Any, ...] = ()
    patterns: tuple[str, ...] = ()
    hint: str = ""

    def __or__(self, other: Values) -> Values:
        """Either of the two; where both take one type, the keywords of one of them."""
        words = (*self.words, *(word for word in other.words if word not in self.words))
        patterns = (*self.patterns, *(text for text in other.patterns if text not in self.patterns))
        return Values({**other.types, **self.types}, words, patterns, self.hint or other.hint)

    def single(self) -> Values:
        """The same without lists and mappings."""
        return replace(self, types={name: keys for name, keys in self.types.items() if name not in ("array", "object")})

    def schema(self, description: str = "", *, null: bool = True, default: t.Any = None) -> Schema:
        """Return the schema. null: whether the value may be null, which in most places means that it is not given."""
        types = {**self.types, "string": {}, **({"null": {}} if null else {})}
        body: Schema = {"type": [name for name in _ORDER if name in types]}
        for keywords in types.values():
            body.update(keywords)
        if "" not in self.patterns:
            body["pattern"] = "|".join((*self.patterns, TEMPLATE))
            if self.hint and not self.words:
                body["patternErrorMessage"] = self.hint
        if self.words:
            body = {"anyOf": [{"enum": list(self.words)}, body]}
        head: Schema = {"description": description} if description else {}
        return {**head, **body, **({} if default is None else {"default": default})}


def texts(*patterns: str, hint: str = "") -> Values:
    """Texts that one of these patterns matches."""
    return Values(patterns=patterns, hint=hint)


def whole_texts(*expressions: str, hint: str = "") -> Values:
    """Texts that one of these expressions matches from end to end."""
    return texts(*(f"^(?:{text})$" for text in expressions), hint=hint)


def expression_text(expression: re.Pattern[str]) -> str:
    """Return an expression of the collection as JavaScript knows it."""
    return expression.pattern.replace(r"\Z", "$")


def any_case(word: str) -> str:
    """Return the expression for a word in upper or lower case: JavaScript has no `(?i)`."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


def integers(minimum: int, maximum: int | None = None) -> Values:
    """Whole numbers as numbers."""
    return Values({"integer": {"minimum": minimum, **({} if maximum is None else {"maximum": maximum})}})


def numbers(minimum: int, maximum: int) -> Values:
    """Whole numbers, also as texts of digits."""
    digits = "0*[1-9][0-9]*" if minimum > 0 else "[0-9]+"
    hint = f"Give a whole number from {minimum} to {maximum}"
    return integers(minimum, maximum) | texts(rf"^\s*{digits}\s*$", hint=hint)


def items(value: Values, *, alone: bool = True, null: bool = False) -> Values:
    """Lists of such values. alone: one that is no list or mapping counts as a list of one."""
    found = Values({"array": {"items": value.schema(null=null)}})
    return found | value.single() if alone else found


def mapping(properties: Mapping[str, Schema], required: t.Iterable[str] = ()) -> Values:
    """Mappings with these keys and no others."""
    needed = list(required)
    keywords: Schema = {"properties": dict(properties), "additionalProperties": False}
    return Values({"object": {**keywords, **({"required": needed} if needed else {})}})


def by_names(entry: Schema, names: Values) -> Values:
    """Mappings from names to such entries."""
    rule: Schema = {"enum": list(names.words)} if names.words else {"pattern": "|".join(names.patterns)}
    return Values({"object": {"additionalProperties": entry, "propertyNames": rule}})


_NO_MIB = 2**44
_UNITS = r"(?:[Bb](?:[Yy][Tt][Ee][Ss]?)?|[KkMmGgTtPpEe](?:[Ii]?[Bb])?)?"
_WORDS_FOR_BOOLEANS = ("true", "yes", "on", "1", "false", "no", "off", "0")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
# Which of these are addresses, only a program can tell.
IPV6 = r"(?:[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*|(?:[0-9A-Fa-f]{1,4}:){6,7}[0-9A-Fa-f.]+)"

TEXT = Values({"number": {}, "boolean": {}}, patterns=("",))
# What XML cannot carry is not in it either.
LINE = Values({"number": {}, "boolean": {}}, patterns=(r"^[^\x00-\x08\x0a-\x1f]*$",))
NAME = integers(0) | texts(
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
    hint="Use up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit",
)
SIZE = Values({"number": {"exclusiveMinimum": 0, "exclusiveMaximum": _NO_MIB}}) | whole_texts(
    rf"\s*[0-9]+(?:\.[0-9]+)?\s*{_UNITS}\s*",
    hint="Give a whole number of MiB, or a number with a unit such as 512MiB, 8GiB or 8G",
)
# A small plain number has lost its unit; as a text, which is how the command line gives it, only a program tells.
CAPACITY = Values({"number": {"minimum": LEAST_PLAIN_MIB, "exclusiveMaximum": _NO_MIB}}) | whole_texts(
    rf"\s*[0-9]+(?:\.[0-9]+)?\s*{_UNITS}\s*",
    hint=f"Give at least {LEAST_PLAIN_MIB} MiB as a whole number, or a number with a unit such as 512MiB, 8GiB or 8G",
)
# An editor reads YAML 1.2, in which yes, no, on and off are texts; to Ansible, which reads YAML 1.1, they are booleans.
PLAIN_BOOLEAN = Values({"boolean": {}}) | whole_texts("[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF")
SWITCH = Values({"boolean": {}}) | whole_texts(rf"\s*(?:{'|'.join(map(any_case, _WORDS_FOR_BOOLEANS))})\s*")
BOOLEAN = SWITCH | integers(0, 1)
ADDRESS = whole_texts(IPV4, rf"{IPV6}(?:%.+)?", hint="Write it like 192.0.2.1")
PLAIN_ADDRESS = whole_texts(IPV4, IPV6, hint="Write it like 192.0.2.1")
MAC = whole_texts(r"\s*[0-9A-Fa-f][02468ACEace](?:[:-][0-9A-Fa-f]{2}){5}\s*", hint="Write it like 52:54:00:12:34:56")
ANY_MAPPING = Values({"object": {}})
