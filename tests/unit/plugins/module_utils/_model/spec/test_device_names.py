# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for the devices of machines that somebody else made."""

from __future__ import annotations

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.spec.device_names import name_disks, name_nics
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import read_values
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import recorded
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.schema_machines import SchemaMachines

pytestmark = pytest.mark.medium


def domain(*devices: str) -> etree._Element:
    return etree.fromstring(f"<domain><devices>{''.join(devices)}</devices></domain>")


def nic(mac: str) -> str:
    return f"<interface><mac address='{mac}'/></interface>"


def test_disks_are_called_by_their_targets() -> None:
    targets = ("vda", "sda", "hdc", "vda", "ioemu:hda", "")
    found = name_disks(domain(*(f"<disk><target dev='{target}'/></disk>" for target in targets), "<disk/>"))
    assert [(note.name, note.target) for note in found] == [("vda", "vda"), ("sda", "sda"), ("hdc", "hdc")]


def test_nics_are_called_by_their_order_and_known_by_their_addresses() -> None:
    first, second = "52:54:00:00:00:0A", "52:54:00:00:00:02"
    found = name_nics(domain(nic(first), "<interface/>", nic(first.lower()), nic(second)))
    assert [(note.name, note.mac) for note in found] == [("eth0", first), ("eth3", second)]


@pytest.mark.parametrize("seed", range(30))
def test_they_are_the_names_that_a_machine_of_others_is_read_with(seed: int) -> None:
    for machine in (SchemaMachines().machine(seed), *recorded().values()):
        values = read_values(machine)
        assert {note.name for note in name_disks(machine)} <= set(values["disks"])
        assert {note.name for note in name_nics(machine)} <= set(values["nics"])
