# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's XML in the words of a request."""

from __future__ import annotations

from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import DiskNote, MachineNotes, NicNote
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values

MACHINE = """<domain type='kvm'><name>m</name><title>T</title><os><type machine='pc-q35-7.2'>hvm</type></os><devices>
<disk type='network' device='disk'><driver type='raw'/><source protocol='rbd' name='vms/m'/>
<target dev='vda' bus='virtio'/></disk>
<disk type='file' device='disk'><source file='/seed.img'/><target dev='vdz' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>
<interface type='user'><mac address='52:54:00:00:00:0A'/><model type='pcnet'/></interface>
<interface type='vdpa'><mac address='52:54:00:00:00:0B'/><source dev='/dev/vhost-vdpa-0'/></interface>
<interface type='bridge'><mac address='52:54:00:00:00:0a'/><source bridge='br0'/></interface>
</devices></domain>"""


def test_without_notes_all_devices_are_there() -> None:
    values = read_values(etree.fromstring(MACHINE))
    assert (values["name"], values["title"], values["machine_type"]) == ("m", "T", "pc-q35-7.2")
    assert "description" not in values
    assert {name: (disk["model"], disk.get("source")) for name, disk in values["disks"].items()} == {
        "vda": ("virtio", "rbd:vms/m"),
        "vdz": ("virtio", "/seed.img"),
        "hda": ("ide", None),
    }
    assert {name: (nic["type"], nic.get("source"), nic.get("model")) for name, nic in values["nics"].items()} == {
        "eth0": ("user", None, "pcnet"),
        "eth1": ("vdpa", "/dev/vhost-vdpa-0", None),
        "eth2": ("bridge", "br0", None),
    }


def test_with_notes_only_what_they_name_and_of_two_nics_with_one_address_the_first() -> None:
    notes = MachineNotes(disks=(DiskNote("system", "vda"),), nics=(NicNote("lan", "52:54:00:00:00:0a"),))
    values = read_values(etree.fromstring(MACHINE), notes)
    assert list(values["disks"]) == ["system"]
    assert {name: nic["type"] for name, nic in values["nics"].items()} == {"lan": "user"}


def test_of_a_machine_that_only_its_hypervisor_knows_nothing_is_known() -> None:
    values = read_values(etree.fromstring(MACHINE))
    assert Existing(values).device("disk", "hda") == values["disks"]["hda"]
    assert Existing(values).device("nic", "hda") is None
    assert Existing().device("disk", "hda") is None
