# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is there, in the format that somebody answers for.

Its own first bytes are a guest's where the disk is raw: they may say how it looks, never what is done to it.
"""

from __future__ import annotations

import typing as t

from ..._base.errors import ConflictError
from ..._host.storage.pools import Pool
from ..._host.storage.volume_facts import Volume, find_volume
from ..._model.spec.resources.volume import VolumeSpec
from ..._model.xml.disk_source import QCOW2, RAW, format_by_name
from ..hypervisor_view import HypervisorView
from .task import VolumeTask, shown

# What is encrypted as a whole is a raw disk to who has it, and all bytes of it are its own.
_LOOKS_RAW = (RAW, "luks")


def find(
    view: HypervisorView, pool: Pool, name: str, where: str | None = None, *, requested: str | None = None
) -> Volume | None:
    """A volume by the format that machines have it in, else by the one that the task asks for, else by the ending of
    its name; None when it is not there.

    requested: the format that the task names, or that of its content. What looks raw is raw: nobody who had it in
    another format can have made it look so. Where nobody says anything, the format is what it looks like, and
    require_known_format tells.
    """
    recorded = view.recorded_format(pool, name)
    found = find_volume(pool, name, where, image_format=recorded or RAW)
    if found is None or recorded is not None or found.looks_like in _LOOKS_RAW:
        return found
    if (requested or format_by_name(name)) == RAW:
        return found
    # What does not look like the format that it should have is not of that format.
    return find_volume(pool, name, where, image_format=found.looks_like)


def look_again(spec: VolumeSpec, task: VolumeTask) -> dict[str, t.Any] | None:
    """What a volume is now, in the words of the module's result; None where it is not there."""
    view = task.look()
    pool = view.pools.get(spec.pool)
    found = find(view, pool, spec.name, requested=spec.disk_format)
    return None if found is None else shown(pool, found)


def require_known_format(view: HypervisorView, pool: Pool, volume: Volume, named: str | None, where: str) -> None:
    """Raise ConflictError for a volume of which only its own first bytes say the format, so that its size is not known
    either. named: the format that the task names; where: the place of that."""
    if volume.format == RAW or is_known(view, pool, volume, named) or format_by_name(volume.name) == volume.format:
        return
    raise ConflictError(
        f"volume {volume.name} of pool {pool.name} looks like {volume.format} by its first bytes, which a guest may "
        "have written, and nothing else says its format, so that its size is not changed",
        where=where,
        hint=f"Set format: {QCOW2} or format: {RAW}",
    )


def is_known(view: HypervisorView, pool: Pool, volume: Volume, named: str | None) -> bool:
    """Whether the task itself or a machine says the format that a volume is taken for."""
    return volume.format in (named, view.recorded_format(pool, volume.name))
