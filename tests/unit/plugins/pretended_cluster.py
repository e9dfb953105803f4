# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Ceph cluster in memory, whose bindings name things and errors as librbd does. What a real one does is seen in the
lab (scenario ceph_snapshots)."""

from __future__ import annotations

import typing as t
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone

from ansible_collections.brine.virt.plugins.module_utils._host.storage.ceph import Cluster
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool


class Error(Exception):
    pass


class ImageNotFound(Error):
    pass


class ImageBusy(Error):
    pass


@dataclass
class Snapshot:
    """content: of the volume then. clones: names of volumes. namespace: whose it is, 3 that of a mirror."""

    content: str
    protected: bool = False
    clones: list[str] = field(default_factory=list)
    namespace: int = 0


@dataclass
class Volume:
    """watchers: the addresses of clients that have it open. written: in seconds, when it was last written to.
    number: a part of its ID."""

    content: str = "new"
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    watchers: list[str] = field(default_factory=list)
    written: float = 0
    number: int = 0


class PretendedCluster:
    """The module rbd and its class RBD in one. calls: what was done to it, in order. fail: the calls that fail."""

    Error, ImageNotFound, ImageBusy = Error, ImageNotFound, ImageBusy

    def __init__(self, *names: str) -> None:
        self.there = {name: Volume() for name in names}
        self.calls: list[str] = []
        self.fail: set[str] = set()

    def RBD(self) -> PretendedCluster:  # noqa: N802 - librbd's own name
        return self

    def Image(  # noqa: N802 - librbd's own name
        self, _io: t.Any, name: str, snapshot: str | None = None, read_only: bool = False
    ) -> Image:
        if name not in self.there or (snapshot is not None and snapshot not in self.there[name].snapshots):
            raise ImageNotFound(name)
        return Image(self, name, snapshot)

    def open(self, _pool: Pool) -> AbstractContextManager[Cluster]:
        """In place of open_cluster."""
        return nullcontext(Cluster(self, None))


class Image:
    """An open volume."""

    def __init__(self, cluster: PretendedCluster, name: str, snapshot: str | None) -> None:
        self._cluster = cluster
        self._name = name
        self._snapshot = snapshot

    @property
    def _volume(self) -> Volume:
        return self._cluster.there[self._name]

    def _note(self, call: str) -> None:
        if f"{call} {self._name}" in self._cluster.fail:
            raise Error(f"{call} {self._name} failed")
        self._cluster.calls.append(f"{call} {self._name}")

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def id(self) -> str:
        return f"id-{self._name}-{self._volume.number}"

    def modify_timestamp(self) -> datetime:
        return datetime.fromtimestamp(self._volume.written, timezone.utc)

    def list_snaps(self) -> list[dict[str, t.Any]]:
        return [{"name": name, "namespace": one.namespace} for name, one in self._volume.snapshots.items()]

    def watchers_list(self) -> list[dict[str, str]]:
        return [{"addr": address} for address in self._volume.watchers]

    def list_children2(self) -> list[dict[str, str]]:
        names = [self._snapshot] if self._snapshot is not None else list(self._volume.snapshots)
        return [{"pool": "vms", "image": clone} for name in names for clone in self._volume.snapshots[str(name)].clones]

    def create_snap(self, name: str) -> None:
        self._note("create")
        self._volume.snapshots[name] = Snapshot(self._volume.content)

    def is_protected_snap(self, name: str) -> bool:
        return self._volume.snapshots[name].protected

    def unprotect_snap(self, name: str) -> None:
        if self._volume.snapshots[name].clones:
            raise ImageBusy(name)
        self._volume.snapshots[name].protected = False

    def remove_snap(self, name: str) -> None:
        self._note("remove")
        if self._volume.snapshots[name].protected:
            raise ImageBusy(name)
        del self._volume.snapshots[name]

    def rollback_to_snap(self, name: str) -> None:
        self._note("rollback")
        self._volume.content = self._volume.snapshots[name].content
