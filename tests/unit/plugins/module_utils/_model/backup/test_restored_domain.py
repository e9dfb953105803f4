# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of a restored machine: its disks and its identity."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.backup.restored_domain import (
    NewDisk,
    renewed_notes,
    restored_domain,
    with_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    NicNote,
    notes_to_element,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

UUID = "4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10"
NEW = "11111111-1d52-4f1f-9a1c-7b2f5a3d6e10"
MAC = "52:54:00:00:00:01"
DISKS = {"vda": NewDisk(DiskSource("file", "/p/new.qcow2"), "qcow2")}
XML = f"""
<domain type='kvm' id='7' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>web1</name><uuid>{UUID}</uuid><genid>{UUID}</genid>
  <metadata><x xmlns='urn:somebody'>/etc/shadow</x></metadata>
  <sysinfo type='smbios'><system><entry name='uuid'>{UUID}</entry></system></sysinfo>
  <resource><partition>/machine</partition></resource>
  <os><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS.fd'>/var/lib/libvirt/qemu/nvram/web1_VARS.fd</nvram></os>
  <devices>
    <emulator>/bin/sh</emulator>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/old.raw'/>
      <backingStore type='file'><source file='/base'/></backingStore><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='disk'><source file='/etc/shadow'/><target dev='vdb' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><source file='/a.iso'/><target dev='sda' bus='sata'/><readonly/></disk>
    <interface type='bridge'><mac address='{MAC}'/><source bridge='br0'/></interface>
    <serial type='pty'><log file='/var/log/libvirt/qemu/web1-serial.log'/></serial>
    <tpm model='tpm-crb'><backend type='emulator'><source type='dir' path='/x'/></backend></tpm>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>"""


def test_the_same_name_keeps_the_identity() -> None:
    result = restored_domain(parse_xml(XML), "web1", None, DISKS)
    root = result.root
    assert (root.findtext("name"), root.findtext("uuid")) == ("web1", UUID)
    assert root.find("devices/interface/mac").get("address") == MAC
    assert not result.macs


@pytest.mark.parametrize(("name", "uuid"), [("web1", None), ("web2", NEW)])
def test_a_guest_is_told_that_its_disks_are_of_an_earlier_time(name: str, uuid: str | None) -> None:
    """A domain controller would hand out again what it has handed out since, as others know already."""
    genid = restored_domain(parse_xml(XML), name, uuid, DISKS).root.find("genid")
    assert genid is not None and genid.text is None


SHARED = f"""<interface type='bridge'><mac address='52:54:00:00:00:02'/><source bridge='br0'/>
<filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.10'/><parameter name='MAC' value='{MAC}'/>
<parameter name='CTRL_IP_LEARNING' value='dhcp'/></filterref></interface>
<graphics type='vnc' port='5901' autoport='no' listen='127.0.0.1'/>
<graphics type='spice' port='5902' autoport='yes'/>
<serial type='tcp'><source mode='bind' host='127.0.0.1' service='4555'/></serial></devices>"""


def test_beside_the_other_it_does_not_have_its_addresses_and_ports() -> None:
    domain = parse_xml(XML.replace("</devices>", SHARED))
    kept = restored_domain(domain, "web1", None, DISKS)
    assert kept.root.find("devices/graphics").get("port") == "5901"
    assert len(kept.root.findall("devices/interface/filterref/parameter")) == 3
    result = restored_domain(domain, "web2", NEW, DISKS)
    found = [one.get("name") for one in result.root.findall("devices/interface/filterref/parameter")]
    assert found == ["CTRL_IP_LEARNING"]
    consoles = [(one.get("port"), one.get("autoport")) for one in result.root.findall("devices/graphics")]
    assert consoles == [(None, "yes"), ("5902", "yes")]
    assert result.lost[:4] == [
        "filter clean-traffic of a nic has no IP any more, as 192.0.2.10 is web1's",
        f"filter clean-traffic of a nic has no MAC any more, as {MAC} is web1's",
        "its console has no fixed port any more, as 5901 is web1's",
        "its serial port listens on port 4555 as that of web1 does, so only one of them can run on a hypervisor",
    ]


def test_another_name_gets_an_identity_of_its_own() -> None:
    result = restored_domain(parse_xml(XML), "web2", NEW, DISKS)
    root = result.root
    assert (root.findtext("name"), root.findtext("uuid")) == ("web2", NEW)
    assert root.findtext("sysinfo/system/entry") == NEW
    mac = root.find("devices/interface/mac").get("address")
    assert mac != MAC
    assert mac.startswith("52:54:00:")
    assert result.macs == {MAC: mac}
    assert root.find("devices/serial/log").get("file") == "/var/log/libvirt/qemu/web2-serial.log"
    notes, lost = renewed_notes(MachineNotes(nics=(NicNote("eth0", MAC.upper()),)), result.macs, "web1")
    assert notes.nics[0].mac == mac and not lost


