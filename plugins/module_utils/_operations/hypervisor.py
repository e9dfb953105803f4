# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task knows of its hypervisor: every question asked once, however many machines there are."""

from __future__ import annotations

import functools
import typing as t

from .._base.errors import ConflictError, NotFoundError
from .._host.connection import VirConnect
from .._host.facts.guest_platform import GuestPlatforms
from .._host.facts.networks import check_bridge_vlan, check_portgroup
from .._host.images.listing import StoredImage, find_image_in
from .._host.storage.pools import Pool
from .._host.storage.shared_pools import shared_because
from .._host.storage.usage import AskElsewhere, PoolVolume
from .._model.spec.fields.table import Values
from .._model.spec.machine import Nic
from .hypervisor_view import HypervisorView
from .shared_volumes.volume import SharedVolume, WantedVolume, shared_volume
from .task_volumes import TaskVolumes


class Hypervisor(HypervisorView):
    """A hypervisor that machines are made and changed on.

    offered: images by the names that specs have for them, as virt_image returned them. In check mode one of them
    counts as stored even if virt_image only said that it would store it. default_cpu, default_machine_type: for new
    machines that do not say what they have. claims: the UUIDs of the claims that this run has here, by the names of the
    machines. left_elsewhere: what all other hypervisors say of volumes in pools that they may see as well, which
    interrupted runs have left or disks are to write to; None when they were not asked.
    """

    def __init__(
        self,
        conn: VirConnect,
        *,
        image_pool: str,
        offered: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
        check_mode: bool = False,
        default_cpu: Values | None = None,
        default_machine_type: str | None = None,
        claims: t.Mapping[str, str] | None = None,
        left_elsewhere: AskElsewhere | None = None,
    ) -> None:
        super().__init__(conn)
        # Where images will be that this task brings into pools which clone them.
        self.images_coming: set[str] = set()
        # What the plans so far use of the volumes that are there.
        self.task_volumes = TaskVolumes()
        self.left_elsewhere = left_elsewhere
        # Of these, only the other hypervisors can say who uses them; and what is in the way as long as they have not.
        self.to_ask: list[SharedVolume] = []
        self.unasked: list[ConflictError] = []
        # What the plans so far use of the volumes that are there, and that other hypervisors may see as well.
        self.wanted: list[WantedVolume] = []
        self._shared: dict[str, bool] = {}
        self.claims = claims or {}
        self.image_pool = image_pool
        self._offered = offered or {}
        self._check_mode = check_mode
        self._default_cpu = default_cpu
        self._default_machine_type = default_machine_type
        self._images: dict[str, StoredImage] = {}

    @functools.cached_property
    def guests(self) -> GuestPlatforms:
        """What guests can be here."""
        return GuestPlatforms(self.conn, self._default_cpu, self._default_machine_type)

    def ask_about(self, volumes: t.Iterable[PoolVolume]) -> bool:
        """Note which of these volumes, which are there, the other hypervisors are to be asked about; whether any is."""
        found = [one for one in (shared_volume(pool, volume) for pool, volume in volumes) if one is not None]
        self.to_ask += [one for one in found if one not in self.to_ask]
        return bool(found)

    def want(self, pool: Pool, volume: str, how: str, machine: str, where: str) -> None:
        """Note a use of a volume that other hypervisors may see, whose tasks may want it at the same time.

        how: as in task_volumes. where: the place of the disk in the input.
        """
        if pool.name not in self._shared:
            self._shared[pool.name] = shared_because(pool) is not None
        found = shared_volume(pool, volume) if self._shared[pool.name] else None
        if found is not None:
            self.wanted.append(WantedVolume(found, how, machine, where))

    def image(self, name: str) -> StoredImage:
        """An image of the store, looked up once."""
        if name not in self._images:
            self._images[name] = self._find_image(name)
        return self._images[name]

    def _find_image(self, name: str) -> StoredImage:
        pool, offer = self.pools.get(self.image_pool), self._offered.get(name)
        try:
            return find_image_in(pool, (offer or {}).get("volume") or name)
        except NotFoundError:
            if offer is None or not self._check_mode:
                raise
            return _to_be_stored(name, offer, pool)

    def check_nic(self, nic: Nic) -> None:
        """Raise when what the nic is to be plugged into is not there, not up, or cannot do what the nic asks for."""
        self.check_plug(nic.type, nic.source, nic.given.at("source"), here=" on this hypervisor")
        if nic.type == "bridge" and nic.options.get("vlan") and "virtualport" not in nic.options:
            check_bridge_vlan(self.conn, nic.source, nic.given.at("vlan"))
        if nic.type == "network" and "portgroup" in nic.options:
            check_portgroup(self.conn, nic.source, nic.options["portgroup"], nic.given.at("portgroup"))


def _to_be_stored(name: str, offer: t.Mapping[str, t.Any], pool: Pool) -> StoredImage:
    """An image that virt_image said, in check mode, that it would store; what it could not know is zero or empty."""
    return StoredImage(
        name=offer.get("name") or name,
        volume=offer.get("volume") or name,
        pool=pool.name,
        path=pool.volume_path(offer.get("volume") or name),
        format=offer.get("format") or "qcow2",
        virtual_size_bytes=offer.get("virtual_size_bytes") or 0,
        digest="",
    )
