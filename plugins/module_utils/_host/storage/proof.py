# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a volume is the one that an interrupted run has made; its name is no proof, as others can use it.

A new volume gets a mark before anything is written to it: a qcow2 file an extension of its header, which goes when
somebody copies another image over it, a raw file of this machine an extended attribute, and a volume of a Ceph cluster
an entry in its metadata there, which every hypervisor sees. A run that is killed between the two leaves a volume that
holds nothing: a file is known by its size, its format and what it is laid on, and nobody loses anything with it. A
volume of a cluster is not proven then, nor is one where no mark can be (block devices).

A volume that no machine's notes tell of has a mark that says so until QEMU has filled it (_model/image/marks.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import struct
import typing as t

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError
from ..._base.xml import attribute, read_description
from ..._model.image.marks import HEAD_BYTES, Upload, add_qcow2_mark, read_mark, read_qcow2_mark
from ..._model.image.qcow2 import BrokenQcow2Error, read_header
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.xml.disk_source import FILE, QCOW2, format_by_name
from ..connection import translate_errors
from .ceph import has_bindings, open_cluster
from .pools import Pool
from .volume_bytes import mark_qcow2, read_start

_ATTRIBUTE = "user.brine.build"
_METADATA = "brine.build"
# libvirt rounds the size of an image up to a whole number of these.
_UNIT_BYTES = 1024
# The number of snapshots: https://www.qemu.org/docs/master/interop/qcow2.html
_SNAPSHOTS_OFFSET = 60
# Besides the tables that the header leads to, a new image has one block of reference counts, and is aligned.
_MORE_CLUSTERS = 4


def mark_volume(pool: Pool, volume: t.Any, image_format: str, mark: str) -> None:
    """Have a volume that was just made say whose it is, where that can be; for files of this machine without asking
    libvirt.

    volume: libvirt's handle. image_format: as it was made.
    """
    if mark and pool.clones_images and has_bindings():
        with open_cluster(pool) as cluster, cluster.open(volume.name()) as image:
            mark_in_cluster(image, mark)
    if not mark or pool.source_type != FILE:
        return
    with translate_errors(f"cannot mark a new volume of pool {pool.name}"):
        if pool.local and _mark_file(volume.path(), image_format, mark):
            return
        if image_format != QCOW2:
            return
        # Not every kind of pool lets its volumes be read and written through libvirt.
        with contextlib.suppress(UnsupportedError):
            mark_qcow2(volume, pool.handle.connect(), mark)


def mark_in_cluster(image: t.Any, mark: str) -> None:
    """Mark a volume of a Ceph cluster. image: it, opened by Ceph's bindings."""
    image.metadata_set(_METADATA, mark)


def _mark_file(path: str, image_format: str, mark: str) -> bool:
    """Mark a file of this machine; False where that cannot be."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = add_qcow2_mark(os.pread(descriptor, HEAD_BYTES, 0), mark) if image_format == QCOW2 else None
        if head is not None:
            return os.pwrite(descriptor, head, 0) == len(head)
        os.setxattr(descriptor, _ATTRIBUTE, mark.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def has_marks(pool: Pool) -> bool:
    """Whether volumes of a pool can have a mark, which in a Ceph cluster takes its bindings to write and to read."""
    return pool.source_type == FILE or (pool.clones_images and has_bindings())


def is_proven(pool: Pool, note: VolumeNote) -> bool:
    """Whether the volume of this name is the one that the note was written for, or holds nothing yet.

    False where nothing proves it, as with notes of earlier versions. True when there is none.
    """
    if note.making is None or not note.making.mark or not has_marks(pool):
        return False
    if pool.clones_images:
        return _ask_cluster(pool, note.name, note.making.mark)
    here = _look_here(pool, note, note.making) if pool.local else None
    return _ask_libvirt(pool, note, note.making) if here is None else here


def _ask_cluster(pool: Pool, volume: str, mark: str) -> bool:
    with open_cluster(pool) as cluster:
        try:
            with cluster.open(volume, read_only=True) as image:
                return bool(image.metadata_get(_METADATA) == mark)
        except cluster.rbd.ImageNotFound:
            return True
        except KeyError:
            return False


def mark_of(pool: Pool, volume: str) -> str | None:
    """The mark of a volume; None for one without, for one that is not there, and where none can be or be read.

    The header of a file counts only if its name says that it is qcow2: that of a raw one is its guest's.
    """
    if not has_marks(pool):
        return None
    if pool.clones_images:
        return _mark_in_cluster(pool, volume)
    in_header = format_by_name(volume) == QCOW2
    if pool.local:
        with contextlib.suppress(PermissionError):
            return _mark_of_file(pool.volume_path(volume), in_header=in_header)
    if in_header:
        with contextlib.suppress(UnsupportedError, NotFoundError), translate_errors(f"cannot inspect volume {volume}"):
            handle = pool.handle.storageVolLookupByName(volume)
            return read_qcow2_mark(read_start(handle, pool.handle.connect(), HEAD_BYTES))
    return None


def unfinished_of(pool: Pool, volume: str) -> Upload | None:
    """Who fills, or has begun to fill, a volume whose mark says that it is not whole; None for any other."""
    return read_mark(mark_of(pool, volume))


def _mark_in_cluster(pool: Pool, volume: str) -> str | None:
    with open_cluster(pool) as cluster:
        try:
            with cluster.open(volume, read_only=True) as image:
                return str(image.metadata_get(_METADATA))
        except (cluster.rbd.ImageNotFound, KeyError):
            return None


def _mark_of_file(path: str, *, in_header: bool) -> str | None:
    """Raises PermissionError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise
    except OSError:
        return None
    try:
        if in_header:
            mark = read_qcow2_mark(os.pread(descriptor, HEAD_BYTES, 0))
            if mark is not None:
                return mark
        return os.getxattr(descriptor, _ATTRIBUTE).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def require_proven(pool: Pool, note: VolumeNote) -> None:
    """Raise ConflictError, with what can be done, unless is_proven."""
    if not is_proven(pool, note):
        raise ConflictError(
            f"nothing proves that volume {note.name} of pool {note.pool} was created for it, so it is kept",
            hint=f"{by_hand(note)}; otherwise rename it first",
        )


