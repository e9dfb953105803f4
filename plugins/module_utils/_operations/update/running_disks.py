# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk on record, and what the running machine has in its place."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import REMOVABLE, Disk
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.elements import need
from ansible_collections.brine.virt.plugins.module_utils._operations.update.draft import Draft


def find_disk(xml: t.Any, target: str | None) -> etree._Element | None:
    """The disk with this target; xml may be None."""
    return None if xml is None or target is None else xml.find(f"devices/disk/target[@dev='{target}']/..")


def same_place(one: etree._Element, other: etree._Element) -> bool:
    """Whether two disks lie at one place, or nothing can be said of it."""
    places = [source.place for source in map(DiskSource.read, (one, other)) if source is not None]
    return len(places) < 2 or places[0] == places[1]


def living_disk(disk: Disk, element: etree._Element, draft: Draft) -> etree._Element | None:
    """What the living machine has of a disk that is on record, None when it has not.

    Raises ConflictError when it has another one there, which is not what the task speaks of.
    """
    target = need(element, "target").get("dev", "")
    live = find_disk(draft.live, target)
    if live is None or disk.device in REMOVABLE or same_place(live, element):
        return live
    there, known = DiskSource.read(live), DiskSource.read(element)
    raise ConflictError(
        f"the running machine has {there.place if there else 'nothing'} as {target}, and its definition has "
        f"{known.place if known else 'nothing'} there",
        where=disk.given.place,
        hint="Somebody has changed one of the two. Power it off and on first, or take that disk out with virsh "
        "detach-disk",
    )
