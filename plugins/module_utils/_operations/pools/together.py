# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools that cannot be there side by side: two at one place, or two ways to one storage.

libvirt finds some of it when a pool is defined, after other pools of the task have been changed
(virStoragePoolObjSourceFindDuplicate in src/conf/virstorageobj.c).
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, InputError, Mistakes
from ..._model.spec.resources.pool import DIRECTORY_TYPES, PoolSpec
from .existing import FoundPool

# What no two pools of a type can have the same of; its first option is the one that is named. Two of Ceph can, as
# different users. A target is the only one of its name, whichever portal of it is named.
_SOURCES: dict[str, tuple[str, ...]] = {
    "fs": ("device",),
    "netfs": ("export", "host"),
    "logical": ("volume_group",),
    "iscsi": ("target", "initiator"),
    "zfs": ("dataset",),
}

_MOUNTED = ("fs", "netfs")


@dataclass(frozen=True)
class _Claim:
    """What a pool has for itself: by which option it does, and what is the same for two that have it."""

    key: str
    words: str
    same: t.Hashable


def require_own_names(specs: Sequence[PoolSpec]) -> None:
    """Raise InputError for pools of one task that have one name."""
    mistakes = Mistakes()
    for index, spec in enumerate(specs):
        for other in specs[:index]:
            if spec.name == other.name:
                with mistakes.noted():
                    raise InputError(f"has the same name as {other.at('name')}", where=spec.at("name"))
    mistakes.conclude()


@dataclass
class PoolsTogether:
    """The pools of one hypervisor while those of a task are planned, in order.

    existing: gives all that are there. local: whether its devices are those of this machine. going: the names of those
    that the task has removed by then.
    """

    existing: Callable[[], Iterable[FoundPool]]
    local: bool
    going: set[str] = field(default_factory=set)
    _planned: list[PoolSpec] = field(default_factory=list)

    def add(self, spec: PoolSpec) -> None:
        """A new pool, by its complete spec. Raises VirtError where another one has its place or its storage."""
        mistakes, existing = Mistakes(), list(self.existing())
        for claim in self._claims(spec.type or "", {**spec.options, "devices": spec.devices}):
            with mistakes.noted():
                self._check_planned(spec, claim)
                self._check_existing(spec, claim, existing)
        mistakes.conclude()
        self._planned.append(spec)

    def unmounts(self, path: str) -> bool:
        """Whether the task has removed a pool by then that is mounted at this path now."""
        going = [pool for pool in self.existing() if pool.name in self.going and pool.active]
        return any(pool.kind in _MOUNTED and pool.have.get("path") == path for pool in going)

    def _check_planned(self, spec: PoolSpec, claim: _Claim) -> None:
        for other in self._planned:
            for theirs in self._claims(other.type or "", {**other.options, "devices": other.devices}):
                if theirs.same == claim.same:
                    raise InputError(f"has the same {claim.key} as {other.at(theirs.key)}", where=spec.at(claim.key))

    def _check_existing(self, spec: PoolSpec, claim: _Claim, existing: Iterable[FoundPool]) -> None:
        for other in existing:
            if other.name not in self.going and claim.same in {
                one.same for one in self._claims(other.kind, other.have)
            }:
                raise ConflictError(
                    f"the storage pool {other.name} is at {claim.words} already",
                    where=spec.at(claim.key),
                    hint=f"Use that one, remove it before this one with state: absent (its data stays), or choose "
                    f"another {claim.key} for {spec.name}",
                )

    def _claims(self, kind: str, have: Mapping[str, t.Any]) -> list[_Claim]:
        found = []
        if kind in DIRECTORY_TYPES and have.get("path"):
            found.append(_Claim("path", have["path"], ("path", self._directory(have["path"]))))
        keys = _SOURCES.get(kind, ())
        if keys and have.get(keys[0]):
            words = f"{have['export']} of {have.get('host')}" if kind == "netfs" else str(have[keys[0]])
            values = tuple(self._device(have[key]) if key == "device" else have.get(key) for key in keys)
            found.append(_Claim(keys[0], words, values if kind == "fs" else (kind, *values)))
        # What a volume group or a ZFS pool is made from is no other's file system either.
        found += [_Claim("devices", path, (self._device(path),)) for path in have.get("devices") or ()]
        return found

    def _directory(self, path: str) -> t.Hashable:
        """The same for all paths of one directory, also by links and bind mounts: its files would be volumes of two."""
        if not self.local:
            return path
        try:
            found = os.stat(path)
        except OSError:
            return os.path.realpath(path)
        return found.st_dev, found.st_ino

    def _device(self, path: str) -> str:
        return os.path.realpath(path) if self.local else path
