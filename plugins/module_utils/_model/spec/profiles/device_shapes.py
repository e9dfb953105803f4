# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of devices in the shapes that Salt Virt knew and in Ansible's, as one plain shape.

A list of devices is, in the user's order, any of:

- ``[{system: {size: 8192}}, {data: {size: 30720}}]``, Salt's list of one-key mappings;
- ``[{system: {size: 8192}, data: {size: 30720}}]``, the same with one dash for several, as Salt accepts it for disks
  (``_disk_profile`` of its modules/virt.py goes through all keys of each item);
- ``{eth0: {bridge: br0}, eth1: {bridge: br1}}``, Salt's mapping;
- ``[{name: eth0, bridge: br0}]``, the flat list;
- ``[{system: null, size: 8192}]``, what Salt's documentation printed with one indentation too few.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import name as read_name
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.device_words import (
    DEVICE_WORDS,
    translate_device,
)

_SHAPES = "Write {name: NAME, ...} or {NAME: {...}}"


def read_devices(kind: str, devices: t.Any, where: str) -> list[GivenOptions]:
    """The devices of a kind (``disk`` or ``nic``) out of any accepted shape, in the words of this collection.

    Each has its name and its place. Raises InputError for what is no list of devices, for an unknown word and for a
    name that is given twice.
    """
    if devices is None:
        return []
    if isinstance(devices, Mapping):
        found = [_named(kind, key, value, f"{where}.{key}") for key, value in devices.items()]
    elif isinstance(devices, (list, tuple)):
        found = [
            device for index, item in enumerate(devices) for device in _item_of_list(kind, item, f"{where}[{index}]")
        ]
    else:
        raise InputError(f"{devices!r} is not a list of devices", where=where, hint="Write [{name: NAME, ...}, ...]")
    seen = set()
    for device in found:
        if device.name in seen:
            raise InputError(f"the name {device.name!r} is given twice", where=device.place)
        seen.add(device.name)
    return found


def _item_of_list(kind: str, item: t.Any, where: str) -> list[GivenOptions]:
    if not isinstance(item, Mapping) or not item:
        raise InputError(f"{item!r} is not a device", where=where, hint=_SHAPES)
    if item.get("name") is not None:
        return [_flat(kind, "name", item, where)]
    if len(item) == 1:
        return [_named(kind, key, value, f"{where}.{key}") for key, value in item.items()]
    # What cannot be an option is the name of a device.
    names = [
        key
        for key, value in item.items()
        if key not in DEVICE_WORDS[kind] and (value is None or isinstance(value, Mapping))
    ]
    if len(names) == len(item):
        return [_named(kind, key, value, f"{where}.{key}") for key, value in item.items()]
    if len(names) == 1 and next(iter(item)) == names[0] and item[names[0]] is None:
        return [_flat(kind, names[0], item, where)]
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(map(repr, names))} are devices under one dash, with options that could belong to either",
            where=where,
            hint=f"Put a dash before {names[1]!r}, and indent the options of each below its name",
        )
    raise InputError("the device has no name", where=where, hint=_SHAPES)


def _flat(kind: str, key: t.Any, item: Mapping[t.Any, t.Any], where: str) -> GivenOptions:
    """A device whose name is the value of ``name``, or a key without a value, beside its options."""
    name = item["name"] if key == "name" else key
    given = GivenOptions.of({word: value for word, value in item.items() if word != key}, where, read_name(name, where))
    return translate_device(kind, given)


def _named(kind: str, key: t.Any, options: t.Any, where: str) -> GivenOptions:
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"{options!r} is not a mapping of options", where=where)
    if options and options.get("name") not in (None, key):
        raise InputError(f"the device is called {key!r} and {options['name']!r}", where=where)
    rest = {word: value for word, value in (options or {}).items() if word != "name"}
    return translate_device(kind, GivenOptions.of(rest, where, read_name(key, where)))
