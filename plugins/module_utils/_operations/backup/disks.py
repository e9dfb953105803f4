# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks of a machine are backed up, and how."""

from __future__ import annotations

import contextlib
import os
import shlex
import typing as t
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, HostError, UnsupportedError, VirtError
from ..._base.qemu_img import FORMATS, RAW, virtual_size
from ..._base.xml import attribute, etree
from ..._host.backup.images import chain_bytes, volume_bytes
from ..._host.backup.source_file import source_file
from ..._host.connection import translate_errors
from ..._host.machines.domains import Domain, description_of
from ..._host.storage.ceph import QemuName, qemu_name, require_bindings
from ..._host.storage.file_chain import require_known_formats
from ..._host.storage.pools import Pool, Pools
from ..._model.attachments import disks_by_target
from ..._model.backup.manifest import DISK, SEED, SourceFile
from ..._model.xml.disk_source import NETWORK, QCOW2, DiskSource, driver_format


@dataclass(frozen=True)
class BackupDisk:
    """A disk that is backed up.

    target, format, role, pool, volume, name: as in DiskEntry. path: of its file or device, empty on a network.
    size_bytes: its size for the guest. source_file: which file it was when the machine was looked at, None for no file.
    cluster: the pool of a Ceph cluster that it is in, where qemu-img can read it.
    """

    target: str
    path: str
    format: str
    size_bytes: int
    role: str = DISK
    pool: str = ""
    volume: str = ""
    name: str = ""
    source_file: SourceFile | None = None
    cluster: Pool | None = field(default=None, compare=False)

    @property
    def tracked(self) -> bool:
        """Whether libvirt can remember what changes on it: that stands in the image, and only qcow2 has a place."""
        return self.format == QCOW2

    @property
    def image(self) -> str | QemuName:
        """What qemu-img reads it from. Raises VirtError when the key of its cluster cannot be had."""
        return self.path if self.cluster is None else qemu_name(self.cluster, self.volume)

    @property
    def full_bytes(self) -> int:
        """What a full backup of it takes at most."""
        if self.cluster is not None:
            with contextlib.suppress(VirtError):
                return volume_bytes(qemu_name(self.cluster, self.volume), self.size_bytes)
            return self.size_bytes
        return chain_bytes(self.path, self.format, self.size_bytes) if self.path else self.size_bytes


def find_disks(domain: Domain, pools: Pools) -> tuple[list[BackupDisk], dict[str, str]]:
    """The disks to be backed up, and the reasons for those that are not, by target. Raises VirtError."""
    found: list[BackupDisk] = []
    names = {note.target: note.name for note in domain.notes.disks} if domain.notes else {}
    by_place = _volumes(pools)
    noted = domain.notes.volumes if domain.notes else ()
    seeds = {(note.pool, note.name) for note in noted if note.role == SEED}
    attached = disks_by_target(description_of(domain.handle)) if domain.active else {}
    left_out = {target: "it is attached only until the machine stops" for target in attached}
    for element in domain.xml.iterfind("devices/disk"):
        target = attribute(element, "target", "dev") or ""
        left_out.pop(target, None)
        if domain.active and target not in attached:
            left_out[target] = "it is attached only from the next start on"
            continue
        source = _source(element, pools)
        pool, volume = by_place(source) if source is not None else (None, "")
        role = SEED if pool is not None and (pool.name, volume) in seeds else DISK
        # Without hosts in it, a source may be in another cluster than the pool.
        plain = source is not None and source.hosts and _is_plain(element)
        cluster = pool if plain and pool is not None and pool.clones_images else None
        reason = None if role == SEED else _why_not(element)
        if role == SEED and source is not None and source.type == NETWORK and cluster is None:
            reason = "it is the seed, on a network"
        if reason is not None or source is None:
            left_out[target] = reason or "it has no source that can be read"
            continue
        if element.find("source/encryption") is not None or element.find("encryption") is not None:
            raise UnsupportedError(f"disk {target} of machine {domain.name} is encrypted by QEMU, and is not backed up")
        if not domain.active and element.find("source/slices") is not None:
            # QEMU reads what it is told to, and qemu-img all of it.
            raise UnsupportedError(
                f"disk {target} of machine {domain.name} is only a part of its file (slices), and is backed up only "
                "while it is running",
                hint=f"Start {domain.name} first",
            )
        image_format = driver_format(element)
        if image_format not in FORMATS:
            raise UnsupportedError(
                f"disk {target} of machine {domain.name} is of format {image_format}, and is not backed up",
                hint=f"Convert it to one of {', '.join(FORMATS)} while the machine is off (qemu-img convert)",
            )
        if role == DISK and domain.active:
            _require_same_now(domain.name, target, _source(attached[target], pools), source)
        path = "" if source.type == NETWORK else source.path
        if role == SEED and image_format == RAW and os.path.isfile(path):
            # It is copied from the file, which may be a newer one than that which QEMU has in the drive.
            size_bytes = os.path.getsize(path)
        elif cluster is not None and (role == SEED or not domain.active):
            # libvirt asks QEMU, and of a machine that is off nobody who knows this storage.
            name = qemu_name(cluster, volume)
            size_bytes = virtual_size(name.name, RAW, *name.options, data=name.data, words=name.words)
        else:
            size_bytes = _size_bytes(domain, target)
        found.append(
            BackupDisk(
                target,
                path,
                image_format,
                size_bytes,
                role,
                pool.name if pool is not None else "",
                volume,
                names.get(target, ""),
                source_file(path) if path else None,
                cluster,
            )
        )
    return found, left_out


