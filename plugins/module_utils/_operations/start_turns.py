# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose turn it is to start, among machines that are created or changed side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from .._model.spec.start_order import in_start_order
from .plan import Step, Turn


class StartTurns:
    """The steps of several machines, of which that which starts one waits until those before it are started, and for
    their delays.

    plans: the steps of each machine. ``sequence`` has their indexes in the order in which they are to be begun: who
    waits keeps a thread busy. Each of them has to end (``end``), whatever becomes of it.
    """

    def __init__(self, plans: Sequence[Sequence[Step]]) -> None:
        self._plans = plans
        turns = {index: step.turn for index, steps in enumerate(plans) for step in steps if isinstance(step.turn, Turn)}
        groups = in_start_order(turns, lambda index: turns[index].order)
        self._turns = turns
        self._group = {index: number for number, group in enumerate(groups) for index in group}
        self._left = [len(group) for group in groups]
        self._not_before = [0.0] * len(groups)
        self._changed = threading.Condition()
        self.sequence = sorted(range(len(plans)), key=lambda index: self._group.get(index, -1))

    def steps(self, index: int) -> list[Step]:
        """The steps of a machine, of which that which starts it waits for its turn."""
        return [self._waiting(step, self._group[index]) if step.turn else step for step in self._plans[index]]

    def end(self, index: int, *, started: bool) -> None:
        """A machine is done with. started: whether others wait for its delay from now on."""
        if index not in self._group:
            return
        group = self._group[index]
        seconds = self._turns[index].delay_seconds if started else 0
        with self._changed:
            self._left[group] -= 1
            self._not_before[group] = max(self._not_before[group], time.monotonic() + seconds)
            self._changed.notify_all()

    def _waiting(self, step: Step, group: int) -> Step:
        def apply() -> None:
            self._wait(group)
            step.apply()

        return replace(step, apply=apply)

    def _wait(self, group: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not any(self._left[:group]))
            seconds = max(self._not_before[:group], default=0.0) - time.monotonic()
        if seconds > 0:
            time.sleep(seconds)
