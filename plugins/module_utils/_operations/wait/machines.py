# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for machines to answer, and saying what was seen when they do not."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Sequence

from ..._host.connection import VirConnect
from ..._host.progress import some_of
from .console_log import read_console_log
from .diagnosis import diagnose
from .look import find_domains, look
from .state import BOOTING, WaitState

# Between one look and the next. Half of it is what a machine that answers is noticed late, on average.
_PAUSE_SECONDS = 0.5
# A line about a wait in which nothing changes comes this often, and less often when it has lasted a while: several
# hypervisors may wait at once, each with lines of its own.
_LINE_SECONDS, _LATER_LINE_SECONDS, _A_WHILE_SECONDS = 10.0, 30.0, 60.0
# After a panic or the like, the console is given this long to go on after all, as a guest does that restarts itself.
_SILENT_SECONDS = 10.0
# So long may a machine have booted, as its console says, and have no address.
_ADDRESS_SECONDS = 60.0
# So long another host key is waited out: while it boots, a guest may show the one of its image.
_OTHER_KEY_SECONDS = 30.0


def wait_for_machines(
    conn: VirConnect,
    names: Sequence[str],
    *,
    port: int | None,
    timeout_seconds: float,
    on_progress: Callable[[str], t.Any] = lambda _line: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], t.Any] = time.sleep,
) -> list[WaitState]:
    """Wait until all machines have an address and, with a port, greet there as SSH does; or until the time is over.

    Looks at all of them together, twice a second. A machine that has stopped, or whose console says that nothing comes
    any more, is not waited for. Those that did not come up have their stages filled in (Stage). on_progress: takes a
    line about the stages that they are in, whenever that changes, and every ten to thirty seconds. Raises NotFoundError
    for a name that does not exist.
    """
    begun = clock()
    wait_states = {name: WaitState(name, console_new_at=begun) for name in names}
    find_domains(conn, list(wait_states.values()))
    last_line, last_line_at, changed_at = "", begun, begun
    while True:
        on_the_way = [a for a in wait_states.values() if not a.ready and not a.hopeless]
        look(conn, on_the_way, port, clock)
        now = clock()
        for wait_state in on_the_way:
            _judge(wait_state, now)
            wait_state.waited_seconds = round(now - begun, 1)
        line = stages_line(list(wait_states.values()))
        changed_at = now if line != last_line else changed_at
        often = _LINE_SECONDS if now - changed_at < _A_WHILE_SECONDS else _LATER_LINE_SECONDS
        if line != last_line or now - last_line_at >= often:
            on_progress(f"{now - begun:.0f} s: {line}")
            last_line, last_line_at = line, now
        if all(a.ready or a.hopeless for a in wait_states.values()) or clock() - begun > timeout_seconds:
            diagnose(conn, [a for a in wait_states.values() if not a.ready], port)
            return list(wait_states.values())
        pause(_PAUSE_SECONDS)


def stages_line(wait_states: Sequence[WaitState]) -> str:
    """Which machines are in which stage, in a line."""
    stages: dict[str, list[str]] = {}
    for wait_state in wait_states:
        stages.setdefault(wait_state.stage, []).append(wait_state.name)
    return "; ".join(f"{stage}: {some_of(names)}" for stage, names in stages.items())


def _judge(wait_state: WaitState, now: float) -> None:
    """What the console says beside the rest, and whether the wait is in vain by all that."""
    before = wait_state.console
    wait_state.console = console = read_console_log(wait_state.serial_log, before)
    if wait_state.ready or wait_state.hopeless:
        return
    if console.size_bytes != before.size_bytes:
        wait_state.console_new_at = now
    if not (console.booted and wait_state.address is None):
        wait_state.without_address_since = None
    elif wait_state.without_address_since is None:
        wait_state.without_address_since = now
    since = wait_state.without_address_since
    if wait_state.other_key_since is not None and now - wait_state.other_key_since >= _OTHER_KEY_SECONDS:
        _give_up(wait_state, wait_state.seen)
    elif console.dead_end is not None and now - wait_state.console_new_at >= _SILENT_SECONDS:
        _give_up(wait_state, f"its serial console shows {console.dead_end}; {wait_state.seen}")
    elif since is not None and now - since >= _ADDRESS_SECONDS:
        words = f"according to its serial console it booted {now - since:.0f} s ago or more, but {wait_state.seen}"
        _give_up(wait_state, words)
    elif console.dead_end is not None:
        wait_state.stage = f"its console shows {console.dead_end}"
    elif console.cloud_init or since is not None:
        rest = "no address yet" if wait_state.stage == BOOTING else wait_state.stage
        wait_state.stage = f"{'cloud-init' if console.cloud_init else 'booted'}, {rest}"


def _give_up(wait_state: WaitState, seen: str) -> None:
    wait_state.hopeless, wait_state.stage, wait_state.seen = True, "given up", seen
