# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options that hold structures: each key with its type, default and choices, from the field tables.

Run as `python -m tests.gate.options` from the top of the collection: says which file of `plugins/doc_fragments` is not
what the tables and the texts in `docs/options` make of it, which key has no text, and which text has no key. With
`--write` it writes the files.

A text is a paragraph, a list of paragraphs, or a mapping with `description` and whatever the tables do not have: `type`
and `elements` where a rule is a function of its own, `default`, `required`, `aliases`. `keys` are the texts of what is
inside. A key with `beside: true` is in no table, such as the name of a disk. In a mapping by names, the one key in
capitals stands for the name.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import textwrap
import typing as t
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import yaml

# The collection as Ansible names it, from wherever its top stands.
sys.path.insert(0, os.path.abspath("../../.."))

from ansible_collections.brine.virt.plugins.module_utils._model.spec import disk, network, nic, seed, seed_parts
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import shapes, table, validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import parse_capacity_mib
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import pool_name
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.devices import SALT_DISK_WORDS
from ansible_collections.brine.virt.plugins.modules.virt_init import ARGUMENTS

from .generated import TextError, check_or_write

TEXTS = Path("docs/options")
FRAGMENTS = Path("plugins/doc_fragments")
HEAD = '''# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options of a machine, written by tests/gate/options.py from the field tables and docs/options."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
'''
WIDTH = 120
# What a text may have in its long form. Anything else is misspelled, or a piece of a description behind a comma.
TEXT_KEYS = ("description", "type", "elements", "choices", "default", "required", "aliases", "keys", "beside")
# A limit beyond this is none that a user would meet.
MOST_SAID = 2_000_000

Node = dict[str, t.Any]
Inside = Mapping[str, "validators.Rule | table.Field"]

# The rules of keys that stand in no line of a table, by their places, and what new ones have by default.
RULES: dict[str, Inside] = {
    "disks": {**disk.DISK_RULES, **{line.key: line for line in disk.DISK_OPTIONS}},
    "disks.backing": disk.BACKING_RULES,
    "nics": {**nic.NIC_RULES, **{line.key: line for line in nic.NIC_OPTIONS}},
    "nics.routes": network.ROUTE_RULES,
    "seed": seed.SEED_RULES,
    "seed.users": seed_parts.USER_RULES,
    "seed.files": seed_parts.FILE_RULES,
}
DEFAULTS: dict[str, t.Any] = {
    "disks": disk.Disk,
    "nics": nic.Nic,
    "seed": seed.Seed,
    "seed.users": seed.User,
    "seed.files": seed.SeedFile,
}
ALIASES = {f"disks.{ours}": [salt] for salt, ours in SALT_DISK_WORDS.items()}
LINES = {line.key: line for line in HARDWARE}
PLAIN = {validators.yes_or_no: "bool", parse_capacity_mib: "str"}
AS_TEXT = (
    validators.text,
    validators.line,
    validators.lines,
    validators.filled_line,
    validators.name,
    validators.cpu_set,
    validators.mac,
    validators.address,
    pool_name,
)


def shape_of_rule(rule: t.Any) -> Node:
    """Return what a rule says of the values: `type`, `choices`, `elements`, `range`; nothing for a rule not known."""
    if isinstance(rule, validators.choice):
        return {"type": "str", "choices": list(rule.words)}
    if isinstance(rule, validators.whole_number):
        return {"type": "int", "range": (rule.minimum, rule.maximum)}
    if isinstance(rule, validators.list_of):
        return {"type": "list", "elements": shape_of_rule(rule.item_rule).get("type")}
    if rule in PLAIN:
        return {"type": PLAIN[rule]}
    return {"type": "str"} if isinstance(rule, validators.pattern) or rule in AS_TEXT else {}


