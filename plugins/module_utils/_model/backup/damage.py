# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a backup that was found damaged: its file ``.brine-backup-damaged``. Described on the page of
formats.

By its dot, earlier versions take it for nothing of somebody's, and remove it with the backup.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ..._base.errors import single_line, visible

DAMAGED = ".brine-backup-damaged"
# As much of it as is read.
MOST_BYTES = 16 * 1024
_MOST_CHARACTERS = 1000
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", re.ASCII)


@dataclass(frozen=True)
class Damage:
    """what: the file and what is wrong with it, empty where the note does not say. found: when (UTC), in ISO 8601."""

    what: str = ""
    found: str = ""

    @property
    def words(self) -> str:
        """The same for a message."""
        return (self.what or "it was found damaged") + (f" (found on {self.found})" if self.found else "")

    def to_text(self) -> str:
        """What is in the file."""
        return json.dumps({"format": 1, "found": self.found, "what": self.what}, indent=2) + "\n"


def read_damage(content: bytes) -> Damage:
    """What a file says. One that says nothing that can be read still tells that there is damage."""
    try:
        said = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return Damage()
    what, found = (said.get(key) for key in ("what", "found")) if isinstance(said, dict) else (None, None)
    return Damage(
        visible(single_line(what))[:_MOST_CHARACTERS] if isinstance(what, str) else "",
        found if isinstance(found, str) and _TIME.match(found) else "",
    )
