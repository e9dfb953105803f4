# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a volume is the one that was created for a machine; its name is no proof, as others can use it.

A volume of files or of a Ceph cluster bears a mark since it was created (see _host/storage/proof.py), and its machine's
metadata has the same word. Where no mark can be (devices) or none is known (what a move has created, notes of earlier
versions), the name is all there is, and it takes the machine's own definition as well to tell whose the volume is.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace

from .._host.storage.pools import Pool
from .._host.storage.proof import has_marks, is_proven
from .._model.metadata.machine import CreationNote, VolumeNote
from .._model.xml.disk_source import FILE, RAW, noted_format

# The volume is the one of the note; it is another one; nothing on the volume could tell.
SAME, OTHER, UNTOLD = "same", "other", "untold"

_ATTRIBUTE = "user.brine.build"


def identify(pool: Pool, note: VolumeNote) -> str:
    """SAME, OTHER or UNTOLD. A volume that was never finished is OTHER unless it is proven, as when it is cleared."""
    if note.making is None:
        if not note.identity or not has_marks(pool):
            return UNTOLD
        # A raw file has its mark beside its content, which neither a distant libvirt nor every file system has.
        in_file = pool.source_type == FILE
        if (
            in_file
            and (noted_format(note) or RAW) == RAW
            and not (pool.local and _has_attributes(pool.volume_path(note.name)))
        ):
            return UNTOLD
        note = replace(note, making=CreationNote(note.identity))
    return SAME if is_proven(pool, note) else OTHER


def was_replaced(pool: Pool, note: VolumeNote) -> bool:
    """Whether a volume that this run has made a moment ago has another one in its place now, without its mark."""
    if note.making is None or is_proven(pool, note):
        return False
    return identify(pool, replace(note, making=None, identity=note.making.mark)) == OTHER


def _has_attributes(path: str) -> bool:
    """Whether a file is where files have extended attributes; True also when it is not there."""
    try:
        os.getxattr(path, _ATTRIBUTE)
    except OSError as exc:
        return exc.errno != errno.ENOTSUP
    return True
