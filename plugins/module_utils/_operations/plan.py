# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan: small steps in order. Check mode reads it, the real run walks it, a failure walks it back."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._base.errors import HostError, as_virt_error


@dataclass(frozen=True)
class Turn:
    """When a machine starts among others: the lowest order first, None last; and how long those after it wait."""

    order: int | None = None
    delay_seconds: int = 0


@dataclass(frozen=True)
class Step:
    """One change: what it does in words, how to do it, and how to take it back.

    undo may be called after an apply that failed half-way, so it copes with what is not there. Without undo the step
    stands by itself: when a later one fails it stays done. turn: of a step that starts a machine. look: how far apply
    is meanwhile, as a HowFar of _host/progress.py; None where nobody can tell. Another thread calls it; it may raise.
    """

    description: str
    apply: Callable[[], t.Any]
    undo: Callable[[], t.Any] | None = None
    turn: Turn | None = None
    look: Callable[[], t.Any] | None = None


def run(steps: Sequence[Step], begins: Callable[[Step], t.Any] = lambda _step: None) -> None:
    """Apply the steps in order; when one fails, roll it back, and those before it, last first.

    begins: is told of each step before it is applied.

    Raises the failing step's error, with what could not be rolled back named in it. An interruption (Ctrl-C) is
    rolled back in the same way, and one that comes while that is done is raised when it is.
    """
    begun: list[Step] = []
    try:
        for step in steps:
            begun.append(step)
            begins(step)
            step.apply()
    except BaseException as exc:
        left, interruption = _undo(begun)
        stop = interruption or (None if isinstance(exc, Exception) else exc)
        if left:
            words = type(exc).__name__ if exc is stop else as_virt_error(exc)
            failure = HostError(f"{words}. In addition, this could not be rolled back: {'; '.join(left)}")
            if stop is None:
                raise failure from exc
            raise stop from failure
        if stop is None or stop is exc:
            raise
        raise stop from exc


def _undo(begun: Sequence[Step]) -> tuple[list[str], BaseException | None]:
    """Undo all that can be, whatever is raised meanwhile.

    The descriptions of the steps whose undo failed, and the first interruption (what is no Exception) that came.
    """
    left = []
    interruptions = []
    for step in reversed(begun):
        if step.undo is None:
            continue
        try:
            try:
                step.undo()
            except Exception:
                raise
            except BaseException as exc:
                # It came from outside, and has left this undo half done.
                interruptions.append(exc)
                step.undo()
        except BaseException as exc:
            if not isinstance(exc, Exception):
                interruptions.append(exc)
            left.append(f"{step.description} ({as_virt_error(exc)})")
    return left, interruptions[0] if interruptions else None
