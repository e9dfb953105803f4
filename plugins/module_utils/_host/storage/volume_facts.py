# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a volume is, by the format that it is known to have, and how a disk finds it.

The format comes from outside: from the machine that has the disk, from our notes, from the name of a stored image.
libvirt goes by the first bytes of a file, and so would whoever asks it for a size or an overlay's base: but these bytes
are a guest's where the disk is raw.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import posixpath
import re
import stat
import typing as t
from dataclasses import dataclass

from ..._base.errors import HostError, UnsupportedError
from ..._base.xml import attribute, etree, read_description
from ..._model.image.header import HEADER_BYTES, disk_format, virtual_size
from ..._model.image.qcow2 import Read
from ..._model.xml.disk_source import BLOCK, FILE, QCOW2, RAW, DiskSource
from ..connection import libvirt, translate_error, translate_errors
from .pools import Pool

# libvirt's words for what to QEMU is a raw disk: https://libvirt.org/storage.html#directory-pool
_RAW = frozenset({None, "raw", "iso", "none", "unknown"})
_DISK_TYPES = frozenset({"file", "block", "network"})
# virStorageVolType in libvirt's include/libvirt/libvirt-storage.h, in its order.
_TYPES = ("file", "block", "dir", "network", "netdir", "ploop")
_BLOCK = "/sys/block"
_PROC = "/proc"
_BY_ID = "/dev/disk/by-id"
_MULTIPATH = f"{_BY_ID}/dm-uuid-mpath-"
_PARTITION = re.compile(r"-part\d+$")
# What udev names devices by that is the same on all hosts, the best first: of a map of multipath the number of its
# paths, and of a logical volume those of LVM; numbers that a maker has got from a registry; others.
_NUMBERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"dm-uuid-(?:part\d+-)?mpath-(.+)",
        r"dm-uuid-(LVM-.+)",
        r"scsi-(3.+)",
        r"(?:scsi|nvme|virtio|ata|usb)-(.+)",
    )
)
_NPIV_PORT = re.compile(r"_PORT\w*$")
# Pools whose volumes are LUNs: devices that a target shows.
UNIT_POOL_TYPES = frozenset({"iscsi", "mpath", "scsi"})


@dataclass(frozen=True)
class Volume:
    """A volume that is there.

    format: as it is known to be. looks_like: what its first bytes say, only to tell that the two differ.
    capacity_bytes: the size of the disk that a guest sees, of a raw one that of its file or device; allocation_bytes:
    what it takes of the pool now. backing_path, backing_format: of an overlay, what its header says; the format is
    None where it does not.
    """

    name: str
    pool: str
    path: str
    capacity_bytes: int
    allocation_bytes: int
    format: str
    source: DiskSource
    backing_path: str | None = None
    backing_format: str | None = None
    looks_like: str = RAW


def find_volume(pool: Pool, name: str, where: str | None = None, *, image_format: str) -> Volume | None:
    """A volume of the pool as it is now, or None when there is none of this name.

    image_format: ``raw`` or ``qcow2``, as whoever has the disk knows it. Raises UnsupportedError for something of this
    name that is no disk (a directory), HostError for an overlay on what has no name that can be read.
    """
    what = f"cannot inspect volume {name} of pool {pool.name}"
    try:
        handle = pool.handle.storageVolLookupByName(name)
        root = describe_volume(handle, f"volume {name} of pool {pool.name}")
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
            return None
        raise translate_error(exc, what, where) from exc
    kind = root.get("type") or pool.source_type
    if kind not in _DISK_TYPES:
        raise UnsupportedError(f"volume {name} of pool {pool.name} is of type {kind}, not a disk", where=where)
    path = root.findtext("target/path") or ""
    # A folder may hold device nodes.
    in_folder = pool.source_type == FILE and kind in (FILE, BLOCK)
    source = DiskSource(kind, path) if in_folder else pool.source_of(name)
    known = attribute(root, "target/format", "type")
    header = read_own_header(pool, source)
    looks_like = _looks_like(source, header, known)
    overlay = image_format != RAW and looks_like == image_format
    if overlay and known is None and pool.source_type == FILE:
        raise HostError(f"{what}: the name of what it is backed by cannot be read", where=where)
    return Volume(
        name=name,
        pool=pool.name,
        path=path,
        capacity_bytes=_capacity(pool, source, root, image_format, header),
        allocation_bytes=int(root.findtext("allocation") or 0),
        format=image_format,
        source=source,
        backing_path=root.findtext("backingStore/path") if overlay else None,
        backing_format=attribute(root, "backingStore/format", "type") if overlay else None,
        looks_like=looks_like,
    )


