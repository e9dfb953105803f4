# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs that were interrupted or failed have left is removed, and nothing that somebody has come to use."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import (
    list_domains,
    write_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.undefine import undefine
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    SeedNote,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create import machine as create_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create import unfinished
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    make_plans,
    run_plans,
)

pytestmark = pytest.mark.medium

SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 2,
    "memory": 512,
    "image": "debian",
    "disks": [{"name": "system", "size": "20GiB"}],
    "seed": {"method": "none"},
}
MORE: dict[str, t.Any] = {"disks": [*SPEC["disks"], {"name": "more", "size": "1MiB"}]}
GUEST = """
<domain type='test'><name>guest</name>{uuid}<memory>1</memory><os><type>hvm</type></os>
<devices>{disk}</devices></domain>
"""
# Define, make the disk, mark as ready, start.
UNTIL_READY = 2


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def plan(conn: t.Any, **changes: t.Any) -> MachinePlan:
    """A plan from what is true now."""
    return make_plans([read_machine({**SPEC, **changes})], Hypervisor(conn, image_pool="images"), "")[0]


def make(conn: t.Any, **changes: t.Any) -> MachinePlan:
    return run_plans([plan(conn, **changes)], concurrency=1)[0]


def cut_off(conn: t.Any) -> t.Any:
    """A machine whose making was killed right before it was marked as ready."""
    for step in plan(conn).steps[:UNTIL_READY]:
        step.apply()
    return conn.lookupByName("new1")


def volumes(conn: t.Any) -> set[str]:
    return {name for name in conn.storagePoolLookupByName("default").listVolumes() if name.startswith("new1")}


def add_guest(conn: t.Any, volume: str | None, uuid: str = "") -> t.Any:
    """Another machine, whose permanent description has this volume as a disk."""
    disk = ""
    if volume is not None:
        path = conn.storagePoolLookupByName("default").storageVolLookupByName(volume).path()
        disk = f"<disk type='file'><source file='{path}'/><target dev='vda'/></disk>"
    return conn.defineXML(GUEST.format(disk=disk, uuid=f"<uuid>{uuid}</uuid>" if uuid else ""))


def attach_live(conn: t.Any, volume: str) -> t.Any:
    """Another machine that has this volume only as long as it runs."""
    guest = add_guest(conn, volume)
    guest.create()
    return add_guest(conn, None, guest.UUIDString())


def test_what_nobody_has_touched_is_removed_and_made_again(conn: t.Any) -> None:
    before = cut_off(conn).UUIDString()
    assert make(conn).error is None
    assert conn.lookupByName("new1").UUIDString() != before
    assert list_domains(conn)["new1"].active


@pytest.mark.parametrize("paused", [False, True])
def test_a_machine_that_runs_is_never_removed(conn: t.Any, paused: bool) -> None:
    machine = cut_off(conn)
    machine.create()
    if paused:
        machine.suspend()
    with pytest.raises(ConflictError) as caught:
        plan(conn)
    text = str(caught.value)
    assert text.startswith(
        "the run that created machine new1 was interrupted before the machine was finished, but it runs, so "
        "it is left as it is. To keep it as it is: virsh metadata new1 urn:brine:virt:1 --key brine --live "
        "--config --set "
    )
    assert text.endswith(
        "To have it created from scratch, remove it first: ansible-playbook -i hosts.yml brine.virt.purge -e vm=new1"
    )
    assert (machine.isActive(), volumes(conn)) == (True, {"new1-system.qcow2"})


