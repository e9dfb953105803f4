# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task knows of one hypervisor, whatever it is about to do there: every question asked once."""

from __future__ import annotations

import contextlib
import functools
import typing as t

from .._base.errors import ConflictError, HostError, NotFoundError, VirtError, one_of_these
from .._base.xml import attribute, etree, read_description
from .._host.connection import VirConnect, libvirt, translate_error, translate_errors
from .._host.facts.networks import (
    check_bridge_vlan,
    check_portgroup,
    observe_bridges,
    observe_networks,
    require_bridge_vlans,
)
from .._host.machines.domains import Domain, list_domains, macs_in_use
from .._host.storage.file_chain import file_id
from .._host.storage.pools import Pool, Pools, SpaceRequest
from .._host.storage.usage import AskElsewhere, Usage
from .._host.storage.volumes import volume_exists, volume_names
from .._model.attachments import nic_source, nic_type
from .._model.xml.disk_source import FILE, NETWORK, RAW, DiskSource, driver_format, noted_format, safest_format


class HypervisorView:
    """One hypervisor for the length of a task. Nothing here changes anything.

    elsewhere: what other hypervisors say of volumes that they may use as well, as in Usage.
    """

    def __init__(self, conn: VirConnect, *, elsewhere: AskElsewhere | None = None) -> None:
        self.conn = conn
        self.elsewhere = elsewhere
        self.pools = Pools(conn)
        self._volumes: dict[str, set[str]] = {}
        # What the plans so far will take of the storage at once.
        self.space_requests: list[SpaceRequest] = []
        # By how much the plans so far grow disks, also where that takes nothing at once. None where it may be more than
        # there is: nobody has chosen this hypervisor by what is free there.
        self.growth: list[SpaceRequest] | None = None

    @functools.cached_property
    def domains(self) -> dict[str, Domain]:
        """All domains as they were when the task began."""
        return list_domains(self.conn)

    @functools.cached_property
    def macs(self) -> dict[str, str]:
        """MAC addresses in use, with their machines; and those that the plans so far give to machines."""
        return macs_in_use(self.domains.values())

    @functools.cached_property
    def _disks(self) -> list[etree._Element]:
        """All disks of all machines, now or at their next start."""
        return [
            disk
            for domain in self.domains.values()
            for xml in _descriptions(domain)
            for disk in xml.iterfind("devices/disk")
        ]

    @functools.cached_property
    def usage(self) -> Usage:
        """Who uses which volume, as it was when somebody first asked. Whoever deletes something looks again."""
        return Usage(self.conn, elsewhere=self.elsewhere)

    @functools.cached_property
    def memory_mib(self) -> int:
        """The hypervisor's own memory."""
        with translate_errors("cannot read the hypervisor's memory"):
            return int(self.conn.getInfo()[1])

    @functools.cached_property
    def _networks(self) -> dict[str, dict[str, t.Any]]:
        return {network["name"]: network for network in observe_networks(self.conn)}

    @functools.cached_property
    def _bridges(self) -> list[str] | None:
        try:
            return observe_bridges(self.conn, self.conn.getURI(), list(self._networks.values()))
        except VirtError:
            # From afar, and without libvirt's interface driver, they cannot be known; libvirt itself will say it.
            return None

    def check_plug(self, kind: str, name: str, where: str, *, here: str = "") -> None:
        """Raise NotFoundError or ConflictError when what a nic is to be plugged into is not there or not up.

        kind, name: the nic's type and source. here: what says where it is not, after a blank. Of type direct, libvirt
        says it when the machine starts; which devices can carry a macvtap is not to be known from afar.
        """
        if kind == "bridge" and self._bridges is not None and name not in self._bridges:
            raise NotFoundError(
                f"there is no bridge {name!r}{here}", where=where, hint=one_of_these(name, self._bridges)
            )
        if kind != "network":
            return
        if name not in self._networks:
            raise NotFoundError(
                f"there is no libvirt network {name!r}{here}", where=where, hint=one_of_these(name, self._networks)
            )
        if not self._networks[name]["active"]:
            raise ConflictError(
                f"libvirt network {name!r} is not active", where=where, hint=f"Start it: virsh net-start {name}"
            )

    def check_interface(self, nic: etree._Element, where: str, *, here: str = "") -> None:
        """Raise when what the nic of a machine is plugged into is not there, not up, or lacks what the nic asks for.

        nic: an <interface> of its XML. where: the place of the machine in the task. here: as in check_plug.
        """
        kind, name = nic_type(nic), nic_source(nic) or ""
        if kind not in ("bridge", "network"):
            return
        self.check_plug(kind, name, where, here=here)
        group = attribute(nic, "source", "portgroup")
        if kind == "network" and group:
            check_portgroup(self.conn, name, group, where)
        if kind == "bridge" and nic.find("vlan/tag") is not None and nic.find("virtualport") is None:
            # From afar nobody can tell whether the bridge looks at VLANs.
            require_bridge_vlans(self.conn, f"the bridge {name}", where)
            check_bridge_vlan(self.conn, name, where)

    def volumes(self, pool: Pool) -> set[str]:
        """The volumes of a pool as they were when the task began."""
        if pool.name not in self._volumes:
            self._volumes[pool.name] = volume_names(pool)
        return self._volumes[pool.name]

    def reserve_volume(self, pool: Pool, volume: str, machine: str) -> str | None:
        """Keep the name of a new volume for a machine; another machine that counts on this name already, if one does.

        That one has it in its notes or its permanent description, whether the volume is there or not, or gets it by
        this same task.
        """
        # Two pools of libvirt may be one pool of a cluster.
        names = ((pool.name, volume), pool.source_of(volume).place)
        users = [self._machines_by_volume.setdefault(name, set()) for name in names]
        others = sorted(set().union(*users) - {machine})
        if not others:
            for known in users:
                known.add(machine)
        return others[0] if others else None

    @functools.cached_property
    def _machines_by_volume(self) -> dict[t.Hashable, set[str]]:
        """The machines by what their notes list, which is pool and name, and by what their definitions have as disks,
        which may also be a place."""
        users: dict[t.Hashable, set[str]] = {}
        # Of others libvirt would have to be asked for each volume.
        pools = {pool.name: pool for pool in self._all_pools if pool.network is not None or pool.makes_named_volumes}
        for domain in self.domains.values():
            notes = domain.notes.volumes if domain.notes else ()
            noted: list[t.Hashable] = [(note.pool, note.name) for note in notes]
            noted += [pools[note.pool].source_of(note.name).place for note in notes if note.pool in pools]
            for volume in [*noted, *map(_place, domain.xml.iterfind("devices/disk"))]:
                users.setdefault(volume, set()).add(domain.name)
        return users

    def locate(self, source: DiskSource) -> tuple[Pool, str] | None:
        """The pool and the name of the volume at a place; None when no active pool has one there.

        The one way from a place to a volume. (Only listings, which may ask nothing for a single disk, go by folders.)
        """
        for known in self._all_pools:
            name = known.name_at(source)
            if not name:
                continue
            # One that was stopped or undefined since the task began has nothing any more.
            with contextlib.suppress(ConflictError, NotFoundError):
                # By its name it is asked of a pool that has been looked at again.
                pool = self.pools.get(known.name)
                if volume_exists(pool, name):
                    return pool, name
        if source.type == NETWORK:
            return None
        # In a folder below that of a pool, or a device, which has many paths.
        try:
            with translate_errors(f"cannot look up a volume {source.path}"):
                handle = self.conn.storageVolLookupByPath(source.path)
                return self.pools.get(handle.storagePoolLookupByVolume().name()), handle.name()
        except NotFoundError:
            return None

    def volume_of(self, disk: etree._Element) -> tuple[Pool, str] | None:
        """The pool and the name of the volume of a ``<disk>``, by its path or as the definition names them; None for
        an empty drive, for network storage, and as in locate.

        Raises NotFoundError or ConflictError for a pool that is named there, and is not defined or not active.
        """
        source, found = disk.find("source"), DiskSource.read(disk)
        if found is not None:
            return self.locate(found) if found.path else None
        if source is not None and source.get("pool") and source.get("volume"):
            return self.pools.get(source.get("pool", "")), source.get("volume", "")
        return None

    @functools.cached_property
    def _all_pools(self) -> list[Pool]:
        return self.pools.all()

    def recorded_format(self, pool: Pool, volume: str) -> str | None:
        """The format of a volume by the machines that have it as a disk, else by our notes; None when nobody knows."""
        if pool.source_type != FILE:
            return RAW
        key, place = (pool.name, volume), pool.volume_path(volume)
        by_machine = [self._disk_formats.get(one) for one in (key, place, self._file_at(place)) if one is not None]
        return safest_format(filter(None, by_machine)) or self._noted_formats.get(key)

    @functools.cached_property
    def _disk_formats(self) -> dict[t.Hashable, str]:
        """What machines open their disks as, now or at their next start, by place, by file, or by pool and volume."""
        formats_by_place: dict[t.Hashable, list[str]] = {}
        for disk in self._disks:
            place = _place(disk)
            for one in dict.fromkeys((place, self._file_at(self._path_of(place)))):
                formats_by_place.setdefault(one, []).append(driver_format(disk))
        return {place: safest_format(formats) or RAW for place, formats in formats_by_place.items()}

    def _path_of(self, place: t.Hashable) -> str | None:
        """The path of a volume that a disk has by its pool, and that of any other disk."""
        if not isinstance(place, tuple):
            return None if place is None else str(place)
        pool = next((known for known in self._all_pools if known.name == place[0]), None)
        return pool.volume_path(place[1]) if pool is not None and pool.makes_named_volumes and place[1] else None

    def _file_at(self, path: str | None) -> t.Hashable:
        """What is the same for all paths that lead to one file of this machine; None where that cannot be told."""
        return file_id(path) if path is not None and path.startswith("/") and self.pools.local else None

    @functools.cached_property
    def _noted_formats(self) -> dict[tuple[str, str], str]:
        formats_by_place: dict[tuple[str, str], list[str]] = {}
        for domain in self.domains.values():
            for note in domain.notes.volumes if domain.notes else ():
                known = noted_format(note)
                if known:
                    formats_by_place.setdefault((note.pool, note.name), []).append(known)
        return {volume: safest_format(formats) or RAW for volume, formats in formats_by_place.items()}


def _place(disk: etree._Element) -> t.Hashable:
    source, found = disk.find("source"), DiskSource.read(disk)
    if found is None and source is not None:
        return source.get("pool"), source.get("volume")
    return found.place if found else None


def _descriptions(domain: Domain) -> list[etree._Element]:
    """A machine for its next start, and as it runs."""
    if not domain.active:
        return [domain.xml]
    try:
        return [domain.xml, read_description(f"machine {domain.name}", domain.handle.XMLDesc(0))]
    except HostError:
        # Whose it is and why, the usage says, which takes it for one that may use anything.
        return [domain.xml]
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return [domain.xml]
        raise translate_error(exc, f"cannot inspect machine {domain.name}") from exc
