# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disk and nic profiles, and the devices of a machine: its profile's, with its own overrides laid over them.

The profiles as a whole may stand as they stood in Salt's configuration, with the rest of that around them: under
``virt.disk`` or ``virt: disk:`` (``virt.nic``, ``virt: nic:``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...._base.errors import InputError, inside, one_of_these
from ..fields.given import GivenOptions
from ..network import NETWORK_RULES
from .devices import read_devices
from .salt_config import unwrap_profiles

# The devices of each profile, by its name.
Profiles = Mapping[str, t.Sequence[GivenOptions]]

DEFAULT_PROFILE = "default"
# Of a machine that is to have no profile, in any case; a null says the same.
NO_PROFILE = "none"
# What Salt Virt gave a machine for which nobody said anything; SPEC of the project, rows 10 and 11.
_BUILT_IN: dict[str, dict[str, t.Any]] = {
    "disk": {"system": {"size": 8192}},
    "nic": {"eth0": {"bridge": "br0"}},
}


def read_profiles(kind: str, profiles: t.Any, where: str) -> Profiles:
    """The user's profiles of a kind (``disk`` or ``nic``), each read as a whole, whether it is used or not.

    Raises InputError, with the place, for what is no profile and for an unknown word in one.
    """
    return {
        name: read_devices(kind, devices, f"{place}.{name}")
        for place, found in unwrap_profiles(kind, profiles, where)
        for name, devices in found.items()
    }


def resolve_devices(
    kind: str, profiles: Profiles, given: GivenOptions, have: Mapping[str, Mapping[str, t.Any]] | None = None
) -> list[GivenOptions]:
    """The devices of one machine.

    given: the machine's own options, of which ``disk_profile`` and ``disks`` (``nic_profile`` and ``nics``) are read. A
    profile that is null is none at all. An override changes the options that it names and keeps the rest; a null in it
    unsets an option of the profile; one with a new name is appended. Nothing of the input is changed.
    have: the devices of a machine that is there, by name; None for one that is not, or of which that is not known here.
    The profile that nobody named makes new machines, and asks nothing of a device that is there.
    """
    merged = {device.name: device for device in _of_profile(kind, profiles, given)}
    own = read_devices(kind, given.values.get(f"{kind}s"), given.at(f"{kind}s"))
    if have is not None and f"{kind}_profile" not in given.values:
        named = {device.name for device in own}
        merged = {
            name: _unasked(kind, device, have[name]) if name in have else device
            for name, device in merged.items()
            if name in have or name in named
        }
    lay_over = _override_disk if kind == "disk" else _override_nic
    for device in own:
        base = merged.get(device.name)
        merged[device.name] = device if base is None else lay_over(base, device)
    return list(merged.values())


# What the guest alone is told, by its seed: no request about the nic, and part of what tells one seed from another.
_OF_GUEST = frozenset(NETWORK_RULES) - {"mtu"}


def _unasked(kind: str, device: GivenOptions, have: Mapping[str, t.Any]) -> GivenOptions:
    """A device of a profile that nobody named, for a machine that has it: nothing but what it has and the seed says."""
    same = {key for key in ("device", "mtu") if key in have and str(device.values.get(key)) == str(have[key])}
    rest = device.only(same if kind == "disk" else _OF_GUEST | same)
    return rest.with_value("device", have["device"]) if kind == "disk" and "device" in have else rest


def _of_profile(kind: str, profiles: Profiles, given: GivenOptions) -> t.Sequence[GivenOptions]:
    key = f"{kind}_profile"
    wanted = given.values.get(key, DEFAULT_PROFILE)
    if wanted is None:
        return []
    # Profiles may be called by numbers, and have their names as texts here.
    wanted = str(wanted)
    if wanted.lower() == NO_PROFILE:
        same = next((name for name, devices in profiles.items() if name.lower() == NO_PROFILE and devices), None)
        if same is not None:
            raise InputError(
                f"{wanted!r} means no profile, and there is a profile called {same!r}",
                where=given.at(key),
                hint="Write null for no profile, or give the profile another name",
            )
        return []
    if wanted in profiles:
        return profiles[wanted]
    if wanted == DEFAULT_PROFILE:
        built_in = read_devices(kind, _BUILT_IN[kind], inside(given.place, f"{kind}s"))
        return [device.noted("the profile default") for device in built_in]
    raise InputError(
        f"unknown {kind} profile {wanted!r}",
        where=given.at(key),
        hint=one_of_these(wanted, [*profiles, DEFAULT_PROFILE]),
    )


# What another origin of a disk's content takes the place of.
_REPLACES = {
    "source": ("image", "clone", "backing", "size", "format"),
    "backing": ("image", "clone", "source"),
    "image": ("source", "backing"),
}


def _override_disk(base: GivenOptions, device: GivenOptions) -> GivenOptions:
    """The override over the base, option by option; another origin of the content takes the place of the base's."""
    replaced = [key for origin, keys in _REPLACES.items() if device.values.get(origin) is not None for key in keys]
    return device.over(base.without(replaced))


# Options of a nic that belong to what it is plugged into.
_OF_SOURCE = ("source", "mode", "portgroup")


def _override_nic(base: GivenOptions, device: GivenOptions) -> GivenOptions:
    """The override over the base, option by option; what the nic is plugged into counts as one thing."""
    kind = base.values.get("type") or "bridge"
    if device.values.get("type") not in (None, kind):
        # A name on a bridge is no name on a network.
        base = base.without(_OF_SOURCE)
    elif kind in device.values and device.values[kind] is None:
        base = base.without(["type", *_OF_SOURCE])
    return device.over(base)
