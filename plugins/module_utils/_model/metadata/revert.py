# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a machine that goes back to a snapshot.

A revert brings back the whole description that the machine had then, with the metadata of that time: its tags, its
variables, and whatever a move or an interrupted run had noted. What this collection remembers of the machine's place
among the others stays as it is now; what belongs to the description and to the disks is as it was then.
"""

from __future__ import annotations

from dataclasses import replace

from ..._base.xml import etree, parse_xml
from .machine import READY, MachineNotes, find_notes, notes_to_element, read_notes
from .migration import NAMESPACE as MOVE_NAMESPACE
from .snapshots import NAMESPACE as SET_ASIDE_NAMESPACE
from .snapshots import WORK_NAMESPACE


def kept_notes(now: MachineNotes | None, then: MachineNotes | None) -> MachineNotes | None:
    """The notes of a machine after a revert; None for one that is not ours now.

    Of the description, and so of then: image, disks, nics, seed, host keys, the hash of merged XML. Of the machine's
    place among others, and so of now: the rest. What it owns is never forgotten.
    """
    if now is None or then is None:
        return now
    return replace(
        now,
        status=READY,
        claimed=False,
        image=then.image,
        disks=then.disks,
        nics=then.nics,
        seed=then.seed,
        host_keys=then.host_keys,
        fragment=then.fragment,
    )


def would_bring_back(then: etree._Element | None, wanted: MachineNotes | None) -> bool:
    """Whether the metadata of the snapshot are others than the wanted ones."""
    return then is not None and (read_notes(then) != wanted or bool(_work(then)))


def with_notes(snapshot_xml: str, notes: MachineNotes | None) -> str:
    """A snapshot's XML with these notes in the descriptions that it holds, and no note of work that was under way."""
    root = parse_xml(snapshot_xml)
    for domain in (*root.iterfind("domain"), *root.iterfind("inactiveDomain")):
        metadata = domain.find("metadata")
        if metadata is None:
            metadata = etree.Element("metadata")
            place = domain.find("uuid")
            domain.insert(0 if place is None else domain.index(place) + 1, metadata)
        for old in (*find_notes(domain), *_work(domain)):
            metadata.remove(old)
        if notes is not None:
            metadata.append(notes_to_element(notes))
    return etree.tostring(root, encoding="unicode")


def _work(domain: etree._Element) -> list[etree._Element]:
    """What a move, or the run that has taken the snapshot, had noted when it was taken."""
    return [
        one
        for one in domain.iterfind("metadata/*")
        if etree.QName(one).namespace in (MOVE_NAMESPACE, SET_ASIDE_NAMESPACE, WORK_NAMESPACE)
    ]
