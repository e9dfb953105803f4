# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definition that a stranger could have written: what gives away something of the hypervisor is refused; what
virt_init makes, and what others make that reaches nothing of it, is not."""

from __future__ import annotations

import re
import typing as t

import libvirt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.backup.harmless import require_harmless
from ansible_collections.brine.virt.plugins.module_utils._model.backup.restored_domain import NewDisk, restored_domain
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import Field
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.xml.devices import Placed, disk_targets
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.domain import GuestPlatform, domain_xml
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import recorded
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.strategies import checked
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.xml.test_domain import SPECS
from ansible_collections.brine.virt.tests.unit.plugins.modules.test_virt_init_options import PROFILES, VALUES, base

# As libvirt 9.0 writes the definition of a machine that virt_init has made.
XML = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>web1</name><uuid>4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10</uuid>
  <metadata><x xmlns='urn:somebody'>/etc/shadow</x></metadata>
  <memory unit='KiB'>1048576</memory><currentMemory unit='KiB'>1048576</currentMemory>
  <vcpu placement='static'>2</vcpu>
  <resource><partition>/machine</partition></resource>
  <os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <firmware><feature enabled='yes' name='enrolled-keys'/><feature enabled='yes' name='secure-boot'/></firmware>
    <loader readonly='yes' secure='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS.fd'>/var/lib/libvirt/qemu/nvram/web1_VARS.fd</nvram></os>
  <features><acpi/><apic/><smm state='on'/></features>
  <cpu mode='host-model' check='partial'/>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' discard='unmap'/><source file='/old.qcow2'/>
      <target dev='vda' bus='virtio'/><serial>system</serial><boot order='1'/>
      <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></disk>
    <controller type='usb' index='0' model='qemu-xhci'><address type='pci' bus='0x01' slot='0x00'/></controller>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'><model name='pcie-root-port'/>
      <target chassis='1' port='0x10'/></controller>
    <controller type='virtio-serial' index='0'/>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/><model type='virtio'/></interface>
    <serial type='pty'><log file='/var/log/libvirt/qemu/web1-serial.log' append='on'/>
      <target type='isa-serial' port='0'><model name='isa-serial'/></target></serial>
    <console type='pty'><log file='/var/log/libvirt/qemu/web1-serial.log' append='on'/>
      <target type='serial' port='0'/></console>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/>
      <address type='virtio-serial' controller='0' bus='0' port='1'/></channel>
    <input type='tablet' bus='usb'><address type='usb' bus='0' port='1'/></input>
    <input type='mouse' bus='ps2'/><input type='keyboard' bus='ps2'/>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'><source type='dir' path='/x'/></backend></tpm>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1' passwd='x'>
      <listen type='address' address='127.0.0.1'/></graphics>
    <audio id='1' type='none'/>
    <video><model type='virtio' heads='1' primary='yes'/></video>
    <watchdog model='itco' action='reset'/>
    <memballoon model='virtio'><address type='pci' bus='0x03' slot='0x00'/></memballoon>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>"""
NIC = "type='bridge'><mac"


def look_at(xml: str, name: str = "web1") -> None:
    """As virt_restore does it."""
    domain = parse_xml(xml)
    targets = [target.get("dev", "") for target in domain.iterfind("devices/disk/target")]
    disks = {target: NewDisk(DiskSource("file", f"/p/{target}"), "qcow2") for target in targets}
    require_harmless(restored_domain(domain, name, None, disks).root, "domain.xml")


def refusal(xml: str, name: str = "web1") -> str:
    """What it says against a definition; empty where it takes it."""
    try:
        look_at(xml, name)
    except InputError as exc:
        words = str(exc)
        assert words.startswith("the definition in domain.xml ") and "trust_definition: true" in words
        return words[len("the definition in domain.xml ") : words.index(", which may lead to ")]
    return ""


def test_an_ordinary_definition_is_harmless() -> None:
    assert refusal(XML) == ""
    assert refusal(XML, "web2") == ""


DEVICE = "</devices>"


