# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks of a machine get another image below them, or none: decided before anything is changed."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    NotFoundError,
    UnsupportedError,
    VirtError,
    one_of_these,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import attribute, etree
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage, newest_in
from ansible_collections.brine.virt.plugins.module_utils._host.storage.file_chain import file_id
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.rebase import (
    Base,
    allocated_bytes,
    header_of,
    snapshots_inside,
)
from ansible_collections.brine.virt.plugins.module_utils._model.disk_format import QCOW2, driver_format
from ansible_collections.brine.virt.plugins.module_utils._model.free_space import SpaceRequest, require_free_space
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import parse_image_volume
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import ImageNote, MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import FILE, DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import (
    SnapshotView,
    require_settled,
    view,
)


@dataclass(frozen=True)
class RebaseRequest:
    """What the task asks for.

    image: the name or the volume of a stored image, the newest of this name; None for the newest version of the image
    that each disk is backed by now. flatten: no image at all. disks: by their names or targets; None for all that it
    can be done with. pool: the one that the image store is in.
    """

    image: str | None = None
    flatten: bool = False
    disks: tuple[str, ...] | None = None
    pool: str = "images"


@dataclass(frozen=True)
class DiskRebase:
    """One disk. path: of its file, without links. base: what it is backed by now. image: what comes in its place; None
    for nothing. needed_bytes: what the new file takes at most, beside the old one."""

    target: str
    name: str | None
    pool: Pool
    volume: str
    path: str
    base: Base
    image: StoredImage | None
    needed_bytes: int

    @property
    def new_base(self) -> Base | None:
        """What it is to be backed by."""
        return None if self.image is None else Base(self.image.path, self.image.format)

    @property
    def words(self) -> str:
        """What is done, in words."""
        if self.image is None:
            return f"flatten disk {self.target} ({self.volume}), which is backed by {os.path.basename(self.base.path)}"
        now = os.path.basename(self.base.path)
        return f"rebase disk {self.target} ({self.volume}) from {now} to image {self.image.volume}"


@dataclass(frozen=True)
class RebasePlan:
    """What is to be done with one machine. notes: what is remembered of it from then on; None where that stays."""

    machine: SnapshotView
    disks: tuple[DiskRebase, ...] = ()
    notes: MachineNotes | None = None

    def require_room(self) -> None:
        """Raise ConflictError unless the pools have room for all new files: they are made one after the other, but what
        the old ones leave may be less than the new ones take."""
        requests = [
            SpaceRequest(one.pool.name, one.pool.space_source, one.pool.available_bytes, one.needed_bytes)
            for one in self.disks
        ]
        try:
            require_free_space(requests)
        except ConflictError as exc:
            raise ConflictError(exc.what, hint="Free some space there, or name fewer disks") from exc

    @property
    def note_words(self) -> str | None:
        """What is noted, in words; None where nothing is."""
        if self.notes is None:
            return None
        image = self.notes.image
        return f"note that {self.machine.name} needs " + ("no image" if image is None else f"image {image.volume}")

    @property
    def actions(self) -> list[str]:
        """All that is done, in words."""
        return [*(one.words for one in self.disks), *filter(None, [self.note_words])]


def plan_rebase(conn: VirConnect, name: str, request: RebaseRequest) -> RebasePlan:
    """Decide it for one machine. Nothing is changed. Raises VirtError when it cannot be done."""
    machine = view(conn, name, "name")
    require_settled(machine)
    planner = _Planner(Hypervisor(conn, image_pool=request.pool), machine, request)
    plan = planner.plan()
    if plan.disks:
        _require_off(machine)
    return plan


def _require_off(machine: SnapshotView) -> None:
    """Raise unless nothing but the files themselves relies on what is in them."""
    if machine.active:
        raise ConflictError(
            f"it is {machine.power.state}, and its disks are in use",
            hint="Shut it down first: virt_power with state: stopped",
        )
    if machine.snapshots:
        names = ", ".join(sorted(one.facts.name for one in machine.snapshots))
        raise UnsupportedError(
            f"it has snapshots ({names}), which rely on what its disks are backed by now",
            hint="Delete them first: virt_snapshot with state: absent",
        )


