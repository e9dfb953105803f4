# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored image's provenance, kept in an extended attribute of its own file (xattr(7)).

It goes when the file goes, and nothing has to be kept in step with it. A file system without extended attributes
forgets it, which costs a transfer and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os

from ..._model.image.name import PROVENANCE_ATTRIBUTE
from ..._model.image.provenance import Provenance, provenance_to_text, read_provenance


def load_provenance(path: str, name_digest: str) -> Provenance:
    """What an image's file says; nothing when it says nothing. name_digest: as for read_provenance."""
    with contextlib.suppress(OSError):
        return read_provenance(os.getxattr(path, PROVENANCE_ATTRIBUTE).decode(errors="replace"), name_digest)
    return Provenance()


def can_have_provenance(path: str) -> bool:
    """Whether the file system of a file has extended attributes, so that an image which was stored there says so."""
    try:
        os.getxattr(path, PROVENANCE_ATTRIBUTE)
    except OSError as exc:
        return exc.errno != errno.EOPNOTSUPP
    return True


def keep_provenance(file: str | int, provenance: Provenance) -> bool:
    """Write it to a file, given by path or descriptor; False when that cannot be."""
    text = provenance_to_text(provenance).encode()
    try:
        os.setxattr(file, PROVENANCE_ATTRIBUTE, text)
    except OSError:
        # No extended attributes here, no space for them, or a file that is another user's: all the same to us.
        return False
    return True
