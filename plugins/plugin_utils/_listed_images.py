# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that virt_host_info has listed: whether a store has what a task wants, without asking its hypervisor again."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..module_utils._host.images.listing import StoredImage
from ..module_utils._host.images.store import HashedImage, as_result
from ..module_utils._model.image.checksum import Checksum
from ..module_utils._model.image.name import parse_image_volume
from ..module_utils._model.image.provenance import Provenance, read_provenance


@dataclass(frozen=True)
class _Listed:
    image: StoredImage
    size_bytes: int
    provenance: Provenance


def find_listed(listed: t.Any, name: str, pool: str, origin: Checksum) -> dict[str, t.Any] | None:
    """The result of virt_image for an image of this name that is noted to come from a file with this checksum.

    listed: RV(host.images) of virt_host_info. None if there is no such image, or if only its hypervisor can tell.
    """
    entries = [read for item in listed if (read := _read(item, name, pool))] if isinstance(listed, list) else []
    for entry in entries:
        sha256 = entry.provenance.content("sha256")
        if sha256 is not None and entry.provenance.knows(origin):
            volumes = sorted(other.image.volume for other in entries)
            return {
                "changed": False,
                "image": as_result(name, pool, HashedImage(entry.image, sha256, entry.size_bytes), {}),
                "stored": True,
                "diff": {"before": {"volumes": volumes}, "after": {"volumes": volumes}},
            }
    return None


def _read(item: t.Any, name: str, pool: str) -> _Listed | None:
    """An entry of the list, if it is of this name and pool and its file notes what it is."""
    if not isinstance(item, Mapping) or item.get("pool") != pool:
        return None
    image = parse_image_volume(str(item.get("volume")))
    path, size, virtual_size = item.get("path"), item.get("size_bytes"), item.get("virtual_size_bytes")
    if image is None or image.name != name:
        return None
    if not isinstance(path, str) or not isinstance(size, int) or not isinstance(virtual_size, int):
        return None
    stored = StoredImage(name, image.volume, pool, path, image.format, virtual_size, image.digest)
    return _Listed(stored, size, read_provenance(str(item.get("provenance")), image.digest))
