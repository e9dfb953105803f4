# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether other hypervisors may see a storage pool as well, so that this one cannot tell alone who uses a volume."""

from __future__ import annotations

import os
import re

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import FILE

MOUNTS = "/proc/self/mountinfo"
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
# Blanks and backslashes in a path are octal there: proc(5).
_OCTAL = re.compile(r"\\([0-7]{3})")


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
    real = os.path.realpath(path)
    found = [entry for entry in _mounted(mounts) if _is_below(real, entry[0])]
    # Of several at one place, the last one is on top.
    longest = max((len(place) for place, _kind, _source in found), default=0)
    return next((kind for place, kind, _source in reversed(found) if len(place) == longest), "")


def mounted_at(path: str, mounts: str | None = None) -> str | None:
    """What is mounted at a path itself, as mount(8) calls it: a device, a server and what it exports; None for nothing.

    mounts: as in file_system_type.
    """
    real = os.path.realpath(path)
    return next((source for place, _kind, source in reversed(_mounted(mounts)) if place == real), None)


def _mounted(mounts: str | None) -> list[tuple[str, str, str]]:
    try:
        with open(mounts or MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            return [entry for entry in map(_mount, table) if entry]
    except OSError:
        return []


def _mount(line: str) -> tuple[str, str, str] | None:
    """Mount point, type and source: the fifth word, and the first two after a dash; there may be any number between."""
    words = line.split()
    if "-" not in words[6:-2]:
        return None
    place, source = (
        _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), word)
        for word in (words[4], words[words.index("-", 6) + 2])
    )
    return place, words[words.index("-", 6) + 1], source


def _is_below(path: str, place: str) -> bool:
    return place == "/" or path == place or path.startswith(f"{place}/")
