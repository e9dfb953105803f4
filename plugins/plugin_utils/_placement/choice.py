# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of a hypervisor for one machine, with the reasons for it and against every other one."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .capacity import HostCapacity
from .need import Need
from .options import PlacementOptions

# Two hypervisors whose loads differ by no more than so many percentage points are as good as each other. Half of what
# balance leaves as it is by default.
EQUAL_LOAD_POINTS = 10
APART_HINT = (
    "Only its anti-affinity keeps it away: add a hypervisor, or let machines of one group share one where they cannot "
    "be apart, with virt_anti_affinity: prefer"
)
# Why a hypervisor is in maintenance that the playbook retire has taken out, before a colon and the user's words
# if there are any: its certificates are refused from then on.
_RETIRED = "retired"


@dataclass(frozen=True)
class HostChoice:
    """host None: the machine fits nowhere. why: the reason for the host; refused: those against each other one."""

    host: str | None
    why: str
    refused: Mapping[str, str]
    hint: str | None = None


def choose(
    need: Need,
    capacities: Mapping[str, HostCapacity],
    candidates: Sequence[str],
    options: PlacementOptions,
    brought: t.Container[str] = (),
    *,
    asked: bool = False,
) -> HostChoice:
    """The best of the candidates. brought: images that the run itself brings. asked: the user named the candidate."""
    refusals = {host: capacities[host].refusals(need, brought) for host in candidates}
    fitting = [host for host in candidates if not refusals[host]]
    refused = {host: ", ".join(reasons) for host, reasons in refusals.items() if reasons}
    if not fitting:
        return HostChoice(None, "", refused, _hint(need, capacities, candidates, brought))
    ranking = _Ranking(need, {host: capacities[host] for host in fitting}, spread=options.policy == "spread")
    together = {host: len(capacities[host].group_members(need)) for host in fitting}
    # Hard anti-affinity has refused them already.
    equal = ranking.best_first([host for host in fitting if together[host] == min(together.values())])
    best = equal[0]
    for host in fitting:
        if host in equal[1:]:
            refused[host] = ranking.compared(host, best)
        elif host != best:
            refused[host] = ", ".join(capacities[host].shared_with(need))
    left = f"{ranking.left_mib(best)} MiB of free memory after this machine"
    # The first reason alone: all of them stand in refused.
    first = {host: reasons[0] for host, reasons in refusals.items() if reasons}
    if asked:
        reason = f"as requested: {left}"
    elif len(fitting) == 1:
        listed = f" ({'; '.join(f'{host}: {why}' for host, why in first.items())})" if first else ""
        reason = f"the only hypervisor it fits on: {left}{listed}"
    elif len(equal) == 1:
        reason = f"it shares it with the fewest of its group: {left}"
    else:
        reason = ranking.why_best(equal) + ranking.better_but_refused(capacities, first, best)
    why = [reason, *notes_on(need, capacities[best])]
    return HostChoice(best, "; ".join(why), refused)


