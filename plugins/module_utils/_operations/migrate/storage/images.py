# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored image that disks need on the target, sent to the store there.

The store belongs to virt_image on that host, whose lock cannot be had from here. So an image that is on its way says by
its own first bytes whose it is, and only such a file is ever deleted: a whole image stays, whoever has brought it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import threading
import time
import typing as t

from ...._base.errors import ConflictError, NotFoundError, stopped
from ...._host.connection import VirConnect, translate_errors
from ...._host.storage import volumes
from ...._host.storage.pool_refresh import refresh_pool
from ...._host.storage.pools import Pool, Pools, full_pool_named
from ...._host.storage.shared_pools import shared_because
from ...._host.storage.transfer.flush import SentFile, flushed, is_being_flushed
from ...._host.storage.transfer.upload import Sender, ask_sender, new_upload, send_file, send_mark, sending
from ...._host.storage.volume_bytes import read_start
from ...._host.storage.volume_facts import find_volume
from ...._model.image.marks import MARK_BYTES, Upload, read_upload
from ...._model.image.name import PRIVATE_MODE, STORED_MODE, parse_image_volume
from ...._model.metadata.migration import VolumeRef
from ..endpoints.location import Endpoints
from .cleanup import manual_deletion
from .disks import BaseImage

ProgressCallback = t.Callable[[str, int, int], t.Any]

# After so long without growth, nobody waits for a sender that cannot be asked. It is not taken for dead: one that
# reads through a large hole sends nothing for a while.
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_FLUSH_LOOK_SECONDS = 0.1
_image_locks: dict[tuple[str, str, str], threading.Lock] = {}
_image_locks_lock = threading.Lock()


def copy_image_to_target(
    base: BaseImage,
    endpoints: Endpoints,
    conn: VirConnect,
    host: str,
    on_progress: ProgressCallback,
    stop: threading.Event,
) -> None:
    """The image that disks are backed by, to the target's store, unless it is there or comes there meanwhile.

    host: the name of this hypervisor, for the mark. Raises ConflictError for one that somebody has left half there.
    """
    with _image_locks_lock:
        lock = _image_locks.setdefault((endpoints.target, base.pool, base.volume), threading.Lock())
    with lock:
        pool = Pools(conn).get(base.pool)
        sent = SentFile(pool, base.volume, base.size_bytes)
        while not is_stored(base, Pools(conn).get(base.pool)):
            upload = new_upload(host)
            try:
                handle = _make(pool, base)
            except volumes.VolumeExistsError:
                _wait_or_clear(base, conn, host, on_progress, stop)
                continue
            # Of one target under two URIs, another thread of this process may ask for it.
            with sending(upload):
                try:
                    send_mark(handle, conn, upload)
                    image = parse_image_volume(base.volume)
                    with full_pool_named(pool, f"cannot copy image {base.volume}", base.size_bytes):
                        send_file(
                            base.path,
                            handle,
                            conn,
                            sparse=True,
                            on_progress=lambda done, total: on_progress(f"image {base.volume}", done, total),
                            stop=stop,
                            digest=image.digest if image else "",
                            around_start=functools.partial(_on_disk, conn, sent, upload),
                        )
                except BaseException:
                    with endpoints.reconnected().open_target() as again:
                        delete_upload(Pools(again).get(base.pool), base.volume, again, upload)
                    raise
                refresh_pool(pool.handle, pool.name)
        _wait_for_flush(sent, conn, stop)


def _wait_for_flush(sent: SentFile, conn: VirConnect, stop: threading.Event) -> None:
    """Somebody has just brought the image, and has its first bytes written to the disk, which takes a moment.

    If the target's libvirt was started again meanwhile, that is left for ever, and keeps every machine from the image.
    """
    since = time.monotonic()
    while is_being_flushed(conn, sent.path):
        if stop.is_set():
            raise stopped()
        if time.monotonic() - since > _WAIT_SECONDS:
            # This ends the other one first.
            with flushed(conn, [sent]):
                pass
            return
        time.sleep(_FLUSH_LOOK_SECONDS)


