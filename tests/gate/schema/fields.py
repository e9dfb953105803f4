# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fields of the tables accept, with the sentences of the documentation."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import shapes, table
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.cpu import COUNT
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.salt_words import _SWITCHES

from .. import options
from ..generated import TextError
from . import values
from .rules import HOST_DEVICES, of_rule
from .values import Schema, Values
from .wording import summary

Docs = Mapping[str, t.Any]
LINES = options.LINES

_BASE = (
    shapes.GroupField,
    shapes.DeviceField,
    shapes.ListField,
    shapes.NamedListField,
    table.AttributeField,
    table.TextField,
    table.SizeField,
    table.FlagField,
)
# What a field with a check of its own accepts beside what its class does.
BESIDE: dict[str, Values] = {
    "vcpus": of_rule(COUNT, "vcpus"),
    "memory": values.CAPACITY,
    "memory.hugepages": values.PLAIN_BOOLEAN,
    "cpu": Values(),
    "cpu.cache": Values(),
    "cpu.topology": Values(),
    "cpu.numa": Values(),
    "cpu.tuning.vcpusched": Values(),
    "numatune.memory": Values(),
    "boot": Values(),
    "clock": Values(),
    "graphics": Values(),
    "video": Values(),
    "graphics.port": values.numbers(1, 65535),
    "rng": Values(),
    "watchdog": Values(),
    "serials": Values(),
    "consoles": Values(),
    "tpm": Values(),
    "host_devices": HOST_DEVICES,
    "nics.vlan": Values(),
    "nics.virtualport": Values(),
    "nics.link": values.PLAIN_BOOLEAN,
    "nics.filter": Values(),
    "nics.bandwidth.inbound": Values(),
    "nics.bandwidth.outbound": Values(),
}
# The key that a plain text stands for, where the field does not say it.
SHORT = {"cpu": "mode", "clock": "offset"}
# Keys that stand in no table.
KEYS: dict[str, Values] = {
    "disks.name": values.NAME,
    "disks.overlay": values.BOOLEAN,
    "disks.backing_store_format": of_rule(options.RULES["disks.backing"]["format"], ""),
    "nics.name": values.NAME,
    "memory.boot": values.CAPACITY,
    "clock.utc": values.BOOLEAN,
}
# What is inside of these by RULES, and what is needed there; the rest of what they accept.
LISTS = ("nics.routes", "seed.users", "seed.files")
REST: dict[str, Values] = {"disks.backing": values.TEXT}


def of_item(item: t.Any, docs: Docs, place: str) -> Values:
    """Return what a field or a rule accepts, and inside of it. docs: its documentation, as `options` makes it.

    Raises TextError for a check of its own that nothing here knows.
    """
    own = type(item) not in _BASE and hasattr(item, "key") and all(type(item).check is not base.check for base in _BASE)
    if own and place not in BESIDE:
        raise TextError(f"{place} has a check of its own, and nothing in {__name__} says what it accepts")
    found = BESIDE.get(place, Values())
    if place in options.RULES and place not in ("disks", "nics"):
        inside = of_table(options.RULES[place], docs["suboptions"], place, _required(docs))
        return values.items(inside, alone=False) if place in LISTS else inside | REST.get(place, Values())
    if isinstance(item, shapes.NamedListField):
        return found | _named(item, docs, place)
    if isinstance(item, shapes.ListField):
        return found | _list(item, docs, place)
    if hasattr(item, "rows"):
        return found | _list(item.rows, docs, place)
    if isinstance(item, (shapes.GroupField, shapes.DeviceField)):
        return found | _group(item, docs, place)
    if isinstance(item, table.FlagField):
        return values.BOOLEAN
    if isinstance(item, table.SizeField):
        return values.CAPACITY if item.capacity else values.SIZE
    if own and not hasattr(item, "rule"):
        return found
    return found | of_rule(getattr(item, "rule", item), place)


def inside_of(item: t.Any, place: str) -> options.Inside:
    """Return the fields and rules of what is inside of a field or a rule; nothing for a plain value."""
    table_of = getattr(getattr(item, "rows", item), "table", ())
    return options.RULES.get(place) or {line.key: line for line in table_of}


def _required(docs: Docs) -> list[str]:
    return [key for key, entry in docs["suboptions"].items() if entry.get("required")]


def of_table(inside: options.Inside, docs: Docs, place: str, required: t.Iterable[str] = ()) -> Values:
    """Return the mapping with the keys of a table and those beside it. Raises TextError."""
    needed = list(required)
    properties: dict[str, Schema] = {}
    for key, entry in docs.items():
        at = f"{place}.{key}"
        found = of_item(inside[key], entry, at) if key in inside else KEYS[at]
        properties[key] = found.schema(
            summary(entry["description"]), null=key not in needed, default=entry.get("default")
        )
        for alias in entry.get("aliases", ()):
            properties[alias] = found.schema(f"Salt's name for {key}.")
    return values.mapping(properties, needed)


def _row(item: t.Any, docs: Docs, place: str) -> tuple[Values, bool]:
    """Return what a row of a list accepts, and whether it may be null."""
    lines = {line.key: line for line in item.table}
    # One key alone has its text at the list itself.
    inner = docs.get("suboptions") or dict.fromkeys(lines, docs)
    found = of_table(lines, inner, place, item.required)
    if item.short:
        found |= of_item(lines[item.short], inner[item.short], f"{place}.{item.short}").single()
    return found, bool(item.short) and not item.required


def _list(item: shapes.ListField, docs: Docs, place: str) -> Values:
    row, null = _row(item, docs, place)
    return values.items(row, alone=False, null=null) | row


def _named(item: shapes.NamedListField, docs: Docs, place: str) -> Values:
    ((word, entry),) = docs["suboptions"].items()
    row, null = _row(item, entry, f"{place}.{word}")
    names = of_rule(item.name_rule, f"{place}.{word}")
    found = values.by_names(row.schema(summary(entry["description"]), null=null), names)
    return found if item.default is None else found | values.items(names, alone=False)


def _group(item: shapes.GroupField | shapes.DeviceField, docs: Docs, place: str) -> Values:
    lines = {line.key: line for line in item.table}
    found = of_table(lines, docs["suboptions"], place, getattr(item, "required", ()))
    short = getattr(item, "short", "") or SHORT.get(place)
    if short:
        found |= of_item(lines[short], docs["suboptions"][short], f"{place}.{short}").single()
    if isinstance(item, shapes.DeviceField):
        found |= values.SWITCH if place in _SWITCHES else values.PLAIN_BOOLEAN
        found |= Values(words=(item.none,) if item.none else ())
    return found
