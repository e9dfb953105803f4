# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new snapshot of a machine."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from functools import partial

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import attribute, etree, parse_xml
from ..._host.connection import VirConnect, is_local, libvirt, translate_errors
from ..._host.info.job_progress import look_at_memory
from ..._host.machines.snapshots import CEPH, EXTERNAL, INTERNAL, with_mark
from ..._host.storage.cluster import snapshots as in_cluster
from ..._host.storage.cluster.record import ClusterRecord, record_xml
from ..._host.storage.full_disk import free_in
from ..._host.storage.pools import Pools
from ..._model.attachments import disks_by_target, written_disks
from ..._model.metadata.snapshots import SnapshotWork
from ..._model.spec.fields.units import format_size
from ..plan import Step
from .clustered import cluster_volumes, forget, name_in_cluster, note_begin, require_same_disks_now
from .files import note_files, require_closed, require_free_places, require_present
from .held import held_still
from .method import AUTO, NO, Method, choose
from .tracking import require_free_name
from .view import SnapshotView, view


@dataclass(frozen=True)
class MemoryPlace:
    """Where the memory of a snapshot is written to: a folder, and the number of its file system.

    needed_bytes: what it takes at most; free_bytes: what is free there. instead: what else can be done, in words.
    """

    folder: str
    device: int
    needed_bytes: int
    free_bytes: int
    instead: str

    def require_room(self, others_bytes: int = 0) -> None:
        """Raise HostError when it may not fit. QEMU fills a file system before it gives up, and then pauses each
        machine that writes there.

        others_bytes: what other machines' memory may take there before it.
        """
        if self.needed_bytes + others_bytes <= self.free_bytes:
            return
        needed, free = format_size(self.needed_bytes), format_size(self.free_bytes)
        others = f", and those before it up to {format_size(others_bytes)}" if others_bytes else ""
        raise HostError(
            f"its memory may need up to {needed} in {self.folder}, where {free} are free{others}",
            hint=f"Free some space there, or {self.instead}",
        )


def step_to_take(conn: VirConnect, machine: SnapshotView, name: str, method: Method, description: str) -> Step:
    """The step that takes a snapshot; libvirt does all of it or nothing.

    Raises ConflictError when a file is there that it would have to create, and VirtError where one of its disks is not
    there, or a cluster that has its disks cannot do it.
    """
    if method.kind == CEPH:
        _require_takeable(conn, machine, name)
        return Step(
            f"take snapshot {name} of {machine.name} ({words_of(method)})",
            lambda: _take_in_cluster(conn, machine, name, method, description),
        )
    require_present(conn, machine)
    if method.kind == INTERNAL:
        require_free_name(conn, machine, name)
    if method.kind == INTERNAL and not machine.active:
        require_closed(conn, machine)
    require_free_places(conn, [*method.files.values(), *filter(None, [method.memory_file])])
    return Step(
        f"take snapshot {name} of {machine.name} ({words_of(method)})",
        lambda: _take(conn, machine, name, method, description),
        # Of an internal one, libvirt answers no questions until it is taken (qemuSnapshotCreateXML).
        look=partial(look_at_memory, machine.power.handle) if method.kind == EXTERNAL and method.memory else None,
    )


def find_memory_place(conn: VirConnect, machine: SnapshotView, name: str, method: Method) -> MemoryPlace | None:
    """Where the memory of a new snapshot goes. Raises VirtError.

    None where there is none, and for what has no file system of this host: a block device has a size of its own, and
    nobody knows what is free in it.
    """
    path = method.memory_file or (_file_of_first(machine, method) if method.kind == INTERNAL else None)
    with translate_errors("cannot ask libvirt for its URI"):
        local = is_local(conn.getURI())
    if not method.memory or not path or not local:
        return None
    # Of a disk that is a link, what it leads to is written.
    folder = os.path.dirname(os.path.realpath(path))
    free_bytes = free_in(folder)
    return MemoryPlace(
        folder, os.stat(folder).st_dev, _most_memory_bytes(machine), free_bytes, _without_memory(machine, name)
    )


def _file_of_first(machine: SnapshotView, method: Method) -> str | None:
    """The file that an internal snapshot has the memory in: that of the first disk of which one is taken."""
    disk = written_disks(machine.xml)[method.disks[0]]
    return attribute(disk, "source", "file") if disk.get("type") == "file" else None


def _most_memory_bytes(machine: SnapshotView) -> int:
    """What the memory takes in a file at most: pages that nobody has ever written to are not in it, and QEMU's process
    does not hold them. Of huge pages the kernel does not count that, nor what is swapped out, which counts as nothing.
    """
    handle = machine.power.handle
    with translate_errors(f"cannot inspect machine {machine.name}"):
        most_kib = int(handle.maxMemory())
    held_kib = None
    if machine.xml.find("memoryBacking/hugepages") is None:
        with contextlib.suppress(libvirt.libvirtError):
            held_kib = handle.memoryStats().get("rss")
    return min(most_kib, held_kib or most_kib) * 1024


def _without_memory(machine: SnapshotView, name: str) -> str:
    """How one without memory is taken that can be reverted, in words."""
    with contextlib.suppress(VirtError):
        choose(machine, name, NO, AUTO)
        return "set memory=false"
    return "shut the machine down first"


def words_of(method: Method) -> str:
    """How a snapshot is taken, in words."""
    memory = "with memory" if method.memory else "without memory"
    return ", ".join([method.kind, memory, *(["file systems frozen"] if method.quiesce else [])])


