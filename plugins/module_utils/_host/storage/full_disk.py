# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a disk is free, and the error of a full one: what is full, and how much was needed. No libvirt."""

from __future__ import annotations

import os

from ..._base.errors import HostError
from ..._base.files import file_errors
from ..._model.spec.fields.units import format_size


def free_in(directory: str) -> int:
    """The bytes that are free in a directory now, whatever libvirt knows of it. Raises HostError."""
    with file_errors(f"cannot inspect {directory}"):
        found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def disk_full(what: str, directory: str, needed_bytes: int | None = None, pool: str | None = None) -> HostError:
    """The error of a directory of this machine whose file system is full. what: what could not be done.

    needed_bytes: what it takes at most, None where nobody knows; pool: the storage pool that the directory is.
    """
    try:
        found = os.statvfs(directory)
    except OSError:
        return no_space(what, directory, None, needed_bytes, pool)
    free_bytes = found.f_bavail * found.f_frsize
    if found.f_files and not found.f_favail and free_bytes:
        return HostError(
            f"{what}: {_place(directory, pool)} has no free inode for another file",
            hint="Delete files there, or choose another pool",
        )
    # A volume has its size; what a backup or an image takes at most may be far from what it takes.
    total_bytes = None if pool is None else found.f_blocks * found.f_frsize
    return no_space(what, directory, free_bytes, needed_bytes, pool, total_bytes)


def no_space(
    what: str,
    place: str,
    free_bytes: int | None,
    needed_bytes: int | None = None,
    pool: str | None = None,
    total_bytes: int | None = None,
) -> HostError:
    """The error of a full place, for who knows how much is free there, and how much it holds in all."""
    if total_bytes and needed_bytes is not None and needed_bytes > total_bytes:
        # No file that is deleted would help.
        return HostError(
            f"{what}: {_place(place, pool)} holds {format_size(total_bytes)} in all, "
            f"up to {format_size(needed_bytes)} are needed",
            hint="Choose a larger one, or ask for less",
        )
    figures = []
    if free_bytes is not None:
        figures.append(f"{format_size(free_bytes)} are free")
    if needed_bytes is not None:
        figures.append(f"up to {format_size(needed_bytes)} are needed")
    return HostError(
        f"{what}: {_place(place, pool)} is full" + "".join(f", {figure}" for figure in figures),
        hint="Free some space there, or choose another pool",
    )


def _place(place: str, pool: str | None) -> str:
    return place if pool is None else f"storage pool {pool} ({place})"
