# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What devices are connected to, of every type that libvirt has."""

from __future__ import annotations

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.attachments import (
    agent_is_connected,
    disk_source,
    host_device,
    integer,
    nic_source,
    nic_type,
    start_files,
    ties_of_domain,
)

PCI = "<address type='pci' domain='0x0000' bus='0x03' slot='0x10' function='0x1'/>"


@pytest.mark.parametrize(
    ("kind", "source", "text"),
    [
        ("bridge", "<source bridge='br0'/>", "br0"),
        ("network", "<source network='default' bridge='virbr0' portgroup='p'/>", "default"),
        ("direct", "<source dev='eth0' mode='bridge'/>", "eth0"),
        ("internal", "<source name='inner'/>", "inner"),
        ("hostdev", f"<source>{PCI}</source>", "0000:03:10.1"),
        ("hostdev", "<source/>", None),
        ("vdpa", "<source dev='/dev/vhost-vdpa-0'/>", "/dev/vhost-vdpa-0"),
        ("vhostuser", "<source type='unix' path='/run/v.sock' mode='server'/>", "/run/v.sock"),
        ("udp", "<source address='192.0.2.1' port='5558'><local address='::1' port='1'/></source>", "192.0.2.1:5558"),
        ("mcast", "<source address='230.0.0.1' port='5558'/>", "230.0.0.1:5558"),
        ("client", "<source address='192.0.2.1' port='5558'/>", "192.0.2.1:5558"),
        ("server", "<source port='5558'/>", ":5558"),
        ("vds", "<source switchid='s' portid='7' portgroupid='dvportgroup-1' connectionid='1'/>", "dvportgroup-1"),
        ("user", "<source dev='eth0'/>", "eth0"),
        ("user", "", None),
        ("ethernet", "<source><ip address='192.0.2.1'/></source>", None),
        ("null", "", None),
        ("of the next version", "<source dev='x'/>", None),
    ],
)
def test_what_a_nic_is_plugged_into(kind: str, source: str, text: str | None) -> None:
    assert nic_source(etree.fromstring(f"<interface type='{kind}'>{source}</interface>")) == text


@pytest.mark.parametrize("kind", ["network", "bridge", "direct"])
def test_a_running_nic_is_on_the_network_that_it_was_given(kind: str) -> None:
    """libvirt writes what the network is made of: its bridge, or the device below a macvtap."""
    source = "<source network='lan' portgroup='dmz' portid='1' bridge='br0' dev='eth1' mode='bridge'/>"
    nic = etree.fromstring(f"<interface type='{kind}'>{source}</interface>")
    assert (nic_type(nic), nic_source(nic)) == ("network", "lan")


@pytest.mark.parametrize(
    ("kind", "source", "text"),
    [
        ("file", "<source file='/a'/>", "/a"),
        ("block", "<source dev='/dev/sda'/>", "/dev/sda"),
        ("dir", "<source dir='/srv'/>", "/srv"),
        ("volume", "<source pool='p' volume='v'/>", "p/v"),
        ("network", "<source protocol='rbd' name='pool/image'/>", "rbd:pool/image"),
        ("network", "<source protocol='nbd'/>", "nbd:"),
        ("nvme", f"<source type='pci' managed='yes' namespace='1'>{PCI}</source>", "nvme:0000:03:10.1/1"),
        ("vhostuser", "<source type='unix' path='/run/b.sock'/>", "/run/b.sock"),
        ("vhostvdpa", "<source dev='/dev/vhost-vdpa-0'/>", "/dev/vhost-vdpa-0"),
        ("file", "<source startupPolicy='optional'/>", None),
    ],
)
def test_where_the_bytes_of_a_disk_are(kind: str, source: str, text: str | None) -> None:
    assert disk_source(etree.fromstring(f"<disk type='{kind}'>{source}</disk>")) == text


def test_a_drive_without_a_medium_has_no_source() -> None:
    assert disk_source(etree.fromstring("<disk type='file'/>")) is None


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (PCI, "0000:03:10.1"),
        ("<address domain='0' bus='3' slot='020' function='1'/>", "0000:03:10.1"),
        ("<address bus='0x1'/>", "0000:01:00.0"),
        ("<address type='usb' bus='1' device='3'/>", "001:003"),
        ("<address bus='somewhere'/>", None),
        ("", None),
    ],
)
def test_a_device_of_the_hypervisor(address: str, text: str | None) -> None:
    assert host_device(etree.fromstring(f"<source>{address}</source>")) == text


@pytest.mark.parametrize(("text", "number"), [("0x1F", 31), ("037", 31), ("31", 31), ("0", 0), (None, 0), (" 7 ", 7)])
def test_numbers_are_read_as_libvirt_reads_them(text: str | None, number: int) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("devices", "connected"),
    [
        ("<channel><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>", True),
        ("<channel><target type='virtio' name='org.qemu.guest_agent.0' state='disconnected'/></channel>", False),
        ("<channel><target type='virtio' name='org.qemu.guest_agent.0'/></channel>", False),
        ("<channel><target type='virtio' name='com.redhat.spice.0' state='connected'/></channel>", False),
        ("", False),
    ],
)
def test_the_agent_is_connected_when_the_live_xml_says_so(devices: str, connected: bool) -> None:
    assert agent_is_connected(etree.fromstring(f"<domain><devices>{devices}</devices></domain>")) is connected


