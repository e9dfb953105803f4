# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image that is made of a machine: one of its disks, with all that it is backed by, in one file.

What is in the disk is the guest's, and the image is a new qcow2 file of qemu-img's: no header that a guest has written
gets into the store.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass

from .._base.errors import ConflictError, NotFoundError, UnsupportedError, one_of_these
from .._base.files import allocated_bytes
from .._base.qemu_img import QCOW2, measure_qcow2, run_qemu_img
from .._base.xml import attribute, etree
from .._host.connection import VirConnect, translate_errors
from .._host.facts.guest_capabilities import GuestCapabilities
from .._host.images.files import Deadline, disk_errors, hash_file
from .._host.images.ingest import ImageSource
from .._host.images.stream import ProgressCallback, no_progress
from .._host.locks import machine_lock
from .._host.machines.domains import Domain, find_machine, read_domain
from .._host.machines.start_watch import last_start
from .._host.storage.file_chain import require_known_formats
from .._host.storage.pools import Pools
from .._model.image.checksum import Checksum
from .._model.xml.disk_source import BLOCK, FILE, DiskSource, driver_format
from .._seeding.sysprep import VIRT_SYSPREP, remove_identity
from .power.view import SAVED, view_machine

_WHERE = "machine"


@dataclass(frozen=True)
class OfflineDisk:
    """A disk of a machine that is off.

    path: of its file or device. format: its disk format. system: whether it is the one that the machine boots from, so
    that the machine's identity is on it. stamp: what tells this state of a file from every other one. device: it is
    none, and its stamp does not tell that: QEMU has a node of its own for it in libvirt's mount namespace, and so has
    another hypervisor, so that nobody sees here when it was written to. started: when the machine was last started on
    this host, as libvirt's log has it: also of one that was started and has stopped again.
    """

    machine: str
    uuid: str
    path: str
    format: str
    system: bool
    stamp: tuple[int, ...]
    device: bool = False
    started: str = ""

    def is_copied_whole(self, *, keep_identity: bool) -> bool:
        """Whether nothing is taken out of the copy."""
        return keep_identity or not self.system

    def origin(self, *, keep_identity: bool, on_progress: ProgressCallback = no_progress) -> Checksum:
        """What is noted on the image that is made of it: so long as nobody has written to the disk, it is the same.

        A device is read as a whole for that. Raises HostError when it cannot be read.
        """
        whole = self.is_copied_whole(keep_identity=keep_identity)
        stamp = [hash_file(self.path, on_progress=on_progress).sha256] if self.device else self.stamp
        state = [self.uuid, self.path, self.format, *stamp, whole]
        return Checksum("sha256", hashlib.sha256(json.dumps(["machine", *state]).encode()).hexdigest())


def machine_source(
    conn: VirConnect,
    machine: str,
    name: str | None,
    deadline: Deadline,
    *,
    keep_identity: bool,
    on_progress: ProgressCallback = no_progress,
) -> ImageSource:
    """Where an image of a machine comes from. Raises VirtError for a machine of which none can be made now.

    name: of the disk, None for the one that the machine boots from. keep_identity: host name, host keys, machine-id and
    the like stay in it. on_progress: is told how far a device has been read, and the image written.
    """
    disk = find_disk(conn, machine, name)
    size_bytes = measure_qcow2(disk.path, disk.format)

    def write(path: str) -> None:
        _write(conn, disk, name, path, deadline, size_bytes, on_progress, keep_identity=keep_identity)

    return ImageSource(
        origins=(disk.origin(keep_identity=keep_identity, on_progress=on_progress),),
        write=write,
        words=f"machine {machine}" if name is None else f"disk {name} of machine {machine}",
        size_bytes=size_bytes,
        check=None if disk.is_copied_whole(keep_identity=keep_identity) else VIRT_SYSPREP.require,
    )


def find_disk(conn: VirConnect, machine: str, name: str | None = None) -> OfflineDisk:
    """A disk of a machine that is off, and that nobody is at work on. Raises VirtError.

    name: ours for the disk, or its target; None for the one that the machine boots from.
    """
    handle = find_machine(conn, machine, _WHERE)
    with translate_errors(f"cannot inspect machine {machine}", _WHERE):
        power = view_machine(handle)
        domain = read_domain(handle)
        uuid = handle.UUIDString()
    domain.require_readable(_WHERE)
    power.require_changeable()
    if power.active:
        raise ConflictError(
            f"machine {machine} is {power.state}, and what is on its disk now may be half-written",
            where=_WHERE,
            hint="Shut it down first: virt_power with state: stopped",
        )
    if power.state == SAVED:
        raise ConflictError(
            f"the state of machine {machine} is saved, and part of what its disk should have is in there",
            where=_WHERE,
            hint="Start it and shut it down: virt_power with state: running, and then stopped",
        )
    bootable = _system_disk(domain)
    element = bootable if name is None else _named_disk(domain, name)
    system = element is bootable
    source, image_format = _source(domain, element, Pools(conn))
    with disk_errors(f"cannot inspect disk {source.path} of machine {machine}"):
        found = os.stat(source.path)
        require_known_formats(source.path, image_format, _WHERE)
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
    return OfflineDisk(
        machine, uuid, source.path, image_format, system, stamp, source.type == BLOCK, last_start(machine)
    )