def attached_targets(domain: Domain) -> list[str]:
    """The targets of the disks that a machine has now; none of one that is off."""
    return list(disks_by_target(description_of(domain.handle))) if domain.active else []


def _require_same_now(name: str, target: str, now: DiskSource | None, defined: DiskSource) -> None:
    """Raise ConflictError where a disk of a machine that runs is another one than its definition says: its backup would
    hold the one, and be taken for that of the other, on which the next one would be built."""
    if now is not None and (now.leads_to(defined) or _is_same_file(now, defined)):
        return
    place = "without a medium" if now is None else now.place
    raise ConflictError(
        f"disk {target} of machine {name} is {place} while it runs, and {defined.place} from the next start on, so the "
        "machine is not backed up",
        hint="Shut the machine down and start it (a reboot in the guest is not enough), or undo the change in its "
        f"definition: virsh edit {shlex.quote(name)}",
    )


def _is_same_file(one: DiskSource, other: DiskSource) -> bool:
    """As by the path of a link, such as that of a logical volume."""
    return NETWORK not in (one.type, other.type) and os.path.realpath(one.path) == os.path.realpath(other.path)


def _why_not(element: etree._Element) -> str | None:
    device = element.get("device", "disk")
    if device != "disk":
        return f"it is a {device}"
    if element.find("readonly") is not None:
        return "it is read-only"
    if element.find("shareable") is not None:
        return "it is shared with other machines"
    if element.find("transient") is not None:
        return "it forgets all changes when the machine stops"
    return None


def _is_plain(element: etree._Element) -> bool:
    """Whether a disk is its volume as it stands: raw, and not a snapshot of it."""
    return driver_format(element) == RAW and element.find("source/snapshot") is None


def _source(element: etree._Element, pools: Pools) -> DiskSource | None:
    source = element.find("source")
    if element.get("type") == "volume" and source is not None:
        return pools.get(source.get("pool", "")).source_of(source.get("volume", ""))
    return DiskSource.read(element)


def _volumes(pools: Pools) -> t.Callable[[DiskSource], tuple[Pool | None, str]]:
    """The pool and the volume of a place; None where it is in no active pool."""
    active = pools.all()

    def find(source: DiskSource) -> tuple[Pool | None, str]:
        for pool in active:
            volume = pool.name_at(source)
            if volume is not None:
                return pool, volume
        return None, ""

    return find


def _size_bytes(domain: Domain, target: str) -> int:
    with translate_errors(f"cannot inspect disk {target} of machine {domain.name}"):
        return int(domain.handle.blockInfo(target, 0)[0])


def require_readable_disks(disks: t.Iterable[BackupDisk], machine: str) -> None:
    """Raise VirtError for a disk that cannot be read here while the machine is off, or not without guessing."""
    for disk in disks:
        if disk.cluster is not None:
            # Nobody else tells whether somebody writes to it meanwhile.
            require_bindings(disk.cluster, otherwise=f"start {machine}, which is backed up without them then")
            continue
        if not disk.path:
            raise UnsupportedError(
                f"disk {disk.target} of machine {machine} is on a network, and is backed up only while it is running",
                hint=f"Start {machine} first",
            )
        try:
            require_known_formats(disk.path, disk.format)
        except OSError as exc:
            raise HostError(f"cannot read disk {disk.target} of machine {machine}: {exc}") from exc
