# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of storage pools: make, fill, delete."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterator

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    errors_as_ours,
    libvirt,
    translate_error,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._xml import etree

# A volume that the daemon is still making, for a client that was killed, cannot be deleted yet.
_DELETE_PATIENCE_SECONDS = 60


class AlreadyThereError(ConflictError):
    """Somebody has made a volume of this name meanwhile; it is theirs."""


def volume_names(pool: Pool) -> set[str]:
    """The names of all volumes in the pool, in one call."""
    with errors_as_ours(f"cannot list the volumes of pool {pool.name}"):
        return set(pool.handle.listVolumes())


def create_empty(pool: Pool, name: str, *, size_bytes: int, image_format: str) -> None:
    """A new, sparse volume with nothing in it."""
    _create(pool, name, _volume_xml(name, size_bytes, image_format))


def create_overlay(pool: Pool, name: str, *, size_bytes: int, image_path: str, image_format: str) -> None:
    """A new qcow2 volume that holds only the difference to an image, whose format stands beside its path."""
    root = _volume_element(name, size_bytes, "qcow2")
    backing = etree.SubElement(root, "backingStore")
    etree.SubElement(backing, "path").text = image_path
    etree.SubElement(backing, "format", type=image_format)
    _create(pool, name, etree.tostring(root, encoding="unicode"))


def create_copy(pool: Pool, name: str, *, size_bytes: int, image_format: str, source: t.Any) -> None:
    """A new volume with all of another volume's content, grown to size_bytes.

    Blocks are shared with the source where the file system can (reflink).
    """
    xml = _volume_xml(name, size_bytes, image_format)
    with errors_as_ours(f"cannot copy an image to volume {name} of pool {pool.name}"):
        with _never_somebody_elses(pool, name):
            volume = pool.handle.createXMLFrom(xml, source, 0)
        if volume.info()[1] < size_bytes:
            volume.resize(size_bytes, 0)


def _volume_xml(name: str, size_bytes: int, image_format: str) -> str:
    return etree.tostring(_volume_element(name, size_bytes, image_format), encoding="unicode")


def _volume_element(name: str, size_bytes: int, image_format: str) -> etree._Element:
    """https://libvirt.org/formatstorage.html; an allocation of nothing makes it sparse."""
    root = etree.Element("volume")
    etree.SubElement(root, "name").text = name
    etree.SubElement(root, "capacity", unit="bytes").text = str(size_bytes)
    etree.SubElement(root, "allocation").text = "0"
    target = etree.SubElement(root, "target")
    etree.SubElement(target, "format", type=image_format)
    if image_format == "qcow2":
        # Version 3 of the format; libvirt's default is the one of 2009, which cannot give back discarded blocks well.
        etree.SubElement(target, "compat").text = "1.1"
    permissions = etree.SubElement(target, "permissions")
    etree.SubElement(permissions, "mode").text = "0600"
    return root


def _create(pool: Pool, name: str, xml: str) -> t.Any:
    with errors_as_ours(f"cannot make volume {name} in pool {pool.name}"), _never_somebody_elses(pool, name):
        return pool.handle.createXML(xml, 0)


@contextlib.contextmanager
def _never_somebody_elses(pool: Pool, name: str) -> Iterator[None]:
    """Tell a volume that is there already from one that could not be made: only the latter may be taken back.

    Asked beforehand as well, because not every way of making a volume has an error code of its own for this.
    """
    taken = AlreadyThereError(f"pool {pool.name} has got a volume {name} while this run was planned")
    try:
        pool.handle.storageVolLookupByName(name)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
    else:
        raise taken
    try:
        yield
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_STORAGE_VOL_EXIST:
            raise taken from exc
        raise


def create_filled(pool: Pool, name: str, content: bytes, conn: VirConnect) -> None:
    """A new raw volume with this content."""
    volume = _create(pool, name, _volume_xml(name, len(content), "raw"))
    with errors_as_ours(f"cannot write volume {name} of pool {pool.name}"):
        stream = conn.newStream(0)
        volume.upload(stream, 0, len(content), 0)
        for chunk in _chunks(content):
            _send_all(stream, chunk)
        stream.finish()


def _chunks(content: bytes, size: int = 256 * 1024) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def _send_all(stream: t.Any, chunk: bytes) -> None:
    """A stream may take less than it is given."""
    while chunk:
        chunk = chunk[stream.send(chunk) :]


def delete_volume(pool: Pool, name: str) -> bool:
    """Delete a volume; False when it is not there (any more). Waits for one that the daemon is still making."""
    deadline = time.monotonic() + _DELETE_PATIENCE_SECONDS
    while True:
        try:
            pool.handle.storageVolLookupByName(name).delete(0)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
                return False
            if exc.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or time.monotonic() > deadline:
                raise translate_error(exc, f"cannot delete volume {name} of pool {pool.name}") from exc
            time.sleep(0.2)
        else:
            return True
