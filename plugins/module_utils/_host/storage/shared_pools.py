# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether other hypervisors may see a storage pool as well, so that this one cannot tell alone who uses a volume; and
whether one of them does, as a move has to know."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import posixpath
import typing as t
import uuid
from decimal import Decimal

from ..._base.errors import VirtError
from ..._base.files import MOUNTS, exported_directory, mount_of, read_mounts
from ..._base.xml import attribute, etree, read_description
from ..._model.xml.disk_source import FILE
from ..connection import by_name, translate_errors
from .pools import Pool
from .volume_facts import UNIT_POOL_TYPES, last_written, volume_serial

# Pools that are a way to storage elsewhere. https://libvirt.org/storage.html
_SHARED_TYPES = frozenset({"gluster", "iscsi", "iscsi-direct", "mpath", "netfs", "rbd", "scsi", "sheepdog", "vstorage"})
# The types of file systems, as the kernel names them, of which each is mounted by one host at a time. All others may be
# shared: those of clusters, what user space serves (SSH, S3, GlusterFS ...), what is mounted only when it is used
# (autofs), and those that are not known here. https://docs.kernel.org/filesystems/
_LOCAL_FILE_SYSTEMS = frozenset(
    {
        *("bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfsplus", "iso9660", "jfs"),
        *("nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "udf", "vfat"),
        *("xfs", "zfs", "fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.ntfs-3g", "fuse.snapfuse", "fuse.zfs-fuse"),
    }
)
# An NFS client may say of a file what it knew so many seconds ago: acregmax in nfs(5).
_STALE_SECONDS = 60
# Pools that are a way to storage elsewhere: two of them with the same source show the same volumes.
_NETWORKED = frozenset({"netfs", "gluster", "iscsi", "iscsi-direct"})
_SAN = frozenset({"scsi", "mpath"})


def shared_because(pool: Pool) -> str | None:
    """In words, why other hypervisors may use volumes of this pool; None for storage of this hypervisor alone.

    Of a pool that this code has only a connection to, its type is all that is known.
    """
    if pool.type in _SHARED_TYPES:
        return f"storage pool {pool.name} is of type {pool.type}"
    if pool.source_type != FILE or not pool.local:
        return None
    because = shared_path_because(pool.path)
    return because and f"storage pool {pool.name} {because}"


def shared_path_because(path: str) -> str | None:
    """In words, why other hosts may have what is at a path of this one: where it lies; None where only this one has
    it."""
    kind = file_system_type(path)
    if kind not in _LOCAL_FILE_SYSTEMS:
        return f"lies on a file system of type {kind or 'unknown'}"
    exported = exported_directory(path)
    return exported and f"lies in {exported}, which this host exports by NFS"


def seen_elsewhere(pool: Pool) -> str | None:
    """In words, what cannot be known here about who uses volumes of a pool; None where all can be known."""
    because = shared_because(pool)
    return because and f"{because}, and what machines of other hypervisors use there cannot be seen from this one"


def file_system_type(path: str, mounts: str | None = None) -> str:
    """The type of the file system that a path is on, as mount(8) has it; empty when it cannot be told.

    mounts: another table of mounted file systems than MOUNTS, in the same form.
    """
    mount = mount_of(path, read_mounts(mounts or MOUNTS))
    return mount.kind if mount else ""


def mounted_at(path: str, mounts: str | None = None) -> str | None:
    """What is mounted at a path itself, as mount(8) calls it: a device, a server and what it exports; None for nothing.

    mounts: as in file_system_type.
    """
    real = os.path.realpath(path)
    return next((mount.source for mount in reversed(read_mounts(mounts or MOUNTS)) if mount.place == real), None)


def is_shared(here: Pool, there: Pool, volume: str, *, seen: bool, probe: bool) -> bool:
    """Whether the target sees the very volume that is in this pool at the source.

    here, there: the pool at the source, and the one of its name on the target. seen: whether that one has a volume of
    this name. probe: whether it may be tried out, by making a file for a moment; without that, of two folders it is
    only what it looks like, and nothing may be done by it.
    """
    if here.type != there.type:
        return False
    if here.type == "rbd":
        # Of its monitors, each hypervisor may have been told others.
        return here.name_at(there.source_of("")) == ""
    if here.type in UNIT_POOL_TYPES and not (seen and _is_same_unit(here, there, volume)):
        return False
    if here.type in _NETWORKED and not _is_mounted_from_itself(here) and _origin(here) == _origin(there):
        return here.path == there.path
    if here.type in _SAN:
        return True
    if not seen or here.path != there.path or here.source_type != FILE or not here.local:
        return False
    # The same name in a folder of the same name: one file, or two.
    return _same_folder(here, there) if probe else _looks_the_same(here, there, volume)


def _is_same_unit(here: Pool, there: Pool, volume: str) -> bool:
    """Whether a device that has this name on both is one device: a target may show each host others under one number.

    By its serial number; of one that tells none, the name has to do.
    """
    serials = {volume_serial(pool, volume) for pool in (here, there)}
    return len(serials) == 1 or None in serials


def _source(pool: Pool) -> etree._Element | None:
    with translate_errors(f"cannot inspect storage pool {pool.name}"):
        return read_description(f"storage pool {pool.name}", pool.handle.XMLDesc(0)).find("source")


def _is_mounted_from_itself(pool: Pool) -> bool:
    """Whether the hypervisor mounts what it exports itself, so that the same words mean another export elsewhere.

    GlusterFS is asked where it is, and each host of a volume leads to all of it.
    """
    source = _source(pool) if pool.type == "netfs" else None
    if source is None or attribute(source, "format", "type") == "glusterfs":
        return False
    return any(_is_loopback(host.get("name", "")) for host in source.iterfind("host"))


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name.lower().partition(".")[0] in ("localhost", "ip6-localhost")


def _origin(pool: Pool) -> bytes:
    """Where a pool's storage is, in libvirt's words, without what each hypervisor has of its own."""
    source = _source(pool)
    if source is None:
        return b""
    for own in [*source.findall("auth"), *source.findall("initiator")]:
        source.remove(own)
    return bytes(etree.tostring(source, method="c14n")).replace(b" ", b"").replace(b"\n", b"")


def _looks_the_same(here: Pool, there: Pool, volume: str) -> bool:
    """Whether a volume was last changed at the same time, and has the same size, in both pools.

    The guest may write to it meanwhile, so it is looked at here once more after that; and the target may know of an
    earlier change only.
    """
    before, found, after = _last_change(here, volume), _last_change(there, volume), _last_change(here, volume)
    if before is None or found is None or after is None:
        return False
    return before.size == found.size == after.size and before.time - _STALE_SECONDS <= found.time <= after.time


def _same_folder(here: Pool, there: Pool) -> bool:
    """Whether a file that is made here is seen there."""
    name = f"brine-virt-probe-{uuid.uuid4().hex}"
    path = posixpath.join(here.path, name)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    try:
        with contextlib.suppress(VirtError), translate_errors(f"cannot refresh pool {there.name}"):
            there.handle.refresh(0)
            return name in by_name(there.handle.listAllVolumes(0))
        return False
    finally:
        os.unlink(path)


class _LastChange(t.NamedTuple):
    """When a file was last changed, in seconds, and its size in bytes."""

    time: Decimal
    size: str


def _last_change(pool: Pool, name: str) -> _LastChange | None:
    """Of a volume; None where libvirt does not tell the time."""
    with translate_errors(f"cannot find volume {name} of pool {pool.name}"):
        time, _blank, size = last_written(pool.handle.storageVolLookupByName(name)).partition(" ")
    return _LastChange(Decimal(time), size) if time else None
