# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a Ceph cluster that a machine writes to, and what is noted while a snapshot of them is taken."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, UnsupportedError
from ..._base.xml import attribute, etree
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.snapshots import KnownSnapshot
from ..._host.storage.ceph import has_bindings, require_bindings
from ..._host.storage.cluster.opened import PoolVolume
from ..._host.storage.cluster.record import cluster_name, snapshot_of
from ..._host.storage.cluster.snapshots import names_of, remove
from ..._host.storage.pools import Pool, Pools
from ..._model.attachments import disk_source, written_disks, written_places
from ..._model.metadata.snapshots import WORK_NAMESPACE, WORK_PREFIX, SnapshotWork, read_set_aside, work_to_bare_xml
from ..._model.xml.disk_source import DiskSource
from .view import SnapshotView


def uuid_of(machine: SnapshotView) -> str:
    """The machine's UUID."""
    return machine.defined.findtext("uuid") or ""


def name_in_cluster(machine: SnapshotView, snapshot: str) -> str:
    """The name that a snapshot of the machine has in the cluster."""
    return cluster_name(uuid_of(machine), snapshot)


def cluster_volumes(conn: VirConnect, domain: etree._Element, *, any_monitors: bool = False) -> list[PoolVolume]:
    """The volumes that a ``<domain>`` writes to, all of which are in pools of Ceph clusters. any_monitors: also where
    no pool names one of theirs.

    Raises UnsupportedError for a disk that is in none of the hypervisor's, and where they cannot be reached without
    libvirt.
    """
    pools = _pools(conn)
    found = []
    for target, disk in written_disks(domain).items():
        volume = _volume(pools, disk) or (_volume(pools, disk, any_monitors=True) if any_monitors else None)
        if volume is None:
            raise UnsupportedError(
                f"its disk {target} ({disk_source(disk)}) is in no active storage pool of type rbd of this hypervisor, "
                "by which its Ceph cluster could be reached",
                hint="Start or define that pool first (virt_pool), and run this on the hypervisor",
            )
        require_bindings(volume[0])
        found.append(volume)
    return found


def volumes_of_snapshot(conn: VirConnect, snapshot: KnownSnapshot) -> list[PoolVolume]:
    """The volumes that a snapshot was taken of; none for one without the machine's description."""
    if snapshot.facts.domain is None:
        return []
    # The monitors may have been replaced since then; that a volume has the snapshot tells that it is the one.
    return cluster_volumes(conn, snapshot.facts.domain, any_monitors=True)


def require_same_disks_now(machine: SnapshotView) -> None:
    """Raise ConflictError when a machine that runs has other disks than it will have after its next start."""
    if written_places(machine.xml) != written_places(machine.defined):
        raise ConflictError(
            "it has other disks while it runs than in its permanent definition, which a revert would bring back",
            hint="Attach or detach them in both, or shut it down first",
        )


def note_begin(handle: t.Any, work: SnapshotWork, *, live: bool = False) -> None:
    """Note in a machine's permanent definition what is about to be done: that the cluster takes a snapshot that libvirt
    does not know yet, of which the next run then knows that it is of no use; that QEMU goes over to files that libvirt
    has not written down yet; or that files are merged, or disks are reverted one after the other. handle: libvirt's.
    live: in its running description as well.
    """
    _write(handle, work_to_bare_xml(work), live)


def forget(handle: t.Any, *, live: bool = False) -> None:
    """The end of note_begin: all is done, or nothing has begun."""
    _write(handle, None, live)


def _write(handle: t.Any, text: str | None, live: bool) -> None:
    with translate_errors(f"cannot write the metadata of machine {handle.name()}"):
        flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        if live and handle.isActive():
            flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
        handle.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, WORK_PREFIX, WORK_NAMESPACE, flags)


def clear_half_taken(conn: VirConnect, machine: SnapshotView, snapshot: str) -> None:
    """Delete what a run has left in the cluster that was killed while it took a snapshot. One that libvirt knows is
    whole, and stays; so does one that somebody has cloned."""
    if machine.find(snapshot) is None and is_in_cluster(machine.defined):
        with contextlib.suppress(ConflictError):
            remove(cluster_volumes(conn, machine.defined), name_in_cluster(machine, snapshot))
    forget(machine.power.handle)


def is_in_cluster(domain: etree._Element) -> bool:
    """Whether a machine writes to a disk in a Ceph cluster."""
    return any(attribute(disk, "source", "protocol") == "rbd" for disk in written_disks(domain).values())


def undescribed(conn: VirConnect, machine: SnapshotView) -> dict[str, list[PoolVolume]]:
    """What a killed run, or somebody's hand, has left in the cluster: snapshots of this machine that libvirt knows
    nothing of, each with the volumes to delete it from. Nothing for a machine that has no disk there."""
    disks = [disk for domain in (machine.defined, machine.xml) for disk in written_disks(domain).values()]
    disks = [disk for disk in disks if attribute(disk, "source", "protocol") == "rbd"]
    pools = _pools(conn) if disks else []
    volumes = list(dict.fromkeys((one[0].name, one[1]) for disk in disks if (one := _volume(pools, disk)) is not None))
    if not volumes or not has_bindings():
        return {}
    by_name = {pool.name: pool for pool in pools}
    there = [(by_name[pool], volume) for pool, volume in volumes]
    known = {one.facts.name for one in machine.snapshots} | {one.name for one in read_set_aside(machine.defined)}
    names = {snapshot_of(uuid_of(machine), name) for name in names_of(there)}
    return {name: there for name in sorted(name for name in names if name is not None and name not in known)}


def _pools(conn: VirConnect) -> list[Pool]:
    return [pool for pool in Pools(conn).all() if pool.clones_images]


def _volume(pools: list[Pool], disk: etree._Element, *, any_monitors: bool = False) -> PoolVolume | None:
    source = DiskSource.read(disk)
    if source is None:
        return None
    if any_monitors:
        source = replace(source, hosts=())
    for pool in pools:
        name = pool.name_at(source)
        if name:
            return pool, name
    return None