@pytest.mark.parametrize(
    ("where", "more", "words"),
    [
        (DEVICE, "<hostdev mode='subsystem'/>", "has <hostdev>"),
        (DEVICE, "<filesystem><source dir='/'/></filesystem>", "has <filesystem>"),
        (DEVICE, "<shmem name='x'/>", "has <shmem>"),
        (DEVICE, "<vsock><cid auto='yes'/></vsock>", "has <vsock>"),
        # A path that nobody names is libvirt's: /dev/tpm0, /dev/dsp, the database in /etc/pki/nssdb.
        (DEVICE, "<tpm><backend type='passthrough'/></tpm>", "has type=passthrough in <backend> of <tpm>"),
        (DEVICE, "<tpm><backend type='external'/></tpm>", "has type=external in <backend> of <tpm>"),
        (DEVICE, "<smartcard mode='host'/>", "has mode=host in <smartcard>"),
        (DEVICE, "<smartcard mode='host-certificates'/>", "has mode=host-certificates in <smartcard>"),
        (DEVICE, "<smartcard mode='passthrough'/>", "has <smartcard> without type"),
        (DEVICE, "<audio id='7' type='oss'/>", "has type=oss in <audio>"),
        (DEVICE, "<audio id='7' type='alsa'><input dev='hw:0,0'/></audio>", "has type=alsa in <audio>"),
        (DEVICE, "<audio id='7' type='none'><input dev='x'/></audio>", "has <input> of <audio>"),
        (DEVICE, "<graphics type='egl-headless'/>", "has type=egl-headless in <graphics>"),
        (DEVICE, "<graphics type='sdl' xauth='root/.Xauthority'/>", "has type=sdl in <graphics>"),
        (DEVICE, "<graphics type='dbus'/>", "has type=dbus in <graphics>"),
        (DEVICE, "<graphics type='spice'><gl enable='yes'/></graphics>", "has enable=yes in <gl> of <graphics>"),
        (DEVICE, "<graphics type='vnc' socket='run/x'/>", "has socket=run/x in <graphics>"),
        (DEVICE, "<graphics type='vnc' keymap='../../x'/>", "has keymap=../../x in <graphics>"),
        (DEVICE, "<video><driver name='vhostuser'/></video>", "has name=vhostuser in <driver> of <video>"),
        # What reaches the uplink itself, the loopback address, a tap device of somebody else.
        (
            DEVICE,
            "<interface type='direct'><source dev='host0' mode='passthrough'/></interface>",
            "has mode=passthrough in <source> of <interface>",
        ),
        (DEVICE, "<interface type='user'/>", "has type=user in <interface>"),
        (DEVICE, "<interface><mac address='52:54:00:00:00:02'/></interface>", "has <interface> without type"),
        (DEVICE, "<interface type='hostdev'/>", "has type=hostdev in <interface>"),
        (NIC, "type='bridge'><script path='reboot'/><mac", "has <script> of <interface>"),
        (NIC, "type='bridge'><backend tap='dev/sda'/><mac", "has <backend> of <interface>"),
        (NIC, "type='bridge'><rom file='etc/shadow'/><mac", "has file=etc/shadow in <rom> of <interface>"),
        (NIC, "type='bridge'><target dev='tun0'/><mac", "has dev=tun0 in <target> of <interface>"),
        # libvirtd may listen there; without a mode it connects.
        (
            DEVICE,
            "<serial type='tcp'><source mode='connect' host='127.0.0.1' service='16509'/></serial>",
            "has mode=connect in <source> of <serial>",
        ),
        (
            DEVICE,
            "<serial type='tcp'><source host='127.0.0.1' service='16509'/></serial>",
            "has <source> of <serial> that connects to 127.0.0.1:16509",
        ),
        (DEVICE, "<serial type='udp'><source host='127.0.0.1'/></serial>", "has type=udp in <serial>"),
        (DEVICE, "<serial type='unix'><source path='/run/a'/></serial>", "has type=unix in <serial>"),
        (DEVICE, "<channel type='unix'><source path='run/a'/></channel>", "has path=run/a in <source> of <channel>"),
        (
            DEVICE,
            "<channel type='unix'><source mode='connect'/></channel>",
            "has mode=connect in <source> of <channel>",
        ),
        (DEVICE, "<redirdev bus='usb' type='tcp'/>", "has type=tcp in <redirdev>"),
        (DEVICE, "<rng model='virtio'><backend model='egd'/></rng>", "has model=egd in <backend> of <rng>"),
        ("/dev/urandom", "/dev/sda", "names /dev/sda in <backend> of <rng>"),
        # virtlogd writes there what the guest says, as root; another machine's log is that machine's.
        (
            DEVICE,
            "<serial type='file'><source path='/var/log/libvirt/qemu/a1-serial.log'/></serial>",
            "has path=/var/log/libvirt/qemu/a1-serial.log in <source> of <serial>",
        ),
        (
            DEVICE,
            "<serial type='file'><source path='/etc/web1-serial.log'/></serial>",
            "has path=/etc/web1-serial.log in <source> of <serial>",
        ),
        (
            "/var/log/libvirt/qemu/web1-serial.log",
            "/var/log/libvirt/../../web1-serial.log",
            "has file=/var/log/libvirt/../../web1-serial.log in <log> of <serial>",
        ),
        (
            "<serial type='pty'>",
            "<serial type='pty'><source path='/var/log/libvirt/qemu/web1-serial.log'/>",
            "has path=/var/log/libvirt/qemu/web1-serial.log in <source> of <serial>",
        ),
        (DEVICE, "<input type='evdev'><source dev='dev/input/event0'/></input>", "has type=evdev in <input>"),
        ("<disk type", "<disk rawio='yes' type", "has rawio=yes in <disk>"),
        ("</os>", "<kernel>etc/shadow</kernel>", "names etc/shadow in <kernel> of <os>"),
        ("</os>", "<kernel>/usr/share/../../etc/shadow</kernel>", "names /usr/share/../../etc/shadow in <kernel>"),
        ("</os>", "<smbios mode='host'/>", "has mode=host in <smbios> of <os>"),
        ("</os>", "<acpi><table type='slic'>/etc/shadow</table></acpi>", "has <acpi> of <os>"),
        ("readonly='yes'", "readonly='no'", "has <loader> of <os> that is not readonly"),
        ("readonly='yes' secure='yes' type='pflash'", "readonly='no'", "has <loader> of <os> that is not readonly"),
        ("readonly='yes' ", "", "has <loader> of <os> that is not readonly"),
        ("/usr/share/OVMF/OVMF_VARS.fd", "/etc/shadow", "has template=/etc/shadow in <nvram> of <os>"),
        (">/machine<", ">/system.slice<", "names /system.slice in <partition> of <resource>"),
        ("offset='utc'", "offset='timezone' timezone='/etc/x'", "has timezone=/etc/x in <clock>"),
        ("</domain>", "<seclabel type='none'/>", "has <seclabel>"),
        ("</domain>", "<qemu:commandline/>", "has arguments for QEMU (qemu:commandline)"),
        ("</domain>", "<sysinfo type='fwcfg'><entry name='a' file='etc/shadow'/></sysinfo>", "has type=fwcfg in"),
        # What stands behind a comment, or in pieces, is the text for libvirt all the same.
        ("</os>", "<kernel><!-- -->/etc/shadow</kernel>", "names /etc/shadow in <kernel>"),
        ("</os>", "<initrd>etc<?a b?>/shadow</initrd>", "names etc/shadow in <initrd>"),
        ("/dev/urandom", "<!-- -->/dev/sda", "names /dev/sda in <backend>"),
        # With a namespace it is the same attribute for libvirt, and may be the same element.
        ("<disk type", "<disk x:type='block' xmlns:x='urn:x' type", "has {urn:x}type=block in <disk>"),
        ("<driver", "<x:source file='/a' xmlns:x='urn:x'/><driver", "has <{urn:x}source> of <disk>"),
    ],
)
def test_what_leads_to_the_hypervisor_is_refused(where: str, more: str, words: str) -> None:
    assert where in XML
    xml = XML.replace(where, f"{more}{where}" if where.startswith("</") else more, 1)
    assert refusal(xml).startswith(words)


