# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a move: made on the target, filled, and taken away again at the end where they are of no use."""

from __future__ import annotations

import os
import threading
import time
import typing as t
from collections.abc import Iterable, Sequence

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.domains import list_domains, paths_in_use, undefine
from ansible_collections.brine.virt.plugins.module_utils._host.full_pool import full_pool_named
from ansible_collections.brine.virt.plugins.module_utils._host.image_files import STORED_MODE
from ansible_collections.brine.virt.plugins.module_utils._host.images import refresh_pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.volume_facts import find_volume
from ansible_collections.brine.virt.plugins.module_utils._host.volume_send import send_file
from ansible_collections.brine.virt.plugins.module_utils._model.disk_source import FILE
from ansible_collections.brine.virt.plugins.module_utils._model.image_name import parse_image_volume
from ansible_collections.brine.virt.plugins.module_utils._model.move_note import VolumeRef, read_move_note
from ansible_collections.brine.virt.plugins.module_utils._work.moving.storage import CONTENT, Base, DiskMove
from ansible_collections.brine.virt.plugins.module_utils._work.moving.whereabouts import Ends, is_there

Tell = t.Callable[[str, int, int], t.Any]

# An image that has not grown for so long is nobody's who is still at work.
_STALLED_SECONDS = 20
_image_locks: dict[tuple[str, str, str], threading.Lock] = {}
_image_locks_lock = threading.Lock()


def make_volume_for(disk: DiskMove) -> None:
    """A volume on the target for a disk that travels. Raises AlreadyThereError instead of touching another's."""
    pool = disk.target_pool
    if disk.way == CONTENT:
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


def send_content(disk: DiskMove, conn: VirConnect, tell: Tell, stop: threading.Event) -> None:
    """The bytes of a disk that nobody writes to, to the volume that was made for it."""
    pool = disk.target_pool
    with errors_as_ours(f"cannot find volume {disk.ref.name} of pool {pool.name}"):
        handle = pool.handle.storageVolLookupByName(disk.ref.name)
    what = f"cannot copy disk {disk.device} to volume {disk.ref.name}"
    with full_pool_named(pool, what, _size_of(disk.volume.path)):
        send_file(
            disk.volume.path,
            handle,
            conn,
            sparse=pool.source_type == FILE,
            tell=lambda done, total: tell(f"disk {disk.device}", done, total),
            stop=stop,
        )
    if disk.format != "raw":
        # Until libvirt looks again, it knows a raw volume.
        refresh_pool(pool.handle, pool.name)


def bring_image(base: Base, ends: Ends, conn: VirConnect, tell: Tell, stop: threading.Event) -> None:
    """The image that disks stand on, to the target's store, unless it is there or comes there meanwhile."""
    with _image_locks_lock:
        lock = _image_locks.setdefault((ends.target, base.pool, base.volume), threading.Lock())
    with lock:
        pool = Pools(conn).get(base.pool)
        while not _stored(base, conn):
            element = volumes.new_volume_element(pool, base.volume, base.size_bytes, "raw")
            mode = element.find("target/permissions/mode")
            if mode is not None:
                mode.text = f"{STORED_MODE:04o}"
            try:
                handle = volumes.make_volume(pool, base.volume, element)
            except volumes.AlreadyThereError:
                _wait_or_clear(base, conn, stop)
                continue
            try:
                image = parse_image_volume(base.volume)
                with full_pool_named(pool, f"cannot bring image {base.volume}", base.size_bytes):
                    send_file(
                        base.path,
                        handle,
                        conn,
                        sparse=True,
                        tell=lambda done, total: tell(f"image {base.volume}", done, total),
                        stop=stop,
                        digest=image.digest if image else "",
                    )
            except BaseException:
                with ends.anew().open_target() as again:
                    volumes.delete_volume(Pools(again).get(base.pool), base.volume)
                raise
            refresh_pool(pool.handle, pool.name)


def _stored(base: Base, conn: VirConnect) -> bool:
    """Whether the image is in the store, and whole: its format can be read only when all of it is there."""
    found = find_volume(Pools(conn).get(base.pool), base.volume, image_format=base.format)
    if found is None or found.looks_like != base.format:
        return False
    if found.capacity_bytes != base.virtual_size_bytes:
        raise ConflictError(
            f"the target's image {base.volume} is not of the same size as the one here",
            hint="One of the two is not what its name says: sha256sum tells which; remove that",
        )
    return True


def _wait_or_clear(base: Base, conn: VirConnect, stop: threading.Event) -> None:
    """Somebody is bringing the same image, or was cut off while doing so."""
    size_bytes, since = -1, time.monotonic()
    while not stop.is_set():
        pool = Pools(conn).get(base.pool)
        found = find_volume(pool, base.volume, image_format=base.format)
        if found is None or found.looks_like == base.format:
            return
        if found.allocation_bytes != size_bytes:
            size_bytes, since = found.allocation_bytes, time.monotonic()
        elif time.monotonic() - since > _STALLED_SECONDS:
            volumes.delete_volume(pool, base.volume)
            return
        time.sleep(1)


def clear_target(ends: Ends, uuid: str, made: Sequence[VolumeRef]) -> None:
    """Take away what was made on the target for a machine that has stayed where it was.

    Raises an error of ours, and deletes nothing, when that is not certain.
    """
    if not is_there(ends, uuid):
        raise HostError("the machine is not at the source any more, so nothing on the target is deleted")
    with ends.open_source() as source, ends.open_target() as target:
        with errors_as_ours("cannot tell the hypervisors apart"):
            if source.getHostname() == target.getHostname():
                raise HostError("the target is this hypervisor itself, so nothing is deleted")
        _drop_left_over(target, uuid)
        delete_unused(target, made)


def _drop_left_over(target: VirConnect, uuid: str) -> None:
    """A record that an offline move wrote before it failed; nobody has ever started it."""
    known = next((d for d in list_domains(target).values() if d.handle.UUIDString() == uuid), None)
    if known is None:
        return
    if known.active or read_move_note(known.xml) is None:
        raise HostError(f"machine {known.name} is on the target, so nothing there is deleted")
    undefine(target, known.name)


def delete_unused(conn: VirConnect, refs: Iterable[VolumeRef]) -> None:
    """Delete volumes that no machine of this hypervisor has; ConflictError, and the rest stays, for one that has."""
    refs = list(refs)
    if not refs:
        return
    used = paths_in_use(list_domains(conn).values())
    pools = Pools(conn)
    for ref in refs:
        pool = pools.get(ref.pool)
        user = used.get(pool.volume_path(ref.name))
        if user:
            raise ConflictError(f"volume {ref.name} of pool {ref.pool} is in use by machine {user}, and stays")
    for ref in refs:
        volumes.delete_volume(pools.get(ref.pool), ref.name)


def _size_of(path: str) -> int:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.seek(0, os.SEEK_END)
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}") from exc
