# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's backup job, as far as its test driver goes: it has none. The lab's scenario has the rest."""

from __future__ import annotations

import gc
import threading
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host import connection
from ansible_collections.brine.virt.plugins.module_utils._host.backup import job, paused
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection


@pytest.fixture
def conn() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as opened:
        yield opened
    # A handle in the frames of an exception keeps this driver's machine, which all its connections share, as it is.
    gc.collect()


def test_a_driver_without_backups_says_so(conn: t.Any) -> None:
    domain = conn.lookupByName("test")
    with pytest.raises(UnsupportedError, match="cannot inspect the backup of machine test"):
        job.targets_of_job(domain)
    with pytest.raises(UnsupportedError):
        job.end_job_of_killed_run(domain, "/srv/backup/test", print)


def test_a_job_that_cannot_begin_is_not_waited_for(conn: t.Any) -> None:
    domain = conn.lookupByName("test")
    begun: list[str] = []
    with pytest.raises(VirtError):
        job.run_backup(
            *(conn, domain, "<domainbackup/>", None, threading.Event()),
            lambda _done, _all: None,
            print,
            lambda: begun.append(""),
        )
    assert begun == []


class Playing:
    """The machine, with QEMU's part of a backup: on_begin is what comes of it."""

    def __init__(self, domain: t.Any, on_begin: t.Callable[[], t.Any]) -> None:
        self._domain = domain
        self._on_begin = on_begin

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._domain, name)

    def backupBegin(self, *_what: t.Any) -> None:  # noqa: N802 - libvirt's name
        self._on_begin()

    def jobInfo(self) -> list[int]:  # noqa: N802 - libvirt's name
        return [libvirt.VIR_DOMAIN_JOB_NONE]


