# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume of a shared pool that new disks on several hypervisors want: as long as no machine has it, none of the
hypervisors can see that another one is about to use it."""

from __future__ import annotations

import itertools
import posixpath
import typing as t
from collections.abc import Iterator, Mapping

from ...module_utils._operations.shared_volumes.units import is_same_everywhere, iscsi_place
from ...module_utils._operations.task_volumes import exclude

_HINT = "Two machines may share it only if both are shareable or readonly"
_Volume = Mapping[str, t.Any]


def wanted_twice(answers: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    """Hypervisor and sentence for each disk whose volume a disk on an earlier hypervisor is to have.

    answers: by the names of hypervisors, what virt_init returned there.
    """
    wanted = [(host, volume) for host, answer in answers.items() for volume in answer.get("wanted") or ()]
    for (host, volume), (later, other) in itertools.combinations(wanted, 2):
        if host != later and exclude(volume["use"], other["use"]) and _is_same(volume, other):
            yield (
                later,
                f"{other['where']}: volume {other['volume']} of pool {other['pool']} is also requested for machine "
                f"{volume['machine']} on {host} ({volume['where']}). {_HINT}",
            )


def _is_same(one: _Volume, other: _Volume) -> bool:
    """Whether two hypervisors mean one volume, by the rules that virt_usage_info goes by; without anything better, by
    the names of pool and volume."""
    if _place(one) == _place(other) and (_place(one)[:1] != "/" or is_same_everywhere(_place(one))):
        return True
    if one["serial"] is not None and other["serial"] is not None:
        return bool(one["serial"] == other["serial"])
    if one["inode"] is not None and one["inode"] == other["inode"]:
        return True
    if _is_file(one) and _is_file(other):
        return posixpath.basename(one["place"]) == posixpath.basename(other["place"])
    return (one["pool"], one["volume"]) == (other["pool"], other["volume"])


def _place(volume: _Volume) -> str:
    return iscsi_place(volume["place"])


def _is_file(volume: _Volume) -> bool:
    return bool(volume["place"].startswith("/")) and volume["inode"] is not None
