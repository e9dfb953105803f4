# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry of a machine: accepted of a new machine and of the one that it was made from, whatever that is."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import need
from ansible_collections.brine.virt.plugins.module_utils._model.export.devices import DiskOrigin
from ansible_collections.brine.virt.plugins.module_utils._model.export.entry import (
    Export,
    MachineFacts,
    export_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._model.export.filled_in import without_filled_in
from ansible_collections.brine.virt.plugins.module_utils._model.export.hardware import export_hardware
from ansible_collections.brine.virt.plugins.module_utils._model.export.leftovers import find_leftovers
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.device_names import named_notes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS, DISK_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import covers
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import MACHINE_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.network import NETWORK_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS, NIC_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.xml.domain import GuestPlatform
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.export.known_machines import (
    KNOWN,
    KnownMachine,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.schema_machines import SchemaMachines
from ansible_collections.brine.virt.tests.unit.schema.editor import complaints_of_machine

pytestmark = pytest.mark.medium

KVM = GuestPlatform("kvm", "x86_64", "q35", {"mode": "host-model"}, None)
DOMAIN = """<domain type='kvm'><name>a</name><memory>1048576</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os>{}</domain>"""


def export(domain: etree._Element, **facts: t.Any) -> Export:
    origins = {
        note.name: DiskOrigin({"source": f"/disks/{note.name}", "format": "raw"})
        for note in named_notes(domain, None).disks
    }
    return export_machine(
        domain, None, MachineFacts(**{"platform": KVM, "usual_type": True, "origins": origins, **facts})
    )


@pytest.mark.parametrize("seed", range(60))
def test_what_the_schema_of_libvirt_allows(seed: int) -> None:
    domain = SchemaMachines().machine(seed)
    # By chance these are what libvirt refuses as well.
    for path, text in (("name", "m"), ("vcpu", "2"), ("memory", "1048576"), ("currentMemory", "1048576")):
        for element in domain.findall(path):
            element.text = text
            element.attrib.clear()
    if domain.find("vcpu") is None:
        etree.SubElement(domain, "vcpu").text = "2"
    if seed % 2:
        need(domain, "vcpu").set("current", "1")
        for element in domain.findall("currentMemory"):
            element.text = "524288"
    found = export(domain)
    entry = json.loads(json.dumps(found.entry))
    read_machine(entry)
    assert complaints_of_machine(entry) == []
    values = read_values(domain, named_notes(domain, None))
    machine = read_machine(entry, existing=lambda _name: Existing(values))
    assert covers(values, machine.hardware)


def test_what_cannot_be_said_takes_nothing_else_with_it() -> None:
    """One nic that no entry can have, in a machine that has fewer vCPUs and less memory than it may have."""
    text = DOMAIN.replace(
        "<memory>1048576</memory><vcpu>1</vcpu>",
        """<title>Web</title>
        <memory unit='KB'>100001</memory><currentMemory>65537</currentMemory><vcpu current='1'>3</vcpu>""",
    )
    found = export(etree.fromstring(text.format("<devices><interface type='user'/><sound model='x'/></devices>")))
    assert found.entry["vcpus"] == {"maximum": 3, "current": 1}
    assert found.entry["memory"] == {"maximum": 96, "current": 65}
    assert (found.entry["state"], found.entry["title"]) == ("present", "Web")
    assert not any(line.startswith(("state", "vcpus", "name", "title")) for line in found.not_exported)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: str(known.name))
def test_machines_of_others(known: KnownMachine) -> None:
    domain = etree.fromstring(known.xml)
    found = export(domain, platform=known.platform)
    entry = {
        key: value for key, value in found.entry.items() if key not in ("disks", "nics", "disk_profile", "nic_profile")
    }
    assert entry == {"seed": {"method": "none"}, "state": "present", **known.entry}
    assert list(found.not_exported) == known.not_exported
    assert complaints_of_machine({**found.entry, "hypervisor": "hv1"}) == []


@pytest.mark.parametrize(
    ("xml", "sentence"),
    [
        (
            "<domain><name>my machine</name><memory>1024</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>",
            "is not a name",
        ),
        ("<domain><name>a</name><vcpu>1</vcpu><os><type>hvm</type></os></domain>", "memory is missing"),
    ],
)
def test_one_of_which_there_can_be_no_entry(xml: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        export(etree.fromstring(xml))


def test_values_that_no_new_machine_can_have_are_named() -> None:
    devices = """<devices><disk device='disk'><target dev='hda' bus='ide'/></disk><interface type='network'>
    <mac address='00:16:3e:00:00:07'/><source network='n'/><model type='pcnet'/></interface>
    <video><model type='vmvga'/></video></devices>"""
    found = export(etree.fromstring(DOMAIN.format(devices)))
    assert found.entry["disks"] == [{"name": "hda", "source": "/disks/hda", "format": "raw"}]
    assert found.entry["nics"] == [{"name": "eth0", "network": "n", "mac": "00:16:3e:00:00:07"}]
    assert "video" not in found.entry
    assert set(found.not_exported) == {
        "disks.hda.model: 'ide'",
        "disks.hda.target: hda",
        "nics.eth0.model: 'pcnet'",
        "video: 'vmvga'",
        "devices/disk[hda]/target bus=ide",
        "devices/interface[00:16:3e:00:00:07]/model type=pcnet",
        "devices/video",
    }


def test_texts_that_may_be_secret_are_not_repeated() -> None:
    more = """<sysinfo type='smbios'><oemStrings><entry>io.systemd.credential:p=geheim</entry></oemStrings></sysinfo>
    <commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'><arg value='geheim'/></commandline>"""
    found = export(etree.fromstring(DOMAIN.format(more)))
    assert "geheim" not in str(found)
    assert {"sysinfo type=smbios", "qemu:commandline"} <= set(found.not_exported)


@pytest.mark.parametrize(
    ("firmware", "named"),
    [
        ("<nvram>/var/lib/libvirt/qemu/nvram/a_VARS.fd</nvram>", []),
        ("<nvram/>", []),
        ("<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>", []),
        ("<nvram>/srv/vars/a.fd</nvram>", ["os/nvram"]),
        ("<nvram type='file'><source file='/srv/vars/a.fd'/></nvram>", ["os/nvram type=file"]),
        ("<nvram type='network'><source protocol='iscsi' name='iqn/0'/></nvram>", ["os/nvram type=network"]),
        ("<loader stateless='yes' type='pflash'>/a.fd</loader>", ["os/loader stateless=yes type=pflash"]),
        ("<loader type='rom'>/a.fd</loader>", ["os/loader type=rom"]),
    ],
)
def test_firmware_that_libvirt_would_not_choose_is_named(firmware: str, named: list[str]) -> None:
    xml = DOMAIN.format("").replace("<os>", "<os firmware='efi'>").replace("</os>", f"{firmware}</os>")
    found = export(etree.fromstring(xml))
    assert found.entry["firmware"] == "efi"
    assert [text for text in found.not_exported if text.startswith("os")] == named


@pytest.mark.parametrize(
    ("firmware", "secure_boot"),
    [
        ("", None),
        ("<nvram>/var/lib/libvirt/qemu/nvram/a_VARS.fd</nvram>", None),
        ("<firmware><feature enabled='no' name='secure-boot'/></firmware>", False),
        ("<firmware><feature enabled='yes' name='secure-boot'/></firmware>", True),
        ("<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>", False),
    ],
)
def test_secure_boot_is_said_where_the_definition_says_it(firmware: str, secure_boot: bool | None) -> None:
    """Without it, libvirt chooses, and the entry is to leave it the choice."""
    xml = DOMAIN.format("").replace("<os>", "<os firmware='efi'>").replace("</os>", f"{firmware}</os>")
    assert export(etree.fromstring(xml)).entry.get("secure_boot") is secure_boot


def test_a_console_password() -> None:
    assert (
        "graphics.password: a secret" in export(etree.fromstring(DOMAIN.format("")), console_password=True).not_exported
    )


def test_a_console_that_only_its_password_protects_is_not_exported_as_open_to_everybody() -> None:
    listen = "<listen type='address' address='0.0.0.0'/>"
    graphics = f"<graphics type='vnc' port='-1' autoport='yes' listen='0.0.0.0'>{listen}</graphics>"
    domain = etree.fromstring(DOMAIN.format(f"<devices>{graphics}</devices>"))
    assert export(domain).entry["graphics"]["listen"] == "0.0.0.0"
    closed = export(domain, console_password=True)
    assert "listen" not in str(closed.entry)
    words = "graphics.listen: 0.0.0.0, where everybody could use the console without its password"
    assert words in closed.not_exported


def test_what_libvirt_fills_in_is_left_out() -> None:
    values = {
        "vcpus": {"maximum": 2, "placement": "static"},
        "cpu": {"mode": "host-passthrough", "check": "none", "migratable": True, "topology": {"dies": 1, "cores": 2}},
        "serials": ({"type": "pty", "target_type": "isa-serial", "target_port": 0},),
        "consoles": ({"type": "pty", "target_type": "serial", "target_port": 0},),
        "video": {"model": "qxl", "vram": 65536, "heads": 1},
    }
    assert without_filled_in(values) == {
        "vcpus": {"maximum": 2},
        "cpu": {"mode": "host-passthrough", "topology": {"cores": 2}},
        "serials": ({"type": "pty"},),
        "consoles": (),
        "video": {"model": "qxl"},
    }


@pytest.mark.parametrize("port", [0, 1])
def test_the_number_of_a_console_is_not_exported(port: int) -> None:
    """It is 0 until libvirt reads the definition again, and nobody can ask for that."""
    serial = {"type": "pty", "target_type": "serial", "target_port": 0}
    consoles = (serial, {"type": "pty", "target_type": "virtio", "target_port": port})
    assert without_filled_in({"consoles": consoles})["consoles"] == (
        {"type": "pty"},
        {"type": "pty", "target_type": "virtio"},
    )


def test_whether_a_model_is_checked_depends_on_kvm() -> None:
    for check, emulated in (("none", True), ("partial", False)):
        cpu = {"mode": "custom", "model": "Nehalem", "check": check}
        assert without_filled_in({"cpu": cpu}, emulated=emulated) == {"cpu": {"mode": "custom", "model": "Nehalem"}}
        assert without_filled_in({"cpu": cpu}, emulated=not emulated) == {"cpu": cpu}


@pytest.mark.parametrize(
    ("current", "memory"),
    [("", "8MiB"), ("<currentMemory>4096</currentMemory>", {"maximum": "8MiB", "current": "4MiB"})],
)
def test_little_memory_has_its_unit(current: str, memory: t.Any) -> None:
    domain = etree.fromstring(DOMAIN.format(current).replace("1048576", "8192"))
    found = export(domain)
    assert found.entry["memory"] == memory
    values = read_values(domain, named_notes(domain, None))
    assert covers(values, read_machine(found.entry, existing=lambda _name: Existing(values)).hardware)


def test_sizes_that_are_rounded_are_named() -> None:
    domain = etree.fromstring(DOMAIN.format("").replace("1048576", "65555"))
    found = export(domain)
    assert (found.entry["memory"], found.not_exported) == (65, ("memory: 65555 KiB, which is rounded up to 65 MiB",))


def test_hardware_that_a_new_machine_has_too_is_left_out() -> None:
    xml = etree.fromstring(DOMAIN.format("<clock offset='utc'/>"))
    other = etree.fromstring(DOMAIN.format("<clock offset='localtime'/>"))
    assert export_hardware(xml, xml) == {"vcpus": 1, "memory": 1024}
    assert export_hardware(xml, other) == {"vcpus": 1, "memory": 1024, "clock": {"offset": "utc"}}


def test_the_same_is_no_difference_and_anything_else_is_one() -> None:
    xml = "<domain><a b='1'><c/></a><devices><disk><target dev='vda'/></disk></devices></domain>"
    assert find_leftovers(etree.fromstring(xml), etree.fromstring(xml)) == []
    assert find_leftovers(etree.fromstring(xml), etree.fromstring("<domain><a b='2'/></domain>")) == [
        "a b=1",
        "a/c",
        "devices",
    ]


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        ("<controller model='pcie-root'{}><pcihole64 unit='KiB'>4</pcihole64></controller>", "pcihole64 unit=KiB"),
        ("<controller model='pcie-root-port'{}><target hotplug='off'/></controller>", "target hotplug=off"),
        ("<controller model='pcie-root-port'{}><target chassis='1' port='0x8'/></controller>", None),
    ],
)
def test_of_a_pci_controller_what_somebody_wrote_is_a_leftover(xml: str, words: str | None) -> None:
    left = export(etree.fromstring(DOMAIN.format("<devices>" + xml.format(" type='pci'") + "</devices>"))).not_exported
    assert list(left) == ([] if words is None else [f"devices/controller/{words}"])


