# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a task selects: each with what is to be done to its power state, before the first is touched."""

from __future__ import annotations

from collections.abc import Sequence

from ..._base.errors import NotFoundError, VirtError
from ..._host.connection import VirConnect, map_in_threads, translate_errors
from ..._host.machines.pending import pending_of
from ..._host.machines.record import state_name
from ..._model.metadata.migration import is_flush_name
from .machines import PowerResult
from .plan import CYCLED, PowerRequest, expected_state, plan_actions
from .selection import PowerSelection
from .view import PowerView, view_machine

# For the answers about all machines of the hypervisor, together.
_LOOK_SECONDS = 60.0
_THREADS = 8


def plan_machines(conn: VirConnect, selection: PowerSelection, request: PowerRequest) -> list[PowerResult]:
    """A plan for each machine that is meant; nothing is changed. What cannot be done is that machine's error.

    Raises NotFoundError for names that do not exist.
    """
    machines = selection.apply(view_all(conn, pending=selection.only_pending or request.state == CYCLED))
    return [_plan(machine, request) for machine in machines]


def preview(results: Sequence[PowerResult]) -> None:
    """Fill in what the real run would come to, for check mode."""
    for result in results:
        if result.error is None:
            result.done = list(result.actions)
            result.state = expected_state(result.machine.state, result.actions)


def view_all(conn: VirConnect, *, pending: bool) -> list[PowerView]:
    """All machines of the hypervisor, sorted by name. One that vanishes meanwhile is left out; one that cannot be read
    says so in its ``error``. pending: ask what waits for power off and on. Raises VirtError when there is no list."""
    with translate_errors("cannot list the machines"):
        handles = [handle for handle in conn.listAllDomains(0) if not is_flush_name(handle.name())]
    outcomes = map_in_threads(
        lambda handle: view_machine(handle, pending=pending_of if pending else None),
        handles,
        threads=_THREADS,
        timeout_seconds=_LOOK_SECONDS,
    )
    views = []
    for handle, outcome in zip(handles, outcomes):  # noqa: B905 - Python 3.9 has no strict
        if outcome.value is not None:
            views.append(outcome.value)
        elif not isinstance(outcome.error, NotFoundError):
            views.append(PowerView(handle.name(), handle, state_name(None), error=outcome.error))
    return sorted(views, key=lambda view: view.name)


def _plan(machine: PowerView, request: PowerRequest) -> PowerResult:
    result = PowerResult(machine, state=machine.state)
    try:
        result.actions = plan_actions(machine, request)
    except VirtError as exc:
        result.error = exc
    return result
