# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deletion of an external snapshot that has ended when some of its files were merged, with real images."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import struct
import subprocess
import time
import types
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines import redefine, start_watch
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import written_places
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SnapshotWork, read_work
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.plan import plan_backup
from ansible_collections.brine.virt.plugins.module_utils._operations.power import view as power_view
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import delete
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import view as snapshot_view
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import forget, note_begin
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import (
    ABSENT,
    SnapshotPlan,
    SnapshotRequest,
    plan,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import view

UUID = "11111111-1111-1111-1111-111111111111"
DISK = """<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/><target dev='{}'/>
</disk>"""
DOMAIN = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>{state}</test:runstate><name>web1</name><uuid>{uuid}</uuid><memory>1024</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os><devices>{disks}</devices></domain>"""
SNAPSHOT = """<domainsnapshot><name>now</name><description>brine.virt:1</description><state>disk-snapshot</state>
<creationTime>1</creationTime><memory snapshot='no'/><disks>{disks}</disks>{domain}</domainsnapshot>"""
TAKEN = "<disk name='{}' snapshot='external' type='file'><driver type='qcow2'/><source file='{}'/></disk>"
OFF, RUNNING = 5, 1
TARGETS = ("vda", "vdb")


class Machine:
    """web1 with two disks and a snapshot, whose deletion was begun."""

    def __init__(self, folder: Path, state: int) -> None:
        self.below = {target: folder / f"{target}.qcow2" for target in TARGETS}
        self.files = {target: folder / f"{target}.now.qcow2" for target in TARGETS}
        for target in TARGETS:
            _run("qemu-img", "create", "-q", "-f", "qcow2", str(self.below[target]), "4M")
            _write(self.below[target], 1)
            base = ["-b", str(self.below[target]), "-F", "qcow2"]
            _run("qemu-img", "create", "-q", "-f", "qcow2", *base, str(self.files[target]))
            _write(self.files[target], 2)
        volumes = "".join(
            f"<volume><name>{file.name}</name><capacity>4194304</capacity></volume>"
            for file in (*self.below.values(), *self.files.values())
        )
        pool = f"<pool type='dir'><name>default</name><target><path>{folder}</path></target>{volumes}</pool>"
        node = folder / "node.xml"
        node.write_text(f"<node>{_domain(self.files, state)}{pool}</node>")
        self.uri = f"test://{node}"
        self.conn: t.Any = None

    def begin(self, conn: t.Any) -> None:
        """It ran when the deletion was begun."""
        self.conn = conn
        taken = "".join(TAKEN.format(target, file) for target, file in self.files.items())
        text = SNAPSHOT.format(disks=taken, domain=_domain(self.below, OFF))
        flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
        self.domain.snapshotCreateXML(text, flags)
        note_begin(self.domain, SnapshotWork("now", deleting=True), live=True)

    def merge(self, target: str, *, known: bool = True) -> None:
        """What QEMU has done, and libvirt has noticed or not."""
        _run("qemu-img", "commit", "-q", "-d", "-f", "qcow2", str(self.files[target]))
        if known:
            text = self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            self.conn.defineXML(text.replace(str(self.files[target]), str(self.below[target])))

    @property
    def domain(self) -> t.Any:
        return self.conn.lookupByName("web1")

    @property
    def places(self) -> dict[str, str]:
        return written_places(view(self.conn, "web1", "vm").defined)

    def plan(self) -> SnapshotPlan:
        return plan(self.conn, "web1", SnapshotRequest(ABSENT, 0, names=("now",)))

    def require_finished(self) -> None:
        assert self.places == {target: str(file) for target, file in self.below.items()}
        for file in self.below.values():
            _run("qemu-io", "-r", "-f", "qcow2", "-c", "read -P 2 0 1M", str(file))
        assert self.domain.snapshotListNames() == []
        found = view(self.conn, "web1", "vm")
        assert delete.deletion_begun(found) is None
        volumes = self.conn.storagePoolLookupByName("default").listVolumes()
        assert sorted(volumes) == sorted(file.name for file in self.below.values())


def _run(*words: str) -> None:
    answer = subprocess.run(words, check=True, capture_output=True, text=True)
    assert "Pattern verification failed" not in answer.stdout


def _write(file: Path, pattern: int) -> None:
    _run("qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} 0 1M", str(file))


def _domain(files: dict[str, Path], state: int) -> str:
    disks = "".join(DISK.format(file, target) for target, file in files.items())
    return DOMAIN.format(state=state, uuid=UUID, disks=disks)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test driver is nobody's host, but its files are here. It knows no such flag, and merges nothing."""
    for module in (snapshot_view, power_view):
        monkeypatch.setattr(module, "is_local", lambda _uri: True)
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)