def by_hand(note: VolumeNote) -> str:
    """How somebody who knows better deletes a volume."""
    return f"If nobody needs it: {deletion(note.pool, note.name)}"


def deletion(pool: str, volume: str) -> str:
    """The command that deletes a volume. Of a share, another host, or a user there, may have chosen its name."""
    return shlex.join(["virsh", "vol-delete", volume, "--pool", pool])


def _look_here(pool: Pool, note: VolumeNote, making: CreationNote) -> bool | None:
    """The answer of a file of this machine; None when this user may not read it."""
    try:
        descriptor = os.open(pool.volume_path(note.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except PermissionError:
        return None
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        with contextlib.suppress(OSError):
            if os.getxattr(descriptor, _ATTRIBUTE).decode(errors="replace") == making.mark:
                return True
        if note.format == QCOW2:
            marked = read_qcow2_mark(os.pread(descriptor, HEAD_BYTES, 0)) == making.mark
            return marked or _is_empty_qcow2(descriptor, making)
        return _is_empty_file(descriptor, making)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_empty_file(descriptor: int, making: CreationNote) -> bool:
    """Whether a file has the size that it was to have, and nothing has ever been written to it."""
    if making.size_bytes not in (None, os.fstat(descriptor).st_size):
        return False
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as exc:
        return exc.errno == errno.ENXIO
    return False


def _is_empty_qcow2(descriptor: int, making: CreationNote) -> bool:
    """Whether an image is as it was to be made, and leads to no data of its own."""
    try:
        header = read_header(lambda offset, length: os.pread(descriptor, length, offset))
    except BrokenQcow2Error:
        return False
    if header is None or header.data_file or header.unknown_features or header.encrypted:
        return False
    if making.size_bytes is None or not 0 <= header.virtual_size_bytes - making.size_bytes < _UNIT_BYTES:
        return False
    if (header.backing_file or "") != making.backing:
        return False
    snapshots = struct.unpack(">I", os.pread(descriptor, 4, _SNAPSHOTS_OFFSET))[0]
    longest = header.tables_end + _MORE_CLUSTERS * header.cluster_bytes
    if snapshots or os.fstat(descriptor).st_size > longest:
        return False
    return not os.pread(descriptor, 8 * header.l1_entries, header.l1_offset).strip(b"\0")


def _ask_libvirt(pool: Pool, note: VolumeNote, making: CreationNote) -> bool:
    """The answer for a file that this machine, or this user, cannot read."""
    what = f"cannot inspect volume {note.name} of pool {pool.name}"
    try:
        with translate_errors(what):
            volume = pool.handle.storageVolLookupByName(note.name)
            root = read_description(f"volume {note.name}", volume.XMLDesc(0))
            if _is_said_to_be_empty(root, note, making):
                return True
            if note.format != QCOW2:
                return False
            with contextlib.suppress(UnsupportedError):
                return read_qcow2_mark(read_start(volume, pool.handle.connect(), HEAD_BYTES)) == making.mark
    except NotFoundError:
        return True
    return False


def _is_said_to_be_empty(root: t.Any, note: VolumeNote, making: CreationNote) -> bool:
    """Whether libvirt knows the volume as it was to be made, and that it takes no space at all."""
    return (
        root.get("type", FILE) == FILE
        and root.findtext("allocation") == "0"
        and making.size_bytes in (None, int(root.findtext("capacity") or 0))
        and attribute(root, "target/format", "type") == note.format
        and (root.findtext("backingStore/path") or "") == making.backing
    )
