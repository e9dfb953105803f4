# SPDX-License-Identifier: GPL-3.0-or-later
"""What the runs come to: medians, ratios, limits."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .commands import PEER, Run


@dataclass(frozen=True)
class Fleet:
    """So many hypervisors with so many machines each, at this round trip time."""

    hypervisors: int
    machines: int
    milliseconds: float

    @property
    def name(self) -> str:
        """As the table says it."""
        return f"{self.hypervisors} x {self.machines} at {self.milliseconds:g} ms"


# The goals of this collection, on two cores: seconds, and how many times faster than the peer.
SECONDS = {Fleet(1, 1000, 10.0): 2.5, Fleet(50, 20, 10.0): 2.3}
TIMES = {Fleet(1, 1000, 10.0): 20.0}
MEGABYTES = 110.0
# So much more than in proportion a fleet twice as large may take.
GROWTH = 1.15
_MEBIBYTE = 1.048576

_TEXTS = {
    "brine.virt": "brine.virt",
    PEER: PEER,
    "floor": "bulk calls and XML, no Ansible",
    "nothing": "Ansible, no host",
}


def table(results: Sequence[tuple[Fleet, Mapping[str, Sequence[Run]]]]) -> str:
    """The table for people, one block a fleet, and which goals are met."""
    lines = [
        f"{'hypervisors x machines':32}{'all':>10}{'reading':>10}{'CPU':>10}{'x ours':>9}{'memory':>11}{'reading':>11}"
        "   range of all"
    ]
    verdicts = []
    for fleet, runs in results:
        lines += ["", fleet.name]
        seconds = {way: statistics.median(run.seconds for run in found) for way, found in runs.items()}
        ours = seconds.get("brine.virt")
        for way, found in runs.items():
            reading = [run.reading_seconds for run in found if run.reading_seconds is not None]
            more = [run.reading_mebibytes for run in found if run.reading_mebibytes is not None]
            times = f"{seconds[way] / ours:9.2f}" if ours else " " * 9
            memory = statistics.median(run.mebibytes for run in found)
            own = f"{statistics.median(reading):8.2f} s" if reading else " " * 10
            share = f"{statistics.median(more):7.0f} MiB" if more else " " * 11
            spread = f"{min(run.seconds for run in found):.2f} to {max(run.seconds for run in found):.2f} s"
            processor = statistics.median(run.processor_seconds for run in found)
            lines.append(
                f"  {_TEXTS[way]:30}{seconds[way]:8.2f} s{own}{processor:8.2f} s{times}{memory:7.0f} MiB{share}"
                f"   {spread}"
            )
        if ours is not None:
            verdicts += _verdicts(fleet, runs, seconds)
    return "\n".join([*lines, "", *verdicts])


def _verdicts(fleet: Fleet, runs: Mapping[str, Sequence[Run]], seconds: Mapping[str, float]) -> list[str]:
    ours = seconds["brine.virt"]
    found = []
    if fleet in SECONDS:
        found.append((ours < SECONDS[fleet], f"{ours:.2f} s, the limit is {SECONDS[fleet]:g} s"))
        megabytes = statistics.median(run.mebibytes for run in runs["brine.virt"]) * _MEBIBYTE
        found.append((megabytes < MEGABYTES, f"{megabytes:.0f} MB of memory, the limit is {MEGABYTES:g} MB"))
    if fleet in TIMES and PEER in seconds:
        times = seconds[PEER] / ours
        found.append((times >= TIMES[fleet], f"{times:.1f} times as fast as {PEER}, the goal is {TIMES[fleet]:g}"))
    return [f"{'met' if is_met else 'NOT MET'}: {fleet.name}: {text}" for is_met, text in found]


def growth_verdict(small: Fleet, large: Fleet, runs: Mapping[Fleet, Mapping[str, Sequence[Run]]]) -> str:
    """Whether the time grows with the number of machines, and no faster: that beyond Ansible's own start.

    runs: of both fleets, each with those without a host (``nothing``).
    """
    beyond = {}
    for fleet in (small, large):
        ours, nothing = (
            statistics.median(run.seconds for run in runs[fleet][way]) for way in ("brine.virt", "nothing")
        )
        beyond[fleet] = (ours - nothing) / (fleet.hypervisors * fleet.machines)
    growth = beyond[large] / beyond[small]
    return (
        f"{'met' if growth <= GROWTH else 'NOT MET'}: {large.name} takes {growth:.2f} times as long per machine as "
        f"{small.name}, the limit is {GROWTH:g}"
    )


def silent_verdict(fleet: Fleet, without: Run, with_silent: Run, limit: float) -> str:
    """Whether one hypervisor that never answers costs no more than its time limit."""
    more = with_silent.seconds - without.seconds
    met = "met" if more <= limit else "NOT MET"
    return (
        f"{met}: {fleet.name}: one more hypervisor that never answers costs {more:.2f} s, its time limit is {limit:g} s"
    )
