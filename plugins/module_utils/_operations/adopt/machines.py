# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines adopted: all of them planned before the first is touched, then one after the other."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.errors import VirtError, outcome, own_error
from ..._host.connection import VirConnect
from ..._host.locks import hypervisor_lock, machine_lock
from ..._host.machines import domains as host_domains
from ..hypervisor_view import HypervisorView
from .plan import AdoptionPlan, plan_adoption, require_unchanged


@dataclass
class AdoptionResult:
    """What becomes of one machine. present: whether it is there. plan: None for one that cannot be adopted (error)."""

    name: str
    present: bool
    plan: AdoptionPlan | None = None
    error: VirtError | None = None
    done: bool = False

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        plan = self.plan
        more = {
            "present": self.present,
            "state": None if plan is None else plan.state,
            "actions": plan.actions if plan is not None and self.done else [],
            "disks": [] if plan is None else [decision.as_result() for decision in plan.disks],
            "nics": [] if plan is None else [{"name": note.name, "mac": note.mac} for note in plan.notes.nics],
            "remarks": [] if plan is None else list(plan.remarks),
        }
        return outcome(self.name, self.done, self.error, more)


def plan_adoptions(conn: VirConnect, names: Sequence[str], disks: Sequence[str]) -> list[AdoptionResult]:
    """A plan for each machine, in order; nothing is changed. What keeps one from being adopted is its own error."""
    view = HypervisorView(conn)
    results = [AdoptionResult(name, name in view.domains) for name in dict.fromkeys(names)]
    for result in results:
        with own_error(result):
            result.plan = plan_adoption(result.name, view, disks)
    return results


def preview(results: Sequence[AdoptionResult]) -> None:
    """What carrying the plans out would come to, for check mode."""
    for result in results:
        result.done = result.plan is not None and bool(result.plan.actions)


def carry_out(
    conn: VirConnect, results: Sequence[AdoptionResult], disks: Sequence[str], *, lock_seconds: float
) -> None:
    """Adopt the machines that were planned; one that fails says so, and the others go on.

    lock_seconds: how long to wait for another run that works on this hypervisor.
    """
    for result in results:
        if result.plan is None or not result.plan.actions:
            continue
        # Nobody takes a volume of this hypervisor into use, and nobody moves or removes the machine.
        init_lock = hypervisor_lock("init", wait_seconds=lock_seconds)
        with own_error(result), init_lock, machine_lock(result.name, wait_seconds=0):
            view = HypervisorView(conn)
            require_unchanged(result.plan, plan_adoption(result.name, view, disks))
            host_domains.write_notes(view.domains[result.name].handle, result.plan.notes)
            result.done = True
