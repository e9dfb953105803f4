# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether other hypervisors may see a storage pool as well, so that this one cannot tell alone who uses a volume."""

from __future__ import annotations

import os

from ..._base.files import MOUNTS, mount_of, read_mounts
from ..._model.xml.disk_source import FILE
from .pools import Pool

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


def shared_because(pool: Pool) -> str | None:
    """In words, why other hypervisors may use volumes of this pool; None for storage of this hypervisor alone.

    Of a pool that this code has only a connection to, its type is all that is known.
    """
    if pool.type in _SHARED_TYPES:
        return f"storage pool {pool.name} is of type {pool.type}"
    if pool.source_type != FILE or not pool.local:
        return None
    kind = file_system_type(pool.path)
    if kind not in _LOCAL_FILE_SYSTEMS:
        return f"storage pool {pool.name} lies on a file system of type {kind or 'unknown'}"
    return None


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
