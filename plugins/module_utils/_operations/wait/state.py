# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of one machine that is waited for, and the text about those that did not come up."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import visible
from .console_log import ConsoleLog

BOOTING = "booting"
ORIGINS = {
    "static": "static address",
    "lease": "DHCP lease",
    "agent": "address from the guest agent",
    "arp": "address seen on the network",
}
_WORDS = {True: "ok", False: "FAILED", None: "-"}


@dataclass(frozen=True)
class Stage:
    """One stage on the way to SSH. ok: None where it is not reached, not needed, or nobody can know."""

    name: str
    ok: bool | None
    seen: str


@dataclass
class WaitState:
    """One machine on its way; ready says that it answers, seen what was seen last.

    power: state and reason, as virDomainGetState has them, None when the machine is no longer defined. nics: as in its
    record. agent: whether its guest agent is connected, None where its definition has no channel for one. ssh_answers:
    whether a server greeted; host_key: whether that had a key that the machine is known to have, None where that could
    not be found out. errors: what could not be asked, such as leases.
    """

    name: str
    ready: bool = False
    address: str | None = None
    seen: str = "nothing"
    hopeless: bool = False
    waited_seconds: float = 0.0
    serial_log: str | None = None
    stage: str = "not seen yet"
    console: ConsoleLog = ConsoleLog()
    power: tuple[int, int] | None = (0, 0)
    nics: Sequence[Mapping[str, t.Any]] = ()
    host_keys: Sequence[str] = ()
    agent: bool | None = None
    ssh_answers: bool | None = None
    host_key: bool | None = None
    errors: Sequence[str] = ()
    # The last moments, by the clock of the wait: its addresses were asked for, its console said something new; and
    # since when it has booted and has no address, and another machine's host key was seen.
    asked_at: float | None = None
    console_new_at: float = 0.0
    without_address_since: float | None = None
    other_key_since: float | None = None
    # Of one that did not come up.
    stages: Sequence[Stage] = ()
    next_step: str = ""
    qemu_log: Sequence[str] = ()
    domain: t.Any = field(default=None, repr=False)

    @property
    def origins(self) -> list[tuple[str, str]]:
        """Every address with where it is known from."""
        return [(a["address"], a["origin"]) for nic in self.nics for a in nic["addresses"]]

    @property
    def failed_stage(self) -> Stage | None:
        """The first stage that failed; None where none did, such as when SSH was only slow."""
        return next((stage for stage in self.stages if stage.ok is False), None)


def headline(wait_state: WaitState, timeout_seconds: float) -> str:
    """What became of it: the first stage that failed, what was seen last, and what to do next."""
    # One that nothing more is to be expected of was not waited for until the limit.
    late = "is not reachable" if wait_state.hopeless else f"was not reachable within {timeout_seconds:g} s"
    failed = wait_state.failed_stage
    at = f" (failed at: {failed.name})" if failed else ""
    step = f". {wait_state.next_step}" if wait_state.next_step else ""
    return visible(f"{wait_state.name} {late}{at}: {wait_state.seen}{step}").replace("\n", " ")


def block(wait_state: WaitState, timeout_seconds: float) -> str:
    """The headline, and what was seen."""
    return "\n".join([headline(wait_state, timeout_seconds), *seen_lines(wait_state)])


def seen_lines(wait_state: WaitState) -> list[str]:
    """A line for each stage, and the ends of its logs, each line of theirs marked."""
    width = max((len(stage.name) for stage in wait_state.stages), default=0)
    lines = [f"  {stage.name:{width}}  {_WORDS[stage.ok]:6}  {stage.seen}" for stage in wait_state.stages]
    if wait_state.qemu_log:
        lines += ["  The end of QEMU's log:", *_marked(wait_state.qemu_log)]
    if wait_state.console.lines:
        where = f", {wait_state.serial_log}" if wait_state.serial_log else ""
        lines += [f"  The end of its serial console, as the guest wrote it{where}:", *_marked(wait_state.console.lines)]
    elif wait_state.serial_log:
        lines.append(f"  Its serial console showed nothing ({wait_state.serial_log}).")
    return [visible(line).replace("\n", " ") for line in lines]


def seen_as_result(wait_state: WaitState) -> dict[str, t.Any]:
    """The stages and the end of the serial console's log in the words of a module's result."""
    return {
        "stages": [{"stage": stage.name, "ok": stage.ok, "seen": visible(stage.seen)} for stage in wait_state.stages],
        "serial_log_end": list(wait_state.console.lines),
    }


def report(wait_states: Sequence[WaitState], timeout_seconds: float) -> str:
    """The blocks of all that did not come up."""
    return "\n".join(block(wait_state, timeout_seconds) for wait_state in wait_states if not wait_state.ready)


def _marked(lines: Sequence[str]) -> list[str]:
    return [f"    | {line}" for line in lines]
