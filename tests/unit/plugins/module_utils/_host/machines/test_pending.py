# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running machine gets only when it is powered off and on."""

from __future__ import annotations

import libvirt
import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import pending_of

# As QEMU shows them: live XML has ports, paths, aliases and an expanded CPU that the definition does not have.
LIVE = """
<domain type='kvm' id='3'><name>web1</name>
  <metadata><brine:machine xmlns:brine='urn:brine:virt:1' status='ready'>
    <brine:disk name='system' target='vda'/><brine:disk name='data' target='vdb'/>
    <brine:nic name='eth0' mac='52:54:00:00:00:01'/></brine:machine></metadata>
  <memory unit='KiB'>1048576</memory><currentMemory unit='KiB'>700000</currentMemory>
  <vcpu placement='static' current='1'>2</vcpu>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact' check='full'><model fallback='forbid'>Skylake-Client</model>
    <feature policy='require' name='vmx'/></cpu>
  <clock offset='utc'/><on_reboot>restart</on_reboot>
  <devices>
    <disk type='file' device='disk'><source file='/x.qcow2' index='1'/><target dev='vda' bus='virtio'/>
      <alias name='virtio-disk0'/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/><target dev='vnet0'/></interface>
    <serial type='pty'><source path='/dev/pts/1'/><target type='isa-serial' port='0'/></serial>
    <console type='pty' tty='/dev/pts/1'><source path='/dev/pts/1'/><target type='serial' port='0'/></console>
    <graphics type='vnc' port='5900' autoport='yes' listen='127.0.0.1'/>
    <video><model type='virtio' heads='1' primary='yes'/></video>
  </devices></domain>
"""
DEFINED = (
    LIVE.replace(" id='3'", "")
    .replace("700000", "1048576")
    .replace("current='1'", "current='2'")
    .replace("port='5900'", "port='-1'")
    .replace("<source path='/dev/pts/1'/>", "")
    .replace(" tty='/dev/pts/1'", "")
    .replace(LIVE[LIVE.index("<cpu ") : LIVE.index("</cpu>") + 6], "<cpu mode='host-model' check='partial'/>")
)
EMULATED = "<cpu mode='custom' match='exact' check='none'><model fallback='allow'>Skylake-Client</model></cpu>"
DATA_DISK = "<disk type='file' device='disk'><source file='/y'/><target dev='vdb' bus='virtio'/></disk>"
NIC = "<interface type='bridge'><mac address='52:54:00:00:00:02'/><source bridge='br0'/></interface>"


@pytest.mark.parametrize(
    ("old", "new", "pending"),
    [
        ("", "", []),
        # An emulated machine of ours: live, the check is done, and a feature more is there.
        ("<cpu mode='host-model' check='partial'/>", EMULATED, []),
        ("<cpu mode='host-model' check='partial'/>", EMULATED.replace("Skylake-Client", "EPYC"), ["cpu"]),
        *(
            ("<cpu mode='host-model' check='partial'/>", EMULATED.replace(old, new), ["cpu"])
            for old, new in (
                ("</cpu>", "<vendor>AMD</vendor></cpu>"),
                ("</cpu>", "<feature policy='disable' name='vmx'/></cpu>"),
                ("'exact'", "'strict'"),
                ("<cpu", "<cpu migratable='on'"),
            )
        ),
        ("'KiB'>1048576</memory>", "'KiB'>2097152</memory>", ["memory"]),
        (">2</vcpu>", ">4</vcpu>", ["vcpus"]),
        ("<boot dev='hd'/>", "<boot dev='network'/>", ["boot"]),
        ("type='vnc'", "type='spice'", ["graphics"]),
        ("<devices>", f"<devices>{DATA_DISK}{NIC}", ["disks.data", "nics.52:54:00:00:00:02"]),
        # Each of them is a change that the running machine cannot take.
        (
            "<target dev='vda'",
            "<driver name='qemu' cache='none' io='native'/><target dev='vda'",
            [
                "disks.system.io",
                "disks.system.cache",
            ],
        ),
        ("<target dev='vda' bus='virtio'/>", "<target dev='vda' bus='virtio'/><readonly/>", ["disks.system.readonly"]),
        (
            "<source bridge='br0'/>",
            "<source bridge='br0'/><mtu size='9000'/><driver queues='4'/>",
            [
                "nics.eth0.mtu",
                "nics.eth0.queues",
            ],
        ),
        ("<source bridge='br0'/>", "<source bridge='br0'/><model type='e1000'/>", ["nics.eth0.model"]),
        ("<source bridge='br0'/>", "<source bridge='br1'/>", ["nics.eth0.source"]),
        ("<interface type='bridge'>", "<interface type='direct'>", ["nics.eth0.type"]),
        ("<serial type='pty'>", "<serial type='tcp'><source mode='bind' host='::1' service='5001'/>", ["serials"]),
        ("</serial>", "</serial><serial type='pty'><target port='1'/></serial>", ["serials"]),
        ("</console>", "</console><console type='pty'><target type='virtio' port='1'/></console>", ["consoles"]),
        ("listen='127.0.0.1'/>", "><listen type='address' address='10.0.0.1'/></graphics>", ["graphics"]),
        ("port='-1' autoport='yes'", "port='5999' autoport='no'", ["graphics"]),
        ("<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>", "", ["graphics"]),
        ("heads='1'", "heads='2'", ["video"]),
        ("<vcpu placement='static'", "<vcpu placement='static' cpuset='0'", ["vcpus"]),
        ("<cpu mode='host-model'", "<cpu mode='host-passthrough'", ["cpu"]),
        ("<devices>", "<devices><input type='keyboard' bus='usb'/>", ["xml"]),
    ],
)
def test_only_what_waits_is_named(old: str, new: str, pending: list[str]) -> None:
    assert pending_of(parse_xml(LIVE), parse_xml(DEFINED.replace(old, new, 1) if old else DEFINED)) == pending


