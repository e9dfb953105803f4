# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of storage pools: make, fill, grow, delete. Full copies are in transfer/copy.py."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import typing as t
from collections.abc import Iterator

from ..._base.commands import run_program
from ..._base.errors import ConflictError, HostError, NotFoundError, UnsupportedError, VirtError, single_line
from ..._base.xml import MIB, attribute, etree, need, read_description
from ..._model.spec.fields.units import format_size
from ..._model.xml.disk_source import BLOCK, FILE
from ..connection import VirConnect, by_name, libvirt, suppress_codes, translate_error, translate_errors
from .ceph import has_bindings, open_cluster, remove_own_snapshots, require_no_snapshots_in_use
from .pool_refresh import ZFS_DEVICES, refresh_pool
from .pools import Pool, SpaceRequest, full_pool_named
from .proof import mark_volume
from .volume_bytes import device_bytes, write_start, zero_logical
from .volume_facts import Volume, find_volume

# A volume that the daemon is still making, for a client that was killed, cannot be deleted yet.
_DELETE_WAIT_SECONDS = 60
# Nor can a device that QEMU has just closed: udev opens it for a moment, to look at what is on it now. What zfs and
# lvremove say of it then.
_UDEV_SECONDS = 10
_IN_USE = ("is busy", "in use")
_SECTOR_BYTES = 512
_TOOL_SECONDS = 120
# What libvirt cannot resize from here, and how its owner can.
_OTHER_WAYS_TO_GROW = {
    "logical": "Grow it by hand: lvextend --size {size}b {path} && virsh pool-refresh {pool}",
    "zfs": "Grow it by hand: zfs set volsize={size} DATASET && virsh pool-refresh {pool}",
    "disk": "A partition cannot be grown here: create a larger volume and copy it",
}


class VolumeExistsError(ConflictError):
    """Somebody has made a volume of this name meanwhile, or may have; it is theirs."""


def volume_names(pool: Pool) -> set[str]:
    """The names of all volumes in the pool, in one call."""
    with translate_errors(f"cannot list the volumes of pool {pool.name}"):
        return set(by_name(pool.handle.listAllVolumes(0)))


def space_request(pool: Pool, *, size_bytes: int, copied_bytes: int = 0) -> SpaceRequest:
    """The space that a new volume takes at once, for require_free_space.

    size_bytes: its size for the guest. copied_bytes: what a full copy that shares no blocks brings in.
    """
    needed_bytes = copied_bytes if pool.thin else size_bytes
    return pool.request_space(needed_bytes)


def create_empty(
    pool: Pool, name: str, *, size_bytes: int, image_format: str, mark: str = "", wipe: bool = True
) -> None:
    """A new volume with nothing in it, sparse where the pool can. UnsupportedError for a format that it cannot have.

    mark: what tells it from others, see proof.py. wipe: False where all of size_bytes is written before anybody reads
    it, or need not be secret: see zero_logical.
    """
    pool.require_format(image_format)
    made = make_volume(pool, name, new_volume_element(pool, name, size_bytes, image_format), mark=mark)
    # What is rounded up is a guest's to read as well.
    zero_logical(pool, made, 0 if wipe else size_bytes)


def create_overlay(
    pool: Pool, name: str, *, size_bytes: int, image_path: str, image_format: str, mark: str = ""
) -> None:
    """A new qcow2 volume that holds only the difference to an image, whose format stands beside its path."""
    pool.require_overlay()
    root = new_volume_element(pool, name, size_bytes, "qcow2")
    backing = etree.SubElement(root, "backingStore")
    etree.SubElement(backing, "path").text = image_path
    etree.SubElement(backing, "format", type=image_format)
    make_volume(pool, name, root, mark=mark)


