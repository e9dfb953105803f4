# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines removed: all of them planned before the first is touched, then one after the other."""

from __future__ import annotations

import difflib
import threading
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..._base.errors import VirtError, as_virt_error, outcome, own_error, with_done
from ..._host.connection import VirConnect
from ..._host.locks import hypervisor_lock, machine_lock
from ..hypervisor_view import HypervisorView
from ..power.machines import carry_out as change_power
from ..power.plan import Action
from ..step_watch import StepWatch
from .plan import PurgePlan, plan_purge, steps_to_purge, still_to_do
from .refusal import RefusedError
from .volumes import PurgeOptions

# How many machines are shut down at the same time.
_CONCURRENCY = 8
_DEAF = "It may still do so. To give it longer, set stop_timeout; with force as well, it is powered off then"


@dataclass
class PurgeResult:
    """What becomes of one machine. plan: None for one that is not there, or that may not be removed (error).

    similar: of one that is not there, a machine whose name is nearly its own, so that this may be misspelled.
    done: that something of it has been removed, also when the rest has failed.
    """

    name: str
    plan: PurgePlan | None = None
    error: VirtError | None = None
    done: bool = False
    actions: list[str] = field(default_factory=list)
    similar: list[str] = field(default_factory=list)

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        plan = self.plan
        more: dict[str, t.Any] = {
            "present": plan is not None or self.error is not None,
            "state": None if plan is None else plan.state,
            "power": None if plan is None else plan.power_words,
            "actions": self.actions,
            "snapshots": [] if plan is None else list(plan.snapshots),
            "volumes": [] if plan is None else [decision.as_result() for decision in plan.decisions],
            "shared": [] if plan is None else [one.shared.as_result() for one in plan.decisions if one.shared],
        }
        if not more["present"]:
            more["similar"] = self.similar
        if isinstance(self.error, RefusedError) and self.error.obstacle:
            more.update(obstacle=self.error.obstacle, reason=self.error.what)
        return outcome(self.name, self.done, self.error, more)


def plan_purges(conn: VirConnect, names: Sequence[str], options: PurgeOptions) -> list[PurgeResult]:
    """A plan for each machine, in order; nothing is changed. What keeps one from being removed is its own error."""
    view = HypervisorView(conn, elsewhere=options.elsewhere)
    results = [PurgeResult(name) for name in dict.fromkeys(names)]
    for result in results:
        with own_error(result):
            result.plan = plan_purge(result.name, view, options)
            if result.plan is None:
                result.similar = _similar(result.name, view.domains)
    return results


def _similar(name: str, others: t.Iterable[str]) -> list[str]:
    """The nearest of the names, if any is near. Where only the number is another one, both are right: web1 and web2."""
    number = _number(name)
    near = [other for other in others if not (number and _number(other) and number != _number(other))]
    return difflib.get_close_matches(name, sorted(near), n=1)


def _number(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def preview(conn: VirConnect, results: Sequence[PurgeResult]) -> None:
    """What carrying the plans out would come to, for check mode."""
    for result in results:
        if result.plan is not None:
            stop = [] if result.plan.power is None else _words(result.name, result.plan.power.actions)
            result.actions = stop + [step.description for step in steps_to_purge(conn, result.plan)]
            result.done = True


def carry_out(
    conn: VirConnect, results: Sequence[PurgeResult], options: PurgeOptions, watch: StepWatch, *, lock_seconds: float
) -> None:
    """Remove the machines that were planned; one that fails says so, and the others go on.

    Those that are to be shut down first are, side by side. watch: is told what it is at. lock_seconds: how long to wait
    for another run that works on this hypervisor.
    """
    _shut_down(conn, results, options, watch, lock_seconds)
    for result in results:
        if result.plan is None or result.error is not None:
            continue
        watch.turn_to(f"wait for other runs to let go of {result.name}")
        try:
            # Nobody takes a volume of this hypervisor into use, and nobody moves the machine.
            with hypervisor_lock("init", wait_seconds=lock_seconds), machine_lock(result.name, wait_seconds=0):
                now = plan_purge(result.name, HypervisorView(conn, elsewhere=options.elsewhere), options)
                _run(conn, result, still_to_do(result.plan, now), watch)
        except Exception as exc:  # as above
            result.error = _with_actions(as_virt_error(exc), result)


def _shut_down(
    conn: VirConnect, results: Sequence[PurgeResult], options: PurgeOptions, watch: StepWatch, lock_seconds: float
) -> None:
    """Shut down the machines whose plans say so. One that stays on is not removed, and says so."""
    stopping = [(result, result.plan.power) for result in results if result.plan is not None and result.plan.power]
    if not stopping:
        return
    at_work: dict[str, t.Any] = {}
    watch.wait_for("to be shut down", at_work, "the next")
    change_power(
        conn,
        [power for _result, power in stopping],
        options.shut_down,
        concurrency=_CONCURRENCY,
        lock_seconds=lock_seconds,
        stop=threading.Event(),
        at_work=at_work,
    )
    for result, power in stopping:
        result.actions = _words(result.name, power.done)
        result.done = bool(power.done)
        if power.error is not None:
            result.error = _with_actions(_in_own_words(power.error), result)


def _in_own_words(error: VirtError) -> VirtError:
    """The error of the power code with the options that there are here, where it names its own for a deaf guest."""
    if error.hint is None or "force" not in error.hint:
        return error
    return type(error)(error.what, where=error.where, hint=_DEAF)


def _words(name: str, actions: Sequence[Action]) -> list[str]:
    return [f"{action.value} {name}" for action in actions]


def _run(conn: VirConnect, result: PurgeResult, plan: PurgePlan, watch: StepWatch) -> None:
    deleted: list[str] = []
    for step in steps_to_purge(conn, plan, deleted):
        try:
            watch.apply(step)
        except Exception:
            if deleted:
                # Of several volumes the first may be gone when one cannot be deleted.
                result.done = True
                result.actions.append(f"delete {', '.join(deleted)}")
            raise
        deleted.clear()
        result.done = True
        result.actions.append(step.description)


def _with_actions(error: VirtError, result: PurgeResult) -> VirtError:
    """The error with what was done before it."""
    again = f"{error.hint}. Then run it again" if error.hint else "Run it again to finish"
    return with_done(error, result.actions, hint=again)