def shape(item: t.Any) -> tuple[Node, Inside]:
    """Return what a rule or a field of a table says of the values, and what is inside of them."""
    if isinstance(item, shapes.NamedListField):
        return {"type": "raw" if item.default is not None else "dict", "by_name": item}, {}
    if isinstance(item, shapes.ListField):
        inside = {line.key: line for line in item.table}
        if item.short and len(inside) == 1:
            only, _nothing = shape(inside[item.short])
            return {**only, "type": "list", "elements": only["type"]}, {}
        return {"type": "list", "elements": "raw" if item.short else "dict", "required": item.required}, inside
    if hasattr(item, "rows"):
        return {"type": "raw", "required": item.rows.required}, {line.key: line for line in item.rows.table}
    if isinstance(item, (shapes.GroupField, shapes.DeviceField)):
        facts = {"type": "raw" if getattr(item, "short", None) else "dict", "required": getattr(item, "required", ())}
        fixed = dict(getattr(item, "fixed", ()))
        return {**facts, "fixed": fixed}, {line.key: line for line in item.table}
    if isinstance(item, table.FlagField):
        return {"type": "bool"}, {}
    if isinstance(item, table.SizeField):
        return {"type": "str"}, {}
    return shape_of_rule(getattr(item, "rule", item)), {}


def read_text(text: t.Any, place: str) -> Node:
    """Return a text in its long form. Raises TextError."""
    if isinstance(text, (str, list)):
        text = {"description": text}
    if not isinstance(text, dict) or "description" not in text:
        raise TextError(f"{place} has no description")
    unknown = [key for key in text if key not in TEXT_KEYS]
    if unknown:
        raise TextError(
            f"{place}: unknown key {unknown[0]!r} beside the description. If it is a part of it, quote the description"
        )
    given = text["description"]
    return {**text, "description": [given] if isinstance(given, str) else list(given)}


def with_range(paragraphs: list[str], limits: tuple[int, int] | None) -> list[str]:
    """Return a description with the range of a number at its end, as far as it says anything."""
    if limits is None or limits[1] > MOST_SAID:
        return paragraphs
    return [*paragraphs[:-1], f"{paragraphs[-1]} From {limits[0]} to {limits[1]}."]


def default_at(place: str, key: str, item: t.Any, fixed: Mapping[str, str]) -> t.Any:
    """Return what a new one has by the tables, None for nothing."""
    for field in dataclasses.fields(DEFAULTS[place]) if place in DEFAULTS else ():
        if field.name == key and isinstance(field.default, (str, int)) and field.default != "":
            return field.default
    return fixed.get(getattr(item, "path", ""))


def node(text: t.Any, item: t.Any, place: str) -> Node:
    """Return the documentation of one key. item: its rule or line, None for one in no table. Raises TextError."""
    said = read_text(text, place)
    facts, inside = ({}, {}) if item is None else shape(item)
    inside = RULES.get(place, inside)
    result: Node = {"description": with_range(said["description"], facts.get("range"))}
    for key in ("type", "elements", "choices", "default", "required", "aliases"):
        value = said.get(key, facts.get(key) if key not in ("default", "required") else None)
        if value is not None:
            result[key] = value
    if "type" not in result or (result["type"] == "list" and not result.get("elements")):
        raise TextError(f"{place} needs a type, and a list its elements: its rule is a function of its own")
    if place in ALIASES:
        result["aliases"] = ALIASES[place]
    if "by_name" in facts:
        result["suboptions"] = named(said.get("keys", {}), facts["by_name"], place)
    elif inside or said.get("keys"):
        result["suboptions"] = children(said.get("keys", {}), inside, place, facts)
    return result


def named(texts: Mapping[str, t.Any], item: shapes.NamedListField, place: str) -> Node:
    """Return the one key that stands for the names of a mapping by names. Raises TextError."""
    if len(texts) != 1 or not next(iter(texts)).isupper():
        raise TextError(f"{place} needs one key in capitals, for the names")
    ((word, text),) = texts.items()
    lines = {line.key: line for line in item.table}
    if item.short and len(lines) == 1:
        entry = node(text, lines[item.short], f"{place}.{word}")
    else:
        said = read_text(text, f"{place}.{word}")
        entry = {
            "description": said["description"],
            "type": "raw" if item.short else "dict",
            "suboptions": children(said.get("keys", {}), lines, f"{place}.{word}", {"required": item.required}),
        }
    choices = shape_of_rule(item.name_rule).get("choices")
    if choices:
        names = ", ".join(f"V({name})" for name in choices)
        entry["description"] = [*entry["description"], f"C({word}) is one of {names}."]
    return {word: entry}


