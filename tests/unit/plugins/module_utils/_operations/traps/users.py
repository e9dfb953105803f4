# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The traps: each makes somebody else use a volume, and gives back the words for that user."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import affect, write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    ImageNote,
    MachineNotes,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    PREFIX,
    MigrationNote,
    VolumeRef,
    migration_note_to_xml,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    POOL,
    PurgeHost,
    disk,
)

Trap = t.Callable[[PurgeHost, Path], str]
NVRAM = "<loader readonly='yes' type='pflash'>/x.fd</loader><nvram>{}</nvram></os>"
MACHINE = "machine other"


def forget_disks(host: PurgeHost, guest: t.Any) -> None:
    """The machine has no disk at its next start."""
    head = f"<domain type='test'><name>{guest.name()}</name><uuid>{guest.UUIDString()}</uuid><memory>1</memory>"
    host.conn.defineXML(f"{head}<os><type>hvm</type></os></domain>")


def add_nvram(host: PurgeHost, name: str, path: Path) -> None:
    """The machine has its UEFI variables here."""
    xml = host.conn.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    host.conn.defineXML(xml.replace("</os>", NVRAM.format(path)))


def shared_disk(host: PurgeHost, path: Path) -> str:
    host.guest("other", disk(path))
    return MACHINE


def iso(host: PurgeHost, path: Path) -> str:
    host.guest("other", disk(path, "sda", device="cdrom", image_format="raw"))
    return MACHINE


def overlay_in_the_pool(host: PurgeHost, path: Path) -> str:
    """It is a volume, and no machine has it."""
    host.image(host.pool / "clone.qcow2", below=path)
    return "volume default/clone.qcow2"


def overlay_in_no_pool(host: PurgeHost, path: Path) -> str:
    host.guest("other", disk(host.image(host.outside / "clone.qcow2", below=path)))
    return MACHINE


def attached_while_it_runs(host: PurgeHost, path: Path) -> str:
    guest = host.guest("other", disk(path))
    guest.create()
    forget_disks(host, guest)
    assert path.name not in guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    return MACHINE


def at_the_next_start(host: PurgeHost, path: Path) -> str:
    """It runs without it."""
    guest = host.guest("other")
    guest.create()
    xml = guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    host.conn.defineXML(xml.replace("</devices>", f"{disk(path)}</devices>"))
    assert path.name not in guest.XMLDesc(0)
    return MACHINE


def by_pool_and_volume(host: PurgeHost, path: Path) -> str:
    source = f"<source pool='default' volume='{path.name}'/>"
    host.guest("other", f"<disk type='volume'><driver type='qcow2'/>{source}<target dev='vda'/></disk>")
    return MACHINE


def hard_link_in_no_pool(host: PurgeHost, path: Path) -> str:
    os.link(path, host.outside / "linked.qcow2")
    host.guest("other", disk(host.outside / "linked.qcow2"))
    return MACHINE


def symbolic_link_to_the_pool(host: PurgeHost, path: Path) -> str:
    (host.outside.parent / "mounted").symlink_to(host.pool)
    host.guest("other", disk(host.outside.parent / "mounted" / path.name))
    return MACHINE


def nvram(host: PurgeHost, path: Path) -> str:
    host.guest("other")
    add_nvram(host, "other", path)
    return MACHINE


def kernel(host: PurgeHost, path: Path) -> str:
    guest = host.guest("other")
    host.conn.defineXML(guest.XMLDesc(0).replace("</os>", f"<kernel>{path}</kernel></os>"))
    return MACHINE


def state_of_a_device(host: PurgeHost, path: Path) -> str:
    """As the state of a TPM may lie anywhere; the test driver keeps the source of a random number generator."""
    rng = "<rng model='virtio'><backend model='random'>{}</backend></rng>"
    host.guest("other", rng.format(path))
    return MACHINE


def snapshot(host: PurgeHost, path: Path) -> str:
    """Only the machine's past has it."""
    guest = host.guest("other", disk(path))
    guest.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    forget_disks(host, guest)
    return "snapshot s1 of machine other"


def notes(host: PurgeHost, path: Path) -> str:
    """It has lost the disk, and still owns it."""
    note = VolumeNote("default", path.name, "disk", format="qcow2")
    write_notes(host.guest("other"), MachineNotes(volumes=(note,)))
    return MACHINE


def image_in_notes(host: PurgeHost, path: Path) -> str:
    write_notes(host.guest("other"), MachineNotes(image=ImageNote("x", path.name, "default")))
    return MACHINE


def move_note(host: PurgeHost, path: Path) -> str:
    """A move of another machine has made it here, or has still to remove it here."""
    guest, here = host.guest("other"), host.conn.getHostname()
    note = MigrationNote("hv9", here, "qemu+tls://hv1/system", made=(VolumeRef("default", path.name),))
    guest.setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, affect(guest))
    return MACHINE


USERS: tuple[Trap, ...] = (
    shared_disk,
    iso,
    overlay_in_the_pool,
    overlay_in_no_pool,
    attached_while_it_runs,
    at_the_next_start,
    by_pool_and_volume,
    hard_link_in_no_pool,
    symbolic_link_to_the_pool,
    nvram,
    kernel,
    state_of_a_device,
    snapshot,
    notes,
    image_in_notes,
    move_note,
)


def pool_that_is_not_active(host: PurgeHost, _path: Path) -> str:
    """Nobody knows what is in there."""
    host.conn.storagePoolDefineXML(POOL.format("asleep", "/x"), 0)
    return "storage pool asleep is not active"