def test_of_resources_the_usual_partition_alone_is_no_leftover() -> None:
    left = [
        export(etree.fromstring(DOMAIN.format(f"<resource>{one}</resource>"))).not_exported
        for one in ("<partition>/machine</partition>", "<fibrechannel appid='x'/>")
    ]
    assert left == [(), ("resource",)]


def test_every_option_and_all_that_is_remembered_has_its_place_in_an_export() -> None:
    """Whoever adds one says here how it is exported, or why not."""
    by_tables = {field.key for field in HARDWARE}
    said = {"name", "image", "clone", "disk_profile", "nic_profile", "disks", "nics", "seed", "hypervisor", "state"}
    said |= {"autostart", "title", "description", "tags", "labels", "anti_affinity", "variables", "machine_type"}
    said |= {"firmware", "secure_boot", "order", "delay_seconds"}
    other_words, what_to_do, only_hashed = {"cpu_mode", "start"}, {"seed_policy"}, {"xml"}
    assert set(MACHINE_RULES) == by_tables | said | other_words | what_to_do | only_hashed
    remembered = {
        "image",
        "volumes",
        "disks",
        "nics",
        "tags",
        "labels",
        "anti_affinity",
        "variables",
        "order",
        "delay_seconds",
    }
    named_as_missing, of_this_machine_alone = {"seed", "fragment"}, {"status", "claimed", "host_keys", "started"}
    fields = {field.name for field in dataclasses.fields(MachineNotes)}
    assert fields == remembered | named_as_missing | of_this_machine_alone


