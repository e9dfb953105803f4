# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that others made: adopted, exported, and asked for as exported, they have nothing to change."""

from __future__ import annotations

import json
import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._operations.adopt.machines import plan_adoptions
from ansible_collections.brine.virt.plugins.module_utils._operations.export.machines import ExportResult, MachineExports
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.export.known_machines import (
    KNOWN,
    KnownMachine,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import (
    recorded,
    recorded_for_test_driver,
)
from ansible_collections.brine.virt.tests.unit.plugins.modules.test_virt_init_existing import (
    must_change_nothing,
    plans,
)
from ansible_collections.brine.virt.tests.unit.schema.editor import complaints_of_machine

pytestmark = pytest.mark.medium

ALL = recorded()
NAMES = [f"m{number}" for number in range(len(ALL))]


@pytest.fixture(scope="module")
def conn() -> t.Iterator[t.Any]:
    """A hypervisor of libvirt's test driver with all machines that virt-install made."""
    with open_connection("test:///default") as conn:
        for text in recorded_for_test_driver():
            conn.defineXML(text)
        yield conn


@pytest.fixture(scope="module")
def exported(conn: t.Any) -> dict[str, ExportResult]:
    """The exports before the machines are adopted, and they are the same afterwards."""
    before = {result.name: result for result in MachineExports(conn).results(NAMES)}
    for result in plan_adoptions(conn, NAMES, ()):
        assert result.plan is not None, result.error
        write_notes(conn.lookupByName(result.name), result.plan.notes)
    after = {result.name: result for result in MachineExports(conn).results(NAMES)}
    assert [result.export for result in before.values()] == [result.export for result in after.values()]
    return after


@pytest.fixture(scope="module")
def hypervisor(conn: t.Any, exported: t.Any) -> Hypervisor:
    return Hypervisor(conn, image_pool="default-pool")


@pytest.mark.parametrize("name", [pytest.param(NAMES[n], id=arguments[80:]) for n, arguments in enumerate(ALL)])
def test_what_is_exported_changes_nothing(exported: dict[str, ExportResult], hypervisor: Hypervisor, name: str) -> None:
    result = exported[name]
    assert result.export is not None, result.error
    entry = json.loads(json.dumps(result.export.entry))
    (plan,) = plans(hypervisor, entry)
    must_change_nothing(plan)
    # Nor does it need what only an existing machine can have.
    assert complaints_of_machine({**entry, "hypervisor": "hv1"}) == []


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: str(known.name))
@pytest.mark.parametrize("running", [False, True])
def test_machines_of_distributions(node_uri: str, known: KnownMachine, running: bool) -> None:
    with open_connection(node_uri) as conn:
        domain = etree.fromstring(known.xml)
        domain.set("type", "test")
        # Which files of the host are the firmware is for its libvirt to choose.
        for system in domain.findall("os[@firmware]"):
            for element in (*system.findall("loader"), *system.findall("nvram")):
                system.remove(element)
        for devices in domain.findall("devices"):
            # An emulator of a real host, and a watchdog that only later versions of libvirt know.
            for element in (*devices.findall("emulator"), *devices.findall("watchdog[@model='itco']")):
                devices.remove(element)
        handle = conn.defineXML(etree.tostring(domain, encoding="unicode"))
        if running:
            handle.create()
        (adopted,) = plan_adoptions(conn, ["a"], ())
        assert adopted.plan is not None, adopted.error
        write_notes(handle, adopted.plan.notes)
        (result,) = MachineExports(conn).results(["a"])
        assert result.export is not None, result.error
        entry = json.loads(json.dumps(result.export.entry))
        assert entry.get("state", "running") == ("running" if running else "present")
        (plan,) = plans(Hypervisor(conn, image_pool="images"), entry)
        must_change_nothing(plan)
        # The controller, which does not know the machine, accepts it as well.
        places = place_filter([{**entry, "hypervisor": "hv1"}], {"hv1": host_with(result)}, errors="return")
        assert (places["errors"], places["by_host"]) == ([], {"hv1": ["a"]})


def host_with(result: ExportResult) -> dict[str, t.Any]:
    """A hypervisor that has the machine."""
    machine = {
        "name": result.name,
        "uuid": result.uuid,
        "state": "running",
        "vcpus": 2,
        "memory_mib": 2048,
        "managed": True,
    }
    pools = [{"name": name, "active": True, "available_mib": 30 * 1024} for name in ("default", "images")]
    return {
        "memory": {"total_mib": 4096, "committed_mib": 2048},
        "vcpus": {"total": 2, "committed": 2},
        "pools": pools,
        "bridges": ["br0"],
        "networks": [],
        "machines": [machine],
    }