def test_what_is_defined_no_more_waits_to_go() -> None:
    live = LIVE.replace("<devices>", f"<devices>{DATA_DISK}{NIC}")
    assert pending_of(parse_xml(live), parse_xml(DEFINED)) == ["disks.data", "nics.52:54:00:00:00:02"]


# What libvirt fills in: the bridge and port of a network, the address and the socket that qemu.conf says, ports.
FILLED_IN = (
    (
        "<interface type='network'><mac address='52:54:00:00:00:01'/><source network='lan'/></interface>",
        "<interface type='bridge'><mac address='52:54:00:00:00:01'/><source network='lan' portid='1' bridge='virbr1'/>"
        "<vlan><tag id='5'/></vlan><target dev='vnet0'/><model type='virtio'/><mtu size='1450'/><alias name='net0'/>"
        "</interface>",
    ),
    (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/x.qcow2'/>"
        "<target dev='vda' bus='virtio'/></disk>",
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/x.qcow2' index='2'/>"
        "<backingStore type='file' index='1'><format type='raw'/><source file='/i'/></backingStore>"
        "<target dev='vda' bus='virtio'/><alias name='d'/><address type='pci' bus='0x04'/></disk>",
    ),
    (
        "<serial type='pty'><target type='isa-serial' port='0'/></serial>"
        "<console type='pty'><target type='virtio' port='1'/></console>",
        "<serial type='pty'><source path='/dev/pts/1'/><target type='isa-serial' port='0'/><alias name='s'/></serial>"
        "<console type='pty' tty='/dev/pts/2'><source path='/dev/pts/2'/><target type='virtio' port='1'/></console>",
    ),
    (
        "<graphics type='vnc' port='-1' autoport='yes'><listen type='address'/></graphics>",
        "<graphics type='vnc' port='5900' autoport='yes' listen='0.0.0.0'><listen type='address' address='0.0.0.0'/>"
        "</graphics>",
    ),
    (
        "<graphics type='vnc' port='-1' autoport='yes'><listen type='address'/></graphics>",
        "<graphics type='vnc' socket='/s'><listen type='socket' socket='/s'/></graphics>",
    ),
    (
        "<graphics type='spice' autoport='yes'><listen type='network' network='lan'/></graphics>",
        "<graphics type='spice' port='5901' tlsPort='5902' autoport='yes' listen='10.0.0.1'>"
        "<listen type='network' address='10.0.0.1' network='lan'/></graphics>",
    ),
    (
        "<video><model type='qxl' ram='65536' heads='1'/></video>",
        "<video><model type='qxl' ram='131072' vram='65536' vgamem='16384' heads='1' primary='yes'/></video>",
    ),
)


@pytest.mark.parametrize(("defined", "live"), FILLED_IN)
def test_what_libvirt_fills_in_waits_for_nothing(defined: str, live: str) -> None:
    domain = "<domain type='kvm'><devices>{}</devices></domain>"
    assert pending_of(parse_xml(domain.format(live)), parse_xml(domain.format(defined))) == []