def test_one_that_was_started_and_is_off_again_is_not_removed(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guest has shut down, or its host has lost power: libvirt's log tells, which outlives both."""
    starts = {"new1": "2026-11-01 02:00:00.000+0000"}
    for module in (create_machine, unfinished):
        monkeypatch.setattr(module, "last_start", starts.get)
    # That one was another machine of the name.
    before = cut_off(conn).UUIDString()
    todo = plan(conn)
    starts["new1"] = "2026-11-30 02:00:00.000+0000"
    with pytest.raises(ConflictError, match="before the machine was finished, but it was started since, so it is left"):
        plan(conn)
    (done,) = run_plans([todo], concurrency=1)
    assert "it was started since" in str(done.error)
    assert (conn.lookupByName("new1").UUIDString(), volumes(conn)) == (before, {"new1-system.qcow2"})


def test_one_that_was_saved_or_has_snapshots_has_run_too(conn: t.Any) -> None:
    machine = cut_off(conn)
    machine.create()
    machine.snapshotCreateXML("<domainsnapshot><name>first</name></domainsnapshot>", 0)
    machine.managedSave(0)
    with pytest.raises(ConflictError, match="but its state is saved, so it is left as it is"):
        plan(conn)
    machine.managedSaveRemove(0)
    with pytest.raises(ConflictError, match="but it has snapshots, so it is left as it is"):
        plan(conn)
    assert volumes(conn) == {"new1-system.qcow2"}


def test_one_that_is_started_after_the_plan_was_made_runs_on(conn: t.Any) -> None:
    machine = cut_off(conn)
    todo = plan(conn)
    machine.create()
    error = run_plans([todo], concurrency=1)[0].error
    assert "but it runs, so it is left as it is" in str(error)
    assert (machine.isActive(), volumes(conn)) == (True, {"new1-system.qcow2"})


def test_one_that_another_run_has_finished_after_the_plan_was_made_stays(conn: t.Any) -> None:
    machine = cut_off(conn)
    todo = plan(conn)
    notes = list_domains(conn)["new1"].notes
    assert notes is not None
    write_notes(machine, dataclasses.replace(notes, status="ready"))
    error = run_plans([todo], concurrency=1)[0].error
    assert "has been finished by another run" in str(error)
    assert volumes(conn) == {"new1-system.qcow2"}
    assert conn.lookupByName("new1").UUIDString() == machine.UUIDString()


@pytest.mark.parametrize("use", [add_guest, attach_live])
def test_a_volume_that_another_machine_has_come_to_use_is_not_removed(
    conn: t.Any, use: t.Callable[[t.Any, str], t.Any]
) -> None:
    cut_off(conn)
    todo = plan(conn)
    use(conn, "new1-system.qcow2")
    text = (
        "machine new1 was never finished, and cannot be removed: volume new1-system.qcow2 of pool default is kept: "
        "it is used by machine guest. Detach it there first"
    )
    with pytest.raises(ConflictError) as caught:
        plan(conn)
    assert str(caught.value) == text
    assert str(run_plans([todo], concurrency=1)[0].error) == text
    assert volumes(conn) == {"new1-system.qcow2"}


def test_what_may_be_in_use_where_nothing_can_be_seen_is_not_removed(conn: t.Any) -> None:
    cut_off(conn)
    conn.storagePoolDefineXML("<pool type='dir'><name>asleep</name><target><path>/x</path></target></pool>", 0)
    with pytest.raises(
        ConflictError, match="cannot be determined whether something uses it: storage pool asleep is not"
    ):
        plan(conn)
    assert volumes(conn) == {"new1-system.qcow2"}


class TestHalfAddedDisk:
    """A run that was killed while it added the disk ``more``."""

    def cut_off(self, conn: t.Any) -> None:
        make(conn)
        for step in plan(conn, **MORE).steps[:2]:
            step.apply()
        assert volumes(conn) == {"new1-system.qcow2", "new1-more.qcow2"}

    def listed(self, conn: t.Any) -> set[str]:
        notes: MachineNotes | None = list_domains(conn)["new1"].notes
        assert notes is not None
        assert not [volume for volume in notes.volumes if volume.building]
        return {volume.name for volume in notes.volumes}

    def test_it_is_removed(self, conn: t.Any) -> None:
        self.cut_off(conn)
        assert make(conn).error is None
        assert volumes(conn) == self.listed(conn) == {"new1-system.qcow2"}

    @pytest.mark.parametrize("use", [add_guest, attach_live])
    def test_what_another_machine_has_come_to_use_is_left_to_it(
        self, conn: t.Any, use: t.Callable[[t.Any, str], t.Any]
    ) -> None:
        self.cut_off(conn)
        use(conn, "new1-more.qcow2")
        with pytest.raises(ConflictError, match="pool 'default' has a volume 'new1-more.qcow2' already"):
            plan(conn, **MORE)
        outcome = make(conn)
        assert outcome.error is None
        words = "leave volume new1-more.qcow2 that an interrupted run left in pool default to machine guest"
        assert words in outcome.actions
        assert volumes(conn) == {"new1-system.qcow2", "new1-more.qcow2"}
        assert self.listed(conn) == {"new1-system.qcow2"}

    def test_it_is_checked_again_when_it_is_to_go(self, conn: t.Any) -> None:
        self.cut_off(conn)
        todo = plan(conn)
        add_guest(conn, "new1-more.qcow2")
        assert "it is used by machine guest" in str(run_plans([todo], concurrency=1)[0].error)
        assert volumes(conn) == {"new1-system.qcow2", "new1-more.qcow2"}

    def test_what_the_machine_has_only_while_it_runs_is_whole(self, conn: t.Any) -> None:
        make(conn)
        machine = conn.lookupByName("new1")
        before = machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        machine.destroy()
        make(conn, **MORE)
        # Back to the description without it, for the next start.
        conn.defineXML(before)
        notes = list_domains(conn)["new1"].notes
        assert notes is not None
        more = VolumeNote("default", "new1-more.qcow2", "disk", building=True)
        write_notes(machine, dataclasses.replace(notes, volumes=(*notes.volumes, more)))
        assert make(conn).error is None
        assert "new1-more.qcow2" in volumes(conn)

    @pytest.mark.parametrize("changes", [{}, MORE], ids=["not wanted any more", "created again"])
    def test_killed_anywhere_while_it_is_removed_it_is_still_known(
        self, conn: t.Any, changes: dict[str, t.Any]
    ) -> None:
        """A volume that stands in no notes is nobody's, and no run ever removes it."""
        self.cut_off(conn)
        # Off, as this driver cannot give a machine that runs another disk.
        conn.lookupByName("new1").destroy()
        for _again in range(10):
            todo = plan(conn, **changes)
            for step in todo.steps:
                step.apply()
                notes = list_domains(conn)["new1"].notes
                assert notes is not None
                assert volumes(conn) <= {volume.name for volume in notes.volumes}, f"after {step.description}"
            if not todo.steps:
                break
        assert volumes(conn) == self.listed(conn)

    def test_what_may_be_in_use_where_nothing_can_be_seen_stays(self, conn: t.Any) -> None:
        self.cut_off(conn)
        conn.storagePoolDefineXML("<pool type='dir'><name>asleep</name><target><path>/x</path></target></pool>", 0)
        with pytest.raises(ConflictError, match="cannot be determined whether something uses it"):
            plan(conn)


@pytest.mark.parametrize("use", [add_guest, attach_live])
def test_a_failed_run_keeps_what_somebody_has_taken_meanwhile_and_says_so(
    conn: t.Any, use: t.Callable[[t.Any, str], t.Any]
) -> None:
    todo = plan(conn)

    def fail() -> None:
        use(conn, "new1-system.qcow2")
        raise HostError("the disk has caught fire")

    steps = [*todo.steps[:UNTIL_READY], dataclasses.replace(todo.steps[UNTIL_READY], apply=fail)]
    error = str(run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0].error)
    assert "the disk has caught fire" in error
    assert "volume new1-system.qcow2 of pool default is kept: it is used by machine guest" in error
    assert volumes(conn) == {"new1-system.qcow2"}