def new_volume_element(pool: Pool, name: str, size_bytes: int, image_format: str) -> etree._Element:
    """A volume that is to be made: https://libvirt.org/formatstorage.html#storage-volume-xml

    It begins with nothing where the pool is thin; elsewhere it gets all of its space at once.
    """
    root = etree.Element("volume")
    etree.SubElement(root, "name").text = name
    etree.SubElement(root, "capacity", unit="bytes").text = str(size_bytes)
    etree.SubElement(root, "allocation", unit="bytes").text = "0" if pool.thin else str(size_bytes)
    target = etree.SubElement(root, "target")
    etree.SubElement(target, "format", type=image_format)
    if image_format == "qcow2":
        # Version 3 of the format; libvirt's default is the one of 2009, which cannot give back discarded blocks well.
        etree.SubElement(target, "compat").text = "1.1"
    permissions = etree.SubElement(target, "permissions")
    etree.SubElement(permissions, "mode").text = "0600"
    return root


def make_volume(
    pool: Pool, name: str, root: etree._Element, source: t.Any = None, flags: int = 0, mark: str = ""
) -> t.Any:
    """Make a volume from its XML, with the content of the volume source if there is one; libvirt's handle of it.

    mark: what tells it from others from now on, where it can have such a mark.
    Raises VolumeExistsError instead of touching a volume that has this name already.
    """
    xml = etree.tostring(root, encoding="unicode")
    doing = (
        f"create volume {name} in pool {pool.name}" if source is None else f"copy to volume {name} of pool {pool.name}"
    )
    what = f"cannot {doing}"
    needed_bytes = int(root.findtext("capacity") or 0)
    with full_pool_named(pool, what, needed_bytes), translate_errors(what), _never_somebody_elses(pool, name):
        copied = source is not None
        made = pool.handle.createXMLFrom(xml, source, flags) if copied else pool.handle.createXML(xml, flags)
    mark_volume(pool, made, need(root, "target/format").get("type", ""), mark)
    return made


@contextlib.contextmanager
def _never_somebody_elses(pool: Pool, name: str) -> Iterator[None]:
    """Tell a volume that is there already from one that could not be made: only the latter may be rolled back.

    Asked beforehand as well, because not every way of making a volume has an error code of its own for this. And
    libvirt does not know what others have put into a pool since it last looked, such as a hypervisor that shares it.
    """
    require_not_there(pool, name)
    try:
        yield
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_STORAGE_VOL_EXIST:
            raise _taken(pool, name) from exc
        try:
            come = _has_come(pool, name)
        except VirtError as unseen:
            raise VolumeExistsError(
                f"cannot create volume {name} in pool {pool.name}: {single_line(exc.get_error_message())}, and whether "
                f"somebody else has created it meanwhile cannot be seen: {unseen.what}"
            ) from exc
        if come:
            raise _taken(pool, name) from exc
        raise


def _has_come(pool: Pool, name: str) -> bool:
    """Whether a cluster has a volume that libvirt did not know of, for which it has no error code.

    A cluster makes a volume or does not: there is none that this run has made half of. Raises VirtError where that
    cannot be seen.
    """
    if pool.network is None:
        return False
    refresh_pool(pool.handle, pool.name)
    return volume_exists(pool, name)


def require_not_there(pool: Pool, name: str) -> None:
    """Raise VolumeExistsError when somebody has made a volume of this name."""
    if volume_exists(pool, name):
        raise _taken(pool, name)
    require_no_file(pool, name)


def require_no_file(pool: Pool, name: str) -> None:
    """Raise VolumeExistsError for a file in the place of a new volume that libvirt does not know as one: it leaves out
    links that lead nowhere, and knows nothing of what has come since it last looked."""
    path = f"{pool.path}/{name}"
    if not (pool.local and pool.network is None and os.path.lexists(path)) or volume_exists(pool, name):
        return
    if os.path.islink(path) and not os.path.exists(path):
        raise VolumeExistsError(
            f"there is a link {path} already, to {os.readlink(path)}, which is not there",
            hint="Remove the link if nothing needs it, or choose another name",
        )
    raise VolumeExistsError(
        f"there is {path} already, of which libvirt knows no volume",
        hint=f"Have libvirt look again (virsh pool-refresh {pool.name}), or choose another name",
    )


