# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new snapshot whose files QEMU writes to, which libvirt, killed meanwhile, does not know; with real images."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import disk_lock
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SnapshotWork, read_work
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.plan import plan_backup
from ansible_collections.brine.virt.plugins.module_utils._operations.power import plan as power
from ansible_collections.brine.virt.plugins.module_utils._operations.power import view as power_view
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import view as snapshot_view
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import note_begin
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import (
    PRESENT,
    SnapshotPlan,
    SnapshotRequest,
    plan,
)

TARGETS = ("vda", "vdb")
DISK = """<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/><target dev='{}'/>
</disk>"""


class Machine:
    """web1, which runs, and the files of a snapshot that a run has begun to take, with nothing in them yet."""

    def __init__(self, folder: Path) -> None:
        self.disks = {target: folder / f"{target}.qcow2" for target in TARGETS}
        self.files = {target: folder / f"web1-{target}.now.qcow2" for target in TARGETS}
        for target in TARGETS:
            _run("qemu-img", "create", "-q", "-f", "qcow2", str(self.disks[target]), "4M")
            write(self.disks[target], 1)
            base = ["-b", str(self.disks[target]), "-F", "qcow2"]
            _run("qemu-img", "create", "-q", "-f", "qcow2", *base, str(self.files[target]))
        disks = "".join(DISK.format(file, target) for target, file in self.disks.items())
        pool = f"<pool type='dir'><name>default</name><target><path>{folder}</path></target></pool>"
        (folder / "node.xml").write_text(
            "<node><domain type='test'><name>web1</name><memory>1024</memory><os><type arch='x86_64'>hvm</type></os>"
            f"<devices>{disks}</devices></domain>{pool}</node>"
        )
        self.uri = f"test://{folder}/node.xml"
        self.conn: t.Any = None

    @property
    def domain(self) -> t.Any:
        return self.conn.lookupByName("web1")

    def refusal(self) -> str | None:
        found = power_view.view_machine(self.domain).refusal
        assert found is None or isinstance(found, power_view.TakenUnseenError)
        return None if found is None else str(found)

    @property
    def work(self) -> SnapshotWork | None:
        return read_work(parse_xml(self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))

    def actions(self, state: str) -> list[str]:
        request = power.PowerRequest(state, 60)
        return [one.value for one in power.plan_actions(power_view.view_machine(self.domain), request)]

    def plan(self) -> SnapshotPlan:
        return plan(self.conn, "web1", SnapshotRequest(PRESENT, 0, names=("now",)))


def _run(*words: str) -> None:
    answer = subprocess.run(words, check=True, capture_output=True, text=True)
    assert "Pattern verification failed" not in answer.stdout


def write(file: Path, pattern: int) -> None:
    _run("qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} 0 1M", str(file))


@pytest.fixture
def web1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The test driver is nobody's host, but its files are here."""
    for module in (snapshot_view, power_view):
        monkeypatch.setattr(module, "is_local", lambda _uri: True)
    machine = Machine(tmp_path)
    with open_connection(machine.uri) as conn:
        machine.conn = conn
        note_begin(machine.domain, SnapshotWork("now"))
        yield machine


@contextlib.contextmanager
def open_in_qemu(*paths: Path) -> Iterator[None]:
    """Have files be open as QEMU has them: with the byte of what it does locked."""
    with contextlib.ExitStack() as stack:
        for path in paths:
            file = stack.enter_context(path.open("r+b"))
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0))
        yield


def test_it_may_be_stopped_and_what_was_written_is_put_back_before_it_starts(web1: Machine, tmp_path: Path) -> None:
    files = ", ".join(map(str, web1.files.values()))
    commands = " && ".join(f"qemu-img commit -f qcow2 {file} && rm {file}" for file in web1.files.values())
    what = (
        "libvirt was killed while snapshot now of it was taken, and does not know that the latest data are in "
        f"{files}, so it would start with older data. "
    )
    how = f"While it is off, this puts what was written there into its disks: {commands}. Then start it, and run "
    with open_in_qemu(*web1.files.values()):
        stop = "Shut it down (virt_power with state: stopped). "
        assert web1.refusal() == f"{what}{stop}{how}virt_snapshot again"
        assert web1.actions("stopped") == ["shut down"]
        for state in ("cycled", "paused", "saved"):
            with pytest.raises(ConflictError, match="would start with older data"):
                web1.actions(state)
        with pytest.raises(ConflictError, match="would start with older data"):
            web1.plan()
        # The backup has what libvirt says is the disk.
        with pytest.raises(ConflictError, match="web1 is not backed up: libvirt was killed while snapshot now"):
            plan_backup(web1.conn, "web1", BackupOptions(str(tmp_path)))
    # It has written to one of them only: the other goes as well, or it would be in the way of the next snapshot.
    write(web1.files["vda"], 2)
    web1.domain.destroy()
    assert web1.refusal() == f"{what}{how}virt_snapshot again"
    assert web1.actions("stopped") == []
    with pytest.raises(ConflictError, match="would start with older data"):
        web1.actions("running")
    with pytest.raises(power_view.OlderDataError):
        power_view.view_machine(web1.domain).require_newest_data()
    with pytest.raises(ConflictError, match="would start with older data"):
        web1.plan()
    with pytest.raises(ConflictError, match="web1 is not backed up: libvirt was killed while snapshot now"):
        plan_backup(web1.conn, "web1", BackupOptions(str(tmp_path)))
    subprocess.run(commands, shell=True, check=True, stdout=subprocess.DEVNULL)
    for disk, pattern in zip(web1.disks.values(), (2, 1)):
        _run("qemu-io", "-r", "-f", "qcow2", "-c", f"read -P {pattern} 0 1M", str(disk))
    assert not any(file.exists() for file in web1.files.values())
    assert web1.refusal() is None
    assert web1.actions("running") == ["start"]
    _forgets(web1, "note that snapshot now of web1 is not there, which an interrupted run has begun")
    assert web1.plan().actions[0].startswith("take snapshot now of web1")


