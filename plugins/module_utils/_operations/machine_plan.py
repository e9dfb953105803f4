# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is to be done for one machine, and what became of it."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from .._base.errors import VirtError
from .._model.spec.machine import Machine
from .._operations import plan
from .power.machines import PowerResult


@dataclass(frozen=True)
class MachinePlan:
    """All that is to be done, or was done, for one machine.

    error: what kept it from being planned, and then nothing is done; or from being carried out. power: what is to be
    done to its power state, after the steps. kept: that the steps were done and stay, though there is an error.
    until_off: what is no longer pending once that has powered it off. alone: the steps need the machine's lock, as they
    remove what an interrupted run has left of it. seconds: how long carrying it out took, with waiting for its turn.
    """

    machine: Machine
    created: bool
    steps: Sequence[plan.Step]
    before: dict[str, t.Any]
    after: dict[str, t.Any]
    pending: Sequence[str] = ()
    outdated: Sequence[str] = ()
    error: VirtError | None = None
    power: PowerResult | None = None
    kept: bool = False
    until_off: Sequence[str] = ()
    alone: bool = False
    seconds: float = 0.0

    @property
    def actions(self) -> list[str]:
        """What is done, in words."""
        power = () if self.power is None else self.power.done if self.kept else self.power.actions
        return [*(step.description for step in self.steps), *(f"{one.value} {self.machine.name}" for one in power)]

    def as_result(self) -> dict[str, t.Any]:
        """What became of it, or would in check mode, in the words of a module's result."""
        result: dict[str, t.Any] = {
            "name": self.machine.name,
            "changed": bool(self.actions) and (self.kept or self.error is None),
            "failed": self.error is not None,
            "created": self.created and self.error is None,
            "actions": self.actions,
            "pending": list(self.pending),
            "restart_required": bool(self.pending),
            "outdated": list(self.outdated),
            "seconds": round(self.seconds, 1),
        }
        if result["created"]:
            result["bootable"] = not self.machine.boots_from_nothing
        turn = next((step.turn for step in self.steps if step.turn is not None), None)
        if self.error is not None:
            result["msg"] = str(self.error)
        elif turn is not None:
            result.update(order=turn.order, delay_seconds=turn.delay_seconds)
        return result