@pytest.mark.parametrize(
    "device",
    [
        "<serial type='tcp'><source mode='bind' host='127.0.0.1' service='4555'/><protocol type='telnet'/></serial>",
        "<serial type='file'><source path='/var/log/libvirt/qemu/web1-serial.log'/></serial>",
        "<interface type='direct'><source dev='eth1' mode='bridge'/></interface>",
        "<interface type='direct'><source dev='eth1'/></interface>",
        "<interface type='network'><source network='default' portgroup='p'/><target dev='vnet7'/></interface>",
        "<redirdev bus='usb' type='spicevmc'><address type='usb' bus='0' port='2'/></redirdev>",
        "<graphics type='spice' autoport='yes'><listen type='none'/><image compression='off'/></graphics>",
        "<audio id='1' type='spice'/>",
    ],
)
def test_what_reaches_only_what_is_for_machines_is_harmless(device: str) -> None:
    assert refusal(XML.replace(DEVICE, device + DEVICE)) == ""


def made(spec: dict[str, t.Any], kind: str = "kvm", name: str = "web1") -> str:
    """The definition that virt_init makes of a machine."""
    machine = read_machine({"name": name, "vcpus": 1, "memory": 512, **spec}, **PROFILES)
    targets = disk_targets(machine.disks)
    disks = [
        Placed(disk, targets[disk.name], DiskSource("file", f"/pool/{disk.name}"), disk.format or "qcow2")
        for disk in machine.disks
    ]
    host = GuestPlatform(kind, "x86_64", "q35", {"mode": "host-model"}, "/var/log/libvirt/qemu")
    if kind == "test":
        host = GuestPlatform(kind, "i686", None, {}, "/var/log/libvirt/qemu")
    return domain_xml(machine, notes=MachineNotes(), host=host, disks=disks, seed=DiskSource("file", "/pool/seed"))


