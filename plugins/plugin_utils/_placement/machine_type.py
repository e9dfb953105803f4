# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine types of new machines: one that a hypervisor does not know cannot be moved there."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from .capacity import HostCapacity

# The kind that new machines are of where the hypervisor has it, with the version as QEMU and Red Hat write it.
_Q35 = re.compile(r"pc-q35-(?:rhel)?(\d+(?:\.\d+)*)")


def common_machine_type(capacities: Mapping[str, HostCapacity]) -> str | None:
    """The newest machine type of the kind q35 that all hypervisors know; None when there is none.

    The type that a hypervisor gives by itself is its newest, whatever it is called, and so comes first where all know
    it. Others are compared by their versions.
    """
    known = [capacity.machine_types for capacity in capacities.values()]
    common = known[0].intersection(*known[1:]) if known else set()
    own = {capacity.default_machine_type for capacity in capacities.values()} & common
    candidates = [name for name in own or common if name is not None and name.startswith("pc-q35-")]
    return max(candidates, key=lambda name: (_version(name), name), default=None)


def _version(name: str) -> tuple[int, ...]:
    found = _Q35.fullmatch(name)
    return tuple(map(int, found.group(1).split("."))) if found else ()


def bound_by_type(host: str, capacities: Mapping[str, HostCapacity]) -> str | None:
    """That a new machine on this hypervisor can be moved to some others never, in words; None when it can."""
    capacity = capacities[host]
    own = capacity.default_machine_type
    if own is None:
        return None
    # Of one that does not tell its types, nothing is known; to another architecture no machine can go.
    lacking = [
        name
        for name, other in capacities.items()
        if other.machine_types and other.arch == capacity.arch and own not in other.machine_types
    ]
    if not lacking:
        return None
    common = common_machine_type({name: other for name, other in capacities.items() if other.arch == capacity.arch})
    help_ = "; virt_cpu_baseline gives one that all know" if common else ""
    return f"its machine type {own} is not known on {', '.join(lacking)}{help_}"


class BoundMachines:
    """Says of the first new machine on each hypervisor that its type binds it there, and of no other."""

    def __init__(self, capacities: Mapping[str, HostCapacity], *, needed: bool) -> None:
        self._capacities = capacities
        self._said: set[str] = set()
        self._needed = needed

    def note(self, assignment: dict[str, t.Any], machine_type: str | None) -> dict[str, t.Any]:
        """The assignment of a new machine, with the note where needed. machine_type: the one that it asks for."""
        host = assignment["hypervisor"]
        if not self._needed or machine_type is not None or host in self._said:
            return assignment
        self._said.add(host)
        words = bound_by_type(host, self._capacities)
        return assignment if words is None else {**assignment, "why": f"{assignment['why']}; {words}"}
