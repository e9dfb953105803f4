# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of a hypervisor for one machine, with the reasons for it and against every other one."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.plugin_utils._placement.capacity import HostCapacity
from ansible_collections.brine.virt.plugins.plugin_utils._placement.need import Need
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions

APART_HINT = (
    "Only its anti-affinity keeps it away: add a hypervisor, or let machines of one group share one where they cannot "
    "be apart, with virt_anti_affinity: prefer"
)


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
    sign = -1 if options.policy == "spread" else 1
    fitting.sort(key=lambda host: (len(capacities[host].group_members(need)), sign * capacities[host].memory_mib, host))
    best = fitting[0]
    # Hard anti-affinity has refused them already.
    equal = [
        host
        for host in fitting
        if len(capacities[host].group_members(need)) == len(capacities[best].group_members(need))
    ]
    left_mib = {host: capacities[host].memory_mib - need.memory_mib for host in fitting}
    for host in fitting[1:]:
        if host in equal:
            refused[host] = _compared(left_mib[host], left_mib[best])
        else:
            refused[host] = ", ".join(capacities[host].shared_with(need))
    reason = _asked(left_mib[best]) if asked else _why_best(equal, len(fitting), left_mib, options.policy)
    # The first reason alone: all of them stand in refused.
    first = {host: reasons[0] for host, reasons in refusals.items() if reasons}
    if len(fitting) == 1 and first and not asked:
        reason += f" ({'; '.join(f'{host}: {why}' for host, why in first.items())})"
    elif len(equal) > 1:
        reason += _better_but_refused(need, capacities, first, best, options.policy)
    why = [reason, *notes_on(need, capacities[best])]
    return HostChoice(best, "; ".join(why), refused)


def _hint(
    need: Need, capacities: Mapping[str, HostCapacity], candidates: Sequence[str], brought: t.Container[str]
) -> str | None:
    """What could be done for a machine that fits nowhere, where that is little."""
    for host in candidates:
        if capacities[host].maintenance is not None and len(capacities[host].refusals(need, brought)) == 1:
            return f"It would fit on {host} after its maintenance, which ends with brine.virt.maintenance -e end={host}"
    return APART_HINT if any(capacities[host].only_apart(need, brought) for host in candidates) else None


def notes_on(need: Need, capacity: HostCapacity) -> list[str]:
    """What is to be said of a choice beside its reason."""
    return [*(f"it {words}" for words in capacity.shared_with(need)), *capacity.doubts(need)]


def _asked(left_mib: int) -> str:
    return f"the task asks for it: {left_mib} MiB of free memory after this machine"


def _why_best(equal: Sequence[str], fitting: int, left_mib: Mapping[str, int], policy: str) -> str:
    best = equal[0]
    if fitting == 1:
        return f"the only one that it fits on: {left_mib[best]} MiB of free memory after this machine"
    if len(equal) == 1:
        return f"it shares it with the fewest of its group: {left_mib[best]} MiB of free memory after this machine"
    words = "most" if policy == "spread" else "least"
    why = f"{words} free memory: {left_mib[best]} MiB after this machine"
    ties = [host for host in equal[1:] if left_mib[host] == left_mib[best]]
    if ties:
        return f"{why}, as much as on {', '.join(ties)}, which {'is' if len(ties) == 1 else 'are'} later by name"
    return f"{why}, next {equal[1]} with {left_mib[equal[1]]} MiB"


def _better_but_refused(
    need: Need, capacities: Mapping[str, HostCapacity], first: Mapping[str, str], best: str, policy: str
) -> str:
    """Who would have been chosen by its memory, and why not: the reader would look for them in vain in the rest."""
    best_mib = capacities[best].memory_mib
    if policy == "spread":
        better = [host for host in first if capacities[host].memory_mib > best_mib]
    else:
        better = [host for host in first if need.memory_mib <= capacities[host].memory_mib < best_mib]
    word = "more" if policy == "spread" else "less"
    return "".join(f"; {host} has {word} but {first[host]}" for host in better)


def _compared(left_mib: int, best_mib: int) -> str:
    word = "less" if left_mib < best_mib else "more" if left_mib > best_mib else "as much"
    return f"{word} free memory: {left_mib} MiB after this machine"
