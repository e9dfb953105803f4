# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes back to a snapshot whose disks a Ceph cluster keeps.

Rolling back a large disk takes its time, and a run may be killed in it. So the machine gets the description of the
snapshot first, which libvirt may refuse by now, with a note that it is being reverted and with disks that QEMU opens
under no circumstances, whoever starts it. These get their places back when all are rolled back. Until then, the same
can be done again.
"""

from __future__ import annotations

import contextlib
import copy
import typing as t

from ..._base.errors import ConflictError, NotFoundError, VirtError
from ..._base.xml import etree, need, parse_xml
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.redefine import redefine
from ..._host.machines.snapshots import KnownSnapshot
from ..._host.storage.cluster import snapshots as in_cluster
from ..._host.storage.cluster.opened import require_closed
from ..._host.storage.cluster.record import UNOPENABLE, make_unopenable
from ..._model.attachments import disk_source, written_disks
from ..._model.metadata.machine import MachineNotes
from ..._model.metadata.revert import with_notes
from ..._model.metadata.snapshots import WORK_NAMESPACE, SnapshotWork, work_to_element
from ..._model.xml.disk_source import DiskSource
from ..power.view import HalfRevertedError
from .clustered import name_in_cluster, uuid_of, volumes_of_snapshot
from .view import SnapshotView


def require_whole(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Raise VirtError when the cluster has not got all of a snapshot (any more)."""
    try:
        in_cluster.require_all(volumes_of_snapshot(conn, snapshot), name_in_cluster(machine, snapshot.facts.name))
    except NotFoundError as exc:
        if not isinstance(machine.power.refusal, HalfRevertedError):
            raise
        # It cannot be deleted now, nor can the revert be finished.
        raise NotFoundError(
            exc.what,
            hint="Somebody else has deleted it there, or has replaced the volume. Revert it to another one that is "
            f"whole. If there is none: virsh edit {machine.name}, and take out of its description the element "
            f"snapshotting, and of each disk <snapshot name='{UNOPENABLE}'/>; its disks may be of different times",
        ) from exc


def roll_back(
    conn: VirConnect,
    machine: SnapshotView,
    snapshot: KnownSnapshot,
    notes: MachineNotes | None,
    on_volume: t.Callable[[str], t.Any] = lambda _words: None,
) -> None:
    """Revert a machine, which is powered off first if it has to be. notes: what is remembered of it afterwards.

    on_volume: is told of each volume before its turn.
    """
    name, handle = machine.name, machine.power.handle
    what = f"cannot revert machine {name} to snapshot {snapshot.facts.name}"
    kept, volumes = name_in_cluster(machine, snapshot.facts.name), volumes_of_snapshot(conn, snapshot)
    in_cluster.require_all(volumes, kept)
    with translate_errors(what):
        if handle.isActive():
            if not machine.active:
                raise ConflictError(f"machine {name} was started since this run looked")
            handle.destroy()
        text = snapshot.handle.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        now = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    require_closed(volumes)
    then = with_notes(text, notes)
    wanted = need(parse_xml(then), "domain")
    # It may have been renamed since.
    need(wanted, "name").text = name
    _reach_as_now(wanted, parse_xml(now))
    redefine(conn, _half_reverted_xml(wanted, snapshot.facts.name), uuid_of(machine), name)
    try:
        _require_still_off(handle, what)
        require_closed(volumes)
    except VirtError:
        # No disk has been changed.
        with contextlib.suppress(VirtError):
            redefine(conn, now, uuid_of(machine), name)
        raise
    in_cluster.roll_back(volumes, kept, on_volume)
    redefine(conn, etree.tostring(wanted, encoding="unicode"), uuid_of(machine), name)
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    with translate_errors(f"cannot note that machine {name} was reverted to snapshot {snapshot.facts.name}"):
        handle.snapshotCreateXML(then, flags)


def _reach_as_now(wanted: etree._Element, now: etree._Element) -> None:
    """Have disks name the monitors, the user and the secret that they have now, and not those of then."""
    disks = written_disks(now)
    for target, disk in written_disks(wanted).items():
        source = DiskSource.read(disks[target]) if target in disks else None
        if source is not None and source.place == disk_source(disk):
            source.move(disk)


def _require_still_off(handle: t.Any, what: str) -> None:
    """Raise ConflictError for a machine that somebody has started before its disks could not be opened any more."""
    with translate_errors(what):
        if handle.isActive():
            raise ConflictError(f"machine {handle.name()} was started since this run looked")


def _half_reverted_xml(domain: etree._Element, snapshot: str) -> str:
    root = copy.deepcopy(domain)
    for disk in written_disks(root).values():
        make_unopenable(disk)
    metadata = root.find("metadata")
    if metadata is None:
        metadata = etree.Element("metadata")
        root.insert(root.index(need(root, "uuid")) + 1, metadata)
    for old in metadata.findall(f"{{{WORK_NAMESPACE}}}snapshotting"):
        metadata.remove(old)
    metadata.append(work_to_element(SnapshotWork(snapshot, reverting=True)))
    return etree.tostring(root, encoding="unicode")
