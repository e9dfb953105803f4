# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disk and nic profiles, in the shapes that Salt Virt knew and in Ansible's, as one plain shape.

A profile is a list of devices, each a mapping of options with its ``name`` among them. The order is the user's.
Accepted for each profile (a list or a mapping of devices):

- ``[{system: {size: 8192}}, {data: {size: 30720}}]``, Salt's list of one-key mappings;
- ``{eth0: {bridge: br0}, eth1: {bridge: br1}}``, Salt's mapping;
- ``[{name: eth0, bridge: br0}]``, the flat list;
- ``[{system: null, size: 8192}]``, what Salt's documentation printed with one indentation too few.

The profiles as a whole may also stand as they stood in Salt's configuration: under ``virt.disk`` or ``virt: disk:``
(``virt.nic``, ``virt: nic:``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.rules import inside, one_of_these
from ansible_collections.brine.virt.plugins.module_utils._model.rules import name as read_name

Device = dict[str, t.Any]

DEFAULT_PROFILE = "default"
# What Salt Virt gave a machine for which nobody said anything; SPEC of the project, rows 10 and 11.
BUILT_IN: dict[str, dict[str, list[Device]]] = {
    "disk": {DEFAULT_PROFILE: [{"name": "system", "size": 8192}]},
    "nic": {DEFAULT_PROFILE: [{"name": "eth0", "bridge": "br0"}]},
}


def resolve_devices(
    kind: str, profiles: t.Any, profile: str | None, overrides: t.Any, *, where: str, profiles_where: str
) -> list[tuple[Device, str]]:
    """The devices of one machine: its profile's, with the machine's own overrides laid over them by name.

    kind is ``disk`` or ``nic``; profiles is what the user gave as profiles; profile the name asked for (None: the
    default one; the word ``none``: no profile at all); overrides the machine's own list or mapping of devices. An
    override changes the keys it names and keeps the rest; one with a new name is appended. Each device comes with the
    place in the input to name in complaints. Nothing of the input is changed.
    """
    known = {**BUILT_IN[kind], **_unwrap(kind, profiles, profiles_where)}
    wanted = DEFAULT_PROFILE if profile is None else profile
    if wanted == "none":
        devices = []
    elif wanted not in known:
        raise InputError(
            f"unknown {kind} profile {wanted!r}",
            where=inside(where, f"{kind}_profile"),
            hint=one_of_these(wanted, known),
        )
    else:
        place = f"{profiles_where}.{wanted}"
        devices = normalise(known[wanted], place)
    merged = {device["name"]: (device, place) for device, place in devices}
    lay_over = _lay_disk_over if kind == "disk" else _lay_nic_over
    for device, place in normalise(overrides, inside(where, f"{kind}s")):
        base = merged.get(device["name"], ({}, place))[0]
        merged[device["name"]] = (lay_over(base, device), place)
    return list(merged.values())


# Words for where a disk's content comes from; the last three are Salt's.
_IMAGE_WORDS = ("image", "clone", "overlay", "overlay_image")
_ORIGIN_WORDS = {
    "source": (*_IMAGE_WORDS, "backing", "backing_store_path", "size", "format"),
    "source_file": (*_IMAGE_WORDS, "backing", "backing_store_path", "size", "format"),
    "backing": (*_IMAGE_WORDS, "source", "source_file"),
    "backing_store_path": (*_IMAGE_WORDS, "source", "source_file"),
    "image": ("source", "source_file", "backing", "backing_store_path"),
}


def _lay_disk_over(base: Device, device: Device) -> Device:
    """The override over the base, key by key; another origin of the content takes the place of the base's."""
    replaced = {word for origin in _ORIGIN_WORDS if origin in device for word in _ORIGIN_WORDS[origin]}
    return {**{key: value for key, value in base.items() if key not in replaced}, **device}


# What a nic can be plugged into, as short words for type and source, and the keys that only one of them has.
_SHORT_NIC_WORDS = ("bridge", "network", "direct")
_KEYS_OF_TYPE = ("source", "mode", "portgroup")


def _lay_nic_over(base: Device, device: Device) -> Device:
    """The override over the base, key by key; what the nic is plugged into counts as one thing, however it is spelt."""
    base, device = _without_short_words(base), _without_short_words(device)
    if device.get("type") not in (None, base.get("type")):
        # A name on a bridge is no name on a network.
        base = {key: value for key, value in base.items() if key not in _KEYS_OF_TYPE}
    return {**base, **device}


def _without_short_words(device: Device) -> Device:
    """``bridge: br0`` as ``type: bridge, source: br0``, ``network`` and ``direct`` likewise; contradictions stay, to be
    refused."""
    short = [word for word in _SHORT_NIC_WORDS if word in device]
    if len(short) != 1 or "type" in device or "source" in device:
        return dict(device)
    rest = {key: value for key, value in device.items() if key != short[0]}
    return {**rest, "type": short[0], "source": device[short[0]]}


def normalise(devices: t.Any, where: str) -> list[tuple[Device, str]]:
    """Any accepted shape of a list of devices as plain devices, each with its place."""
    if devices is None:
        return []
    if isinstance(devices, Mapping):
        found = [(_named(key, value, f"{where}.{key}"), f"{where}.{key}") for key, value in devices.items()]
    elif isinstance(devices, (list, tuple)):
        found = [_one_of_list(item, f"{where}[{index}]") for index, item in enumerate(devices)]
    else:
        raise InputError(f"{devices!r} is no list of devices", where=where, hint="Write [{name: NAME, ...}, ...]")
    seen = set()
    for device, place in found:
        if device["name"] in seen:
            raise InputError(f"the name {device['name']!r} is there twice", where=place)
        seen.add(device["name"])
    return found


def _one_of_list(item: t.Any, where: str) -> tuple[Device, str]:
    if not isinstance(item, Mapping) or not item:
        raise InputError(f"{item!r} is no device", where=where, hint="Write {name: NAME, ...} or {NAME: {...}}")
    if item.get("name") is not None:
        return _named(item["name"], {key: value for key, value in item.items() if key != "name"}, where), where
    empty = [key for key, value in item.items() if value is None]
    nested = [key for key, value in item.items() if isinstance(value, Mapping)]
    if len(item) == 1:
        key = next(iter(item))
        return _named(key, item[key], f"{where}.{key}"), f"{where}.{key}"
    if len(empty) == 1 and not nested and next(iter(item)) == empty[0]:
        return _named(empty[0], {key: value for key, value in item.items() if key != empty[0]}, where), where
    raise InputError("the device has no name", where=where, hint="Write {name: NAME, ...} or {NAME: {...}}")


def _named(key: t.Any, options: t.Any, where: str) -> Device:
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"{options!r} is not a mapping of options", where=where)
    if options and options.get("name") not in (None, key):
        raise InputError(f"the device is called {key!r} and {options['name']!r}", where=where)
    return {**{k: v for k, v in (options or {}).items() if v is not None}, "name": read_name(key, where)}


def _unwrap(kind: str, profiles: t.Any, where: str) -> Mapping[str, t.Any]:
    """The profiles themselves, out of the keys under which Salt's configuration had them."""
    if profiles is None:
        return {}
    if isinstance(profiles, Mapping) and set(profiles) == {f"virt.{kind}"}:
        profiles = profiles[f"virt.{kind}"]
    elif (
        isinstance(profiles, Mapping)
        and set(profiles) == {"virt"}
        and isinstance(profiles["virt"], Mapping)
        and kind in profiles["virt"]
    ):
        profiles = profiles["virt"][kind]
    if not isinstance(profiles, Mapping):
        raise InputError(f"{profiles!r} is not a mapping of profiles", where=where)
    return {str(name): devices for name, devices in profiles.items()}
