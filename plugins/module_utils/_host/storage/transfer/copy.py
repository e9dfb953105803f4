# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Full copies of volumes: sharing blocks where the file system can, converting where the format has to change.

libvirt itself shares blocks for raw to raw alone, and fails where it cannot instead of copying
(VIR_STORAGE_VOL_CREATE_REFLINK; src/storage/storage_util.c of libvirt 9). So files of this machine are cloned here:
libvirt makes a volume under the new name first, which makes sure that the name is free and gives it owner, mode and
security label, and that volume gets all blocks of the image. A run that is killed in between leaves a volume that the
notes of its machine list.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import typing as t
from dataclasses import dataclass

from ...._base.errors import ConflictError, HostError, UnsupportedError, VirtError
from ...._base.qemu_img import OnPercent, run_qemu_img
from ...._base.xml import attribute, read_description
from ...._model.image.header import HEADER_BYTES, disk_format
from ...._model.xml.disk_source import BLOCK, FILE, NETWORK
from ...connection import libvirt, translate_errors
from ..ceph import QemuName, qemu_name
from ..pools import Pool, full_pool_named
from ..proof import mark_volume
from ..volume_bytes import zero_logical
from ..volume_facts import find_volume
from ..volumes import grow_volume, make_volume, new_volume_element

# ioctl_ficlone(2), ioctl_ficlonerange(2)
_FICLONE = 0x40049409
_FICLONERANGE = 0x4020940D
_RANGE = struct.Struct("=qQQQ")
# The pools whose volumes libvirt makes from another volume: those with a buildVolFrom in src/storage/ of libvirt.
_FILLED_BY_LIBVIRT = frozenset({"dir", "fs", "netfs", "vstorage", "logical"})
_FILLED_HERE = frozenset({"zfs", "rbd"})
_FILES_FILLED_HERE = frozenset({"dir", "fs"})
_CONVERT_SECONDS = 24 * 3600


@dataclass(frozen=True)
class _CopySource:
    """A volume to copy from. overlay: it holds only the difference to another one. size_bytes: of its disk."""

    handle: t.Any
    name: str
    pool: str
    path: str
    format: str
    kind: str
    overlay: bool
    size_bytes: int


