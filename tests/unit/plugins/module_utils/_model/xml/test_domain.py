# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's XML is valid by libvirt's own schema, and no text breaks out of its place."""

from __future__ import annotations

import shutil
import subprocess
import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Disk
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.xml.devices import Placed, disk_targets
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.domain import GuestPlatform, domain_xml

KVM = GuestPlatform("kvm", "x86_64", "q35", {"mode": "host-model"}, "/var/log/libvirt/qemu")
BASE = {"name": "web1", "vcpus": 2, "memory": 1024}


def build(spec: dict[str, t.Any], host: GuestPlatform = KVM, seed: str | None = "/pool/web1-seed.iso") -> str:
    machine = read_machine({**BASE, **spec})
    targets = disk_targets(machine.disks)
    disks = [
        Placed(disk, targets[disk.name], DiskSource("file", f"/pool/web1-{disk.name}"), disk.format or "qcow2")
        for disk in machine.disks
    ]
    notes = MachineNotes(tags=machine.tags or (), variables=machine.variables or {})
    return domain_xml(machine, notes=notes, host=host, disks=disks, seed=DiskSource("file", seed) if seed else None)


SPECS: list[dict[str, t.Any]] = [
    {},
    {"firmware": "efi", "graphics": "vnc", "title": "A title", "description": "Two\nlines"},
    {"graphics": {"type": "spice", "listen": "127.0.0.1"}},
    {"disks": [{"name": "data", "size": "1GiB", "model": "scsi"}, {"name": "old", "size": "10MiB", "model": "sata"}]},
    {"disk_profile": "none", "nic_profile": "none"},
    {"nics": [{"name": "eth1", "network": "default", "model": "e1000"}]},
    {
        "disks": [
            {"name": "cd", "device": "cdrom"},
            {"name": "fd", "device": "floppy"},
            {"name": "x", "size": "1MiB", "io": "native", "cache": "none", "readonly": True, "serial": "S 1"},
        ]
    },
    {
        "nics": [
            {"name": "eth1", "direct": "eno1", "mode": "vepa", "virtualport": {"type": "802.1Qbh", "profileid": "p"}}
        ]
    },
    {
        "nics": [
            {
                "name": "eth1",
                "network": "n",
                "portgroup": "p",
                "vlan": [42, 43],
                "mtu": 9000,
                "link": "down",
                "filter": {"name": "clean-traffic", "parameters": {"IP": "192.0.2.1"}},
                "bandwidth": {"inbound": {"average": 100}, "outbound": {"average": 1, "peak": 2, "burst": 3}},
            }
        ]
    },
    {"firmware": "efi", "secure_boot": True, "tpm": True, "watchdog": "reset", "rng": False, "video": "vga"},
    {"shared_folders": [{"source": "/srv/data", "tag": "data"}], "host_devices": ["0000:03:00.0"]},
    {"serials": [{"port": 2000}], "consoles": [{"type": "pty", "target_type": "virtio"}]},
    {"boot": {"devices": ["network", "hd"], "kernel": "/k", "initrd": "/i", "cmdline": "quiet <&>"}},
    {"xml": "<devices><sound model='ich9'/></devices><sysinfo type='smbios'/>"},
    {"tags": ["a", "b"], "variables": {"x": {"y": [1, "<z>&"]}}},
]


@pytest.mark.parametrize("spec", SPECS, ids=[",".join(spec) or "defaults" for spec in SPECS])
def test_the_schema_accepts_every_machine(spec: dict[str, t.Any]) -> None:
    validator = shutil.which("virt-xml-validate")
    if validator is None:
        pytest.skip("virt-xml-validate is not installed (package libvirt-clients)")
    result = subprocess.run([validator, "-", "domain"], input=build(spec), text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("text", ["</title><devices>", "&lt;", "a \"b\" 'c'", "{{ lookup('pipe', 'id') }}", "]]>"])
def test_text_stays_in_its_place(text: str) -> None:
    domain = etree.fromstring(build({"title": text, "description": text, "variables": {"v": text}}))
    assert domain.findtext("title") == text
    assert domain.findtext("description") == text
    assert len(domain.findall("devices")) == 1


def test_an_emulated_machine_has_a_named_cpu() -> None:
    host = GuestPlatform("qemu", "x86_64", "q35", {"mode": "custom", "model": "Nehalem"}, None)
    cpu = etree.fromstring(build({}, host)).find("cpu")
    assert cpu is not None
    assert (cpu.get("mode"), cpu.findtext("model")) == ("custom", "Nehalem")


def test_consoles_are_closed_unless_asked_for() -> None:
    assert etree.fromstring(build({})).find("devices/graphics") is None
    graphics = etree.fromstring(build({"graphics": "vnc"})).find("devices/graphics")
    assert graphics is not None
    assert graphics.get("autoport") == "yes"
    assert [listen.get("address") for listen in graphics.iterfind("listen")] == ["127.0.0.1"]


def test_the_seed_is_a_read_only_virtio_disk_and_boots_last() -> None:
    domain = etree.fromstring(build({}))
    seed, *others = [disk for disk in domain.iterfind("devices/disk") if disk.findtext("serial") == "cidata"]
    assert not others
    assert seed.find("readonly") is not None
    assert [target.get("bus") for target in seed.iterfind("target")] == ["virtio"]
    assert seed.find("boot") is None
    assert domain.xpath("devices/disk[serial='system']/boot/@order") == ["1"]


def test_disks_are_counted_for_each_bus() -> None:
    disks = [Disk(str(index), 1) for index in range(28)] + [Disk("s", 1, model="scsi"), Disk("u", 1, model="usb")]
    targets = disk_targets(disks)
    names = ("0", "24", "25", "27", "s", "u")
    assert [targets[name] for name in names] == ["vda", "vdy", "vdaa", "vdac", "sda", "sdb"]
    assert "vdz" not in targets.values(), "the place of the seed"
    assert disk_targets([Disk("new", 1)], taken=["vda", "vdc"]) == {"new": "vdb"}
