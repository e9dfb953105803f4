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

import base64
import contextlib
import fcntl
import os
import struct
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._commands import run_program
from ansible_collections.brine.virt.plugins.module_utils._errors import HostError, UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours, libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.volumes import (
    make_volume,
    new_volume_element,
)
from ansible_collections.brine.virt.plugins.module_utils._model.disk_source import (
    BLOCK,
    FILE,
    NETWORK,
    DiskSource,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image_header import HEADER_BYTES, disk_format
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml

# ioctl_ficlone(2), ioctl_ficlonerange(2)
_FICLONE = 0x40049409
_FICLONERANGE = 0x4020940D
_RANGE = struct.Struct("=qQQQ")
# The pools whose volumes libvirt makes from another volume: those with a buildVolFrom in src/storage/ of libvirt.
_FILLED_BY_LIBVIRT = frozenset({"dir", "fs", "netfs", "vstorage", "logical"})
_FILLED_HERE = frozenset({"zfs", "rbd"})
_CONVERT_SECONDS = 24 * 3600
KEY_ID = "key"
_CEPH_PORT = 6789


@dataclass(frozen=True)
class _Source:
    """A volume to copy from. overlay: it holds only the difference to another one."""

    handle: t.Any
    name: str
    pool: str
    path: str
    format: str
    kind: str
    overlay: bool


def shares_blocks(pool: Pool, image_path: str, image_format: str) -> bool:
    """Whether a full copy of this image to this pool, in the image's own format, takes no room of its own at first.

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


def create_copy(pool: Pool, name: str, *, size_bytes: int, image_format: str, source: t.Any) -> None:
    """A new volume with all of another volume's content, grown to size_bytes.

    source: libvirt's handle of the volume to copy, which nobody writes to. Blocks are shared with it where the file
    system can. Raises UnsupportedError when the pool cannot hold such a copy; whatever else goes wrong, what was made
    is left under this name for the caller to take back.
    """
    pool.require_format(image_format)
    origin = _look_at(source)
    if not origin.overlay and shares_blocks(pool, origin.path, image_format):
        _clone(pool, name, size_bytes, image_format, origin)
    elif pool.type in _FILLED_BY_LIBVIRT or (pool.type == "rbd" and pool.name == origin.pool):
        # In an rbd pool, libvirt looks for the source by its name alone, and in the target's pool.
        _copy_by_libvirt(pool, name, size_bytes, image_format, origin)
    elif pool.local and pool.type in _FILLED_HERE and origin.kind in (FILE, BLOCK):
        _fill_here(pool, name, size_bytes, origin)
    else:
        raise UnsupportedError(
            f"an image of pool {origin.pool} cannot be copied to pool {pool.name}, which is of type {pool.type}",
            hint=f"Bring the image into pool {pool.name} first, and make the disk from that",
        )


def _look_at(handle: t.Any) -> _Source:
    with errors_as_ours("cannot look at the volume to copy"):
        root = parse_xml(handle.XMLDesc(0))
        image_format = root.find("target/format")
        return _Source(
            handle=handle,
            name=handle.name(),
            pool=handle.storagePoolLookupByVolume().name(),
            path=root.findtext("target/path") or "",
            format="raw" if image_format is None else image_format.get("type", "raw"),
            kind=root.get("type", "file"),
            overlay=root.find("backingStore/path") is not None,
        )


def _clone(pool: Pool, name: str, size_bytes: int, image_format: str, origin: _Source) -> None:
    volume = make_volume(pool, name, new_volume_element(pool, name, size_bytes, image_format))
    try:
        with open(origin.path, "rb") as image, open(pool.source_of(name).path, "r+b") as copy:
            if image_format != "raw":
                copy.truncate(0)
            fcntl.ioctl(copy.fileno(), _FICLONE, image.fileno())
    except OSError as exc:
        raise HostError(f"cannot copy {origin.path} to volume {name} of pool {pool.name}: {exc.strerror}") from exc
    _grow_to(volume, size_bytes, name, pool)


def _copy_by_libvirt(pool: Pool, name: str, size_bytes: int, image_format: str, origin: _Source) -> None:
    root = new_volume_element(pool, name, size_bytes, image_format)
    volume = None
    # Files of another machine cannot be cloned from here. libvirt can, raw to raw, and leaves nothing when it cannot.
    if not pool.local and pool.source_type == FILE and origin.format == image_format == "raw":
        with contextlib.suppress(VirtError):
            volume = make_volume(pool, name, root, origin.handle, libvirt.VIR_STORAGE_VOL_CREATE_REFLINK)
    if volume is None:
        volume = make_volume(pool, name, root, origin.handle)
    if pool.source_type != BLOCK:
        _grow_to(volume, size_bytes, name, pool)


def _fill_here(pool: Pool, name: str, size_bytes: int, origin: _Source) -> None:
    """Fill a new volume by QEMU's own tool, for pools that libvirt makes only empty volumes in (zfs, rbd)."""
    make_volume(pool, name, new_volume_element(pool, name, size_bytes, "raw"))
    target = pool.source_of(name)
    # -n: the volume is there. It has never been written to, so that zeros need not be.
    command, key = ["qemu-img", "convert", "-n", "--target-is-zero", "-f", origin.format], b""
    if target.type == NETWORK:
        if target.auth_user is not None:
            key = _key(pool, target)
            command += ["--object", f"secret,id={KEY_ID},format=base64,file=/dev/stdin"]
        command += ["--target-image-opts", origin.path, rbd_options(target)]
    else:
        command += ["-O", "raw", origin.path, target.path]
    what = f"cannot copy {origin.path} to {target.place}"
    try:
        answer = run_program(command, data=key, timeout_seconds=_CONVERT_SECONDS)
    except (FileNotFoundError, TimeoutError) as exc:
        raise HostError(f"{what}: {exc}") from exc
    if answer.status != 0:
        raise HostError(f"{what}: {answer.complaint}")


def rbd_options(source: DiskSource) -> str:
    """A volume of a Ceph cluster in the words of QEMU's rbd driver, for --target-image-opts (qemu-img(1)).

    BlockdevOptionsRbd in https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html
    """
    pool, _slash, image = (source.name or "").partition("/")
    options = {"driver": "rbd", "pool": pool, "image": image}
    if source.auth_user is not None:
        options.update({"user": source.auth_user, "key-secret": KEY_ID})
        options.update({"auth-client-required.0": "cephx", "auth-client-required.1": "none"})
    for index, (host, port) in enumerate(source.hosts):
        options.update({f"server.{index}.host": host, f"server.{index}.port": str(port or _CEPH_PORT)})
    return ",".join(f"{key}={value.replace(',', ',,')}" for key, value in options.items())


def _key(pool: Pool, source: DiskSource) -> bytes:
    """The cluster's key, which libvirt keeps, in base64. It goes through a pipe, into no file and no command line."""
    with errors_as_ours(f"cannot read the key for pool {pool.name}, which libvirt keeps"):
        conn = pool.handle.connect()
        if source.secret_uuid is not None:
            secret = conn.secretLookupByUUIDString(source.secret_uuid)
        else:
            secret = conn.secretLookupByUsage(libvirt.VIR_SECRET_USAGE_TYPE_CEPH, source.secret_usage)
        return base64.b64encode(secret.value(0))


def _grow_to(volume: t.Any, size_bytes: int, name: str, pool: Pool) -> None:
    with errors_as_ours(f"cannot grow volume {name} of pool {pool.name}"):
        if volume.info()[1] < size_bytes:
            volume.resize(size_bytes, 0)