class _Ranking:
    """Which of several hypervisors that a machine fits on comes first, and in what words.

    spread: the lowest load, which is what of the memory that may be allocated is allocated to machines, this one among
    them. That is what balance makes equal. Of those within EQUAL_LOAD_POINTS of it, the one with the fewest machines
    comes first, so that small machines do not all go to the one that is a little emptier.
    Otherwise: the least free memory. The last word has the name, so that the same input has the same answer.
    """

    def __init__(self, need: Need, capacities: Mapping[str, HostCapacity], *, spread: bool) -> None:
        self._need = need
        self._capacities = capacities
        self._spread = spread

    def left_mib(self, host: str) -> int:
        """The free memory that this machine would leave."""
        return self._capacities[host].memory_mib - self._need.memory_mib

    def best_first(self, hosts: Sequence[str]) -> list[str]:
        """The hypervisors in their order."""
        if not self._spread:
            return sorted(hosts, key=lambda host: (self.left_mib(host), host))
        limit = min(map(self._load, hosts)) + EQUAL_LOAD_POINTS
        near = {host for host in hosts if self._load(host) <= limit}
        return sorted(
            hosts,
            key=lambda host: (host not in near, self._machines(host) if host in near else 0, self._load(host), host),
        )

    def why_best(self, equal: Sequence[str]) -> str:
        """Why the first of these, which stand in their order, is the best."""
        best, second = equal[0], equal[1]
        if not self._spread:
            why = f"least free memory: {self.left_mib(best)} MiB after this machine"
            ties = [host for host in equal[1:] if self.left_mib(host) == self.left_mib(best)]
            following = f"next {second} with {self.left_mib(second)} MiB"
        elif self._load(best) > min(map(self._load, equal)):
            return (
                f"fewest machines ({self._machines(best)}) of those within {EQUAL_LOAD_POINTS} points of the lowest "
                f"load: {self._percent(best)} of memory committed including this machine"
            )
        else:
            why = f"lowest load: {self._percent(best)} of memory committed including this machine"
            ties = [
                host
                for host in equal[1:]
                if self._load(host) == self._load(best) and self._machines(host) == self._machines(best)
            ]
            # Two that differ are not said to be the same.
            digits = 1 if not ties and self._percent(best) == self._percent(second) else 0
            why = why.replace(self._percent(best), self._percent(best, digits))
            following = f"next {second} with {self._percent(second, digits)}"
        if ties:
            return f"{why}, tie with {', '.join(ties)} broken by name"
        return f"{why}, {following}"

    def compared(self, host: str, best: str) -> str:
        """Why this one is not the best."""
        if not self._spread:
            word = "as much" if self.left_mib(host) == self.left_mib(best) else "more"
            return f"{word} free memory: {self.left_mib(host)} MiB after this machine"
        load, least = self._load(host), self._load(best)
        words = f"{self._percent(host)} of memory committed including this machine"
        if self._machines(host) > self._machines(best) and load <= least + EQUAL_LOAD_POINTS:
            return f"more machines ({self._machines(host)}): {words}"
        return f"{'as high a' if load == least else 'a higher'} load: {words}"

    def better_but_refused(self, capacities: Mapping[str, HostCapacity], first: Mapping[str, str], best: str) -> str:
        """Who would have been chosen by its memory, and why not: the reader would look for them in vain in the rest."""
        if self._spread:
            load = self._load(best)
            better = [host for host in first if capacities[host].load_with(self._need.memory_mib) < load]
            return "".join(f"; {host} has a lower load but {first[host]}" for host in better)
        most_mib, need_mib = self._capacities[best].memory_mib, self._need.memory_mib
        better = [host for host in first if need_mib <= capacities[host].memory_mib < most_mib]
        return "".join(f"; {host} has less but {first[host]}" for host in better)

    def _load(self, host: str) -> float:
        return self._capacities[host].load_with(self._need.memory_mib)

    def _percent(self, host: str, digits: int = 0) -> str:
        return f"{self._load(host):.{digits}f}%"

    def _machines(self, host: str) -> int:
        return len(self._capacities[host].machines)


def _hint(
    need: Need, capacities: Mapping[str, HostCapacity], candidates: Sequence[str], brought: t.Container[str]
) -> str | None:
    """What could be done for a machine that fits nowhere, where that is little."""
    for host in candidates:
        if capacities[host].maintenance is not None and len(capacities[host].refusals(need, brought)) == 1:
            end = f"brine.virt.maintenance -e end={host}"
            reason = (capacities[host].maintenance or {}).get("reason")
            if str(reason).partition(":")[0] == _RETIRED:
                return f"It would fit on {host} if that comes back: brine.virt.hypervisors, then {end}"
            return f"It would fit on {host} after its maintenance, which ends with {end}"
    return APART_HINT if any(capacities[host].only_apart(need, brought) for host in candidates) else None


def notes_on(need: Need, capacity: HostCapacity) -> list[str]:
    """What is to be said of a choice beside its reason."""
    return [*(f"it {words}" for words in capacity.shared_with(need)), *capacity.doubts(need)]
