# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks to be: where each one's content lies or comes from, checked on the hypervisor, and the step that makes it."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, InputError, NotFoundError, VirtError
from ..._base.qemu_img import measure_raw
from ..._base.xml import MIB
from ..._host.images.clustered import bring_image, clone_image, image_in
from ..._host.images.listing import StoredImage, note_use
from ..._host.progress import HowFar
from ..._host.storage import volumes
from ..._host.storage.ceph import require_bindings
from ..._host.storage.pools import Pool, require_free_space
from ..._host.storage.transfer.copy import create_copy, shares_blocks
from ..._host.storage.volume_facts import Volume
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.spec.disk import NO_MEDIUM, Disk
from ..._model.spec.machine import Machine
from ..._model.xml.devices import Placed
from ..._model.xml.disk_source import FILE, DiskSource
from ..hypervisor import Hypervisor
from ..plan import Step
from ..task_volumes import BACKED
from .new_volume import VolumeOwner, free_name, mark_for, volume_step
from .outside_volume import outside_volume
from .sharing import check_backing, check_source, how_used, plan_use, require_shareable

# Protocols that QEMU reads a CD from by itself.
_WEB = {"http": 80, "https": 443, "ftp": 21}


@dataclass(frozen=True)
class PlannedDisk:
    """A disk with all that is decided about it. pool, volume, mark: only for a volume that is to be made.

    image: what it is made from, as it is, or will be, in the pool that it is cloned in. stored: where that is to be
    brought from first, None when it is there.
    """

    disk: Disk
    format: str
    source: DiskSource | None
    pool: Pool | None = None
    volume: str = ""
    size_bytes: int = 0
    image: StoredImage | None = None
    base: Volume | None = None
    mark: str = ""
    stored: StoredImage | None = None

    @property
    def copied(self) -> bool:
        """Whether all of an image is copied into it."""
        return self.image is not None and self.disk.clone == "copy"

    @property
    def note(self) -> VolumeNote | None:
        """The note of the volume that is made, if one is."""
        if self.pool is None:
            return None
        below = None if self.copied else self.image or self.base
        making = CreationNote(self.mark, self.size_bytes, below.path if below else "")
        return VolumeNote(self.pool.name, self.volume, "disk", format=self.format, making=making)

    def placed(self, target: str) -> Placed:
        """The disk as the domain's XML needs it."""
        return Placed(self.disk, target, self.source, self.format)


def plan_disk(
    disk: Disk,
    machine: Machine,
    hypervisor: Hypervisor,
    own: Sequence[VolumeNote] = (),
    have: DiskSource | None = None,
) -> PlannedDisk:
    """Decide what the spec left open, and check all of it.

    own: volumes that an unfinished run of ours left. have: where the disk lies now; it may stay there, whoever else
    uses that.
    Raises an error of ours, with the place, when the hypervisor cannot have this disk.
    """
    if not disk.made:
        return _existing(disk, machine, hypervisor, have)
    at, place = disk.given.at, disk.given.place
    pool = hypervisor.pools.get(disk.pool, at("pool"))
    pool.require_new_volumes(at("pool"))
    image = _image(disk, hypervisor)
    base = _base(disk, machine, hypervisor)
    disk = _decide(disk, pool, image, base)
    stored = None
    if image is not None and disk.clone == "overlay" and pool.clones_images:
        require_bindings(pool, at("pool"), "choose clone: copy for disks that are made from an image")
        cloned = image_in(pool, image)
        stored = None if cloned.volume in hypervisor.volumes(pool) else image
        image = cloned
    if image is not None and disk.clone == "overlay":
        plan_use(BACKED, disk, hypervisor.pools.get(image.pool), image.volume, machine, hypervisor, at("image"))
    image_format = str(disk.format)
    volume = free_name(_volume_name(machine, disk, pool), machine.name, pool, hypervisor, place, own)
    plan_use(how_used(disk), disk, pool, volume, machine, hypervisor, place, made=True)
    mark = mark_for(pool, volume, own)
    least = image.virtual_size_bytes if image else base.capacity_bytes if base else 0
    wanted = (disk.size_mib or 0) * MIB
    if disk.size_mib and wanted < least:
        what = f"image {image.name}" if image else f"its backing volume {base.name if base else ''}"
        raise InputError(
            f"{disk.size_mib} MiB is less than the {-(-least // MIB)} MiB of {what}",
            where=at("size"),
            hint="A disk cannot be smaller than its image",
        )
    return PlannedDisk(
        disk, image_format, pool.source_of(volume), pool, volume, wanted or least, image, base, mark, stored
    )


