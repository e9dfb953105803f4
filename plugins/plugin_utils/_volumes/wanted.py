# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume of a shared pool that new disks on several hypervisors want: as long as no machine has it, none of the
hypervisors can see that another one is about to use it."""

from __future__ import annotations

import posixpath
import typing as t
from collections.abc import Iterator, Mapping

from ...module_utils._operations.shared_volumes.units import differ, is_same_everywhere, iscsi_place
from ...module_utils._operations.task_volumes import exclude

_HINT = "Two machines may share it only if both are shareable or readonly"
_TWO_FILES = "If these are two files, rename one (same name) or copy one (same inode number)"
_Volume = Mapping[str, t.Any]


def wanted_twice(answers: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    """Hypervisor and sentence for each disk whose volume a disk on an earlier hypervisor is to have.

    answers: by the names of hypervisors, what virt_init returned there.
    """
    # By what may be the same, and by the use, as many overlays have one volume: each is compared with few others.
    earlier: dict[tuple[str, t.Hashable], list[tuple[int, str, _Volume]]] = {}
    uses: set[str] = set()
    wanted = ((host, volume) for host, answer in answers.items() for volume in answer.get("wanted") or ())
    for number, (later, other) in enumerate(wanted):
        keys = _keys(other)
        found = {
            index: (host, volume)
            for use in uses
            if exclude(use, other["use"])
            for key in keys
            for index, host, volume in earlier.get((use, key), ())
        }
        for host, volume in (found[index] for index in sorted(found)):
            if host != later and _is_same(volume, other):
                yield later, _sentence(host, volume, other)
        uses.add(other["use"])
        for key in keys:
            earlier.setdefault((other["use"], key), []).append((number, later, other))


def _sentence(host: str, volume: _Volume, other: _Volume) -> str:
    sure = volume["inode"] == other["inode"] and _name(volume) == _name(other)
    doubt = "" if sure or not (_is_file(volume) and _is_file(other)) else f". {_TWO_FILES}"
    return (
        f"{other['where']}: volume {other['volume']} of pool {other['pool']} is also requested for machine "
        f"{volume['machine']} on {host} ({volume['where']}). {_HINT}{doubt}"
    )


def _keys(volume: _Volume) -> set[t.Hashable]:
    """Two volumes that are the same have one of these in common."""
    keys: set[t.Hashable] = {("place", _place(volume)), ("name", volume["pool"], volume["volume"])}
    keys.update((word, volume[word]) for word in ("serial", "inode") if volume[word] is not None)
    return keys | ({("file", _name(volume))} if _is_file(volume) else set())


def _is_same(one: _Volume, other: _Volume) -> bool:
    """Whether two hypervisors mean one volume, by the rules that virt_usage_info goes by; without anything better, by
    the names of pool and volume."""
    places = _place(one), _place(other)
    # A target may show each host its own LUNs under one number.
    if differ(one["serial"], other["serial"]):
        return False
    if places[0] == places[1] and (places[0][:1] != "/" or is_same_everywhere(places[0])):
        return True
    if one["serial"] is not None and other["serial"] is not None:
        return bool(one["serial"] == other["serial"])
    if one["inode"] is not None and one["inode"] == other["inode"]:
        return True
    if _is_file(one) and _is_file(other):
        return _name(one) == _name(other)
    if all(place.startswith("rbd:") for place in places):
        return False
    return (one["pool"], one["volume"]) == (other["pool"], other["volume"])


def _place(volume: _Volume) -> str:
    return iscsi_place(volume["place"])


def _is_file(volume: _Volume) -> bool:
    return bool(volume["place"].startswith("/")) and volume["inode"] is not None


def _name(volume: _Volume) -> str:
    return posixpath.basename(volume["place"])