def describe_volume(handle: t.Any, words: str) -> etree._Element:
    """libvirt's XML of a volume, which reads the volume again for it; raises its errors.

    It also says what a header is backed by, which in a raw disk are a guest's bytes. Where these are no text, or none
    for XML, the answer lacks the format, and what it is backed by.
    """
    try:
        return read_description(words, handle.XMLDesc(0))
    except (HostError, UnicodeDecodeError):
        kind, capacity, allocation = handle.info()
        root = etree.Element("volume", type=_TYPES[kind])
        physical = handle.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[2]
        for tag, number in (("capacity", capacity), ("allocation", allocation), ("physical", physical)):
            etree.SubElement(root, tag).text = str(number)
        etree.SubElement(etree.SubElement(root, "target"), "path").text = handle.path()
        return root


def last_written(volume: t.Any) -> str:
    """Of a volume that is a file, the time of its last change and its size, with a blank between; nothing where libvirt
    does not tell the time. volume: libvirt's handle."""
    with translate_errors(f"cannot inspect volume {volume.name()}"):
        root = describe_volume(volume, f"volume {volume.name()}")
    time = root.findtext("target/timestamps/mtime")
    return f"{time} {root.findtext('capacity')}" if time and root.get("type", FILE) == FILE else ""


def read_own_header(pool: Pool, source: DiskSource) -> bytes | None:
    """The first bytes of a volume that is a file on this machine; None when it is none, or this user may not."""
    if not pool.local or source.type != FILE:
        return None
    with contextlib.suppress(OSError), volume_file(source.path) as read:
        return read(0, HEADER_BYTES)
    return None


@contextlib.contextmanager
def volume_file(path: str) -> t.Iterator[Read]:
    """Bytes of a file of this machine. OSError for what is none, such as a pipe, which would be waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield lambda offset, length: os.pread(fd, length, offset)
    finally:
        os.close(fd)


def _looks_like(source: DiskSource, header: bytes | None, known: str | None) -> str:
    """The file's own first bytes, else libvirt's word for it.

    libvirt looks only when the pool is refreshed, and remembers. On a device, it says the type of a partition here; a
    disk there was raw from the start, and a mark of another format in it could only be the guest's doing.
    """
    if source.type == BLOCK:
        return RAW
    if header is not None:
        return disk_format(header)
    return RAW if known in _RAW else str(known)


def _capacity(pool: Pool, source: DiskSource, root: t.Any, image_format: str, header: bytes | None) -> int:
    """The size for a guest that has the volume as a disk of this format."""
    reported = int(root.findtext("capacity") or 0)
    if source.type != FILE:
        return reported
    if image_format == QCOW2:
        is_one = header is not None and disk_format(header) == QCOW2 and len(header) == HEADER_BYTES
        return virtual_size(header, reported) if is_one and header is not None else reported
    if pool.local:
        with contextlib.suppress(OSError):
            return os.stat(source.path).st_size
    # libvirt's word for the size of the file itself; the test driver has none.
    return int(root.findtext("physical") or reported)


def is_busy(path: str) -> bool:
    """Whether the kernel has a device, or a part of it, in use: mounted, as swap, in LVM or RAID. open(2), O_EXCL."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as exc:
        return exc.errno == errno.EBUSY
    return False


