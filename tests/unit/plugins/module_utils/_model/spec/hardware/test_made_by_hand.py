# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One option changed in machines that others made: libvirt takes it, once is enough, and what is not named stays."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import (
    check_field,
    covers,
    drop,
    write_table,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS

MACHINE = """<domain type='test'><name>m</name><uuid>5d8f3b1e-6c1b-4a55-9b0e-2f6a1c7d4e90</uuid>
<memory unit='MiB'>512</memory><vcpu>2</vcpu>
<os><type arch='x86_64'>hvm</type></os>{beside}<devices>{devices}</devices></domain>"""
FIELDS = {field.key: field for field in HARDWARE}


@pytest.fixture(scope="module")
def conn() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as opened:
        yield opened


def changed(conn: t.Any, option: str, value: t.Any, devices: str = "", beside: str = "") -> etree._Element:
    """The machine's definition after this option has been changed, as libvirt gives it back."""
    field = FIELDS[option]

    def define(xml: str) -> etree._Element:
        return etree.fromstring(conn.defineXML(xml).XMLDesc(3))

    machine = define(MACHINE.format(beside=beside, devices=devices))
    want = check_field(field, value, option, field.read(machine))
    assert not covers(field.read(machine), want)
    write_table(machine, [field], {option: want})
    for console in machine.findall("devices/console") if option == "serials" else ():
        # libvirt makes it again, of the first serial device (compare_hardware).
        drop(console)
    machine = define(etree.tostring(machine, encoding="unicode"))
    assert covers(field.read(machine), want)
    return machine


def text_of(machine: etree._Element, path: str) -> str:
    found = machine.find(path)
    assert found is not None
    return etree.tostring(found, encoding="unicode")


@pytest.mark.parametrize("value", ["host-model", {"model": "Skylake-Server"}])
def test_the_cpu_of_the_host_becomes_another_one(conn: t.Any, value: t.Any) -> None:
    of_host = "<cpu mode='host-passthrough' check='none' migratable='on'><cache mode='passthrough'/>"
    of_host += "<topology sockets='1' cores='2' threads='1'/></cpu>"
    cpu = text_of(changed(conn, "cpu", value, beside=of_host), "cpu")
    assert "migratable" not in cpu
    assert "check='none'" not in cpu.replace('"', "'")
    assert "<cache" not in cpu
    assert "<topology" in cpu


def test_another_kind_of_host_cpu_keeps_what_both_have(conn: t.Any) -> None:
    of_host = "<cpu mode='host-passthrough' check='none' migratable='off'><cache mode='passthrough'/></cpu>"
    cpu = text_of(changed(conn, "cpu", "maximum", beside=of_host), "cpu")
    assert 'migratable="off"' in cpu
    assert "<cache" in cpu


def test_a_cpu_whose_mode_stays_is_checked_as_before(conn: t.Any) -> None:
    of_host = "<cpu mode='host-model' check='full'><topology sockets='2' cores='1' threads='1'/></cpu>"
    cpu = text_of(changed(conn, "cpu", {"mode": "host-model", "topology": {"cores": 2}}, beside=of_host), "cpu")
    assert 'check="full"' in cpu


@pytest.mark.parametrize(
    ("console", "kind"),
    [
        ("<graphics type='vnc' autoport='yes'><listen type='network' network='default'/></graphics>", "vnc"),
        ("<graphics type='vnc' socket='/run/x'><listen type='socket' socket='/run/x'/></graphics>", "vnc"),
        ("<graphics type='spice' autoport='no'><listen type='none'/></graphics>", "spice"),
    ],
)
def test_an_address_takes_the_place_of_other_ways_to_listen(conn: t.Any, console: str, kind: str) -> None:
    machine = changed(conn, "graphics", {"type": kind, "listen": "127.0.0.1"}, console)
    listens = [dict(listen.attrib) for listen in machine.iterfind("devices/graphics/listen")]
    assert listens == [{"type": "address", "address": "127.0.0.1"}]
    assert machine.findall("devices/graphics[@autoport='yes']")