def snapshot_xml(name: str, method: Method, description: str) -> str:
    """The ``<domainsnapshot>`` of a new one. https://libvirt.org/formatsnapshot.html"""
    root = etree.Element("domainsnapshot")
    etree.SubElement(root, "name").text = name
    etree.SubElement(root, "description").text = with_mark(description)
    memory = etree.SubElement(root, "memory", snapshot=method.kind if method.memory else "no")
    if method.memory_file is not None:
        memory.set("file", method.memory_file)
    disks = etree.SubElement(root, "disks")
    for target in method.disks:
        disk = etree.SubElement(disks, "disk", name=target, snapshot=method.kind)
        if target in method.files:
            disk.set("type", "file")
            etree.SubElement(disk, "driver", type="qcow2")
            etree.SubElement(disk, "source", file=method.files[target])
    for target in method.left_out:
        etree.SubElement(disks, "disk", name=target, snapshot="no")
    return etree.tostring(root, encoding="unicode")


def _take(conn: VirConnect, machine: SnapshotView, name: str, method: Method, description: str) -> None:
    flags = 0
    if method.kind == EXTERNAL:
        flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
        if not method.memory:
            flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
        elif machine.power.state == "running":
            # It runs on while its memory is written.
            flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_LIVE
    handle, what = machine.power.handle, f"cannot take snapshot {name} of machine {machine.name}"
    with translate_errors(what):
        active = bool(handle.isActive())
        if method.kind == INTERNAL and active != machine.active:
            raise ConflictError(f"machine {machine.name} was started or has stopped since this run looked")
    work = SnapshotWork(name, frozen=method.quiesce)
    # One whose servers are away is waited for, which a frozen guest should not.
    pools = Pools(conn).all() if work.frozen else []
    held = _still(machine, work, "libvirt", f"snapshot {name} may not be of one moment", method)
    noted = method.kind == EXTERNAL and active
    if noted:
        # QEMU goes over to the new files some time before libvirt writes that down, which may be killed in between.
        note_begin(handle, SnapshotWork(name))
    try:
        with held, translate_errors(what):
            handle.snapshotCreateXML(snapshot_xml(name, method, description), flags)
            if noted:
                forget(handle)
            if work.frozen:
                # The thaw may take long, or fail, and until this is done virt_purge does not know them.
                note_files(view(conn, machine.name, "vm"), pools)
    except VirtError:
        # libvirt deletes the files of one that it could not take. Where there are some, the next run looks at them.
        if noted and not any(map(os.path.lexists, method.files.values())):
            with contextlib.suppress(VirtError):
                forget(handle)
        raise


def _still(
    machine: SnapshotView, work: SnapshotWork, who: str, so: str, method: Method
) -> contextlib.AbstractContextManager[None]:
    held = work.frozen or work.paused
    return held_still(machine.power.handle, work, who, so, method.frozen) if held else contextlib.nullcontext()


def _require_takeable(conn: VirConnect, machine: SnapshotView, name: str) -> list[in_cluster.PoolVolume]:
    """The volumes that a snapshot of this name is taken of. Raises VirtError when it cannot be."""
    require_same_disks_now(machine)
    volumes = cluster_volumes(conn, machine.defined)
    if name_in_cluster(machine, name) in in_cluster.names_of(volumes):
        raise ConflictError(
            f"its Ceph cluster has a snapshot {name} of it already, which libvirt does not know",
            hint="Its description may have been lost with a hypervisor, so it is not replaced. If nobody needs it, "
            "delete it with state: absent and this name; otherwise choose another name",
        )
    return volumes


def _take_in_cluster(conn: VirConnect, machine: SnapshotView, name: str, method: Method, description: str) -> None:
    """The cluster has it first, then libvirt is told of it. By its note, what a run leaves that is killed in between is
    deleted by the next one."""
    handle, kept = machine.power.handle, name_in_cluster(machine, name)
    with translate_errors(f"cannot inspect machine {machine.name}"):
        if bool(handle.isActive()) != machine.active:
            raise ConflictError(f"machine {machine.name} was started or has stopped since this run looked")
        text = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    volumes = _require_takeable(conn, machine, name)
    # The snapshot of one volume alone is always of one moment.
    work = SnapshotWork(name, frozen=method.quiesce, paused=machine.power.state == "running" and len(volumes) > 1)
    held = _still(machine, work, "the Ceph cluster (see ceph status)", f"there is no snapshot {name}", method)
    note_begin(handle, SnapshotWork(name))
    try:
        in_cluster.take(volumes, kept, held)
        _describe(machine, name, description, parse_xml(text), volumes)
    except Exception:
        with contextlib.suppress(Exception):
            if kept not in in_cluster.names_of(volumes):
                forget(handle)
        raise
    forget(handle)


def _describe(
    machine: SnapshotView,
    name: str,
    description: str,
    domain: etree._Element,
    volumes: list[in_cluster.PoolVolume],
) -> None:
    """Tell libvirt of a snapshot that the cluster has. domain: the permanent description that belongs to it."""
    disks = written_disks(domain)
    record = ClusterRecord(
        name,
        description,
        int(time.time()),
        next((one.facts.name for one in machine.snapshots if one.current), None),
        machine.active,
        disks,
        [target for target in disks_by_target(domain) if target not in disks],
        domain,
    )
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    try:
        with translate_errors(f"cannot describe snapshot {name} of machine {machine.name}"):
            machine.power.handle.snapshotCreateXML(record_xml(record), flags)
    except VirtError:
        with contextlib.suppress(VirtError):
            in_cluster.remove(volumes, name_in_cluster(machine, name))
        raise
