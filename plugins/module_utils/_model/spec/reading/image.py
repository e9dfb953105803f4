# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's own image, and its own way of cloning, on the disks that they are meant for."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DEFAULT_MODELS, ORIGINS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions


def place_image(disks: Sequence[GivenOptions], machine: GivenOptions) -> list[GivenOptions]:
    """The disks, the first of them with the machine's own image, and all with an image with its way of cloning.

    The image takes the place of one that the disk has from a profile. Raises InputError where there is no disk for it,
    or where that disk gets its content from elsewhere. An image that is a default for many machines gives way to what
    a machine's own disks say.
    """
    found = list(disks)
    if machine.values.get("image") is not None:
        first = next((index for index, disk in enumerate(found) if _takes_image(disk)), None)
        if first is None:
            raise InputError(
                "the machine has no disk for the image",
                where=machine.at("image"),
                hint="Name one in disks or in a profile, or leave image out",
            )
        found[first] = _with_image(found[first], machine)
    clone = machine.values.get("clone")
    if clone is None:
        return found
    place = machine.places["clone"]
    return [
        disk.with_value("clone", clone, place)
        if disk.values.get("image") is not None and disk.values.get("clone") is None
        else disk
        for disk in found
    ]


def _takes_image(disk: GivenOptions) -> bool:
    """Whether it is a disk at all; a kind that there is not is refused elsewhere."""
    kind: t.Any = disk.values.get("device")
    return (kind in (None, "disk") or str(kind) not in DEFAULT_MODELS) and disk.values.get("state") != "absent"


def _with_image(disk: GivenOptions, machine: GivenOptions) -> GivenOptions:
    image, place = machine.values["image"], machine.places["image"]
    origin = next((word for word in ORIGINS if disk.values.get(word) is not None), None)
    own_list = machine.at("disks")
    own = origin is not None and str(disk.places[origin]).startswith((f"{own_list}[", f"{own_list}."))
    if origin is None or (origin == "image" and (not own or disk.values["image"] == image)):
        return disk.with_value("image", image, place)
    if own and place.parent != machine.place and machine.places["disks"].parent == machine.place:
        return disk
    raise InputError(
        f"it is for the first disk, {disk.name!r}, and that has {disk.at(origin)}",
        where=machine.at("image"),
        hint="Give only one of the two",
    )