FILE = "a file of the hypervisor"


@pytest.mark.parametrize(
    ("xml", "tie"),
    [
        ("<devices><hostdev/></devices>", "a device of the hypervisor"),
        ("<devices><filesystem/></devices>", "a folder of the hypervisor"),
        ("<devices><interface type='hostdev'/></devices>", "a network card of the hypervisor"),
        ("<devices><interface type='vdpa'/></devices>", "a network card of the hypervisor"),
        ("<devices><tpm><backend type='passthrough'/></tpm></devices>", "the TPM of the hypervisor"),
        ("<devices><tpm><backend type='external'/></tpm></devices>", "a TPM that a program of the hypervisor emulates"),
        ("<devices><tpm><backend type='emulator'/></tpm></devices>", None),
        (
            "<devices><memory model='nvdimm'><source><path>/pmem</path></source></memory></devices>",
            f"persistent memory in {FILE}",
        ),
        (
            "<devices><memory model='virtio-pmem'><source><path>/pmem</path></source></memory></devices>",
            f"persistent memory in {FILE}",
        ),
        ("<devices><memory model='dimm'><source><nodemask>1</nodemask></source></memory></devices>", None),
        (
            "<devices><pstore backend='acpi-erst'><path>/p</path></pstore></devices>",
            f"a store for crash reports in {FILE}",
        ),
        ("<devices><shmem name='s'/></devices>", "memory that it shares with others of the hypervisor"),
        ("<devices><smartcard mode='host'/></devices>", "a smart card of the hypervisor"),
        ("<devices><smartcard mode='host-certificates'/></devices>", "a smart card of the hypervisor"),
        ("<devices><smartcard mode='passthrough' type='spicevmc'/></devices>", None),
        ("<devices><input type='passthrough'/></devices>", "an input device of the hypervisor"),
        (
            "<devices><input type='evdev'><source dev='/dev/input/event1'/></input></devices>",
            "an input device of the hypervisor",
        ),
        ("<devices><input type='tablet'/></devices>", None),
        (
            "<devices><graphics type='egl-headless'><gl rendernode='/dev/dri/renderD128'/></graphics></devices>",
            "a graphics card of the hypervisor",
        ),
        (
            "<os><nvram type='block'><source dev='/dev/x'/></nvram></os>",
            "the variables of its UEFI on a device of the hypervisor",
        ),
        ("<os><nvram type='network'/></os>", None),
        (
            "<launchSecurity type='sev'><session>x</session></launchSecurity>",
            "a launch session with the processor of the hypervisor",
        ),
        ("<launchSecurity type='sev'><policy>0x1</policy></launchSecurity>", None),
        ("<devices><rng><backend model='random'>/dev/urandom</backend></rng></devices>", None),
        (
            "<devices><rng><backend model='egd' type='unix'><source mode='connect'/></backend></rng></devices>",
            "a socket of the hypervisor",
        ),
        ("<devices><audio type='file' path='/a.wav'/></devices>", None),
        ("<devices><panic model='isa'/></devices>", None),
        ("<os><kernel>/k</kernel></os>", None),
    ],
)
def test_what_ties_a_machine_to_its_hypervisor(xml: str, tie: str | None) -> None:
    assert ties_of_domain(etree.fromstring(f"<domain>{xml}</domain>")) == ([tie] if tie else [])


@pytest.mark.parametrize("device", ["serial", "parallel", "console", "channel", "smartcard", "redirdev"])
@pytest.mark.parametrize(
    ("attributes", "tie"),
    [
        ("type='dev'><source path='/dev/ttyS0'/>", "a character device of the hypervisor"),
        ("type='pipe'><source path='/p'/>", "a pipe of the hypervisor"),
        ("type='unix'><source mode='connect' path='/s'/>", "a socket of the hypervisor"),
        ("type='unix'><source mode='bind' path='/s'/>", None),
        ("type='file'><source path='/log'/>", None),
        ("type='pty'><log file='/log'/>", None),
    ],
)
def test_what_a_line_ends_in(device: str, attributes: str, tie: str | None) -> None:
    domain = etree.fromstring(f"<domain><devices><{device} {attributes}</{device}></devices></domain>")
    assert ties_of_domain(domain) == ([tie] if tie else [])


@pytest.mark.parametrize(
    ("xml", "found"),
    [
        ("<os><kernel>/k</kernel><initrd>/i</initrd></os>", [("kernel", "/k"), ("initial RAM disk", "/i")]),
        ("<os><dtb>/d</dtb></os>", [("device tree", "/d")]),
        ("<os><shim>/s</shim></os>", [("shim", "/s")]),
        ("<os><acpi><table type='slic'>/t</table></acpi></os>", [("ACPI table", "/t")]),
        (
            "<sysinfo type='fwcfg'><entry name='a' file='/f'/><entry name='b'>x</entry></sysinfo>",
            [("firmware configuration", "/f")],
        ),
        ("<devices><interface><rom file='/r'/></interface></devices>", [("boot ROM", "/r")]),
        ("<devices><interface><rom enabled='no'/></interface></devices>", []),
    ],
)
def test_the_files_that_a_start_needs(xml: str, found: list[tuple[str, str]]) -> None:
    assert start_files(etree.fromstring(f"<domain>{xml}</domain>")) == found