def children(texts: Mapping[str, t.Any], inside: Inside, place: str, facts: Node) -> Node:
    """Return the documentation of what is inside of a mapping. Raises TextError."""
    beside = {key for key, text in texts.items() if isinstance(text, dict) and text.get("beside")}
    for key in inside:
        if key not in texts:
            raise TextError(f"{place}.{key} has no text in {TEXTS}")
    for key in texts:
        if key not in inside and key not in beside:
            raise TextError(f"{place}.{key} is in {TEXTS}, and in no table")
    result = {}
    for key in [*inside, *sorted(beside)]:
        item = inside.get(key)
        entry = node(texts[key], item, f"{place}.{key}")
        if key in facts.get("required", ()):
            entry["required"] = True
        default = default_at(place, key, item, facts.get("fixed", {}))
        if "default" not in (texts[key] if isinstance(texts[key], dict) else {}) and default is not None:
            entry["default"] = default
        result[key] = entry
    return result


def option(name: str, text: t.Any) -> Node:
    """Return the documentation of an option of virt_init. Raises TextError."""
    said = read_text(text, name)
    result: Node = {"description": said["description"]}
    spec = ARGUMENTS[name]
    result.update({key: spec[key] for key in ("type", "elements", "choices", "default", "aliases") if key in spec})
    facts, inside = shape(LINES[name]) if name in LINES else ({}, {})
    inside = RULES.get(name, inside)
    if inside or said.get("keys"):
        result["suboptions"] = children(said.get("keys", {}), inside, name, facts)
    return result


def scalar(value: t.Any) -> str:
    """Return a word of YAML that is read as this very value."""
    if isinstance(value, str) and yaml.safe_load(value) == value and yaml.safe_load(f"[{value}]") == [value]:
        return value
    return json.dumps(value)


def paragraph(text: str, indent: str) -> str:
    """Return an item of a list of paragraphs, broken into lines."""
    for words in (text, json.dumps(text, ensure_ascii=False)):
        lines = textwrap.wrap(
            words,
            WIDTH,
            initial_indent=f"{indent}- ",
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        written = "\n".join(lines)
        try:
            if yaml.safe_load(textwrap.dedent(written)) == [text]:
                return written
        except yaml.YAMLError:
            continue
    raise TextError(f"{text!r} cannot be written")


def as_yaml(options: Node, indent: str) -> Iterator[str]:
    """Yield the lines of options and their suboptions."""
    for name, entry in options.items():
        yield f"{indent}{name}:"
        yield f"{indent}  description:"
        yield from (paragraph(text, f"{indent}    ") for text in entry["description"])
        for key in ("type", "elements", "required", "default"):
            if key in entry:
                yield f"{indent}  {key}: {scalar(entry[key])}"
        for key in ("choices", "aliases"):
            if key in entry:
                words = f"{key}: [{', '.join(map(scalar, entry[key]))}]"
                yield textwrap.fill(
                    words,
                    WIDTH,
                    initial_indent=f"{indent}  ",
                    subsequent_indent=f"{indent}    ",
                    break_on_hyphens=False,
                )
        if "suboptions" in entry:
            yield f"{indent}  suboptions:"
            yield from as_yaml(entry["suboptions"], f"{indent}    ")


def fragment(texts: Path) -> str:
    """Return the doc fragment that a file of texts makes. Raises TextError."""
    options = {name: option(name, text) for name, text in yaml.safe_load(texts.read_text(encoding="utf-8")).items()}
    return HEAD + "".join(f"{line}\n" for line in as_yaml(options, "  ")) + '"""\n'


def main() -> int:
    """Say what is wrong, or write; return 1 when something is."""
    makers = {FRAGMENTS / f"_{texts.stem}.py": partial(fragment, texts) for texts in sorted(TEXTS.glob("*.yml"))}
    return check_or_write("the documentation of structures", "tests.gate.options", makers)


if __name__ == "__main__":
    sys.exit(main())
