# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes on booting when its disks change."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.xml import need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.xml.devices import attachable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host

pytestmark = pytest.mark.medium

SYSTEM: dict[str, t.Any] = {"name": "system", "source": "x.qcow2"}
DATA: dict[str, t.Any] = {"name": "data", "size": "1MiB"}
CD: dict[str, t.Any] = {"name": "cd", "device": "cdrom", "source": "none"}
SYSTEM_GOES = {"name": "system", "state": "absent"}
ROOT = {"name": "root", "source": "x.qcow2"}


def orders(host: Host) -> dict[str, str | None]:
    """The place of each disk in the boot order, by its file or its device; and the kinds of devices that boot."""
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    found: dict[str, str | None] = {}
    for disk in xml.iterfind("devices/disk"):
        source, boot = disk.find("source"), disk.find("boot")
        name = (source.get("file", "") if source is not None else disk.get("device", "")).rpartition("/")[2]
        found[name] = None if boot is None else boot.get("order")
    kinds = [kind.get("dev") for kind in need(xml, "os").iterfind("boot")]
    return {**found, "os": ",".join(map(str, kinds))} if kinds else found


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # As the documentation renames one.
        ([SYSTEM, DATA], [SYSTEM_GOES, ROOT], {"x.qcow2": "1", "a-data.qcow2": "2"}),
        ([SYSTEM, DATA], [ROOT, SYSTEM_GOES, DATA], {"x.qcow2": "1", "a-data.qcow2": "2"}),
        ([CD], [CD, SYSTEM], {"cdrom": "1", "x.qcow2": "2"}),
        # What it has booted from it goes on booting from.
        ([SYSTEM], [CD, SYSTEM], {"x.qcow2": "1", "cdrom": "2"}),
        ([SYSTEM], [DATA], {"x.qcow2": "1", "a-data.qcow2": "2"}),
        ([DATA, CD], [{"name": "data", "state": "absent"}, CD, SYSTEM], {"cdrom": "2", "x.qcow2": "3"}),
        # libvirt writes the kind hd for a machine without disks.
        ([], [CD], {"cdrom": "1"}),
        ([], [SYSTEM, DATA], {"x.qcow2": "1", "a-data.qcow2": "2"}),
        # Where the spec orders devices, others have no order.
        ([SYSTEM], [{**SYSTEM, "boot_order": 3}, DATA], {"x.qcow2": "3", "a-data.qcow2": None}),
        ([SYSTEM], [SYSTEM, {**DATA, "boot_order": 1}], {"x.qcow2": None, "a-data.qcow2": "1"}),
        # Those of which nothing is said come after them.
        ([SYSTEM], [{**DATA, "boot_order": 1}], {"x.qcow2": "2", "a-data.qcow2": "1"}),
        ([SYSTEM, CD], [{**DATA, "boot_order": 2}], {"x.qcow2": "1", "cdrom": "3", "a-data.qcow2": "2"}),
        ([SYSTEM, CD], [{**DATA, "boot_order": 9}], {"x.qcow2": "1", "cdrom": "2", "a-data.qcow2": "9"}),
        ([SYSTEM, CD], [CD, {**DATA, "boot_order": 1}], {"x.qcow2": "2", "cdrom": None, "a-data.qcow2": "1"}),
    ],
)
def test_a_new_disk_has_its_place(
    host: Host, before: list[dict[str, t.Any]], after: list[dict[str, t.Any]], expected: dict[str, str | None]
) -> None:
    host.make({"name": "a", "disks": [{"pool": "default", **disk} for disk in before]})
    host.make({"name": "a", "disks": [{"pool": "default", **disk} for disk in after]})
    assert orders(host) == expected
    assert not host.plan({"name": "a", "disks": [{"pool": "default", **disk} for disk in after]})[0].steps


def test_kinds_of_devices_that_somebody_has_named_stay(host: Host) -> None:
    host.make({"name": "a", "boot": {"devices": ["cdrom", "hd"]}, "disks": [{"pool": "default", **SYSTEM}]})
    host.make({"name": "a", "disks": [{"pool": "default", **CD}]})
    assert orders(host) == {"x.qcow2": None, "cdrom": None, "os": "cdrom,hd"}


def test_where_kinds_were_named_the_first_of_each_comes_after_a_disk_that_has_its_place(host: Host) -> None:
    disks = [SYSTEM, {"name": "other", "size": "1MiB"}, CD]
    host.make(
        {"name": "a", "boot": {"devices": ["cdrom", "hd"]}, "disks": [{"pool": "default", **disk} for disk in disks]}
    )
    added = {"name": "a", "disks": [{"pool": "default", **DATA, "boot_order": 1}]}
    host.make(added)
    assert orders(host) == {"x.qcow2": "3", "a-other.qcow2": None, "cdrom": "2", "a-data.qcow2": "1"}
    assert not host.plan(added)[0].steps


def test_a_device_of_the_host_keeps_its_place_when_a_disk_of_the_spec_is_gone(host: Host) -> None:
    spec = {"name": "a", "disks": [{"pool": "default", **SYSTEM, "boot_order": 2}, {"name": "data", "state": "absent"}]}
    host.make(spec)
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    need(xml, "devices").append(
        etree.fromstring(
            "<hostdev mode='subsystem' type='pci' managed='yes'><boot order='1'/>"
            "<source><address domain='0' bus='6' slot='0' function='0'/></source></hostdev>"
        )
    )
    host.conn.defineXML(etree.tostring(xml, encoding="unicode"))
    assert not host.plan(spec)[0].steps


def test_a_disk_that_was_taken_out_by_hand_comes_back_to_its_place(host: Host) -> None:
    host.make({"name": "a", "disks": [{"pool": "default", **disk} for disk in (SYSTEM, CD)]})
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    devices = need(xml, "devices")
    devices.remove(need(devices, "disk[@device='disk']"))
    host.conn.defineXML(etree.tostring(xml, encoding="unicode"))
    host.make({"name": "a", "disks": [{"pool": "default", **disk} for disk in (SYSTEM, CD)]})
    assert orders(host) == {"cdrom": "2", "x.qcow2": "1"}


@pytest.mark.parametrize(
    ("devices", "kinds", "order"),
    [
        ("<disk><boot order='1'/></disk>", "", "2"),
        # libvirt attaches no second device of one place.
        ("<disk><boot order='2'/></disk>", "", None),
        ("<interface><boot order='2'/></interface>", "", None),
        ("", "<boot dev='hd'/>", None),
    ],
)
@pytest.mark.parametrize(
    "device", ["<disk><target dev='vdb'/>{}</disk>", "<interface><mac address='a'/>{}</interface>"]
)
def test_a_running_machine_gets_the_device_even_where_its_place_is_taken(
    devices: str, kinds: str, order: str | None, device: str
) -> None:
    live = parse_xml(f"<domain><os>{kinds}</os><devices>{devices}</devices></domain>")
    element = parse_xml(device.format("<boot order='2'/>"))
    boot = parse_xml(attachable(element, live)).find("boot")
    assert (None if boot is None else boot.get("order")) == order
    assert element.find("boot") is not None
