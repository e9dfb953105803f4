# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes of a machine become its own when it is adopted, and which do not and why. Changes nothing."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, InputError, one_of_these
from ..._base.xml import etree
from ..._host.machines.domains import Domain
from ..._host.storage.usage import volume_exists, why_kept
from ..._model.image.name import parse_image_volume
from ..._model.metadata.machine import MachineNotes, VolumeNote
from ..._model.xml.disk_source import QCOW2, RAW, driver_format
from ..hypervisor_view import HypervisorView
from ..purge.disks import MachineDisk, identity_of_note, read_disks

_LISTED = "the metadata list it already"
_NAMED = "disks names it, and nothing else uses it"
_FREE = "disks does not name it. Nothing else uses it, so it can be named"


@dataclass(frozen=True)
class DiskDecision:
    """Whether the volume behind a disk is, or becomes, the machine's own. name: ours of the disk, None without one.

    pool: None for what is in no active pool; volume is its path then. note: of a volume that becomes the machine's own.
    """

    name: str | None
    target: str
    pool: str | None
    volume: str
    own: bool
    reason: str
    note: VolumeNote | None = field(default=None, compare=False, repr=False)

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        return {
            "name": self.name,
            "target": self.target,
            "pool": self.pool,
            "volume": self.volume,
            "own": self.own,
            "reason": self.reason,
        }


def decide_disks(
    domain: Domain, notes: MachineNotes, view: HypervisorView, named: Sequence[str]
) -> tuple[DiskDecision, ...]:
    """A decision for each disk of a machine that is on something.

    notes: what is, or will be, remembered of the machine. named: by target device or ``pool/volume``, the disks that
    are to become its own. Raises InputError for one that the machine does not have, ConflictError for one that may
    belong to something else.
    """
    disks = read_disks(domain, view)
    wanted = _read_named(named, disks, domain.name)
    names = {note.target: note.name for note in notes.disks}
    listed = {identity_of_note(note, view) for note in notes.volumes}
    elements = {
        target.get("dev", ""): element
        for element in domain.xml.iterfind("devices/disk")
        for target in element.iterfind("target")
    }
    decisions = []
    for disk in disks:
        # Those of the definition come first. A later one of the same target is what the machine has while it runs.
        element, place = elements.pop(disk.target, None), wanted.get(disk.identity)

        def decision(own: bool, reason: str, note: VolumeNote | None = None, disk: MachineDisk = disk) -> DiskDecision:
            pool = None if disk.pool is None else disk.pool.name
            return DiskDecision(names.get(disk.target), disk.target, pool, disk.volume, own, reason, note)

        if disk.identity in listed:
            decisions.append(decision(True, _LISTED))
            continue
        obstacle = _why_not(disk, element, domain.name, view)
        if obstacle is not None and place is not None:
            raise ConflictError(
                f"disk {disk.target} of {domain.name} cannot become its own: {obstacle}",
                where=place,
                hint="Leave it out. The machine keeps the disk all the same",
            )
        if place is None or disk.pool is None or element is None:
            decisions.append(decision(False, obstacle or _FREE))
            continue
        listed.add(disk.identity)
        note = VolumeNote(disk.pool.name, disk.volume, "disk", format=driver_format(element))
        decisions.append(decision(True, _NAMED, note))
    return tuple(decisions)


def _read_named(words: Sequence[str], disks: Sequence[MachineDisk], machine: str) -> Mapping[t.Hashable, str]:
    """The identities of the disks that the task names, each with the place of its name.

    A target means the disk of the definition, where the machine runs with another one.
    """
    known = {
        **{disk.words: disk.identity for disk in disks},
        **{disk.target: disk.identity for disk in reversed(disks)},
    }
    for number, word in enumerate(words):
        if word not in known:
            raise InputError(
                f"{word!r} is not a disk of machine {machine}", where=f"disks[{number}]", hint=one_of_these(word, known)
            )
    return {known[word]: f"disks[{number}]" for number, word in enumerate(words)}


def _why_not(disk: MachineDisk, element: etree._Element | None, machine: str, view: HypervisorView) -> str | None:
    """Why a volume cannot become the machine's own, in words; None where it is proven that nothing else has it."""
    if element is None:
        return "the machine has it only until it is powered off"
    if disk.pool is None:
        return "it is in no active storage pool"
    if not volume_exists(disk.pool, disk.volume):
        return f"storage pool {disk.pool.name} has no volume {disk.volume}"
    device, image_format = element.get("device", "disk"), driver_format(element)
    if device != "disk":
        return f"it is a {device}"
    if element.find("readonly") is not None:
        return "the machine may only read it"
    if element.find("shareable") is not None:
        return "it is shareable, so that other machines may have it too"
    if parse_image_volume(disk.volume) is not None:
        return "it has the name of a stored image"
    if image_format not in (RAW, QCOW2):
        return f"its format is {image_format}, and not {RAW} or {QCOW2}"
    kept = why_kept(view.usage.of(disk.pool, disk.volume, besides=machine))
    # These reasons are about keeping a volume, and follow one another.
    return None if kept is None else kept.rstrip(".")
