# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a stored image: machines, their snapshots, and volumes that stand on it, whether a machine has them or not.

libvirt knows the backing chain of a disk only while the machine runs, and that of a volume only one step deep, so the
qcow2 headers are read as well. Files are told apart by device and inode: two paths may lead to one file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    errors_as_ours,
    libvirt,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images import refresh_pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.image_header import backing_name
from ansible_collections.brine.virt.plugins.module_utils._model.image_name import ImageName
from ansible_collections.brine.virt.plugins.module_utils._model.metadata import read_notes
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml

# Types of pools whose volumes are devices that others serve, and hold no overlay on a local file by themselves.
# https://libvirt.org/storage.html
_POOLS_WITHOUT_OVERLAYS = ("disk", "iscsi", "iscsi-direct", "mpath", "rbd", "scsi", "sheepdog", "zfs")
_REFRESH_PATIENCE_SECONDS = 15
# Nothing there to read: a machine with such a disk cannot be started either.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENOMEDIUM, errno.ENODEV)
_OTHER_PROTOCOL = re.compile(r"^[A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class ImageUse:
    """users: in words, by the image's volume; unseen: what could not be looked at, and might use any of them."""

    users: dict[str, tuple[str, ...]]
    unseen: tuple[str, ...]


def observe_use(conn: VirConnect, pool: Pool, images: t.Sequence[ImageName]) -> ImageUse:
    """Who uses these images of a pool. Raises VirtError when libvirt cannot be asked."""
    observer = _Observer(pool, images)
    with errors_as_ours("cannot list the machines"):
        domains = conn.listAllDomains(0)
    for domain in domains:
        with _unless_gone(libvirt.VIR_ERR_NO_DOMAIN, "cannot look at a machine"):
            _observe_machine(observer, domain)
    with errors_as_ours("cannot list the storage pools"):
        pools = conn.listAllStoragePools(0)
    for handle in pools:
        with _unless_gone(libvirt.VIR_ERR_NO_STORAGE_POOL, "cannot look into the storage pools"):
            _observe_pool(observer, handle)
    return observer.result()


@contextlib.contextmanager
def _unless_gone(code: int, what: str) -> t.Iterator[None]:
    with errors_as_ours(what):
        try:
            yield
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != code:
                raise


def _observe_machine(observer: _Observer, domain: t.Any) -> None:
    user = f"machine {domain.name()}"
    flags = [libvirt.VIR_DOMAIN_XML_INACTIVE, 0] if domain.isActive() else [libvirt.VIR_DOMAIN_XML_INACTIVE]
    for flag in flags:
        observer.add_machine(parse_xml(domain.XMLDesc(flag)), user)
    for snapshot in domain.listAllSnapshots(0):
        with _unless_gone(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT, "cannot look at a snapshot"):
            words = f"snapshot {snapshot.getName()} of {user}"
            observer.add_machine(parse_xml(snapshot.getXMLDesc(0)), words)


def _observe_pool(observer: _Observer, handle: t.Any) -> None:
    name = handle.name()
    if parse_xml(handle.XMLDesc(0)).get("type") in _POOLS_WITHOUT_OVERLAYS:
        return
    if not handle.isActive():
        observer.unseen(f"storage pool {name} is not active")
        return
    try:
        # Overlays may have been made behind libvirt's back.
        refresh_pool(handle, name, _REFRESH_PATIENCE_SECONDS)
    except VirtError as exc:
        observer.unseen(exc.what)
        return
    for volume in handle.listAllVolumes(0):
        with _unless_gone(libvirt.VIR_ERR_NO_STORAGE_VOL, f"cannot look at a volume of pool {name}"):
            xml = parse_xml(volume.XMLDesc(0))
            observer.add_volume(volume.path(), xml.findtext("backingStore/path"), f"volume {name}/{volume.name()}")


class _Observer:
    """Collects who leads to which image."""

    def __init__(self, pool: Pool, images: t.Sequence[ImageName]) -> None:
        self._pool = pool
        self._users: dict[str, set[str]] = {image.volume: set() for image in images}
        self._unseen: list[str] = []
        self._by_file: dict[t.Hashable, str] = {}
        for image in images:
            self._by_file[_file_id(pool.volume_path(image.volume))] = image.volume

    def result(self) -> ImageUse:
        users = {volume: tuple(sorted(users)) for volume, users in self._users.items()}
        return ImageUse(users, tuple(self._unseen))

    def unseen(self, what: str) -> None:
        if what not in self._unseen:
            self._unseen.append(what)

    def add_machine(self, xml: t.Any, user: str) -> None:
        """What a domain's XML, or that of a snapshot, names anywhere."""
        for domain in xml.iter("domain"):
            notes = read_notes(domain)
            if notes is not None and notes.image is not None and notes.image.pool == self._pool.name:
                self._add(notes.image.volume, user)
        for source in xml.iter("source"):
            if source.get("pool") == self._pool.name:
                self._add(source.get("volume", ""), user)
            for attribute in ("file", "dev", "dir"):
                # A network device is named there too, without a path.
                if source.get(attribute, "").startswith("/"):
                    self._follow(source.get(attribute), user)

    def add_volume(self, path: str, backing_path: str | None, user: str) -> None:
        """A volume and what libvirt says that it stands on. An image is no user of itself."""
        if _file_id(path) in self._by_file:
            return
        self._follow(path, user)
        if backing_path:
            self._follow(backing_path, user)

    def _add(self, volume: str, user: str) -> None:
        if volume in self._users:
            self._users[volume].add(user)

    def _follow(self, path: str, user: str) -> None:
        """From a file down its chain of backing files."""
        ahead = [path]
        seen: set[str] = set()
        while ahead:
            here = ahead.pop()
            if here in seen:
                continue
            seen.add(here)
            volume = self._by_file.get(_file_id(here))
            if volume is not None:
                self._add(volume, user)
                continue
            try:
                name = _read_backing_name(here)
            except OSError as exc:
                if exc.errno not in _NOTHING_THERE:
                    self.unseen(f"{here} of {user} cannot be read ({exc.strerror})")
                continue
            if name:
                ahead += [os.path.join(os.path.dirname(here), path) for path in _local_paths(name)]


def _file_id(path: str) -> t.Hashable:
    """The same for all paths that lead to one file."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _read_backing_name(path: str) -> str | None:
    """What the qcow2 header of a file or block device says. Others are not opened, which may wait or do something."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        return None
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return backing_name(lambda offset, length: os.pread(fd, length, offset))
    finally:
        os.close(fd)


def _local_paths(name: str) -> list[str]:
    """The local files that a backing file's name means, in the ways that QEMU reads one: a path, relative to the file
    that has the name in it, ``file:`` and a path, or ``json:`` and options."""
    if name.startswith("json:"):
        try:
            return list(_filenames(json.loads(name[len("json:") :])))
        except ValueError:
            return []
    if name.startswith("file:"):
        return [name[len("file:") :]]
    return [] if _OTHER_PROTOCOL.match(name) else [name]


def _filenames(options: t.Any) -> t.Iterator[str]:
    if isinstance(options, dict):
        for key, value in options.items():
            # Nested, or flat as in "file.filename".
            if isinstance(value, str) and key.split(".")[-1] == "filename":
                yield value
            else:
                yield from _filenames(value)