@pytest.fixture
def domain(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """A machine that runs. Whatever pauses it is an I/O error: the test driver knows of no other reason."""
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_PAUSED_IOERROR", libvirt.VIR_DOMAIN_PAUSED_USER)
    monkeypatch.setattr(paused, "_EVENT_SECONDS", 0.5)
    monkeypatch.setattr(paused, "_SETTLE_SECONDS", 0.3)
    return conn.lookupByName("test")


def run(conn: t.Any, domain: t.Any, remarks: list[str], begun: t.Callable[[], t.Any] = str) -> None:
    job.run_backup(
        conn, domain, "<domainbackup/>", None, threading.Event(), lambda _done, _all: None, remarks.append, begun
    )


GOES_ON = (
    "an I/O error had paused it while it was backed up, and it was resumed when the backup had ended: QEMU has "
    "repeated the write, so nothing is lost"
)


def test_a_machine_that_its_backup_has_paused_goes_on(
    conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest's write could not be copied to a full directory first, and fails with the same error."""
    monkeypatch.setattr(job, "targets_of_job", lambda _domain: None)
    monkeypatch.setattr(job._Watch, "figures", lambda _watch: {"success": False, "errmsg": "No space left on device"})
    # libvirt hears of it before the job ends, or after.
    for pause in (domain.suspend, lambda: threading.Timer(0.2, domain.suspend).start()):
        remarks: list[str] = []
        words = "the backup of machine test has failed: No space left on device. Look into the guest"
        with pytest.raises(HostError, match=words):
            run(conn, Playing(domain, pause), remarks)
        assert (remarks, domain.state()[0]) == ([GOES_ON], libvirt.VIR_DOMAIN_RUNNING)


def test_it_goes_on_also_after_a_backup_that_was_good(
    conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU copies the rest of the disk once there is room again."""
    monkeypatch.setattr(job, "targets_of_job", lambda _domain: None)
    monkeypatch.setattr(job._Watch, "figures", lambda _watch: {"success": True})
    remarks: list[str] = []
    run(conn, Playing(domain, domain.suspend), remarks)
    assert (remarks, domain.state()[0]) == ([GOES_ON], libvirt.VIR_DOMAIN_RUNNING)
    remarks.clear()
    run(conn, Playing(domain, str), remarks)
    assert remarks == []


def test_one_that_was_paused_before_stays_paused(conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "targets_of_job", lambda _domain: None)
    monkeypatch.setattr(job._Watch, "figures", lambda _watch: {"success": False})
    domain.suspend()
    remarks: list[str] = []
    with pytest.raises(HostError, match="it was ended$"):
        run(conn, Playing(domain, str), remarks)
    assert (remarks, domain.state()[0]) == ([], libvirt.VIR_DOMAIN_PAUSED)


def test_a_machine_does_not_stand_still_until_a_long_backup_ends(
    conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is ended first, and then the machine goes on: it would only be paused again."""
    targets = ["/srv/backup/test/.unfinished-a/vda.qcow2"]
    states: list[int] = []
    monkeypatch.setattr(job, "_PAUSED_SECONDS", 0.5)
    monkeypatch.setattr(job, "targets_of_job", lambda _domain: targets or None)

    def abort(_domain: t.Any) -> None:
        states.append(domain.state()[0])
        targets.clear()

    monkeypatch.setattr(job, "abort", abort)
    remarks: list[str] = []
    with pytest.raises(HostError, match="an I/O error has paused machine test while it was backed up, so the backup"):
        run(conn, Playing(domain, domain.suspend), remarks)
    assert (states, remarks) == ([libvirt.VIR_DOMAIN_PAUSED], [GOES_ON])
    assert domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING


def test_the_job_that_a_killed_run_has_left_is_ended_and_the_machine_goes_on(
    domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = ["/srv/backup/test/.unfinished-a/vda.qcow2"]
    monkeypatch.setattr(job, "targets_of_job", lambda _domain: targets or None)
    monkeypatch.setattr(job, "abort", lambda _domain: targets.clear())
    domain.suspend()
    played = Playing(domain, str)
    remarks: list[str] = []
    with pytest.raises(ConflictError, match="a backup of machine test is under way, to /srv/backup/test/.unfinished-a"):
        job.end_job_of_killed_run(played, "/srv/elsewhere/test", remarks.append)
    assert (remarks, domain.state()[0]) == ([], libvirt.VIR_DOMAIN_PAUSED)
    assert job.left_job(played, "/srv/backup/test")
    assert domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED
    job.end_job_of_killed_run(played, "/srv/backup/test", remarks.append)
    assert (remarks, domain.state()[0]) == ([GOES_ON], libvirt.VIR_DOMAIN_RUNNING)
    # Without a job of ours nobody knows what has paused it.
    domain.suspend()
    job.end_job_of_killed_run(played, "/srv/backup/test", remarks.append)
    assert (remarks, domain.state()[0]) == ([GOES_ON], libvirt.VIR_DOMAIN_PAUSED)


class Lost(Playing):
    """The machine over a connection whose daemon was ended when the backup had begun."""

    def connect(self) -> t.Any:
        return self

    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        return 0

    def getURI(self) -> str:  # noqa: N802 - libvirt's name
        return str(self._domain.connect().getURI())

    def state(self) -> t.Any:
        raise libvirt.libvirtError("client socket is closed")


def test_a_daemon_that_is_restarted_ends_the_backup_and_the_machine_goes_on(
    conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU goes on with the job, and the guest's writes would depend on the directory, with nobody to resume it."""
    going = [""]

    def targets(handle: t.Any) -> list[str] | None:
        if isinstance(handle, Lost):
            raise HostError("cannot inspect the backup of machine test: client socket is closed")
        return going or None

    monkeypatch.setattr(job, "targets_of_job", targets)
    monkeypatch.setattr(job, "is_running", lambda _domain: True)
    monkeypatch.setattr(job, "abort", lambda handle: going.clear() if targets(handle) else None)
    remarks: list[str] = []
    words = (
        "^the connection to libvirt was lost while machine test was backed up, so the backup was ended: cannot inspect "
        r"the backup of machine test: client socket is closed. Was libvirtd restarted\? Run it again$"
    )
    with pytest.raises(HostError, match=words):
        run(conn, Lost(domain, domain.suspend), remarks)
    assert (going, remarks, domain.state()[0]) == ([], [GOES_ON], libvirt.VIR_DOMAIN_RUNNING)
    # Whoever has stopped the run, or replaced a file, is told just that.
    with pytest.raises(ConflictError, match="^replaced$"):
        run(conn, Lost(domain, str), remarks, raising(ConflictError("replaced")))


def raising(error: Exception) -> t.Callable[[], t.Any]:
    def work() -> None:
        raise error

    return work


def test_a_daemon_that_does_not_come_back_leaves_a_backup_that_is_told(
    conn: t.Any, domain: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(job, "is_running", lambda _domain: True)
    monkeypatch.setattr(Lost, "getURI", lambda _self: "qemu+unix:///system?socket=/nowhere/sock")
    words = (
        "^the connection to libvirt was lost while machine test was backed up, and it is not certain that the backup "
        r"has ended: cannot connect to qemu\+unix:///system\?socket=/nowhere/sock: .*: virsh domjobabort test$"
    )
    with pytest.raises(HostError, match=words):
        run(conn, Lost(domain, str), [], raising(HostError("client socket is closed")))


def test_one_that_cannot_go_on_is_told(domain: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an error in its own storage."""
    remarks: list[str] = []
    domain.suspend()

    def paused_again() -> None:
        domain.resume()
        threading.Timer(0.1, domain.suspend).start()

    again = Playing(domain, str)
    again.resume = paused_again  # type: ignore[attr-defined]
    paused.resume(again, remarks.append)
    assert remarks == [
        "an I/O error has paused it while it was backed up, and again when it was resumed, so its own storage may have "
        "the error: virsh domblkerror test names the disk"
    ]
    remarks.clear()
    again.resume = domain.create  # type: ignore[attr-defined]
    paused.resume(again, remarks.append)
    assert len(remarks) == 1
    assert remarks[0].startswith("an I/O error has paused it while it was backed up, and it cannot be resumed: ")