SPICE = """<graphics type='spice' autoport='yes' passwd='secret' connected='keep' listen='192.0.2.1' keymap='de'>
<listen type='address' address='192.0.2.1'/><image compression='off'/><clipboard copypaste='no'/></graphics>
<audio id='1' type='spice'/><video><model type='qxl' ram='65536' vram='65536' vgamem='16384' heads='2' primary='yes'/>
</video>"""


def test_spice_becomes_vnc(conn: t.Any) -> None:
    machine = changed(conn, "graphics", "vnc", SPICE)
    console = machine.find("devices/graphics")
    assert console is not None
    assert [child.tag for child in console] == ["listen"]
    assert {str(name): value for name, value in console.attrib.items()} == {
        "type": "vnc",
        "port": "-1",
        "autoport": "yes",
        "listen": "192.0.2.1",
        "keymap": "de",
        "passwd": "secret",
    }


@pytest.mark.parametrize("value", [False, "vnc"])
def test_sound_does_not_go_through_a_console_that_is_gone(conn: t.Any, value: t.Any) -> None:
    """QEMU: «Cannot use spice audio without -spice»."""
    assert [audio.get("type") for audio in changed(conn, "graphics", value, SPICE).iterfind("devices/audio")] == [
        "none"
    ]


def test_sound_stays_where_another_console_carries_it(conn: t.Any) -> None:
    vnc = "<graphics type='vnc' autoport='yes'/>"
    machine = changed(conn, "graphics", {"type": "vnc", "password": "x"}, vnc + SPICE)
    assert [audio.get("type") for audio in machine.iterfind("devices/audio")] == ["spice"]


def test_spice_without_an_address_becomes_vnc_on_the_loopback_address(conn: t.Any) -> None:
    machine = changed(conn, "graphics", "vnc", "<graphics type='spice'><listen type='none'/></graphics>")
    assert 'address="127.0.0.1"' in text_of(machine, "devices/graphics/listen")


@pytest.mark.parametrize(("value", "heads"), [("virtio", "2"), ("vga", "1"), ("bochs", "1")])
def test_qxl_becomes_another_model(conn: t.Any, value: str, heads: str) -> None:
    model = changed(conn, "video", value, SPICE).find("devices/video/model")
    assert model is not None
    assert model.get("heads", "1") == heads
    assert not {"ram", "vgamem", "vram64"} & set(model.attrib)


def test_what_virtio_alone_has_goes_with_it(conn: t.Any) -> None:
    virtio = "<video><model type='virtio'><acceleration accel3d='yes'/></model><driver iommu='on'/>"
    virtio += "<address type='pci' domain='0' bus='0' slot='2' function='0'/></video>"
    video = changed(conn, "video", "vga", f"<graphics type='vnc'/>{virtio}").find("devices/video")
    assert video is not None
    assert [child.tag for child in video.iter()] == ["video", "model", "address"]
    assert changed(conn, "video", "none", virtio).find("devices/video/address") is None


FOLDER = """<filesystem type='mount' accessmode='passthrough'><driver type='virtiofs' queue='1024'/>
<binary path='/v'/><source dir='/{tag}'/><target dir='{tag}'/></filesystem>"""


def test_a_shared_folder_is_known_by_its_tag(conn: t.Any) -> None:
    folders = [{"source": "/new", "tag": "n"}, {"source": "/b", "tag": "b", "readonly": True}]
    machine = changed(conn, "shared_folders", folders, FOLDER.format(tag="a") + FOLDER.format(tag="b"))
    new, kept = machine.findall("devices/filesystem")
    assert new.find("binary") is None
    assert kept.find("driver[@queue='1024']") is not None
    assert kept.find("binary[@path='/v']") is not None
    assert kept.find("readonly") is not None


CELL = """<cell id='{id}' cpus='{id}' memory='256' unit='MiB'><distances><sibling id='0' value='{zero}'/>
<sibling id='1' value='{one}'/></distances><cache level='3' associativity='direct' policy='writeback'>
<size value='10' unit='KiB'/><line value='8' unit='B'/></cache></cell>"""
CELLS = CELL.format(id=0, zero=10, one=20) + CELL.format(id=1, zero=20, one=10)