@dataclass(frozen=True)
class DeviceOnFile:
    """A device of the host, as the kernel calls it, and the path of a file that it lies on. writes: it is not
    read-only."""

    name: str
    path: str
    writes: bool


def devices_on_files() -> t.Iterator[DeviceOnFile]:
    """The block devices that this host itself has on files: loop devices (losetup, mount -o loop), and those of
    qemu-nbd, whose lock on the file does not tell every other host. One that goes meanwhile is passed over.

    sysfs: loop_attr_backing_file_show in drivers/block/loop.c and pid_show in drivers/block/nbd.c of Linux.
    """
    # A loop device has this folder as long as it is set up.
    for place in glob.glob(f"{_BLOCK}/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            yield _device_on_file(posixpath.dirname(posixpath.dirname(place)), _sysfs_line(place))
    for place in glob.glob(f"{_BLOCK}/nbd*/pid"):
        with contextlib.suppress(OSError):
            process = f"{_PROC}/{_sysfs_line(place)}"
            # Whoever else serves a device has its files on another host, or is in another container.
            # Its package may have been upgraded since.
            if posixpath.basename(os.readlink(f"{process}/exe")).removesuffix(" (deleted)") != "qemu-nbd":
                continue
            for link in glob.glob(f"{process}/fd/*"):
                with contextlib.suppress(OSError):
                    path = os.readlink(link)
                    # Sockets and such have no path.
                    if path.startswith("/"):
                        yield _device_on_file(posixpath.dirname(place), path)


def _device_on_file(folder: str, path: str) -> DeviceOnFile:
    return DeviceOnFile(posixpath.basename(folder), path, _sysfs_line(f"{folder}/ro") == "0")


def _sysfs_line(path: str) -> str:
    """A line of sysfs, whatever bytes a path in it has."""
    with open(path, "rb") as file:
        return os.fsdecode(file.read().rstrip(b"\n"))


def volume_serial(pool: Pool, volume: str) -> str | None:
    """The serial number that a LUN tells, as libvirt has it; None for what is none, and for one that tells none.

    Raises VirtError when the pool has no such volume.
    """
    if pool.type not in UNIT_POOL_TYPES:
        return None
    with translate_errors(f"cannot find volume {volume} of pool {pool.name}"):
        handle = pool.handle.storageVolLookupByName(volume)
        serial = serial_of(handle)
        return _multipath_serial(handle.path()) if serial is None and pool.local else serial


def serial_of(handle: t.Any) -> str | None:
    """The same of a volume of libvirt in one of these pools. Raises libvirt's errors."""
    key = str(handle.key())
    # Of a LUN without one, and of multipath, libvirt has the path instead; where each virtual adapter of Fibre Channel
    # has a pool, the serial number and the port that the LUN is reached by: virStorageFileGetNPIVKey.
    return None if key.startswith("/") else _NPIV_PORT.sub("", key)


def _multipath_serial(path: str) -> str | None:
    """That of a device of multipath on this host, as udev names it."""
    device = os.path.realpath(path)
    links = sorted(link for link in glob.glob(f"{_MULTIPATH}*") if os.path.realpath(link) == device)
    return links[0][len(_MULTIPATH) :] if links else None


def device_serial(path: str) -> str | None:
    """What a device on this host is known by on all hosts that have it; None where udev tells nothing of the kind."""
    names = sorted(device_names(path))
    found = (pattern.fullmatch(name) for pattern in _NUMBERS for name in names)
    return next((match.group(1) for match in found if match), None)


def device_names(path: str) -> set[str]:
    """The names that udev has for a device on this host by what it is; of a partition those of the whole device."""
    device = os.path.realpath(path)
    links = (link for link in glob.glob(f"{_BY_ID}/*") if os.path.realpath(link) == device)
    return {_PARTITION.sub("", os.path.basename(link)) for link in links}
