# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines as the tools of distributions make them, as libvirt shows them once they are defined; shortened."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.brine.virt.plugins.module_utils._model.xml.domain import GuestPlatform

Q35 = GuestPlatform("kvm", "x86_64", "pc-q35-8.2", {"mode": "host-model"}, "/var/log/libvirt/qemu")


@dataclass(frozen=True)
class KnownMachine:
    """entry: what its entry has beside disks and nics."""

    name: str
    xml: str
    entry: dict[str, t.Any]
    not_exported: list[str] = field(default_factory=list)
    platform: GuestPlatform = Q35


_TOP = """<domain type='kvm'><name>a</name><uuid>00000000-0000-4000-8000-000000000001</uuid>
<memory unit='KiB'>2097152</memory><currentMemory unit='KiB'>2097152</currentMemory>
<vcpu placement='static'>2</vcpu>"""
_END = "<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>"
_TIMERS = """<clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='pit' tickpolicy='delay'/>
<timer name='hpet' present='no'/></clock>"""
_PM = "<pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>"
_PCI = """<controller type='pci' index='0' model='pcie-root'/><controller type='pci' index='1' model='pcie-root-port'>
<model name='pcie-root-port'/><target chassis='1' port='0x10'/>
<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0' multifunction='on'/></controller>"""
_USB = """<controller type='usb' index='0' model='qemu-xhci' ports='15'>
<address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></controller>"""
_SERIAL = """<serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target></serial>
<console type='pty'><target type='serial' port='0'/></console>"""
_AGENT = """<channel type='unix'><source mode='bind'/><target type='virtio' name='org.qemu.guest_agent.0'/>
<address type='virtio-serial' controller='0' bus='0' port='1'/></channel>"""
_INPUTS = "<input type='mouse' bus='ps2'/><input type='keyboard' bus='ps2'/>"
_BALLOON = "<memballoon model='virtio'/>"
_RNG = "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>"
_WATCHDOG = "<watchdog model='itco' action='reset'/>"
_DISK = """<disk type='file' device='disk'><driver name='qemu' type='raw' discard='unmap'/><source file='/disks/vda'/>
<target dev='vda' bus='virtio'/>{}</disk>"""
_NIC = """<interface type='network'><mac address='52:54:00:6b:3c:58'/><source network='default'/>
<model type='virtio'/></interface>"""
_NO_LOG = {"serials": ["pty"]}
_TIMERS_ENTRY = {
    "clock": {"timers": {"rtc": {"tickpolicy": "catchup"}, "pit": {"tickpolicy": "delay"}, "hpet": {"present": False}}}
}