def test_a_failed_run_keeps_all_of_a_machine_that_does_not_stop(conn: t.Any) -> None:
    todo = plan(conn)
    start = todo.steps[-1]

    def start_and_fail() -> None:
        start.apply()
        raise HostError("the disk has caught fire")

    def stop_and_fail() -> None:
        raise HostError("it does not stop")

    steps = [*todo.steps[:-1], dataclasses.replace(start, apply=start_and_fail, undo=stop_and_fail)]
    error = str(run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0].error)
    assert "it does not stop" in error
    assert "machine new1 is running, and so nothing of it is removed" in error
    assert "machine new1 is running, and so it is not undefined" in error
    assert list_domains(conn)["new1"].active
    assert volumes(conn) == {"new1-system.qcow2"}


def test_a_machine_that_somebody_starts_before_this_run_does_runs_on(conn: t.Any) -> None:
    todo = plan(conn)

    def start() -> None:
        conn.lookupByName("new1").create()
        todo.steps[-1].apply()

    steps = [*todo.steps[:-1], dataclasses.replace(todo.steps[-1], apply=start)]
    assert run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0].error is None
    assert list_domains(conn)["new1"].active
    assert volumes(conn) == {"new1-system.qcow2"}


def test_a_failed_run_does_not_stop_what_somebody_else_has_started(conn: t.Any) -> None:
    todo = plan(conn)

    def start_and_fail() -> None:
        conn.lookupByName("new1").create()
        todo.steps[-1].apply()
        raise HostError("the disk has caught fire")

    steps = [*todo.steps[:-1], dataclasses.replace(todo.steps[-1], apply=start_and_fail)]
    error = str(run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0].error)
    assert "machine new1 is running, and so nothing of it is removed" in error
    assert list_domains(conn)["new1"].active
    assert volumes(conn) == {"new1-system.qcow2"}


