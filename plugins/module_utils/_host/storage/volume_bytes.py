# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of a volume, wherever its hypervisor is; nothing in them is believed or followed here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import typing as t

from ..._base.errors import HostError
from ..._model.image.marks import HEAD_BYTES, add_qcow2_mark
from ..._model.image.qcow2 import Read
from ..._model.xml.disk_source import FILE
from ..connection import VirConnect, libvirt, translate_error, translate_errors
from .pools import Pool
from .volume_facts import Volume, volume_file

# Of what is read here: a header and the name in it.
_MOST_BYTES = 2 * 1024 * 1024
# What goes into one message of libvirt's protocol.
_CHUNK_BYTES = 256 * 1024
# Linux fills a range with zeros, and tells a device that can do it itself (linux/fs.h). Offset and length are whole
# blocks of the device, which has 4096 bytes at most.
_BLKZEROOUT = 0x127F
_BLOCK_BYTES = 4096
# A run that is ended waits no longer than for one of these.
_ZEROED_AT_ONCE = 256 * 1024 * 1024
_ZEROS = bytes(1024 * 1024)


def read_volume(pool: Pool, volume: Volume) -> Read | None:
    """What gives bytes of the volume by offset and length, from its file or through libvirt.

    None where neither is possible (libvirt's test driver).
    """
    if pool.local and volume.source.type == FILE:
        try:
            with volume_file(volume.source.path):
                return lambda offset, length: _from_file(volume.source.path, offset, length)
        except OSError:
            # libvirt may, where this user may not.
            pass
    read = _through_libvirt(pool, volume)
    try:
        read(0, 4)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
            return None
        raise translate_error(exc, f"cannot read volume {volume.name} of pool {pool.name}") from exc
    return read


def _from_file(path: str, offset: int, length: int) -> bytes:
    with volume_file(path) as read:
        return read(offset, length)


def _through_libvirt(pool: Pool, volume: Volume) -> Read:
    def read(offset: int, length: int) -> bytes:
        handle = pool.handle.storageVolLookupByName(volume.name)
        stream = pool.handle.connect().newStream(0)
        content = _download(handle, stream, offset, min(length, _MOST_BYTES))
        # What could not be read is not the end of the volume: a header that is not seen is not checked.
        stream.finish()
        return content

    return read


def read_start(volume: t.Any, conn: VirConnect, length: int) -> bytes:
    """The first bytes of a volume, at most so many. Raises what libvirt raises, as ours."""
    with translate_errors(f"cannot read volume {volume.name()}"):
        stream = conn.newStream(0)
        content = _download(volume, stream, 0, length)
        # Not to the end of what was announced, or to the end of a shorter volume: there is nothing to wait for.
        with contextlib.suppress(libvirt.libvirtError):
            stream.finish()
        return content


def _download(volume: t.Any, stream: t.Any, offset: int, length: int) -> bytes:
    volume.download(stream, offset, length, 0)
    content = b""
    while len(content) < length:
        chunk = stream.recv(length - len(content))
        if not chunk:
            break
        content += chunk
    return content


def write_start(volume: t.Any, conn: VirConnect, content: bytes) -> None:
    """Put these bytes at the beginning of a volume. Raises what libvirt raises."""
    stream = conn.newStream(0)
    volume.upload(stream, 0, len(content), 0)
    for start in range(0, len(content), _CHUNK_BYTES):
        chunk = content[start : start + _CHUNK_BYTES]
        # A stream may take less than it is given.
        while chunk:
            chunk = chunk[stream.send(chunk) :]
    stream.finish()


def mark_qcow2(volume: t.Any, conn: VirConnect, mark: str) -> bool:
    """Put a mark into the header of a qcow2 volume; False for one that has no place for it.

    Raises what libvirt raises, as ours: UnsupportedError where volumes cannot be read and written through it.
    """
    head = add_qcow2_mark(read_start(volume, conn, HEAD_BYTES), mark)
    if head is None:
        return False
    with translate_errors(f"cannot mark volume {volume.name()}"):
        write_start(volume, conn, head)
    return True


def zero_logical(pool: Pool, volume: t.Any, start: int) -> None:
    """Fill a logical volume with zeros, from this byte to its end; nothing for volumes of other pools.

    LVM gives a new volume, and the new part of a larger one, the extents of volumes that were deleted, with what their
    machines have written (lvcreate(8) zeroes 4 KiB), and libvirt changes nothing about it. volume: libvirt's handle.
    """
    if pool.type != "logical":
        return
    what = f"cannot wipe volume {volume.name()} of pool {pool.name}"
    if pool.local:
        try:
            zero_device(volume.path(), start)
            return
        except OSError as exc:
            # libvirt may, where this user may not.
            if exc.errno not in (errno.EACCES, errno.EPERM):
                raise HostError(f"{what}: {exc.strerror}", hint="It may have what a deleted volume had") from exc
    try:
        if start == 0:
            volume.wipe(0)
            return
        # It wipes whole volumes alone.
        end = int(volume.info()[1])
        if start < end:
            _send_zeros(volume, start, end)
    except libvirt.libvirtError as exc:
        # A driver without it has no content either (libvirt's test driver).
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise translate_error(exc, what) from exc


def device_bytes(path: str) -> int | None:
    """The size of a device now; None where this user cannot read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def zero_device(path: str, start: int) -> None:
    """Fill a device, or a file, with zeros from this byte to its end, and have it on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        while start < end:
            # Up to a whole block first.
            until = min(end, start + (-start % _BLOCK_BYTES or _ZEROED_AT_ONCE))
            if start % _BLOCK_BYTES or not _zeroed_by_kernel(descriptor, start, until - start):
                while start < until:
                    start += os.pwrite(descriptor, _ZEROS[: until - start], start)
            start = until
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _zeroed_by_kernel(descriptor: int, start: int, length: int) -> bool:
    try:
        fcntl.ioctl(descriptor, _BLKZEROOUT, struct.pack("=QQ", start, length))
    except OSError as exc:
        if exc.errno in (errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    return True


def _send_zeros(volume: t.Any, start: int, end: int) -> None:
    stream = volume.connect().newStream(0)
    volume.upload(stream, start, end - start, 0)
    while start < end:
        start += stream.send(_ZEROS[: min(_CHUNK_BYTES, end - start)])
    stream.finish()
