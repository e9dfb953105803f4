# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of the description: into libvirt's XML and back unchanged, and fit for libvirt's schema."""

from __future__ import annotations

import functools
import typing as t

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import (
    Field,
    check_field,
    check_table,
    covers,
    read_table,
    write_table,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.strategies import checked, of_field, of_table

pytestmark = pytest.mark.medium

SCHEMA = "/usr/share/libvirt/schemas/domain.rng"
# Here what fits depends on several values at once, or on the version of libvirt. Whether a whole machine fits is asked
# before anything is done to it.
KNOWN_BY_THE_SCHEMA_ALONE = ("clock", "serials", "consoles", "watchdog")
FIELDS = {field.key: field for field in HARDWARE}
patient = settings(
    max_examples=settings().max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@functools.lru_cache(maxsize=1)
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(SCHEMA))


def bare_domain() -> etree._Element:
    return etree.fromstring(
        "<domain type='kvm'><name>m</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>"
        "<os><type>hvm</type></os><clock offset='utc'/><devices/></domain>"
    )


def must_fit(domain: etree._Element, key: str) -> None:
    if key not in KNOWN_BY_THE_SCHEMA_ALONE and not schema().validate(domain):
        raise AssertionError(f"{schema().error_log}\n{etree.tostring(domain, pretty_print=True).decode()}")


@pytest.mark.parametrize("field", HARDWARE, ids=lambda field: field.key)
@given(data=st.data())
@patient
def test_a_value_survives_xml(field: Field, data: st.DataObject) -> None:
    value = data.draw(checked(field))
    domain = bare_domain()
    field.write(domain, value)
    again = etree.fromstring(etree.tostring(domain))
    assert covers(field.read(again), value)
    must_fit(again, field.key)


@pytest.mark.parametrize("field", HARDWARE, ids=lambda field: field.key)
@given(data=st.data())
@patient
def test_a_second_value_takes_the_place_of_the_first(field: Field, data: st.DataObject) -> None:
    domain = bare_domain()
    for _time in range(2):
        value = data.draw(checked(field))
        field.write(domain, value)
    assert covers(field.read(domain), value)
    must_fit(domain, field.key)


@functools.lru_cache(maxsize=1)
def hypervisor() -> t.Any:
    return libvirt.open("test:///default")


# The first console and the first serial device are one to libvirt, and virt_init changes them together.
@pytest.mark.parametrize(
    "field", [field for field in HARDWARE if field.key not in ("serials", "consoles")], ids=lambda field: field.key
)
@given(data=st.data())
@patient
def test_libvirt_keeps_what_it_takes(field: Field, data: st.DataObject) -> None:
    """What it drops, or writes otherwise, would be a change in every run."""
    bare = bare_domain()
    bare.set("type", "test")
    machine = defined(bare)
    for _time in range(2):
        have = field.read(machine)
        try:
            want = check_field(field, data.draw(of_field(field)), "here", have)
            write_table(machine, [field], {field.key: want})
            machine = defined(machine)
        except (InputError, libvirt.libvirtError):
            return
        assert covers(field.read(machine), want), etree.tostring(machine)


def defined(domain: etree._Element) -> etree._Element:
    """A machine as libvirt has it once it is defined."""
    handle = hypervisor().defineXML(etree.tostring(domain, encoding="unicode"))
    xml = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    handle.undefine()
    return etree.fromstring(xml)


@pytest.mark.parametrize(("tag", "fields"), [("disk", DISK_OPTIONS), ("interface", NIC_OPTIONS)])
@given(data=st.data())
@patient
def test_the_options_of_devices_survive_xml(tag: str, fields: tuple[Field, ...], data: st.DataObject) -> None:
    raw = data.draw(of_table(fields))
    try:
        value = check_table(raw, "here", fields)
    except InputError:
        return
    device = etree.Element(tag)
    write_table(device, fields, value)
    assert covers(read_table(etree.fromstring(etree.tostring(device)), fields), value)


@pytest.mark.parametrize("field", HARDWARE, ids=lambda field: field.key)
def test_nothing_is_written_for_a_domain_that_has_nothing(field: Field) -> None:
    domain = bare_domain()
    before = etree.tostring(domain)
    field.read(domain)
    assert etree.tostring(domain) == before


@pytest.mark.parametrize(
    ("option", "written", "value"),
    [
        ("vcpus", 2, {"maximum": 2, "current": 2}),
        ("vcpus", {"current": 2, "maximum": 8}, {"maximum": 8, "current": 2}),
        ("memory", "2GiB", {"maximum": 2048, "current": 2048}),
        ("memory", {"maximum": "4GiB"}, {"maximum": 4096, "current": 4096}),
        ("memory", {"boot": 1024, "hugepages": True}, {"maximum": 1024, "current": 1024, "hugepages": True}),
        ("cpu", "host-passthrough", {"mode": "host-passthrough"}),
        ("cpu", {"model": "EPYC"}, {"mode": "custom", "model": "EPYC"}),
        ("cpu", {"features": ["vmx"]}, {"features": {"vmx": {"policy": "require"}}}),
        ("cpu", {"features": {"vmx": "disable"}}, {"features": {"vmx": {"policy": "disable"}}}),
        ("cpu", {"tuning": {"vcpupin": {0: "1-2"}}}, {"tuning": {"vcpupin": {0: {"cpuset": "1-2"}}}}),
        ("clock", {"utc": False}, {"offset": "localtime"}),
        ("clock", {"offset": "utc", "adjustment": 120}, {"offset": "variable", "adjustment": "120"}),
        ("clock", {"offset": "utc", "adjustment": "reset"}, {"offset": "utc", "adjustment": "reset"}),
        ("clock", {"timezone": "Europe/Berlin"}, {"offset": "timezone", "timezone": "Europe/Berlin"}),
        ("clock", {"timers": {"hpet": False}}, {"timers": {"hpet": {"present": False}}}),
        ("boot", {"devices": ["network", "hd"]}, {"devices": ({"device": "network"}, {"device": "hd"})}),
        ("graphics", True, {"type": "vnc"}),
        ("graphics", "none", False),
        ("video", {"model": "none"}, False),
        ("vcpus", {"current": 2, "placement": "static"}, {"maximum": 2, "current": 2}),
        ("graphics", {"type": "spice", "tls": True}, {"type": "spice", "tls": True}),
        ("serials", "pty", ({"type": "pty"},)),
        ("serials", [{"port": 2000}], ({"port": 2000, "type": "tcp", "host": "127.0.0.1", "mode": "bind"},)),
        ("rng", True, {}),
        ("rng", False, False),
        ("watchdog", "poweroff", {"action": "poweroff"}),
        ("watchdog", "none", False),
        ("tpm", True, {}),
        ("tpm", 2.0, {"version": "2.0"}),
        ("tpm", 2, {"version": "2.0"}),
        ("tpm", 1.2, {"model": "tpm-tis", "version": "1.2"}),
        ("tpm", {"version": "1.2"}, {"model": "tpm-tis", "version": "1.2"}),
        ("host_devices", "pci_0000_03_00_0", ("0000:03:00.0",)),
        ("host_devices", ["046D:C52B"], ("046d:c52b",)),
    ],
)
def test_short_ways_to_say_it(option: str, written: t.Any, value: t.Any) -> None:
    assert FIELDS[option].check(written, option) == value


@pytest.mark.parametrize(
    ("option", "written", "where"),
    [
        ("vcpus", {"current": 4, "maximum": 2}, "vcpus.current"),
        ("memory", {}, "memory"),
        ("cpu", {"mode": "host-model", "model": "EPYC"}, "cpu.model"),
        ("cpu", {"topology": {"cores": 0}}, "cpu.topology.cores"),
        ("cpu", {"features": ["vmx", {"name": "svm"}]}, "cpu.features[1]"),
        ("cpu", {"tuning": {"vcpupin": {0: "all"}}}, "cpu.tuning.vcpupin.0.cpuset"),
        (
            "cpu",
            {"tuning": {"vcpusched": [{"vcpus": "0-2", "scheduler": "idle"}, {"vcpus": "2", "scheduler": "batch"}]}},
            "cpu.tuning.vcpusched",
        ),
        ("clock", {"timers": {"sundial": {}}}, "clock.timers"),
        ("clock", {"timers": {"platform": True}}, "clock.timers"),
        ("clock", {"timers": {"rtc": {"track": "boot"}}}, "clock.timers.rtc.track"),
        ("clock", {"timers": {"hpet": False, "pit": {"tickpolicy": "merge"}}}, "clock.timers.pit.tickpolicy"),
        ("graphics", {"type": "vnc", "tls": True}, "graphics.tls"),
        ("graphics", {"type": "vnc", "password": "longer than eight"}, "graphics.password"),
        ("graphics", {"type": "vnc", "listen": "everywhere"}, "graphics.listen"),
        ("serials", [{"type": "unix"}], "serials[0]"),
        ("serials", [{"type": "udp", "port": 5000, "mode": "bind"}], "serials[0].mode"),
        ("host_devices", ["eth0"], "host_devices[0]"),
        ("shared_folders", [{"source": "srv", "tag": "x"}], "shared_folders[0].source"),
        ("events", {"crash": "ignore"}, "events.crash"),
        ("events", {"fire": "ignore"}, "events"),
        ("events", {"poweroff": "preserve"}, "events.poweroff"),
        ("events", {"reboot": "preserve"}, "events.reboot"),
        ("events", {"reboot": "rename-restart"}, "events.reboot"),
        ("events", {"crash": "rename-restart"}, "events.crash"),
        ("tpm", {"model": "tpm-crb", "version": 1.2}, "tpm.model"),
        ("tpm", 3.0, "tpm.version"),
        ("clock", {"offset": "timezone"}, "clock.timezone"),
        ("video", {"model": "none", "vram": 1024}, "video.vram"),
        ("video", {"model": "cirrus", "heads": 2}, "video.heads"),
        ("vcpus", {"current": 1, "cpuset": "0", "placement": "auto"}, "vcpus.cpuset"),
        ("cpu", {"mode": "maximum", "match": "exact"}, "cpu.match"),
        ("cpu", {"match": "exact"}, "cpu.match"),
        ("cpu", {"mode": "custom", "match": "exact"}, "cpu.match"),
        ("serials", [{"tls": False}], "serials[0].tls"),
        ("serials", [{"type": "unix", "path": "/run/a", "protocol": "telnet"}], "serials[0].protocol"),
        ("consoles", [{"host": "192.0.2.1"}], "consoles[0].host"),
        ("consoles", [{"type": "file", "path": "/srv/a", "mode": "bind"}], "consoles[0].mode"),
        ("watchdog", {"action": "bark"}, "watchdog.action"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(option: str, written: t.Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        FIELDS[option].check(written, option)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("cells", "where", "says"),
    [
        ([{}, {"id": 89}], "cpu.numa[1].id", "89 is too high. The ids of 2 cells are 0 to 1"),
        ([{"id": 1}, {"id": 1}], "cpu.numa[1].id", "the id 1 is not free. The ids of 2 cells are 0 to 1"),
        ([{"id": 1}, {}], "cpu.numa[1].id", "the id 1 is not free. The ids of 2 cells are 0 to 1"),
        # These made libvirtd crash.
        ([{"distances": {2588: 20}}], "cpu.numa[0].distances", "there is no cell 2588. The only cell has the id 0"),
        ([{}, {"distances": {0: 10}}], "cpu.numa[1].distances.0", "the distance to cell 0 is 10. It is 11 to 255"),
        (
            [{"id": 1}, {"id": 0, "distances": {0: 20}}],
            "cpu.numa[1].distances.0",
            "the distance to the cell itself is 20. It is 10, no other",
        ),
    ],
)
def test_numa_cells_that_do_not_fit_together(cells: list[dict[str, t.Any]], where: str, says: str) -> None:
    rows = [{"memory": "1GiB", **cell} for cell in cells]
    with pytest.raises(InputError) as caught:
        FIELDS["cpu"].check({"numa": rows}, "cpu")
    assert str(caught.value) == f"{where}: {says}"


@pytest.mark.parametrize(
    ("option", "have", "written", "value"),
    [
        ("tpm", {"model": "tpm-crb", "version": "2.0"}, 1.2, {"model": "tpm-tis", "version": "1.2"}),
        ("tpm", {"model": "tpm-tis", "version": "1.2"}, {"version": "1.2"}, {"version": "1.2"}),
        ("tpm", {"model": "tpm-spapr", "version": "2.0"}, {"version": "1.2"}, {"version": "1.2"}),
        ("events", {"reboot": "preserve"}, {"reboot": "preserve"}, {"reboot": "preserve"}),
        (
            "vcpus",
            {"placement": "auto"},
            {"current": 1, "cpuset": "0"},
            {"maximum": 1, "current": 1, "cpuset": "0", "placement": "static"},
        ),
        ("cpu", {"mode": "maximum", "match": "exact"}, {"match": "exact"}, {"match": "exact"}),
        ("clock", {"offset": "timezone", "timezone": "Europe/Berlin"}, "timezone", {"offset": "timezone"}),
        ("clock", {"timers": {"rtc": {"track": "boot"}}}, *[{"timers": {"rtc": {"track": "boot"}}}] * 2),
    ],
)
def test_what_a_machine_has_counts(option: str, have: t.Any, written: t.Any, value: t.Any) -> None:
    assert check_field(FIELDS[option], written, option, have) == value


def test_a_console_listens_on_the_loopback_address_unless_told_otherwise() -> None:
    domain = bare_domain()
    FIELDS["graphics"].write(domain, {"type": "vnc"})
    assert domain.xpath("devices/graphics/listen/@address") == ["127.0.0.1"]
    assert domain.xpath("devices/graphics/@autoport") == ["yes"]


def test_another_cpu_mode_leaves_nothing_of_the_model() -> None:
    domain = bare_domain()
    FIELDS["cpu"].write(domain, {"mode": "custom", "model": "EPYC", "match": "exact"})
    FIELDS["cpu"].write(domain, {"mode": "host-model"})
    assert [etree.tostring(cpu) for cpu in domain.iterfind("cpu")] == [b'<cpu mode="host-model"/>']


def test_local_time_with_an_adjustment_is_what_libvirt_makes_of_it() -> None:
    field, domain = FIELDS["clock"], bare_domain()
    domain.set("type", "test")
    value = check_field(field, {"offset": "localtime", "adjustment": 120}, "clock")
    field.write(domain, value)
    domain = defined(domain)
    assert domain.xpath("string(clock/@offset)") == "variable"
    assert covers(field.read(domain), value)
    field.write(domain, {"offset": "variable", "adjustment": "120"})
    assert covers(field.read(domain), {"offset": "variable"})


@pytest.mark.parametrize("adjustment", [0, 60, "reset"])
@pytest.mark.parametrize("offset", [{}, {"offset": "localtime"}])
def test_local_time_gets_another_adjustment(adjustment: t.Any, offset: dict[str, t.Any]) -> None:
    field, domain = FIELDS["clock"], bare_domain()
    domain.set("type", "test")
    field.write(domain, check_field(field, {"offset": "localtime", "adjustment": 120}, "clock"))
    domain = defined(domain)
    value = check_field(field, {**offset, "adjustment": adjustment}, "clock", field.read(domain))
    field.write(domain, value)
    domain = defined(domain)
    assert covers(field.read(domain), {"offset": "localtime", **value})


@pytest.mark.parametrize(
    ("have", "adjustment", "says"),
    [
        ({"timezone": "Europe/Berlin"}, 60, "a time zone has no adjustment"),
        ({"offset": "utc", "adjustment": 60}, "reset", "a variable clock has a number of seconds"),
    ],
)
def test_an_adjustment_has_to_suit_the_clock_that_is_there(have: t.Any, adjustment: t.Any, says: str) -> None:
    field, domain = FIELDS["clock"], bare_domain()
    field.write(domain, check_field(field, have, "clock"))
    with pytest.raises(InputError, match=rf"clock.adjustment: {says}"):
        check_field(field, {"adjustment": adjustment}, "clock", field.read(domain))
