# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All machines of a hypervisor, on libvirt's test driver."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines import listing
from ansible_collections.brine.virt.plugins.module_utils._host.machines.addresses import AgentLimits
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable


def test_every_machine_is_there_sorted_by_name(node_uri: str) -> None:
    with open_connection(node_uri, read_only=True) as conn:
        records = observe_machines(conn, addresses=True)
    keys = ("name", "state", "managed", "building", "autostart", "persistent", "address")
    assert [tuple(record[key] for key in keys) for record in records] == [
        ("db1", "shutoff", False, False, False, True, None),
        ("half", "shutoff", True, True, False, True, "192.0.2.3"),
        ("web1", "running", True, False, False, True, "192.168.122.129"),
    ]


def test_addresses_are_asked_only_when_wanted(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        (record,) = observe_machines(conn, addresses=False, names=["web1"])
    assert record["addresses"] == []
    assert record["nics"][0]["addresses"] == []


def test_autostart_is_told(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        conn.lookupByName("db1").setAutostart(True)
        records = observe_machines(conn, addresses=False)
    assert {record["name"]: record["autostart"] for record in records} == {"db1": True, "half": False, "web1": False}


def test_a_saved_machine_is_off_with_a_mark(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        conn.lookupByName("web1").managedSave(0)
        records = observe_machines(conn, addresses=False)
    assert [(record["state"], record["saved"]) for record in records] == [
        ("shutoff", False),
        ("shutoff", False),
        ("shutoff", True),
    ]


@pytest.mark.parametrize(
    ("names", "expected"), [([], []), (["web1"], ["web1"]), (["db1", "nobody"], ["db1"]), (["nobody"], [])]
)
def test_only_the_machines_named(node_uri: str, names: list[str], expected: list[str]) -> None:
    with open_connection(node_uri) as conn:
        assert [record["name"] for record in observe_machines(conn, addresses=False, names=names)] == expected


def test_the_volume_of_a_disk_and_the_size_of_a_stopped_one(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        stopped, _half, running = observe_machines(conn, addresses=False)
    assert stopped["disks"][0]["size_bytes"] > 0  # the driver's own figure
    assert stopped["disks"][0]["pool"] is None
    assert stopped["errors"] == []
    assert (running["disks"][0]["pool"], running["disks"][0]["volume"]) == ("default", "web1-system.qcow2")
    # The driver has no block statistics, and a running machine is not asked one by one.
    assert running["errors"] == ["disk vda: its size is unknown for now: the machine is busy"]


def test_a_machine_that_cannot_be_read_stays_with_what_is_known(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        bulk = listing._ask_in_bulk(conn, ["web1"], sizes=True)
        record = listing._unread_record(bulk.domains[0], bulk, "the machine could not be read: no answer within 8 s")
        (whole,) = observe_machines(conn, addresses=True, names=["web1"])
    assert record.keys() == whole.keys()
    assert (record["name"], record["uuid"], record["state"]) == (whole["name"], whole["uuid"], "running")
    assert (record["persistent"], record["autostart"], record["vcpus"]) == (True, False, None)
    assert record["errors"] == ["the machine could not be read: no answer within 8 s"]


def test_a_machine_that_went_since_it_was_listed_is_no_machine(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        bulk = listing._ask_in_bulk(conn, None, sizes=True)
        (gone,) = [domain for domain in bulk.domains if domain.name() == "db1"]
        conn.lookupByName("db1").undefine()
        assert listing._read_machine(gone, bulk, searches={}, leases=None, sizes=True, limits=AgentLimits(1)) is None


def test_no_machines(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        for domain in conn.listAllDomains():
            if domain.isActive():
                domain.destroy()
            domain.undefine()
        assert observe_machines(conn, addresses=True) == []


def test_a_machine_that_no_parser_takes_is_counted_by_what_libvirt_says_without_xml(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        handle = define_unreadable(conn)
        (record,) = observe_machines(conn, addresses=True, names=["ent1"])
        (whole,) = observe_machines(conn, addresses=True, names=["web1"])
    assert record.keys() == whole.keys()
    assert (record["uuid"], record["state"]) == (handle.UUIDString(), "shutoff")
    assert [record[key] for key in ("vcpus", "vcpus_max", "memory_mib", "memory_max_mib")] == [2, 2, 16, 16]
    # Placement leaves it where it is.
    assert record["tied_by"] == ["a description that cannot be read as XML"]
    assert record["errors"][0].startswith("the description of machine ent1 cannot be read as XML: Entity 'x'")


def test_busy_guest_agents_keep_nothing_but_addresses_from_anybody(
    node_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt waits 30 s for an agent that is freezing or shutting down, whatever limit its answer has."""
    monkeypatch.setattr(listing.AddressSearch, "ask_network", lambda _search: None)
    monkeypatch.setattr(listing.AddressSearch, "ask_machine", lambda _search: time.sleep(3))
    with open_connection(node_uri) as conn:
        plain = observe_machines(conn, addresses=False)
        records = observe_machines(conn, addresses=True, timeout_seconds=1)
    late = [record for record in records if record["errors"]]
    assert late and all("its addresses are not known: no answer within" in one["errors"][-1] for one in late)
    read = [{key: record[key] for key in ("name", "vcpus", "memory_mib", "state")} for record in records]
    assert read == [{key: record[key] for key in ("name", "vcpus", "memory_mib", "state")} for record in plain]


@pytest.mark.parametrize("names", [None, ["web1"]])
def test_a_qemu_or_a_pool_that_hangs_keeps_nothing_but_sizes_from_anybody(
    node_uri: str, monkeypatch: pytest.MonkeyPatch, names: list[str] | None
) -> None:
    """libvirt waits without end for QEMU's answer about its disks, unless somebody else waits for one already."""
    end = threading.Event()
    calls = ("getAllDomainStats", "domainListGetStats", "listAllStoragePools")
    for call in calls:
        monkeypatch.setattr(libvirt.virConnect, call, lambda *_given: end.wait(600))
    try:
        with open_connection(node_uri) as conn:
            records = observe_machines(conn, addresses=True, names=names, timeout_seconds=2)
    finally:
        end.set()
    web1 = records[-1]
    assert (web1["state"], web1["vcpus"], web1["address"]) == ("running", 2, "192.168.122.129")
    limit = "1 s" if names is None else "0.5 s"
    assert web1["errors"] == [
        f"cannot read the states and disk sizes of the machines in one call: no answer within {limit}",
        f"cannot read the storage pools: no answer within {limit}",
        "disk vda: its size is unknown for now: the machine is busy",
    ]


def test_who_has_paused_a_machine_is_told_where_nobody_has() -> None:
    by_error = listing.BulkAnswer(
        [], {"u": {"state.state": 3, "state.reason": 5}}, frozenset(), frozenset(), frozenset(), listing.NO_POOLS, ()
    )
    assert listing._marks("u", by_error)["paused_by"] == "because of an I/O error"
    by_user = replace(by_error, stats={"u": {"state.state": 3, "state.reason": 1}})
    assert listing._marks("u", by_user)["paused_by"] is None
    # A reason of another state: here the guest has shut down.
    assert (
        listing._marks("u", replace(by_error, stats={"u": {"state.state": 5, "state.reason": 5}}))["paused_by"] is None
    )
    assert listing._marks("u", replace(by_error, stats={}))["paused_by"] is None
