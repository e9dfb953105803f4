# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's copy of a disk of a running machine: QEMU mirrors it to another volume, and then goes on with that one.

https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainBlockCopy

The job is QEMU's: it lives on when the one who has begun it dies, and ends with the machine's QEMU. The pivot gives the
machine's definition the new volume as well (qemuBlockJobRewriteConfigDiskSource in libvirt's src/qemu/qemu_blockjob.c;
seen with libvirt 9.0), if the disk was on the same volume there.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...._base.errors import ConflictError, HostError
from ...._base.xml import etree, read_description
from ...._model.xml.disk_source import DiskSource
from ...connection import libvirt, suppress_codes, translate_errors

_LOOK_SECONDS = 0.25
# What libvirt says of a copy that it is ending: https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms
_ENDING = frozenset({"pivot", "abort"})
_ENDING_SECONDS = 60.0


class BlockCopyError(HostError):
    """QEMU has given up a copy, and does not say why."""


@dataclass(frozen=True)
class BlockCopy:
    """One disk that is to be copied while its machine runs.

    device: its name in the guest's hardware. there, format: the volume, which is there already, with as many bytes as
    the disk. shallow: what backs the disk backs the new volume too, and is not copied. bytes_per_second: the most that
    it may take, 0 for no limit.
    """

    device: str
    there: DiskSource
    format: str
    shallow: bool
    bytes_per_second: int = 0

    @property
    def xml(self) -> str:
        """The new volume as virDomainBlockCopy wants it."""
        disk = etree.Element("disk")
        etree.SubElement(disk, "driver", type=self.format)
        self.there.write(disk)
        return etree.tostring(disk, encoding="unicode")


@dataclass(frozen=True)
class Mirror:
    """A copy that is under way: where it goes, whether both volumes have been the same once, and whether libvirt is
    ending it now, in one way or the other."""

    place: str
    ready: bool
    ending: bool = False


def begin_block_copy(domain: t.Any, copy: BlockCopy) -> None:
    """Have QEMU begin to copy a disk. Raises an error of ours."""
    # Without the last one, libvirt refuses it for a machine that is defined, as of libvirt 9.0.
    flags = libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    if copy.shallow:
        flags |= libvirt.VIR_DOMAIN_BLOCK_COPY_SHALLOW
    # A guest that writes all the time is slowed down instead of being chased for ever. Since libvirt 8.0.
    flags |= getattr(libvirt, "VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES", 0)
    limits = {libvirt.VIR_DOMAIN_BLOCK_COPY_BANDWIDTH: copy.bytes_per_second} if copy.bytes_per_second else {}
    with translate_errors(f"cannot copy disk {copy.device} of machine {domain.name()}"):
        domain.blockCopy(copy.device, copy.xml, limits, flags)


def wait_until_mirrored(
    domain: t.Any, copies: Sequence[BlockCopy], on_progress: t.Callable[[str, int, int], t.Any]
) -> None:
    """Come back when all copies are the same as the disks, and are kept so.

    on_progress: takes a disk, the bytes done and all bytes, at every look; what it raises ends the wait, and leaves
    the copies as they are. Raises ConflictError for a machine that has stopped, BlockCopyError for a copy that has
    failed.
    """
    name, waiting = domain.name(), list(copies)
    while waiting:
        mirrors = read_mirrors(domain)
        for copy in list(waiting):
            found = mirrors.get(copy.device)
            if found is None or found.place != copy.there.place:
                _require_running(domain)
                raise BlockCopyError(f"QEMU has given up the copy of disk {copy.device} of machine {name}")
            with translate_errors(f"cannot inspect the copy of disk {copy.device} of machine {name}"):
                job = domain.blockJobInfo(copy.device, 0)
            if job:
                on_progress(copy.device, job["cur"], job["end"])
            if found.ready:
                waiting.remove(copy)
        if waiting:
            time.sleep(_LOOK_SECONDS)


def read_mirrors(domain: t.Any) -> dict[str, Mirror]:
    """The copies that are under way, by disk. Raises ConflictError for a machine that does not run (any more)."""
    _require_running(domain)
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        xml = read_description(f"machine {domain.name()}", domain.XMLDesc(0))
    return mirrors_in(xml)


def mirrors_in(running_xml: etree._Element) -> dict[str, Mirror]:
    """The same, from the XML of a machine that runs."""
    found = {}
    for disk in running_xml.iterfind("devices/disk[mirror]"):
        mirror, target = disk.find("mirror"), disk.find("target")
        source = None if mirror is None else DiskSource.read(mirror)
        if mirror is not None and target is not None and source is not None:
            state = mirror.get("ready")
            found[target.get("dev", "")] = Mirror(source.place, state == "yes", state in _ENDING)
    return found


def _require_running(domain: t.Any) -> None:
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        if not domain.isActive():
            raise ConflictError(f"machine {domain.name()} has stopped while its disks were being copied")


def wait_for_pivot(domain: t.Any) -> None:
    """Wait until libvirt has ended what it is just ending: it goes on with that when the one who asked for it is dead.

    Raises ConflictError when it takes too long: a daemon that was killed meanwhile has forgotten how it ended.
    """
    end = time.monotonic() + _ENDING_SECONDS
    while True:
        with translate_errors(f"cannot inspect machine {domain.name()}"):
            ending = domain.isActive() and any(mirror.ending for mirror in read_mirrors(domain).values())
        if not ending:
            return
        if time.monotonic() > end:
            raise ConflictError(
                f"libvirt has not ended the copy of a disk of machine {domain.name()} in {_ENDING_SECONDS:g} s, and "
                "cannot say which of the two volumes QEMU writes to",
                hint=f"Nothing was deleted. Shut {domain.name()} down (virt_power with state: stopped), and run it "
                "again, which finishes it",
            )
        time.sleep(_LOOK_SECONDS)


def pivot(domain: t.Any, copy: BlockCopy) -> None:
    """Have the machine go on with the copy, and end the job. Raises an error of ours."""
    with translate_errors(f"cannot switch disk {copy.device} of machine {domain.name()} to its copy"):
        domain.blockJobAbort(copy.device, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)


def cancel_block_copies(domain: t.Any, places: Collection[str]) -> set[str]:
    """End all copies that go to these places; the disks stay where they are.

    The places of those that libvirt has cancelled, and not of those that had ended before. Raises an error of ours.
    """
    wait_for_pivot(domain)
    cancelled: set[str] = set()
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        if not domain.isActive():
            return cancelled
    for device, mirror in read_mirrors(domain).items():
        if mirror.place in places:
            # It may have ended by itself, or with the machine.
            gone = (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_OPERATION_INVALID)
            what = f"cannot end the copy of disk {device} of machine {domain.name()}"
            with translate_errors(what), suppress_codes(*gone):
                domain.blockJobAbort(device, 0)
                cancelled.add(mirror.place)
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        left = [one for one in read_mirrors(domain).values() if one.place in places] if domain.isActive() else []
    if left:
        raise HostError(f"libvirt does not end the copies of the disks of machine {domain.name()}")
    return cancelled
