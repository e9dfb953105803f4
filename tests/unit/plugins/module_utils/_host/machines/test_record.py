# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's record from XML as libvirt shows it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import (
    KnownPools,
    bare_record,
    nics_to_ask,
    record_from_xml,
    sizes_by_target,
    state_name,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import read_notes

POOLS = KnownPools({"/var/lib/libvirt/images": "default"}, {"rbd:ceph": "ceph"})


@pytest.fixture
def web1(fixtures: Path) -> t.Any:
    return etree.parse(str(fixtures / "web1.xml")).getroot()


def test_of_the_image_there_is_no_more_than_is_documented(web1: t.Any) -> None:
    web1.find("metadata/{*}machine/{*}image").set("disk", "system")
    image = record_from_xml(web1, "running", POOLS)["image"]
    assert image == {"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images"}


def test_the_record_has_what_the_xml_says(web1: t.Any) -> None:
    record = record_from_xml(web1, "running", POOLS)
    expected = {
        "name": "web1",
        "uuid": "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11",
        "state": "running",
        "vcpus": 2,
        "vcpus_max": 4,
        "memory_mib": 2048,
        "memory_max_mib": 4096,
        "managed": True,
        "building": False,
        "title": "Web {{ 1 + 1 }}",
        "description": "Serves the shop & more",
        "domain_type": "kvm",
        "machine_type": "pc-q35-7.2",
        "arch": "x86_64",
        "firmware": "efi",
        "cpu_mode": "host-model",
        "user": "ansible",
        "tags": ["web", "front end"],
        "image": {"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images"},
        "seed": {"method": "nocloud", "sha256": "0f0f", "user": "ansible"},
        "host_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p"],
        "graphics": [{"type": "vnc", "listen": "127.0.0.1", "port": 5900, "tls_port": None}],
        "serial_log": "/var/log/libvirt/qemu/web1-serial.log",
        "errors": [],
    }
    assert {key: record[key] for key in expected} == expected


def test_what_ties_a_machine_and_what_placement_keeps_to() -> None:
    domain = etree.fromstring(
        "<domain><metadata><m:machine xmlns:m='urn:brine:virt:1'><m:label>ssd</m:label>"
        "<m:antiaffinity>web</m:antiaffinity></m:machine></metadata><devices>"
        "<hostdev mode='subsystem' type='pci'/><hostdev mode='subsystem' type='usb'/>"
        "<interface type='hostdev'/></devices></domain>"
    )
    record = record_from_xml(domain, "shutoff")
    assert record["tied_by"] == ["a device of the hypervisor", "a network card of the hypervisor"]
    assert (record["labels"], record["anti_affinity"]) == (["ssd"], ["web"])


UEFI = "the variables of its UEFI in a file that moves only while it runs (start it first)"
TPM = "the state of its TPM in a file that moves only while it runs (start it first)"


@pytest.mark.parametrize(
    ("xml", "ties"),
    [
        ("<os><loader type='pflash'>/fw.fd</loader></os>", [UEFI]),
        ("<os firmware='efi'/>", [UEFI]),
        ("<os><varstore path='/vars.json'/></os>", [UEFI]),
        ("<devices><tpm><backend type='emulator'/></tpm></devices>", [TPM]),
        (
            "<os firmware='efi'/><devices><hostdev/><tpm><backend type='emulator'/></tpm></devices>",
            ["a device of the hypervisor", UEFI, TPM],
        ),
        ("<os firmware='bios'/>", []),
    ],
)
def test_what_only_a_running_machine_takes_along_ties_one_that_is_off(xml: str, ties: list[str]) -> None:
    domain = etree.fromstring(f"<domain>{xml}</domain>")
    for state in ("shutoff", "crashed"):
        assert record_from_xml(domain, state)["tied_by"] == ties
    for state in ("running", "paused", "pmsuspended"):
        assert record_from_xml(domain, state)["tied_by"] == [words for words in ties if words not in (UEFI, TPM)]


def test_most_machines_are_tied_by_nothing(web1: t.Any) -> None:
    assert record_from_xml(web1, "running", POOLS)["tied_by"] == []


DISK_KEYS = ("name", "target", "device", "bus", "type", "source", "pool", "volume", "format", "backing", "readonly")
DISKS = [
    (
        "system",
        "vda",
        "disk",
        "virtio",
        "file",
        "/var/lib/libvirt/images/web1-system.qcow2",
        "default",
        "web1-system.qcow2",
        "qcow2",
        "/var/lib/libvirt/brine/debian-0123456789abcdef.qcow2",
        False,
    ),
    ("data", "vdb", "disk", "virtio", "volume", "fast/web1-data", "fast", "web1-data", "raw", None, False),
    (None, "vdc", "disk", "virtio", "network", "rbd:ceph/web1-log", "ceph", "web1-log", "raw", None, False),
    (None, "sda", "disk", "scsi", "block", "/dev/mapper/mpatha", None, None, "raw", None, False),
    (None, "sdb", "cdrom", "sata", "file", None, None, None, None, None, True),
]


