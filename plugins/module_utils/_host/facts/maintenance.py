# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hypervisor is in maintenance: a small file on the hypervisor itself, which outlives a restart.

Who places machines reads it and puts none here. What is here already is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone

from ..._base.errors import HostError
from ..._base.files import read_text, root_hint, sync_folder, write_whole

PATH = "/var/lib/brine-virt/maintenance.json"


@dataclass(frozen=True)
class Maintenance:
    """since: the beginning, in UTC as ISO 8601 writes it, None when the file does not say; reason: the user's words."""

    since: str | None
    reason: str | None

    def as_dict(self) -> dict[str, str | None]:
        return {"since": self.since, "reason": self.reason}


def begin(reason: str | None) -> Maintenance:
    """A maintenance that begins now."""
    return Maintenance(datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), reason)


def read_maintenance(path: str = PATH) -> Maintenance | None:
    """What the file says; None where there is none. A file that makes no sense is a maintenance all the same.

    Raises HostError when the file cannot be read.
    """
    text = read_text(path)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        return Maintenance(None, f"{path} cannot be parsed")
    since, reason = content.get("since"), content.get("reason")
    return Maintenance(since if isinstance(since, str) else None, reason if isinstance(reason, str) else None)


def write_maintenance(wanted: Maintenance | None, path: str = PATH) -> None:
    """Make the file say this, in one stroke; None removes it. Raises HostError."""
    directory = os.path.dirname(path)
    try:
        if wanted is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                sync_folder(directory)
            return
        os.makedirs(directory, mode=0o755, exist_ok=True)
        # It survives the very power cut that a maintenance may be about.
        write_whole(path, f"{json.dumps(wanted.as_dict())}\n".encode(), 0o644)
    except OSError as exc:
        raise HostError(f"cannot write {path}: {exc.strerror}", hint=root_hint(exc)) from exc