# What virt_init itself gives away, as it is asked to.
GIVEN_AWAY = {
    "shared_folders": "has <filesystem>",
    "host_devices": "has <hostdev>",
}


@pytest.mark.parametrize("option", sorted(VALUES))
def test_what_every_option_of_virt_init_makes_is_harmless(option: str) -> None:
    for value in VALUES[option]:
        words = GIVEN_AWAY.get(option, "")
        if option in ("serials", "consoles") and value[0]["type"] == "unix":
            words = f"has type=unix in <{option[:-1]}>"
        assert refusal(made({**base(option), option: value})) == words


@pytest.mark.parametrize("spec", SPECS)
def test_what_virt_init_makes_of_a_description_is_harmless(spec: dict[str, t.Any]) -> None:
    words = refusal(made(spec))
    assert words in {"", *GIVEN_AWAY.values(), "names /k in <kernel> of <os>"}, words


def test_what_libvirt_writes_of_machines_that_virt_init_makes_is_harmless(node_uri: str) -> None:
    """The definition as libvirt gives it to a backup."""
    flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
    with open_connection(node_uri) as conn:
        for option, values in VALUES.items():
            if option in GIVEN_AWAY or option in ("serials", "consoles", "machine_type"):
                continue
            for value in values:
                domain = conn.defineXML(made({**base(option), option: value}, "test", "new1"))
                # A name that only the test driver gives.
                text = re.sub("<target dev='testnet[0-9]+'/>", "", domain.XMLDesc(flags))
                domain.undefine()
                assert refusal(text, "new1") == "", (option, value)


def fields_of(*tables: tuple[str, tuple[Field, ...]]) -> list[t.Any]:
    return [
        pytest.param(path, field, id=f"{path or 'machine'}-{field.key}") for path, table in tables for field in table
    ]


def gives_away(path: str, key: str, value: t.Any) -> bool:
    """Whether an option of virt_init opens something of the hypervisor for the guest, with this value."""
    if path == "devices/interface":
        return key == "mode" and value == "passthrough"
    if key in GIVEN_AWAY:
        return bool(value)
    if key in ("serials", "consoles"):
        return any(
            row["type"] in ("unix", "udp", "dev", "file")
            or row.get("mode") == "connect"
            or {"path", "log"} & row.keys()
            for row in value
        )
    if key == "boot":
        return "kernel" in value or "initrd" in value
    if key == "clock":
        return value.get("timezone", "").startswith("/") or "//" in value.get("timezone", "")
    return key == "rng" and isinstance(value, dict) and "source" in value


@pytest.mark.medium
@pytest.mark.parametrize(
    ("path", "field"), fields_of(("", HARDWARE), ("devices/disk", DISK_OPTIONS), ("devices/interface", NIC_OPTIONS))
)
@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_any_value_of_an_option_is_harmless_unless_it_gives_something_away(
    path: str, field: Field, data: st.DataObject
) -> None:
    value = data.draw(checked(field))
    domain = parse_xml(XML)
    home = domain.find(path) if path else domain
    assert home is not None
    field.write(home, value)
    words = refusal(etree.tostring(domain, encoding="unicode"))
    if not gives_away(path, field.key, value):
        assert words == "", value
    elif field.key not in ("serials", "consoles", "boot", "rng"):
        # Of the others, some paths lead to nothing but firmware, entropy and the machine's own log.
        assert words != "", value


@pytest.mark.medium
def test_what_virt_install_makes_is_harmless_unless_it_gives_something_away() -> None:
    """Each machine that is refused has its reason here."""
    found = {arguments: etree.tostring(xml, encoding="unicode") for arguments, xml in recorded().items()}
    refused = {arguments: refusal(xml, "machine") for arguments, xml in found.items()}
    assert {words for words in refused.values() if words} == {
        "has <filesystem>",
        "has <hostdev>",
        "has <vsock>",
        *(
            f"has type={kind} in <interface>"
            for kind in (
                *("client", "ethernet", "hostdev", "internal", "mcast", "server", "udp", "user", "vdpa", "vhostuser"),
            )
        ),
        *(f"has type={kind} in <graphics>" for kind in ("dbus", "egl-headless", "sdl")),
        "has enable=yes in <gl> of <graphics>",
        "has path=/tmp/out in <source> of <parallel>",
        "has path=/tmp/serial in <source> of <serial>",
        "has type=passthrough in <backend> of <tpm>",
        "has type=udp in <serial>",
        "has model=egd in <backend> of <rng>",
        "names /boot/vmlinuz in <kernel> of <os>",
        "names /here in <partition> of <resource>",
    }
