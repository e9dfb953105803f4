# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a volume gets its content from, as the host that has it sees it. No libvirt."""

from __future__ import annotations

import os
import typing as t
from dataclasses import asdict, dataclass, field

from ..._base.errors import ConflictError, HostError, InputError
from ..._model.image.checksum import Checksum, verify_digests
from ..._model.image.header import check_image_header, compression, virtual_size
from ..._model.xml.disk_source import RAW
from ..images import files as image_files
from .files import disk_errors
from .inspection import read_header, require_file, require_whole_file
from .stream import ProgressCallback, no_progress

# What an action plugin sends beside the options of a module: of each file of the controller that it has looked at, by
# its place in the task, what is in it and, once it has been sent, where it is.
SENT_FILES = "_sent_files"
# Whether the action plugin only asks which of them have to be sent, and the word for that in the answer.
ONLY_ASKED = "_only_asked"
NEEDED_FILES = "needed_files"

# The first volume descriptor of ISO 9660 and of UDF stands in the 16th sector of 2048 bytes, after its type: ECMA-119
# 8.1, ECMA-167 2/9.1.
_DESCRIPTOR_OFFSET = 16 * 2048 + 1
_DESCRIPTORS = (b"CD001", b"BEA01")


@dataclass(frozen=True)
class SourceFile:
    """What is in a file.

    format: ``raw`` or ``qcow2``; iso: it is a raw one with the file system of a CD or DVD. virtual_size_bytes: of the
    disk that a guest sees. path: where it is on this host; None for a file of the controller that has not been sent.
    stamp: what tells it from any other that is there later; None for a copy that was sent.
    """

    sha256: str
    size_bytes: int
    format: str
    virtual_size_bytes: int
    iso: bool = False
    path: str | None = None
    stamp: tuple[int, ...] | None = field(default=None, compare=False)


def look_at_source(
    path: str,
    where: str,
    *,
    checksum: Checksum | None = None,
    where_checksum: str = "checksum",
    on_progress: ProgressCallback = no_progress,
) -> SourceFile:
    """A file of this host that can be the content of a volume as it is.

    checksum: what it has to hash to. where, where_checksum: their places in the user's input. Raises InputError for
    what machines cannot use, ConflictError for another checksum, HostError when it cannot be read.
    """
    require_file(path, where)
    header, size_bytes = read_header(path)
    packed = compression(header)
    if packed is not None:
        raise InputError(
            f"{path} is compressed with {packed}", where=where, hint="Decompress it first; virt_image takes it as it is"
        )
    image_format = check_image_header(header, size_bytes, path, where)
    require_whole_file(path, path, where)
    # Taken before its content is read: what changes meanwhile is another file.
    with disk_errors(f"cannot read {path}"):
        stamp = _stamp_of(os.stat(path))
    content = image_files.hash_file(path, [checksum.algorithm] if checksum else (), on_progress)
    if checksum is not None:
        verify_digests(content.digests, checksum, path, where_checksum)
    return SourceFile(
        content.sha256,
        content.size_bytes,
        image_format,
        virtual_size(header, size_bytes),
        iso=image_format == RAW and _is_iso(path),
        path=path,
        stamp=stamp,
    )


class HeldFile:
    """A file that is to be sent, open from when something is deleted for it until it is sent: nobody can take it away
    meanwhile. words: its name, as the user knows it; where: its place in the input."""

    def __init__(self, source: SourceFile, words: str, where: str | None = None) -> None:
        self._source, self._words, self._where = source, words, where
        self._descriptor: int | None = None

    def open(self) -> int:
        """Its descriptor. Raises ConflictError where it is not there any more, or another one is."""
        if self._descriptor is None:
            self._descriptor = self._opened()
        return self._descriptor

    def _opened(self) -> int:
        source, hint = self._source, "Run the task again"
        if source.path is None:
            raise HostError(f"{self._words} has not been sent to this hypervisor", where=self._where)
        try:
            descriptor = os.open(source.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as exc:
            raise ConflictError(
                f"{self._words} has gone since this run looked at it", where=self._where, hint=hint
            ) from exc
        except OSError as exc:
            raise HostError(f"cannot read {self._words}: {exc.strerror}", where=self._where) from exc
        found = os.fstat(descriptor)
        if found.st_size != source.size_bytes or source.stamp not in (None, _stamp_of(found)):
            os.close(descriptor)
            raise ConflictError(f"{self._words} has changed since this run looked at it", where=self._where, hint=hint)
        return descriptor

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def _stamp_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_iso(path: str) -> bool:
    with disk_errors(f"cannot read {path}"), open(path, "rb") as file:
        file.seek(_DESCRIPTOR_OFFSET)
        return file.read(len(_DESCRIPTORS[0])) in _DESCRIPTORS


def source_to_module(source: SourceFile, sent_to: str | None = None) -> dict[str, t.Any]:
    """What the controller says of a file of its own. sent_to: where it is on the module's host, once it is there."""
    return {**asdict(source), "path": sent_to, "stamp": None}


def source_from_controller(said: t.Mapping[str, t.Any]) -> SourceFile:
    """The file that source_to_module speaks of."""
    return SourceFile(**said)
