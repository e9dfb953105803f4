# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new snapshot of a machine."""

from __future__ import annotations

import contextlib

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.agent import agent_limit
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, translate_errors
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import EXTERNAL, INTERNAL, with_mark
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.files import require_free_places
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import Method
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView

# A guest's file systems are frozen for a few seconds at most; an agent that needs longer is one that hangs.
_FREEZE_SECONDS = 60


def step_to_take(conn: VirConnect, machine: SnapshotView, name: str, method: Method, description: str) -> Step:
    """The step that takes a snapshot; libvirt does all of it or nothing. Raises ConflictError when a file is there
    that it would have to create."""
    require_free_places(conn, [*method.files.values(), *filter(None, [method.memory_file])])
    return Step(
        f"take snapshot {name} of {machine.name} ({words_of(method)})",
        lambda: _take(machine, name, method, description),
    )


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


def _take(machine: SnapshotView, name: str, method: Method, description: str) -> None:
    flags = 0
    if method.kind == EXTERNAL:
        flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
        if not method.memory:
            flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
        elif machine.power.state == "running":
            # It runs on while its memory is written.
            flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_LIVE
    if method.quiesce:
        flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE
    with translate_errors(f"cannot take snapshot {name} of machine {machine.name}"):
        if method.kind == INTERNAL and bool(machine.power.handle.isActive()) != machine.active:
            raise ConflictError(f"machine {machine.name} was started or has stopped since this run looked")
        limited = agent_limit(machine.power.handle, _FREEZE_SECONDS) if method.quiesce else contextlib.nullcontext()
        with limited:
            machine.power.handle.snapshotCreateXML(snapshot_xml(name, method, description), flags)
