# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was found damaged is remembered: nothing is built on it, and it keeps no good backup from being kept."""

from __future__ import annotations

import dataclasses
import errno
import os
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import damage
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._model.backup.damage import DAMAGED
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.machines import (
    preview,
    preview_verify,
    verify_all,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.result import BackupResult
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    SECOND,
    add_backup,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    UUID,
    BackupHost,
)

pytestmark = pytest.mark.medium

KEEP = Keep({"last": 2})
GOOD, BAD = "20261118T020000Z-full", "20261119T020000Z-full"


def flip(path: Path) -> bytes:
    """Damage a file; what it held."""
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    return before


def verify(machine: BackupHost) -> BackupResult:
    (result,) = verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))
    return result


def shown(machine: BackupHost, **options: t.Any) -> BackupResult:
    (result,) = preview(machine.conn, ["web1"], dataclasses.replace(machine.options, **options))
    assert result.error is None, str(result.error)
    return result


def ids(machine: BackupHost) -> list[str]:
    return sorted(list_backups(str(machine.destination), "web1").by_id)


def damaged_in(result: BackupResult) -> dict[str, str]:
    return {one["id"]: one["damaged"] for one in result.as_result()["backups"] if one["damaged"]}


def made_id(result: BackupResult) -> str:
    assert result.made is not None
    return result.made.id


@pytest.mark.parametrize("by_verify_of_a_backup", [False, True])
def test_the_next_backup_is_a_full_one_and_says_why(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, by_verify_of_a_backup: bool
) -> None:
    """Also where the damaged one is below the one that it would be built on."""
    machine.start(monkeypatch, written={"vda": 0})
    full = made_id(machine.made())
    before = made_id(machine.made())
    flip(machine.destination / "web1" / full / "vda.qcow2")
    if by_verify_of_a_backup:
        (failed,) = machine.back_up(verify=True)
        before = made_id(failed)
    else:
        failed = verify(machine)
    assert f"/{full}/vda.qcow2 has another content than when the backup was made" in str(failed.error)
    words = f"nothing can be built on {before}: it is built on {full}, which is damaged: vda.qcow2 has another content"
    foreseen = shown(machine)
    made = machine.made()
    for one in (foreseen, made):
        result = one.as_result()
        assert (result["kind"], result["reason"].startswith(words)) == ("full", True), result["reason"]
    after = machine.made()
    assert after.plan is not None and after.plan.parent is not None
    assert after.plan.parent.id == made_id(made)


def test_a_damaged_backup_does_not_count_among_those_that_are_kept(machine: BackupHost) -> None:
    """The only one that can be restored is not removed for it."""
    add_backup(machine.destination, GOOD, 1, uuid=UUID)
    add_backup(machine.destination, BAD, 2, uuid=UUID)
    flip(machine.destination / "web1" / BAD / "vda.qcow2")
    assert f"/{BAD}/vda.qcow2 has another content" in str(verify(machine).error)
    foreseen = shown(machine, keep=KEEP)
    made = machine.made(keep=KEEP)
    assert (foreseen.removed, made.removed) == ([], [])
    assert ids(machine) == [GOOD, BAD, made_id(made)]
    assert set(damaged_in(made)) == set(damaged_in(foreseen)) == {BAD}
    for one in (foreseen, made):
        (remark,) = one.remarks
        assert remark.startswith(f"backup {BAD} is damaged: vda.qcow2 has another content")
    # With two good ones that are newer, it goes as well.
    foreseen = shown(machine, keep=KEEP)
    last = machine.made(keep=KEEP)
    assert last.removed == foreseen.removed == [BAD, GOOD]
    assert last.remarks == []


def test_what_is_built_on_a_damaged_one_counts_as_little(machine: BackupHost) -> None:
    add_backup(machine.destination, GOOD, 1, uuid=UUID)
    for name in (FULL, FIRST, SECOND):
        add_backup(machine.destination, name, 2, uuid=UUID)
    flip(machine.destination / "web1" / FULL / "vda.qcow2")
    verify(machine)
    made = machine.made(keep=KEEP, merge_above=0)
    assert (made.removed, made.merged) == ([], [])
    assert set(damaged_in(made)) == {FULL, FIRST, SECOND}
    assert damaged_in(made)[SECOND].startswith(f"it is built on {FULL}, which is damaged: vda.qcow2 has another")
    (remark,) = made.remarks
    assert remark.startswith(f"backup {FULL} is damaged: ")
    # Nobody needs any of them any more.
    last = machine.made(keep=KEEP, merge_above=0)
    assert last.removed == [SECOND, FIRST, FULL, GOOD]


