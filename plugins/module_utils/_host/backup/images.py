# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images written by qemu-img: a disk into a backup, a backup into a volume. It is watched, and ended with the run."""

from __future__ import annotations

import os
import threading
import typing as t

from ..._base.errors import HostError, VirtError, stopped
from ..._base.files import allocated_bytes
from ..._base.qemu_img import QCOW2, RAW, OnPercent, measure_layer, measure_volume, run_qemu_img
from ..._model.image.qcow2 import BrokenQcow2Error, read_header
from ..storage.ceph import QemuName
from ..storage.full_disk import disk_full
from .verify import OnBytes, backing_name, nothing

_SECONDS = 7 * 24 * 3600.0
_HEADER_SECONDS = 600.0
_NO_SPACE = "No space left on device"
_DEEPEST = 200


def convert(
    source: str | QemuName,
    image_format: str,
    target: str | QemuName,
    stop: threading.Event,
    on_bytes: OnBytes = nothing,
    *,
    into: str | None = None,
    fresh: bool = True,
    on_percent: OnPercent | None = None,
) -> None:
    """Write the content of an image, with all that it is backed by, into a qcow2 file that is made, for its owner only.

    source, target: at most one of them is in a cluster. into: the format of a volume that is there already, and is
    written instead. fresh: this one has never been written to, and reads as zeros. on_bytes: called with what the file
    takes of its disk so far; a device or a volume of a cluster tells nothing like that. on_percent: called with how
    much of what there is to copy is copied.
    Raises HostError, StoppedError, and OSError for a file that cannot be made.
    """
    origin = source if isinstance(source, QemuName) else QemuName(source)
    to = target if isinstance(target, QemuName) else QemuName(target)
    if into is None:
        # qemu-img would make it readable by everybody, and writes to it for hours.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(to.name, flags, 0o600))
    words = ["-O", QCOW2] if into is None else ["-n", *(["--target-is-zero"] if fresh else []), "-O", into]

    def watch() -> None:
        if stop.is_set():
            raise stopped()
        if to is not target:
            on_bytes(allocated_bytes(to.name))

    words = [*origin.options, *to.options, *words, origin.name, to.name]
    data = origin.data or to.data
    how: dict[str, t.Any] = {"timeout_seconds": _SECONDS, "watch": watch, "on_percent": on_percent}
    answer = run_qemu_img("convert", image_format, *words, data=data, **how)
    what = f"cannot copy {_words(source)} to {_words(target)}"
    if answer.status != 0 and _NO_SPACE in answer.complaint and to is not target:
        raise full(what, os.path.dirname(to.name))
    answer.require(what)


def _words(image: str | QemuName) -> str:
    return image if isinstance(image, str) else image.words


def full(what: str, directory: str, needed_bytes: int | None = None) -> HostError:
    """The error of a directory for backups that has no room left."""
    error = disk_full(what, directory, needed_bytes)
    return HostError(error.what, hint="Free some space there, have fewer backups kept, or choose another directory")


def is_full(error: Exception) -> bool:
    """Whether QEMU's own words in an error are those of a full disk."""
    return _NO_SPACE in str(error)


def same_content(
    backup: str,
    target: str | QemuName,
    image_format: str,
    stop: threading.Event,
    on_percent: OnPercent | None = None,
) -> bool:
    """Whether an image of a backup, and a volume in this format, read the same for a guest.

    on_percent: called with how much of the disk is compared. Raises HostError, StoppedError.
    """

    def watch() -> None:
        if stop.is_set():
            raise stopped()

    other = target if isinstance(target, QemuName) else QemuName(target)
    words = [*other.options, "-F", image_format, backup, other.name]
    how: dict[str, t.Any] = {"timeout_seconds": _SECONDS, "watch": watch, "on_percent": on_percent}
    answer = run_qemu_img("compare", QCOW2, *words, data=other.data, **how)
    if answer.status not in (0, 1):
        raise HostError(f"cannot compare {backup} with {_words(target)}: {answer.complaint}")
    return answer.status == 0


def set_backing(directory: str, file: str, backing: str) -> None:
    """Put an incremental image on top of that of another backup, by name alone: what it holds itself stays as it is.

    directory: that of its backup; file: its name in it; backing: the other backup's name. Raises HostError.
    """
    words = ["-u", "-F", QCOW2, "-b", backing_name(file, backing), f"{directory}/{file}"]
    answer = run_qemu_img("rebase", QCOW2, *words, timeout_seconds=_HEADER_SECONDS)
    answer.require(f"cannot set the backing file of {directory}/{file}")


def move_to_backing(directory: str, file: str, backing: str, stop: threading.Event, on_bytes: OnBytes) -> None:
    """Have an image be backed by that of another backup, and read as before: it takes in what the two differ in.

    directory, file, backing: as of set_backing. Both chains are read, and what is the same in both is not written.
    on_bytes: called with what the file takes of its disk so far. Raises HostError, StoppedError.
    """

    def watch() -> None:
        if stop.is_set():
            raise stopped()
        on_bytes(allocated_bytes(path))

    path = f"{directory}/{file}"
    words = ["-F", QCOW2, "-b", backing_name(file, backing), path]
    answer = run_qemu_img("rebase", QCOW2, *words, timeout_seconds=_SECONDS, watch=watch)
    if _NO_SPACE in answer.complaint:
        raise full(f"cannot write {path}", directory)
    answer.require(f"cannot set the backing file of {path}")


def settle(path: str) -> None:
    """Have a file be its owner's alone, who is that of its directory, and on the disk. Raises OSError.

    On a share where root is another user (root_squash), nothing can be given to root.
    """
    folder = os.stat(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        found = os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (folder.st_uid, folder.st_gid):
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def volume_bytes(volume: QemuName, size_bytes: int) -> int:
    """What a full backup of a volume of a cluster takes at most: what is in it, or its size for the guest."""
    try:
        held = measure_volume(volume.name, RAW, *volume.options, data=volume.data)
    except VirtError:
        return size_bytes
    return min(held, size_bytes)


def chain_bytes(path: str, image_format: str, size_bytes: int) -> int:
    """What a full backup of a disk takes at most: what all files of its chain hold, decompressed, or its size for the
    guest.

    path: of its file, in this format. A device, and what cannot be read, counts as written to from end to end. What
    stands at the beginning of a raw file is the guest's, and leads nowhere.
    """
    total = 0
    for _number in range(_DEEPEST):
        try:
            if not os.path.isfile(path):
                return size_bytes
            total += allocated_bytes(path)
            if image_format != QCOW2:
                break
            with open(path, "rb") as file:
                header = read_header(_reader(file.fileno()))
            if header is None or not header.encrypted:
                # The images of distributions are compressed. What is encrypted never is, and not read without its key.
                total += max(0, measure_layer(path) - allocated_bytes(path))
        except (OSError, BrokenQcow2Error, VirtError):
            return size_bytes
        if header is None or header.backing_file is None:
            break
        path = os.path.join(os.path.dirname(path), header.backing_file)
        image_format = header.backing_format or RAW
    return min(total, size_bytes)


def _reader(descriptor: int) -> t.Callable[[int, int], bytes]:
    return lambda offset, length: os.pread(descriptor, length, offset)
