# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks of a machine get another image below them, or none: decided before anything is changed."""

from __future__ import annotations

import contextlib
import os
import shlex
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError, VirtError, one_of_these
from ..._base.files import allocated_bytes
from ..._base.qemu_img import measure_qcow2
from ..._base.xml import MIB, attribute, etree
from ..._host.connection import VirConnect
from ..._host.images.listing import StoredImage, newest_in
from ..._host.storage.file_chain import file_id
from ..._host.storage.pools import Pool, require_free_space
from ..._host.storage.transfer.rebase import Base, header_of, leftovers, snapshots_inside
from ..._host.storage.volume_facts import find_volume
from ..._model.image.name import parse_image_volume
from ..._model.metadata.machine import ImageNote, MachineNotes
from ..._model.xml.disk_source import FILE, QCOW2, DiskSource, driver_format
from ..disks.outside_volume import require_own_chain
from ..hypervisor import Hypervisor
from ..snapshot.view import SnapshotView, require_settled, view


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
    for nothing. needed_bytes: what the new file takes at most, beside the old one. noted: whether it is the disk that
    the image in the metadata is for."""

    target: str
    name: str | None
    pool: Pool
    volume: str
    path: str
    base: Base
    image: StoredImage | None
    needed_bytes: int
    noted: bool = False

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
    """What is to be done with one machine. left: by the path of a disk, the files that killed runs have left beside it.
    remarks: which disks are left out, and why."""

    machine: SnapshotView
    disks: tuple[DiskRebase, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()

    def require_room(self) -> None:
        """Raise ConflictError unless the pools have room for all new files: they are made one after the other, but what
        the old ones leave may be less than the new ones take."""
        requests = [one.pool.request_space(one.needed_bytes) for one in self.disks]
        try:
            require_free_space(requests)
        except ConflictError as exc:
            raise ConflictError(exc.what, hint="Free some space there, or name fewer disks") from exc

    @property
    def actions(self) -> list[str]:
        """All that is done, in words."""
        return [*(removal_words(part) for _path, part in self.left), *(one.words for one in self.disks)]


def removal_words(part: str) -> str:
    """What is done with a file that a killed run has left."""
    return f"remove {part}, which an interrupted run left"


def plan_rebase(conn: VirConnect, name: str, request: RebaseRequest) -> RebasePlan:
    """Decide it for one machine. Nothing is changed. Raises VirtError when it cannot be done."""
    machine = view(conn, name, "name")
    require_settled(machine)
    return _Planner(Hypervisor(conn, image_pool=request.pool), machine, request).plan()


def with_image(machine: SnapshotView, disk: DiskRebase) -> MachineNotes | None:
    """What is remembered of a machine when one of its disks is done; None where that stays.

    machine: as it is now. The metadata name one image, that of the disk that was created from it.
    """
    notes = machine.notes
    if notes is None or notes.image is None or not disk.noted:
        return None
    if notes.image.volume != os.path.basename(disk.base.path):
        return None
    image = disk.image
    now = None if image is None else ImageNote(image.name, image.volume, image.pool, notes.image.disk)
    return replace(notes, image=now)


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
        remarks: list[str] = []
        for element, named in self._chosen(elements):
            target = f"disk {attribute(element, 'target', 'dev')}"
            try:
                self._plan_disk(element, named=named)
            except VirtError as exc:
                left_out = isinstance(exc, _LeftOutError)
                if left_out and not named:
                    remarks.append(f"{target} is left out: {exc.what}")
                    continue
                error = UnsupportedError if left_out else type(exc)
                raise error(f"{target}: {exc.what}", where=exc.where, hint=exc.hint) from exc
        if self.image is not None and not self._met:
            raise ConflictError(
                f"no disk of it is backed by an image called {self.image.name}",
                where="disks",
                hint="Say which disks are to be backed by it",
            )
        left = self._leftovers(elements)
        return RebasePlan(self.machine, tuple(self.disks), tuple(left), tuple(remarks))

    def _leftovers(self, elements: Sequence[etree._Element]) -> t.Iterator[tuple[str, str]]:
        """What killed runs have left beside any disk of the machine, unless somebody uses it."""
        for element in elements:
            with contextlib.suppress(VirtError):
                _pool, _volume, path = self._find(element)
                for part in leftovers(path):
                    if not self.hypervisor.usage.users_at(part):
                        yield path, part

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

    def _plan_disk(self, element: etree._Element, *, named: bool) -> None:
        """Note what has to be done with a disk. Raises _LeftOutError for one that this is nothing for."""
        pool, volume, path = self._find(element)
        header = header_of(path)
        if header.encrypted or header.data_file or header.unknown_features:
            raise _LeftOutError(f"{path} is encrypted, or its data are in another file")
        if header.backing_file is None:
            if named and not self.request.flatten:
                raise ConflictError("it is backed by nothing", where="disks", hint="Leave it out")
            return
        base = _base(path, header.backing_file, header.backing_format)
        image = None if self.request.flatten else self._image_for(base, named=named)
        if not self.request.flatten and (image is None or file_id(base.path) == file_id(image.path)):
            return
        _require_off(self.machine)
        self._require_free(element, pool, volume, path)
        # Where only the new image has something, zeros are written.
        needed = measure_qcow2(path, QCOW2) + (0 if image is None else measure_qcow2(image.path, image.format))
        most = allocated_bytes(path) + header.virtual_size_bytes + header.virtual_size_bytes // 4096 + MIB
        notes = self.machine.notes
        target = attribute(element, "target", "dev") or ""
        name = next((one.name for one in (notes.disks if notes is not None else ()) if one.target == target), None)
        needed_bytes = min(needed + allocated_bytes(path), most)
        noted = target == self._noted_target()
        self.disks.append(DiskRebase(target, name, pool, volume, path, base, image, needed_bytes, noted))

    def _noted_target(self) -> str | None:
        """The disk that the image in the metadata is for: the first one on it, as of all that a machine is created
        with. Others may be on the same image."""
        notes = self.machine.notes
        for element in self.machine.defined.iterfind("devices/disk"):
            with contextlib.suppress(VirtError):
                backing_file = header_of(self._find(element)[2]).backing_file if _is_disk(element) else None
                name = os.path.basename(backing_file or "")
                if notes is not None and notes.image is not None and notes.image.volume == name:
                    return attribute(element, "target", "dev")
        return None

    def _find(self, element: etree._Element) -> tuple[Pool, str, str]:
        """Pool, name and path of the volume. Raises _LeftOutError where it is none of qcow2 in a file."""
        if driver_format(element) != QCOW2 or element.find(".//encryption") is not None:
            raise _LeftOutError("it is not a qcow2 image, or is encrypted")
        source = element.find("source")
        if element.get("type") == "volume" and source is not None:
            pool, volume = self.hypervisor.pools.get(source.get("pool", "")), source.get("volume", "")
        else:
            place = DiskSource.read(element)
            located = None if place is None or place.type != FILE else self.hypervisor.locate(place)
            if located is None:
                raise _LeftOutError("it is in no storage pool of this hypervisor by the path that the machine has")
            pool, volume = located
        if not pool.local or pool.source_type != FILE:
            raise _LeftOutError(f"storage pool {pool.name} is not one of files")
        path = os.path.realpath(pool.volume_path(volume))
        if not os.path.isfile(path) or os.stat(path).st_nlink > 1 or os.path.islink(pool.volume_path(volume)):
            raise _LeftOutError(f"{pool.volume_path(volume)} is a link, or a file with several names")
        return pool, volume, path

    def _image_for(self, base: Base, *, named: bool) -> StoredImage | None:
        """What the disk is to be backed by; None for one that is not meant. named: whether the task names it."""
        store = self.hypervisor.pools.get(self.request.pool, "pool")
        stored = parse_image_volume(os.path.basename(base.path))
        if stored is not None and file_id(os.path.dirname(base.path)) != file_id(store.path):
            stored = None
        if self.image is not None:
            if named or (stored is not None and stored.name == self.image.name):
                self._met = True
                return self.image
            return None
        if stored is not None:
            return newest_in(store, stored.name)
        raise _LeftOutError(
            f"it is backed by {base.path}, which is not an image of pool {self.request.pool}",
            where="image",
            hint="Say which image it is to be backed by",
        )

    def _find_image(self, name: str) -> StoredImage:
        """The image of this volume, or the newest of this name."""
        store = self.hypervisor.pools.get(self.request.pool, "pool")
        try:
            return self.hypervisor.image(name) if parse_image_volume(name) else newest_in(store, name)
        except NotFoundError as exc:
            raise NotFoundError(exc.what, where="image", hint=exc.hint) from exc

    def _require_free(self, element: etree._Element, pool: Pool, volume: str, path: str) -> None:
        """Raise VirtError unless the file is this machine's alone, and QEMU would open nothing else with it than what
        it may."""
        if element.find("backingStore/source") is not None:
            raise UnsupportedError(
                "the machine's definition says what it is backed by",
                hint=f"Remove its backingStore: virsh edit {self.machine.name}",
            )
        if snapshots_inside(path):
            raise UnsupportedError(
                f"{path} has internal snapshots of which libvirt knows nothing",
                hint=f"See qemu-img snapshot -l {path}; delete them if nobody needs them",
            )
        name = self.machine.name
        use = self.hypervisor.usage.of(pool, volume, owner=name, besides=name)
        if use.users:
            raise ConflictError(f"{', '.join(use.users)} uses its volume {volume} of pool {pool.name} too")
        if use.elsewhere is not None:
            raise UnsupportedError(
                f"storage pool {pool.name} may be shared, and this works only where no other hypervisor has the disk: "
                f"{use.elsewhere}"
            )
        found = find_volume(pool, volume, image_format=QCOW2)
        if found is not None:
            require_own_chain(pool, found, self.hypervisor, "disks")


class _LeftOutError(VirtError):
    """The disk is none that this can be done with: an error only where the task names it."""


def _is_disk(element: etree._Element) -> bool:
    """Whether it is a disk that the machine alone writes to, and keeps."""
    apart = ("readonly", "shareable", "transient")
    return element.get("device", "disk") == "disk" and all(element.find(tag) is None for tag in apart)


def _base(path: str, name: str, image_format: str | None) -> Base:
    """What the header names. Raises _LeftOutError for what is no file, or of a format that nobody has named."""
    if name.startswith("json:") or (":" in name and not name.startswith("/")):
        raise _LeftOutError(f"it is backed by {name}, which is not a file of this hypervisor")
    if not name.startswith("/"):
        raise _LeftOutError(
            f"it is backed by {name}, which its header names by a relative path",
            hint=f"Have it named by its whole path: qemu-img rebase -u -f qcow2 -F FORMAT -b PATH {shlex.quote(path)}",
        )
    if image_format is None:
        raise _LeftOutError(
            f"its header does not say which format {name} has",
            hint=f"Say it, if you know it is qcow2: qemu-img rebase -u -F qcow2 -b {shlex.join([name, path])}",
        )
    if not os.path.isfile(name):
        raise _LeftOutError(f"{name}, which it is backed by, is not there or is not a file")
    return Base(name, image_format)