# Another one, whose options are the rarer ones; and what QEMU makes of it: memory in whole MiB, where devices are, and
# what libvirt fills in. A USB device is somewhere, and more has been attached than the definition has.
TUNED = """
<domain type='kvm'><name>db1</name>
  <memory unit='KiB'>1048577</memory>
  <memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>
  <vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='1'/></cputune>
  <numatune><memory mode='strict' nodeset='0'/></numatune><os><kernel>/vmlinuz</kernel></os>
  <features><acpi/><hyperv mode='host-model'><relaxed state='on'/></hyperv></features>
  <cpu mode='maximum'><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='hpet' present='no'/></clock>
  <on_crash>destroy</on_crash>
  <devices>
    <video><model type='virtio'/></video>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend><address type='pci' bus='0x05'/></rng>
    <watchdog model='i6300esb' action='reset'><alias name='ua-dog'/></watchdog>
    <filesystem type='mount' accessmode='passthrough'><driver type='virtiofs'/><source dir='/srv'/><target dir='srv'/>
    </filesystem>
    <hostdev mode='subsystem' type='usb'><source><vendor id='0x046d'/><product id='0xc52b'/></source></hostdev>
  </devices></domain>
"""
MADE_OF_IT = (
    ("1048577", "1049600"),
    (
        "<vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='1'/>",
        "<vcpupin vcpu='1' cpuset='1'/><vcpupin vcpu='0' cpuset='0'/>",
    ),
    ("mode='host-model'", "mode='custom'"),
    ("<acpi/>", "<acpi/><smm state='on'/>"),
    ("<cpu mode='maximum'>", "<cpu mode='custom' match='exact'><model>EPYC</model>"),
    ("<timer name='rtc'", "<timer name='kvmclock' present='yes'/><timer name='rtc'"),
    ("</rng>", "<alias name='rng0'/></rng>"),
    ("bus='0x05'", "bus='0x07'"),
    ("ua-dog", "watchdog0"),
    ("<driver type='virtiofs'/>", "<driver type='virtiofs'/><binary path='/usr/libexec/virtiofsd'/>"),
    ("<product id='0xc52b'/>", "<product id='0xc52b'/><address bus='1' device='3'/>"),
    (
        "<devices>",
        "<devices><filesystem type='mount' accessmode='mapped'><source dir='/mnt'/><target dir='mnt'/></filesystem>",
    ),
)


@pytest.mark.parametrize(
    ("old", "new", "pending"),
    [
        ("", "", []),
        ("1048577", "1049601", ["memory"]),
        ("page size='2048'", "page size='1048576'", ["memory"]),
        ("<page size='2048' unit='KiB'/>", "", ["memory"]),
        ("</memoryBacking>", "<locked/></memoryBacking>", ["memory"]),
        ("cpuset='1'", "cpuset='0'", ["cpu"]),
        ("cores='2'", "cores='4'", ["cpu"]),
        ("nodeset='0'", "nodeset='1'", ["numatune"]),
        ("<acpi/>", "", ["features"]),
        ("relaxed state='on'", "relaxed state='off'", ["features"]),
        ("offset='utc'", "offset='localtime'", ["clock"]),
        ("name='hpet' present='no'", "name='hpet' present='yes'", ["clock"]),
        ("<on_crash>destroy", "<on_crash>preserve", ["events"]),
        ("/vmlinuz", "/vmlinuz-6", ["boot"]),
        ("type='virtio'/></video>", "type='vga'/></video>", ["video"]),
        ("version='2.0'", "version='1.2'", ["tpm"]),
        ("/dev/urandom", "/dev/random", ["rng"]),
        ("<watchdog model='i6300esb' action='reset'><alias name='ua-dog'/></watchdog>", "", ["watchdog"]),
        ("dir='/srv'/>", "dir='/home'/>", ["shared_folders"]),
        ("dir='srv'/>", "dir='srv'/><readonly/>", ["shared_folders"]),
        ("0xc52b", "0xc52c", ["host_devices"]),
    ],
)
def test_what_libvirt_and_qemu_make_of_a_definition_waits_for_nothing(old: str, new: str, pending: list[str]) -> None:
    live = TUNED
    for defined, made in MADE_OF_IT:
        assert defined in live
        live = live.replace(defined, made, 1)
    assert pending_of(parse_xml(live), parse_xml(TUNED.replace(old, new, 1))) == pending


def test_records_say_it_on_request(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        (record,) = observe_machines(conn, addresses=False, pending=pending_of, names=["web1"])
        assert (record["pending"], record["errors"][1:]) == ([], [])
        defined = parse_xml(conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        need(defined, "vcpu").text = "7"
        conn.defineXML(etree.tostring(defined, encoding="unicode"))
        asked = observe_machines(conn, addresses=False, pending=pending_of)
        (unasked,) = observe_machines(conn, addresses=False, names=["web1"])
    assert {record["name"]: record["pending"] for record in asked} == {"db1": [], "half": [], "web1": ["vcpus"]}
    assert unasked["pending"] is None
