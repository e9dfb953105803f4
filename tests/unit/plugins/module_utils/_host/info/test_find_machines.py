# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a task asks for, and what that costs, on libvirt's test driver."""

from __future__ import annotations

import collections
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.info.machines import (
    DEFAULT_SUBSETS,
    SUBSETS,
    Found,
    MachineSelection,
    completed,
    find_machines,
    needs_writing,
    read_uuids,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import pending_of

# What libvirt-python answers from the handle itself.
_FREE = {"name", "UUIDString", "getURI", "connect", "getName"}
MIN = {"name", "uuid", "state", "paused_by", "autostart", "persistent", "saved", "errors"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """How often each of libvirt's functions is called that asks a daemon."""
    counted: collections.Counter[str] = collections.Counter()

    def counting(name: str, work: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def call(*arguments: t.Any, **named: t.Any) -> t.Any:
            counted[name] += 1
            return work(*arguments, **named)

        return call

    for kind in (libvirt.virConnect, libvirt.virDomain, libvirt.virStoragePool, libvirt.virStorageVol):
        for name, work in list(vars(kind).items()):
            if callable(work) and not name.startswith("_") and name not in _FREE:
                monkeypatch.setattr(kind, name, counting(name, work))
    return counted


def find(uri: str, *subsets: str, selection: MachineSelection | None = None) -> Found:
    """Ask as the module does."""
    wanted = completed(subsets)
    with open_connection(uri, read_only=not needs_writing(wanted)) as conn:
        return find_machines(
            conn,
            selection or MachineSelection(),
            wanted,
            pending=pending_of,
            agent_timeout_seconds=1,
            timeout_seconds=600,
        )


def names(found: Found) -> list[str]:
    return [record["name"] for record in found.records]


def test_chains_come_with_the_disks_and_go_with_them() -> None:
    assert completed({"backing_chains"}) == {"backing_chains", "disks"}
    assert completed({"backing_chains", "disks"}) == {"backing_chains", "disks"}
    assert completed({"backing_chains", "jobs"}, left_out={"disks"}) == {"jobs"}


def test_names_and_states_are_five_calls(node_uri: str, calls: collections.Counter[str]) -> None:
    found = find(node_uri)
    assert [(record["name"], record["state"]) for record in found.records] == [
        ("db1", "shutoff"),
        ("half", "shutoff"),
        ("web1", "running"),
    ]
    assert set(found.records[0]) == MIN
    del calls["close"], calls["setKeepAlive"]
    assert +calls == {"listAllDomains": 4, "domainListGetStats": 1}


@pytest.mark.parametrize(
    ("subsets", "asked", "not_asked"),
    [
        (["metadata"], {"XMLDesc": 3}, {"listAllStoragePools", "interfaceAddresses", "listAllSnapshots"}),
        (["hardware", "nics", "console"], {"XMLDesc": 3}, {"listAllStoragePools", "interfaceAddresses"}),
        (["disks"], {"listAllStoragePools": 1}, {"interfaceAddresses"}),
        (["pending"], {"XMLDesc": 4}, {"listAllStoragePools"}),
        (["addresses"], {"XMLDesc": 3}, {"listAllStoragePools"}),
        (["snapshots"], {"listAllSnapshots": 3}, {"XMLDesc", "jobStats", "interfaceAddresses"}),
        (["jobs"], {"jobStats": 1, "XMLDesc": 1}, {"listAllSnapshots"}),
        (["uptime"], {}, {"XMLDesc", "jobStats", "listAllSnapshots"}),
    ],
)
def test_what_is_not_asked_for_costs_nothing(
    node_uri: str, calls: collections.Counter[str], subsets: list[str], asked: dict[str, int], not_asked: set[str]
) -> None:
    find(node_uri, *subsets)
    assert {name: calls[name] for name in asked} == asked
    assert not not_asked & set(+calls)


def test_a_record_has_what_is_asked_for_and_no_more(node_uri: str) -> None:
    by_subset = {subset: set(find(node_uri, subset).records[0]) - MIN for subset in SUBSETS}
    assert by_subset["console"] == {"graphics", "serial_log", "serial_console"}
    assert by_subset["addresses"] == {"address", "addresses"}
    assert by_subset["backing_chains"] == {"disks"}
    assert by_subset["uptime"] == {"uptime_seconds"}
    everything = set(find(node_uri, *SUBSETS).records[0])
    assert everything == MIN.union(*by_subset.values())
    assert set(find(node_uri, *DEFAULT_SUBSETS).records[0]) < everything
    nic = find(node_uri, "nics").records[2]["nics"][0]
    assert "addresses" not in nic and nic["source"] == "default"
    assert find(node_uri, "nics", "addresses").records[2]["nics"][0]["addresses"]


@pytest.mark.parametrize(
    ("selection", "expected", "missing"),
    [
        (MachineSelection(names=("web1", "nobody")), ["web1"], ["nobody"]),
        (MachineSelection(names=()), [], []),
        (MachineSelection(uuids=("00000000-0000-4000-8000-000000000002",)), ["db1"], []),
        (
            MachineSelection(uuids=("00000000-0000-4000-8000-0000000000ff",), names=("db1",)),
            [],
            ["00000000-0000-4000-8000-0000000000ff"],
        ),
        (MachineSelection(states=("running", "paused")), ["web1"], []),
        (MachineSelection(states=("shutoff",), names=("web1", "db1")), ["db1"], []),
        (MachineSelection(tags=("web", "other")), ["web1"], []),
        (MachineSelection(tags=("front end",), states=("shutoff",)), [], []),
        (MachineSelection(tags=("nothing",)), [], []),
    ],
)
@pytest.mark.parametrize("subsets", [(), ("hardware",), DEFAULT_SUBSETS, ("snapshots",)])
def test_filters_narrow_together(
    node_uri: str, subsets: tuple[str, ...], selection: MachineSelection, expected: list[str], missing: list[str]
) -> None:
    found = find(node_uri, *subsets, selection=selection)
    assert names(found) == expected
    assert found.missing == missing
    assert found.known == (["db1", "half", "web1"] if missing else None)
    assert all("tags" not in record or "metadata" in subsets for record in found.records)


def test_a_state_is_asked_for_before_the_machines_are_read(node_uri: str, calls: collections.Counter[str]) -> None:
    assert names(find(node_uri, "metadata", selection=MachineSelection(states=("running",)))) == ["web1"]
    assert calls["XMLDesc"] == 1


@pytest.mark.parametrize("subsets", [(), ("hardware",), DEFAULT_SUBSETS])
def test_a_machine_with_saved_memory_is_found_by_both_of_its_states(node_uri: str, subsets: tuple[str, ...]) -> None:
    limits = {"agent_timeout_seconds": 1, "timeout_seconds": 600}
    found = {}
    with open_connection(node_uri) as conn:
        conn.lookupByName("web1").managedSave()
        for state in ("saved", "shutoff", "running"):
            selection = MachineSelection(states=(state,))
            found[state] = names(find_machines(conn, selection, completed(subsets), pending=pending_of, **limits))
    assert found == {"saved": ["web1"], "shutoff": ["db1", "half", "web1"], "running": []}


def test_agents_are_asked_for_the_machines_of_the_tag_alone(node_uri: str, calls: collections.Counter[str]) -> None:
    assert names(find(node_uri, "addresses", selection=MachineSelection(tags=("other",)))) == []
    assert calls["interfaceAddresses"] + calls["networkLookupByName"] == 0
    assert names(find(node_uri, "addresses", selection=MachineSelection(tags=("web",)))) == ["web1"]
    assert calls["interfaceAddresses"] + calls["networkLookupByName"] > 0


def test_uuids_are_read_as_people_write_them() -> None:
    text = "00000000-0000-4000-8000-00000000000A"
    assert read_uuids([text, text.replace("-", "")]) == (text.lower(),) * 2
    assert read_uuids(None) is None
    with pytest.raises(InputError, match="uuid: 'web1' is not a UUID"):
        read_uuids(["web1"])
