# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a new volume is called, and what is to tell it from others of its name."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor


def mark_for(pool: Pool, volume: str, own: Sequence[VolumeNote]) -> str:
    """What is to tell a new volume from others of its name.

    It is that of the one that it replaces: whenever this run is killed, the notes know the one that is there.
    """
    marks = (v.making.mark for v in own if v.making and (v.pool, v.name) == (pool.name, volume))
    return next(marks, None) or uuid.uuid4().hex


def free_name(
    volume: str, machine: str, pool: Pool, hypervisor: Hypervisor, where: str, own: Sequence[VolumeNote] = ()
) -> str:
    """The volume's name, if no volume has it but one that an unfinished run of this same machine made.

    Nor may another machine count on it: the names of different machines and disks can come to the same (disk ``b-c`` of
    ``a`` and disk ``c`` of ``a-b``), and the other one's volume may not be made yet.
    """
    there = volume in hypervisor.volumes(pool)
    ours = any(v.pool == pool.name and v.name == volume for v in own)
    if there and not ours:
        raise ConflictError(
            f"pool {pool.name!r} has a volume {volume!r} already, which belongs to no machine of this name",
            where=where,
            hint=f"Use it as it is with source: {volume}, or if nobody needs it: "
            f"virsh vol-delete {volume} --pool {pool.name}",
        )
    other = hypervisor.reserve_volume(pool, volume, machine)
    # Who uses a volume that is to be cleared is looked at there.
    if other is not None and not (there and ours):
        raise ConflictError(
            f"the name of volume {volume!r} in pool {pool.name!r} is reserved for machine {other}",
            where=where,
            hint="Choose another name here, or another pool",
        )
    return volume