def test_every_option_of_a_disk_and_a_nic_has_its_place_in_an_export() -> None:
    disk = {"name", "size", "format", "model", "pool", "image", "clone", "backing", "source", "device", "state"}
    only_when_made = {"wipe"}
    assert set(DISK_RULES) == (disk - {"name"}) | only_when_made | {field.key for field in DISK_OPTIONS}
    nic = {"bridge", "network", "direct", "type", "source", "model", "mac", "state", *NETWORK_RULES}
    assert set(NIC_RULES) == nic | {field.key for field in NIC_OPTIONS}


@pytest.mark.parametrize("key", ["tags", "labels", "anti_affinity"])
def test_of_a_list_only_the_words_are_left_out_that_cannot_be_in_it(key: str) -> None:
    """As a tag with a space, which only virsh metadata can give."""
    notes = MachineNotes(**{key: ("web", "two words", "prod")})  # type: ignore[arg-type]
    facts = MachineFacts(platform=KVM, usual_type=True)
    found = export_machine(etree.fromstring(DOMAIN.format("")), notes, facts)
    assert found.entry[key] == ["web", "prod"]
    assert f"{key}: 'two words', which the machine loses when it is provisioned from this entry" in found.not_exported
    notes = MachineNotes(**{key: ("two words",)})  # type: ignore[arg-type]
    found = export_machine(etree.fromstring(DOMAIN.format("")), notes, facts)
    assert key not in found.entry and f"{key}: 'two words'" in found.not_exported


