# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes back to a snapshot whose disks a Ceph cluster keeps.

Rolling back a large disk takes its time, and a run may be killed in it. So the machine's permanent description says
first that it is being reverted, and has disks that QEMU opens under no circumstances, whoever starts it. That of the
snapshot takes its place when all disks are rolled back. Until then, the same can be done again.
"""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.machines.redefine import redefine
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import KnownSnapshot
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster import snapshots as in_cluster
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster.record import make_unopenable
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import written_disks
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    WORK_NAMESPACE,
    SnapshotWork,
    work_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import (
    cluster_volumes,
    name_in_cluster,
    uuid_of,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.notes import with_notes
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView


def require_whole(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Raise VirtError when the cluster has not got all of a snapshot (any more)."""
    in_cluster.require_all(_volumes(conn, snapshot), name_in_cluster(machine, snapshot.facts.name))


def roll_back(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot, notes: MachineNotes | None) -> None:
    """Revert a machine, which is powered off first if it has to be. notes: what is remembered of it afterwards."""
    name, handle = machine.name, machine.power.handle
    what = f"cannot revert machine {name} to snapshot {snapshot.facts.name}"
    kept, volumes = name_in_cluster(machine, snapshot.facts.name), _volumes(conn, snapshot)
    in_cluster.require_all(volumes, kept)
    with translate_errors(what):
        if handle.isActive():
            if not machine.active:
                raise ConflictError(f"machine {name} was started since this run looked")
            handle.destroy()
        text = snapshot.handle.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        now = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    in_cluster.require_closed(volumes)
    redefine(conn, _half_reverted_xml(now, snapshot.facts.name), uuid_of(machine), name)
    in_cluster.roll_back(volumes, kept)
    then = with_notes(text, notes)
    redefine(conn, etree.tostring(need(parse_xml(then), "domain"), encoding="unicode"), uuid_of(machine), name)
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    with translate_errors(f"cannot note that machine {name} was reverted to snapshot {snapshot.facts.name}"):
        handle.snapshotCreateXML(then, flags)


def _volumes(conn: VirConnect, snapshot: KnownSnapshot) -> list[in_cluster.PoolVolume]:
    return [] if snapshot.facts.domain is None else cluster_volumes(conn, snapshot.facts.domain)


def _half_reverted_xml(text: str, snapshot: str) -> str:
    root = parse_xml(text)
    for disk in written_disks(root)[0].values():
        make_unopenable(disk)
    metadata = root.find("metadata")
    if metadata is None:
        metadata = etree.Element("metadata")
        root.insert(root.index(need(root, "uuid")) + 1, metadata)
    for old in metadata.findall(f"{{{WORK_NAMESPACE}}}snapshotting"):
        metadata.remove(old)
    metadata.append(work_to_element(SnapshotWork(snapshot, reverting=True)))
    return etree.tostring(root, encoding="unicode")
