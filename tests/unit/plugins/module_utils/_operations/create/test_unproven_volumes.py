# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has the name of a killed run's volume is removed only if it is that run's work: real files, libvirt's test
driver, and qemu-img in the place of the daemon."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    make_plans,
    run_plans,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import (
    DELETE,
    MAKE,
    delete_file,
    make_file,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 1,
    "memory": 128,
    "seed": {"method": "none"},
    "start": False,
    "nic_profile": "none",
    "disks": [{"name": "system", "size": 64}],
}
MORE: dict[str, t.Any] = {"disks": [*SPEC["disks"], {"name": "more", "size": "1MiB"}]}
ATTRIBUTE = "user.brine.build"
NODE = "<node><pool type='dir'><name>default</name><target><path>{}</path></target></pool></node>"
THEIRS = b"what somebody has restored " * 10000


class Host:
    """A hypervisor whose pool is a real directory."""

    def __init__(self, conn: t.Any, pool: Path) -> None:
        self.conn = conn
        self.pool = pool
        self.handle = conn.storagePoolLookupByName("default")

    def plan(self, **changes: t.Any) -> MachinePlan:
        hypervisor = Hypervisor(self.conn, image_pool="default")
        return make_plans([read_machine({**SPEC, **changes})], hypervisor, "")[0]

    def make(self, **changes: t.Any) -> MachinePlan:
        return run_plans([self.plan(**changes)], concurrency=1)[0]

    def cut_off(self, steps: int, **changes: t.Any) -> None:
        """A run that was killed after so many steps."""
        for step in self.plan(**changes).steps[:steps]:
            step.apply()

    def notes(self, machine: str = "new1") -> MachineNotes:
        notes = list_domains(self.conn)[machine].notes
        assert notes is not None
        return notes

    def write(self, **changes: t.Any) -> None:
        write_notes(self.conn.lookupByName("new1"), dataclasses.replace(self.notes(), **changes))

    def put(self, name: str) -> Path:
        """Somebody has this volume in the pool, with something in it."""
        file = self.pool / name
        if name not in self.handle.listVolumes():
            MAKE(self.handle, f"<volume><name>{name}</name><capacity>1048576</capacity></volume>")
        file.unlink(missing_ok=True)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "99M"], check=True)
        with file.open("ab") as content:
            content.write(THEIRS)
        return file

    def must_have(self, name: str) -> None:
        assert (self.pool / name).read_bytes().endswith(THEIRS), f"{name} was written over"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    monkeypatch.setattr(libvirt.virStoragePool, "createXML", make_file)
    monkeypatch.setattr(libvirt.virStorageVol, "delete", delete_file)
    pool = tmp_path / "pool"
    pool.mkdir()
    (tmp_path / "node.xml").write_text(NODE.format(pool), encoding="utf-8")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as conn:
        yield Host(conn, pool)


def refused(host: Host, volume: str) -> None:
    """The next run says what is in its way, and changes nothing."""
    before = host.conn.lookupByName("new1").XMLDesc(0)
    with pytest.raises(ConflictError) as caught:
        host.plan()
    assert str(caught.value) == (
        f"machine new1 was never finished, and cannot be removed: nothing proves that volume {volume} of pool default "
        f"was created for it, so it is kept. If nobody needs it: virsh vol-delete {volume} --pool default; otherwise "
        "rename it first"
    )
    assert host.conn.lookupByName("new1").XMLDesc(0) == before


class TestNewMachine:
    def test_what_somebody_puts_where_nothing_was_made_yet_stays(self, host: Host) -> None:
        host.cut_off(1)
        host.put("new1-system.qcow2")
        refused(host, "new1-system.qcow2")
        host.must_have("new1-system.qcow2")
        # It gets out of the way.
        DELETE(host.handle.storageVolLookupByName("new1-system.qcow2"))
        (host.pool / "new1-system.qcow2").rename(host.pool / "kept")
        assert host.make().error is None
        host.must_have("kept")

    def test_what_somebody_puts_in_the_place_of_what_was_made_stays(self, host: Host) -> None:
        host.cut_off(2)
        todo = host.plan()
        host.put("new1-system.qcow2")
        assert "nothing proves that volume new1-system.qcow2" in str(run_plans([todo], concurrency=1)[0].error)
        refused(host, "new1-system.qcow2")
        host.must_have("new1-system.qcow2")

    @pytest.mark.parametrize("image_format", ["qcow2", "raw"])
    def test_what_was_made_is_removed_whatever_was_written_to_it(self, host: Host, image_format: str) -> None:
        disks = [{**SPEC["disks"][0], "format": image_format}]
        host.cut_off(2, disks=disks)
        file = host.pool / f"new1-system.{image_format}"
        with file.open("r+b") as content:
            content.seek(0, os.SEEK_END)
            content.write(THEIRS)
        assert host.make(disks=disks).error is None
        assert THEIRS not in file.read_bytes()

    def test_what_was_made_and_not_marked_yet_holds_nothing_and_is_removed(self, host: Host) -> None:
        host.cut_off(2)
        file = host.pool / "new1-system.qcow2"
        marked = file.read_bytes()
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "64M"], check=True)
        assert file.read_bytes() != marked
        assert host.make().error is None

    def test_one_of_another_size_is_not_what_was_to_be_made(self, host: Host) -> None:
        host.cut_off(2)
        file = host.pool / "new1-system.qcow2"
        file.unlink()
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "65M"], check=True)
        refused(host, "new1-system.qcow2")

    def test_where_files_cannot_be_marked_only_what_holds_nothing_is_removed(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_words: t.Any) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "setxattr", refuse)
        raw = {"disks": [{**SPEC["disks"][0], "format": "raw"}]}
        file = host.pool / "new1-system.raw"
        host.cut_off(2, **raw)
        # The daemon makes a file of one hole, qemu-img writes its first block.
        file.write_bytes(b"")
        os.truncate(file, 64 * 1024 * 1024)
        assert host.plan(**raw).created
        with file.open("r+b") as content:
            content.write(THEIRS)
        with pytest.raises(
            ConflictError, match="nothing proves that volume new1-system.raw of pool default was created"
        ):
            host.plan(**raw)

    def test_notes_of_earlier_versions_prove_nothing(self, host: Host) -> None:
        host.cut_off(2)
        host.write(volumes=tuple(dataclasses.replace(note, making=None) for note in host.notes().volumes))
        refused(host, "new1-system.qcow2")
        (host.pool / "new1-system.qcow2").unlink()
        DELETE(host.handle.storageVolLookupByName("new1-system.qcow2"))
        assert host.make().error is None

    def test_a_mark_of_another_run_proves_nothing(self, host: Host) -> None:
        host.cut_off(2)
        file = host.put("new1-system.qcow2")
        os.setxattr(file, ATTRIBUTE, b"0" * 32)
        refused(host, "new1-system.qcow2")

    def test_a_finished_machine_notes_nothing_of_this_but_the_mark(self, host: Host) -> None:
        assert host.make().error is None
        (note,) = host.notes().volumes
        assert len(note.identity) == 32
        assert note == VolumeNote("default", "new1-system.qcow2", "disk", format="qcow2", identity=note.identity)
        assert host.make(**MORE).error is None
        assert [(one.building, one.making) for one in host.notes().volumes] == [(False, None)] * 2
        assert host.notes().volumes[0] == note
        assert len({one.identity for one in host.notes().volumes}) == 2


