# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text about machines that did not come up: one block a machine."""

from __future__ import annotations

from collections.abc import Sequence

from ..._base.errors import visible
from .state import WaitState

_WORDS = {True: "ok", False: "FAILED", None: "-"}


def headline(wait_state: WaitState, timeout_seconds: float) -> str:
    """What became of it: the first stage that failed, what was seen last, and what to do next."""
    # One that nothing more is to be expected of was not waited for until the limit.
    late = "is not reachable" if wait_state.hopeless else f"was not reachable within {timeout_seconds:g} s"
    failed = wait_state.failed_stage
    at = f" (failed at: {failed.name})" if failed else ""
    step = f". {wait_state.next_step}" if wait_state.next_step else ""
    return visible(f"{wait_state.name} {late}{at}: {wait_state.seen}{step}").replace("\n", " ")


def block(wait_state: WaitState, timeout_seconds: float) -> str:
    """The headline, a line for each stage, and the ends of its logs, each line of theirs marked."""
    width = max((len(stage.name) for stage in wait_state.stages), default=0)
    lines = [headline(wait_state, timeout_seconds)]
    lines += [f"  {stage.name:{width}}  {_WORDS[stage.ok]:6}  {stage.seen}" for stage in wait_state.stages]
    if wait_state.qemu_log:
        lines += ["  The end of QEMU's log:", *_marked(wait_state.qemu_log)]
    if wait_state.console.lines:
        where = f", {wait_state.serial_log}" if wait_state.serial_log else ""
        lines += [f"  The end of its serial console, as the guest wrote it{where}:", *_marked(wait_state.console.lines)]
    elif wait_state.serial_log:
        lines.append(f"  Its serial console showed nothing ({wait_state.serial_log}).")
    return "\n".join(visible(line).replace("\n", " ") for line in lines)


def report(wait_states: Sequence[WaitState], timeout_seconds: float) -> str:
    """The blocks of all that did not come up."""
    return "\n".join(block(wait_state, timeout_seconds) for wait_state in wait_states if not wait_state.ready)


def _marked(lines: Sequence[str]) -> list[str]:
    return [f"    | {line}" for line in lines]