def volume_exists(pool: Pool, name: str) -> bool:
    """Whether libvirt knows such a volume."""
    what = f"cannot look up volume {name} of pool {pool.name}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_STORAGE_VOL, libvirt.VIR_ERR_NO_STORAGE_POOL):
        pool.handle.storageVolLookupByName(name)
        return True
    return False


def _taken(pool: Pool, name: str) -> VolumeExistsError:
    return VolumeExistsError(f"pool {pool.name} has had a volume {name} since this run was planned")


def create_filled(pool: Pool, name: str, content: bytes, conn: VirConnect, mark: str = "") -> None:
    """A new raw volume with this content, and zeros after it up to a whole MiB: space for a longer one, see refill."""
    pool.require_format("raw")
    size_bytes = -(-len(content) // MIB) * MIB
    volume = make_volume(pool, name, new_volume_element(pool, name, size_bytes, "raw"), mark=mark)
    zero_logical(pool, volume, 0)
    _upload(pool, volume, content, conn, f"cannot write volume {name} of pool {pool.name}")


def refill(pool: Pool, name: str, content: bytes, conn: VirConnect) -> None:
    """Other content for a volume of create_filled, in its place: a running machine that has it open sees the new
    one."""
    what = f"cannot write volume {name} of pool {pool.name}"
    found = find_volume(pool, name, image_format="raw")
    if found is None:
        raise NotFoundError(f"there is no volume {name!r} in pool {pool.name}")
    size_bytes = found.capacity_bytes
    if len(content) > size_bytes:
        size_bytes = -(-len(content) // MIB) * MIB
        grow_volume(pool, name, size_bytes, image_format="raw")
    with translate_errors(what):
        volume = pool.handle.storageVolLookupByName(name)
    _upload(pool, volume, content.ljust(size_bytes, b"\0"), conn, what)


def _upload(pool: Pool, volume: t.Any, content: bytes, conn: VirConnect, what: str) -> None:
    if pool.clones_images:
        # libvirt's back-end has no uploadVol (src/storage/storage_backend_rbd.c).
        with open_cluster(pool) as cluster, cluster.open(volume.name()) as image:
            image.write(content, 0)
        return
    with full_pool_named(pool, what, len(content)), translate_errors(what):
        write_start(volume, conn, content)


def require_deletable(pool: Pool, name: str) -> None:
    """Raise ConflictError for a volume of a Ceph cluster that would stay, as delete_volume does."""
    if pool.clones_images and has_bindings():
        require_no_snapshots_in_use(pool, name)


def delete_volume(pool: Pool, name: str) -> bool:
    """Delete a volume; False when it is not there (any more). Waits for one that the daemon is still making.

    In a Ceph cluster, with the snapshots that this collection has taken of it; ConflictError when they have clones, or
    there are others.
    """
    if pool.clones_images and has_bindings():
        remove_own_snapshots(pool, name)
    began = time.monotonic()
    while True:
        try:
            pool.handle.storageVolLookupByName(name).delete(0)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
                return False
            if time.monotonic() > began + _wait_seconds(pool, exc):
                raise translate_error(exc, f"cannot delete volume {name} of pool {pool.name}") from exc
            time.sleep(0.2)
        else:
            return True


def _wait_seconds(pool: Pool, error: libvirt.libvirtError) -> float:
    """For how long a volume that could not be deleted may be on its way to where it can be."""
    if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
        return _DELETE_WAIT_SECONDS
    said = (error.get_error_message() or "").lower()
    passes = pool.source_type == BLOCK and any(words in said for words in _IN_USE)
    return _UDEV_SECONDS if passes else 0


def grow_volume(pool: Pool, name: str, size_bytes: int, *, image_format: str, guest_bytes: int | None = None) -> bool:
    """Make a volume larger; False when it has this size already.

    The machine is off. Only a volume of a block pool may be in use: there the device grows first, and then the machine
    is told. image_format: what the machine takes it for, and the only format that it is grown in. guest_bytes: the size
    that the only machine with it knows of, if that runs: so nobody has written behind that, and what is there is wiped,
    even where a run that was killed, or somebody's hand, has grown the device before. Raises NotFoundError;
    ConflictError for a size below the present one (nothing is ever cut off), and for a volume that would be taken for
    another format; UnsupportedError where it cannot grow, with what can be done.
    """
    volume = find_volume(pool, name, image_format=image_format)
    if volume is None:
        raise NotFoundError(f"there is no volume {name!r} in pool {pool.name}")
    in_lvm = pool.type == "logical" and pool.local
    if pool.same_size(size_bytes, volume.capacity_bytes):
        if in_lvm and guest_bytes is not None and not _is_thin(volume.path):
            _wipe_end(pool, name, guest_bytes)
        return False
    if size_bytes < volume.capacity_bytes:
        raise ConflictError(
            f"volume {name} of pool {pool.name} has {format_size(volume.capacity_bytes)}, and is never shrunk",
            hint="A smaller disk would lose the data at its end",
        )
    what = f"cannot grow volume {name} of pool {pool.name}"
    with full_pool_named(pool, what, size_bytes - volume.capacity_bytes):
        if in_lvm:
            # libvirt has the size of its last refresh, and somebody may have grown the volume by hand since then.
            had_bytes, thin = device_bytes(volume.path), _is_thin(volume.path)
            if had_bytes is None:
                raise HostError(
                    f"{what}: its device {volume.path} cannot be read, so that nobody could tell what is new in it",
                    hint=f"If it is not active: lvchange --activate y {volume.path}",
                )
            try:
                sectors = -(-size_bytes // _SECTOR_BYTES)
                _extend_device(pool, ["lvextend", "--size", f"{sectors * _SECTOR_BYTES}b", volume.path], volume.path)
            finally:
                # Before a machine is told of it, and also if LVM fails when it has done it. A thin volume reads as
                # zeros there, and to write them would fill its pool.
                if not thin:
                    _wipe_end(pool, name, had_bytes if guest_bytes is None else min(had_bytes, guest_bytes))
        elif pool.type == "zfs" and pool.local:
            # What nobody has written reads as zeros there.
            rounded = -(-size_bytes // pool.rounding_bytes) * pool.rounding_bytes
            dataset = volume.path.removeprefix(ZFS_DEVICES)
            _extend_device(pool, ["zfs", "set", f"volsize={rounded}", dataset], volume.path)
        elif image_format != "raw" or not _extend_file(pool, volume, size_bytes, what):
            _resize(pool, volume, size_bytes, what)
    return True


def _wipe_end(pool: Pool, name: str, start: int) -> None:
    with translate_errors(f"cannot look up volume {name} of pool {pool.name}"):
        handle = pool.handle.storageVolLookupByName(name)
    zero_logical(pool, handle, start)


def grow_running_disk(
    handle: t.Any, target: str, pool: Pool, size_bytes: int, what: str, where: str | None = None
) -> None:
    """Make a disk larger, with its file. A device is as large as it is to be by then.

    what: the words of an error, such as C(cannot grow disk vda of machine web1). Raises ConflictError where it has
    become larger than that since it was looked at: QEMU would cut off its end.
    """
    with translate_errors(what, where):
        have_bytes = int(handle.blockInfo(target)[0])
        if have_bytes > size_bytes and not pool.same_size(size_bytes, have_bytes):
            raise ConflictError(
                f"{what}: it has {format_size(have_bytes)}, and is never shrunk",
                where=where,
                hint="A smaller disk would lose the data at its end",
            )
        handle.blockResize(target, size_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def lacks_growth(handle: t.Any, target: str, pool: Pool, size_bytes: int) -> int | None:
    """The size in bytes that a running machine has a disk in, where its device is larger already; None where it knows.

    A device grows first, and a run that is killed then leaves QEMU with the old size. size_bytes: what the disk is to
    have.
    """
    have_bytes = _size_in_guest(handle, target) if pool.source_type == BLOCK else None
    return have_bytes if have_bytes is not None and have_bytes < size_bytes else None


def guest_bytes_of(handle: t.Any, target: str, pool: Pool) -> int | None:
    """How much of its device a running machine knows of, from the beginning on.

    None for files, and volumes of a cluster, which QEMU grows itself, and where it cannot be told: a disk in a format,
    encrypted by QEMU, or in a part of the device is smaller than what QEMU uses of that.
    """
    if pool.source_type != BLOCK:
        return None
    with translate_errors(f"cannot inspect disk {target}"):
        root = read_description(f"the machine with disk {target}", handle.XMLDesc(0))
    disk = root.find(f"devices/disk/target[@dev='{target}']/..")
    if disk is None or attribute(disk, "driver", "type") not in (None, "raw"):
        return None
    if any(next(disk.iter(tag), None) is not None for tag in ("encryption", "slices", "mirror")):
        return None
    return _size_in_guest(handle, target)


def _size_in_guest(handle: t.Any, target: str) -> int | None:
    try:
        return int(handle.blockInfo(target)[0])
    except libvirt.libvirtError as exc:
        # Stopped meanwhile: the next start reads it; or a driver that cannot tell, nor grow anything.
        if exc.get_error_code() in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_SUPPORT):
            return None
        raise translate_error(exc, f"cannot read the size of disk {target}") from exc


def _extend_file(pool: Pool, volume: Volume, size_bytes: int, what: str) -> bool:
    """A raw disk grows as its file does, whatever stands in it. False where that is not for this user to do."""
    if not pool.local or volume.source.type != FILE:
        return False
    try:
        fd = os.open(volume.source.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in (errno.EACCES, errno.EPERM, errno.ENOENT):
            return False
        raise HostError(f"{what}: {exc.strerror}") from exc
    try:
        if os.fstat(fd).st_size < size_bytes:
            os.ftruncate(fd, size_bytes)
    except OSError as exc:
        raise HostError(f"{what}: {exc.strerror}") from exc
    finally:
        os.close(fd)
    return True


def _resize(pool: Pool, volume: Volume, size_bytes: int, what: str) -> None:
    """By libvirt, which goes by what it sees: it would write a larger size into a header that a guest has made, and
    into the file that this leads to."""
    if volume.looks_like != volume.format:
        raise ConflictError(
            f"volume {volume.name} of pool {pool.name} looks like {volume.looks_like}, not like {volume.format}",
            hint="Its content is not trusted to tell its format"
            if pool.local
            else "Run the task on its hypervisor, as root",
        )
    try:
        pool.handle.storageVolLookupByName(volume.name).resize(size_bytes, 0)
    except libvirt.libvirtError as exc:
        error = translate_error(exc, what)
        if not isinstance(error, UnsupportedError):
            raise error from exc
        hint = _OTHER_WAYS_TO_GROW.get(pool.type, "").format(size=size_bytes, path=volume.path, pool=pool.name)
        raise UnsupportedError(error.what, hint=hint or None) from exc


def _is_thin(path: str) -> bool:
    """Whether a logical volume is a thin one. Raises HostError where LVM does not say it."""
    words = "LVM gives no answer"
    try:
        answer = run_program(["lvs", "--noheadings", "--options", "segtype", path], timeout_seconds=_TOOL_SECONDS)
        kinds = answer.text.split() if answer.status == 0 else []
        words = answer.complaint if answer.status else words
    except (FileNotFoundError, TimeoutError) as exc:
        kinds, words = [], str(exc)
    if not kinds:
        raise HostError(f"LVM does not say of what kind {path} is, so that it is not grown: {words}")
    return "thin" in kinds


def _extend_device(pool: Pool, command: list[str], path: str) -> None:
    """By LVM's own tool or that of ZFS: libvirt has no resizeVol for them (src/storage/storage_backend_*.c)."""
    try:
        answer = run_program(command, timeout_seconds=_TOOL_SECONDS)
    except (FileNotFoundError, TimeoutError) as exc:
        raise HostError(f"cannot grow {path}: {exc}") from exc
    answer.require(f"cannot grow {path}")
    # Another task's running job forbids a refresh; whoever asks next will see it.
    with contextlib.suppress(libvirt.libvirtError):
        pool.handle.refresh(0)
