# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a stored image came under its name, as the note in its file says, for virt_info in few lines."""

from __future__ import annotations

import contextlib
import os

from ..._model.image.name import ImageName, read_stored

# Where a file has its provenance.
ATTRIBUTE = "user.brine.provenance"


def noted_time(path: str, image: ImageName) -> int | None:
    """In nanoseconds since 1970; None where nothing is noted, or only of another file that this is a copy of."""
    with contextlib.suppress(OSError):
        text = os.getxattr(path, ATTRIBUTE).decode(errors="replace")
        if f"content sha256:{image.digest}" in text:
            return dict(read_stored(text)).get(image.name)
    return None
