# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from contextlib import contextmanager, nullcontext

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import ceph, usage, volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster import opened, snapshots
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster import Error, Image, PretendedCluster, Snapshot

POOL = Pool("ceph", "", 0, None, type="rbd", local=True)
BOTH = [(POOL, "web1-system"), (POOL, "web1-data")]
OURS = "brine-snapshot.u.s"


@pytest.fixture
def rbd(monkeypatch: pytest.MonkeyPatch) -> PretendedCluster:
    """A cluster with two volumes."""
    cluster, now = PretendedCluster("web1-system", "web1-data"), [0.0]
    monkeypatch.setattr(opened, "open_cluster", cluster.open)
    monkeypatch.setattr(ceph, "open_cluster", cluster.open)
    monkeypatch.setattr(opened.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(opened.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return cluster


def all_snapshots(rbd: PretendedCluster) -> dict[str, list[str]]:
    return {name: sorted(volume.snapshots) for name, volume in rbd.there.items()}


def test_all_of_them_while_nobody_writes(rbd: PretendedCluster) -> None:
    @contextmanager
    def still() -> t.Iterator[None]:
        rbd.calls.append("still")
        yield
        rbd.calls.append("on")

    snapshots.take(BOTH, OURS, still())
    assert rbd.calls == ["still", "create web1-system", "create web1-data", "on"]
    assert snapshots.names_of(BOTH) == {OURS: {"ceph/web1-system", "ceph/web1-data"}}


def test_if_one_cannot_be_had_there_is_none(rbd: PretendedCluster) -> None:
    rbd.fail.add("create web1-data")
    with pytest.raises(Error):
        snapshots.take(BOTH, OURS, nullcontext())
    assert all_snapshots(rbd) == {"web1-system": [], "web1-data": []}


def test_one_that_is_there_is_neither_replaced_nor_deleted(rbd: PretendedCluster) -> None:
    rbd.there["web1-data"].snapshots[OURS] = Snapshot("old")
    with pytest.raises(ConflictError, match="volume web1-data of pool ceph has a snapshot brine-snapshot.u.s already"):
        snapshots.take(BOTH, OURS, nullcontext())
    assert all_snapshots(rbd) == {"web1-system": [], "web1-data": [OURS]}


def test_back_to_it(rbd: PretendedCluster) -> None:
    snapshots.take(BOTH, OURS, nullcontext())
    for volume in rbd.there.values():
        volume.content = "later"
    told: list[str] = []
    snapshots.roll_back(BOTH, OURS, lambda words: told.append(f"{words}: {len(rbd.calls)}"))
    assert {volume.content for volume in rbd.there.values()} == {"new"}
    # Each before its turn.
    assert told == ["volume web1-system of pool ceph, 1 of 2: 2", "volume web1-data of pool ceph, 2 of 2: 3"]


def test_not_while_anybody_has_one_open(rbd: PretendedCluster) -> None:
    snapshots.take(BOTH, OURS, nullcontext())
    rbd.there["web1-data"].watchers.append("10.0.0.2:0/123")
    with pytest.raises(ConflictError, match="web1-data of pool ceph is open on 10.0.0.2:0/123, where a machine may be"):
        snapshots.roll_back(BOTH, OURS)
    assert "rollback web1-system" not in rbd.calls


def test_what_somebody_opens_while_another_one_is_rolled_back_stays(
    rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first may have taken hours."""
    snapshots.take(BOTH, OURS, nullcontext())
    for volume in rbd.there.values():
        volume.content = "later"

    def note(_image: t.Any, call: str) -> None:
        if call == "rollback":
            rbd.there["web1-data"].watchers.append("10.0.0.2:0/123")

    monkeypatch.setattr("ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster.Image._note", note)
    with pytest.raises(ConflictError, match="web1-data of pool ceph is open on 10.0.0.2:0/123"):
        snapshots.roll_back(BOTH, OURS)
    assert [volume.content for volume in rbd.there.values()] == ["new", "later"]


def test_not_to_what_is_not_whole(rbd: PretendedCluster) -> None:
    snapshots.take(BOTH[:1], OURS, nullcontext())
    with pytest.raises(NotFoundError, match="volume web1-data of pool ceph has no snapshot"):
        snapshots.roll_back(BOTH, OURS)
    assert "rollback web1-system" not in rbd.calls


def test_it_goes_also_if_it_was_protected_and_if_part_of_it_is_gone(rbd: PretendedCluster) -> None:
    rbd.there["web1-data"].snapshots[OURS] = Snapshot("old", protected=True)
    snapshots.remove([*BOTH, (POOL, "never")], OURS)
    assert all_snapshots(rbd) == {"web1-system": [], "web1-data": []}


def test_one_with_a_clone_stays_and_the_clone_is_named(rbd: PretendedCluster) -> None:
    snapshots.take(BOTH, OURS, nullcontext())
    rbd.there["web1-data"].snapshots[OURS] = Snapshot("old", protected=True, clones=["copy"])
    with pytest.raises(ConflictError, match="made from snapshot brine-snapshot.u.s: vms/copy. .*rbd flatten vms/copy"):
        snapshots.remove(BOTH, OURS)
    assert all_snapshots(rbd) == {"web1-system": [OURS], "web1-data": [OURS]}


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch, rbd: PretendedCluster) -> Pool:
    """A pool whose volumes libvirt deletes if they have no snapshots, as Ceph does."""

    class Handle:
        def __init__(self, name: str = "") -> None:
            self.name = name

        def storageVolLookupByName(self, name: str) -> t.Any:  # noqa: N802 - libvirt's own name
            return Handle(name)

        def delete(self, _flags: int) -> None:
            if not rbd.there[self.name].snapshots:
                del rbd.there[self.name]

    monkeypatch.setattr(volumes, "has_bindings", lambda: True)
    return Pool("ceph", "", 0, Handle(), type="rbd", local=True)


def test_a_volume_goes_with_our_snapshots(deleted: Pool, rbd: PretendedCluster) -> None:
    snapshots.take(BOTH, OURS, nullcontext())
    volumes.delete_volume(deleted, "web1-data")
    assert all_snapshots(rbd) == {"web1-system": [OURS]}


def test_not_with_somebody_elses_nor_while_it_is_open(deleted: Pool, rbd: PretendedCluster) -> None:
    snapshots.take(BOTH, OURS, nullcontext())
    rbd.there["web1-data"].snapshots["theirs"] = Snapshot("old")
    rbd.there["web1-system"].watchers.append("10.0.0.2:0/123")
    volumes.delete_volume(deleted, "web1-system")
    with pytest.raises(ConflictError, match="web1-data of pool ceph has snapshots .* not taken: theirs. .*rbd snap rm"):
        volumes.delete_volume(deleted, "web1-data")
    assert all_snapshots(rbd) == {"web1-system": [OURS], "web1-data": [OURS, "theirs"]}


def test_not_one_that_has_clones(deleted: Pool, rbd: PretendedCluster) -> None:
    rbd.there["web1-data"].snapshots[OURS] = Snapshot("old", clones=["copy"])
    with pytest.raises(ConflictError, match="vms/copy"):
        volumes.delete_volume(deleted, "web1-data")
    assert all_snapshots(rbd)["web1-data"] == [OURS]


def test_not_one_whose_clone_is_of_a_snapshot_that_was_deleted(deleted: Pool, rbd: PretendedCluster) -> None:
    """Ceph keeps that one for the clone (clone format 2); the others would be gone, and the volume would stay."""
    rbd.there["web1-data"].snapshots.update(
        {OURS: Snapshot("old"), "2f8fb7a8": Snapshot("older", clones=["copy"], namespace=2)}
    )
    with pytest.raises(ConflictError, match="web1-data of pool ceph has clones: vms/copy. .*rbd flatten vms/copy"):
        volumes.delete_volume(deleted, "web1-data")
    assert OURS in all_snapshots(rbd)["web1-data"]


def test_a_clone_in_the_trash_or_in_a_namespace_is_named_as_it_is_found(
    deleted: Pool, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list of the pool has it, and no other command of rbd knows it by its name."""
    rbd.there["web1-data"].snapshots[OURS] = Snapshot("old", clones=["copy"])
    gone = {"pool": "vms", "pool_namespace": "", "image": "copy", "trash": True, "id": "10ab"}
    there = {"pool": "vms", "pool_namespace": "lab", "image": "other", "trash": False, "id": "10cd"}
    children = [gone, there]
    monkeypatch.setattr(Image, "list_children2", lambda _image: children)
    words = r"clones: vms/copy \(in the trash: rbd trash rm vms/10ab\), vms/lab/other. .*rbd flatten vms/lab/other"
    with pytest.raises(ConflictError, match=words):
        volumes.delete_volume(deleted, "web1-data")
    children.remove(there)
    with pytest.raises(ConflictError, match=r"rbd trash rm vms/10ab\)\. Delete it there"):
        volumes.delete_volume(deleted, "web1-data")


@pytest.mark.parametrize(("name", "clones", "words"), [(OURS, ["copy"], "vms/copy"), ("theirs", [], "taken: theirs")])
def test_if_one_of_several_stays_none_of_them_is_deleted(
    deleted: Pool,
    rbd: PretendedCluster,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    clones: list[str],
    words: str,
) -> None:
    """As when a machine is purged: it would be left without its first disk."""
    snapshots.take(BOTH, OURS, nullcontext())
    rbd.there["web1-data"].snapshots[name] = Snapshot("old", clones=clones)
    before = all_snapshots(rbd)
    monkeypatch.setattr(usage, "volume_exists", lambda *_volume: True)
    monkeypatch.setattr(usage, "Usage", lambda *_arguments, **_settings: None)
    monkeypatch.setattr(usage, "require_unused", lambda *_arguments, **_settings: None)
    with pytest.raises(ConflictError, match=words):
        usage.delete_unused(None, [(deleted, volume) for _pool, volume in BOTH])
    assert all_snapshots(rbd) == before