def test_a_volume_that_somebody_makes_before_this_run_does_stays(conn: t.Any) -> None:
    """Whatever kept this run from making its own."""
    todo = plan(conn, disks=[{**SPEC["disks"][0], "clone": "copy"}])
    conn.storagePoolLookupByName("images").storageVolLookupByName("debian-0123456789abcdef.qcow2").delete()
    conn.storagePoolLookupByName("default").createXML(
        "<volume><name>new1-system.qcow2</name><capacity>1048576</capacity></volume>"
    )
    assert run_plans([todo], concurrency=1)[0].error is not None
    assert volumes(conn) == {"new1-system.qcow2"}
    assert "new1" not in list_domains(conn)


def test_nothing_that_runs_is_undefined(conn: t.Any) -> None:
    make(conn)
    with pytest.raises(ConflictError, match="machine new1 is running, and so it is not undefined"):
        undefine(conn, "new1")
    assert list_domains(conn)["new1"].active
    conn.lookupByName("new1").destroy()
    undefine(conn, "new1")
    undefine(conn, "new1")
    assert "new1" not in list_domains(conn)


def test_a_seed_that_another_machine_has_is_not_written_over(conn: t.Any) -> None:
    make(conn)
    conn.storagePoolLookupByName("default").createXML(
        "<volume><name>new1-seed.iso</name><capacity>1048576</capacity></volume>"
    )
    cdrom = (
        "<disk type='volume' device='cdrom'><source pool='default' volume='new1-seed.iso'/><target dev='sda'/></disk>"
    )
    before = conn.lookupByName("new1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    conn.defineXML(before.replace("</devices>", f"{cdrom}</devices>"))
    notes = list_domains(conn)["new1"].notes
    assert notes is not None
    seed = VolumeNote("default", "new1-seed.iso", "seed")
    write_notes(
        conn.lookupByName("new1"),
        dataclasses.replace(notes, volumes=(*notes.volumes, seed), seed=SeedNote("nocloud", "0" * 64)),
    )
    changes = {"seed": {"user": "other"}, "seed_policy": "refresh"}
    assert "write the new seed of new1" in "; ".join(step.description for step in plan(conn, **changes).steps)
    add_guest(conn, "new1-seed.iso")
    with pytest.raises(ConflictError, match="new1-seed.iso of pool default is kept: it is used by machine guest"):
        plan(conn, **changes)
