# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles out of the keys under which Salt's configuration had them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...._base.errors import InputError, shown
from ..fields.validators import written
from .devices import read_devices

_KINDS = ("disk", "nic")
_SECTION = "virt"


def unwrap_profiles(kind: str, profiles: t.Any, where: str) -> list[tuple[str, Mapping[str, t.Any]]]:
    """The profiles of a kind by their names, with the place of each group of them; names are texts.

    profiles: a mapping of profiles, or a configuration of Salt's that has them under ``virt.disk``, under ``virt:
    disk:``, or half here and half there. What else is in such a configuration is nothing to us.

    Raises InputError where that is not to be told apart: for a configuration without profiles of this kind, one with
    the same profile twice, and one with a profile beside those keys.
    """
    if profiles is None:
        return []
    if not isinstance(profiles, Mapping):
        raise InputError(f"{shown(profiles)} is not a mapping of profiles", where=where)
    wrapped = _wrapped(profiles)
    if not wrapped:
        return [(where, _by_name(profiles, where))]
    found = [
        (f"{where}.{key}", _by_name(value, f"{where}.{key}")) for key, of_kind, value in wrapped if of_kind == kind
    ]
    if not found:
        raise InputError(
            f"this is a Salt configuration that has {' and '.join(key for key, _kind, _value in wrapped)}, and no "
            f"{kind} profiles",
            where=where,
            hint=f"Put them under virt.{kind}, or leave the option out",
        )
    for name, devices in profiles.items():
        if name != _SECTION and _looks_like_profile(kind, devices):
            raise InputError(
                f"it is next to {found[0][0][len(where) + 1 :]} and looks like a profile",
                where=f"{where}.{written(name)}",
                hint=f"Put it under {found[0][0][len(where) + 1 :]}",
            )
    first: dict[str, str] = {}
    for place, group in found:
        for name in group:
            if name in first:
                raise InputError(f"the profile is in {first[name]} already", where=f"{place}.{name}")
            first[name] = place
    return found


def _wrapped(profiles: Mapping[t.Any, t.Any]) -> list[tuple[str, str, t.Any]]:
    """What a Salt configuration has: its key, the kind of the profiles, and these; nothing for plain profiles."""
    dotted = [(f"{_SECTION}.{kind}", kind) for kind in _KINDS]
    found = [(key, kind, profiles[key]) for key, kind in dotted if key in profiles]
    section = profiles.get(_SECTION)
    if isinstance(section, Mapping):
        nested = [(f"{_SECTION}.{kind}", kind, section[kind]) for kind in _KINDS if kind in section]
        # A profile of the name virt may have a device of the name disk, whose options are no mappings.
        if found or any(value is None or _is_group(value) for _key, _kind, value in nested):
            found += nested
        elif not nested and not all(value is None or isinstance(value, Mapping) for value in section.values()):
            found.append((_SECTION, "", section))
    return found


def _is_group(value: t.Any) -> bool:
    return isinstance(value, Mapping) and all(
        devices is None or isinstance(devices, (Mapping, list, tuple)) for devices in value.values()
    )


def _by_name(profiles: t.Any, where: str) -> Mapping[str, t.Any]:
    if profiles is None:
        return {}
    if not isinstance(profiles, Mapping):
        raise InputError(f"{shown(profiles)} is not a mapping of profiles", where=where)
    return {written(name): devices for name, devices in profiles.items()}


def _looks_like_profile(kind: str, devices: t.Any) -> bool:
    try:
        return bool(read_devices(kind, devices, ""))
    except InputError:
        return False