KNOWN: list[KnownMachine] = [
    KnownMachine(
        "virt-install on Debian",
        f"""{_TOP}<metadata><libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">
        <libosinfo:os id="http://debian.org/debian/12"/></libosinfo:libosinfo></metadata>
        <os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type><boot dev='hd'/></os>
        <features><acpi/><apic/><vmport state='off'/></features>
        <cpu mode='host-passthrough' check='none' migratable='on'/>{_TIMERS}{_END}{_PM}
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{_DISK.format("")}{_USB}{_PCI}
        <controller type='sata' index='0'/><controller type='virtio-serial' index='0'/>{_NIC}{_SERIAL}{_AGENT}{_INPUTS}
        <audio id='1' type='none'/>{_WATCHDOG}{_BALLOON}{_RNG}</devices></domain>""",
        {
            "name": "a",
            "vcpus": 2,
            "memory": 2048,
            "cpu": "host-passthrough",
            "features": {"vmport": False},
            **_TIMERS_ENTRY,
            "boot": {"devices": ["hd"]},
            **_NO_LOG,
        },
        ["metadata/http://libosinfo.org/xmlns/libvirt/domain/1.0:libosinfo", "pm"],
    ),
    KnownMachine(
        "virt-manager with SPICE",
        f"""{_TOP}<os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type><boot dev='hd'/></os>
        <features><acpi/><apic/><vmport state='off'/></features>
        <cpu mode='host-model' check='partial'/>{_TIMERS}{_END}{_PM}
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{_DISK.format("")}{_USB}{_PCI}{_NIC}{_SERIAL}{_AGENT}
        <channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
        <input type='tablet' bus='usb'><address type='usb' bus='0' port='1'/></input>{_INPUTS}
        <graphics type='spice' autoport='yes'><listen type='address'/><image compression='off'/></graphics>
        <sound model='ich9'/><audio id='1' type='spice'/>
        <video><model type='virtio' heads='1' primary='yes'/></video>
        <redirdev bus='usb' type='spicevmc'><address type='usb' bus='0' port='2'/></redirdev>
        {_WATCHDOG}{_BALLOON}{_RNG}</devices></domain>""",
        {
            "name": "a",
            "vcpus": 2,
            "memory": 2048,
            "features": {"vmport": False},
            **_TIMERS_ENTRY,
            "boot": {"devices": ["hd"]},
            **_NO_LOG,
            "graphics": "spice",
        },
        [
            "pm",
            "devices/graphics/image compression=off",
            "devices/sound model=ich9",
            "devices/redirdev bus=usb type=spicevmc",
        ],
    ),
    KnownMachine(
        "Fedora with UEFI, secure boot and TPM",
        f"""{_TOP}<os firmware='efi'><type arch='x86_64' machine='pc-q35-9.1'>hvm</type>
        <firmware><feature enabled='yes' name='enrolled-keys'/><feature enabled='yes' name='secure-boot'/></firmware>
        <loader readonly='yes' secure='yes' type='pflash'>/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd</loader>
        <nvram template='/usr/share/edk2/ovmf/OVMF_VARS.secboot.fd'>/var/lib/libvirt/qemu/nvram/a_VARS.fd</nvram></os>
        <features><acpi/><apic/><smm state='on'/></features>
        <cpu mode='host-passthrough' check='none' migratable='on'/><clock offset='utc'/>{_END}
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{_DISK.format("<boot order='1'/>")}
        <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><target dev='sda' bus='sata'/><readonly/>
        </disk>
        {_USB}{_PCI}{_NIC}{_SERIAL}{_AGENT}{_INPUTS}
        <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
        <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/>
        </graphics>
        <video><model type='virtio' heads='1' primary='yes'/></video>{_WATCHDOG}{_BALLOON}{_RNG}</devices></domain>""",
        {
            "name": "a",
            "vcpus": 2,
            "memory": 2048,
            "firmware": "efi",
            "secure_boot": True,
            "cpu": "host-passthrough",
            **_NO_LOG,
            "graphics": "vnc",
            "tpm": True,
        },
    ),
    KnownMachine(
        "like Proxmox: i440fx, its own emulator and arguments",
        f"""{_TOP.replace("<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ")}
        <sysinfo type='smbios'><system><entry name='uuid'>00000000-0000-4000-8000-000000000001</entry></system>
        </sysinfo>
        <os><type arch='x86_64' machine='pc-i440fx-8.1'>hvm</type><smbios mode='sysinfo'/></os>
        <features><acpi/><apic/></features>
        <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>qemu64</model>
        <feature policy='require' name='aes'/></cpu><clock offset='utc'/>{_END}
        <devices><emulator>/opt/pve/kvm</emulator>
        <disk type='block' device='disk'><driver name='qemu' type='raw' cache='none' io='native' rerror_policy='stop'/>
        <source dev='/dev/vg0/vm-100-disk-0'/><target dev='sda' bus='scsi'/><iotune>
        <total_iops_sec>500</total_iops_sec></iotune>
        <boot order='1'/></disk>
        <controller type='scsi' index='0' model='virtio-scsi'/><controller type='pci' index='0' model='pci-root'/>
        <controller type='usb' index='0' model='piix3-uhci'/>
        <interface type='bridge'><mac address='bc:24:11:00:00:01'/><source bridge='vmbr0'/><model type='virtio'/>
        <boot order='2'/></interface>{_SERIAL}{_AGENT}{_INPUTS}{_BALLOON}</devices>
        <qemu:commandline><qemu:arg value='-smbios'/></qemu:commandline></domain>""",
        {
            "name": "a",
            "vcpus": 2,
            "memory": 2048,
            "cpu": {
                "mode": "custom",
                "model": "qemu64",
                "fallback": "forbid",
                "check": "none",
                "features": {"aes": {"policy": "require"}},
            },
            **_NO_LOG,
            "rng": False,
        },
        [
            "sysinfo type=smbios",
            "os/smbios mode=sysinfo",
            "devices/emulator",
            "devices/disk[sda]/driver rerror_policy=stop",
            "devices/disk[sda]/iotune",
            "devices/controller type=usb model=piix3-uhci",
            "qemu:commandline",
        ],
    ),
    KnownMachine(
        "openSUSE with VNC, numbers and hugepages",
        f"""{_TOP.replace("placement='static'>2", "placement='static' cpuset='0-3' current='1'>2")}
        <memoryBacking><hugepages/></memoryBacking><cputune><vcpupin vcpu='0' cpuset='1'/></cputune>
        <numatune><memory mode='strict' nodeset='0'/></numatune>
        <os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type></os><features><acpi/><apic/><pae/></features>
        <cpu mode='host-model' check='partial'/><clock offset='localtime'/>{_END}
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{_DISK.format("<boot order='1'/>")}{_USB}{_PCI}{_NIC}
        {_SERIAL}{_AGENT}{_INPUTS}<graphics type='vnc' port='5901' autoport='no' listen='0.0.0.0' keymap='de'>
        <listen type='address' address='0.0.0.0'/></graphics><video><model type='cirrus' vram='16384' heads='1'/>
        </video>
        {_BALLOON}{_RNG}</devices></domain>""",
        {
            "name": "a",
            "vcpus": {"maximum": 2, "current": 1, "cpuset": "0-3"},
            "memory": {"maximum": 2048, "hugepages": True},
            "cpu": {"tuning": {"vcpupin": {0: {"cpuset": "1"}}}},
            "numatune": {"memory": {"mode": "strict", "nodeset": "0"}},
            "features": {"pae": True},
            "clock": {"offset": "localtime"},
            **_NO_LOG,
            "graphics": {"type": "vnc", "listen": "0.0.0.0", "port": 5901},
            "video": "cirrus",
        },
        ["devices/graphics keymap=de"],
    ),
]