@pytest.fixture
def off(tmp_path: Path, here: None) -> Iterator[Machine]:
    """It is off."""
    machine = Machine(tmp_path, OFF)
    with open_connection(machine.uri) as conn:
        machine.begin(conn)
        yield machine


@pytest.fixture
def running(tmp_path: Path, here: None) -> Iterator[Machine]:
    """It runs."""
    machine = Machine(tmp_path, RUNNING)
    with open_connection(machine.uri) as conn:
        machine.begin(conn)
        yield machine


@pytest.fixture
def qemu_opens() -> Iterator[t.Callable[[Path], None]]:
    """Has a file be open as QEMU has it: with the byte of what it does locked."""
    with contextlib.ExitStack() as stack:

        def open_file(path: Path) -> None:
            file = stack.enter_context(path.open("r+b"))
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0))

        yield open_file


def test_the_rest_is_merged_where_libvirt_would_not(off: Machine) -> None:
    off.merge("vda")
    found = off.plan()
    assert found.actions[0] == "delete snapshot now of web1"
    found.steps[0].apply()
    off.require_finished()
    assert off.plan().actions == []


def test_a_file_that_libvirt_has_deleted_already_was_merged(off: Machine) -> None:
    """The machine could not even be started."""
    off.merge("vda")
    off.merge("vdb", known=False)
    off.files["vdb"].unlink()
    off.plan().steps[0].apply()
    off.require_finished()


def test_all_files_of_a_machine_that_is_off_are_merged(off: Machine) -> None:
    """libvirt would start a QEMU for it, which anybody can let run on."""
    forget(off.domain)
    (step,) = off.plan().steps[:1]
    step.apply()
    off.require_finished()
    assert step.look is not None
    assert dataclasses.replace(step.look(), percent=0.0) == HowFar("merge of disk vdb, 2 of 2", percent=0.0)


def test_those_of_a_machine_that_runs_are_merged_by_libvirt(
    running: Machine, qemu_opens: t.Callable[[Path], None]
) -> None:
    before = {target: file.stat().st_mtime_ns for target, file in running.below.items()}
    for file in (*running.files.values(), *running.below.values()):
        qemu_opens(file)
    running.plan().steps[0].apply()
    assert running.domain.snapshotListNames() == []
    assert {target: file.stat().st_mtime_ns for target, file in running.below.items()} == before