def test_a_numa_cell_is_known_by_its_id(conn: t.Any) -> None:
    rows = [{"cpus": "0", "memory": 256, "access": "shared"}, {"cpus": "1", "memory": 256}]
    machine = changed(conn, "cpu", {"numa": rows}, beside=f"<cpu><numa>{CELLS}</numa></cpu>")
    cells = machine.findall("cpu/numa/cell")
    assert [cell.get("memAccess") for cell in cells] == ["shared", None]
    for cell in cells:
        assert len(cell.findall("distances/sibling")) == 2
        assert cell.find("cache") is not None


def test_no_distance_leads_to_a_cell_that_is_gone() -> None:
    """libvirtd 9.0 crashes there, so it is not asked."""
    machine = etree.fromstring(MACHINE.format(beside=f"<cpu><numa>{CELLS}</numa></cpu>", devices=""))
    FIELDS["cpu"].write(machine, {"numa": ({"cpus": "0", "memory": 256},)})
    assert [sibling.get("id") for sibling in machine.iterfind("cpu/numa/cell/distances/sibling")] == ["0"]
    only_to_others = CELLS.replace("<sibling id='0' value='10'/>", "")
    machine = etree.fromstring(MACHINE.format(beside=f"<cpu><numa>{only_to_others}</numa></cpu>", devices=""))
    FIELDS["cpu"].write(machine, {"numa": ({"cpus": "0", "memory": 256},)})
    # libvirt refuses an empty list.
    assert machine.find("cpu/numa/cell/distances") is None


def test_a_cache_loses_the_level_that_its_new_mode_has_not(conn: t.Any) -> None:
    beside = "<cpu mode='host-passthrough'><cache level='3' mode='emulate'/></cpu>"
    assert changed(conn, "cpu", {"cache": {"mode": "disable"}}, beside=beside).find("cpu/cache[@level]") is None


SERIAL = """<serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target>
<alias name='ua-one'/></serial>"""
SECOND = "<serial type='pty'><log file='/two'/><target type='isa-serial' port='1'/><alias name='ua-two'/></serial>"


@pytest.mark.parametrize(
    ("value", "aliases"),
    [
        ([{"type": "pty", "log": "/l"}, {"type": "pty"}], ["ua-one", "ua-two"]),
        ([{"type": "unix", "path": "/s"}, {"type": "pty"}], [None, "ua-two"]),
        # Which of the two it is, nobody knows.
        ([{"type": "pty", "log": "/l"}], [None]),
    ],
)
def test_a_serial_device_is_known_by_its_place_and_kind(conn: t.Any, value: t.Any, aliases: list[str | None]) -> None:
    machine = changed(conn, "serials", value, SERIAL + SECOND)
    found = [serial.find("alias") for serial in machine.iterfind("devices/serial")]
    assert [None if alias is None else alias.get("name") for alias in found] == aliases


FILTER = """<interface><filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.1'/>
<parameter name='IP' value='192.0.2.2'/><parameter name='CTRL_IP_LEARNING' value='none'/></filterref></interface>"""


def test_an_address_that_a_filter_is_given_takes_the_place_of_several() -> None:
    nic = etree.fromstring(FILTER)
    field = next(field for field in NIC_OPTIONS if field.key == "filter")
    have = field.read(nic)
    assert have["parameters"]["IP"] == {"value": ["192.0.2.1", "192.0.2.2"]}
    # What it has may be asked for beside something else.
    asked = {"parameters": {"IP": have["parameters"]["IP"], "CTRL_IP_LEARNING": "any"}}
    field.write(nic, check_field(field, asked, "filter", have))
    values = [parameter.get("value") for parameter in nic.iterfind("filterref/parameter")]
    assert values == ["192.0.2.1", "192.0.2.2", "any"]
    field.write(nic, check_field(field, {"parameters": {"IP": "192.0.2.1"}}, "filter", have))
    values = [parameter.get("value") for parameter in nic.iterfind("filterref/parameter")]
    assert values == ["192.0.2.1", "any"]
