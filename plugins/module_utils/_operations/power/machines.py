# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines brought to their power states side by side, each as planned before the first of them was touched."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, NotFoundError, VirtError, as_virt_error, outcome, own_error, stopped
from ..._host.connection import VirConnect, map_in_threads
from ..._host.locks import machine_lock
from ..._model.spec.start_order import in_turn
from .change import BY_GUEST, Change, NotDoneError
from .locks import SharedLock
from .plan import OFF, RUNNING, STARTS, STOPPED, UP, Action, PowerRequest, plan_actions, require_kept
from .view import PowerView, view_machine
from .wait import StateWatch

# What is done to a guest that has not done it itself in time, where that is allowed.
_BY_FORCE = {Action.SHUT_DOWN: Action.POWER_OFF, Action.REBOOT: Action.RESET}


@dataclass
class PowerResult:
    """One machine: what is to be done, and what became of it. done: the actions that are finished."""

    machine: PowerView
    actions: tuple[Action, ...] = ()
    done: list[Action] = field(default_factory=list)
    state: str = ""
    seconds: float = 0.0
    error: VirtError | None = None

    def as_result(self) -> dict[str, t.Any]:
        """The outcome in the words of the module's result."""
        more = {
            "before": self.machine.state,
            "state": self.state,
            "actions": [action.value for action in self.done],
            "seconds": round(self.seconds, 1),
        }
        return outcome(self.machine.name, bool(self.done), self.error, more)


def carry_out(
    conn: VirConnect,
    results: Sequence[PowerResult],
    request: PowerRequest,
    *,
    concurrency: int,
    lock_seconds: float,
    stop: threading.Event,
    at_work: dict[str, t.Any] | None = None,
) -> None:
    """Do what is planned, and fill in what became of it. One machine's failure is its own; the others go on.

    Machines are started in their order, with their delays, and stopped in the reverse order.
    stop: set when nobody waits for the end any more. What has begun to go off and on again comes on all the same.
    at_work: has the name of each machine for as long as it is being changed, for who tells of it meanwhile.
    """
    others = SharedLock(lock_seconds)
    under_way = {} if at_work is None else at_work

    def work(result: PowerResult) -> None:
        began = time.monotonic()
        name = result.machine.name
        under_way[name] = None
        with own_error(result):
            if stop.is_set():
                raise stopped()
            with machine_lock(name, lock_seconds), StateWatch(conn, result.machine.handle) as watch:
                _MachineRun(result, request, watch, others, stop).run()
        result.state = _state_now(result)
        under_way.pop(name, None)
        result.seconds = time.monotonic() - began

    delay_seconds = 0
    for group in in_turn([result for result in results if result.actions], request.state, _order):
        stop.wait(delay_seconds)
        map_in_threads(work, group, threads=max(1, concurrency))
        delay_seconds = last_delay(group, request)


def last_delay(results: Sequence[PowerResult], request: PowerRequest) -> int:
    """How many seconds those have to wait that start after these: the longest delay of those that started last."""
    started = [result for result in results if request.state == RUNNING and STARTS.intersection(result.done)]
    groups = in_turn(started, request.state, _order)
    return max((result.machine.delay_seconds for result in groups[-1]), default=0) if groups else 0


def _order(result: PowerResult) -> int | None:
    return result.machine.order


def _state_now(result: PowerResult) -> str:
    try:
        return view_machine(result.machine.handle).state
    except Exception as exc:  # noqa: BLE001 - a look that fails must not hide what was done
        result.error = result.error or as_virt_error(exc)
        return "nostate"


class _MachineRun:
    """The actions on one machine, whose lock is held."""

    def __init__(
        self,
        result: PowerResult,
        request: PowerRequest,
        watch: StateWatch,
        others: SharedLock,
        stop: threading.Event,
    ) -> None:
        self._result = result
        self._request = request
        self._watch = watch
        self._others = others
        # What is to come on again is not left off.
        self._stop = threading.Event() if Action.START in result.actions else stop

    def run(self) -> None:
        """Look again, and do it. Raises what stands against it, and leaves the rest of the actions."""
        actions = self._result.actions
        for number, action in enumerate(actions):
            try:
                change = self._begin(action, first=number == 0)
                if change is None:
                    if number == 0:
                        return
                    continue
                change.finish()
                self._result.done.append(action)
            except NotDoneError:
                if action not in BY_GUEST or not self._request.force:
                    raise
                self._force(_BY_FORCE[action])

    def _look(self) -> PowerView:
        try:
            return view_machine(self._result.machine.handle)
        except NotFoundError as exc:
            raise ConflictError(
                "it has left this hypervisor since this run looked: it was moved or removed",
                hint="Run it again, which finds it where it is",
            ) from exc

    def _begin(self, action: Action, *, first: bool) -> Change | None:
        """Ask libvirt, where that is still right; None when the machine is there already."""
        with self._others.held():
            now = self._look()
            now.require_changeable(only_off=self._request.state == STOPPED)
            if first:
                actions = plan_actions(now, self._request)
                if not actions:
                    return None
                if actions != self._result.actions:
                    raise ConflictError(
                        f"it was {self._result.machine.state} when this was planned, and is {now.state} now",
                        hint="Run it again",
                    )
            elif action in STARTS and now.state in UP:
                # Somebody else was faster.
                return None
            return self._ask(action, now)

    def _force(self, action: Action) -> None:
        with self._others.held():
            now = view_machine(self._result.machine.handle)
            if action is Action.POWER_OFF and (now.state in OFF or not now.active):
                self._result.done.append(Action.SHUT_DOWN)
                return
            # The guest may have been waited for for minutes.
            now.require_changeable(only_off=self._request.state == STOPPED)
            require_kept(now, (action,))
            change = self._ask(action, now)
        change.finish()
        self._result.done.append(action)

    def _ask(self, action: Action, now: PowerView) -> Change:
        change = Change(action, now, self._watch, self._request.timeout_seconds, self._stop)
        change.wait_until_taken()
        return change
