# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a move: made on the target, and filled."""

from __future__ import annotations

import os
import threading
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.full_pool import full_pool_named
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pool_refresh import refresh_pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.flush import SentFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import send_file
from ansible_collections.brine.virt.plugins.module_utils._model.image.upload_mark import Upload
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeIdentity
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import FILE
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import CONTENT, DiskMigration
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import (
    identify_made,
    identify_whole,
)

ProgressCallback = t.Callable[[str, int, int], t.Any]


def make_volume_for(disk: DiskMigration) -> None:
    """A volume on the target for a disk that travels. Raises VolumeExistsError instead of touching another's."""
    pool = disk.target_pool
    # Whatever fails before the volume is made, what is there then is somebody else's.
    volumes.require_not_there(pool, disk.ref.name)
    if disk.method == CONTENT:
        # The file is sent as it is; its own header will say its format.
        size_bytes = _size_of(disk.volume.path)
        volumes.make_volume(pool, disk.ref.name, volumes.new_volume_element(pool, disk.ref.name, size_bytes, "raw"))
    elif disk.base is not None:
        volumes.create_overlay(
            pool,
            disk.ref.name,
            size_bytes=disk.capacity_bytes,
            image_path=disk.base.path_there,
            image_format=disk.base.format,
        )
    else:
        volumes.create_empty(pool, disk.ref.name, size_bytes=disk.capacity_bytes, image_format=disk.format)


def mark_volume_of(disk: DiskMigration, conn: VirConnect, upload: Upload) -> VolumeIdentity:
    """Have the volume that was just made for a disk say whose it is; what tells it from now on."""
    return identify_made(disk.target_pool, _handle(disk), conn, upload, filled=disk.method == CONTENT)


def send_content(disk: DiskMigration, conn: VirConnect, on_progress: ProgressCallback, stop: threading.Event) -> None:
    """The bytes of a disk that nobody writes to, to the volume that was made for it."""
    pool = disk.target_pool
    with full_pool_named(pool, f"cannot copy disk {disk.device} to volume {disk.ref.name}", _size_of(disk.volume.path)):
        send_file(
            disk.volume.path,
            _handle(disk),
            conn,
            sparse=pool.source_type == FILE,
            on_progress=lambda done, total: on_progress(f"disk {disk.device}", done, total),
            stop=stop,
        )


def sent_file(disk: DiskMigration) -> SentFile:
    """The volume on the target whose content was sent."""
    return SentFile(disk.target_pool, disk.ref.name, _size_of(disk.volume.path))


def settle_content(disk: DiskMigration) -> VolumeIdentity:
    """Have libvirt look at a volume whose content was sent; what tells it from now on."""
    if disk.format != "raw":
        # Until libvirt looks again, it knows a raw volume.
        refresh_pool(disk.target_pool.handle, disk.target_pool.name)
    return identify_whole(disk.target_pool, _handle(disk))


def _handle(disk: DiskMigration) -> t.Any:
    pool = disk.target_pool
    with translate_errors(f"cannot find volume {disk.ref.name} of pool {pool.name}"):
        return pool.handle.storageVolLookupByName(disk.ref.name)


def _size_of(path: str) -> int:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.seek(0, os.SEEK_END)
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}") from exc