def _volume_name(machine: Machine, disk: Disk, pool: Pool) -> str:
    """Files carry their format in their names, for people; nothing ever reads it from there."""
    name = f"{machine.name}-{disk.name}"
    return f"{name}.{disk.format}" if pool.source_type == FILE else name


def _decide(disk: Disk, pool: Pool, image: StoredImage | None, base: Volume | None) -> Disk:
    """Format and way of cloning, where the spec leaves them to the pool."""
    at = disk.given.at
    if disk.format is not None:
        pool.require_format(disk.format, at("format"))
    if base is not None:
        pool.require_overlay(at("backing"))
    clone = disk.clone
    if image is not None:
        clone = clone or ("overlay" if _shares_with_image(disk, pool) else "copy")
        if clone == "overlay" and not pool.clones_images:
            pool.require_overlay(at("clone"))
    overlaid = base is not None or (image is not None and clone == "overlay" and pool.can_overlay)
    image_format = disk.format or ("qcow2" if overlaid else pool.default_format)
    require_shareable(disk, image_format, disk.options)
    return replace(disk, clone=clone, format=image_format)


def _shares_with_image(disk: Disk, pool: Pool) -> bool:
    """Whether a disk holds only the difference to its image when nobody has said it: what a raw file cannot."""
    return pool.clones_images or (pool.can_overlay and disk.format != "raw")


def _image(disk: Disk, hypervisor: Hypervisor) -> StoredImage | None:
    if disk.image is None:
        return None
    try:
        return hypervisor.image(disk.image)
    except VirtError as exc:
        raise type(exc)(exc.what, where=exc.where or disk.given.at("image"), hint=exc.hint) from exc


def _base(disk: Disk, machine: Machine, hypervisor: Hypervisor) -> Volume | None:
    """The volume that an overlay is to be laid on. Nobody may write to it any more, so no machine may have it."""
    if disk.backing is None:
        return None
    place = disk.given.at("backing")
    pool = hypervisor.pools.get(disk.backing.pool, place)
    base = outside_volume(pool, disk.backing.volume, disk.backing.format, hypervisor, place)
    check_backing(disk, pool, base.name, machine, hypervisor)
    return base


def _existing(disk: Disk, machine: Machine, hypervisor: Hypervisor, have: DiskSource | None) -> PlannedDisk:
    """A disk that is there already, or a drive without a medium."""
    place = disk.given.at("source")
    if disk.source in (None, NO_MEDIUM):
        return PlannedDisk(disk, "raw", None)
    source = str(disk.source)
    scheme = urllib.parse.urlsplit(source).scheme
    if scheme in _WEB:
        if disk.device != "cdrom":
            raise InputError(f"a {disk.device} cannot be read from the web", where=place, hint="A cdrom can")
        return PlannedDisk(disk, "raw", _web_source(source, place))
    if source.startswith("/"):
        at_path = hypervisor.locate(DiskSource(FILE, source))
        if at_path is None:
            raise NotFoundError(
                f"no pool of this hypervisor has a volume {source}",
                where=place,
                hint="Put the file into a pool, so that libvirt can say what it is",
            )
        pool, volume = at_path
    else:
        pool, volume = hypervisor.pools.get(disk.pool, disk.given.at("pool")), source
    found = outside_volume(pool, volume, disk.format, hypervisor, place)
    if not found.source.leads_to(have):
        check_source(disk, pool, volume, machine, hypervisor)
    return PlannedDisk(disk, found.format, found.source)


