# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisors that are measured: files for libvirt's test driver, each with the machines of one.

Every machine runs and has a disk and a nic on a bridge, and no guest agent answers. Nothing but the neighbour table
knows its address, which is the dearest case for the inventory. Machines as this collection makes them have its metadata
besides, with tags and host keys, and a second disk with the seed.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    ImageNote,
    MachineNotes,
    NicNote,
    SeedNote,
    VolumeNote,
    notes_to_element,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"

_DOMAIN = """\
<domain type='test'>
  <name>{name}</name><uuid>{uuid}</uuid>
  {notes}
  <memory unit='MiB'>2048</memory><currentMemory unit='MiB'>2048</currentMemory><vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/></features>
  <cpu mode='host-model' check='partial'/>
  <clock offset='utc'/>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='/var/lib/libvirt/images/{name}-system.qcow2'/>
      <target dev='vda' bus='virtio'/><serial>{name}-system</serial>
    </disk>
{seed}    <interface type='bridge'>
      <mac address='{mac}'/><source bridge='br0'/><target dev='vnet{number}'/><model type='virtio'/>
    </interface>
    <serial type='pty'><log file='/var/log/libvirt/{name}.log' append='on'/><target port='0'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>
    <memballoon model='virtio'/><rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""


_SEED = """\
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='/var/lib/libvirt/images/{name}-seed.img'/>
      <target dev='vdb' bus='virtio'/><readonly/>
    </disk>
"""


def write_hypervisor(path: Path, prefix: str, machines: int, *, managed: bool) -> None:
    """Write the file of a hypervisor with so many machines, whose names begin with ``prefix``.

    managed: as this collection makes them.
    """
    domains = "".join(_domain(f"{prefix}-{number:04}", number, managed=managed) for number in range(1, machines + 1))
    path.write_text(f"<node>{domains}</node>\n", encoding="utf-8")


def _domain(name: str, number: int, *, managed: bool) -> str:
    own = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.benchmark.invalid")
    mac = "52:54:00:" + ":".join(f"{byte:02x}" for byte in own.bytes[:3])
    notes, seed = (f"<metadata>{_notes(name, number, own, mac)}</metadata>", _SEED) if managed else ("", "")
    return _DOMAIN.format(
        name=name, uuid=own, mac=mac, number=number, notes=notes, seed=seed.format(name=name) if seed else ""
    )


def _notes(name: str, number: int, own: uuid.UUID, mac: str) -> str:
    notes = MachineNotes(
        image=ImageNote("debian", "debian-0123456789abcdef.qcow2", "images"),
        seed=SeedNote("nocloud", own.hex[:16], "ansible"),
        volumes=(
            VolumeNote("default", f"{name}-system.qcow2", "disk", format="qcow2"),
            VolumeNote("default", f"{name}-seed.img", "seed", format="raw"),
        ),
        disks=(DiskNote("system", "vda"),),
        nics=(NicNote("eth0", mac),),
        tags=("web", "prod") if number % 2 else ("db",),
        host_keys=(f"{KEY}{own.hex}{own.hex[:11]}",),
    )
    return etree.tostring(notes_to_element(notes)).decode()
