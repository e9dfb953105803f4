# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file a disk of a machine is, beyond its name: libvirt's bitmaps are in the files, and go where these go."""

from __future__ import annotations

import os
import stat

from ..._model.backup.manifest import MARK, SourceFile
from ..._model.image.marks import HEAD_BYTES, read_qcow2_mark


def source_file(path: str) -> SourceFile | None:
    """What tells the file at this path from all others; None for what is no file here, such as a block device.

    Not the device of its file system, which may have another number after a boot. Whoever swaps two files by copying
    leaves their inodes as they are: the mark that our own images have in their headers goes with the content.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return SourceFile(found.st_ino, _mark(path)) if stat.S_ISREG(found.st_mode) else None


def _mark(path: str) -> str:
    """Empty where there is none, and where root may not read the file, as on a share where it is another user."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        mark = read_qcow2_mark(os.pread(descriptor, HEAD_BYTES, 0)) or ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    # Anything else is not ours, and no manifest has it.
    return mark if MARK.match(mark) else ""
