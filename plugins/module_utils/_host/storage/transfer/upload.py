# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a volume of this hypervisor, sent to a volume of another one through libvirt; and whether the process that
does so is still alive."""

from __future__ import annotations

import contextlib
import enum
import errno
import hashlib
import os
import threading
import typing as t
import uuid

from ...._base.errors import HostError, stopped
from ...._model.image.marks import MARK_BYTES, Upload
from ...connection import VirConnect, libvirt, translate_errors
from ...identity import boot_identity, host_identity, process_start_ticks
from ..volume_bytes import write_start

_CHUNK_BYTES = 256 * 1024
_sending: set[str] = set()
_sending_lock = threading.Lock()


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
            with translate_errors(f"{what} to volume {volume.name()}"):
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


class Sender(enum.Enum):
    """What is known of a transfer's sender. UNKNOWN: it is a process of another host, which nobody here can ask."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


def new_upload(host: str) -> Upload:
    """A transfer of this process. host: the name of this host, as its libvirt says it."""
    return Upload(
        uuid.uuid4().hex, host, boot_identity(), os.getpid(), process_start_ticks(os.getpid()) or 0, host_identity()
    )


@contextlib.contextmanager
def sending(upload: Upload) -> t.Iterator[None]:
    """For the block, a transfer of this process counts as alive."""
    with _sending_lock:
        _sending.add(upload.token)
    try:
        yield
    finally:
        with _sending_lock:
            _sending.discard(upload.token)


def ask_sender(upload: Upload, host: str) -> Sender:
    """Whether the transfer's process still runs. host: the name of this host.

    Only a process of this very host can be asked, and many hosts have one name. Where it is not certain that the host
    is the same, the answer is UNKNOWN. A transfer of this very process is alive while it is ``sending``.
    """
    if upload.host != host or upload.machine != host_identity():
        return Sender.UNKNOWN
    if upload.boot != boot_identity():
        # Without an id, this may be another host as well as another start of this one.
        return Sender.GONE if upload.machine else Sender.UNKNOWN
    if upload.pid == os.getpid():
        with _sending_lock:
            return Sender.ALIVE if upload.token in _sending else Sender.GONE
    return Sender.ALIVE if process_start_ticks(upload.pid) == upload.started else Sender.GONE
