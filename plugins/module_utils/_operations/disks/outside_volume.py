# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that a task names and that was not made for the machine: what it is, and whether its bytes lead elsewhere.

Somebody may have written these bytes on purpose. What a machine or our notes say of the volume counts; where nobody
says anything, it is looked into as an image is on its way into the store.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex

from ..._base.errors import ConflictError, NotFoundError, one_of_these
from ..._host.storage.pools import Pool
from ..._host.storage.proof import unfinished_of
from ..._host.storage.volume_bytes import read_volume
from ..._host.storage.volume_facts import Volume, find_volume
from ..._model.image.header import unusable_format
from ..._model.image.marks import MARK_BYTES, read_upload
from ..._model.image.qcow2 import BrokenQcow2Error, Header, read_header
from ..._model.xml.disk_source import FILE, QCOW2, RAW, DiskSource, format_by_name
from ..hypervisor import Hypervisor
from .sharing import writer_of

# No chain of overlays that people make is as long.
_LONGEST_CHAIN = 64
# A disk that a guest has encrypted as a whole; to the machine it is raw.
_LUKS = "luks"


def outside_volume(pool: Pool, name: str, requested: str | None, hypervisor: Hypervisor, where: str) -> Volume:
    """The volume with the format that a machine has it in.

    requested: the format that the task names. Raises NotFoundError; ConflictError where that contradicts what is
    known, where the volume's name and its bytes contradict each other, where it leads to a file that is no volume of a
    pool, and where it is not whole yet.
    """
    recorded = hypervisor.recorded_format(pool, name)
    found = find_volume(pool, name, where, image_format=recorded or requested or RAW)
    if found is None:
        raise NotFoundError(
            f"pool {pool.name!r} has no volume {name!r}", where=where, hint=one_of_these(name, hypervisor.volumes(pool))
        )
    if recorded is not None and requested not in (None, recorded):
        raise ConflictError(
            f"volume {name} is of format {recorded}, the task asks for {requested}",
            where=where,
            hint="Leave format out",
        )
    if recorded is None and found.source.type != FILE and requested == QCOW2:
        raise ConflictError(f"volume {name} is a device, whose format is raw", where=where)
    if recorded is None:
        _require_filled(pool, found, where)
    if recorded is None and requested is None:
        found = _by_name_and_bytes(pool, found, where)
    if found.format == QCOW2 and found.looks_like != QCOW2:
        raise ConflictError(f"volume {name} should be qcow2, but looks like {found.looks_like}", where=where)
    if recorded is None and found.format == QCOW2:
        require_own_chain(pool, found, hypervisor, where)
    return found


def _require_filled(pool: Pool, volume: Volume, where: str) -> None:
    """Raise ConflictError for a volume that virt_volume or virt_restore has begun to fill: its content would go on
    coming, or never does."""
    read = read_volume(pool, volume) if volume.looks_like == RAW else None
    upload = read_upload(read(0, MARK_BYTES)) if read is not None else None
    upload = upload or unfinished_of(pool, volume.name)
    if upload is not None:
        raise ConflictError(
            f"volume {volume.name} of pool {pool.name} is incomplete: process {upload.pid} of host {upload.host} sends "
            "its content, or was interrupted",
            where=where,
            hint="Wait for it to end, or run the task with virt_volume or virt_restore again",
        )


def _by_name_and_bytes(pool: Pool, volume: Volume, where: str) -> Volume:
    """Nobody knows the volume. What its name promises and what its bytes say have to be the same."""
    seen = RAW if volume.looks_like == _LUKS else volume.looks_like
    named_format = format_by_name(volume.name)
    if named_format is not None and named_format != seen:
        raise ConflictError(
            f"volume {volume.name} of pool {pool.name} is {named_format} by its name, and looks like {seen} by "
            "its first bytes",
            where=where,
            hint=f"If it was a machine's raw disk, its guest may have written them. Choose with format: {RAW}"
            f" or format: {QCOW2}",
        )
    if seen not in (RAW, QCOW2):
        error = unusable_format(f"volume {volume.name}", seen, where)
        raise ConflictError(error.what, where=where, hint=f"{error.hint}; or set format: {RAW}")
    if seen == RAW:
        return volume
    header = _header(pool, volume, where)
    if named_format is None and header is not None and header.backing_file is not None:
        raise ConflictError(
            f"volume {volume.name} of pool {pool.name} looks like an overlay on {header.backing_file}",
            where=where,
            hint=f"If it is one, set format: {QCOW2}; if it was a machine's raw disk, set format: {RAW}",
        )
    return find_volume(pool, volume.name, where, image_format=QCOW2) or volume


