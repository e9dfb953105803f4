# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints and bitmaps that are in the way of a snapshot."""

from __future__ import annotations

import dataclasses
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.bitmaps import bitmaps_in
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import tracking
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import view as snapshot_view
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import (
    ABSENT,
    PRESENT,
    SnapshotRequest,
    plan,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.revert import steps_to_revert
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView, view

OURS, OLDER = "brine-backup-0123456789abcdef-20260302T000000Z", "brine-backup-0123456789abcdef-20260301T000000Z"
DELETED = "delete the checkpoints of the backups of web1, after which the next backup is a full one: "


class Machine:
    """web1 on the test driver, with a real disk and an internal snapshot s."""

    def __init__(self, conn: t.Any, disk: Path) -> None:
        self.conn = conn
        self.disk = str(disk)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", self.disk, "1M"], check=True)
        self.handle = conn.lookupByName("web1")
        self.handle.snapshotCreateXML("<domainsnapshot><name>s</name></domainsnapshot>")
        (self.snapshot,) = view(conn, "web1", "vm").snapshots

    def view(self, version: int = 11_003_000) -> SnapshotView:
        return dataclasses.replace(view(self.conn, "web1", "vm"), version=version)

    def note(self, name: str, *, in_file: bool = True) -> None:
        """As a backup does, which QEMU then writes into the file."""
        if in_file:
            self.add(name)
        # Unlike QEMU's, this driver has no machine with both.
        for snapshot in self.handle.listAllSnapshots(0):
            snapshot.delete(0)
        self.handle.checkpointCreateXML(f"<domaincheckpoint><name>{name}</name></domaincheckpoint>", 0)

    def add(self, name: str) -> None:
        subprocess.run(["qemu-img", "bitmap", "-f", "qcow2", "--add", self.disk, name], check=True)

    def keep(self, name: str) -> None:
        """An internal snapshot in the disk alone."""
        subprocess.run(["qemu-img", "snapshot", "-c", name, self.disk], check=True)

    def bitmaps(self) -> list[str]:
        return [one.name for one in bitmaps_in(self.disk)]

    def checkpoints(self) -> list[str]:
        return [one.getName() for one in self.handle.listAllCheckpoints(0)]

    def steps(self) -> list[Step]:
        found = dataclasses.replace(self.view(), snapshots=(self.snapshot,))
        return steps_to_revert(self.conn, found, self.snapshot, force=True)


@pytest.fixture
def machine(tmp_path: Path, node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    disk = tmp_path / "web1.qcow2"
    node = Path(node_uri[len("test://") :]).read_text(encoding="utf-8")
    (tmp_path / "node.xml").write_text(node.replace("/var/lib/libvirt/images/web1-system.qcow2", str(disk)))
    # The test driver is nobody's machine.
    monkeypatch.setattr(snapshot_view, "is_local", lambda _uri: True)
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        yield Machine(conn, disk)


def test_a_revert_of_a_running_machine_first_deletes_the_checkpoints(machine: Machine) -> None:
    """QEMU has their bitmaps in its memory alone, and deletes them."""
    machine.note(OLDER, in_file=False)
    machine.note(OURS, in_file=False)
    steps = machine.steps()
    assert [step.description for step in steps] == [
        f"{DELETED}{OLDER}, {OURS}",
        "revert web1 to snapshot s (running)",
    ]
    assert len(machine.checkpoints()) == 2
    steps[0].apply()
    assert machine.handle.isActive()
    assert machine.checkpoints() == []


def test_a_revert_of_a_machine_that_is_off_deletes_the_bitmaps_too(machine: Machine) -> None:
    machine.note(OURS)
    machine.add(OLDER)
    machine.handle.destroy()
    steps = machine.steps()
    assert steps[0].description == f"{DELETED}{OLDER}, {OURS}"
    steps[0].apply()
    assert (machine.checkpoints(), machine.bitmaps()) == ([], [])
    assert [step.description for step in machine.steps()] == ["revert web1 to snapshot s (shutoff -> running)"]


def test_without_any_there_is_nothing_to_delete(machine: Machine) -> None:
    assert [step.description for step in machine.steps()] == ["revert web1 to snapshot s (running)"]


def test_a_checkpoint_of_somebody_else_is_not_deleted(machine: Machine) -> None:
    machine.note(OURS)
    machine.note("theirs")
    words = r"it has checkpoints that virt_backup has not made \(theirs\).*: virsh checkpoint-delete web1 theirs"
    with pytest.raises(ConflictError, match=words):
        machine.steps()
    machine.handle.destroy()
    with pytest.raises(ConflictError, match=words):
        machine.steps()
    assert (len(machine.checkpoints()), len(machine.bitmaps())) == (2, 2)


def test_a_bitmap_of_somebody_else_is_not_deleted(machine: Machine) -> None:
    machine.add("theirs")
    machine.add(OURS)
    words = r"has bitmaps that virt_backup has not made \(theirs\).*: qemu-img bitmap --remove -f qcow2 /.* theirs"
    with pytest.raises(ConflictError, match=words):
        machine.steps()
    machine.handle.destroy()
    with pytest.raises(ConflictError, match=words):
        machine.steps()


def test_a_bitmap_that_libvirt_cannot_delete_keeps_a_running_machine_running(machine: Machine) -> None:
    machine.add(OURS)
    with pytest.raises(ConflictError, match=rf"bitmaps of backups that libvirt does not know \({OURS}\).*Shut it down"):
        machine.steps()


def test_a_bitmap_that_is_still_there_keeps_a_running_machine_running(machine: Machine) -> None:
    steps = machine.steps()
    machine.add(OURS)
    machine.handle.suspend()
    with pytest.raises(ConflictError, match=rf"still has bitmaps \({OURS}\).*Shut the machine down"):
        steps[-1].apply()
    # A revert would have it run.
    assert view(machine.conn, "web1", "vm").power.state == "paused"


def test_a_file_that_cannot_be_read_is_left_to_libvirt(machine: Machine) -> None:
    Path(machine.disk).unlink()
    assert [step.description for step in machine.steps()] == ["revert web1 to snapshot s (running)"]


@pytest.mark.parametrize(("version", "goes"), [(9_000_000, True), (11_003_000, False)])
def test_a_machine_that_is_off_loses_them_where_libvirt_would_take_no_snapshot(
    machine: Machine, version: int, goes: bool
) -> None:
    machine.note(OURS)
    assert tracking.steps_before_taking(machine.conn, machine.view(version)) == []
    machine.handle.destroy()
    steps = tracking.steps_before_taking(machine.conn, machine.view(version))
    assert [step.description for step in steps] == ([DELETED + OURS] if goes else [])


def test_what_is_in_the_files_of_another_host_can_only_be_deleted_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_view, "is_local", lambda _uri: False)
    machine.note(OURS)
    assert machine.steps()[0].description == DELETED + OURS
    machine.handle.destroy()
    with pytest.raises(UnsupportedError, match="can only be deleted on its hypervisor"):
        machine.steps()


def test_it_is_a_step_of_the_plan_to_take_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.note(OURS)
    machine.handle.destroy()
    monkeypatch.setattr(tracking, "_ALLOWS_CHECKPOINTS_OFF", 1_000_000_000)
    request = SnapshotRequest(PRESENT, now=0, names=("new",))
    assert plan(machine.conn, "web1", request).actions == [
        DELETED + OURS,
        "take snapshot new of web1 (internal, without memory)",
    ]


@pytest.mark.parametrize("active", [True, False])
def test_a_snapshot_that_libvirt_has_deleted_and_the_disk_still_has_is_an_error(machine: Machine, active: bool) -> None:
    """As of a running machine whose UEFI variables are in a raw file, with libvirt 9.0."""
    if not active:
        machine.handle.destroy()
    machine.keep("s")
    request = SnapshotRequest(ABSENT, now=0, names=("s",))
    (step,) = plan(machine.conn, "web1", request).steps
    words = rf"deleted snapshot s of machine web1, and it is still in {machine.disk}\. .*: qemu-img snapshot -d s /"
    with pytest.raises(HostError, match=words):
        step.apply()
    # The next run has nothing to do: libvirt has forgotten it.
    assert plan(machine.conn, "web1", request).steps == ()


def test_a_snapshot_that_has_gone_is_well_deleted(machine: Machine) -> None:
    (step,) = plan(machine.conn, "web1", SnapshotRequest(ABSENT, now=0, names=("s",))).steps
    step.apply()
    step.apply()
    assert view(machine.conn, "web1", "vm").snapshots == ()


@pytest.mark.parametrize("active", [True, False])
def test_none_is_taken_of_a_name_that_a_disk_has_already(machine: Machine, active: bool) -> None:
    """A revert would go to the old one."""
    if not active:
        machine.handle.destroy()
    machine.keep("new")
    with pytest.raises(ConflictError, match=f"{machine.disk} has a snapshot new already, which libvirt does not know"):
        plan(machine.conn, "web1", SnapshotRequest(PRESENT, now=0, names=("new",)))
    assert plan(machine.conn, "web1", SnapshotRequest(PRESENT, now=0, names=("other",))).steps


def test_nothing_is_done_to_one_of_two_of_a_name(machine: Machine) -> None:
    request = SnapshotRequest(ABSENT, now=0, names=("s",))
    machine.keep("s")
    assert machine.steps() and plan(machine.conn, "web1", request).steps
    machine.keep("s")
    words = f"{machine.disk} has 2 snapshots s, of which libvirt knows one, and the oldest would be"
    with pytest.raises(ConflictError, match=f"{words} reverted to"):
        machine.steps()
    with pytest.raises(ConflictError, match=f"{words} deleted"):
        plan(machine.conn, "web1", request)


RAW_DISK = "<disk type='file'><driver name='qemu' type='raw'/><source file='/raw'/><target dev='vdb'/></disk>"
UEFI = "<nvram>/vars.fd</nvram>"


@pytest.mark.parametrize(
    ("where", "more", "version", "refused"),
    [
        ("os", UEFI, 9_000_000, "the variables of its UEFI can have none"),
        ("os", "<nvram format='qcow2'>/vars.fd</nvram>", 9_000_000, None),
        ("os", UEFI, 10_010_000, None),
        ("devices", RAW_DISK, 9_000_000, "its disk vdb can have none"),
        ("devices", RAW_DISK.replace("<source", "<readonly/><source"), 9_000_000, None),
    ],
    ids=["raw variables", "qcow2 variables", "later libvirt", "raw disk", "read-only"],
)
def test_none_is_deleted_where_libvirt_would_not_notice_that_it_stays(
    machine: Machine, where: str, more: str, version: int, refused: str | None
) -> None:
    found = machine.view(version)
    place = found.xml.find(where)
    assert place is not None
    place.append(etree.fromstring(more))
    if refused is None:
        tracking.require_deletable(found, machine.snapshot.facts)
    else:
        with pytest.raises(ConflictError, match=f"does not delete its snapshot s, as {refused}.*Shut the machine down"):
            tracking.require_deletable(found, machine.snapshot.facts)
    machine.handle.destroy()
    tracking.require_deletable(machine.view(version), machine.snapshot.facts)


class Brought:
    """A machine that came here running, with bitmaps in QEMU's memory: the first revert ends it, and fails."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch, *names: str, ends: bool = True) -> None:
        self.tries = 0

        def revert(handle: t.Any, _snapshot: t.Any, _flags: int) -> int:
            self.tries += 1
            if self.tries == 1:
                if ends:
                    handle.destroy()
                for name in names:
                    machine.add(name)
                raise libvirt.libvirtError("Device has active dirty bitmaps")
            return 0

        monkeypatch.setattr(libvirt.virDomain, "revertToSnapshot", revert)


def test_bitmaps_that_a_move_has_brought_do_not_end_a_revert(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = Brought(machine, monkeypatch, OURS, OLDER)
    machine.steps()[-1].apply()
    assert (brought.tries, machine.bitmaps()) == (2, [])


@pytest.mark.parametrize(
    ("names", "ends", "message"),
    [
        ((), True, "active dirty bitmaps"),
        ((OURS,), False, "active dirty bitmaps"),
        ((OURS, "theirs"), True, r"still has bitmaps \(theirs\)"),
    ],
    ids=["another reason", "it runs on", "somebody else's too"],
)
def test_another_failure_is_no_reason_to_try_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], ends: bool, message: str
) -> None:
    brought = Brought(machine, monkeypatch, *names, ends=ends)
    with pytest.raises(VirtError, match=message):
        machine.steps()[-1].apply()
    assert brought.tries == 1
    assert machine.bitmaps() == [name for name in sorted(names) if name == "theirs" or not ends]


@pytest.mark.parametrize("version", [9_000_000, 11_003_000])
def test_none_of_a_disk_that_was_detached_since_is_deleted_while_the_machine_runs(
    machine: Machine, version: int
) -> None:
    """It would end libvirtd 9.0, each time again."""
    facts = dataclasses.replace(machine.snapshot.facts, disks=(("vda", None), ("vdb", None)))
    with pytest.raises(ConflictError, match="its disk vdb was detached after snapshot s was taken.*Shut the machine"):
        tracking.require_deletable(machine.view(version), facts)
    machine.handle.destroy()
    tracking.require_deletable(machine.view(version), facts)
