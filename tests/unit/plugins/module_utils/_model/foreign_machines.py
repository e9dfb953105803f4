# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that others made, and what holds for each of them."""

from __future__ import annotations

import typing as t
import uuid
from pathlib import Path

from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import (
    bare_record,
    nics_to_ask,
    record_from_xml,
)
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import agent_is_connected
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import (
    Table,
    check_table,
    covers,
    read_table,
    write_table,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

RECORDED = Path(__file__).parents[3] / "fixtures" / "virt_install.xml"


def recorded() -> dict[str, etree._Element]:
    """The machines that virt-install made (fixtures/record_virt_install.py), each by its arguments."""
    root = etree.parse(str(RECORDED)).getroot()
    return {machine.get("arguments", ""): etree.fromstring(etree.tostring(machine[0])) for machine in root}


def recorded_for_test_driver() -> t.Iterator[str]:
    """The same machines in the same order as libvirt's test driver accepts them, called m0, m1 and so on."""
    for number, domain in enumerate(recorded().values()):
        domain.set("type", "test")
        for path, text in (("name", f"m{number}"), ("uuid", str(uuid.UUID(int=number + 1)))):
            found = domain.find(path)
            assert found is not None
            found.text = text
        for devices in domain.findall("devices"):
            for emulator in devices.findall("emulator"):
                devices.remove(emulator)
        yield etree.tostring(domain, encoding="unicode")


def parts(domain: etree._Element) -> t.Iterator[tuple[etree._Element, Table]]:
    """What of a machine has options, each with their table."""
    yield domain, HARDWARE
    for disk in domain.iterfind("devices/disk"):
        yield disk, DISK_OPTIONS
    for nic in domain.iterfind("devices/interface"):
        yield nic, NIC_OPTIONS


def must_stay_as_it_is(domain: etree._Element) -> None:
    """A machine has a record, what is read of it is accepted, and writing that changes nothing in its XML."""
    before = etree.tostring(domain)
    record = record_from_xml(domain, "running")
    assert record.keys() == bare_record("", "", "running").keys()
    assert len(nics_to_ask(domain, None)) == len(record["nics"])
    agent_is_connected(domain)
    for element, table in parts(domain):
        values = read_table(element, table)
        asked = check_table(values, "machine", table, (), values)
        assert covers(values, asked), [key for key in asked if not covers(values.get(key), asked[key])]
        write_table(element, table, asked)
    for disk in domain.iterfind("devices/disk"):
        source = DiskSource.read(disk)
        if source is not None:
            source.write(disk)
    assert etree.tostring(domain) == before