def _header(pool: Pool, volume: Volume, where: str) -> Header | None:
    """The qcow2 header of a volume that looks like one; None where its bytes cannot be had."""
    read = read_volume(pool, volume)
    if read is None:
        return None
    try:
        return read_header(read)
    except BrokenQcow2Error as exc:
        raise ConflictError(f"volume {volume.name} is a broken qcow2 image: {exc}", where=where) from exc


def require_own_chain(pool: Pool, volume: Volume, hypervisor: Hypervisor, where: str) -> None:
    """Raise ConflictError unless all that QEMU would open for the volume is volumes of pools that nobody writes to."""
    for _link in range(_LONGEST_CHAIN):
        header = _header(pool, volume, where)
        if header is not None:
            _check_header(header, volume, where)
        backing, backing_format = volume.backing_path, volume.backing_format
        if header is not None:
            backing, backing_format = header.backing_file, header.backing_format
        if backing is None:
            return
        place = _locate(backing, volume, hypervisor, local=pool.local)
        if place is None:
            raise ConflictError(
                f"volume {volume.name} is backed by {backing}, which is not a volume of a storage pool here",
                where=where,
                hint="Whoever wrote its first bytes chose that file. If that is intended, put it into a pool; if the "
                "volume was a machine's raw disk, set format: raw",
            )
        pool, name = place
        if backing_format not in (RAW, QCOW2):
            raise ConflictError(
                f"volume {volume.name} does not record the format of {backing}, which it is backed by",
                where=where,
                hint=f"qemu-img rebase -u -f qcow2 -F FORMAT -b {shlex.join([backing, volume.path])}",
            )
        below = find_volume(pool, name, where, image_format=backing_format)
        writer = writer_of(pool, name, hypervisor) if below else None
        if below is None or writer:
            raise ConflictError(
                f"volume {volume.name} is backed by volume {name} of pool {pool.name}"
                + (f", and {writer} that" if writer else ", which is not there"),
                where=where,
            )
        known = hypervisor.recorded_format(pool, name)
        if known not in (None, backing_format):
            raise ConflictError(
                f"volume {volume.name} is backed by {name} as {backing_format}, but that volume is {known}",
                where=where,
            )
        if backing_format == RAW:
            return
        volume = below
    raise ConflictError(f"the backing chain of volume {volume.name} does not end", where=where)


def _check_header(header: Header, volume: Volume, where: str) -> None:
    for wrong, what in (
        (header.data_file, "has its data in another file"),
        (header.encrypted, "is encrypted"),
        (header.unknown_features, "has unknown features"),
    ):
        if wrong:
            raise ConflictError(
                f"volume {volume.name} is a qcow2 image that {what}",
                where=where,
                hint="If it was a machine's raw disk, set format: raw; if not, flatten it first: "
                "qemu-img convert -f qcow2 -O qcow2 FILE WHOLE_FILE",
            )


def _locate(backing: str, volume: Volume, hypervisor: Hypervisor, *, local: bool) -> tuple[Pool, str] | None:
    """The volume that the name of a backing file means; None for everything else, such as ``nbd:`` and ``json:``."""
    if ":" in backing.partition("/")[0]:
        return None
    joined = posixpath.join(posixpath.dirname(volume.path), backing)
    path = posixpath.normpath(joined)
    with contextlib.suppress(OSError, ValueError):
        # Behind a symbolic link ".." leads elsewhere than it seems.
        if local and os.path.realpath(joined) != os.path.realpath(path):
            return None
    return hypervisor.locate(DiskSource(FILE, path))