@pytest.mark.parametrize("file", ["vda.qcow2", ""])
def test_what_was_deleted_by_hand_is_seen_without_a_verification(machine: BackupHost, file: str) -> None:
    """A file, or all of the backup that others are built on."""
    add_backup(machine.destination, GOOD, 1, uuid=UUID)
    for name in (FULL, FIRST):
        add_backup(machine.destination, name, 2, uuid=UUID)
    folder = machine.destination / "web1" / FULL
    for path in [folder / file] if file else list(folder.iterdir()):
        path.unlink()
    if not file:
        folder.rmdir()
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    made = machine.made(keep=KEEP, merge_above=0)
    assert (foreseen.removed, made.removed, made.merged) == ([], [], [])
    assert FIRST in damaged_in(made)
    assert FIRST in damaged_in(foreseen)
    assert GOOD in ids(machine)


def test_what_is_built_on_a_damaged_one_is_not_damaged_itself(machine: BackupHost) -> None:
    """It is as good as ever when the file of the other one is there again."""
    for name in (FULL, FIRST, SECOND):
        add_backup(machine.destination, name, 2, uuid=UUID)
    path = machine.destination / "web1" / FIRST / "vda.qcow2"
    before = path.read_bytes()
    path.unlink()
    found = verify(machine)
    assert f"backup {SECOND} is built on {FIRST}, which is damaged" in str(found.error)
    assert list(list_backups(str(machine.destination), "web1").damaged) == [FIRST]
    assert set(damaged_in(found)) == {FIRST, SECOND}
    path.write_bytes(before)
    assert verify(machine).verified == [FULL, FIRST, SECOND]


def test_a_verification_that_finds_the_files_again_clears_it(machine: BackupHost) -> None:
    add_backup(machine.destination, GOOD, 1, uuid=UUID)
    add_backup(machine.destination, BAD, 2, uuid=UUID)
    path = machine.destination / "web1" / BAD / "vda.qcow2"
    before = flip(path)
    found = verify(machine)
    assert (found.verified, set(damaged_in(found))) == ([GOOD], {BAD})
    (listed,) = preview_verify(["web1"], machine.options)
    assert set(damaged_in(listed)) == {BAD}
    path.write_bytes(before)
    # Nobody has looked yet.
    assert set(damaged_in(shown(machine))) == {BAD}
    found = verify(machine)
    assert (found.error, found.verified, damaged_in(found)) == (None, [GOOD, BAD], {})
    assert not path.with_name(DAMAGED).exists()
    assert machine.made(keep=KEEP).removed == [GOOD]


def test_what_cannot_be_noted_is_said(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a share that is mounted read-only."""
    add_backup(machine.destination, GOOD, 1, uuid=UUID)
    path = machine.destination / "web1" / GOOD / "vda.qcow2"
    before = flip(path)

    def fail(*_arguments: t.Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(damage, "write_whole", fail)
        assert str(verify(machine).error) == (
            f"{path} has another content than when the backup was made, which cannot be noted beside it: Read-only "
            "file system. Make a full backup (kind: full, -e full=true in the playbook)"
        )
    verify(machine)
    path.write_bytes(before)
    monkeypatch.setattr(damage.os, "unlink", fail)
    found = verify(machine)
    assert (found.error, found.verified) == (None, [GOOD])
    (remark,) = found.remarks
    assert remark == (
        f"that backup {GOOD} was damaged stays noted, though it is whole: cannot remove {path.parent}/{DAMAGED}: "
        "Read-only file system"
    )


def test_a_file_that_cannot_be_opened_by_a_mishap_is_not_damaged(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_backup(machine.destination, GOOD, 1, uuid=UUID)

    def fail(*_arguments: t.Any) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as patch:
        patch.setattr("ansible_collections.brine.virt.plugins.module_utils._host.backup.verify.os.read", fail)
        assert isinstance(verify(machine).error, VirtError)
    assert damaged_in(shown(machine)) == {}


def test_what_a_merge_finds_damaged_is_remembered(machine: BackupHost) -> None:
    for name in (FULL, FIRST, SECOND):
        add_backup(machine.destination, name, 2, uuid=UUID)
    flip(machine.destination / "web1" / FIRST / "vda.qcow2")
    made = machine.made(keep=KEEP, merge_above=0)
    assert "has another content than when the backup was made. The next backup is a full one" in made.remarks[0]
    assert set(damaged_in(made)) == {FIRST, SECOND}
    assert len(made.remarks) == 1