def shares_blocks(pool: Pool, image_path: str, image_format: str) -> bool:
    """Whether a full copy of this image to this pool, in the image's own format, takes no space of its own at first.

    Tried with one block and a file that has no name, which the kernel takes away whatever happens.
    """
    if not pool.local or image_format not in pool.formats or pool.source_type != FILE:
        return False
    with contextlib.suppress(OSError), open(image_path, "rb") as image:
        if disk_format(image.read(HEADER_BYTES)) != image_format:
            return False
        fd = os.open(pool.path, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            status = os.fstat(image.fileno())
            length = status.st_blksize if status.st_size >= status.st_blksize else 0
            fcntl.ioctl(fd, _FICLONERANGE, _RANGE.pack(image.fileno(), 0, length, 0))
        finally:
            os.close(fd)
        return True
    return False


def create_copy(
    pool: Pool,
    name: str,
    *,
    size_bytes: int,
    image_format: str,
    source: t.Any,
    source_format: str,
    mark: str = "",
    wipe: bool = True,
    on_percent: OnPercent | None = None,
) -> None:
    """A new volume with all of another volume's content, grown to size_bytes.

    source: libvirt's handle of the volume to copy, which nobody writes to; source_format: what it is known to be.
    Blocks are shared with it where the file system can. mark: what tells the volume from others, see proof.py; it
    has it before its content, unless libvirt fills it. wipe: whether a logical volume has zeros after its content.
    on_percent: called with how much is copied, unless libvirt copies, which does not say.
    Raises ConflictError when libvirt takes the source for another format, UnsupportedError when the pool cannot hold
    such a copy; whatever else goes wrong, what was made is left under this name for the caller to take back.
    """
    pool.require_format(image_format)
    origin = _look_at(source, source_format)
    with full_pool_named(pool, f"cannot copy {origin.name} to volume {name} of pool {pool.name}", size_bytes):
        _copy(pool, name, size_bytes, image_format, origin, mark, wipe=wipe, on_percent=on_percent)


def _copy(
    pool: Pool,
    name: str,
    size_bytes: int,
    image_format: str,
    origin: _CopySource,
    mark: str,
    *,
    wipe: bool,
    on_percent: OnPercent | None,
) -> None:
    if not origin.overlay and shares_blocks(pool, origin.path, image_format):
        _clone(pool, name, size_bytes, image_format, origin, mark)
    elif _fills_files(pool) and origin.kind in (FILE, BLOCK):
        _fill_here(pool, name, size_bytes, image_format, origin, mark, on_percent)
    elif pool.type in _FILLED_BY_LIBVIRT:
        # Not in an rbd pool: when the name is taken there, libvirt deletes what has it.
        _copy_by_libvirt(pool, name, size_bytes, image_format, origin, mark, wipe=wipe)
    elif pool.local and pool.type in _FILLED_HERE and origin.kind in (FILE, BLOCK):
        _fill_here(pool, name, size_bytes, "raw", origin, mark, on_percent)
    else:
        raise UnsupportedError(
            f"an image of pool {origin.pool} cannot be copied to pool {pool.name}, which is of type {pool.type}",
            hint="Leave clone out: the disk is a clone of the image then"
            if pool.name == origin.pool
            else f"Store the image in pool {pool.name} first, and create the disk from it",
        )


def _look_at(handle: t.Any, image_format: str) -> _CopySource:
    with translate_errors("cannot inspect the volume to copy"):
        name, pool = handle.name(), handle.storagePoolLookupByVolume().name()
        root = read_description(f"volume {name} of pool {pool}", handle.XMLDesc(0))
    by_libvirt = attribute(root, "target/format", "type") or "raw"
    if "qcow2" in (image_format, by_libvirt) and image_format != by_libvirt:
        # libvirt copies and converts by its own word.
        raise ConflictError(
            f"volume {name} of pool {pool} is of format {image_format}, but libvirt treats it as {by_libvirt}",
            hint=f"It may have changed since libvirt last read it: virsh pool-refresh {pool}",
        )
    return _CopySource(
        handle=handle,
        name=name,
        pool=pool,
        path=root.findtext("target/path") or "",
        format=image_format,
        kind=root.get("type", "file"),
        overlay=root.find("backingStore/path") is not None,
        size_bytes=int(root.findtext("capacity") or 0),
    )


def _fills_files(pool: Pool) -> bool:
    """Whether new volumes of a pool are files that this user can fill: the user whose libvirt makes them.

    libvirt's own way gives a volume all of its content before it can be marked. On a network file system, only libvirt
    knows whose files it makes there.
    """
    if not pool.local or pool.type not in _FILES_FILLED_HERE:
        return False
    with contextlib.suppress(OSError):
        return os.geteuid() in (0, os.stat(pool.path).st_uid)
    return False


def _clone(pool: Pool, name: str, size_bytes: int, image_format: str, origin: _CopySource, mark: str) -> None:
    made = make_volume(pool, name, new_volume_element(pool, name, size_bytes, image_format), mark=mark)
    try:
        with open(origin.path, "rb") as image, open(pool.source_of(name).path, "r+b") as copy:
            if image_format != "raw":
                copy.truncate(0)
            fcntl.ioctl(copy.fileno(), _FICLONE, image.fileno())
    except OSError as exc:
        raise HostError(f"cannot copy {origin.path} to volume {name} of pool {pool.name}: {exc.strerror}") from exc
    # An image's header has come with its blocks.
    mark_volume(pool, made, image_format, mark)
    _grow_to(pool, name, size_bytes, image_format)


def _copy_by_libvirt(
    pool: Pool, name: str, size_bytes: int, image_format: str, origin: _CopySource, mark: str, *, wipe: bool
) -> None:
    root = new_volume_element(pool, name, size_bytes, image_format)
    made = False
    # Files of another machine cannot be cloned from here. libvirt can, raw to raw, and leaves nothing when it cannot.
    if not pool.local and pool.source_type == FILE and origin.format == image_format == "raw":
        with contextlib.suppress(VirtError):
            make_volume(pool, name, root, origin.handle, libvirt.VIR_STORAGE_VOL_CREATE_REFLINK, mark=mark)
            made = True
    if not made:
        filled = make_volume(pool, name, root, origin.handle, mark=mark)
        if wipe:
            zero_logical(pool, filled, origin.size_bytes)
    if pool.source_type != BLOCK:
        _grow_to(pool, name, size_bytes, image_format)


def _fill_here(
    pool: Pool,
    name: str,
    size_bytes: int,
    image_format: str,
    origin: _CopySource,
    mark: str,
    on_percent: OnPercent | None,
) -> None:
    """Fill a new volume by QEMU's own tool: a marked file, or one of a pool that libvirt makes only empty volumes in
    (zfs, rbd)."""
    make_volume(pool, name, new_volume_element(pool, name, size_bytes, image_format), mark=mark)
    target = pool.source_of(name)
    into = qemu_name(pool, name) if target.type == NETWORK else QemuName(target.path)
    # -n: the volume is there. It has never been written to, so that zeros need not be.
    words = [*into.options, "-n", "--target-is-zero", "-O", image_format, origin.path, into.name]
    how: dict[str, t.Any] = {"timeout_seconds": _CONVERT_SECONDS, "on_percent": on_percent}
    answer = run_qemu_img("convert", origin.format, *words, data=into.data, **how)
    answer.require(f"cannot copy {origin.path} to {target.place}")


def _grow_to(pool: Pool, name: str, size_bytes: int, image_format: str) -> None:
    found = find_volume(pool, name, image_format=image_format)
    if found is not None and found.capacity_bytes < size_bytes:
        grow_volume(pool, name, size_bytes, image_format=image_format)