def _writable_disks(domain: Domain) -> list[etree._Element]:
    """The disks that an image can be made of: neither drives nor what the machine only reads, as its seed."""
    return [
        disk
        for disk in domain.xml.iterfind("devices/disk")
        if disk.get("device", "disk") == "disk" and disk.find("readonly") is None
    ]


def _system_disk(domain: Domain) -> etree._Element:
    """The disk that the machine boots from, or the first one."""
    disks = _writable_disks(domain)
    if not disks:
        raise NotFoundError(f"machine {domain.name} has no disk that an image could be made of", where=_WHERE)
    # Those with a place in the boot order come first, by it.
    orders = [disk.find("boot") for disk in disks]
    places = [int(boot.get("order", "0")) if boot is not None else len(disks) + 1_000 for boot in orders]
    return disks[places.index(min(places))]


def _named_disk(domain: Domain, name: str) -> etree._Element:
    """The disk with a name of ours, or with this target where none is called so."""
    targets = {attribute(disk, "target", "dev") or "": disk for disk in _writable_disks(domain)}
    notes = domain.notes.disks if domain.notes is not None else ()
    names = {note.name: targets[note.target] for note in notes if note.target in targets}
    found = {**targets, **names}
    if name not in found:
        raise NotFoundError(
            f"machine {domain.name} has no disk {name!r} that an image could be made of",
            where="disk",
            hint=one_of_these(name, names or targets),
        )
    return found[name]


def _source(domain: Domain, disk: etree._Element, pools: Pools) -> tuple[DiskSource, str]:
    """Where the content of a disk is, and its format."""
    words = f"disk {attribute(disk, 'target', 'dev') or '?'} of machine {domain.name}"
    if disk.find("encryption") is not None or disk.find("source/encryption") is not None:
        raise UnsupportedError(f"{words} is encrypted, and an image is not", where=_WHERE)
    if disk.find("source/slices") is not None:
        raise UnsupportedError(f"{words} is only a part of its file, and an image would be all of it", where=_WHERE)
    source = DiskSource.read(disk)
    element = disk.find("source")
    if disk.get("type") == "volume" and element is not None:
        source = pools.get(element.get("pool", "")).source_of(element.get("volume", ""))
    if source is None or source.type not in (FILE, BLOCK):
        raise UnsupportedError(
            f"{words} is on a network, and images are made of files and devices of the hypervisor", where=_WHERE
        )
    return source, driver_format(disk)


def _write(
    conn: VirConnect,
    disk: OfflineDisk,
    name: str | None,
    path: str,
    deadline: Deadline,
    size_bytes: int,
    on_progress: ProgressCallback,
    *,
    keep_identity: bool,
) -> None:
    """Write the image to an empty file. Whoever starts the machine meanwhile is refused by QEMU's own lock.

    size_bytes: what it takes at most.
    """

    def copied() -> None:
        on_progress("copy", allocated_bytes(path), size_bytes)

    with machine_lock(disk.machine, wait_seconds=deadline.left):
        _require_same(conn, disk, name, "before")
        words = ["-O", QCOW2, disk.path, path]
        answer = run_qemu_img("convert", disk.format, *words, timeout_seconds=deadline.left, watch=copied)
        answer.require(f"qemu-img could not copy disk {disk.path} of machine {disk.machine}")
        _require_same(conn, disk, name, "while")
    if not disk.is_copied_whole(keep_identity=keep_identity):
        emulated = GuestCapabilities(conn).emulated
        whose, there = f"machine {disk.machine}", allocated_bytes(path)

        def prepared() -> None:
            # How far it is, virt-sysprep does not say: that it is at work on so much.
            on_progress("virt-sysprep", there, None)

        remove_identity(path, QCOW2, whose, emulated=emulated, timeout_seconds=deadline.left, watch=prepared)


def _require_same(conn: VirConnect, disk: OfflineDisk, name: str | None, when: str) -> None:
    if find_disk(conn, disk.machine, name) != disk:
        raise ConflictError(
            f"the disk of machine {disk.machine} has changed {when} it was copied", where=_WHERE, hint="Run it again"
        )
