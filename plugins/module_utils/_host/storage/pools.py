# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of a hypervisor, what each type of pool can do, and whether there is space for what is to be made.
https://libvirt.org/storage.html

One look-up of all pools serves all machines of a task.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shlex
import threading
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError, VirtError, one_of_these
from ..._base.files import missing_mount, read_mounts
from ..._base.xml import MIB, attribute, etree, read_description
from ..._model.spec.fields.units import format_size
from ..._model.xml.disk_source import BLOCK, FILE, NETWORK, DiskSource, network_source
from ..connection import VirConnect, is_local, libvirt, suppress_codes, translate_errors
from .file_chain import Watch
from .full_disk import disk_full, no_space
from .pool_refresh import is_started

# strerror(3) of ENOSPC and EDQUOT, lvcreate(8), zfs(8): libvirt has them inside the words of what it ran.
_FULL = re.compile(
    r"no space left on device|disk quota exceeded|insufficient free (space|extents)|not enough free space|out of space",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _PoolType:
    """What is true of all pools of one type.

    source: the type of a disk on its volumes. named: a new volume gets the name that was asked for, so that its place
    is known before it is made; without it there are only volumes that somebody else has made.
    """

    source: str
    named: bool


_POOL_TYPES = {
    "dir": _PoolType(FILE, named=True),
    "fs": _PoolType(FILE, named=True),
    "netfs": _PoolType(FILE, named=True),
    "vstorage": _PoolType(FILE, named=True),
    "logical": _PoolType(BLOCK, named=True),
    "zfs": _PoolType(BLOCK, named=True),
    # A partition's name is its number, and a LUN's is its address.
    "disk": _PoolType(BLOCK, named=False),
    "iscsi": _PoolType(BLOCK, named=False),
    "scsi": _PoolType(BLOCK, named=False),
    "mpath": _PoolType(BLOCK, named=False),
    "rbd": _PoolType(NETWORK, named=True),
    # libvirt's driver has no way to make a volume there.
    "gluster": _PoolType(NETWORK, named=False),
    "iscsi-direct": _PoolType(NETWORK, named=False),
}
# libvirt mounts these when it starts them.
MOUNTED = ("fs", "netfs")
# A logical volume is a whole number of extents, of 4 MiB unless somebody chose otherwise; one of ZFS of blocks,
# of 128 KiB at most (volblocksize in zfsprops(7)). libvirt does not say it.
_MOST_ROUNDING_BYTES = {"logical": 32 * MIB, "zfs": MIB // 8}
# libvirt makes the volumes of an iscsi-direct pool by this name, with the number of the LUN after it.
_NAME_PREFIXES = {"iscsi-direct": "unit:0:0:"}

# Free space of one file system that was asked for twice differs by less than this share of all of it.
_SAME_SPACE_SHARE = 0.001


@dataclass(frozen=True)
class SpaceRequest:
    """The space that one new volume takes at once.

    pool: the pool's name. shared: what its space is taken from; pools on one file system have the same.
    available_bytes: the space that is left there. needed_bytes: what the volume takes, nothing for one that grows as it
    is written to.
    """

    pool: str
    shared: str
    available_bytes: int
    needed_bytes: int


@dataclass(frozen=True)
class Pool:
    """An active storage pool.

    path: where its volumes lie, for pools of files and devices. local: that is a path of the machine that this code
    runs on. space_source: what its space is taken from; pools on one file system have the same. Of another machine's,
    directories that are as large and as free as each other count as one file system.
    network: for network pools, the source of any of its volumes, all but the name of the volume.
    """

    name: str
    path: str
    available_bytes: int
    handle: t.Any
    type: str = "dir"
    capacity_bytes: int = 0
    local: bool = False
    space_source: str = ""
    network: DiskSource | None = None

    @property
    def source_type(self) -> str:
        """The type of a disk on a volume of this pool: ``file``, ``block`` or ``network``."""
        return _POOL_TYPES[self.type].source

    @property
    def makes_named_volumes(self) -> bool:
        """Whether volumes can be made here under a chosen name; without it only existing ones can be used."""
        return _POOL_TYPES[self.type].named

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that a new volume can have here, the usual one first; empty where none can be made."""
        if not self.makes_named_volumes:
            return ()
        return ("qcow2", "raw") if self.source_type == FILE else ("raw",)

    @property
    def default_format(self) -> str:
        """The format of a volume here when nobody has said another."""
        return "qcow2" if self.source_type == FILE else "raw"

    @property
    def can_overlay(self) -> bool:
        """Whether a new volume can hold only the difference to an image."""
        return self.source_type == FILE

    @property
    def clones_images(self) -> bool:
        """Whether it can hold images of the store, of which a new volume is a copy-on-write clone."""
        return self.type == "rbd" and self.local

    @property
    def thin(self) -> bool:
        """Whether a new volume takes space only as it is written to."""
        # A logical volume that is smaller than its disk is a snapshot of nothing, which breaks when it is full.
        return self.type != "logical"

    @property
    def rounding_bytes(self) -> int:
        """What the size of a volume may be a multiple of here, at most."""
        return _MOST_ROUNDING_BYTES.get(self.type, 1)

    def same_size(self, requested_bytes: int, found_bytes: int) -> bool:
        """Whether a volume of this size is what one gets who requests that size here."""
        return 0 <= found_bytes - requested_bytes < self.rounding_bytes

    def request_space(self, needed_bytes: int) -> SpaceRequest:
        """So much of its space for one new volume."""
        return SpaceRequest(self.name, self.space_source, self.available_bytes, needed_bytes)

    def require_overlay(self, where: str | None = None) -> None:
        """Raise UnsupportedError, with what to do instead, when overlays cannot be made here."""
        if not self.can_overlay:
            raise UnsupportedError(
                f"storage pool {self.name!r} is of type {self.type}, and an overlay is a qcow2 file",
                where=where,
                hint="Choose clone: copy for this disk, or a pool of files (dir, fs, netfs)",
            )

    def require_new_volumes(self, where: str | None = None) -> None:
        """Raise UnsupportedError, with what to do instead, when no volume can be made here by name."""
        if not self.makes_named_volumes:
            raise UnsupportedError(
                f"storage pool {self.name!r} is of type {self.type}, where volumes cannot be created by name",
                where=where,
                hint="Name a volume that already exists, or choose another pool",
            )
        self.require_mounted(where)

    def require_mounted(self, where: str | None = None) -> None:
        """Raise ConflictError for a directory below a mount point of the host at which nothing is mounted, and for one
        where libvirt has mounted something, and nothing is any more.

        What is created there is on the wrong file system, and hidden as soon as the right one is mounted.
        """
        error = not_mounted(self.name, self.path, where) if self.local and self.type == "dir" else None
        if self.local and self.type in MOUNTED:
            error = unmounted(self.name, self.path, where)
        if error is not None:
            raise error

    def require_format(self, image_format: str, where: str | None = None) -> None:
        """Raise UnsupportedError when a new volume cannot have this format here."""
        self.require_new_volumes(where)
        if image_format not in self.formats:
            raise UnsupportedError(
                f"storage pool {self.name!r} is of type {self.type}, and cannot hold {image_format} volumes",
                where=where,
                hint=f"Choose {' or '.join(self.formats)}",
            )

    def source_of(self, volume: str) -> DiskSource:
        """What a machine's disk on this volume needs, whether the volume is there or not.

        Where volumes are not named by us, libvirt is asked: NotFoundError when there is none of this name.
        """
        if self.network is not None:
            name = volume.removeprefix(_NAME_PREFIXES.get(self.type, ""))
            return replace(self.network, name=f"{self.network.name}{name}")
        if self.makes_named_volumes:
            return DiskSource(self.source_type, f"{self.path}/{volume}")
        with translate_errors(f"cannot find volume {volume} of pool {self.name}"):
            return DiskSource(self.source_type, self.handle.storageVolLookupByName(volume).path())

    def volume_path(self, volume: str) -> str:
        """Where a volume of this name is, in one word: a path, or ``protocol:name``. See source_of."""
        return self.source_of(volume).place

    def name_at(self, source: DiskSource) -> str | None:
        """The name that a volume at this place would have here; None for a place that is not in this pool."""
        if self.network is not None:
            prefix, name = self.network.name or "", source.name or ""
            if (source.type, source.protocol) != (NETWORK, self.network.protocol) or not name.startswith(prefix):
                return None
            if self.network.is_apart(source):
                return None
            return f"{_NAME_PREFIXES.get(self.type, '')}{name[len(prefix) :]}"
        folder, name = posixpath.split(source.path)
        return name if source.type != NETWORK and self.path and folder == self.path else None


def require_free_space(requests: Iterable[SpaceRequest], where: str | None = None) -> None:
    """Raise ConflictError when the requests together want more than there is, counting what pools share only once."""
    by_place: dict[str, list[SpaceRequest]] = {}
    for request in requests:
        by_place.setdefault(request.shared, []).append(request)
    for group in by_place.values():
        needed = sum(request.needed_bytes for request in group)
        available = min(request.available_bytes for request in group)
        if needed > available:
            names = sorted({repr(request.pool) for request in group if request.needed_bytes})
            who = (
                f"pool {names[0]} has" if len(names) == 1 else f"pools {', '.join(names)} count as one file system with"
            )
            raise ConflictError(
                f"{who} {format_size(available)} free, the new volumes need {format_size(needed)} at once",
                where=where,
                hint="Free some space, choose another pool, or use overlays instead of copies",
            )


def not_mounted(name: str, path: str, where: str | None = None) -> ConflictError | None:
    """The error of a pool of this host whose directory is below a mount point at which nothing is mounted, if it is."""
    place = missing_mount(path)
    if place is None:
        return None
    return ConflictError(
        f"nothing is mounted at {place}, where /etc/fstab or systemd has the file system of storage pool {name!r}",
        where=where,
        hint=f"Mount it: mount {shlex.quote(place)}, or systemctl start its mount unit",
    )


def unmounted(name: str, path: str, where: str | None = None) -> ConflictError | None:
    """The error of an active pool that libvirt has mounted, and somebody has unmounted since, if it is one."""
    there = {mount.place for mount in read_mounts()}
    # A look at what is mounted may wait for its server.
    if not there or path in there or os.path.realpath(path) in there:
        return None
    again = shlex.quote(name)
    return ConflictError(
        f"nothing is mounted at {path} any more, where libvirt has mounted storage pool {name!r}",
        where=where,
        hint=f"Have it mounted again: virsh pool-destroy {again} && virsh pool-start {again}",
    )


def _have_one_space(one: Pool, other: Pool) -> bool:
    """Whether two pools of another machine are directories of one file system, as it seems: nobody tells it here."""
    if one.local or {one.type, other.type} != {"dir"} or one.capacity_bytes != other.capacity_bytes:
        return False
    return abs(one.available_bytes - other.available_bytes) <= one.capacity_bytes * _SAME_SPACE_SHARE


class Pools:
    """The pools of one hypervisor, listed once, each refreshed once and only when it is asked for."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        self._handles: dict[str, t.Any] | None = None
        self._known: dict[str, Pool] = {}
        self._lock = threading.Lock()

    def get(self, name: str, where: str | None = None) -> Pool:
        """An active pool by its name.

        Raises NotFoundError with the names that exist, ConflictError for an inactive one, UnsupportedError for a
        type of pool that QEMU cannot run machines from. Nothing is ever made, and nothing started but what is_started
        starts.
        """
        with self._lock:
            if name not in self._known:
                self._known[name] = self._beside_others(self._load(name, where))
            return self._known[name]

    def all(self) -> list[Pool]:
        """All active pools that machines can have disks in, by name, as libvirt knows them without looking again."""
        with self._lock, translate_errors("cannot inspect the storage pools"):
            found = (self._peek(name, handle) for name, handle in sorted(self._listed().items()))
            return [pool for pool in found if pool is not None]

    def _beside_others(self, pool: Pool) -> Pool:
        """A pool of another machine with the space of one that is on the same file system, by all that can be seen."""
        alike = (other.space_source for other in self._known.values() if _have_one_space(pool, other))
        return replace(pool, space_source=next(alike, pool.space_source))

    def _peek(self, name: str, handle: t.Any) -> Pool | None:
        """A pool without looking again; None for one that cannot be used now, or has gone since it was listed."""
        with suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL):
            root = read_description(f"storage pool {name}", handle.XMLDesc(0)) if is_started(handle) else None
            if root is not None and root.get("type") in _POOL_TYPES:
                return self._known.get(name) or _read(handle, root, self.local)
        return None

    def _listed(self) -> dict[str, t.Any]:
        if self._handles is None:
            with translate_errors("cannot list the storage pools"):
                self._handles = {handle.name(): handle for handle in self._conn.listAllStoragePools(0)}
        return self._handles

    @property
    def local(self) -> bool:
        """Whether their paths are those of the machine that this code runs on."""
        return is_local(self._conn.getURI())

    def _load(self, name: str, where: str | None) -> Pool:
        handles = self._listed()
        if name not in handles:
            raise NotFoundError(f"there is no storage pool {name!r}", where=where, hint=one_of_these(name, handles))
        handle = handles[name]
        with translate_errors(f"cannot inspect storage pool {name}", where):
            if not is_started(handle):
                raise ConflictError(
                    f"storage pool {name!r} is not active", where=where, hint=f"Start it: virsh pool-start {name}"
                )
            # Volumes may have come and gone behind libvirt's back. Another task's running job forbids a refresh; what
            # it makes is known to libvirt anyway.
            with contextlib.suppress(libvirt.libvirtError):
                handle.refresh(0)
            root = read_description(f"storage pool {name}", handle.XMLDesc(0))
            if root.get("type") not in _POOL_TYPES:
                raise UnsupportedError(
                    f"storage pool {name!r} is of type {root.get('type')}, which QEMU cannot run machines from",
                    where=where,
                    hint=f"Choose a pool of one of the types {', '.join(_POOL_TYPES)}",
                )
            return _read(handle, root, self.local)


def _read(handle: t.Any, root: etree._Element, local: bool) -> Pool:
    """A pool from its XML: https://libvirt.org/formatstorage.html"""
    name, path = root.findtext("name") or "", root.findtext("target/path", "").rstrip("/")
    return Pool(
        name=name,
        path=path,
        available_bytes=int(root.findtext("available") or 0),
        handle=handle,
        type=root.get("type") or "",
        capacity_bytes=int(root.findtext("capacity") or 0),
        local=local,
        space_source=_space_source(path)
        if local and _POOL_TYPES[root.get("type", "")].source == FILE
        else f"pool {name}",
        network=_network_source(root),
    )


def _space_source(path: str) -> str:
    # One whose server is gone is not to stop who asks for another.
    watch = Watch()
    try:
        return f"device {watch.call(f'{path}/', os.stat, path).st_dev}"
    except OSError:
        return f"directory {path}"
    finally:
        watch.end()


def _network_source(root: etree._Element) -> DiskSource | None:
    """For a network pool, the source of its volumes with all of the name that stands before the volume's own."""
    kind = root.get("type")
    source = root.find("source")
    if source is None or kind not in ("rbd", "gluster", "iscsi-direct"):
        return None
    if kind == "gluster":
        directory = (attribute(source, "dir", "path") or "").strip("/")
        protocol, prefix = "gluster", "/".join(filter(None, [source.findtext("name"), directory])) + "/"
    elif kind == "rbd":
        protocol, prefix = "rbd", f"{source.findtext('name')}/"
    else:
        protocol, prefix = "iscsi", f"{attribute(source, 'device', 'path') or ''}/"
    return network_source(source, source.find("auth"), protocol, prefix)


@contextlib.contextmanager
def full_pool_named(pool: Pool, what: str, needed_bytes: int | None) -> t.Iterator[None]:
    """Inside the block, an error that comes from the pool being full is raised as a HostError that says so.

    what: what cannot be done then, in words. needed_bytes: what it takes at most.
    """
    try:
        yield
    except VirtError as exc:
        if not _FULL.search(exc.what):
            raise
        if pool.local and pool.source_type == FILE:
            raise disk_full(what, pool.path, needed_bytes, pool.name) from exc
        free_bytes, total_bytes = _free_of_total_bytes(pool)
        raise no_space(what, pool.path or pool.type, free_bytes, needed_bytes, pool.name, total_bytes) from exc


def _free_of_total_bytes(pool: Pool) -> tuple[int | None, int | None]:
    """What libvirt finds now, or what it knew last; None when it does not say."""
    with contextlib.suppress(libvirt.libvirtError):
        pool.handle.refresh(0)
    try:
        found = pool.handle.info()
        return int(found[3]), int(found[1])
    except libvirt.libvirtError:
        return None, None