def test_the_watchdog_that_libvirt_adds_beside_another_one_is_no_leftover() -> None:
    """It has the action of the other one."""
    made = etree.fromstring("<domain><devices><watchdog model='i6300esb' action='pause'/></devices></domain>")
    for position in (0, 1):
        domain = etree.fromstring(etree.tostring(made))
        domain[0].insert(position, etree.Element("watchdog", model="itco", action="pause"))
        assert find_leftovers(domain, made) == []
    assert find_leftovers(domain, etree.fromstring("<domain><devices/></domain>")) == [
        "devices/watchdog model=i6300esb action=pause"
    ]


def test_a_console_without_a_card() -> None:
    """libvirt gives a machine with a console a card, unless its definition has one of model none."""
    bare = "<video><model type='none'/></video>"
    console = "<graphics type='vnc' port='-1' autoport='yes'><listen type='address' address='127.0.0.1'/></graphics>"
    found = export(etree.fromstring(DOMAIN.format(f"<devices>{console}{bare}</devices>")))
    assert (found.entry["graphics"], found.entry.get("video")) == ("vnc", False)
    assert not [one for one in found.not_exported if "video" in one]
    # Without a console there is none anyway.
    alone = export(etree.fromstring(DOMAIN.format(f"<devices>{bare}</devices>")))
    assert "video" not in alone.entry
    assert not [one for one in alone.not_exported if "video" in one]
