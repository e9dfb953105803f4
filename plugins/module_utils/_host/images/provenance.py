# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored image's provenance, kept in an extended attribute of its own file (xattr(7)).

It goes when the file goes, and nothing has to be kept in step with it. A file system without extended attributes
forgets it, which costs a transfer and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import stat

from ..._base.errors import HostError
from ..._model.image.checksum import Checksum
from ..._model.image.name import PRIVATE_MODE, STORED_MODE
from ..._model.image.provenance import Provenance, provenance_to_text, read_provenance
from .files import hash_file

_ATTRIBUTE = "user.brine.provenance"


def load_provenance(path: str, name_digest: str) -> Provenance:
    """What an image's file says; nothing when it says nothing. name_digest: as for read_provenance."""
    with contextlib.suppress(OSError):
        return read_provenance(os.getxattr(path, _ATTRIBUTE).decode(errors="replace"), name_digest)
    return Provenance()


def keep_provenance(file: str | int, provenance: Provenance) -> bool:
    """Write it to a file, given by path or descriptor; False when that cannot be."""
    text = provenance_to_text(provenance).encode()
    try:
        os.setxattr(file, _ATTRIBUTE, text)
    except OSError:
        # No extended attributes here, no space for them, or a file that is another user's: all the same to us.
        return False
    return True


def is_brought(path: str, name_digest: str, *, read_only: bool) -> bool:
    """Whether a file is the image that its name says, and not something of somebody's that only has such a name.

    It is when it has a provenance, or the mode of a stored image. What a move has sent has neither: that is read, and
    unless read_only the result is kept with it. name_digest: as for read_provenance. What is not there is no file of
    anybody's; what cannot be read may be.
    """
    if load_provenance(path, name_digest) != Provenance():
        return True
    try:
        if stat.S_IMODE(os.stat(path).st_mode) in (STORED_MODE, PRIVATE_MODE):
            return True
        content = hash_file(path)
    except FileNotFoundError:
        return True
    except (OSError, HostError):
        return False
    fits = content.sha256.startswith(name_digest)
    if fits and not read_only:
        keep_provenance(path, Provenance((Checksum("sha256", content.sha256),)))
    return fits
