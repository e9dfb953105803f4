# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of several machines: all of them planned before the first is touched, then side by side."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..._base.errors import (
    Mistakes,
    NotFoundError,
    VirtError,
    as_virt_error,
    one_of_these,
    outcome,
    own_error,
    with_done,
)
from ..._host.connection import VirConnect, map_in_threads, translate_errors
from ..._host.locks import machine_lock
from ..._host.machines.snapshots import snapshot_records
from ..._host.progress import ProgressFile
from ..._model.metadata.migration import is_flush_name
from ..power.locks import SharedLock
from ..power.view import view_machine
from ..step_watch import StepWatch
from .plan import SnapshotPlan, SnapshotRequest, plan, plan_on

_NOT_SHOWN = (
    "what an interrupted run has left is dealt with first. What the task asks for follows in the same run, and is not "
    "shown here, as it can be planned only then"
)


@dataclass
class SnapshotResult:
    """One machine: what is to be done (plan; None where it cannot be), and what became of it.

    Where it was not done to its end, the plan is what was done of it. done: the actions that are finished. snapshots,
    state: those that it has in the end, None where nobody has looked. remarks: what else the user should know.
    """

    name: str
    plan: SnapshotPlan | None = None
    error: VirtError | None = None
    done: list[str] = field(default_factory=list)
    snapshots: list[dict[str, t.Any]] | None = None
    state: str | None = None
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def warnings(self) -> list[str]:
        """What of the machine is not in the new snapshot, and the remarks."""
        method = None if self.plan is None else self.plan.method
        remarks = () if self.plan is None else self.plan.remarks
        return [*([] if method is None else [*method.warnings, *method.nothing_frozen]), *remarks, *self.remarks]

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        found, method = self.plan, None if self.plan is None else self.plan.method
        more = {
            "snapshot": None if found is None else found.snapshot,
            "state_before": None if found is None else found.state_before,
            "state": self.state or (None if found is None else found.state),
            "actions": self.done,
            "deleted": [] if found is None else list(found.going),
            "kind": None if method is None else method.kind,
            "memory": None if method is None else method.memory,
            "quiesced": None if method is None else method.quiesce and not method.nothing_frozen,
            "warnings": self.warnings,
            "snapshots": self.snapshots,
            "seconds": round(self.seconds, 1),
        }
        return outcome(self.name, bool(self.done), self.error, more)


def plan_snapshots(conn: VirConnect, names: Sequence[str], request: SnapshotRequest) -> list[SnapshotResult]:
    """A plan for each machine, in order; nothing is changed. What keeps one from being done is its own error.

    Raises NotFoundError, with a line for each, for machines that do not exist.
    """
    names = list(dict.fromkeys(names))
    _require_all(conn, names)
    results = [SnapshotResult(name) for name in names]
    # By the number of the file system, what the memory of those before may take there: several are taken at a time.
    taken_bytes: dict[int, int] = {}
    for result in results:
        with own_error(result):
            found = plan(conn, result.name, request)
            if found.memory is not None:
                others_bytes = taken_bytes.get(found.memory.device, 0)
                found.memory.require_room(others_bytes)
                taken_bytes[found.memory.device] = others_bytes + found.memory.needed_bytes
            result.plan = found
    return results


def _require_all(conn: VirConnect, names: Sequence[str]) -> None:
    with translate_errors("cannot list the machines"):
        known = {handle.name() for handle in conn.listAllDomains(0) if not is_flush_name(handle.name())}
    mistakes = Mistakes()
    for name in names:
        with mistakes.noted():
            if name not in known:
                raise NotFoundError(
                    f"there is no machine {name!r} on this hypervisor", where="vm", hint=one_of_these(name, known)
                )
    mistakes.conclude()


def preview(conn: VirConnect, results: Sequence[SnapshotResult], request: SnapshotRequest) -> None:
    """What carrying the plans out would come to, for check mode."""
    for result in results:
        if result.plan is None:
            continue
        result.done = result.plan.actions
        with own_error(result):
            while result.plan.unfinished:
                following = plan_on(conn, result.plan, request)
                if following is None:
                    result.remarks.append(_NOT_SHOWN)
                    break
                result.plan = following
                result.done = [*result.done, *following.actions]


def carry_out(
    conn: VirConnect,
    results: Sequence[SnapshotResult],
    request: SnapshotRequest,
    progress: ProgressFile,
    *,
    concurrency: int,
    lock_seconds: float,
) -> None:
    """Do what is planned. One machine's failure is its own; the others go on.

    progress: is told what each machine is at. lock_seconds: how long to wait for another run that works on this
    hypervisor.
    """
    others = SharedLock(lock_seconds)

    def work(result: SnapshotResult) -> None:
        began = time.monotonic()
        try:
            # Nobody moves the machine, changes its power state, or gives it other disks meanwhile.
            with StepWatch(progress) as watch:
                watch.turn_to(f"wait for other runs to let go of {result.name}")
                with machine_lock(result.name, lock_seconds), others.held():
                    while _apply_next(conn, result, request, watch).unfinished:
                        pass
        except Exception as exc:  # noqa: BLE001 - it is this machine's error, and the others go on
            if result.plan is not None:
                result.plan = result.plan.as_far_as(result.done)
            result.error = with_done(as_virt_error(exc), result.done)
        _look(conn, result)
        result.seconds = time.monotonic() - began

    for result in results:
        if result.plan is not None and not result.plan.steps:
            _look(conn, result)
    map_in_threads(
        work,
        [result for result in results if result.plan is not None and result.plan.steps],
        threads=max(1, concurrency),
    )


def _apply_next(conn: VirConnect, result: SnapshotResult, request: SnapshotRequest, watch: StepWatch) -> SnapshotPlan:
    watch.turn_to(f"look at {result.name}")
    planned = result.plan = plan(conn, result.name, request)
    for step in planned.steps:
        watch.apply(step)
        result.done.append(step.description)
    return planned


def _look(conn: VirConnect, result: SnapshotResult) -> None:
    """The machine's snapshots and state now. A look that fails changes nothing of what was done."""
    try:
        with translate_errors(f"cannot inspect machine {result.name}"):
            handle = conn.lookupByName(result.name)
            result.state = view_machine(handle).state
            result.snapshots = snapshot_records(handle)
    except Exception as exc:  # noqa: BLE001 - as above
        result.remarks.append(f"its snapshots could not be listed afterwards: {as_virt_error(exc)}")
