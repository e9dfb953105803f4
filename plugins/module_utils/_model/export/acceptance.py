# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of an entry that can be one: what a new machine could have, and what changes nothing of this machine."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Sequence

from ..._base.errors import InputError
from ..spec.existing import Existing
from ..spec.fields.table import Values, covers
from ..spec.reading.machines import read_machine


def accepted_part(wanted: Values, core: Values, have: Values) -> tuple[Values, list[str]]:
    """The part of an entry that is accepted of a new machine and changes nothing of this one, and the rest in words.

    core: what every entry of this machine has, whatever else is in it. have: what the machine has, as read_values gives
    it. Raises InputError where not even the core leaves the machine as it is.
    """
    if _is_accepted(wanted, have):
        return wanted, []
    entry: Values = copy.deepcopy(core)
    if not _is_accepted(entry, have):
        raise InputError(f"no entry would leave it as it is, not even {entry}")
    refused: list[str] = []
    for path, value in _parts(_without(wanted, core)):
        trial = copy.deepcopy(entry)
        _put(trial, path, value)
        if _is_accepted(trial, have):
            entry = trial
        elif path[0] in _LISTS:
            continue
        elif len(path) == 1 and isinstance(value, dict) and path[0] in ("disks", "nics"):
            refused.append(f"{path[0]}.{value['name']}")
        else:
            refused.append(f"{'.'.join(path)}: {value!r}")
    refused += _lost_items(wanted, entry)
    gone = tuple(f"{word}." for word in refused if ": " not in word)
    return entry, [word for word in refused if not (gone and word.startswith(gone))]


def _lost_items(wanted: Values, entry: Values) -> list[str]:
    """In words, the items of lists that are not in an entry. Where others are, the machine would lose them."""
    return [
        f"{key}: {item!r}"
        + (", which the machine loses when it is provisioned from this entry" if key in entry else "")
        for key in _LISTS
        for item in wanted.get(key, ())
        if item not in entry.get(key, ())
    ]


def _without(wanted: Values, core: Values) -> Values:
    """What of an entry is not in the core yet."""
    found: Values = {}
    for key, value in wanted.items():
        have = core.get(key)
        if key == "memory" and isinstance(value, dict) and isinstance(have, dict):
            found[key] = {word: item for word, item in value.items() if word not in have}
        elif key not in core or value != have:
            found[key] = value
    return found


def _is_accepted(entry: Values, have: Values) -> bool:
    try:
        read_machine(entry)
        machine = read_machine(entry, existing=lambda _name: Existing(have))
    except InputError:
        return False
    # An option may bring another one with it that the machine does not have.
    return covers(have, machine.hardware)


# Lists of words, each of which is accepted or not by itself.
_LISTS = ("tags", "labels", "anti_affinity")
# What a device needs to be one, so that the rest of it can be tried one by one.
_ORIGIN = ("device", "source", "size", "image", "backing", "pool", "bridge", "network", "direct", "mac")


def _parts(wanted: Values) -> t.Iterator[tuple[tuple[str, ...], t.Any]]:
    """The options of an entry, one by one, each with its path: those of groups and of devices by themselves."""
    for key, value in wanted.items():
        if key in ("disks", "nics"):
            for device in value:
                first = {word: device[word] for word in ("name", *_ORIGIN) if word in device}
                yield (key,), first
                yield from (((key, device["name"], word), device[word]) for word in device if word not in first)
        elif key in _LISTS:
            yield from (((key,), [item]) for item in value)
        elif isinstance(value, dict) and key not in ("variables", "seed", "vcpus"):
            whole = {word: value[word] for word in ("maximum", "type", "mode", "model") if word in value}
            if whole:
                yield (key,), whole
            yield from (((key, word), item) for word, item in value.items() if word not in whole)
        else:
            yield (key,), value


def _put(entry: Values, path: Sequence[str], value: t.Any) -> None:
    kind = path[0]
    if kind in ("disks", "nics"):
        devices = entry.setdefault(kind, [])
        if len(path) == 1:
            devices.append(value)
            return
        for device in devices:
            if device["name"] == path[1]:
                device[path[2]] = value
        return
    if kind in _LISTS:
        entry[kind] = [*entry.get(kind, ()), *value]
        return
    if len(path) == 1:
        entry[kind] = value
        return
    have = entry.get(kind)
    entry[kind] = {
        **(have if isinstance(have, dict) else {"maximum": have} if have is not None else {}),
        path[1]: value,
    }
