# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings a machine from the state that it is in to the one that is requested. Asks nobody, changes nothing."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..._base.errors import ConflictError
from ..._host.machines.domains import keep_command
from .view import SAVED, PowerView

RUNNING, STOPPED, PAUSED, REBOOTED, RESET, CYCLED = "running", "stopped", "paused", "rebooted", "reset", "cycled"
REQUESTS = (RUNNING, STOPPED, PAUSED, REBOOTED, RESET, SAVED, CYCLED)

UP = frozenset({"running", "blocked"})
OFF = frozenset({"shutoff", SAVED})


class Action(enum.Enum):
    """One change of a machine's power state, in the words of the result."""

    START = "start"
    RESTORE = "resume from its saved state"
    RESUME = "resume"
    WAKE = "wake up"
    PAUSE = "pause"
    SHUT_DOWN = "shut down"
    POWER_OFF = "power off"
    REBOOT = "reboot"
    RESET = "reset"
    SAVE = "save"


# What has to be done before a guest in one of these states can be asked for anything; in others it cannot.
_BEFORE_ASKING: dict[str, tuple[Action, ...]] = {
    "running": (),
    "blocked": (),
    "shutdown": (),
    "paused": (Action.RESUME,),
    "pmsuspended": (Action.WAKE,),
}
POWERS_OFF = frozenset({Action.SHUT_DOWN, Action.POWER_OFF, Action.SAVE})
STARTS = frozenset({Action.START, Action.RESTORE})


@dataclass(frozen=True)
class PowerRequest:
    """What a task asks for.

    state: one of REQUESTS. timeout_seconds: how long a guest may take to shut down or reboot, and libvirt to save it.
    force: what the guest has not done by then is done without it.
    """

    state: str
    timeout_seconds: float
    force: bool = False

    @property
    def at_once(self) -> bool:
        """Whether the guest is not even asked."""
        return self.force and self.timeout_seconds == 0


def plan_actions(machine: PowerView, request: PowerRequest) -> tuple[Action, ...]:
    """What is to be done, in order; nothing when it is so already. Raises VirtError when it cannot be done."""
    machine.require_changeable(only_off=request.state == STOPPED)
    actions = _actions(machine, request)
    require_kept(machine, actions)
    return actions


def require_kept(machine: PowerView, actions: tuple[Action, ...]) -> None:
    """Raise ConflictError when the actions stop a machine that is not defined, and so is lost by that."""
    if not machine.persistent and POWERS_OFF.intersection(actions):
        raise ConflictError(
            "it is running but not defined here, so it is lost when it stops",
            hint=f"To keep it: {keep_command(machine.name)}",
        )


def expected_state(before: str, actions: tuple[Action, ...]) -> str:
    """The state that the machine is in after the actions."""
    state = before
    for action in actions:
        if action in (Action.SHUT_DOWN, Action.POWER_OFF):
            state = "shutoff"
        elif action is Action.SAVE:
            state = SAVED
        elif action is Action.PAUSE:
            state = "paused"
        elif action is not Action.RESET:
            state = "running"
    return state


def _actions(machine: PowerView, request: PowerRequest) -> tuple[Action, ...]:
    wanted = request.state
    if not machine.active:
        return _from_off(machine, wanted)
    if wanted == RUNNING:
        return _to_running(machine)
    if wanted == PAUSED:
        return () if machine.state == "paused" else (_require(machine, Action.PAUSE, UP, wanted),)
    if wanted == SAVED:
        return (_require(machine, Action.SAVE, UP | {"paused"}, wanted),)
    if wanted == RESET:
        return (_require(machine, Action.RESET, UP | {"paused"}, wanted),)
    if wanted == REBOOTED:
        return _by_guest(machine, request, Action.REBOOT, Action.RESET)
    stop = _by_guest(machine, request, Action.SHUT_DOWN, Action.POWER_OFF)
    return (*stop, Action.START) if wanted == CYCLED else stop


def _from_off(machine: PowerView, wanted: str) -> tuple[Action, ...]:
    saved = machine.state == SAVED
    if wanted == RUNNING:
        return (Action.RESTORE if saved else Action.START,)
    # Its memory stays saved: nothing here throws away what a guest had not written yet.
    if wanted == STOPPED or (wanted == SAVED and saved):
        return ()
    raise ConflictError(
        f"it is {'off, with its memory saved' if saved else 'off'}, so it cannot be {wanted}",
        hint="With in_state=running, what is off is left out",
    )


def _to_running(machine: PowerView) -> tuple[Action, ...]:
    if machine.state in UP:
        return ()
    if machine.state == "paused":
        return (Action.RESUME,)
    if machine.state == "pmsuspended":
        return (Action.WAKE,)
    if machine.state == "shutdown":
        return (Action.SHUT_DOWN, Action.START)
    raise ConflictError(
        f"it is {machine.state}, and does not go on", hint="state=cycled with force=true powers it off and on"
    )


def _require(machine: PowerView, action: Action, states: frozenset[str], wanted: str) -> Action:
    if machine.state not in states:
        raise ConflictError(f"it is {machine.state}, so it cannot be {wanted}")
    return action


def _by_guest(machine: PowerView, request: PowerRequest, gentle: Action, hard: Action) -> tuple[Action, ...]:
    """What the guest does itself where it can be asked, and what is done to it where it cannot and that is allowed."""
    first = _BEFORE_ASKING.get(machine.state)
    if first is not None and machine.paused_by is None and not request.at_once:
        return (*first, gentle)
    if request.force:
        # A reset leaves a machine that is paused so.
        return (hard, Action.RESUME) if hard is Action.RESET and machine.state == "paused" else (hard,)
    by_force = f"With force=true: {hard.value}"
    raise ConflictError(
        f"it is {machine.state}{f' {machine.paused_by}' if machine.paused_by else ''}, so its operating system cannot "
        f"{gentle.value}",
        hint=f"Remove the cause, and resume it with state=running. {by_force}" if machine.paused_by else by_force,
    )
