# SPDX-License-Identifier: GPL-3.0-or-later
"""What checks answer, and how it is added up and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """How many tests passed, failed and were skipped. `retried`: which of those that passed did so when run again."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    retried: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.retried + other.retried,
        )

    def __str__(self) -> str:
        """Return the line that closes a run."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Result:
    """What a check answered. `verdict` is ok, FAILED or skipped; `note` is a short remark for the table."""

    name: str
    verdict: str
    seconds: float
    counts: Counts
    note: str = ""


def table(results: Sequence[Result]) -> str:
    """Return the results as a table: check, verdict, seconds, remark."""
    width = max((len(result.name) for result in results), default=0)
    lines = [
        f"{result.name:<{width}}  {result.verdict:<7}  {result.seconds:5.0f} s  {result.note}".rstrip()
        for result in results
    ]
    return "\n".join(lines)