def test_another_name_is_not_reached_where_the_machine_is() -> None:
    """The one that is still there: both have the same host keys."""
    noted = MachineNotes(
        nics=(NicNote("eth0", MAC, ("192.0.2.10/24", "2001:db8::a/64")), NicNote("eth1", "52:54:00:00:00:02")),
        variables={"ansible_host": "192.0.2.10", "port": 80},
    )
    notes, lost = renewed_notes(noted, {}, "web1")
    assert [nic.addresses for nic in notes.nics] == [(), ()] and notes.variables == {"port": 80}
    assert lost == [
        "nic eth0 is not noted with 192.0.2.10/24, 2001:db8::a/64 any more, as web1 has that",
        "variable ansible_host is gone, as 192.0.2.10 is web1's",
    ]
    assert noted.variables["ansible_host"], "the input is not changed"


@pytest.mark.parametrize(
    ("kind", "uuid", "kept"),
    [("openvswitch", NEW, False), ("802.1Qbg", NEW, False), ("midonet", NEW, True), ("openvswitch", None, True)],
)
def test_a_port_of_a_switch_is_the_machines_own(kind: str, uuid: str | None, kept: bool) -> None:
    word = "instanceid" if kind == "802.1Qbg" else "interfaceid"
    port = f"<virtualport type='{kind}'><parameters {word}='{UUID}' profileid='p'/></virtualport>"
    xml = XML.replace("<source bridge='br0'/>", f"<source bridge='br0'/>{port}")
    found = restored_domain(parse_xml(xml), "web2", uuid, DISKS).root.find("devices/interface/virtualport/parameters")
    assert dict(found.attrib) == {"profileid": "p", **({word: UUID} if kept else {})}


def test_only_what_was_restored_is_a_disk() -> None:
    result = restored_domain(parse_xml(XML), "web1", None, DISKS)
    vda, sda = result.root.findall("devices/disk")
    assert (vda.find("source").get("file"), vda.find("driver").get("type")) == ("/p/new.qcow2", "qcow2")
    assert vda.find("backingStore") is None
    assert sda.find("source") is None
    assert result.lost == [
        "disk vdb is gone, as it is not in the backup",
        "drive sda is empty, as what was in it is not in the backup",
    ]


def test_what_libvirt_chooses_is_chosen_here() -> None:
    root = restored_domain(parse_xml(XML), "web1", None, DISKS).root
    assert root.get("id") is None
    assert root.find("devices/emulator") is None
    assert root.find("devices/tpm/backend/source") is None
    assert root.find("os/nvram").text is None
    assert root.find("os/nvram").get("template") == "/usr/share/OVMF/OVMF_VARS.fd"


def test_the_notes_are_replaced_and_those_of_others_stay() -> None:
    root = parse_xml(XML)
    metadata = root.find("metadata")
    assert metadata is not None
    metadata.append(notes_to_element(MachineNotes(tags=("old",))))
    text = with_notes(restored_domain(root, "web1", None, DISKS), MachineNotes(tags=("new",)))
    found = parse_xml(text)
    notes = read_notes(found)
    assert notes is not None
    assert notes.tags == ("new",)
    assert len(found.findall("metadata/*")) == 2


def test_notes_of_a_move_do_not_come_back() -> None:
    root = parse_xml(XML)
    metadata = root.find("metadata")
    assert metadata is not None
    before = len(metadata)
    for kind in ("move", "snapshots"):
        metadata.append(parse_xml(f"<x:{kind} xmlns:x='urn:brine:virt:{kind}:1'/>"))
    found = parse_xml(with_notes(restored_domain(root, "web1", None, DISKS), MachineNotes()))
    tags = [child.tag for child in found.iterfind("metadata/*")]
    assert len(tags) == before + 1 and not [tag for tag in tags if "move" in tag or "snapshots" in tag]


def test_no_piece_of_a_text_that_is_chosen_here_stays() -> None:
    """libvirt would take the UEFI variables from there, and they would be written there."""
    pieces = (("nvram/web1_VARS.fd", "nvram/web1_VARS.fd<!-- -->/etc/cron.d/x"), ("web1</name>", "web1<z/>-2</name>"))
    xml = XML
    for old, new in pieces:
        assert old in xml
        xml = xml.replace(old, new, 1)
    root = restored_domain(parse_xml(xml), "web1", None, DISKS).root
    assert (root.xpath("string(os/nvram)"), root.xpath("string(name)")) == ("", "web1")


def test_a_disk_gets_a_new_source_also_where_it_names_the_right_file() -> None:
    more = "file='/p/new.qcow2'><reservations managed='no'><source type='unix' path='/run/x'/></reservations></source>"
    root = restored_domain(parse_xml(XML.replace("file='/old.raw'/>", more)), "web1", None, DISKS).root
    source = root.find("devices/disk/source")
    assert dict(source.attrib) == {"file": "/p/new.qcow2"} and len(source) == 0
