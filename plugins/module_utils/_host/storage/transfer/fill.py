# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume that gets the content of a file of this host, through libvirt, or is wiped.

As long as it is not whole it begins with the mark of who sends it (image/marks.py), so that nothing takes it for an
image, and whoever finds it after a killed run can tell that nobody needs it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import typing as t

from ...._base.errors import ConflictError, HostError, NotFoundError
from ...._base.xml import etree
from ...._model.image.marks import MARK_BYTES, Upload, read_upload
from ...._model.metadata.machine import VolumeNote
from ...._model.xml.disk_source import FILE, RAW
from ...connection import VirConnect, host_name, translate_errors
from ...storage import volumes
from ..pool_refresh import refresh_pool
from ..pools import Pool, full_pool_named
from ..proof import by_hand, unfinished_of
from ..volume_bytes import read_volume, write_start, zero_logical
from ..volume_facts import find_volume
from .upload import Sender, ask_sender, new_upload, send_file, send_mark, sending


class FilledVolume:
    """One volume on its way: ``make``, then ``send`` or ``wipe``; ``clear`` takes away what is not whole."""

    def __init__(self, pool: Pool, name: str, conn: VirConnect) -> None:
        self._pool = pool
        self._name = name
        self._conn = conn
        self._upload = new_upload(host_name(conn))

    def make(self, element: etree._Element) -> None:
        """The volume with its mark, for who holds the lock that keeps others from making one of this name.

        element: its XML, of a raw one. Raises VolumeExistsError for what somebody else has made.
        """
        volume = volumes.make_volume(self._pool, self._name, element)
        try:
            send_mark(volume, self._conn, self._upload)
        except BaseException:
            # Nobody else has seen it, and without its mark nobody could tell whose it is.
            with contextlib.suppress(Exception):
                volumes.delete_volume(self._pool, self._name)
            raise

    def send(
        self, path: str, sha256: str, on_progress: t.Callable[[int, int], t.Any], opened: int | None = None
    ) -> None:
        """All of a file. sha256: what its bytes have to hash to, or else they do not become the volume's content.
        opened: as in send_file."""
        pool, name = self._pool, self._name
        with translate_errors(f"cannot look up volume {name} of pool {pool.name}"):
            volume = pool.handle.storageVolLookupByName(name)
        what = f"cannot write volume {name} of pool {pool.name}"
        size_bytes = os.path.getsize(path if opened is None else opened)
        with sending(self._upload), full_pool_named(pool, what, size_bytes):
            # What the file does not fill; the mark stays as long as the volume is not whole.
            zero_logical(pool, volume, max(size_bytes, MARK_BYTES))
            send_file(
                path,
                volume,
                self._conn,
                # A device reads as what was on the disk before.
                sparse=pool.source_type == FILE,
                on_progress=on_progress,
                stop=threading.Event(),
                digest=sha256,
                around_start=lambda: _on_disk(pool, name),
                opened=opened,
            )
        # libvirt takes it for a raw one until it looks again.
        refresh_pool(pool.handle, pool.name)

    def wipe(self) -> None:
        """Nothing, instead of a content: a logical volume has what was in deleted ones until then."""
        pool, name = self._pool, self._name
        with translate_errors(f"cannot look up volume {name} of pool {pool.name}"):
            volume = pool.handle.storageVolLookupByName(name)
        with sending(self._upload):
            zero_logical(pool, volume, MARK_BYTES)
            with translate_errors(f"cannot wipe volume {name} of pool {pool.name}"):
                write_start(volume, self._conn, bytes(MARK_BYTES))

    def clear(self) -> bool:
        """Delete the volume unless it is whole, or another one; whether it was deleted."""
        found = upload_of(self._pool, self._name)
        is_ours = found is not None and found.token == self._upload.token
        return is_ours and volumes.delete_volume(self._pool, self._name)


@contextlib.contextmanager
def _on_disk(pool: Pool, name: str) -> t.Iterator[None]:
    """A file of this host is on its disk before its first bytes are written, and then those are.

    After a power cut it would otherwise be taken for whole without being it.
    """
    if not pool.local or pool.source_type != FILE:
        yield
        return
    try:
        descriptor = os.open(pool.source_of(name).path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            yield
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        # Whoever sends would take it for an error of the file that is sent.
        raise HostError(f"cannot write volume {name} of pool {pool.name}: {exc.strerror or exc}") from exc


def upload_of(pool: Pool, name: str) -> Upload | None:
    """The transfer that a volume belongs to which is not whole; None for any other, and where it cannot be read."""
    found = find_volume(pool, name, image_format=RAW)
    if found is None:
        return None
    upload = None
    if found.looks_like == RAW:
        with contextlib.suppress(NotFoundError):
            read = read_volume(pool, found)
            upload = None if read is None else read_upload(read(0, MARK_BYTES))
    return upload or unfinished_of(pool, name)


def require_no_sender(pool: Pool, name: str, upload: Upload, host: str, where: str | None = None) -> None:
    """Raise ConflictError unless the process that was sending to a volume is known to be gone. host: this host's name
    as its libvirt says it."""
    sender = ask_sender(upload, host)
    if sender is Sender.GONE:
        return
    words = f"volume {name} of pool {pool.name} is incomplete"
    process = f"process {upload.pid} of host {upload.host}"
    if sender is Sender.ALIVE:
        raise ConflictError(f"{words}: {process} is sending its content", where=where, hint="Wait for it to end")
    raise ConflictError(
        f"{words}, and whether {process} still sends its content cannot be told from here",
        where=where,
        hint=f"Look for it there. {by_hand(VolumeNote(pool.name, name, 'disk'))}",
    )
