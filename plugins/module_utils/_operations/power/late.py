# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of machines whose guest has not shut down or rebooted in time: often, that it is still booting."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from ..._base.errors import VirtError
from ..._host.connection import VirConnect
from ..wait.console_log import read_console_log
from ..wait.diagnosis import diagnose
from ..wait.look import find_domains, look
from ..wait.state import WaitState, seen_lines
from .change import BY_GUEST, NotDoneError
from .machines import PowerResult

_SSH_PORT = 22


def look_at_late(conn: VirConnect, results: Iterable[PowerResult]) -> dict[str, WaitState]:
    """Those that did not do what their guest was asked, by name, each with its stages on the way to SSH.

    What goes wrong here hides nothing of what was done: none are returned then.
    """
    late = [WaitState(result.machine.name) for result in results if _is_late(result)]
    with contextlib.suppress(VirtError):
        find_domains(conn, late)
        look(conn, late, _SSH_PORT, time.monotonic)
        for wait_state in late:
            wait_state.console = read_console_log(wait_state.serial_log, wait_state.console)
        diagnose(conn, late, _SSH_PORT)
        return {wait_state.name: wait_state for wait_state in late}
    return {}


def late_report(late: Iterable[WaitState]) -> str:
    """A block of lines for each."""
    blocks = ([f"What was seen of {wait_state.name}:", *seen_lines(wait_state)] for wait_state in late)
    return "\n".join(line for block in blocks for line in block)


def _is_late(result: PowerResult) -> bool:
    left = result.actions[len(result.done) :]
    return isinstance(result.error, NotDoneError) and bool(left) and left[0] in BY_GUEST
