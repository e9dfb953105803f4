# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power state of an active machine, brought to the one that its spec asks for, by the same code as virt_power.

One that is off is started by a step of its plan, unless it may start with older data. What is done here may have to
wait for a guest, and so it is done when everything else is done and the hypervisor's lock is free for others.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ..._base.errors import VirtError
from ..._host.connection import VirConnect, translate_errors
from ..._host.machines.domains import Domain
from ..._model.spec.machine import Machine
from ..._model.spec.machine_state import RUNNING, STOPPED
from ..machine_plan import MachinePlan
from ..power.machines import PowerResult, carry_out
from ..power.plan import POWERS_OFF, PowerRequest, expected_state, plan_actions
from ..power.view import view_machine

# How long an operating system may take to shut down, unless the task says.
STOP_SECONDS = 180
_FORCE = "virt_power with state={} and force=true does it without its operating system"


def power_request(state: str, stop_seconds: float) -> PowerRequest:
    """What virt_power would be asked for. stop_seconds: how long an operating system may take to shut down."""
    return PowerRequest(STOPPED if state == STOPPED else RUNNING, stop_seconds)


def plan_power(machine: Machine, domain: Domain, stop_seconds: float) -> PowerResult | None:
    """What is to be done to the power state of a machine that is there; None when nothing is.

    Raises VirtError when it cannot be done.
    """
    if machine.state != RUNNING and not (machine.state == STOPPED and domain.active):
        return None
    with translate_errors(f"cannot inspect machine {machine.name}"):
        view = view_machine(domain.handle)
    if not view.active:
        if machine.state == RUNNING:
            view.require_newest_data()
        return None
    try:
        actions = plan_actions(view, power_request(machine.state, stop_seconds))
    except VirtError as exc:
        raise not_by_force(exc, machine.state) from exc
    return PowerResult(view, actions, state=view.state) if actions else None


def not_by_force(error: VirtError, state: str) -> VirtError:
    """The error of the power code with what can be done, as nothing here is done by force."""
    if error.hint is None or "force" not in error.hint:
        return error
    hint = _FORCE.format("cycled" if state == RUNNING else STOPPED)
    may = "It may still do so. To give it longer, set stop_timeout. " if "timeout" in error.hint else ""
    return type(error)(error.what, where=error.where, hint=may + hint)


def with_power(todo: MachinePlan, power: PowerResult | None) -> MachinePlan:
    """The plan with what is to be done to the power state of the machine."""
    if power is None:
        return todo
    after = expected_state(power.machine.state, power.actions)
    return replace(
        todo,
        power=power,
        before={**todo.before, "state": _state_words(power.machine.state)},
        after={**todo.after, "state": _state_words(after)},
        # What waits to be powered off has what it waits for.
        pending=() if POWERS_OFF.intersection(power.actions) else todo.pending,
        until_off=todo.pending if POWERS_OFF.intersection(power.actions) else (),
    )


def _state_words(state: str) -> str:
    return STOPPED if state == "shutoff" else state


def change_power(
    conn: VirConnect,
    plans: Sequence[MachinePlan],
    *,
    concurrency: int,
    lock_seconds: float,
    stop_seconds: float = STOP_SECONDS,
    at_work: dict[str, t.Any] | None = None,
) -> list[MachinePlan]:
    """Bring the machines whose plans were carried out to their power states, side by side.

    For who does not hold the hypervisor's lock. One that fails comes back with its error; what its steps have changed
    stays. at_work: has the name of each machine for as long as it is being changed.
    """
    done: list[MachinePlan] = list(plans)
    for state in dict.fromkeys(todo.machine.state for todo in plans):
        request = power_request(state, stop_seconds)
        chosen = [
            index
            for index, todo in enumerate(plans)
            if todo.machine.state == state and todo.power is not None and todo.error is None
        ]
        results = [power for power in (plans[index].power for index in chosen) if power is not None]
        stop = threading.Event()
        carry_out(
            conn,
            results,
            request,
            concurrency=concurrency,
            lock_seconds=lock_seconds,
            stop=stop,
            at_work=at_work,
        )
        for index, result in zip(chosen, results):  # noqa: B905 - Python 3.9 has no strict
            error = None if result.error is None else not_by_force(result.error, state)
            seconds = plans[index].seconds + result.seconds
            done[index] = replace(plans[index], kept=True, error=error, seconds=seconds)
            if error is not None and not POWERS_OFF.intersection(result.done):
                pending = dict.fromkeys((*plans[index].pending, *plans[index].until_off))
                done[index] = replace(done[index], pending=tuple(pending))
    return done
