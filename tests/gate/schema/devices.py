# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of disks and nics in all their shapes, and profiles, also those in a configuration of Salt's.

The shapes are those of `_model/spec/profiles`: devices.py and salt_config.py say which there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.devices import DEVICE_WORDS

from .. import options
from ..generated import TextError
from . import values
from .fields import Docs, of_table
from .values import Schema, Values

KINDS = ("disk", "nic")
_NAME: Schema = {"pattern": "|".join(values.NAME.patterns)}
_A_NULL: Schema = {"type": "null"}


def ref(name: str) -> Schema:
    """Return the reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def device_definitions(kind: str, docs: Docs) -> dict[str, Schema]:
    """Return what a device, a list of devices and profiles of a kind are. docs: of `disks` or `nics`."""
    plural = f"{kind}s"
    of_device = of_table(options.RULES[plural], docs["suboptions"], plural)
    missing = set(DEVICE_WORDS[kind]) - set(of_device.types["object"]["properties"])
    if missing:
        raise TextError(f"{plural}: {', '.join(sorted(missing))} has no text in {options.TEXTS}")
    listed = Values({"array": {"items": ref(f"{kind}_item")}})
    by_name = Values({"object": {"additionalProperties": ref(kind), "propertyNames": _NAME}})
    return {
        kind: of_device.schema(f"A {kind}. One that is in the profile too changes only what it names."),
        f"{kind}_item": _item(kind),
        plural: (listed | by_name).schema(),
        f"{kind}_profiles": _profiles(kind),
        f"plain_{kind}_profiles": _plain_profiles(kind),
    }


def _item(kind: str) -> Schema:
    """An item of a list: `{name: NAME, ...}`, `{NAME: {...}}`, several such, or `{NAME: null, ...}`."""
    words = list(DEVICE_WORDS[kind])
    properties = {word: ref(f"{kind}/properties/{word}") for word in words}
    named = {"additionalProperties": ref(kind), "propertyNames": _NAME}
    return {
        "type": ["object", "string"],
        "pattern": values.TEMPLATE,
        "minProperties": 1,
        # What an editor offers first.
        "properties": {"name": {"description": f"Name of the {kind}."}},
        "if": {"type": "object", "required": ["name"], "properties": {"name": {"not": _A_NULL}}},
        "then": ref(kind),
        "else": {
            "if": {"anyOf": [{"maxProperties": 1}, {"propertyNames": {"not": {"enum": words}}}]},
            "then": named,
            "else": {
                "properties": properties,
                "additionalProperties": _A_NULL,
                "not": {"propertyNames": {"enum": words}},
            },
        },
    }


def _group(kind: str) -> Schema:
    """Whether this is a group of profiles below Salt's `virt`, and no device called disk or nic."""
    group = {
        "type": ["object", "string", "null"],
        "pattern": values.TEMPLATE,
        "additionalProperties": {"type": ["object", "array", "string", "null"], "pattern": values.TEMPLATE},
    }
    return {"required": [kind], "properties": {kind: group}}


IN_SALT: Schema = {
    "type": "object",
    "anyOf": [
        {"required": ["virt.disk"]},
        {"required": ["virt.nic"]},
        {"required": ["virt"], "properties": {"virt": {"type": "object", "anyOf": [_group(kind) for kind in KINDS]}}},
    ],
}


def salt_properties(kinds: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the keys under which Salt's configuration has profiles of these kinds."""
    dotted = {f"virt.{kind}": profiles for kind, profiles in kinds.items()}
    return {**dotted, "virt": {"type": ["object", "string", "null"], "properties": dict(kinds)}}


def _profiles(kind: str) -> Schema:
    there: Schema = {
        "anyOf": [{"required": [f"virt.{kind}"]}, {"required": ["virt"], "properties": {"virt": {"required": [kind]}}}]
    }
    return {
        "type": ["object", "string", "null"],
        "pattern": values.TEMPLATE,
        "if": IN_SALT,
        "then": {**there, "properties": salt_properties({kind: ref(f"plain_{kind}_profiles")})},
        "else": {"additionalProperties": ref(f"{kind}s")},
    }


def _plain_profiles(kind: str) -> Schema:
    """Return profiles by name alone."""
    return Values({"object": {"additionalProperties": ref(f"{kind}s")}}).schema(
        f"{kind.capitalize()} profiles by name."
    )