@dataclass
class _Planner:
    hypervisor: Hypervisor
    machine: SnapshotView
    request: RebaseRequest
    disks: list[DiskRebase] = field(default_factory=list)
    # The one that the task names, and whether it is meant for any of them.
    image: StoredImage | None = None
    _met: bool = False

    def plan(self) -> RebasePlan:
        if self.request.image is not None:
            self.image = self._find_image(self.request.image)
        elements = [disk for disk in self.machine.defined.iterfind("devices/disk") if _is_disk(disk)]
        chosen = self._chosen(elements)
        notes = self.machine.notes
        image = notes.image if notes is not None else None
        for element, named in chosen:
            try:
                wanted = self._plan_disk(element, named=named)
            except VirtError as exc:
                where = f"disk {attribute(element, 'target', 'dev')}"
                raise type(exc)(f"{where}: {exc.what}", where=exc.where, hint=exc.hint) from exc
            if wanted is not None and element is elements[0] and (image is not None or self.disks):
                # The metadata have the image of the first disk.
                image = wanted.note
        if self.image is not None and not self._met:
            raise ConflictError(
                f"no disk of it is backed by an image called {self.image.name}",
                where="disks",
                hint="Say which disks are to be backed by it",
            )
        if notes is None or image == notes.image:
            return RebasePlan(self.machine, tuple(self.disks))
        return RebasePlan(self.machine, tuple(self.disks), replace(notes, image=image))

    def _chosen(self, elements: Sequence[etree._Element]) -> list[tuple[etree._Element, bool]]:
        """The disks that are meant, and whether each is named. Raises NotFoundError for one that there is not."""
        if self.request.disks is None:
            return [(element, False) for element in elements]
        by_name = {attribute(element, "target", "dev"): element for element in elements}
        for note in self.machine.notes.disks if self.machine.notes is not None else ():
            if note.target in by_name:
                by_name.setdefault(note.name, by_name[note.target])
        chosen = []
        for name in self.request.disks:
            if name not in by_name:
                known = [one for one in by_name if one is not None]
                raise NotFoundError(f"it has no disk {name!r}", where="disks", hint=one_of_these(name, known))
            if by_name[name] not in chosen:
                chosen.append(by_name[name])
        return [(element, True) for element in chosen]

    def _plan_disk(self, element: etree._Element, *, named: bool) -> _Wanted | None:
        """What the disk is to be backed by; None for one that this is nothing for. What has to be done is noted."""
        found = self._find(element)
        if found is None:
            if named:
                raise UnsupportedError("it is no qcow2 file in a storage pool of this hypervisor")
            return None
        pool, volume, path = found
        header = header_of(path)
        if header.encrypted or header.data_file or header.unknown_features:
            raise UnsupportedError(f"{path} is encrypted, or its data are in another file")
        if header.backing_file is None:
            if named and not self.request.flatten:
                raise ConflictError("it is backed by nothing", where="disks", hint="Leave it out")
            return _Wanted(None) if self.request.flatten else None
        base = _base(path, header.backing_file, header.backing_format)
        wanted = _Wanted(None) if self.request.flatten else self._image_for(base, named=named)
        if wanted is None or (wanted.image is not None and file_id(base.path) == file_id(wanted.image.path)):
            return wanted
        self._require_free(pool, volume, path)
        needed = _most_bytes(path, base, header.virtual_size_bytes, wanted.image)
        notes = self.machine.notes
        target = attribute(element, "target", "dev") or ""
        name = next((one.name for one in (notes.disks if notes is not None else ()) if one.target == target), None)
        self.disks.append(DiskRebase(target, name, pool, volume, path, base, wanted.image, needed))
        return wanted

    def _find(self, element: etree._Element) -> tuple[Pool, str, str] | None:
        """Pool, name and path of the volume; None where it is none of qcow2 in a file of this hypervisor."""
        if driver_format(element) != QCOW2 or element.find(".//encryption") is not None:
            return None
        source = element.find("source")
        if element.get("type") == "volume" and source is not None:
            pool, volume = self.hypervisor.pools.get(source.get("pool", "")), source.get("volume", "")
        else:
            place = DiskSource.read(element)
            located = None if place is None or place.type != FILE else self.hypervisor.locate(place)
            if located is None:
                return None
            pool, volume = located
        if not pool.local or pool.source_type != FILE:
            return None
        return pool, volume, os.path.realpath(pool.volume_path(volume))

    def _image_for(self, base: Base, *, named: bool) -> _Wanted | None:
        """named: whether the task names the disk; others are meant only if a version of the image backs them."""
        store = self.hypervisor.pools.get(self.request.pool, "pool")
        stored = parse_image_volume(os.path.basename(base.path))
        if stored is not None and file_id(os.path.dirname(base.path)) != file_id(store.path):
            stored = None
        if self.image is not None:
            if named or (stored is not None and stored.name == self.image.name):
                self._met = True
                return _Wanted(self.image)
            return None
        if stored is not None:
            return _Wanted(newest_in(store, stored.name))
        if named:
            raise ConflictError(
                f"it is backed by {base.path}, which is no image of pool {self.request.pool}",
                where="image",
                hint="Say which image it is to be backed by",
            )
        return None

    def _find_image(self, name: str) -> StoredImage:
        """The image of this volume, or the newest of this name."""
        store = self.hypervisor.pools.get(self.request.pool, "pool")
        try:
            return self.hypervisor.image(name) if parse_image_volume(name) else newest_in(store, name)
        except NotFoundError as exc:
            raise NotFoundError(exc.what, where="image", hint=exc.hint) from exc

    def _require_free(self, pool: Pool, volume: str, path: str) -> None:
        inside = snapshots_inside(path)
        if inside and not self.machine.snapshots:
            raise UnsupportedError(
                f"{path} has {inside} internal snapshots, of which libvirt knows nothing",
                hint=f"See qemu-img snapshot -l {path}; delete them if nobody needs them",
            )
        name = self.machine.name
        use = self.hypervisor.usage.of(pool, volume, owner=name, besides=name)
        if use.users:
            raise ConflictError(f"{', '.join(use.users)} uses its volume {volume} of pool {pool.name} too")


