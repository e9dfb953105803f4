# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volume is the very one that a move has made, or has come from: told by more than its name.

libvirt tells nothing of a file's inode, so a move leaves marks. On the target: in the header of a qcow2 volume that
QEMU fills, and at the beginning of what is sent, until its content is whole; from then on the time of its last change
tells. At the source: an extended attribute of the file. Logical volumes have an id of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import typing as t

from ...._base.errors import NotFoundError, UnsupportedError
from ...._host.connection import VirConnect, translate_errors
from ...._host.storage.pools import Pool
from ...._host.storage.transfer.upload import send_mark
from ...._host.storage.volume_bytes import mark_qcow2, read_start
from ...._host.storage.volume_facts import last_written
from ...._model.image.marks import HEAD_BYTES, Upload, read_qcow2_mark, read_upload
from ...._model.metadata.migration import VolumeIdentity, VolumeRef
from ...._model.xml.disk_source import FILE

_ATTRIBUTE = "user.brine.move"
# Pools whose volumes have a key that no other volume ever gets (the UUID of an LV); elsewhere it is the path.
# https://libvirt.org/formatstorage.html#general-metadata
_OWN_KEYS = frozenset({"logical"})


def identify_made(pool: Pool, volume: t.Any, conn: VirConnect, upload: Upload, *, filled: bool) -> VolumeIdentity:
    """What tells a volume on the target that has just been made; a mark is written to it, where that can be.

    volume: libvirt's handle. filled: its content is sent to it, and not written by QEMU.
    """
    identity = VolumeIdentity(key=_key(pool, volume))
    # Not every kind of pool lets its volumes be read and written through libvirt.
    with contextlib.suppress(UnsupportedError):
        if filled:
            send_mark(volume, conn, upload)
            return dataclasses.replace(identity, mark=upload.token)
        if pool.source_type != FILE:
            return identity
        if mark_qcow2(volume, conn, upload.token):
            return dataclasses.replace(identity, mark=upload.token)
    return identity


def identify_whole(pool: Pool, volume: t.Any) -> VolumeIdentity:
    """What tells a volume on the target whose content has been sent."""
    return VolumeIdentity(key=_key(pool, volume), written=last_written(volume))


def identify_source(pool: Pool, name: str, mark: str) -> VolumeIdentity:
    """What tells a volume of this hypervisor; a file gets the mark as an extended attribute, where that can be."""
    if pool.local and pool.source_type == FILE:
        with contextlib.suppress(OSError):
            os.setxattr(pool.volume_path(name), _ATTRIBUTE, mark.encode())
            return VolumeIdentity(mark=mark)
        return VolumeIdentity()
    with translate_errors(f"cannot inspect volume {name} of pool {pool.name}"):
        return VolumeIdentity(key=_key(pool, pool.handle.storageVolLookupByName(name)))


def is_the_one(pool: Pool, ref: VolumeRef, conn: VirConnect) -> bool | None:
    """Whether a volume is the one that is meant; False where nothing proves it, None where there is none."""
    try:
        with translate_errors(f"cannot inspect volume {ref.name} of pool {pool.name}"):
            volume = pool.handle.storageVolLookupByName(ref.name)
            identity = ref.identity
            if identity.key:
                return bool(volume.key() == identity.key)
            if identity.written and identity.written == last_written(volume):
                return True
    except NotFoundError:
        return None
    return bool(identity.mark) and identity.mark in _marks(pool, volume, conn)


def is_as_it_was_made(pool: Pool, ref: VolumeRef, conn: VirConnect) -> bool:
    """Whether nobody has written to a volume since the move has made or filled it, or there is none.

    That it is the very one does not tell: the id of a logical volume stays the same whatever is written to it.
    """
    identity = dataclasses.replace(ref.identity, key="")
    return is_the_one(pool, dataclasses.replace(ref, identity=identity), conn) is not False


def _marks(pool: Pool, volume: t.Any, conn: VirConnect) -> set[str]:
    """All marks that a volume has."""
    marks: set[str] = set()
    if pool.local and pool.source_type == FILE:
        with contextlib.suppress(OSError):
            marks.add(os.getxattr(volume.path(), _ATTRIBUTE).decode(errors="replace"))
    head = b""
    with contextlib.suppress(UnsupportedError):
        head = read_start(volume, conn, HEAD_BYTES)
    upload = read_upload(head)
    found = (None if upload is None else upload.token, read_qcow2_mark(head))
    return marks | {mark for mark in found if mark}


def _key(pool: Pool, volume: t.Any) -> str:
    if pool.type not in _OWN_KEYS:
        return ""
    with translate_errors(f"cannot inspect volume {volume.name()} of pool {pool.name}"):
        return str(volume.key())