class TestHalfAddedDisk:
    def cut_off(self, host: Host, *, made: bool) -> None:
        assert host.make().error is None
        host.cut_off(2 if made else 1, **MORE)
        assert (host.pool / "new1-more.qcow2").exists() == made

    @pytest.mark.parametrize("made", [False, True])
    def test_what_somebody_puts_there_stays(self, host: Host, made: bool) -> None:
        self.cut_off(host, made=made)
        host.put("new1-more.qcow2")
        with pytest.raises(ConflictError) as caught:
            host.plan(**MORE)
        assert str(caught.value).startswith("disks[1]: pool 'default' has a volume 'new1-more.qcow2' already")
        assert "virsh vol-delete new1-more.qcow2 --pool default" in str(caught.value)
        outcome = host.make()
        assert outcome.error is None
        assert (
            "leave volume new1-more.qcow2 of pool default, as nothing proves that it was created by an interrupted "
            "run. If nobody needs it: virsh vol-delete new1-more.qcow2 --pool default"
        ) in outcome.actions
        assert [note.name for note in host.notes().volumes] == ["new1-system.qcow2"]
        host.must_have("new1-more.qcow2")

    def test_what_somebody_puts_there_after_the_plan_was_made_stays(self, host: Host) -> None:
        self.cut_off(host, made=True)
        todo = host.plan(**MORE)
        host.put("new1-more.qcow2")
        assert "nothing proves that volume new1-more.qcow2" in str(run_plans([todo], concurrency=1)[0].error)
        host.must_have("new1-more.qcow2")

    @pytest.mark.parametrize("changes", [{}, MORE], ids=["not wanted any more", "created again"])
    def test_killed_anywhere_again_what_was_made_is_still_known(self, host: Host, changes: dict[str, t.Any]) -> None:
        self.cut_off(host, made=True)
        with (host.pool / "new1-more.qcow2").open("ab") as file:
            file.write(THEIRS)
        for killed_after in range(1, 6):
            todo = host.plan(**changes)
            assert not [step for step in todo.steps if step.description.startswith("leave")]
            for step in todo.steps[:killed_after]:
                step.apply()
        assert host.make(**changes).error is None
        made = {note.name for note in host.notes().volumes}
        assert {path.name for path in host.pool.iterdir()} == made
        assert made == ({"new1-system.qcow2", "new1-more.qcow2"} if changes else {"new1-system.qcow2"})


class TestNamesThatComeToTheSame:
    NM: t.ClassVar[dict[str, t.Any]] = {"name": "nm", "disks": [{"name": "b-c", "size": 16}]}
    NM_B: t.ClassVar[dict[str, t.Any]] = {"name": "nm-b", "disks": [{"name": "c", "size": 48}]}
    WORDS = (
        "the name of volume 'nm-b-c.qcow2' in pool 'default' is reserved for machine {}. Choose another "
        "name here, or another pool"
    )

    def test_a_volume_that_another_machine_has_not_made_yet(self, host: Host) -> None:
        host.cut_off(1, **self.NM)
        with pytest.raises(ConflictError) as caught:
            host.plan(**self.NM_B)
        assert str(caught.value) == f"disks[0]: {self.WORDS.format('nm')}"
        # The machine itself goes on.
        assert host.make(**self.NM).error is None

    def test_a_volume_that_another_machine_has_lost(self, host: Host) -> None:
        """It would be given the other one's disk."""
        assert host.make(**self.NM).error is None
        host.handle.storageVolLookupByName("nm-b-c.qcow2").delete(0)
        write_notes(host.conn.lookupByName("nm"), MachineNotes())
        with pytest.raises(ConflictError, match="is reserved for machine nm"):
            host.plan(**self.NM_B)

    def test_two_machines_of_one_task(self, host: Host) -> None:
        specs = read_machines([{**SPEC, **spec} for spec in (self.NM, self.NM_B)])
        with pytest.raises(ConflictError) as caught:
            make_plans(specs, Hypervisor(host.conn, image_pool="default"), "machines")
        assert str(caught.value) == f"machines[1].disks[0]: {self.WORDS.format('nm')}"