@dataclass(frozen=True)
class _Wanted:
    """What a disk is to be backed by: a stored image, or nothing."""

    image: StoredImage | None

    @property
    def note(self) -> ImageNote | None:
        """As the machine's metadata have it."""
        image = self.image
        return None if image is None else ImageNote(image.name, image.volume, image.pool)


def _is_disk(element: etree._Element) -> bool:
    """Whether it is a disk that the machine alone writes to, and keeps."""
    apart: t.Sequence[str] = ("readonly", "shareable", "transient")
    return element.get("device", "disk") == "disk" and all(element.find(tag) is None for tag in apart)


def _base(path: str, name: str, image_format: str | None) -> Base:
    """What the header names. Raises UnsupportedError for what is no file, or of a format that nobody has named."""
    if name.startswith("json:") or (":" in name and not name.startswith("/")):
        raise UnsupportedError(f"it is backed by {name}, which is no file of this hypervisor")
    base = os.path.join(os.path.dirname(path), name)
    if image_format is None:
        raise UnsupportedError(
            f"its header does not say which format {base} has",
            hint=f"Say it, if you know it is qcow2: qemu-img rebase -u -F qcow2 -b {base} {path}",
        )
    if not os.path.isfile(base):
        raise NotFoundError(f"the file {base}, which it is backed by, is not there")
    return Base(base, image_format)


def _most_bytes(path: str, base: Base, size_bytes: int, image: StoredImage | None) -> int:
    """What the new file takes at most: what all the files below it hold now, and zeros where only the new image has
    something."""
    held = allocated_bytes(path)
    below: Base | None = base
    seen: set[t.Hashable] = set()
    while below is not None and file_id(below.path) not in seen:
        seen.add(file_id(below.path))
        held += allocated_bytes(below.path)
        header = header_of(below.path) if below.format == QCOW2 else None
        if header is None or header.backing_file is None:
            break
        below = _base(below.path, header.backing_file, header.backing_format)
    held += 0 if image is None else allocated_bytes(image.path)
    return min(held, max(size_bytes, allocated_bytes(path)))
