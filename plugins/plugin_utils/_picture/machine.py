# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as the page shows it, from its record. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .._reports.remarks import on_its_way, unfinished
from .facts import jobs_of, snapshots_of, uptime_of
from .words import counted, size, visible

Record = Mapping[str, t.Any]
UNFINISHED = "unfinished"
_SAVED = "saved"
# The style of a state, which also chooses its sign; what is not here is shown as trouble.
_STYLES = {
    "running": "on",
    "blocked": "on",
    "shutoff": "off",
    "paused": "held",
    "pmsuspended": "held",
    "shutdown": "held",
    _SAVED: "held",
    UNFINISHED: "held",
}
_SIGNS = {"on": "●", "off": "○", "held": "◐", "bad": "✕"}


@dataclass(frozen=True)
class Note:
    """A sentence below a machine or a hypervisor. kind: pending, move, job or warning."""

    kind: str
    text: str


@dataclass(frozen=True)
class ShownMachine:
    """A machine on the page. All texts are visible ones. condition: the state, with what caused it.

    vcpus and memory_mib: for sorting, 0 if unknown.
    """

    name: str
    state: str
    condition: str
    style: str
    sign: str
    vcpus: int
    memory_mib: int
    resources: str
    title: str
    addresses: tuple[str, ...]
    tags: tuple[str, ...]
    image: str
    details: tuple[str, ...]
    uptime: str | None
    notes: tuple[Note, ...]

    @property
    def needs_attention(self) -> bool:
        """Whether something about it is pending, under way or wrong."""
        return bool(self.notes) or self.style == "bad"

    def has(self, kind: str) -> bool:
        """Whether it has a note of this kind."""
        return any(note.kind == kind for note in self.notes)


def machine_of(record: Record) -> ShownMachine:
    """The machine of a record of virt_info."""
    state = UNFINISHED if record.get("building") else _SAVED if record.get("saved") else visible(record["state"])
    # Nobody wanted it to be paused.
    trouble = record.get("paused_by")
    style = "bad" if trouble else _STYLES.get(state, "bad")
    vcpus, memory_mib = record.get("vcpus"), record.get("memory_mib")
    image = record.get("image")
    return ShownMachine(
        name=visible(record["name"]),
        state=state,
        condition=visible(" ".join(filter(None, [state, trouble]))),
        style=style,
        sign=_SIGNS[style],
        vcpus=vcpus if isinstance(vcpus, int) else 0,
        memory_mib=memory_mib if isinstance(memory_mib, int) else 0,
        resources=f"{'?' if vcpus is None else vcpus} vCPU, {'?' if memory_mib is None else size(memory_mib)}",
        title=visible(record.get("title")).strip(),
        addresses=tuple(visible(address) for address in record.get("addresses") or []),
        tags=tuple(visible(tag) for tag in record.get("tags") or []),
        image=visible(image.get("name")) if isinstance(image, Mapping) else "",
        details=tuple(_details(record)),
        uptime=uptime_of(record),
        notes=tuple(_notes(record)),
    )


def _details(record: Record) -> t.Iterator[str]:
    # As in the list, without what is only read: a seed, an ISO.
    disks = [
        disk
        for disk in record.get("disks") or []
        if disk.get("device", "disk") in ("disk", "lun") and not disk.get("readonly")
    ]
    sizes = [disk["size_bytes"] for disk in disks if disk.get("size_bytes") is not None]
    if sizes:
        yield f"{size(sum(sizes) / 1024**2)} on {counted(len(disks), 'disk')}"
    snapshots = snapshots_of(record)
    if snapshots:
        yield counted(snapshots, "snapshot")
    if record.get("autostart"):
        yield "autostart"
    if record.get("managed") is False:
        yield "not created by brine.virt"


def _notes(record: Record) -> t.Iterator[Note]:
    words = unfinished(record)
    if words:
        yield Note("warning", visible(words[0].upper() + words[1:]))
    trouble = record.get("paused_by")
    if trouble:
        yield Note("warning", visible(f"Paused {trouble}"))
    move = on_its_way(record)
    if move:
        yield Note("move", visible(move[0].upper() + move[1:]))
    for job in jobs_of(record):
        yield Note("job", visible(f"Job: {job}"))
    pending = record.get("pending") or []
    if pending:
        yield Note("pending", visible(f"Pending: {', '.join(map(str, pending))}"))
    for error in record.get("errors") or []:
        yield Note("warning", visible(error))
