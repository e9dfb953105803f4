# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task knows of one hypervisor, whatever it is about to do there: every question asked once."""

from __future__ import annotations

import functools

from ansible_collections.brine.virt.plugins.module_utils._errors import NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, errors_as_ours
from ansible_collections.brine.virt.plugins.module_utils._host.domains import (
    Domain,
    list_domains,
    macs_in_use,
    paths_in_use,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage_pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.volume_facts import Volume, find_volume
from ansible_collections.brine.virt.plugins.module_utils._host.volume_use import Usage
from ansible_collections.brine.virt.plugins.module_utils._host.volumes import volume_names
from ansible_collections.brine.virt.plugins.module_utils._model.room import RoomWish


class Side:
    """One hypervisor for the length of a task. Nothing here changes anything."""

    def __init__(self, conn: VirConnect) -> None:
        self.conn = conn
        self.pools = Pools(conn)
        self._volumes: dict[str, set[str]] = {}
        # What the plans so far will take of the storage at once.
        self.room_wishes: list[RoomWish] = []

    @functools.cached_property
    def domains(self) -> dict[str, Domain]:
        """All domains as they were when the task began."""
        return list_domains(self.conn)

    @functools.cached_property
    def macs(self) -> dict[str, str]:
        """MAC addresses in use, with their machines."""
        return macs_in_use(self.domains.values())

    @functools.cached_property
    def paths(self) -> dict[str, str]:
        """Disk paths in use, with a machine for each."""
        return paths_in_use(self.domains.values())

    @functools.cached_property
    def written_paths(self) -> dict[str, str]:
        """Disk paths that machines may write to, with a machine for each."""
        return paths_in_use(self.domains.values(), writing=True)

    @functools.cached_property
    def usage(self) -> Usage:
        """Who uses which volume, as it was when somebody first asked. Whoever deletes something looks again."""
        return Usage(self.conn)

    @functools.cached_property
    def memory_mib(self) -> int:
        """The hypervisor's own memory."""
        with errors_as_ours("cannot read the hypervisor's memory"):
            return int(self.conn.getInfo()[1])

    def volumes(self, pool: Pool) -> set[str]:
        """The volumes of a pool as they were when the task began."""
        if pool.name not in self._volumes:
            self._volumes[pool.name] = volume_names(pool)
        return self._volumes[pool.name]

    def volume_at(self, path: str) -> tuple[Pool, Volume] | None:
        """The volume at a path with its pool, whichever that is; None when libvirt knows none."""
        try:
            with errors_as_ours(f"cannot look for a volume {path}"):
                handle = self.conn.storageVolLookupByPath(path)
                name, pool = handle.name(), self.pools.get(handle.storagePoolLookupByVolume().name())
        except NotFoundError:
            return None
        found = find_volume(pool, name)
        return None if found is None else (pool, found)
