# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the disks of machines are backed by, and which stored images have newer versions than these.

No disk of a guest is opened for this: of a running machine the live XML has what QEMU uses. Of one that is off the
descriptions of the volumes have it, which libvirt reads when it looks through their pool; each layer counts only under
the format that the layer above it names, as the bytes of a raw disk are the guest's to write.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import attribute, etree, read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    libvirt,
    suppress_codes,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import disk_source
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import (
    ImageName,
    newest_first,
    parse_image_volume,
)

# A chain that is longer leads in a circle.
_MOST_LAYERS = 64
# Formats that have nothing behind them.
_WITHOUT_BACKING = frozenset({None, "raw", "iso", "dir", "luks"})

Layer = dict[str, t.Any]


class BackingChains:
    """The chains of the disks of one hypervisor. A volume that many disks are backed by is asked for once."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        self._backing: dict[str, tuple[str | None, str | None]] = {}

    def of_disk(self, disk: etree._Element, *, running: bool) -> list[Layer]:
        """What is behind a ``<disk>``, the nearest first; each layer with ``source`` and ``format``.

        Raises an error of ours where that is not known.
        """
        source = disk.find("source")
        if source is None or disk.get("device", "disk") not in ("disk", "lun"):
            return []
        told = disk.find("backingStore")
        if running and told is not None:
            return _told_layers(told)
        return self._layers_of_volumes(source, disk.get("type"), attribute(disk, "driver", "type"))

    def _layers_of_volumes(self, source: etree._Element, kind: str | None, disk_format: str | None) -> list[Layer]:
        layers: list[Layer] = []
        place, layer_format = disk_source(source, kind), disk_format
        while layer_format not in _WITHOUT_BACKING:
            if len(layers) >= _MOST_LAYERS:
                raise HostError("its backing chain has no end")
            if place is None:
                raise HostError("what it is backed by is unknown")
            if place not in self._backing:
                self._backing[place] = self._ask(place, source if not layers else None, kind)
            place, layer_format = self._backing[place]
            if place is None:
                return layers
            if layer_format is None:
                raise HostError(f"what it is backed by is unknown from {place} on: nothing names the format of that")
            layers.append({"source": place, "format": layer_format})
        return layers

    def _ask(self, place: str, source: etree._Element | None, kind: str | None) -> tuple[str | None, str | None]:
        """Path and format of what a volume is backed by, both None for one that is whole in itself."""
        try:
            with translate_errors(f"what {place} is backed by is unknown"):
                if source is not None and kind == "volume":
                    pool = self._conn.storagePoolLookupByName(source.get("pool"))
                    volume = pool.storageVolLookupByName(source.get("volume"))
                else:
                    volume = self._conn.storageVolLookupByPath(place)
                root = read_description(f"volume {place}", volume.XMLDesc())
        except NotFoundError:
            raise HostError(f"what {place} is backed by is unknown: no active storage pool has it") from None
        path = root.findtext("backingStore/path")
        return (path, attribute(root, "backingStore/format", "type")) if path else (None, None)


def _told_layers(told: etree._Element) -> list[Layer]:
    """The layers that a ``<backingStore>`` of a running machine nests; an empty one is the end."""
    layers: list[Layer] = []
    node: etree._Element | None = told
    while node is not None and node.find("source") is not None:
        layers.append(
            {"source": disk_source(node.find("source"), node.get("type")), "format": attribute(node, "format", "type")}
        )
        node = node.find("backingStore")
    return layers


class NewerImages:
    """The stored images of one hypervisor by their age. Each pool that backs a machine is looked through once."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        self._newest: dict[str, dict[str, str]] = {}

    def of_layers(self, layers: Sequence[Layer]) -> tuple[str, str] | None:
        """The stored image that is one of these layers, and the newest version of it, by the names of the volumes; None
        where that is the same one, and where no stored image is among them.

        Raises an error of ours where it is not known.
        """
        for layer in layers:
            path = str(layer["source"])
            image = parse_image_volume(os.path.basename(path))
            if image is None:
                continue
            folder = os.path.dirname(path)
            if folder not in self._newest:
                self._newest[folder] = self._look(path)
            newest = self._newest[folder].get(image.name, image.volume)
            return None if newest == image.volume else (image.volume, newest)
        return None

    def _look(self, path: str) -> dict[str, str]:
        """The newest volume of each image in the pool that has a volume at this path; nothing where no pool has."""
        try:
            with translate_errors(f"whether there is a newer version of {path} is unknown"):
                pool = self._conn.storageVolLookupByPath(path).storagePoolLookupByVolume()
                images = [image for image in map(parse_image_volume, pool.listVolumes()) if image is not None]
                names = [image.name for image in images]
                # Of most images there is one version, and nobody need ask how old it is.
                several = [image for image in images if names.count(image.name) > 1]
                ages = {image: self._stored_at(pool, image) for image in several}
        except NotFoundError:
            return {}
        newest: dict[str, str] = {}
        for image in newest_first(images, lambda one: ages.get(one, 0)):
            newest.setdefault(image.name, image.volume)
        return newest

    def _stored_at(self, pool: t.Any, image: ImageName) -> int:
        """When its file was written, in nanoseconds; 0 where nobody knows, and for one that has gone meanwhile."""
        with suppress_codes(libvirt.VIR_ERR_NO_STORAGE_VOL):
            volume = pool.storageVolLookupByName(image.volume)
            root = read_description(f"volume {image.volume}", volume.XMLDesc())
            seconds, _point, nanoseconds = (root.findtext("target/timestamps/mtime") or "").partition(".")
            if seconds.isdigit():
                return int(seconds) * 1_000_000_000 + int(nanoseconds.ljust(9, "0")[:9] or 0)
            with contextlib.suppress(OSError):
                return os.stat(volume.path()).st_mtime_ns
        return 0
