# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image file on a local file system is, and whether it is whole. No libvirt."""

from __future__ import annotations

import json
import os
import stat
import typing as t
from dataclasses import dataclass

from ..._base.errors import HostError, InputError
from ..._base.qemu_img import QCOW2, complaint_of, run_qemu_img
from ..._model.image.checksum import Checksum
from ..._model.image.header import HEADER_BYTES, check_image_header, require_whole
from ..._model.image.name import PRIVATE_MODE, STORED_MODE
from ..._model.image.provenance import Provenance
from .files import disk_errors, hash_file
from .provenance import can_have_provenance, keep_provenance, load_provenance

_INSPECTION_SECONDS = 120
# Of the tables of a whole image; of a large one these are some hundred MiB.
_CHECK_SECONDS = 900


@dataclass(frozen=True)
class Inspection:
    """What an image file is."""

    format: str
    virtual_size_bytes: int


def require_file(path: str, where: str | None = None) -> None:
    """Raises InputError unless there is a plain file at the path."""
    if not os.path.isfile(path):
        raise InputError(f"{path} is not a file" if os.path.exists(path) else f"there is no file {path}", where=where)


def read_header(path: str) -> tuple[bytes, int]:
    """The first bytes of a file for check_image_header, and its size."""
    with disk_errors(f"cannot read {path}"), open(path, "rb") as source:
        return source.read(HEADER_BYTES), os.fstat(source.fileno()).st_size


def inspect_file(path: str, what: str, where: str | None = None) -> Inspection:
    """What an image file is, by its own bytes and then by qemu-img, and that it is whole. what: the file, in words,
    for complaints.

    Raises InputError for what cannot be stored, UnsupportedError without qemu-img, HostError when it fails.
    """
    image_format = check_image_header(*read_header(path), what, where)
    require_whole_file(path, what, where)
    info = _qemu_img_info(path, image_format, what)
    # check_image_header has seen these in the header. qemu-img has the last word on what it would open.
    details = info.get("format-specific", {}).get("data", {})
    if info.get("backing-filename") or info.get("encrypted") or details.get("data-file"):
        raise InputError(f"{what} depends on other files, or is encrypted", where=where)
    if details.get("corrupt"):
        raise InputError(f"{what} is marked as corrupt", where=where, hint="Check it with qemu-img check")
    complaint = complaint_of(os.path.abspath(path), timeout_seconds=_CHECK_SECONDS) if image_format == QCOW2 else None
    if complaint is not None:
        raise InputError(
            f"{what} is damaged, according to qemu-img check: {complaint.words}",
            where=where,
            hint="Download it again, and give its checksum",
        )
    return Inspection(image_format, int(info["virtual-size"]))


def require_whole_file(path: str, what: str, where: str | None = None) -> None:
    """Raises InputError for an image file whose own tables say that it goes on behind its end."""
    with disk_errors(f"cannot read {path}"), open(path, "rb") as file:
        fd = file.fileno()
        require_whole(lambda offset, length: os.pread(fd, length, offset), os.fstat(fd).st_size, what, where)


def _qemu_img_info(path: str, image_format: str, what: str) -> dict[str, t.Any]:
    arguments = ("--output", "json", os.path.abspath(path))
    answer = run_qemu_img("info", image_format, *arguments, timeout_seconds=_INSPECTION_SECONDS)
    return dict(json.loads(answer.require(f"qemu-img cannot read {what}").text))


def is_brought(path: str, name_digest: str, *, read_only: bool) -> bool:
    """Whether a file is the image that its name says, and not something of somebody's that only has such a name.

    It is when it has a provenance; where the file system has no place for that, the mode of a stored image says so,
    which elsewhere is any dump's that its owner has made read-only. Others, such as what a move has sent, are read, and
    unless read_only the result is kept with it. name_digest: as for read_provenance. What is not there is no file of
    anybody's; what cannot be read may be.
    """
    if load_provenance(path, name_digest) != Provenance():
        return True
    try:
        if not can_have_provenance(path) and stat.S_IMODE(os.stat(path).st_mode) in (STORED_MODE, PRIVATE_MODE):
            return True
        content = hash_file(path)
    except FileNotFoundError:
        return True
    except (OSError, HostError):
        return False
    fits = content.sha256.startswith(name_digest)
    if fits and not read_only:
        keep_provenance(path, Provenance((Checksum("sha256", content.sha256),)))
    return fits
