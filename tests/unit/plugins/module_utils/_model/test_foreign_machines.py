# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that others made: whatever their XML says is read, accepted, and stays when nothing else is asked for."""

from __future__ import annotations

import functools
import typing as t

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import (
    Field,
    check_field,
    covers,
    read_table,
    write_table,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import (
    must_stay_as_it_is,
    parts,
    recorded,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.schema_machines import SchemaMachines
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.strategies import checked

pytestmark = pytest.mark.medium

SEEDS = 60
patient = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@functools.lru_cache(maxsize=1)
def schema_machines() -> SchemaMachines:
    return SchemaMachines()


@pytest.mark.parametrize(
    "domain", [pytest.param(domain, id=arguments[80:]) for arguments, domain in recorded().items()]
)
def test_what_virt_install_makes_stays_as_it_is(domain: etree._Element) -> None:
    must_stay_as_it_is(domain)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_the_schema_of_libvirt_allows_stays_as_it_is(seed: int) -> None:
    must_stay_as_it_is(schema_machines().machine(seed))


def test_chance_comes_by_every_type_of_the_schema() -> None:
    domains = [schema_machines().machine(seed) for seed in range(SEEDS)]
    for tag, definition in (("interface", "interface"), ("graphics", "graphic"), ("hostdev", "hostdevsubsys")):
        made = {device.get("type") for domain in domains for device in domain.iterfind(f"devices/{tag}")}
        # The word of an <address> below an interface of type hostdev, which is no type of an interface.
        assert schema_machines().words(definition, "type") - {"pci", "usb"} <= made


@pytest.mark.parametrize("field", HARDWARE, ids=lambda field: field.key)
@given(data=st.data(), seed=st.integers(0, SEEDS - 1))
@patient
def test_a_changed_option_changes_no_other(field: Field, seed: int, data: st.DataObject) -> None:
    domain = schema_machines().machine(seed)
    before = read_table(domain, HARDWARE)
    want = data.draw(checked(field))
    write_table(domain, (field,), {field.key: want})
    after = read_table(domain, HARDWARE)
    assert covers(after.get(field.key), want)
    assert {key: after.get(key) for key in before if key != field.key} == {
        key: before[key] for key in before if key != field.key
    }


# What virt-install makes and this collection does not offer for a new machine.
NOT_OFFERED = {
    "graphics.type",
    "video.model",
    "serials[0].type",
    "serials[1].type",
    # Of a udp device, which libvirt gives a place to listen at beside the one to send to.
    "serials[0].mode",
    "consoles[0].type",
    "watchdog.model",
    # It was asked on libvirt's test driver, and that for QEMU refuses it.
    "clock.timers.rtc.tickpolicy",
}


def test_nearly_all_of_it_is_offered_for_new_machines_as_well() -> None:
    refused = set()
    for domain in recorded().values():
        for element, table in parts(domain):
            for key, value in read_table(element, table).items():
                try:
                    next(field for field in table if field.key == key).check(value, key)
                except InputError as exc:
                    refused.add(exc.where)
    assert refused <= NOT_OFFERED


FIELDS: dict[str, Field] = {field.key: field for field in (*HARDWARE, *DISK_OPTIONS, *NIC_OPTIONS)}


@pytest.mark.parametrize(
    ("option", "have", "asked"),
    [
        ("video", {"model": "vmvga"}, "vmvga"),
        ("video", {"model": "vmvga", "vram": 9216}, {"model": "vmvga", "heads": 2}),
        ("graphics", {"type": "sdl"}, {"type": "sdl"}),
        ("watchdog", {"model": "diag288", "action": "reset"}, {"model": "diag288", "action": "poweroff"}),
        ("serials", ({"type": "pipe", "path": "/tmp/p"}, {"type": "pty"}), [{"type": "pipe"}, "null"]),
        ("clock", {"timers": {"sundial": {"present": True}}}, {"timers": {"sundial": {"present": False}}}),
        ("cpu", {"mode": "host-model", "model": "EPYC"}, {"mode": "host-model", "model": "EPYC"}),
        ("serial", "a serial number of more characters than anybody sees", None),
    ],
)
def test_what_is_not_offered_is_accepted_of_the_machine_that_has_it(option: str, have: t.Any, asked: t.Any) -> None:
    asked = have if asked is None else asked
    with pytest.raises(InputError):
        check_field(FIELDS[option], asked, option)
    with pytest.raises(InputError):
        check_field(FIELDS[option], asked, option, {"another": 1})
    check_field(FIELDS[option], asked, option, have)


def domain_with(text: str) -> etree._Element:
    return etree.fromstring(f"<domain type='kvm'><name>m</name>{text}</domain>")


@pytest.mark.parametrize(
    ("xml", "option", "value"),
    [
        ("<memory unit='GiB'>2</memory>", "memory", {"maximum": 2048, "current": 2048}),
        ("<memory unit='b'>1073741825</memory>", "memory", {"maximum": 1025, "current": 1025}),
        ("<memory>219136</memory><currentMemory>219100</currentMemory>", "memory", {"maximum": 214, "current": 214}),
        ("<memory unit='KiB'>1048577</memory>", "memory", {"maximum": 1025}),
        (
            "<cpu><numa><cell memory='1' unit='GiB'/><cell memory='1' unit='GiB'/></numa></cpu>",
            "memory",
            {"maximum": 2048},
        ),
        (
            "<memory>32768</memory><memoryBacking><hugepages><page size='64' unit='KiB'/></hugepages></memoryBacking>",
            "memory",
            {"hugepages": ({"size": "64KiB"},)},
        ),
        ("<vcpu current='2'>8</vcpu>", "vcpus", {"maximum": 8, "current": 2}),
        ("<vcpu>8</vcpu>", "vcpus", {"maximum": 8, "current": 8}),
        ("<cpu match='exact'><model>core2duo</model></cpu>", "cpu", {"mode": "custom", "model": "core2duo"}),
        ("<cputune><quota>-1</quota></cputune>", "cpu", {"tuning": {"quota": -1}}),
        (
            "<numatune><memory mode='strict' placement='auto'/></numatune>",
            "numatune",
            {"memory": {"mode": "strict", "placement": "auto"}},
        ),
        (
            "<devices><graphics type='spice' port='-1' tlsPort='-1' autoport='yes'/></devices>",
            "graphics",
            {"type": "spice"},
        ),
        ("<devices><tpm/></devices>", "tpm", {}),
        ("<devices><rng model='virtio'><backend model='egd'>\n</backend></rng></devices>", "rng", {"model": "virtio"}),
    ],
)
def test_other_ways_to_say_it_are_the_same_to_libvirt(xml: str, option: str, value: t.Any) -> None:
    domain = domain_with(xml)
    field = FIELDS[option]
    found = field.read(domain)
    assert covers(found, value)
    before = etree.tostring(domain)
    assert field.check(found, option) == found
    write_table(domain, (field,), {option: found})
    assert etree.tostring(domain) == before


def test_there_is_no_cache_where_nobody_said_one() -> None:
    assert "cache" not in (FIELDS["cpu"].read(domain_with("<cpu mode='host-model'/>")) or {})


def test_one_changed_device_of_a_list_leaves_the_others_as_they_are() -> None:
    domain = domain_with(
        "<devices><serial type='pty'><alias name='ua-first'/><target type='pci-serial' port='0'/></serial>"
        "<serial type='null'/></devices>"
    )
    write_table(domain, HARDWARE, {"serials": ({"type": "pty"}, {"type": "file", "path": "/tmp/serial"})})
    assert [element.get("type") for element in domain.iterfind("devices/serial")] == ["pty", "file"]
    assert domain.xpath("devices/serial[1]/alias/@name") == ["ua-first"]


def test_a_device_of_the_hypervisor_that_stays_keeps_its_place_on_the_bus() -> None:
    domain = domain_with(
        "<devices><hostdev mode='subsystem' type='pci' managed='no'><source>"
        "<address domain='0x0000' bus='0x03' slot='0x00' function='0x0'/></source>"
        "<address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></hostdev></devices>"
    )
    write_table(domain, HARDWARE, {"host_devices": ("046d:c52b", "0000:03:00.0")})
    assert FIELDS["host_devices"].read(domain) == ("046d:c52b", "0000:03:00.0")
    assert domain.xpath("devices/hostdev[@managed='no']/address/@bus") == ["0x06"]


def test_a_console_that_moves_listens_there_alone() -> None:
    domain = domain_with(
        "<devices><graphics type='vnc' port='-1' autoport='yes' listen='0.0.0.0'>"
        "<listen type='address' address='0.0.0.0'/></graphics></devices>"
    )
    write_table(domain, HARDWARE, {"graphics": {"type": "vnc", "listen": "127.0.0.1"}})
    assert domain.xpath("devices/graphics/@listen") == []
    assert domain.xpath("devices/graphics/listen/@address") == ["127.0.0.1"]
