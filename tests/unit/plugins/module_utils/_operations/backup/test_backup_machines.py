# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of machines that are off: what is in them, what stops them, and what a run that fails leaves."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import struct
import subprocess
import threading
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.backup import images, job, qemu_user
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import begin, list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.backup.verify import verify_chain
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import HEAD_BYTES, add_qcow2_mark
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SnapshotWork
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import disks, machines, make, plan
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.machines import (
    preview,
    preview_verify,
    verify_all,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.result import BackupResult
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.unsaved import unsaved_disks
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import forget, note_begin
from ansible_collections.brine.virt.plugins.modules.virt_backup import as_diff
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    SECOND,
    add_backup,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    SIZE,
    UUID,
    BackupHost,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import MACHINE

pytestmark = pytest.mark.medium


def test_a_machine_that_is_off_gets_a_full_backup(machine: BackupHost) -> None:
    result = machine.made(verify=True)
    assert result.made is not None
    assert (result.made.kind, result.made.reason, result.made.uuid) == ("full", "the machine is off", UUID)
    (disk,) = result.made.disks
    assert (disk.target, disk.name, disk.pool, disk.volume) == ("vda", "system", "default", "web1-system.qcow2")
    assert set(result.made.files) == {"vda.qcow2", "domain.xml"}
    backups = list_backups(str(machine.destination), "web1")
    verify_chain(backups, backups.chain(result.made.id), threading.Event())
    assert images.same_content(
        f"{backups.path_of(result.made.id)}/vda.qcow2", str(machine.image), "qcow2", threading.Event()
    )
    assert result.verified == [result.made.id]
    assert result.as_result()["changed"]


def test_a_machine_that_ran_while_its_disks_were_copied(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU's locks on a device are on a node of its own, and its times tell nothing; libvirt's log does."""
    starts = iter(["2026-11-26 10:00:00.000+0000", "2026-11-27 10:00:00.000+0000"])
    monkeypatch.setattr(make, "last_start", lambda _name: next(starts))
    (result,) = machine.back_up()
    assert "machine web1 was started, and stopped again, while it was being backed up" in str(result.error)
    assert list_backups(str(machine.destination), "web1").by_id == {}


def test_check_mode_says_the_same_and_writes_nothing(machine: BackupHost) -> None:
    (shown,) = preview(machine.conn, ["web1"], machine.options)
    assert shown.actions == ["make a full backup of web1"]
    assert list(machine.destination.iterdir()) == []
    made = machine.made().as_result()
    assert {key: made[key] for key in ("kind", "reason", "left_out")} == {
        key: shown.as_result()[key] for key in ("kind", "reason", "left_out")
    }


def test_check_mode_says_what_goes(machine: BackupHost) -> None:
    first, second = (add_backup(machine.destination, name, 1, uuid=UUID) for name in (FULL, FIRST))
    add_backup(machine.destination, SECOND, 1, uuid=UUID.replace("a", "b"))
    partial = begin(str(machine.destination / "web1"), "20261101T000000Z-full")
    options = dataclasses.replace(machine.options, keep=Keep({"last": 1}))
    (shown,) = preview(machine.conn, ["web1"], options)
    assert shown.removed == [second.id, first.id]
    made = machine.made(keep=Keep({"last": 1}))
    assert made.made is not None
    assert shown.removed == made.removed
    assert [one.replace(f": {made.made.id}", "") for one in made.actions] == shown.actions
    assert shown.actions[0] == f"remove what an interrupted run has left: {partial}"
    assert as_diff(shown.as_result()) == as_diff(made.as_result())
    assert as_diff(made.as_result())["before"] == f"removed:\n- {second.id}\n- {first.id}\n"


def test_what_would_be_verified(machine: BackupHost) -> None:
    made = machine.made().made
    assert made is not None
    one, none = preview_verify(["web1", "db1"], machine.options)
    assert one.as_result()["to_verify"] == [made.id]
    assert one.verified == []
    assert str(none.error).startswith("there is no backup of machine db1")
    assert [listed["id"] for listed in one.as_result()["backups"]] == one.as_result()["to_verify"]


def test_a_clock_that_was_ahead_once_spoils_neither_order_nor_retention(machine: BackupHost) -> None:
    ahead = add_backup(machine.destination, "20991231T235958Z-full", 1, uuid=UUID)
    ids = []
    for day in (21, 22, 23):
        made = machine.made(keep=Keep({"daily": 3})).made
        assert made is not None
        assert made.made.year < 2099
        ids.append(made.id)
        path = machine.destination / "web1" / made.id / "manifest.json"
        text = path.read_text(encoding="utf-8").replace(made.made_at, f"202611{day}T020000Z")
        path.write_text(text, encoding="utf-8")
    assert [ahead.id, *ids] == sorted([ahead.id, *ids])
    # The newest of each of three days.
    assert set(list_backups(str(machine.destination), "web1").by_id) == set(ids)


def test_nothing_is_later_than_the_end_of_time(machine: BackupHost) -> None:
    (machine.destination / "web1" / "99991231T235959Z-full").mkdir(parents=True)
    (result,) = machine.back_up()
    assert str(result.error).startswith("no backup can be later than 99991231T235959Z-full")


@pytest.fixture
def running(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> BackupHost:
    machine.start(monkeypatch, written=None)
    return machine


def checkpoints(machine: BackupHost) -> list[str]:
    return sorted(one.getName() for one in machine.conn.lookupByName("web1").listAllCheckpoints(0))


def test_the_checkpoint_of_a_damaged_backup_goes(running: BackupHost) -> None:
    handle = running.conn.lookupByName("web1")
    first = running.made().made
    assert first is not None
    assert checkpoints(running) == [first.checkpoint]
    # Of a directory on another share, that was at the same place.
    other = f"<name>brine-backup-{'f' * 16}-20260101T000000Z</name>"
    words = f"for the backup 20260101T000000Z-full in {running.destination}/web1 (brine.virt)"
    handle.checkpointCreateXML(f"<domaincheckpoint>{other}<description>{words}</description></domaincheckpoint>", 0)
    (running.destination / "web1" / first.id / "manifest.json").write_text("{}", encoding="utf-8")
    second = running.made().made
    assert second is not None
    assert checkpoints(running) == sorted([f"brine-backup-{'f' * 16}-20260101T000000Z", second.checkpoint])


def swap_by_name(one: Path, other: Path) -> None:
    """As with mv: each file gets the other's name."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def swap_by_content(one: Path, other: Path) -> None:
    """As with cp: each file gets what the other held, and keeps its inode."""
    head, others = one.read_bytes()[:HEAD_BYTES], other.read_bytes()[:HEAD_BYTES]
    for path, new in ((one, others), (other, head)):
        with open(path, "r+b") as file:
            file.write(new)


def mark(path: Path, words: str) -> None:
    """As a volume that is created here has one."""
    with open(path, "r+b") as file:
        head = add_qcow2_mark(file.read(HEAD_BYTES), words)
        assert head is not None
        file.seek(0)
        file.write(head)


def with_two_disks(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine runs with another disk, of the same size, whose file is returned."""
    data = machine.image.with_name("web1-data.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(data), str(SIZE)], check=True)
    mark(machine.image, "1" * 32)
    mark(data, "2" * 32)
    machine.host.know(data.name)
    machine.define(machine.disk("vdb", str(data)))
    machine.start(monkeypatch, written={"vda": 0, "vdb": 0})
    return data


def kind_and_reason(result: BackupResult) -> tuple[str, str]:
    assert result.made is not None
    return result.made.kind, result.made.reason


@pytest.mark.parametrize("swap", [swap_by_name, swap_by_content])
def test_nothing_is_built_on_a_backup_of_another_file(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, swap: t.Callable[[Path, Path], None]
) -> None:
    """Two disks whose files were swapped while it was off have bitmaps of one name, each with what changed on the
    other's."""
    data = with_two_disks(machine, monkeypatch)
    assert kind_and_reason(machine.made()) == ("full", "there is no earlier one")
    before = machine.made()
    assert kind_and_reason(before) == ("incremental", "")
    handle = machine.conn.lookupByName("web1")
    handle.destroy()
    swap(machine.image, data)
    handle.create()
    assert before.made is not None
    words = f"the file of disk vda is not the same as when {before.made.id} was made"
    (shown,) = preview(machine.conn, ["web1"], machine.options)
    assert (shown.as_result()["kind"], shown.as_result()["reason"]) == ("full", words)
    assert kind_and_reason(machine.made()) == ("full", words)
    assert kind_and_reason(machine.made()) == ("incremental", "")


def test_a_file_that_is_replaced_while_a_backup_begins_fails_it(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_two_disks(machine, monkeypatch)
    run = make.run_backup

    def swapped_before(*arguments: t.Any) -> None:
        swap_by_name(machine.image, data)
        run(*arguments)

    monkeypatch.setattr(make, "run_backup", swapped_before)
    (result,) = machine.back_up()
    assert str(result.error) == "the file of disk vda was replaced while the backup began. Run it again"
    assert list_backups(str(machine.destination), "web1").by_id == {}
    assert checkpoints(machine) == []


def define_with(machine: BackupHost, system: Path, data: Path) -> t.Any:
    """The machine's definition names these files; one that runs goes on with those that it has."""
    disk = machine.disk("vda", str(system)) + machine.disk("vdb", str(data))
    return machine.conn.defineXML(MACHINE.format(name="web1", uuid=UUID, devices=disk, notes=""))


def test_a_machine_that_runs_with_other_disks_than_its_definition_has_is_not_backed_up(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backup would hold one disk and be called after the other, and once it is restarted the next would be built
    on that."""
    data = with_two_disks(machine, monkeypatch)
    assert kind_and_reason(machine.made()) == ("full", "there is no earlier one")
    handle = define_with(machine, data, machine.image)
    words = (
        f"disk vda of machine web1 is {machine.image} while it runs, and {data} from the next start on, so the machine "
        "is not backed up. Shut the machine down and start it (a reboot in the guest is not enough), or undo the "
        "change in its definition: virsh edit web1"
    )
    for result in (*preview(machine.conn, ["web1"], machine.options), *machine.back_up()):
        assert str(result.error) == words
    assert len(list_backups(str(machine.destination), "web1").by_id) == 1
    handle.destroy()
    handle.create()
    assert machine.made().as_result()["reason"].startswith("disk vda is on another volume than in ")


def test_another_way_to_the_same_disk_is_none_to_another_one(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_two_disks(machine, monkeypatch)
    link = machine.destination.with_name("pool")
    link.symlink_to(data.parent)
    define_with(machine, machine.image, link / data.name)
    assert machine.made().made


def test_check_mode_sees_what_keeps_a_backup_from_beginning(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start(monkeypatch, written=None)

    def refusal() -> str:
        (shown,) = preview(machine.conn, ["web1"], machine.options)
        return str(shown.error)

    assert refusal() == "None"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_what: False)
        assert refusal() == f"cannot write to {machine.destination}/web1: Permission denied"
    with monkeypatch.context() as patch:
        patch.setattr(machines, "left_job", job.left_job)
        patch.setattr(job, "targets_of_job", lambda _domain: ["/srv/other/vda.qcow2"])
        assert refusal().startswith(
            "a backup of machine web1 is under way, to /srv/other/vda.qcow2. Wait until it ends"
        )
        patch.setattr(job, "targets_of_job", lambda _domain: [f"{machine.destination}/web1/.unfinished-a/vda.qcow2"])
        assert refusal() == "None"
    label = "<seclabel model='dac'><label>+65534:+65534</label></seclabel>"
    monkeypatch.setattr(plan, "description_of", lambda _handle: parse_xml(f"<domain>{label}</domain>"))
    monkeypatch.setattr(qemu_user, "_can_enter", lambda _user, _group, path: path == "/")
    words = f"cannot write the backup of machine web1 to {machine.destination}/web1: QEMU writes there itself, and /"
    assert refusal().startswith(words)
    # And before the file systems of the guest are frozen for nothing.
    monkeypatch.setattr(make, "freeze", lambda *_what: pytest.fail("frozen"))
    (result,) = machine.back_up()
    assert str(result.error) == refusal()


def test_what_has_paused_a_machine_is_told_though_there_is_no_backup(
    running: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paused(*arguments: t.Any) -> None:
        arguments[-2]("an I/O error had paused it")
        raise HostError("the backup of machine web1 has failed: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(make, "run_backup", paused)
        (result,) = running.back_up()
    assert "is full" in str(result.error)
    assert result.remarks == ["an I/O error had paused it"]
    # The test driver knows of no other reason.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_PAUSED_IOERROR", libvirt.VIR_DOMAIN_PAUSED_USER)
    handle = running.conn.lookupByName("web1")
    handle.suspend()
    (shown,) = preview(running.conn, ["web1"], running.options)
    made = running.made()
    assert made.remarks == shown.remarks
    (remark,) = made.remarks
    assert remark.startswith("an I/O error has paused it before this backup, ")
    # Above all while what has paused it is still so.
    monkeypatch.setattr(plan, "free_in", lambda _path: 0)
    (shown,) = preview(running.conn, ["web1"], running.options)
    (refused,) = running.back_up()
    assert "is full" in str(shown.error) and "is full" in str(refused.error)
    assert shown.remarks == refused.remarks == [remark]
    assert handle.state()[0] == libvirt.VIR_DOMAIN_PAUSED


def test_a_snapshot_that_was_taken_since_the_plan(running: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be older than the checkpoint. This driver takes none beside a checkpoint."""
    monkeypatch.setattr(make, "snapshots", lambda _handle: ["by-hand"])
    result = running.made()
    assert result.made is not None
    assert result.made.checkpoint == ""
    assert result.as_result()["no_checkpoint"] == "the machine got the snapshot by-hand while the backup began"
    assert checkpoints(running) == []


def test_nothing_is_built_on_a_backup_that_was_found_damaged(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start(monkeypatch, written={"vda": 0})
    first = machine.made().made
    assert first is not None
    path = machine.destination / "web1" / first.id / "domain.xml"
    path.write_text(path.read_text(encoding="utf-8").replace("web1", "web2"), encoding="utf-8")
    (result,) = machine.back_up(verify=True)
    assert result.made is not None and result.made.parent == first.id
    assert "domain.xml has another content" in str(result.error)
    assert result.as_result()["no_checkpoint"] == f"{result.made.id} is damaged, or one that it is built on"
    assert checkpoints(machine) == []


def test_what_is_not_backed_up_is_named(machine: BackupHost) -> None:
    path = str(machine.host.path)
    drives = machine.disk("vdb", path, device="cdrom", rest="<readonly/>")
    machine.define(drives + machine.disk("vdc", path, rest="<shareable/>"))
    assert machine.made().as_result()["left_out"] == {
        "vdb": "it is a cdrom",
        "vdc": "it is shared with other machines",
    }


def test_who_looks_at_no_result_learns_which_disks_no_backup_has(machine: BackupHost) -> None:
    """Not of those that it only reads, or forgets."""
    path = str(machine.host.path)
    more = [
        machine.disk("vdb", path, device="cdrom", rest="<readonly/>"),
        machine.disk("vdc", path, rest="<shareable/>"),
        machine.disk("vdd", path, rest="<transient/>"),
        machine.disk("vde", path, rest="<readonly/>"),
    ]
    machine.define("".join(more))
    every = ["vdb", "vdc", "vdd", "vde"]
    assert unsaved_disks(list_domains(machine.conn)["web1"], every) == ("vdc",)
    (shown,) = preview(machine.conn, ["web1"], machine.options)
    for result in (shown.as_result(), machine.made().as_result()):
        assert sorted(result["left_out"]) == every
        assert result["unsaved_disks"] == ["vdc"]
        assert result["remarks"] == ["disk vdc is not in the backup: it is shared with other machines"]


def test_a_disk_that_only_the_running_machine_has_is_named(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after virsh attach-disk --live; and one that it has only after its next start."""
    with_two_disks(machine, monkeypatch)
    later = machine.image.with_name("web1-later.qcow2")
    machine.define(machine.disk("vdc", str(later)))
    result = machine.made().as_result()
    assert result["unsaved_disks"] == ["vdb", "vdc"]
    assert result["remarks"] == [
        "disk vdb is not in the backup: it is attached only until the machine stops",
        "disk vdc is not in the backup: it is attached only from the next start on",
    ]


def test_a_raw_disk_that_does_not_end_with_a_sector_can_be_read_back(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU has the rest of the last sector in its copy."""
    raw = machine.host.directory / "default" / "web1-data.raw"
    raw.write_bytes(b"x" * 1000001)
    machine.define(machine.disk("vdb", str(raw), "raw"))
    monkeypatch.setattr(disks, "_size_bytes", lambda _domain, target: 1000001 if target == "vdb" else SIZE)
    assert machine.made(verify=True).verified


def test_a_seed_has_the_size_of_its_file(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where QEMU still has the one before in the drive."""
    iso = machine.host.directory / "default" / "web1-seed.iso"
    iso.write_bytes(b"x" * 376832)
    machine.host.know(iso.name)
    handle = machine.define(machine.disk("sda", str(iso), "raw", device="cdrom", rest="<readonly/>"))
    notes = list_domains(machine.conn)["web1"].notes
    assert notes is not None
    write_notes(handle, dataclasses.replace(notes, volumes=(*notes.volumes, VolumeNote("default", iso.name, "seed"))))
    made = machine.made(verify=True).made
    assert made is not None
    assert [(disk.role, disk.size_bytes) for disk in made.disks] == [("disk", SIZE), ("seed", 376832)]


def test_a_backup_of_another_size_than_its_disk_is_none(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of one that was grown while its backup began."""
    monkeypatch.setattr(disks, "_size_bytes", lambda *_what: SIZE - 1024)
    (result,) = machine.back_up()
    assert f"vda.qcow2 is a disk of {SIZE} bytes, not of {SIZE - 1024}" in str(result.error)
    assert list_backups(str(machine.destination), "web1").names == []


def test_a_backup_that_cannot_be_read_is_told(machine: BackupHost) -> None:
    first = machine.made().made
    assert first is not None
    path = machine.destination / "web1" / first.id / "manifest.json"
    path.write_text("{", encoding="utf-8")
    (shown,) = preview(machine.conn, ["web1"], machine.options)
    for result in (shown, machine.made(keep=Keep({"last": 1}))):
        (remark,) = result.remarks
        assert remark.startswith(f"backup {first.id} cannot be restored: {path} is not the manifest of a backup")


def test_what_nobody_could_read_again_is_no_backup(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would learn of it when it is to be restored."""
    monkeypatch.setattr(make, "file_of", lambda disk: f"{disk.target} of web1.qcow2")
    (result,) = machine.back_up()
    assert "could not be read again: 'vda of web1.qcow2' is not allowed for disks[0].file" in str(result.error)
    assert result.actions == []
    assert os.listdir(machine.destination / "web1") == [".lock"]


def test_one_that_fails_does_not_stop_the_others(machine: BackupHost) -> None:
    gone, made = machine.back_up("gone", "web1")
    assert str(gone.error) == "there is no machine gone on this hypervisor"
    assert made.error is None
    assert [one.name for one in machine.destination.iterdir()] == ["web1"]


def test_what_is_backed_by_something_of_no_known_format_is_not_backed_up(machine: BackupHost) -> None:
    """qemu-img would go by its bytes, which in a raw disk are a guest's."""
    base = machine.image.with_name("base.raw")
    base.write_bytes(bytes(1024 * 1024))
    words = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", f"file:{base}", str(machine.image)]
    subprocess.run(words, check=True)
    machine.image.write_bytes(machine.image.read_bytes().replace(bytes.fromhex("e2792aca"), b"none", 1))
    (result,) = machine.back_up()
    assert f"{machine.image} does not record the format of {base}, which it is backed by" in str(result.error)


def test_a_disk_that_somebody_writes_to_is_not_backed_up(machine: BackupHost) -> None:
    with open(machine.image, "r+b") as file:
        # As QEMU has it locked that writes to it.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0))
        (result,) = machine.back_up()
    assert "open for writing" in str(result.error)
    assert list_backups(str(machine.destination), "web1").by_id == {}


def test_a_disk_that_changes_meanwhile_fails_the_backup(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = images.convert

    def convert(*arguments: t.Any, **settings: t.Any) -> None:
        whole(*arguments, **settings)
        with open(machine.image, "ab") as file:
            file.write(b"more")

    monkeypatch.setattr(make.images, "convert", convert)
    (result,) = machine.back_up()
    assert "was changed while it was being copied" in str(result.error)
    backups = list_backups(str(machine.destination), "web1")
    assert (backups.by_id, backups.unfinished) == ({}, [])


def test_what_a_killed_run_has_left_goes_and_the_earlier_backup_stays(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.made().made
    path = str(machine.destination / "web1")
    partial = begin(path, "20261101T000000Z-full")
    (machine.destination / "web1" / os.path.basename(partial) / "vda.qcow2").write_bytes(b"half")

    def fail(*_arguments: t.Any, **_settings: t.Any) -> None:
        raise HostError("write failed: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(make.images, "convert", fail)
        (result,) = machine.back_up()
    assert "is full" in str(result.error)
    assert not os.path.exists(partial)
    backups = list_backups(str(machine.destination), "web1")
    assert first is not None
    assert (list(backups.by_id), backups.unfinished) == ([first.id], [])
    assert verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))[0].verified == [first.id]


def test_a_directory_that_qemu_cannot_enter(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: t.Any, **_settings: t.Any) -> None:
        raise HostError("cannot begin the backup of machine web1: Could not open 'vda.qcow2': Permission denied")

    # What the test driver cannot do: a job.
    monkeypatch.setattr(machines, "end_job_of_killed_run", lambda *_arguments: None)
    monkeypatch.setattr(make, "run_backup", fail)
    machine.conn.lookupByName("web1").create()
    (result,) = machine.back_up()
    # The directories of tests are open to nobody else.
    closed = make.directory.closed_above(str(machine.destination))
    assert closed is not None and not os.stat(closed).st_mode & 0o001
    assert f"QEMU writes there itself, and {closed} does not let other users in" in str(result.error)
    assert f"chmod o+x {closed}" in str(result.error)
    assert make.directory.closed_above("/usr/bin") is None
    monkeypatch.setattr(make.directory, "closed_above", lambda _path: None)
    (result,) = machine.back_up()
    assert "Could not open 'vda.qcow2': Permission denied" in str(result.error)


def test_no_room_is_seen_beforehand(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "chain_bytes", lambda _path, _format, _size: 1 << 60)
    (result,) = machine.back_up()
    assert f"cannot back up machine web1: {machine.destination} is full" in str(result.error)
    assert os.listdir(machine.destination / "web1") == [".lock"]


def test_what_a_killed_run_has_left_makes_room(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes before the backup is made: check mode says the same as the real run."""
    (machine.destination / "web1").mkdir()
    left = Path(begin(str(machine.destination / "web1"), "20261120T020000Z-full")) / "vda.qcow2"
    left.write_bytes(b"x" * (8 << 20))
    monkeypatch.setattr(
        os, "statvfs", lambda _path: SimpleNamespace(f_bavail=8 if left.exists() else 16, f_frsize=1 << 20)
    )
    monkeypatch.setattr(disks, "chain_bytes", lambda _path, _format, _size: 12 << 20)
    (foreseen,) = preview(machine.conn, ["web1"], machine.options)
    (result,) = machine.back_up()
    assert (foreseen.error, result.error) == (None, None)
    assert result.actions[0] == foreseen.actions[0]


def test_old_ones_go_and_those_of_another_machine_stay(machine: BackupHost) -> None:
    first = machine.made().made
    machine.conn.lookupByName("web1").undefine()
    machine.conn.defineXML(
        f"<domain type='test'><name>web1</name><memory>65536</memory><os><type>hvm</type></os><devices>"
        f"{machine.disk('vda', str(machine.image))}</devices></domain>"
    )
    second, third = machine.made().made, machine.made(keep=Keep({"last": 1}))
    assert first is not None
    assert second is not None
    assert third.removed == [second.id]
    assert third.made is not None
    assert set(list_backups(str(machine.destination), "web1").by_id) == {first.id, third.made.id}


def test_what_one_that_cannot_be_read_may_be_built_on_stays(machine: BackupHost) -> None:
    full, later, last = (add_backup(machine.destination, name, 1, uuid=UUID) for name in (FULL, FIRST, SECOND))
    manifest = machine.destination / "web1" / later.id / "manifest.json"
    # As of a later version of the collection, on another hypervisor that shares the directory.
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"format": 1', '"format": 3'), encoding="utf-8")
    result = machine.made(keep=Keep({"last": 2}))
    assert result.removed == []
    (remark,) = result.remarks
    assert f"backups before {later.id} are all kept" in remark
    manifest.write_text(text, encoding="utf-8")
    backups = list_backups(str(machine.destination), "web1")
    assert [one.id for one in backups.chain(last.id)] == [last.id, later.id, full.id]
    assert machine.made(keep=Keep({"last": 1})).removed[-3:] == [last.id, later.id, full.id]


def test_nothing_goes_before_the_new_one_is_verified(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.made().made
    whole = machines.BackupMaker.make

    def make_damaged(maker: machines.BackupMaker) -> Manifest:
        made = whole(maker)
        path = machine.destination / "web1" / made.id / "vda.qcow2"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        return made

    monkeypatch.setattr(machines.BackupMaker, "make", make_damaged)
    (result,) = machine.back_up(keep=Keep({"last": 1}), verify=True)
    assert "has another content" in str(result.error)
    assert first is not None
    assert first.id in list_backups(str(machine.destination), "web1").by_id
    assert (result.removed, result.verified) == ([], [])


def test_one_whose_disks_are_of_different_times_is_not_backed_up(machine: BackupHost) -> None:
    """Nor do the backups go that are of one time."""
    first = machine.made().made
    domain = machine.conn.lookupByName("web1")
    note_begin(domain, SnapshotWork("s1", reverting=True))
    (result,) = machine.back_up(keep=Keep({"last": 1}))
    assert "web1 is being reverted to snapshot s1, or that was interrupted" in str(result.error)
    assert first is not None
    assert list(list_backups(str(machine.destination), "web1").by_id) == [first.id]
    forget(domain)
    assert machine.made().made


def test_several_in_one_second_have_names_of_their_own(machine: BackupHost) -> None:
    names = [machine.made().made for _number in range(3)]
    assert len({one.id for one in names if one is not None}) == 3


def test_all_of_them_are_verified_and_what_is_built_on_damage_is_named(machine: BackupHost) -> None:
    made = machine.made().made
    assert made is not None
    path = machine.destination / "web1" / made.id / "vda.qcow2"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    good = machine.made().made
    (result,) = verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))
    assert good is not None
    assert result.verified == [good.id]
    assert "has another content" in str(result.error)
    (none,) = verify_all(["db1"], machine.options, threading.Event(), ProgressFile(None))
    assert str(none.error).startswith("there is no backup of machine db1")
