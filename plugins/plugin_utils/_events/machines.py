# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of one hypervisor as the rules know them, and what must have happened since. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

Event = dict[str, t.Any]
SHUTOFF, RUNNING, PAUSED = "shutoff", "running", "paused"
_UNKNOWN = "unknown"
# As libvirt says why it has paused one. https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainPausedReason
_MOVING = "migration"
# As libvirt tells of a new name: the machine is undefined under the old one, and defined under the new one.
_RENAMED = "renamed"
# A run that is over, under whatever ID; libvirt's are from 1 on.
_EARLIER = 0
# In what state a change leaves a machine. What is not here does not say it.
_STATES = {
    "started": RUNNING,
    "resumed": RUNNING,
    "suspended": PAUSED,
    "stopped": SHUTOFF,
    "crashed": "crashed",
    "pmsuspended": "pmsuspended",
}


@dataclass(frozen=True)
class SeenMachine:
    """A machine. number: libvirt's ID of this run of it, None when it is off. reason: why it is in its state.
    transient: it is known to have no definition, so that it goes when it stops."""

    uuid: str
    name: str
    state: str
    number: int | None = None
    reason: str = _UNKNOWN
    transient: bool = False


def _event(machine: SeenMachine, change: str, reason: str = _UNKNOWN) -> Event:
    return {
        "type": "lifecycle",
        "machine": machine.name,
        "uuid": machine.uuid,
        "change": change,
        "reason": reason,
        "missed": True,
    }


class KnownMachines:
    """What the rules have been told of one hypervisor's machines."""

    def __init__(self) -> None:
        self._machines: dict[str, SeenMachine] | None = None

    def note(self, event: Mapping[str, t.Any], number: int | None) -> bool:
        """Take notice of a lifecycle event that is about to be told. number: the ID that the machine has then.

        Returns whether it says something new; what `compare` has found already comes once more from libvirt when it
        happened between the two.
        """
        machines = self._machines if self._machines is not None else {}
        uuid, change = event["uuid"], event["change"]
        before = machines.get(uuid)
        if change == "undefined":
            # One that runs on without a definition goes when it stops.
            if before is None or before.number is None:
                return machines.pop(uuid, None) is not None
            machines[uuid] = replace(before, transient=True)
            return True
        state = _STATES.get(change)
        if state is None:
            if before is None:
                machines[uuid] = SeenMachine(uuid, event["machine"], SHUTOFF)
            elif change == "defined":
                machines[uuid] = replace(before, transient=False)
            return True
        if state == SHUTOFF and before is not None and before.transient:
            del machines[uuid]
            return True
        number = None if state == SHUTOFF else number if number is not None else before.number if before else None
        # libvirt tells of a definition before the start, or, of a machine that a move brings, after it.
        transient = before is None or before.transient
        after = SeenMachine(uuid, event["machine"], state, number, event["reason"], transient)
        machines[uuid] = after
        return before is None or (before.state, before.number) != (after.state, after.number)

    def compare(self, found: Iterable[SeenMachine], *, host_restarted: bool = False) -> list[Event]:
        """What must have happened for the machines to be as they are found now, and take notice of it.

        The first time nothing has: there is nothing to compare with. host_restarted: since the last time; libvirt
        begins to count the runs anew then.
        """
        now = {machine.uuid: machine for machine in found}
        before, self._machines = self._machines, now
        if before is None:
            return []
        if host_restarted:
            before = {m.uuid: m if m.number is None else replace(m, number=_EARLIER) for m in before.values()}
        events: list[Event] = []
        for uuid in sorted({*before, *now}, key=lambda key: (now.get(key) or before[key]).name):
            events += _between(before.get(uuid), now.get(uuid))
        return events


def still_arriving(known: Iterable[str], missed: Iterable[Event], found: Iterable[SeenMachine]) -> set[str]:
    """The UUIDs of machines that a move is bringing here now. known: those that were arriving before. missed, found:
    what a look since then has found.

    Such a one is paused until its move ends. So is, for a moment, one that leaves; but that has been running here.
    """
    come = {*known, *(event["uuid"] for event in missed if event["change"] == "started")}
    return {one.uuid for one in found if (one.state, one.reason) == (PAUSED, _MOVING)} & come


def _between(before: SeenMachine | None, after: SeenMachine | None) -> list[Event]:
    """What must have happened to one machine. None: it was not there then."""
    events: list[Event] = []
    if after is None:
        if before is None:
            return []
        if before.number is not None:
            events.append(_event(before, "stopped"))
        # Of one that had no definition any more, that has been told.
        return events if before.transient else [*events, _event(before, "undefined")]
    if before is None:
        events.append(_event(after, "defined"))
    was, ran = (None, None) if before is None else (before.state, before.number)
    if ran is not None and ran != after.number:
        # Why it ended is known only while it is off.
        events.append(_event(after, "stopped", after.reason if after.number is None else _UNKNOWN))
        was = SHUTOFF
    if before is not None and before.name != after.name:
        events += [_event(before, "undefined", _RENAMED), _event(after, "defined", _RENAMED)]
    if after.number is not None:
        if ran != after.number:
            events.append(_event(after, "started"))
            was = RUNNING
        if was != after.state:
            for change, state in _STATES.items():
                # The first of the list is `started`, which has been said.
                if state == after.state and change != "started":
                    events.append(_event(after, change, after.reason))
    return events
