# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes that a move between pools has made, and which of them the machine has, by what libvirt says of it."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...._base.errors import VirtError
from ...._base.xml import etree
from ...._host.connection import VirConnect, libvirt
from ...._host.machines.domains import description_of
from ...._host.storage.pools import Pools
from ...._model.metadata.migration import MigrationNote, VolumeRef
from ...._model.xml.disk_source import DiskSource, driver_format
from ..endpoints.location import is_active


@dataclass(frozen=True)
class CopiedVolume:
    """A volume that a move has made: the pool and name of it and of the old one, and where each is.

    old_place: None where the old one's pool cannot be asked.
    """

    made: VolumeRef
    old: VolumeRef
    there: DiskSource
    old_place: str | None


def copied_volumes(conn: VirConnect, note: MigrationNote) -> list[CopiedVolume]:
    """What a move has made, or was about to make. Raises an error of ours for a pool that is not there any more."""
    pools, found = Pools(conn), []
    for made in note.made:
        old, old_place = VolumeRef(made.origin, made.name), None
        with contextlib.suppress(VirtError):
            old_place = pools.get(old.pool).volume_path(old.name)
        found.append(CopiedVolume(made, old, pools.get(made.pool).source_of(made.name), old_place))
    return found


def formats_of(domain: t.Any) -> dict[str, str]:
    """What the machine takes its disks for, by their places."""
    xml = description_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    found = ((DiskSource.read(disk), driver_format(disk)) for disk in xml.iterfind("devices/disk"))
    return {source.place: image_format for source, image_format in found if source is not None}


def arrived_volumes(domain: t.Any, copied: Iterable[CopiedVolume]) -> list[CopiedVolume]:
    """Those that the machine has as disks, instead of the old ones."""
    defined, running = places_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE), frozenset[str]()
    if is_active(domain):
        running = places_of(domain, 0)
    return [
        one
        for one in copied
        if one.there.place in running or (one.there.place in defined and one.old_place not in running)
    ]


def places_of(domain: t.Any, flags: int) -> frozenset[str]:
    found = (DiskSource.read(disk) for disk in description_of(domain, flags).iterfind("devices/disk"))
    return frozenset(source.place for source in found if source is not None)


def mirrors_of(disk: etree._Element, places: Collection[str]) -> bool:
    """Whether the job that runs on a disk is a copy to one of these places."""
    mirror = disk.find("mirror")
    source = None if mirror is None else DiskSource.read(mirror)
    return source is not None and source.place in places
