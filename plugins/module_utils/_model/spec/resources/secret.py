# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a secret of libvirt, and its XML. https://libvirt.org/formatsecret.html

No message, result or description has anything of its value.
"""

from __future__ import annotations

import base64
import binascii
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...._base.errors import InputError, Mistakes, shown
from ...._base.xml import etree
from ..fields import validators
from ..fields.given import GivenOptions
from ..fields.table import AttributeField, Field, TextField, covers, read_table, write_table
from .pool_fields import absolute_path, is_ceph_key, is_uuid

PRESENT, ABSENT = "present", "absent"
ALWAYS, ON_CREATE = "always", "on_create"
# The element in <usage> that has the name, for each of libvirt's types.
USAGES = {"ceph": "name", "iscsi": "target", "tls": "name", "volume": "volume", "vtpm": "name"}
# Their value opens data that was written with it: with another one, that is lost.
OPENING_USAGES = ("volume", "vtpm")
VALUE_OPTIONS = ("value", "value_base64")


def _description(value: t.Any, where: str) -> str:
    return validators.filled_line(value, where).strip()


_TABLE: tuple[Field, ...] = (
    AttributeField("ephemeral", validators.yes_or_no, "@ephemeral"),
    AttributeField("private", validators.yes_or_no, "@private"),
    TextField("description", _description, "description"),
)


def _uuid(value: t.Any, where: str) -> str:
    text = str(value)
    if not is_uuid(text):
        raise InputError(f"{shown(value)} is not a UUID", where=where, hint="uuidgen makes one")
    return text.lower()


def _value(value: t.Any, where: str) -> bytes:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError("it is not a text, or it is empty", where=where)
    return str(value).encode(errors="surrogateescape")


def _value_base64(value: t.Any, where: str) -> bytes:
    try:
        clean = base64.b64decode("".join(str(value).split()), validate=True)
    except (binascii.Error, ValueError):
        # The error before this one could have a part of it.
        clean = b""
    if not clean:
        raise InputError("it is not base64, or it is empty", where=where)
    return clean


_RULES: dict[str, validators.Rule] = {
    "name": validators.line,
    "usage": validators.choice(*USAGES),
    "state": validators.choice(PRESENT, ABSENT),
    "uuid": _uuid,
    "value": _value,
    "value_base64": _value_base64,
    "update_value": validators.choice(ALWAYS, ON_CREATE),
    **{field.key: field.check for field in _TABLE},
}


@dataclass(frozen=True)
class SecretSpec:
    """A secret as it is requested.

    name: of its use, which with the type of the use (usage) names it. value: None where it is not named. options: of
    description, ephemeral and private those that are named. given: where all this comes from.
    """

    name: str
    usage: str
    state: str = PRESENT
    uuid: str | None = None
    value: bytes | None = field(default=None, repr=False)
    update_value: str = ALWAYS
    options: Mapping[str, t.Any] = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)

    def at(self, key: str) -> str:
        """The place of an option in the input."""
        return self.given.at(key)

    @property
    def words(self) -> str:
        """It, in words."""
        return f"secret {self.name} for {self.usage}"


def read_secret(given: GivenOptions) -> SecretSpec:
    """A secret out of the options of a task. Raises InputError, which says nothing of a value."""
    values = given.read(_RULES)
    mistakes = Mistakes()
    for key, hint in (("name", "Give the name of its use"), ("usage", f"Choose one of {', '.join(USAGES)}")):
        if not values.get(key):
            with mistakes.noted():
                raise InputError("is missing", where=given.at(key), hint=hint)
    if values.get("usage") == "volume" and values.get("name"):
        with mistakes.noted():
            absolute_path(values["name"], given.at("name"))
    if all(key in values for key in VALUE_OPTIONS):
        with mistakes.noted():
            raise InputError(f"{' and '.join(VALUE_OPTIONS)} are given together", where=given.place or None)
    if values.get("usage") == "ceph" and is_ceph_key(values.get("value", b"").decode(errors="replace")):
        with mistakes.noted():
            raise InputError(
                "this is a key as Ceph writes it, which is base64",
                where=given.at("value"),
                hint="Give it as value_base64",
            )
    mistakes.conclude()
    return SecretSpec(
        name=values["name"],
        usage=values["usage"],
        state=values.get("state", PRESENT),
        uuid=values.get("uuid"),
        value=values.get("value", values.get("value_base64")),
        update_value=values.get("update_value", ON_CREATE if values["usage"] in OPENING_USAGES else ALWAYS),
        options={field.key: values[field.key] for field in _TABLE if field.key in values},
        given=given,
    )


def options_of(root: etree._Element) -> dict[str, t.Any]:
    """Description, ephemeral and private of a ``<secret>``."""
    return {"ephemeral": False, "private": False, **read_table(root, _TABLE)}


def changes(spec: SecretSpec, have: Mapping[str, t.Any]) -> list[str]:
    """The options that are to have another value than the secret has."""
    return [key for key, want in spec.options.items() if not covers(have.get(key), want)]


def new_definition(spec: SecretSpec) -> etree._Element:
    """The ``<secret>`` of a spec."""
    root = etree.Element("secret", ephemeral="no", private="no")
    if spec.uuid is not None:
        etree.SubElement(root, "uuid").text = spec.uuid
    usage = etree.SubElement(root, "usage", type=spec.usage)
    etree.SubElement(usage, USAGES[spec.usage]).text = spec.name
    return root


def write_options(root: etree._Element, options: Mapping[str, t.Any]) -> None:
    """Put description, ephemeral and private into a ``<secret>``."""
    write_table(root, _TABLE, options)
