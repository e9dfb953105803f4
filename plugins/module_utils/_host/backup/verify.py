# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a backup back: the checksum of each file, the structure of each image, and what each one is backed by."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import typing as t
from collections.abc import Sequence

from ..._base.errors import HostError, VirtError, stopped
from ..._base.files import file_errors
from ..._base.qemu_img import QCOW2, complaint_of
from ..._model.backup.manifest import DiskEntry, FileEntry, Manifest
from ..._model.image.qcow2 import BrokenQcow2Error, read_header, referenced_names
from .damage import DamagedError, forget_damage, note_damage
from .directory import Backups, open_inside

_CHUNK_BYTES = 1024 * 1024
_CHECK_SECONDS = 24 * 3600.0
# What the system says of a file that is gone, or that its disk or file system has lost: errno(3). The 0 is that of
# open_inside. Anything else, such as a share that does not answer, says nothing of the file.
_LOST = (0, errno.ENOENT, errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ELOOP, errno.ENXIO)

OnBytes = t.Callable[[int], t.Any]


def nothing(_bytes: int) -> None:
    """For who does not ask how far it is."""


def digest_file(directory: str, name: str, stop: threading.Event, on_bytes: OnBytes = nothing) -> FileEntry:
    """The length and the checksum of a file. on_bytes: called with the length of each piece that was read.

    Raises HostError, StoppedError.
    """
    hashed, length = hashlib.sha256(), 0
    with file_errors(f"cannot read {directory}/{name}"), open_inside(directory, name) as descriptor:
        while True:
            piece = os.read(descriptor, _CHUNK_BYTES)
            if not piece:
                return FileEntry(length, hashed.hexdigest())
            if stop.is_set():
                raise stopped()
            hashed.update(piece)
            length += len(piece)
            on_bytes(len(piece))


def verify_chain(
    backups: Backups,
    chain: Sequence[Manifest],
    stop: threading.Event,
    on_bytes: OnBytes = nothing,
    *,
    files: t.Container[str] | None = None,
) -> None:
    """Read everything of a backup and of those that it needs. Raises HostError for the first thing that is wrong.

    What is damaged is noted beside it, and the note goes when all of it is whole. files: only the files with these
    names.
    """
    for manifest in chain:
        try:
            verify_backup(backups, manifest, stop, on_bytes, files=files)
        except DamagedError as exc:
            raise note_damage(backups, manifest, exc) from None
        if files is None:
            # Where the note stays, it keeps others from building on this one, and does no harm.
            with contextlib.suppress(HostError):
                forget_damage(backups, manifest)


def verify_backup(
    backups: Backups,
    manifest: Manifest,
    stop: threading.Event,
    on_bytes: OnBytes = nothing,
    *,
    files: t.Container[str] | None = None,
) -> None:
    """The same of one backup, without those that it needs; nothing is noted. Raises DamagedError for damage."""
    directory = backups.path_of(manifest.id)
    for name, entry in manifest.files.items():
        if files is not None and name not in files:
            continue
        try:
            found = digest_file(directory, name, stop, on_bytes)
        except HostError as exc:
            raise _as_damage(exc) from exc
        if found not in manifest.forms(name):
            what = (
                "has another content" if found.bytes == entry.bytes else f"has {found.bytes} bytes, not {entry.bytes}"
            )
            raise DamagedError(f"{directory}/{name} {what} than when the backup was made")
    for disk in manifest.disks:
        if files is None or disk.file in files:
            check_image(directory, disk)


def check_image(directory: str, disk: DiskEntry) -> None:
    """Raise HostError unless an image is whole, of the size that the manifest says, and leads to its parent alone."""
    path = f"{directory}/{disk.file}"
    check_header(directory, disk)
    complaint = complaint_of(path, timeout_seconds=_CHECK_SECONDS, alone=True)
    if complaint is not None and complaint.checked:
        raise DamagedError(f"{path} is damaged: {complaint.words}")
    if complaint is not None:
        raise HostError(f"{path} cannot be checked: {complaint.words}")


def _as_damage(exc: HostError) -> HostError:
    """The same as DamagedError where the system has said that a file is lost."""
    cause = exc.__cause__
    return DamagedError(exc.what) if isinstance(cause, OSError) and cause.errno in _LOST else exc


def check_header(directory: str, disk: DiskEntry) -> None:
    """The part of check_image that keeps QEMU from following an image to a file that is not in the backups."""
    path = f"{directory}/{disk.file}"
    try:
        with open_inside(directory, disk.file) as descriptor:

            def read(offset: int, length: int) -> bytes:
                return os.pread(descriptor, length, offset)

            header, names = read_header(read), referenced_names(read)
    except BrokenQcow2Error as exc:
        raise DamagedError(f"{path} cannot be read as qcow2: {exc}") from exc
    except OSError as exc:
        kind = DamagedError if exc.errno in _LOST else HostError
        raise kind(f"{path} cannot be read as qcow2: {exc.strerror or exc}") from exc
    if header is None:
        raise DamagedError(f"{path} is not a qcow2 image")
    if header.virtual_size_bytes != disk.image_bytes:
        raise DamagedError(f"{path} is a disk of {header.virtual_size_bytes} bytes, not of {disk.image_bytes}")
    wanted = [[] if backing is None else [backing_name(disk.file, backing)] for backing in disk.backings]
    if header.data_file or names not in wanted or (names and header.backing_format != QCOW2):
        allowed = " or by ".join(str(one or "nothing") for one in wanted)
        raise DamagedError(f"{path} is backed by {names or 'nothing'}, not by {allowed}")


def backing_name(file: str, backing: str) -> str:
    """What stands in the header of an image that is backed by the one of this backup: relative, so that all of it can
    be moved."""
    return f"../{backing}/{file}"


def problem_of(backups: Backups, manifest: Manifest) -> VirtError | None:
    """Why a backup cannot be built on, without reading its data: what was found damaged, or a file that is missing or
    has another length, in it or in those that it needs. None where nothing is seen to be wrong."""
    try:
        chain = backups.chain(manifest.id)
        noted = backups.damage_of(manifest.id)
        if noted:
            return DamagedError(noted)
        for one in chain:
            _require_files(backups, one)
    except VirtError as exc:
        return exc
    return None


def look_for_damage(backups: Backups) -> None:
    """Add to what is known to be damaged what can be seen without reading any data, as problem_of does."""
    for name, manifest in sorted(backups.by_id.items()):
        # A parent is earlier than its child, which is said to be built on it.
        if backups.damage_of(name):
            continue
        try:
            backups.chain(name)
            _require_files(backups, manifest)
        except VirtError as exc:
            # Whoever looks without the lock sees them go.
            if os.path.lexists(backups.path_of(name)):
                backups.damaged[name] = exc.what.replace(f"{backups.path_of(name)}/", "")


def _require_files(backups: Backups, manifest: Manifest) -> None:
    """Raise HostError for a file of a backup, without those that it needs, that is seen not to be as it was."""
    directory = backups.path_of(manifest.id)
    for name, entry in manifest.files.items():
        lengths = {form.bytes for form in manifest.forms(name)}
        try:
            length = os.lstat(f"{directory}/{name}").st_size
        except OSError as exc:
            raise HostError(f"{directory}/{name}: {exc.strerror}") from exc
        if length not in lengths:
            raise HostError(f"{directory}/{name} has {length} bytes, not {entry.bytes}")
    for disk in manifest.disks:
        check_header(directory, disk)