def _forgets(web1: Machine, action: str) -> None:
    found = web1.plan()
    assert (found.actions, found.unfinished) == ([action], True)
    found.steps[0].apply()
    assert web1.work is None


@pytest.mark.parametrize("state", ["running", "off"])
def test_files_that_nothing_was_written_to_are_no_reason(web1: Machine, state: str) -> None:
    """The daemon was killed before QEMU went over to them."""
    if state == "off":
        web1.domain.destroy()
    with open_in_qemu(*(web1.disks.values() if state == "running" else ())):
        assert web1.refusal() is None
        _forgets(web1, "note that snapshot now of web1 is not there, which an interrupted run has begun")


def test_files_that_root_may_not_read_may_have_what_was_written(web1: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an NFS server that makes nobody of root: whether they are empty cannot be told."""

    def refuse(path: str, _mode: str) -> t.NoReturn:
        os.stat(path)
        raise PermissionError(13, "Permission denied", path)

    web1.domain.destroy()
    assert web1.refusal() is None
    monkeypatch.setattr(disk_lock, "open", refuse, raising=False)
    assert (web1.refusal() or "").startswith("libvirt was killed while snapshot now of it was taken")
    for file in web1.files.values():
        file.unlink()
    assert web1.refusal() is None


def test_files_that_root_may_not_read_may_be_open(web1: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, while it runs: its state is told all the same, and it can be shut down."""
    files = [str(file) for file in web1.files.values()]
    opened = os.open

    def refuse(path: str, *rest: t.Any, **more: t.Any) -> int:
        if path in files:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(disk_lock, "open", refuse, raising=False)
    assert (web1.refusal() or "").startswith("libvirt was killed while snapshot now of it was taken")
    assert web1.actions("stopped") == ["shut down"]


def test_one_that_libvirt_knows_is_whole(web1: Machine) -> None:
    web1.domain.snapshotCreateXML("<domainsnapshot><name>now</name></domainsnapshot>")
    with open_in_qemu(*web1.files.values()):
        assert web1.refusal() is None
        _forgets(web1, "note that snapshot now of web1 is whole, which an interrupted run has taken")


def test_a_definition_that_names_the_files_is_right(web1: Machine) -> None:
    """The daemon was killed after it had written that down."""
    text = web1.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    for target in TARGETS:
        text = text.replace(str(web1.disks[target]), str(web1.files[target]))
    web1.domain.destroy()
    web1.conn.defineXML(text)
    write(web1.files["vda"], 2)
    assert web1.refusal() is None


def test_the_note_that_a_revert_by_virsh_brings_back_is_an_old_one(web1: Machine, tmp_path: Path) -> None:
    """It is in the description of the snapshot, which was deleted without its files since: another one is on them."""
    text = web1.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    for target, disk in web1.disks.items():
        other = tmp_path / f"web1-{target}.1795890667"
        _run("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(disk), "-F", "qcow2", str(other))
        text = text.replace(str(disk), str(other))
        write(web1.files[target], 2)
    web1.domain.destroy()
    web1.conn.defineXML(text)
    assert web1.refusal() is None


def test_what_has_run_on_its_disks_since_is_not_overwritten(web1: Machine) -> None:
    """Somebody has started it with virsh, and it was stopped since."""
    web1.domain.destroy()
    write(web1.files["vdb"], 2)
    write(web1.disks["vdb"], 3)
    os.utime(web1.files["vdb"], (0, 0))
    said = web1.refusal() or ""
    assert re.search(r"vdb.qcow2 was written to since as well, so the two are not to be put together", said)
    assert said.endswith(f"To go on without what is in {', '.join(map(str, web1.files.values()))}: move that away")
    assert "commit" not in said
    web1.files["vdb"].unlink()
    assert web1.refusal() is None
