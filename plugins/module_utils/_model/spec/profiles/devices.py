# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of devices in the shapes and the words of Salt Virt and in Ansible's, as one plain shape in our words.

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

from ...._base.errors import InputError, shown
from ..disk import DISK_RULES
from ..fields import validators
from ..fields.given import GivenOptions
from ..nic import NIC_RULES, SOURCE_ATTRIBUTES

# Words of Salt Virt for the same things.
SALT_DISK_WORDS = {"source_file": "source", "backing_store_path": "backing", "iothread_id": "iothread"}
# True for an overlay, false for a copy; the second is Salt's.
_OVERLAY_WORDS = ("overlay", "overlay_image")
_BACKING_FORMAT = "backing_store_format"
# All words that a device of each kind can have.
DEVICE_WORDS: dict[str, tuple[str, ...]] = {
    "disk": (*DISK_RULES, *SALT_DISK_WORDS, *_OVERLAY_WORDS, _BACKING_FORMAT),
    "nic": (*NIC_RULES, *SOURCE_ATTRIBUTES),
}
_SHAPES = "Write {name: NAME, ...} or {NAME: {...}}"


def read_devices(kind: str, devices: t.Any, where: str) -> list[GivenOptions]:
    """The devices of a kind (``disk`` or ``nic``) out of any accepted shape, in the words of this collection.

    Each has its name and its place. Raises InputError for what is no list of devices, for an unknown word and for a
    name that is given twice.
    """
    if devices is None:
        return []
    if isinstance(devices, Mapping):
        found = _by_name(kind, devices, where)
    elif isinstance(devices, (list, tuple)):
        found = [
            device for index, item in enumerate(devices) for device in _item_of_list(kind, item, f"{where}[{index}]")
        ]
    else:
        raise InputError(
            f"{shown(devices)} is not a list of devices", where=where, hint="Write [{name: NAME, ...}, ...]"
        )
    seen = set()
    for device in found:
        if device.name in seen:
            raise InputError(f"the name {device.name!r} is given twice", where=device.place)
        seen.add(device.name)
    return found


def _item_of_list(kind: str, item: t.Any, where: str) -> list[GivenOptions]:
    if not isinstance(item, Mapping) or not item:
        raise InputError(f"{shown(item)} is not a device", where=where, hint=_SHAPES)
    if item.get("name") is not None:
        return [_flat(kind, "name", item, where)]
    # What cannot be an option is the name of a device.
    names = [
        key
        for key, value in item.items()
        if key not in DEVICE_WORDS[kind] and (value is None or isinstance(value, Mapping))
    ]
    if len(item) in (1, len(names)):
        return _by_name(kind, item, where)
    if len(names) == 1 and next(iter(item)) == names[0] and item[names[0]] is None:
        return [_flat(kind, names[0], item, where)]
    if len(names) > 1:
        words = [repr(validators.written(name)) for name in names]
        raise InputError(
            f"{' and '.join(words)} are devices under one dash, with options that could belong to either",
            where=where,
            hint=f"Put a dash before {words[1]}, and indent the options of each below its name",
        )
    raise _nameless(kind, where)


def _nameless(kind: str, where: str) -> InputError:
    return InputError(f"the {kind} has no name", where=where, hint=_SHAPES)


def _by_name(kind: str, devices: Mapping[t.Any, t.Any], where: str) -> list[GivenOptions]:
    words = DEVICE_WORDS[kind]
    if "name" in devices and devices["name"] is None:
        # Somebody has begun to write one, and has not called it "name".
        raise _nameless(kind, where)
    if devices and all(
        key in words and value is not None and not isinstance(value, Mapping) for key, value in devices.items()
    ):
        raise _nameless(kind, where)
    return [_named(kind, key, value, f"{where}.{validators.written(key)}") for key, value in devices.items()]


def _flat(kind: str, key: t.Any, item: Mapping[t.Any, t.Any], where: str) -> GivenOptions:
    """A device whose name is the value of ``name``, or a key without a value, beside its options."""
    name = item["name"] if key == "name" else key
    given = GivenOptions.of(
        {word: value for word, value in item.items() if word != key}, where, validators.name(name, where)
    )
    return _translate_device(kind, given)


def _named(kind: str, key: t.Any, options: t.Any, where: str) -> GivenOptions:
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"{shown(options)} is not a mapping of options", where=where)
    if options and options.get("name") not in (None, key):
        raise InputError(f"the device is called {key!r} and {options['name']!r}", where=where)
    rest = {word: value for word, value in (options or {}).items() if word != "name"}
    return _translate_device(kind, GivenOptions.of(rest, where, validators.name(key, where)))


def _translate_device(kind: str, given: GivenOptions) -> GivenOptions:
    """A device of a kind (``disk`` or ``nic``) in the words of this collection.

    Raises InputError for an unknown word, and where two words for one thing contradict each other.
    """
    given.check_words(DEVICE_WORDS[kind])
    return _translate_disk(given) if kind == "disk" else _translate_nic(given)


def _translate_disk(given: GivenOptions) -> GivenOptions:
    for salt, ours in SALT_DISK_WORDS.items():
        if salt in given.values:
            given = given.renamed(salt, ours, given.values[salt])
    for word in _OVERLAY_WORDS:
        if word in given.values:
            wanted = given.values[word]
            if wanted is not None:
                wanted = "overlay" if validators.yes_or_no(wanted, given.at(word)) else "copy"
            given = given.renamed(word, "clone", wanted)
    return _take_backing_format(given)


def _take_backing_format(given: GivenOptions) -> GivenOptions:
    """Salt's format of a backing volume, beside the volume itself."""
    if _BACKING_FORMAT not in given.values:
        return given
    wanted, rest = given.values[_BACKING_FORMAT], given.without([_BACKING_FORMAT])
    if wanted is None:
        return rest
    backing = rest.values.get("backing")
    if backing is None:
        raise InputError(
            "it is the format of a backing volume, and there is none",
            where=given.at(_BACKING_FORMAT),
            hint="Set the volume with backing",
        )
    named = dict(backing) if isinstance(backing, Mapping) else {"volume": backing}
    if named.get("format") not in (None, wanted):
        raise InputError(
            f"the backing volume's format is {named['format']} elsewhere",
            where=given.at(_BACKING_FORMAT),
            hint="Give only one of the two",
        )
    return rest.with_value("backing", {**named, "format": wanted})


def _translate_nic(given: GivenOptions) -> GivenOptions:
    """``bridge: br0`` as ``type: bridge, source: br0``, ``network`` and ``direct`` likewise; a null stays as it is, for
    what it unsets is in the base."""
    short = [word for word in SOURCE_ATTRIBUTES if given.values.get(word) is not None]
    kind = given.values.get("type")
    kinds = [*short, *([kind] if kind is not None and kind not in short else [])]
    if short and len(kinds) > 1:
        raise InputError(
            f"it is on a {' and on a '.join(map(str, kinds))} at once",
            where=given.place or None,
            hint="Name one of them",
        )
    for word in short:
        place = given.places[word]
        given = given.renamed(word, "source", given.values[word]).with_value("type", word, place)
    return given