def test_disks_know_their_names_and_their_volumes(web1: t.Any) -> None:
    disks = record_from_xml(web1, "running", POOLS)["disks"]
    assert [tuple(disk[key] for key in DISK_KEYS) for disk in disks] == DISKS
    assert all(disk["size_bytes"] is None and disk["allocation_bytes"] is None for disk in disks)


def test_a_disk_on_a_volume_that_was_created_for_the_machine_is_its_own(web1: t.Any) -> None:
    disks = record_from_xml(web1, "running", POOLS)["disks"]
    assert {disk["target"]: disk["own"] for disk in disks} == {
        "vda": True,
        "vdb": False,
        "vdc": False,
        "sda": False,
        "sdb": False,
    }
    assert not any(disk["own"] for disk in record_from_xml(web1, "running")["disks"])


def test_nics_know_what_they_are_plugged_into(web1: t.Any) -> None:
    nics = record_from_xml(web1, "running", POOLS)["nics"]
    keys = ("name", "mac", "type", "source", "model", "target")
    assert [tuple(nic[key] for key in keys) for nic in nics] == [
        ("eth0", "52:54:00:00:00:01", "bridge", "br0", "virtio", "vnet7"),
        ("eth1", "52:54:00:00:00:02", "network", "default", "e1000e", "vnet8"),
        (None, "52:54:00:00:00:03", "direct", "enp1s0", "virtio", None),
    ]
    assert [(nic.mac, nic.type, nic.static_cidrs) for nic in nics_to_ask(web1, read_notes(web1))] == [
        ("52:54:00:00:00:01", "bridge", ()),
        ("52:54:00:00:00:02", "network", ("192.0.2.5/24",)),
        ("52:54:00:00:00:03", "direct", ()),
    ]


def test_a_strange_machine_has_the_same_keys_and_nothing_of_ours() -> None:
    root = etree.fromstring("<domain type='test'><name>x</name><uuid>u</uuid><memory unit='KiB'>0</memory></domain>")
    record = record_from_xml(root, "shutoff")
    assert record.keys() == bare_record("x", "u", "shutoff").keys()
    assert (record["managed"], record["firmware"], record["cpu_mode"], record["vcpus"]) == (False, "bios", None, 1)


@pytest.mark.parametrize(
    ("xml", "firmware"),
    [
        ("<os/>", "bios"),
        ("<os firmware='bios'/>", "bios"),
        ("<os firmware='efi'/>", "efi"),
        ("<os><loader type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader></os>", "efi"),
        ("<os><loader type='rom'>/usr/share/seabios/bios.bin</loader></os>", "bios"),
    ],
)
def test_firmware_is_told_by_word_or_by_loader(xml: str, firmware: str) -> None:
    assert record_from_xml(etree.fromstring(f"<domain>{xml}</domain>"), "shutoff")["firmware"] == firmware


@pytest.mark.parametrize(
    ("xml", "secure"),
    [
        ("<os firmware='efi'/>", False),
        ("<os firmware='efi'><firmware><feature enabled='yes' name='secure-boot'/></firmware></os>", True),
        ("<os firmware='efi'><firmware><feature enabled='no' name='secure-boot'/></firmware></os>", False),
        ("<os><loader type='pflash' secure='yes'>/usr/share/OVMF/OVMF_CODE.secboot.fd</loader></os>", True),
        ("<os/>", False),
    ],
)
def test_secure_boot_is_told_by_feature_or_by_loader(xml: str, secure: bool) -> None:
    assert record_from_xml(etree.fromstring(f"<domain>{xml}</domain>"), "shutoff")["secure_boot"] is secure


@pytest.mark.parametrize(
    ("xml", "tpm"),
    [
        ("", None),
        (
            "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>",
            {"model": "tpm-crb", "version": "2.0"},
        ),
        ("<tpm model='tpm-tis'><backend type='passthrough'/></tpm>", {"model": "tpm-tis", "version": None}),
    ],
)
def test_a_tpm_has_a_model_and_mostly_a_version(xml: str, tpm: dict[str, str | None] | None) -> None:
    domain = etree.fromstring(f"<domain><devices>{xml}</devices></domain>")
    assert record_from_xml(domain, "shutoff")["tpm"] == tpm


@pytest.mark.parametrize(
    ("number", "name"), [(1, "running"), (5, "shutoff"), (7, "pmsuspended"), (99, "nostate"), (None, "nostate")]
)
def test_states_have_names(number: int | None, name: str) -> None:
    assert state_name(number) == name


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({}, {}),
        ({"block.count": 0}, {}),
        (
            {
                "block.count": 2,
                "block.0.name": "vda",
                "block.0.capacity": 100,
                "block.0.allocation": 40,
                "block.0.physical": 50,
                "block.1.name": "vdb",
                "block.1.capacity": 200,
                "block.1.allocation": 0,
                "block.1.physical": 70,
            },
            {"vda": (100, 40), "vdb": (200, 70)},
        ),
        ({"block.count": 1, "block.0.name": "sda"}, {}),
        ({"block.count": 1, "block.0.name": "vda", "block.0.capacity": 100}, {"vda": (100, None)}),
    ],
)
def test_sizes_come_from_the_bulk_statistics(
    stats: dict[str, t.Any], expected: dict[str, tuple[int, int | None]]
) -> None:
    assert sizes_by_target(stats) == expected
