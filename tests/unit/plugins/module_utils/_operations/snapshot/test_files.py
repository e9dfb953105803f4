# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of the files of external snapshots, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import struct
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import delete, files, readonly
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.delete import steps_to_delete
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.files import (
    files_of,
    notes_with_files,
    require_unused_files,
    show_files,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import (
    ABSENT,
    PRESENT,
    REVERTED,
    SnapshotRequest,
    plan,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.readonly import hidden_disks, put_back
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.revert import steps_to_revert
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import view

UUID = "11111111-1111-1111-1111-111111111111"
NEW, OLD = "/pools/default/web1-vda.now.qcow2", "/pools/default/web1-system.qcow2"
DOMAIN = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>5</test:runstate><name>{name}</name><uuid>{uuid}</uuid>
<metadata><m:machine xmlns:m='urn:brine:virt:1'><m:volume pool='default' name='web1-system.qcow2' role='disk'/>
</m:machine></metadata><memory>1024</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{vda}'/><target dev='vda'/>
</disk>
<disk type='file' device='disk'><driver name='qemu' type='{seed_format}'/><source file='{seed}'/><target dev='vdz'/>
<readonly/></disk></devices></domain>"""
SEED, SEED_NOW = "/pools/default/web1-seed.iso", "/pools/default/web1-seed.1795430523"
THEN = DOMAIN.format(name="web1", uuid=UUID, vda=OLD, seed=SEED, seed_format="raw")
SNAPSHOT = """<domainsnapshot><name>now</name><description>brine.virt:1</description><state>disk-snapshot</state>
<creationTime>1</creationTime><memory snapshot='no'/><disks>
<disk name='vda' snapshot='external' type='file'><driver type='qcow2'/><source file='{vda}'/></disk>{seed}</disks>
{domain}</domainsnapshot>"""
KEPT_OUT = "<disk name='vdz' snapshot='no'/>"
HIDDEN = f"<disk name='vdz' snapshot='external' type='file'><driver type='qcow2'/><source file='{SEED_NOW}'/></disk>"
VOLUME = "<volume><name>{}</name><capacity>1</capacity><target><format type='qcow2'/></target>{}</volume>"
BACKED = "<backingStore><path>{}</path><format type='qcow2'/></backingStore>"


class World:
    """A hypervisor with one machine that has an external snapshot."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "node.xml"

    def xml(self, seed: str = SEED, seed_format: str = "raw", other: str = "", volumes: str = "") -> str:
        now = DOMAIN.format(name="web1", uuid=UUID, vda=NEW, seed=seed, seed_format=seed_format)
        own = VOLUME.format("web1-system.qcow2", "") + VOLUME.format("web1-vda.now.qcow2", BACKED.format(OLD))
        target = "<target><path>/pools/default</path></target>"
        pool = f"<pool type='dir'><name>default</name>{target}{own}{volumes}</pool>"
        self._file.write_text(f"<node>{now}{other}{pool}</node>")
        return f"test://{self._file}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nothing yet."""
    return World(tmp_path)


def with_snapshot(conn: t.Any, seed: str = KEPT_OUT) -> None:
    text = SNAPSHOT.format(vda=NEW, seed=seed, domain=THEN)
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    conn.lookupByName("web1").snapshotCreateXML(text, flags)


def test_its_own_files_keep_nobody_back(world: World) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        found = view(conn, "web1", "vm")
        assert files_of(found) == [NEW]
        require_unused_files(conn, found, "deleted")
        (step,) = steps_to_delete(conn, found, found.snapshots)
        assert step.description == "delete snapshot now of web1"


@pytest.mark.parametrize("base", [NEW, OLD])
def test_another_machine_on_the_same_files(world: World, base: str) -> None:
    clone = DOMAIN.format(
        name="clone", uuid=UUID.replace("1", "2"), vda="/pools/default/clone", seed="/s", seed_format="raw"
    )
    volumes = VOLUME.format("clone", BACKED.format(base))
    with open_connection(world.xml(other=clone, volumes=volumes)) as conn:
        with_snapshot(conn)
        found = view(conn, "web1", "vm")
        with pytest.raises(ConflictError, match="it cannot be deleted, as .* is used by (machine|volume)"):
            steps_to_delete(conn, found, found.snapshots)
        # Whatever this machine's libvirt could do.
        newer = dataclasses.replace(found, version=9_009_000)
        with pytest.raises(ConflictError, match="it cannot be reverted to now, as .* is used by (machine|volume)"):
            steps_to_revert(conn, newer, found.snapshots[0], force=True)


def test_an_older_libvirt_reverts_none(world: World) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        older = dataclasses.replace(view(conn, "web1", "vm"), version=9_008_000)
        with pytest.raises(UnsupportedError, match="snapshot now is external, and libvirt 9.8.0 cannot revert it"):
            steps_to_revert(conn, older, older.snapshots[0], force=True)


def test_one_that_others_follow_is_not_reverted(world: World) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>later</name></domainsnapshot>")
        found = dataclasses.replace(view(conn, "web1", "vm"), version=9_009_000)
        with pytest.raises(ConflictError, match="others follow it, whose files depend on its files: later"):
            steps_to_revert(conn, found, found.snapshots[0], force=True)


def test_a_volume_that_nobody_has_counts_too(world: World) -> None:
    with open_connection(world.xml(volumes=VOLUME.format("clone", BACKED.format(OLD)))) as conn:
        with_snapshot(conn)
        found = view(conn, "web1", "vm")
        with pytest.raises(ConflictError, match="is used by volume default/clone"):
            require_unused_files(conn, found, "deleted")


def test_what_it_only_reads_is_put_back(world: World) -> None:
    """libvirt puts a file before it in a revert."""
    volumes = VOLUME.format("web1-seed.1795430523", BACKED.format(SEED))
    with open_connection(world.xml(seed=SEED_NOW, seed_format="qcow2", volumes=volumes)) as conn:
        with_snapshot(conn, HIDDEN)
        assert list(hidden_disks(view(conn, "web1", "vm"))) == ["vdz"]
        put_back(conn, view(conn, "web1", "vm"))
        now = view(conn, "web1", "vm")
        assert hidden_disks(now) == {}
        seed = now.defined.find("devices/disk[readonly]")
        assert seed is not None
        assert [dict(part.attrib) for part in (seed.find("source"), seed.find("driver")) if part is not None] == [
            {"file": SEED},
            {"name": "qemu", "type": "raw"},
        ]
        assert now.snapshots[0].facts.disks == (("vda", NEW),)
        assert now.snapshots[0].current
        assert conn.storagePoolLookupByName("default").listVolumes().count("web1-seed.1795430523") == 0
        before = conn.lookupByName("web1").XMLDesc(0)
        put_back(conn, now)
        assert conn.lookupByName("web1").XMLDesc(0) == before


def test_a_run_that_was_killed_before_it_was_put_back_in_the_snapshot_is_finished(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt would merge a file that the machine does not have."""

    def killed(*_args: t.Any) -> None:
        raise KeyboardInterrupt

    volumes = VOLUME.format("web1-seed.1795430523", BACKED.format(SEED))
    with open_connection(world.xml(seed=SEED_NOW, seed_format="qcow2", volumes=volumes)) as conn:
        with_snapshot(conn, HIDDEN)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(readonly, "_leave_out", killed)
            put_back(conn, view(conn, "web1", "vm"))
        between = view(conn, "web1", "vm")
        assert dict(between.snapshots[0].facts.disks)["vdz"] == SEED_NOW
        put_back(conn, between)
        now = view(conn, "web1", "vm")
        assert hidden_disks(now) == {}
        assert now.snapshots[0].facts.disks == (("vda", NEW),)
        assert conn.storagePoolLookupByName("default").listVolumes().count("web1-seed.1795430523") == 0


def test_new_files_become_its_own_and_gone_ones_are_forgotten(world: World, tmp_path: Path) -> None:
    pool = Pool("default", "/pools/default", 0, None, local=True)
    here = Pool("here", str(tmp_path), 0, None, local=True)
    file = tmp_path / "web1-vda.now.qcow2"
    with open_connection(world.xml()) as conn:
        text = SNAPSHOT.format(vda=file, seed=KEPT_OUT, domain=THEN)
        conn.lookupByName("web1").snapshotCreateXML(text, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)
        found = view(conn, "web1", "vm")
        assert notes_with_files(found, [pool, here]) == (None, {})
        file.write_bytes(b"")
        notes, marks = notes_with_files(found, [pool, here])
        assert notes is not None
        first, second = notes.volumes
        # Nothing of it is left in that pool: its file system may only be missing.
        assert (first.pool, first.name) == ("default", "web1-system.qcow2")
        said = (second.pool, second.name, second.role, second.format)
        assert said == ("here", "web1-vda.now.qcow2", "disk", "qcow2")
        assert marks == {str(file): second.identity}
        write_notes(
            conn.lookupByName("web1"),
            dataclasses.replace(notes, volumes=(*notes.volumes, VolumeNote("here", "web1-vda.old.qcow2", "disk"))),
        )
        now, marks = notes_with_files(view(conn, "web1", "vm"), [pool, here])
        assert now is not None
        assert (now.volumes, marks) == (notes.volumes, {})


@pytest.mark.parametrize("running", [True, False])
def test_none_is_taken_beside_a_disk_that_is_away(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    """Its file system was unmounted under a QEMU that has it open: the new file would be on the one below."""
    monkeypatch.setattr(files, "is_local", lambda _uri: True)
    disk = tmp_path / "web1.qcow2"
    with open_connection(world.xml()) as conn:
        domain = conn.lookupByName("web1")
        text = domain.XMLDesc(0).replace(NEW, str(disk))
        domain = conn.defineXML(text)
        if running:
            domain.create()
        request = SnapshotRequest(PRESENT, 0, names=("s2",))
        with pytest.raises(HostError) as caught:
            plan(conn, "web1", request)
        more = ". Until it is, do not shut the machine down" if running else ""
        said = f"{disk}, the file of its disk vda, is not there. Check whether its file system is mounted{more}"
        assert str(caught.value) == said
        disk.touch()
        assert plan(conn, "web1", request).actions


def test_none_is_taken_of_a_machine_whose_copy_runs_on_its_disk(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_local", lambda _uri: True)
    disk = tmp_path / "web1.qcow2"
    disk.touch()
    with open_connection(world.xml()) as conn:
        text = conn.lookupByName("web1").XMLDesc(0).replace(NEW, str(disk))
        conn.defineXML(text)
        conn.defineXML(text.replace("<name>web1<", "<name>web2<").replace(UUID, UUID.replace("1", "2"))).create()
        request = SnapshotRequest(PRESENT, 0, names=("s2",))
        with disk.open("r+b") as file:
            # As QEMU has it: with the byte of what it does locked.
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0))
            with pytest.raises(ConflictError, match=f"{disk}, a disk of it, is open in QEMU, .* by machine web2"):
                plan(conn, "web1", request)
        assert plan(conn, "web1", request).actions


def test_one_is_taken_beside_a_disk_that_root_may_not_look_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder of an NFS server that is QEMU's alone."""

    def refuse(path: str, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(files, "is_local", lambda _uri: True)
    monkeypatch.setattr(files.os, "lstat", refuse)
    with open_connection(world.xml()) as conn:
        assert plan(conn, "web1", SnapshotRequest(PRESENT, 0, names=("s2",))).actions


@pytest.mark.parametrize(("listed", "looks"), [(["web1-system.qcow2"], 1), (["web1-vda.now.qcow2"], 0)])
def test_a_pool_that_does_not_list_new_files_is_looked_into(world: World, listed: list[str], looks: int) -> None:
    """libvirt creates them past its own pools. The test driver never looks into one."""
    looked: list[int] = []
    handle = types.SimpleNamespace(listVolumes=lambda: [*listed, "web1-seed.iso"], refresh=looked.append)
    other = types.SimpleNamespace(listVolumes=list, refresh=pytest.fail)
    with open_connection(world.xml()) as conn:
        pools = [Pool("default", "/pools/default", 0, handle, local=True), Pool("b", "/b", 0, other, local=True)]
        show_files(view(conn, "web1", "vm"), pools)
    assert looked == [0] * looks


def test_a_disk_that_no_snapshot_has_made_is_never_taken_for_its_own(world: World, tmp_path: Path) -> None:
    (tmp_path / "web1-vda.now.qcow2").write_bytes(b"")
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        domain = conn.lookupByName("web1")
        conn.defineXML(domain.XMLDesc(0).replace(NEW, f"{tmp_path}/web1-vda.now.qcow2"))
        pools = [Pool("here", str(tmp_path), 0, None, local=True)]
        assert notes_with_files(view(conn, "web1", "vm"), pools) == (None, {})


class Merging:
    """libvirt's snapshot whose files it cannot merge to the end. below: what it has written to until then."""

    def __init__(self, below: Path | None) -> None:
        self._below = below

    def delete(self, _flags: int) -> None:
        if self._below is not None:
            self._below.write_bytes(b"half of the one and half of the other")
        raise libvirt.libvirtError("block commit failed: No space left on device")


def begun(conn: t.Any) -> str | None:
    return delete.deletion_begun(view(conn, "web1", "vm"))


def delete_badly(conn: t.Any, below: Path | None) -> None:
    found = view(conn, "web1", "vm")
    with pytest.raises(HostError, match=r"cannot delete snapshot now of machine web1: .*No space left"):
        one = dataclasses.replace(found.snapshots[0], handle=Merging(below))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(delete, "view", lambda *_given: dataclasses.replace(found, snapshots=(one,)))
            delete._delete_external(conn, "web1", "now", [])


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the snapshot's is merged into."""
    path = tmp_path / "web1-system.qcow2"
    path.write_bytes(b"as of the snapshot")
    monkeypatch.setattr(delete, "_files_below", lambda _snapshot: [str(path)])
    return path


def test_a_snapshot_whose_deletion_has_failed_half_way_is_not_reverted_to(world: World, below: Path) -> None:
    """The file below it is half overwritten, and a revert would delete the only whole one."""
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        delete_badly(conn, below)
        assert begun(conn) == "now"
        with pytest.raises(
            ConflictError, match="the deletion of snapshot now was interrupted.*state: absent and name: now"
        ):
            plan(conn, "web1", SnapshotRequest(REVERTED, 0, names=("now",), force=True))
        # Refused the second time, it is begun all the same.
        delete_badly(conn, None)
        assert begun(conn) == "now"
        found = plan(conn, "web1", SnapshotRequest(ABSENT, 0, names=("now",)))
        assert found.actions[0] == "delete snapshot now of web1"
        found.steps[0].apply()
        assert begun(conn) is None
        assert plan(conn, "web1", SnapshotRequest(ABSENT, 0, names=("now",))).actions == []


def test_a_deletion_that_libvirt_refuses_has_begun_nothing(world: World, below: Path) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        delete_badly(conn, None)
        assert begun(conn) is None
    assert below.read_bytes() == b"as of the snapshot"


def test_what_was_deleted_all_the_same_is_noted(world: World, below: Path) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        delete_badly(conn, below)
        conn.lookupByName("web1").snapshotLookupByName("now").delete(0)
        found = plan(conn, "web1", SnapshotRequest(ABSENT, 0, names=("now",)))
        assert found.actions == ["note that snapshot now of web1 is deleted, which an interrupted run has begun"]
        found.steps[0].apply()
        assert begun(conn) is None


def test_none_is_taken_before_it_is_finished(world: World, below: Path) -> None:
    """Taken on half merged files, it would be of two times; and what is left to be merged would lie below it."""
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        delete_badly(conn, below)
        words = "the deletion of snapshot now was interrupted.* no other snapshot is taken.*state: absent and name: now"
        with pytest.raises(ConflictError, match=words):
            plan(conn, "web1", SnapshotRequest(PRESENT, 0, names=("later",)))


def test_another_deletion_finishes_it(world: World, below: Path) -> None:
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        delete_badly(conn, below)
        conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>later</name></domainsnapshot>")
        found = plan(conn, "web1", SnapshotRequest(ABSENT, 0, names=("later",)))
        assert found.actions[:2] == ["delete snapshot now of web1", "delete snapshot later of web1"]
        assert any("the deletion of snapshot now, which was interrupted, is finished" in one for one in found.remarks)


def test_no_snapshot_is_merged_into_a_full_file_system(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU would pause all machines that write there."""
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    upper.write_bytes(b"x" * 2**20)
    lower.write_bytes(b"x" * 2**12)

    def fake(_target: str) -> tuple[int, int, int]:
        return 2**30, 0, 0

    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        found = view(conn, "web1", "vm")
        (one,) = found.snapshots
        facts = dataclasses.replace(one.facts, disks=(("vda", str(upper)),))
        one = dataclasses.replace(one, facts=facts)
        power = dataclasses.replace(found.power, handle=types.SimpleNamespace(blockInfo=fake))
        monkeypatch.setattr(delete, "written_places", lambda _domain: {"vda": str(lower)})
        monkeypatch.setattr(delete, "free_in", lambda _folder: 2**19)
        with pytest.raises(HostError, match="snapshot now is not deleted: .* may take 1.0M more in .* 512.0K are free"):
            delete._require_room(dataclasses.replace(found, power=power), one)
        monkeypatch.setattr(delete, "free_in", lambda _folder: 2**21)
        delete._require_room(dataclasses.replace(found, power=power), one)


def test_a_device_below_has_its_room_and_does_not_tell_whether_it_was_written_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is free in /dev says nothing, nor do the times of a node there."""
    with open_connection(world.xml()) as conn:
        with_snapshot(conn)
        found = view(conn, "web1", "vm")
        (one,) = found.snapshots
        one = dataclasses.replace(one, facts=dataclasses.replace(one.facts, disks=(("vda", __file__),)))
        monkeypatch.setattr(delete, "written_places", lambda _domain: {"vda": "/dev/null"})
        monkeypatch.setattr(delete, "free_in", lambda _folder: 0)
        power = dataclasses.replace(found.power, handle=types.SimpleNamespace(blockInfo=lambda _target: (2**30, 0, 0)))
        delete._require_room(dataclasses.replace(found, power=power), one)
        delete_badly(conn, None)
        assert begun(conn) == "now"
