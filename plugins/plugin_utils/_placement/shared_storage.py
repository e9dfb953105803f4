# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that several hypervisors share: which of their pools are the same, and what a run takes there."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

# Storages of these kinds are said as KIND SERVERS/NAME: any of a cluster's servers lead to it.
_CLUSTERS = frozenset({"rbd", "gluster", "sheepdog"})


def group_storages(storages: Iterable[str]) -> dict[str, str]:
    """For each storage, as virt_host_info has it in ``shared_storage`` of a pool, one name for all that are the same.

    One hypervisor may name other servers of a cluster than the next: lists that have a server in common are of one
    cluster, others of two. A list without servers is of the only cluster that is known; of several, of none of them.
    """
    servers_of: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
    found: dict[str, str] = {}
    for storage in sorted(set(storages)):
        kind, _blank, rest = storage.partition(" ")
        if kind in _CLUSTERS:
            servers, _slash, name = rest.partition("/")
            servers_of.setdefault((kind, name), {})[storage] = frozenset(filter(None, servers.split(",")))
        else:
            found[storage] = storage
    for known in servers_of.values():
        found.update(_same_clusters(known))
    return found


def _same_clusters(servers_of: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """By storage, the name of its cluster, which is that of the first of its storages."""
    clusters: list[set[str]] = []
    for storage, servers in servers_of.items():
        if servers:
            met = [one for one in clusters if any(not servers.isdisjoint(servers_of[other]) for other in one)]
            clusters = [one for one in clusters if one not in met]
            clusters.append({storage}.union(*met))
    found = {storage: min(cluster) for cluster in clusters for storage in cluster}
    only = min(clusters[0]) if len(clusters) == 1 else None
    return {storage: found.get(storage) or only or storage for storage in servers_of}


class SharedStorage:
    """What the machines of a run take of the storage that hypervisors share: one count for all of them.

    taken_mib: by the storage's name. images: storage and volume of the images that are in a store there. coming: by
    storage and volume, the machine that an image comes with.
    """

    def __init__(self, facts: Iterable[Mapping[str, t.Any]] = ()) -> None:
        """facts: of all hypervisors that take part."""
        known = list(facts)
        self._names = group_storages(
            pool["shared_storage"] for one in known for pool in one["pools"] if pool.get("shared_storage")
        )
        self.taken_mib: dict[str, int] = {}
        self.coming: dict[tuple[str, str], str] = {}
        self.images: set[tuple[str, str]] = set()
        for one in known:
            storages = {pool["name"]: self.name_of(pool) for pool in one["pools"]}
            for image in one.get("images") or []:
                storage = storages.get(image.get("pool") or "images")
                if storage is not None:
                    self.images.add((storage, image["volume"]))

    def name_of(self, pool: Mapping[str, t.Any] | None) -> str | None:
        """The storage behind a pool of a hypervisor, by its one name; None for what is not known to be shared."""
        shared = (pool or {}).get("shared_storage")
        return None if shared is None else self._names.get(shared, shared)

    def has_image(self, storage: str | None, volume: str) -> bool:
        """Whether an image is in this storage, or comes there with a machine of this run."""
        return storage is not None and ((storage, volume) in self.images or (storage, volume) in self.coming)
