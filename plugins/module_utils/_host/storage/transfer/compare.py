# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a volume holds the content of a file, which is known by its checksum alone."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import typing as t

from ...._base.errors import HostError
from ...._model.image.qcow2 import Read
from ...._model.xml.disk_source import BLOCK, NETWORK
from ..pools import Pool
from ..volume_bytes import read_volume
from ..volume_facts import Volume

_CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(_CHUNK_BYTES)


def holds(
    pool: Pool,
    volume: Volume,
    sha256: str,
    size_bytes: int,
    on_progress: t.Callable[[int, int], t.Any] = lambda _done, _all: None,
) -> bool | None:
    """Whether the volume begins with a content of this sha256 and size, with nothing but zeros after it.

    None where the volume cannot be read at all (libvirt's test driver). What follows on a device is not looked at: a
    new device has there what was on the disk before. Raises HostError when reading fails.
    """
    what = f"cannot read volume {volume.name} of pool {pool.name}"
    if pool.local and volume.source.type != NETWORK:
        try:
            descriptor = os.open(volume.source.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            # libvirt may, where this user may not.
            pass
        else:
            try:
                return _compare(_reader(descriptor), _skipper(descriptor), volume, sha256, size_bytes, on_progress)
            except OSError as exc:
                raise HostError(f"{what}: {exc.strerror or exc}") from exc
            finally:
                os.close(descriptor)
    read = read_volume(pool, volume)
    return None if read is None else _compare(read, lambda at: at, volume, sha256, size_bytes, on_progress)


def _reader(descriptor: int) -> Read:
    return lambda offset, length: os.pread(descriptor, length, offset)


def _skipper(descriptor: int) -> t.Callable[[int], int]:
    """Where the next data may be from a position on; -1 where there is none any more."""

    def skip(position: int) -> int:
        try:
            return os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as exc:
            return -1 if exc.errno == errno.ENXIO else position

    return skip


def _compare(
    read: Read,
    skip: t.Callable[[int], int],
    volume: Volume,
    sha256: str,
    size_bytes: int,
    on_progress: t.Callable[[int, int], t.Any],
) -> bool:
    hashed, position = hashlib.sha256(), 0
    while position < size_bytes:
        chunk = read(position, min(_CHUNK_BYTES, size_bytes - position))
        if not chunk:
            return False
        hashed.update(chunk)
        position += len(chunk)
        on_progress(position, size_bytes)
    if hashed.hexdigest() != sha256:
        return False
    return volume.source.type == BLOCK or _is_zero_from(read, skip, position)


def _is_zero_from(read: Read, skip: t.Callable[[int], int], position: int) -> bool:
    while position >= 0:
        position = skip(position)
        chunk = read(position, _CHUNK_BYTES) if position >= 0 else b""
        if chunk != _ZEROS[: len(chunk)]:
            return False
        position = position + len(chunk) if chunk else -1
    return True


def stamp_of(pool: Pool, volume: Volume) -> t.Hashable:
    """What changes when another volume takes this one's place, or its content changes, as far as that can be seen."""
    if pool.local and volume.source.type != NETWORK:
        with contextlib.suppress(OSError):
            status = os.stat(volume.source.path)
            return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return volume.source, volume.capacity_bytes, volume.looks_like
