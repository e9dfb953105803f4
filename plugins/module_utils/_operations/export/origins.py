# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the content of a machine's disks comes from, as options: from a volume of its own, or from another one."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._base.errors import VirtError
from ..._base.xml import MIB, etree
from ..._host.images.clustered import image_below
from ..._host.storage.ceph import has_bindings
from ..._host.storage.pools import Pool
from ..._host.storage.volume_facts import Volume, find_volume
from ..._model.attachments import disk_source
from ..._model.export.devices import DiskOrigin, find_disk
from ..._model.image.name import parse_image_volume
from ..._model.metadata.machine import MachineNotes, VolumeNote
from ..._model.spec.disk import REMOVABLE
from ..._model.spec.fields.table import Values
from ..._model.spec.fields.units import LEAST_PLAIN_MIB
from ..._model.xml.disk_source import FILE, NETWORK, RAW, DiskSource, driver_format
from ..hypervisor_view import HypervisorView

_WEB = ("http", "https", "ftp")


def read_origins(domain: etree._Element, notes: MachineNotes, view: HypervisorView) -> dict[str, DiskOrigin]:
    """The origins of all disks of a machine that have names, by these. domain: its parsed definition."""
    origins: dict[str, DiskOrigin] = {}
    first = True
    for note in notes.disks:
        element = find_disk(domain, note)
        if element is None:
            continue
        copied = first if notes.image is None or not notes.image.disk else notes.image.disk == note.name
        try:
            origins[note.name] = _read_origin(element, notes, view, copied=copied)
        except VirtError as exc:
            origins[note.name] = DiskOrigin(obstacle=exc.what)
        first = first and element.get("device", "disk") != "disk"
    return origins


def _read_origin(element: etree._Element, notes: MachineNotes, view: HypervisorView, *, copied: bool) -> DiskOrigin:
    """copied: whether it is the disk that the image was for which the metadata list."""
    source = element.find("source")
    if source is None:
        return DiskOrigin() if element.get("device") in REMOVABLE else DiskOrigin(obstacle="it is on nothing")
    own = _own_volume(element, notes, view)
    if own is not None:
        return _of_own(own, element, notes, view, copied=copied)
    return _of_used(element, source, view)


def _own_volume(element: etree._Element, notes: MachineNotes, view: HypervisorView) -> VolumeNote | None:
    place, source = DiskSource.read(element), element.find("source")
    for note in notes.volumes:
        if note.role != "disk":
            continue
        if source is not None and (source.get("pool"), source.get("volume")) == (note.pool, note.name):
            return note
        if place is not None and view.pools.get(note.pool).source_of(note.name).place == place.place:
            return note
    return None


def _of_own(
    note: VolumeNote, element: etree._Element, notes: MachineNotes, view: HypervisorView, *, copied: bool
) -> DiskOrigin:
    """A volume that was created for the machine, which would be created again."""
    pool, image_format = view.pools.get(note.pool), driver_format(element)
    volume = find_volume(pool, note.name, image_format=image_format)
    if volume is None:
        return DiskOrigin(obstacle=f"storage pool {pool.name} has no volume {note.name}")
    if notes.image is not None and not notes.image.disk:
        # Somebody may have detached the one that the image was for, which the machine still owns.
        copied = copied and note == next(one for one in notes.volumes if one.role == "disk")
    content, overlaid = _content(pool, volume, notes, view, copied=copied)
    options: Values = {"pool": pool.name, **_size(pool, volume), **content}
    if image_format != ("qcow2" if overlaid else pool.default_format):
        options["format"] = image_format
    size_note = None if "size" in options else f"{volume.capacity_bytes} bytes, which is not a whole number of MiB"
    unknown = overlaid and not content
    backing_note = f"{volume.backing_path}, which is in no active storage pool" if unknown else None
    return DiskOrigin(options, size_note=size_note, backing_note=backing_note)


def _size(pool: Pool, volume: Volume) -> Values:
    size_mib = volume.capacity_bytes // MIB
    if not size_mib or not pool.same_size(size_mib * MIB, volume.capacity_bytes):
        return {}
    return {"size": size_mib if size_mib >= LEAST_PLAIN_MIB else f"{size_mib}MiB"}


def _content(
    pool: Pool, volume: Volume, notes: MachineNotes, view: HypervisorView, *, copied: bool
) -> tuple[Values, bool]:
    """The image or the volume that a disk was created from, as options; and whether it is an overlay on it."""
    if volume.backing_path is None:
        below = image_below(pool, volume.name) if pool.clones_images and has_bindings() else None
        if below is not None:
            return {"image": below}, False
        # A full copy says nothing of where it came from; the metadata do, of one disk.
        return ({"image": notes.image.volume, "clone": "copy"} if copied and notes.image else {}), False
    found = view.locate(DiskSource(FILE, volume.backing_path))
    if found is None:
        return {}, True
    home, name = found
    if parse_image_volume(name) is not None:
        return {"image": name}, True
    options: Values = {"volume": name, "pool": home.name}
    if volume.backing_format is not None:
        options["format"] = volume.backing_format
    return {"backing": options}, True


def _of_used(element: etree._Element, source: etree._Element, view: HypervisorView) -> DiskOrigin:
    """A volume that is there, whoever made it, which would be used."""
    kind, image_format = element.get("type", FILE), driver_format(element)
    removable = element.get("device") in REMOVABLE
    said: Values = {} if removable and image_format == RAW else {"format": image_format}
    if kind == "volume":
        return DiskOrigin({"pool": source.get("pool"), "source": source.get("volume"), **said})
    place = DiskSource.read(element)
    if place is None:
        return DiskOrigin(obstacle=f"it is of type {kind}")
    if place.type != NETWORK:
        return DiskOrigin({"source": place.path, **said})
    if place.protocol in _WEB:
        return _of_web(place, said)
    found = view.locate(place)
    if found is None:
        return DiskOrigin(obstacle=f"{disk_source(element)} is in no active storage pool")
    pool, name = found
    if replace(pool.source_of(name), initiator=None) != replace(place, initiator=None):
        return DiskOrigin(obstacle=f"it is {disk_source(element)} by other hosts or another user than pool {pool.name}")
    return DiskOrigin({"pool": pool.name, "source": name, **said})


def _of_web(place: DiskSource, said: Values) -> DiskOrigin:
    if len(place.hosts) != 1 or place.auth_user is not None:
        return DiskOrigin(obstacle=f"it is {place.place}")
    host, port = place.hosts[0]
    colon = f":{port}" if port is not None else ""
    url: t.Any = f"{place.protocol}://{host}{colon}/{place.name}"
    return DiskOrigin({"source": url, **said})
