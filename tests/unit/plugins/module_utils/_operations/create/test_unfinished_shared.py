# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an interrupted run has left in a cluster stays until all hypervisors were asked who uses it: its mark shows who
has made it, and not that nobody has taken it into use since."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import CreationNote, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create import unfinished
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import plan_purge, steps_to_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere
from ansible_collections.brine.virt.plugins.module_utils._operations.update import unfinished_disks

POOL = "<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source></pool>"
SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 1,
    "memory": 128,
    "nic_profile": "none",
    "seed": {"method": "none"},
    "start": False,
    "disks": [{"name": "system", "size": 64}],
}
# Define, make the disk, mark as ready.
UNTIL_READY = 2


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """A hypervisor with what a killed run has left of new1: one volume here, and one in a cluster, with its mark."""
    monkeypatch.setattr(unfinished, "require_proven", lambda _pool, _note: None)
    monkeypatch.setattr(unfinished_disks, "is_proven", lambda _pool, _note: True)
    monkeypatch.setattr(unfinished_disks, "require_proven", lambda _pool, _note: None)
    with open_connection(node_uri) as connection:
        for step in plan(connection)[:UNTIL_READY]:
            step.apply()
        pool = connection.storagePoolCreateXML(POOL, 0)
        pool.createXML("<volume><name>new1-data</name><capacity>1048576</capacity></volume>", 0)
        notes = list_domains(connection)["new1"].notes
        assert notes is not None
        note = VolumeNote("ceph", "new1-data", "disk", format="raw", making=CreationNote("0" * 32))
        write_notes(connection.lookupByName("new1"), dataclasses.replace(notes, volumes=(*notes.volumes, note)))
        yield connection


def plan(conn: t.Any, elsewhere: t.Any = None) -> t.Any:
    return plan_on(Hypervisor(conn, image_pool="images", left_elsewhere=elsewhere))


def plan_on(hypervisor: Hypervisor) -> t.Any:
    get = hypervisor.pools.get

    def seen_from_there(name: str, where: str | None = None) -> t.Any:
        # As on the hypervisor itself, where Ceph's bindings are used.
        found = get(name, where)
        return dataclasses.replace(found, local=True) if name == "ceph" else found

    hypervisor.pools.get = seen_from_there  # type: ignore[method-assign]
    return make_plans([read_machine(SPEC)], hypervisor, "")[0].steps


def half_added(conn: t.Any) -> None:
    """The machine is whole, but for the disk in the cluster, which a killed run was adding."""
    notes = list_domains(conn)["new1"].notes
    assert notes is not None
    listed = [dataclasses.replace(note, building=note.pool == "ceph") for note in notes.volumes]
    write_notes(conn.lookupByName("new1"), dataclasses.replace(notes, status="ready", volumes=tuple(listed)))


def in_cluster(conn: t.Any) -> list[str]:
    return list(conn.storagePoolLookupByName("ceph").listVolumes())


def test_what_is_in_a_cluster_stays_and_the_message_says_what_removes_it(conn: t.Any) -> None:
    with pytest.raises(ConflictError) as caught:
        plan(conn)
    assert str(caught.value) == (
        "machine new1 was never finished, and cannot be removed: volume new1-data of pool ceph is kept: it cannot be "
        "determined whether something uses it: storage pool ceph is of type rbd, and what machines of other "
        "hypervisors use there cannot be seen from this one. If nothing does: virsh vol-delete new1-data --pool ceph. "
        "To have all hypervisors asked, and the machine removed: ansible-playbook -i hosts.yml brine.virt.purge "
        "-e vm=new1"
    )
    assert in_cluster(conn) == ["new1-data"]


def test_it_is_made_again_once_the_volume_is_gone(conn: t.Any) -> None:
    conn.storagePoolLookupByName("ceph").storageVolLookupByName("new1-data").delete()
    assert plan(conn)[0].description == "remove what an interrupted run left of new1"


