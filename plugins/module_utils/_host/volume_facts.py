# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a volume is: its size, its format by what stands in it and not by its name, and how a disk finds it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, translate_error
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.disk_source import BLOCK, FILE, DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.image_header import HEADER_BYTES, disk_format
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml

# libvirt's words for what to QEMU is a raw disk: https://libvirt.org/storage.html#directory-pool
_RAW = frozenset({None, "raw", "iso", "none", "unknown"})
_DISK_TYPES = frozenset({"file", "block", "network"})


@dataclass(frozen=True)
class Volume:
    """A volume that is there.

    capacity_bytes: the size of the disk that a guest sees; allocation_bytes: what it takes of the pool now. format: by
    inspection. backing_path, backing_format: of an overlay, what its header says; the format is None where it does not.
    """

    name: str
    pool: str
    path: str
    capacity_bytes: int
    allocation_bytes: int
    format: str
    source: DiskSource
    backing_path: str | None = None
    backing_format: str | None = None


def find_volume(pool: Pool, name: str, where: str | None = None) -> Volume | None:
    """A volume of the pool as it is now, or None when there is none of this name.

    Raises UnsupportedError for something of this name that is no disk (a directory).
    """
    what = f"cannot look at volume {name} of pool {pool.name}"
    try:
        handle = pool.handle.storageVolLookupByName(name)
        # libvirt looks at the volume again for this.
        root = parse_xml(handle.XMLDesc(0))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
            return None
        raise translate_error(exc, what, where) from exc
    kind = root.get("type") or pool.source_type
    if kind not in _DISK_TYPES:
        raise UnsupportedError(f"volume {name} of pool {pool.name} is of type {kind}, and no disk", where=where)
    path = root.findtext("target/path") or ""
    # A folder may hold device nodes.
    in_folder = pool.source_type == FILE and kind in (FILE, BLOCK)
    source = DiskSource(kind, path) if in_folder else pool.source_of(name)
    return Volume(
        name=name,
        pool=pool.name,
        path=path,
        capacity_bytes=int(root.findtext("capacity") or 0),
        allocation_bytes=int(root.findtext("allocation") or 0),
        format=_format(pool, source, _attribute(root, "target/format")),
        source=source,
        backing_path=root.findtext("backingStore/path"),
        backing_format=_attribute(root, "backingStore/format"),
    )


def read_own_header(pool: Pool, source: DiskSource) -> bytes | None:
    """The first bytes of a volume that is a file on this machine; None when it is none, or this user may not."""
    if not pool.local or source.type != FILE:
        return None
    try:
        with open(source.path, "rb") as content:
            return content.read(HEADER_BYTES)
    except OSError:
        return None


def _format(pool: Pool, source: DiskSource, known: str | None) -> str:
    """The file's own first bytes, else libvirt's word for it.

    libvirt looks only when the pool is refreshed, and remembers. On a device, it says the type of a partition here; a
    disk there was raw from the start, and a mark of another format in it could only be the guest's doing.
    """
    if source.type == BLOCK:
        return "raw"
    header = read_own_header(pool, source)
    if header is not None:
        return disk_format(header)
    return "raw" if known in _RAW else str(known)


def _attribute(root: t.Any, path: str) -> str | None:
    element = root.find(path)
    return None if element is None else element.get("type")
