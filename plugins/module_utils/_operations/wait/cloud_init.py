# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cloud-init says of its run, read inside the guest through its agent.

Where the agent is not allowed to read files, which is so on Red Hat's family, that is said.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import typing as t
from collections.abc import Mapping

from ..._base.errors import HostError, VirtError
from .log_text import shortened, visible_lines

# Source: https://docs.cloud-init.io/en/latest/explanation/return_codes.html and the file itself
STATUS_FILE = "/run/cloud-init/status.json"
_MOST_BYTES = 64 * 1024
_MOST_ERRORS = 3
_MOST_ERROR_COLUMNS = 160
# One command of the agent's protocol and its arguments in, its answer out.
Ask = t.Callable[[str, Mapping[str, t.Any]], t.Any]


def read_status(ask: Ask) -> tuple[bool | None, str]:
    """Whether cloud-init has ended well, None while it runs; and that in words. Raises VirtError when nobody knows."""
    handle = ask("guest-file-open", {"path": STATUS_FILE, "mode": "r"})
    if not isinstance(handle, int):
        # It goes back to the guest, and what is nested deeply could not be written.
        raise HostError("the guest agent's answer cannot be read")
    try:
        answer = ask("guest-file-read", {"handle": handle, "count": _MOST_BYTES})
    finally:
        # A file that stays open costs the agent little; the answer counts.
        with contextlib.suppress(VirtError):
            ask("guest-file-close", {"handle": handle})
    try:
        return judge_status(json.loads(base64.b64decode(answer["buf-b64"])))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, binascii.Error) as exc:
        raise HostError(f"{STATUS_FILE} in the guest has not the contents that cloud-init gives it") from exc


def judge_status(status: t.Any) -> tuple[bool | None, str]:
    """The same from the contents of the file. Raises AttributeError, KeyError or TypeError for another shape."""
    run = status["v1"]
    stages = {name: stage for name, stage in run.items() if isinstance(stage, dict) and "errors" in stage}
    errors = [_line(error) for stage in stages.values() for error in stage["errors"]]
    if errors:
        more = len(errors) - _MOST_ERRORS
        return False, "; ".join(errors[:_MOST_ERRORS]) + (f"; and {more} more" if more > 0 else "")
    if run.get("stage"):
        return None, f"it is running ({_line(run['stage'])})"
    if not any(stage.get("finished") for stage in stages.values()):
        return None, "it has not run yet"
    return True, "it has ended without an error"


def _line(text: t.Any) -> str:
    return shortened(" ".join(visible_lines(str(text))), _MOST_ERROR_COLUMNS)
