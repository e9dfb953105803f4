# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for power off and on, told by the XML alone, is what the tables of all options would tell."""

from __future__ import annotations

import copy
import functools
import typing as t

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import OPTION_PATHS, pending_of
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.shapes import ListField
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import Field, covers, write_table
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._operations.update.hardware import shown_value
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import recorded
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.schema_machines import SchemaMachines
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.strategies import checked, of_field

pytestmark = pytest.mark.medium

SEEDS = 60
# Where libvirt or the guest fills in values while the machine runs (ports, paths, vCPUs given back), only these count.
STEADY_KEYS = {
    "vcpus": ("maximum", "cpuset"),
    "graphics": ("type", "listen", "port", "tls_port", "websocket"),
    "video": ("model", "heads"),
}
patient = settings(
    max_examples=settings().max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def by_the_tables(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options whose value in the definition the running machine's XML does not have."""
    return [field.key for field in HARDWARE if waits(field, live, defined)]


def waits(field: Field, live: etree._Element, defined: etree._Element) -> bool:
    want = field.read(defined)
    modes = [domain.xpath("string(cpu/@mode)") for domain in (live, defined)]
    if field.key == "cpu" and modes[0] != modes[1] and "host-passthrough" in modes:
        # libvirt leaves this mode alone, and expands the others.
        return True
    if want is None:
        return False
    have = field.read(live)
    want = shown_value(field, want)
    if field.key == "consoles":
        # That of the first serial device is made by libvirt.
        have, want = (own_consoles(value) for value in (have, want))
    keys = STEADY_KEYS.get(field.key)
    if keys is not None:
        if not isinstance(want, dict):
            return isinstance(have, dict) is not bool(want)
        want = {key: want[key] for key in keys if key in want}
    return not covers(have, want)


def own_consoles(rows: t.Iterable[t.Mapping[str, t.Any]] | None) -> tuple[t.Mapping[str, t.Any], ...]:
    return tuple(row for row in rows or () if row.get("target_type", "serial") != "serial")


@functools.lru_cache(maxsize=1)
def machines() -> tuple[etree._Element, ...]:
    """Of the schema's every type, of virt-install's every kind, and one that has next to nothing."""
    bare = "<domain type='kvm'><name>m</name><memory unit='KiB'>65536</memory><vcpu>1</vcpu><os/><devices/></domain>"
    made = SchemaMachines()
    found = (parse_xml(bare), *recorded().values(), *(made.machine(seed) for seed in range(SEEDS)))
    for video in (video for domain in found for video in domain.iterfind("devices/video")):
        # libvirt writes the model that it has chosen where the definition did not name one.
        if video.find("model") is None:
            etree.SubElement(video, "model", type="vga")
    return found


def running(defined: etree._Element) -> etree._Element:
    """The same with what libvirt adds to each device, and to the machine, while it runs."""
    live = copy.deepcopy(defined)
    live.set("id", "3")
    for number, device in enumerate(live.iterfind("devices/*")):
        etree.SubElement(device, "alias", name=f"device{number}")
        etree.SubElement(device, "address", type="pci", bus=f"0x{number:02x}")
    for label in ("dac", "apparmor"):
        etree.SubElement(etree.SubElement(live, "seclabel", type="dynamic", model=label), "label").text = label
    etree.SubElement(etree.SubElement(live, "resource"), "partition").text = "/machine"
    return live


def test_every_option_has_its_place_in_the_xml() -> None:
    assert list(OPTION_PATHS) == [field.key for field in HARDWARE]


def test_a_machine_as_it_was_started_waits_for_nothing() -> None:
    for defined in machines():
        assert pending_of(running(defined), defined) == []


@pytest.mark.parametrize("field", HARDWARE, ids=lambda field: field.key)
@given(data=st.data())
@patient
def test_one_changed_option_is_told_as_by_the_tables(field: Field, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(machines()))
    other = copy.deepcopy(one)
    write_table(other, (field,), {field.key: data.draw(checked(field))})
    if field.key == "graphics":
        # Of several places where a console listens, the tables know the first one.
        assume(all(len(domain.findall("devices/graphics/listen")) < 2 for domain in (one, other)))
    for live, defined in ((one, other), (other, one)):
        # Kinds of devices in the boot order take single ones out of it, and a console takes its client's devices along.
        told = [key for key in pending_of(running(live), defined) if key in OPTION_PATHS]
        assert told == by_the_tables(live, defined)


# Each option with each part of it. What has no parts is changed as a whole above.
PARTS = [(field, part) for field in HARDWARE for part in getattr(field, "table", ())]
# There is no console without a type.
ALWAYS = {"graphics": {"type": "vnc"}}


@pytest.mark.parametrize(("field", "part"), PARTS, ids=[f"{field.key}.{part.key}" for field, part in PARTS])
@given(data=st.data())
@patient
def test_one_changed_part_is_told_as_by_the_tables(field: Field, part: Field, data: st.DataObject) -> None:
    one, other = (copy.deepcopy(machines()[0]) for _time in range(2))
    for domain in (one, other):
        wanted = domain is other or data.draw(st.booleans())
        value = {**ALWAYS.get(field.key, {}), part.key: data.draw(of_field(part))} if wanted else None
        # Of the ports that libvirt chooses, nobody knows what they will be.
        assume(part.key != "websocket" or value is None or value["websocket"] > 0)
        rows = isinstance(field, ListField) and value is not None
        write_table(domain, (field,), {field.key: [value] if rows else value})
    for live, defined in ((one, other), (other, one)):
        assert pending_of(running(live), defined) == by_the_tables(live, defined)