@contextlib.contextmanager
def _on_disk(conn: VirConnect, sent: SentFile, upload: Upload) -> t.Iterator[None]:
    """All of an image that was sent is on the disk before its first bytes are written, and then those are.

    While that is done nobody can open it; so the second time, when others know it for an image, has to be short.
    What virt_image has put in its place meanwhile is on the disk already, and may be in use.
    """
    if _is_still(sent.pool, sent.name, conn, upload):
        with flushed(conn, [sent]):
            pass
    with flushed(conn, [sent] if _is_still(sent.pool, sent.name, conn, upload) else []):
        yield


def delete_upload(pool: Pool, name: str, conn: VirConnect, upload: Upload) -> bool:
    """Delete a volume if it is still what this transfer has begun, and not whole; whether it was that.

    Somebody may have stored the same image under its name meanwhile, and machines may be backed by that.
    """
    return _is_still(pool, name, conn, upload) and volumes.delete_volume(pool, name)


def _is_still(pool: Pool, name: str, conn: VirConnect, upload: Upload) -> bool:
    found = _upload_of(pool, name, conn)
    return found is not None and found.token == upload.token


def _make(pool: Pool, base: BaseImage) -> t.Any:
    element = volumes.new_volume_element(pool, base.volume, base.size_bytes, "raw")
    mode = element.find("target/permissions/mode")
    if mode is not None:
        # QEMU has it written to the disk, and is not root.
        mode.text = f"{_mode_of(base, pool) | stat.S_IWUSR:04o}"
    return volumes.make_volume(pool, base.volume, element)


def _mode_of(base: BaseImage, pool: Pool) -> int:
    """Who may read it there: nobody else where nobody else may here, but on a share, as virt_image has it."""
    private = False
    with contextlib.suppress(OSError):
        private = not os.stat(base.path).st_mode & stat.S_IROTH
    return PRIVATE_MODE if private and shared_because(pool) is None else STORED_MODE


def is_stored(base: BaseImage, pool: Pool) -> bool:
    """Whether the image is in the target's store, and whole: its format can be read only when all of it is there.

    Raises ConflictError for another image under its name.
    """
    found = find_volume(pool, base.volume, image_format=base.format)
    if found is None or found.looks_like != base.format:
        return False
    if found.capacity_bytes != base.virtual_size_bytes:
        raise ConflictError(
            f"the target's image {base.volume} is not of the same size as the one here",
            hint="One of the two does not match its name: sha256sum shows which; remove that one",
        )
    return True


def _wait_or_clear(
    base: BaseImage, conn: VirConnect, host: str, on_progress: ProgressCallback, stop: threading.Event
) -> None:
    """Somebody is bringing the same image, or was cut off while doing so: its sender is asked.

    Comes back when the image is whole or gone, or its sender is gone and it was deleted. Raises ConflictError, and
    leaves it, when nobody can tell.
    """
    size_bytes, since = -1, time.monotonic()
    while True:
        if stop.is_set():
            raise stopped()
        pool = Pools(conn).get(base.pool)
        found = find_volume(pool, base.volume, image_format=base.format)
        if found is None or found.looks_like == base.format:
            return
        on_progress(f"waiting for image {base.volume}", found.allocation_bytes, base.size_bytes)
        if found.allocation_bytes != size_bytes:
            size_bytes, since = found.allocation_bytes, time.monotonic()
        upload = _upload_of(pool, base.volume, conn)
        sender = Sender.UNKNOWN if upload is None else ask_sender(upload, host)
        if upload is not None and sender is Sender.GONE:
            delete_upload(pool, base.volume, conn, upload)
            return
        if sender is Sender.UNKNOWN and time.monotonic() - since > _WAIT_SECONDS:
            whose = "somebody" if upload is None else f"process {upload.pid} of {upload.host}"
            raise ConflictError(
                f"image {base.volume} is incomplete on the target, copied by {whose}, and has not grown for "
                f"{_WAIT_SECONDS:.0f} s",
                hint="Wait for it, or make sure that nothing is copying it. "
                f"{manual_deletion(conn, VolumeRef(base.pool, base.volume))}",
            )
        time.sleep(_LOOK_SECONDS)


def _upload_of(pool: Pool, name: str, conn: VirConnect) -> Upload | None:
    with contextlib.suppress(NotFoundError), translate_errors(f"cannot look up volume {name} of pool {pool.name}"):
        return read_upload(read_start(pool.handle.storageVolLookupByName(name), conn, MARK_BYTES))
    return None