def _web_source(url: str, where: str) -> DiskSource:
    parts = urllib.parse.urlsplit(url)
    try:
        whole = bool(parts.hostname and parts.path.strip("/")) and parts.port != 0
    except ValueError:
        # No port at all, or one that there is not.
        whole = False
    if not whole or parts.username is not None or parts.query or parts.fragment:
        raise InputError(
            "the address of the medium is not a host, an optional port and a path",
            where=where,
            hint="Write it like https://example.org/debian.iso; a user, a password or a query cannot be passed on",
        )
    return DiskSource(
        type="network",
        protocol=parts.scheme,
        name=parts.path.lstrip("/"),
        hosts=((parts.hostname or "", parts.port or _WEB[parts.scheme]),),
    )


def check_free_space(disks: Sequence[PlannedDisk], hypervisor: Hypervisor, where: str) -> None:
    """Raises ConflictError when what is written at once has no space, with all that this task has planned before.

    Overlays begin with nothing.
    """
    for planned in disks:
        if planned.pool is None:
            continue
        image = planned.image.path if planned.image and planned.stored else None
        # The first of those that are made from it brings it.
        copied_bytes = 0 if image in hypervisor.images_coming else _copied_bytes(planned)
        hypervisor.images_coming.update(filter(None, [image]))
        hypervisor.space_requests.append(
            volumes.space_request(planned.pool, size_bytes=planned.size_bytes, copied_bytes=copied_bytes)
        )
    require_free_space(hypervisor.space_requests, where or None)


def _copied_bytes(planned: PlannedDisk) -> int:
    """What a full copy brings into the pool; nothing where it can share its blocks with the image. Of an image that
    comes into the pool first, all that is in it."""
    if planned.stored is not None:
        # In check mode the store may lack it yet.
        there = os.path.exists(planned.stored.path)
        return measure_raw(planned.stored.path, planned.stored.format) if there else planned.stored.virtual_size_bytes
    if planned.image is None or planned.pool is None or not planned.copied:
        return 0
    same = planned.format == planned.image.format
    if same and shares_blocks(planned.pool, planned.image.path, planned.image.format):
        return 0
    return planned.image.virtual_size_bytes


def disk_step(planned: PlannedDisk, maker: VolumeOwner) -> Step | None:
    """The step that makes a disk's volume; None for a disk that is there already."""
    hypervisor = maker.hypervisor
    pool, name, note = planned.pool, planned.volume, planned.note
    if pool is None or note is None:
        return None
    where = f"({planned.size_bytes // MIB} MiB, {name} in pool {pool.name})"
    image, base = planned.image, planned.base
    if image is not None and planned.copied:
        what = f"copy image {image.volume} to disk {planned.disk.name} {where}"
    elif image is not None:
        what = f"create disk {planned.disk.name} on image {image.volume} {where}"
    elif base is not None:
        what = f"create disk {planned.disk.name} on volume {base.name} {where}"
    else:
        what = f"create empty disk {planned.disk.name} {where}"

    at: list[HowFar] = []

    def copied(percent: float) -> None:
        at[:] = [HowFar("", percent=percent)]

    def apply() -> None:
        size, mark, below = planned.size_bytes, planned.mark, image or base
        if planned.stored is not None:
            bring_image(pool, planned.stored, on_percent=copied)
        if image is not None and not planned.copied and pool.clones_images:
            clone_image(pool, image.volume, name, size_bytes=size, mark=mark)
        elif image is not None and planned.copied:
            source = hypervisor.pools.get(image.pool).handle.storageVolLookupByName(image.volume)
            create_copy(
                pool,
                name,
                size_bytes=size,
                image_format=planned.format,
                source=source,
                source_format=image.format,
                mark=mark,
                wipe=planned.disk.wipe,
                on_percent=copied,
            )
        elif below is not None:
            note_use(below.path)
            volumes.create_overlay(
                pool, name, size_bytes=size, image_path=below.path, image_format=below.format, mark=mark
            )
            if pool.local and not os.path.exists(below.path):
                # By a run on another hypervisor that shares it: what it has asked there is older than this machine.
                raise ConflictError(f"{below.path} has been removed meanwhile", hint="Run it again")
        else:
            volumes.create_empty(
                pool, name, size_bytes=size, image_format=planned.format, mark=mark, wipe=planned.disk.wipe
            )

    return replace(volume_step(what, apply, pool, note, maker), look=lambda: at[-1] if at else None)
