# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of a change that undoes itself: confirm it, or find out what has become of it."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

# The host waits three seconds before it starts. A connection of before that would be cut off half-way.
BEFORE_SECONDS = 6
_AGAIN_SECONDS = 1
Answer = dict[str, t.Any]


class NoAnswer(Exception):
    """The host could not be reached, or the connection was lost before it had answered."""


@dataclass(frozen=True)
class Confirmation:
    """A change that has begun, and how to ask the host about it.

    begun: what the module has returned that began it. seconds: how long the host waits for the confirmation, once the
    change is applied. lacking: the host without the change, as the beginning of a sentence. call: calls virt_switch
    with this phase, over connections that it opens now; returns what that does, or raises NoAnswer.
    """

    begun: Answer
    seconds: int
    lacking: str
    call: t.Callable[[str], Answer]
    clock: t.Callable[[], float] = time.monotonic
    sleep: t.Callable[[float], None] = time.sleep

    def failure(self) -> str:
        """Why the change is not permanent, once it has gone back as far as it can; empty where it is permanent."""
        self.sleep(BEFORE_SECONDS)
        try:
            # Over the first connection the host says that the change is applied. That it can still be reached, a
            # connection proves that is newer than that.
            for phase in ("wait", "confirm"):
                answer = self._ask(phase, self.seconds)
                if answer.get("failed"):
                    return self._what_became_of_it(_message(answer))
        except NoAnswer as exc:
            return self._what_became_of_it(str(exc))
        return ""

    def _what_became_of_it(self, seen: str) -> str:
        # All that the host may take to apply the change, to wait, and to go back.
        limit = self.begun["apply_seconds"] + self.seconds + self.begun["settle_seconds"]
        try:
            # Undoes it at once, unless it is undone or confirmed already: then it fails, or does nothing.
            self._ask("abort", limit)
            report = self._ask("report", limit)
            if report.get("state") == "confirmed":
                # Only the answer was lost, unless this fails, too.
                last = self._ask("confirm", limit)
                return _message(last) if last.get("failed") else ""
        except NoAnswer:
            return f"{self.lacking}: the host does not answer any more. Seen from here: {seen}."
        ending = _message(report) if report.get("failed") else _ending(report)
        told = "; ".join(report.get("log", []))
        return f"{self.lacking}: {ending}. Seen from here: {seen}. Seen from the host: {told}."

    def _ask(self, phase: str, seconds: float) -> Answer:
        """The first answer to this question; none is begun to be asked for after so many seconds."""
        end = self.clock() + seconds
        while True:
            try:
                return self.call(phase)
            except NoAnswer:
                if self.clock() >= end:
                    raise
            self.sleep(_AGAIN_SECONDS)


def _message(answer: Answer) -> str:
    return str(answer.get("msg") or "no answer")


def _ending(report: Answer) -> str:
    """What has become of the change, for people."""
    state, missing = report.get("state"), report.get("missing", [])
    if state == "absent":
        return "the host has booted meanwhile, and has what it had before"
    if state == "rolling_back":
        return "the change is still being rolled back"
    if state != "rolled_back":
        return f"the change is {state}"
    if missing:
        return f"the change was rolled back, but not everything is as before: {'; '.join(missing)}"
    return "the change was rolled back, and everything is as before"
