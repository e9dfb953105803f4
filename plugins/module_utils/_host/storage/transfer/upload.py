# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a volume of this hypervisor, sent to a volume of another one through libvirt."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import typing as t

from ...._base.errors import HostError, stopped
from ...._model.image.marks import MARK_BYTES, Upload
from ...connection import VirConnect, libvirt, translate_errors
from ..volume_bytes import write_start

_CHUNK_BYTES = 256 * 1024


def send_file(
    path: str,
    volume: t.Any,
    conn: VirConnect,
    *,
    sparse: bool,
    on_progress: t.Callable[[int, int], t.Any],
    stop: threading.Event,
    digest: str | None = None,
    around_start: t.Callable[[], t.ContextManager[None]] = contextlib.nullcontext,
    opened: int | None = None,
) -> None:
    """The content of a file or device of this machine, to a volume that is there for it.

    sparse: leave out what is a hole in the file; only for a volume that reads as zeros so far. on_progress: takes the
    bytes that are done, and all of them. digest: what the sha256 of the content has to begin with.
    The first MARK_BYTES come last, when all else is there and right, in one go: before that, nothing takes the volume
    for an image, and send_mark may have put there whose it is. around_start: what that last write is done in. opened: a
    descriptor of the file, where it is open already.
    Raises HostError, and StoppedError when ``stop`` was set meanwhile; what was sent is for the caller to remove.
    """
    what = f"cannot send {path}"
    try:
        with open(path if opened is None else os.dup(opened), "rb", buffering=0) as file:
            size_bytes = file.seek(0, os.SEEK_END)
            reader = _UploadReader(file.fileno(), size_bytes, on_progress, stop, digest is not None)
            head = reader.head(min(MARK_BYTES, size_bytes))
            with translate_errors(what):
                if size_bytes > len(head):
                    _send(volume, conn, reader, len(head), size_bytes - len(head), sparse)
                if digest is not None and not reader.sha256.startswith(digest):
                    raise HostError(f"{path} does not match its name: its sha256 begins with {reader.sha256[:16]}")
                if head:
                    with around_start():
                        write_start(volume, conn, head)
    except OSError as exc:
        raise HostError(f"{what}: {exc.strerror or exc}") from exc


def send_mark(volume: t.Any, conn: VirConnect, upload: Upload) -> None:
    """Have a new volume say whose it is, until its content is there. Not for one that is smaller than the mark."""
    with translate_errors(f"cannot mark volume {volume.name()}"):
        if volume.info()[1] >= MARK_BYTES:
            write_start(volume, conn, upload.to_bytes())


class _UploadReader:
    """Hands out a file from one position on, and knows where its holes are."""

    def __init__(
        self,
        descriptor: int,
        size_bytes: int,
        on_progress: t.Callable[[int, int], t.Any],
        stop: threading.Event,
        hashing: bool,
    ) -> None:
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._on_progress = on_progress
        self._stop = stop
        self._hash = hashlib.sha256() if hashing else None
        self._position = 0
        self.failure: BaseException | None = None

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest() if self._hash else ""

    def head(self, size_bytes: int) -> bytes:
        data = os.pread(self._descriptor, size_bytes, 0)
        if self._hash:
            self._hash.update(data)
        self._position = len(data)
        return data

    def read(self, _stream: t.Any, wanted_bytes: int, _opaque: t.Any) -> bytes:
        """What follows, at most so much; libvirt calls it."""
        try:
            if self._stop.is_set():
                raise stopped()
            data = os.pread(self._descriptor, min(wanted_bytes, _CHUNK_BYTES), self._position)
            if self._hash:
                self._hash.update(data)
            self._position += len(data)
            self._on_progress(self._position, self._size_bytes)
        except BaseException as exc:
            # libvirt has another error for whatever is raised in here.
            self.failure = exc
            raise
        return data

    def section(self, _stream: t.Any, _opaque: t.Any) -> tuple[bool, int]:
        """Whether data or a hole begins here, and how long it is."""
        here = self._position
        data = self._seek(os.SEEK_DATA)
        if data == here:
            return True, self._seek(os.SEEK_HOLE) - here
        return False, data - here

    def skip(self, _stream: t.Any, length: int, _opaque: t.Any) -> int:
        """Pass over a hole, which reads as zeros; libvirt wants a number that is not negative."""
        if self._hash:
            left = length
            while left > 0:
                self._hash.update(bytes(min(left, _CHUNK_BYTES)))
                left -= _CHUNK_BYTES
        self._position += length
        return 0

    def _seek(self, kind: int) -> int:
        try:
            return os.lseek(self._descriptor, self._position, kind)
        except OSError as exc:
            # Behind the last data there is nothing but a hole.
            if exc.errno == errno.ENXIO:
                return self._size_bytes
            raise


def _send(volume: t.Any, conn: VirConnect, reader: _UploadReader, offset: int, length: int, sparse: bool) -> None:
    stream = conn.newStream(0)
    try:
        if sparse:
            volume.upload(stream, offset, length, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)
            stream.sparseSendAll(reader.read, reader.section, reader.skip, None)
        else:
            volume.upload(stream, offset, length, 0)
            stream.sendAll(reader.read, None)
        stream.finish()
    except Exception:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        if reader.failure is not None:
            raise reader.failure from None
        raise