def test_nor_does_qemu_img_have_the_key_of_an_encrypted_disk(off: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {target: file.stat().st_mtime_ns for target, file in off.below.items()}
    merges = delete._merges

    def encrypted(*given: t.Any) -> t.Any:
        found = merges(*given)
        found["vda"].then.append(etree.fromstring("<encryption format='luks'/>"))
        return found

    monkeypatch.setattr(delete, "_merges", encrypted)
    off.plan().steps[0].apply()
    assert off.domain.snapshotListNames() == []
    assert {target: file.stat().st_mtime_ns for target, file in off.below.items()} == before


def test_nor_does_it_guess_the_format_of_what_a_guest_has_written(off: Machine) -> None:
    before = {target: file.stat().st_mtime_ns for target, file in off.below.items()}
    content = off.files["vdb"].read_bytes()
    # The extension of the header that names the format of the backing file.
    off.files["vdb"].write_bytes(content.replace(bytes.fromhex("e2792aca"), bytes(4), 1))
    off.plan().steps[0].apply()
    assert off.domain.snapshotListNames() == []
    assert {target: file.stat().st_mtime_ns for target, file in off.below.items()} == before


def test_killed_at_any_point_it_is_finished_by_the_next_run(off: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_args: t.Any, **_options: t.Any) -> None:
        raise KeyboardInterrupt

    off.merge("vda")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(delete, "redefine_disks", killed)
        off.plan().steps[0].apply()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(delete, "forget", killed)
        off.plan().steps[0].apply()
    assert off.plan().actions == ["note that snapshot now of web1 is deleted, which an interrupted run has begun"]
    off.plan().steps[0].apply()
    off.require_finished()


def test_what_is_backed_by_another_file_is_not_merged(off: Machine) -> None:
    off.merge("vda")
    other = off.below["vdb"].with_name("other.qcow2")
    other.write_bytes(off.below["vdb"].read_bytes())
    _run("qemu-img", "rebase", "-u", "-f", "qcow2", "-b", str(other), "-F", "qcow2", str(off.files["vdb"]))
    with pytest.raises(ConflictError, match=r"vdb.now.qcow2 is backed by .*other.qcow2, and not by .*vdb.qcow2"):
        off.plan().steps[0].apply()
    assert off.places["vdb"] == str(off.files["vdb"])


def test_a_file_below_that_is_newer_is_not_merged_over(off: Machine) -> None:
    """The machine may have been on it, unseen, and was stopped since."""
    off.merge("vda")
    off.merge("vdb", known=False)
    _write(off.below["vdb"], 3)
    os.utime(off.files["vdb"], (0, 0))
    with pytest.raises(ConflictError, match=r"vdb.qcow2 was written to after .*vdb.now.qcow2, and they differ"):
        off.plan().steps[0].apply()
    _run("qemu-io", "-r", "-f", "qcow2", "-c", "read -P 3 0 1M", str(off.below["vdb"]))
    # Out of the pool, where it would count as what uses the file below.
    off.files["vdb"].rename(off.files["vdb"].parent.with_name(f"{off.files['vdb'].parent.name}-away.qcow2"))
    off.plan().steps[0].apply()
    _run("qemu-io", "-r", "-f", "qcow2", "-c", "read -P 3 0 1M", str(off.below["vdb"]))
    assert off.places["vdb"] == str(off.below["vdb"])


@pytest.mark.parametrize("targets", [("vda",), TARGETS])
@pytest.mark.parametrize("begun", [True, False])
def test_nor_is_it_where_libvirt_has_seen_no_file_merged(off: Machine, targets: tuple[str, ...], begun: bool) -> None:
    """By a run of ours, or by virsh."""
    if not begun:
        forget(off.domain)
    for target in targets:
        off.merge(target, known=False)
        _write(off.below[target], 3)
        os.utime(off.files[target], (0, 0))
    with pytest.raises(ConflictError, match=r"vda.qcow2 was written to after .*vda.now.qcow2, and they differ"):
        off.plan().steps[0].apply()
    assert off.domain.snapshotListNames() == ["now"]
    assert delete.deletion_begun(view(off.conn, "web1", "vm")) == ("now" if begun else None)
    # The merge of an idle guest was interrupted: its own file has what counts.
    for target in targets:
        os.utime(off.files[target])
    off.plan().steps[0].apply()
    assert off.domain.snapshotListNames() == []


def test_nor_is_such_a_machine_started_or_backed_up(off: Machine, tmp_path: Path) -> None:
    """It was on the file below, unseen, and its guest has shut it down."""
    assert power_view.view_machine(off.domain).refusal is None
    off.merge("vdb", known=False)
    assert power_view.view_machine(off.domain).refusal is None
    _write(off.below["vdb"], 3)
    os.utime(off.files["vdb"], (0, 0))
    refusal = power_view.view_machine(off.domain).refusal
    assert str(refusal) == (
        f"the deletion of its snapshot now was interrupted, and {off.below['vdb']} was written to after "
        f"{off.files['vdb']}, the file of its disk vdb, so it may start with older data. Run virt_snapshot with state: "
        "absent and name: now, which says what to look at"
    )
    # A backup of it would have the older data, and in time be the only one.
    with pytest.raises(ConflictError, match=r"web1 is not backed up: the deletion of its snapshot now was interrupted"):
        plan_backup(off.conn, "web1", BackupOptions(str(tmp_path)))
    # Half merged by qemu-img: nothing but that has written below.
    note_begin(off.domain, SnapshotWork("now", deleting=True, off=True, started=""))
    assert power_view.view_machine(off.domain).refusal is None
    forget(off.domain)
    assert power_view.view_machine(off.domain).refusal is None
    assert plan_backup(off.conn, "web1", BackupOptions(str(tmp_path))).kind == "full"


def test_a_few_seconds_are_newer_too(off: Machine) -> None:
    off.merge("vda")
    off.merge("vdb", known=False)
    _write(off.below["vdb"], 3)
    for file, at in ((off.files["vdb"], 1000), (off.below["vdb"], 1005)):
        os.utime(file, (at, at))
    with pytest.raises(ConflictError, match="and they differ"):
        off.plan().steps[0].apply()


def test_a_machine_that_was_started_meanwhile_stays_on_its_files(
    off: Machine, qemu_opens: t.Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    off.merge("vda")
    merge = delete._merge

    def merge_and_start(one: t.Any, *told: t.Any) -> None:
        merge(one, *told)
        qemu_opens(Path(one.file))

    monkeypatch.setattr(delete, "_merge", merge_and_start)
    with pytest.raises(ConflictError, match=r"vdb.now.qcow2 open for writing"):
        off.plan().steps[0].apply()
    assert off.places["vdb"] == str(off.files["vdb"])
    assert off.domain.snapshotListNames() == ["now"]
    assert delete.deletion_begun(view(off.conn, "web1", "vm")) == "now"


def test_one_that_was_started_and_stopped_meanwhile_stays_on_them_too(
    off: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one of its files was merged, and before all were held."""
    merge = delete._merge

    def merge_and_run(one: t.Any, *told: t.Any) -> None:
        merge(one, *told)
        _write(Path(one.file), 3)
        monkeypatch.setattr(start_watch, "last_start", lambda _machine: "later")

    with monkeypatch.context() as patched, pytest.raises(ConflictError, match="was started while the files"):
        patched.setattr(delete, "_merge", merge_and_run)
        off.plan().steps[0].apply()
    assert off.places["vda"] == str(off.files["vda"])
    monkeypatch.setattr(delete, "last_start", lambda _machine: "later")
    off.plan().steps[0].apply()
    for file in off.below.values():
        _run("qemu-io", "-r", "-f", "qcow2", "-c", "read -P 3 0 1M", str(file))
    assert off.domain.snapshotListNames() == []


def test_a_file_below_that_is_gone_is_said(off: Machine) -> None:
    off.below["vdb"].unlink()
    with pytest.raises(HostError, match=r"vdb\.qcow2"):
        off.plan().steps[0].apply()
    assert off.files["vdb"].exists()


@pytest.mark.parametrize("fails", [True, False])
def test_a_start_that_had_begun_is_waited_for(off: Machine, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """libvirt calls a machine active some time before its QEMU opens the disks. It fails for the lock, where there are
    locks; otherwise it has to stay on its files."""
    define = redefine.redefine

    def start_and_define(*given: t.Any) -> None:
        monkeypatch.setattr(redefine, "redefine", define)
        off.domain.create()
        define(*given)

    def fail(_seconds: float) -> None:
        if fails:
            # Its transient description goes with it.
            off.domain.destroy()

    monkeypatch.setattr(redefine, "redefine", start_and_define)
    monkeypatch.setattr(redefine, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=fail))
    monkeypatch.setattr(redefine, "_START_SECONDS", 900 if fails else 0)
    if fails:
        off.plan().steps[0].apply()
        off.require_finished()
        return
    with pytest.raises(ConflictError, match="machine web1 was started while .* is on its disks of before"):
        off.plan().steps[0].apply()
    assert off.places == {target: str(file) for target, file in off.files.items()}
    assert off.domain.snapshotListNames() == ["now"]
    assert all(file.exists() for file in off.files.values())


@pytest.mark.parametrize("merged", [(), ("vda",)])
def test_what_was_off_has_written_nothing_below(off: Machine, merged: tuple[str, ...]) -> None:
    """A file below that is newer is half merged there, and nothing else."""
    note_begin(off.domain, SnapshotWork("now", deleting=True, off=True, started=""))
    for target in merged:
        off.merge(target)
    _write(off.below["vdb"], 3)
    os.utime(off.files["vdb"], (0, 0))
    off.plan().steps[0].apply()
    off.require_finished()


@pytest.mark.parametrize(("noted", "logged"), [("", "2026-11-27 21:51:00.1+0000"), ("1", "2"), ("1", ""), (None, "")])
def test_what_was_started_since_may_have_written_below(
    off: Machine, monkeypatch: pytest.MonkeyPatch, noted: str | None, logged: str
) -> None:
    """By a QEMU that libvirt does not know to be on the file below. None: noted by a version that did not know it."""
    note_begin(off.domain, SnapshotWork("now", deleting=True, off=True, started=noted))
    monkeypatch.setattr(start_watch, "last_start", lambda _machine: logged)
    _write(off.below["vdb"], 3)
    os.utime(off.files["vdb"], (0, 0))
    with pytest.raises(ConflictError, match=r"vdb.qcow2 was written to after .*vdb.now.qcow2, and they differ"):
        off.plan().steps[0].apply()
    _run("qemu-io", "-r", "-f", "qcow2", "-c", "read -P 3 0 1M", str(off.below["vdb"]))
    assert delete.deletion_begun(view(off.conn, "web1", "vm")) == "now"


@pytest.mark.parametrize("state", ["off", "running"])
def test_the_next_run_knows_whether_it_was_off(
    state: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    qemu_opens: t.Callable[[Path], None],
) -> None:
    def killed(*_args: t.Any, **_options: t.Any) -> None:
        raise KeyboardInterrupt

    machine = request.getfixturevalue(state)
    for file in (*machine.files.values(), *machine.below.values()) if state == "running" else ():
        qemu_opens(file)
    monkeypatch.setattr(delete, "forget", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.plan().steps[0].apply()
    work = read_work(view(machine.conn, "web1", "vm").defined)
    assert work is not None
    assert start_watch.is_off_since(work, "web1") is (state == "off")


def test_a_machine_that_runs_is_to_be_shut_down_for_it(running: Machine, qemu_opens: t.Callable[[Path], None]) -> None:
    running.merge("vda")
    qemu_opens(running.below["vda"])
    qemu_opens(running.below["vdb"])
    qemu_opens(running.files["vdb"])
    with pytest.raises(ConflictError, match=r"interrupted when the file of vda was merged.* Shut the machine down"):
        running.plan()


def test_what_libvirt_has_not_seen_is_noted_before_the_machine_may_stop(
    running: Machine, qemu_opens: t.Callable[[Path], None]
) -> None:
    """It would start with the older file, or that would be merged over the newer one."""
    for target in TARGETS:
        running.merge(target, known=False)
        qemu_opens(running.below[target])
    refusal = power_view.view_machine(running.domain).refusal
    assert refusal is not None
    assert "vda.now.qcow2, the file of its disk vda, and libvirt does not know it" in str(refusal)
    assert "virt_snapshot with state: absent and name: now" in str(refusal)
    found = running.plan()
    assert found.unfinished
    below = running.below
    assert found.actions == [
        f"note that disk vda is on {below['vda']}, disk vdb is on {below['vdb']}, as QEMU has merged the file of the "
        "snapshot and libvirt does not know it"
    ]
    found.steps[0].apply()
    assert running.places == {target: str(file) for target, file in below.items()}
    assert power_view.view_machine(running.domain).refusal is None
    with pytest.raises(ConflictError, match="Shut the machine down"):
        running.plan()


def test_a_machine_on_a_file_that_root_may_not_read_is_shown(running: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an NFS server that makes nobody of root, while its snapshot is deleted: whether it is merged cannot be
    told."""
    running.merge("vda", known=False)
    opened, files = os.open, [str(file) for file in running.files.values()]

    def refuse(path: str, *rest: t.Any, **more: t.Any) -> int:
        if path in files:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    found = power_view.view_machine(running.domain)
    assert found.state == "running"
    with pytest.raises(HostError, match=r"cannot read .*now.qcow2: Permission denied"):
        found.require_changeable(only_off=True)


def test_a_merge_that_has_not_come_to_its_end_is_no_reason(
    running: Machine, qemu_opens: t.Callable[[Path], None]
) -> None:
    for target in TARGETS:
        qemu_opens(running.below[target])
        qemu_opens(running.files[target])
    assert power_view.view_machine(running.domain).refusal is None
    assert running.plan().actions[0] == "delete snapshot now of web1"
