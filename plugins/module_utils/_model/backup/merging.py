# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kept backups are merged with those that they are built on, so that these can go."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from .manifest import Manifest
from .retention import Keep, chosen, removable


@dataclass(frozen=True)
class Merge:
    """Backups that are built on each other, and are there only because kept ones are built on them.

    gone: their ids, the newest first, in which order they can be removed. merged: the ids of the kept ones, which take
    in what they need of them first. onto: the kept one that these are built on then; None where there is none, and each
    of them becomes a full backup.
    """

    gone: tuple[str, ...]
    merged: tuple[str, ...]
    onto: str | None


def merges(
    backups: Sequence[Manifest], keep: Keep, most: int, after: str = "", damaged: Container[str] = ()
) -> list[Merge]:
    """What has to be merged so that no more than so many backups are there besides those that ``keep`` asks for.

    backups: those of one machine, in any order. most: how many may be there besides. after: only those with a later id
    can be removed, and count. What frees the most comes first. What is built on one that is not there is left alone,
    and so is what is damaged, as of chosen, and what that is built on.
    """
    by_id = {manifest.id: manifest for manifest in backups}
    kept = chosen(backups, keep, damaged)
    gone = {manifest.id for manifest in removable(backups, keep, damaged)}
    held = sorted(name for name in by_id if name not in kept and name not in gone)
    lowest: dict[str, str] = {}
    for name in held:
        # A parent is earlier than its child.
        lowest[name] = lowest.get(by_id[name].parent or "", name)
    groups: dict[str, list[str]] = {}
    for name, root in lowest.items():
        groups.setdefault(root, []).append(name)
    merged = {root: sorted(name for name in kept if by_id[name].parent in group) for root, group in groups.items()}
    possible = {
        root: group
        for root, group in groups.items()
        if root > after
        and (by_id[root].parent is None or by_id[root].parent in by_id)
        and not any(name in damaged for name in (*group, *merged[root]))
    }
    left = sum(map(len, possible.values()))
    found = []
    for root, group in sorted(possible.items(), key=lambda item: (-len(item[1]), item[0])):
        if left <= most:
            break
        left -= len(group)
        found.append(Merge(tuple(sorted(group, reverse=True)), tuple(merged[root]), by_id[root].parent))
    return found