@pytest.mark.parametrize(("users", "left"), [((), []), (("machine guest on hv2",), ["new1-data"])])
def test_purge_removes_it_unless_another_hypervisor_uses_it(
    conn: t.Any, users: tuple[str, ...], left: list[str]
) -> None:
    options = PurgeOptions(elsewhere=lambda _pool, _volume: (users, ()), disks=("ceph/new1-data",))
    planned = plan_purge("new1", HypervisorView(conn, elsewhere=options.elsewhere), options)
    assert planned is not None
    for step in steps_to_purge(conn, planned):
        step.apply()
    assert in_cluster(conn) == left
    assert "new1" not in list_domains(conn)


def test_so_does_a_disk_there_that_a_run_was_adding_and_it_goes_by_hand(conn: t.Any) -> None:
    half_added(conn)
    with pytest.raises(ConflictError, match="If nothing does: virsh vol-delete new1-data --pool ceph"):
        plan(conn)
    conn.storagePoolLookupByName("ceph").storageVolLookupByName("new1-data").delete()
    assert "remove volume new1-data that an interrupted run left in pool ceph" in [
        step.description for step in plan(conn)
    ]


def answers(*users: str) -> t.Any:
    """What hv2 says: who uses what was left here."""
    said = [{"pool": "ceph", "volume": "new1-data", "users": list(users), "unknown": []}]
    return read_used_elsewhere({"hv2": {"volumes": said}}, "used_elsewhere")


@pytest.mark.parametrize("elsewhere", [answers(), read_used_elsewhere({}, "used_elsewhere")])
def test_when_the_others_say_that_they_do_not_use_it_it_goes(conn: t.Any, elsewhere: t.Any) -> None:
    first, *_rest = plan(conn, elsewhere)
    assert first.description == "remove what an interrupted run left of new1"
    first.apply()
    assert (in_cluster(conn), "new1" in list_domains(conn)) == ([], False)


@pytest.mark.parametrize(
    ("elsewhere", "words"),
    [
        (answers("machine guest"), "it is used by machine guest on hv2"),
        (
            read_used_elsewhere({"hv2": "it does not answer"}, "used_elsewhere"),
            "storage pool ceph is of type rbd, and hv2, which may use it too, did not say: it does not answer",
        ),
        (
            read_used_elsewhere({"hv2": {"volumes": []}}, "used_elsewhere"),
            "storage pool ceph is of type rbd, and hv2 was not asked who uses this volume",
        ),
    ],
)
@pytest.mark.parametrize("building", [True, False])
def test_it_stays_when_one_of_them_uses_it_or_is_silent(
    conn: t.Any, elsewhere: t.Any, words: str, *, building: bool
) -> None:
    if not building:
        half_added(conn)
    if not building and "machine guest" in words:
        steps = [step.description for step in plan(conn, elsewhere)]
        assert "leave volume new1-data that an interrupted run left in pool ceph to machine guest on hv2" in steps
        return
    with pytest.raises(ConflictError, match=words) as caught:
        plan(conn, elsewhere)
    assert "brine.virt.purge" not in str(caught.value)


@pytest.mark.parametrize("building", [True, False])
def test_what_they_are_to_be_asked_is_noted(conn: t.Any, *, building: bool) -> None:
    if not building:
        half_added(conn)
    hypervisor = Hypervisor(conn, image_pool="images")
    with pytest.raises(ConflictError):
        plan_on(hypervisor)
    assert [one.as_result() for one in hypervisor.to_ask] == [
        {"pool": "ceph", "volume": "new1-data", "place": "rbd:vms/new1-data", "inode": None, "serial": None}
    ]


def test_a_disk_that_a_run_was_adding_goes_too_when_the_others_do_not_use_it(conn: t.Any) -> None:
    half_added(conn)
    step = next(step for step in plan(conn, answers()) if step.description.startswith("remove volume new1-data"))
    step.apply()
    assert in_cluster(conn) == []
