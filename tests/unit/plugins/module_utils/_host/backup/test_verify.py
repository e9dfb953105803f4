# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading backups back: each kind of damage is found and named."""

from __future__ import annotations

import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import qemu_img
from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, StoppedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import verify
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import foreign_in, list_backups, remove
from ansible_collections.brine.virt.plugins.module_utils._host.backup.merge import merge_backup
from ansible_collections.brine.virt.plugins.module_utils._model.backup.damage import DAMAGED
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    GO_ON,
    SECOND,
    SIZE,
    add_chain,
    run,
    write,
)

pytestmark = pytest.mark.medium


def test_a_whole_chain_is_whole(tmp_path: Path) -> None:
    add_chain(tmp_path)
    found = list_backups(str(tmp_path), "web1")
    read: list[int] = []
    verify.verify_chain(found, found.chain(SECOND), GO_ON, read.append)
    assert sum(read) == sum(one.total_bytes for one in found.by_id.values())
    assert verify.problem_of(found, found.by_id[SECOND]) is None


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def rebase(path: Path, *words: str) -> None:
    run("qemu-img", "rebase", "-u", "-f", "qcow2", *words, str(path))


@pytest.mark.parametrize(
    ("damage", "words", "seen"),
    [
        (flip, "has another content", False),
        (lambda path: path.write_bytes(path.read_bytes()[:-512]), "bytes, not", True),
        (lambda path: path.unlink(), "No such file", True),
        (lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")), "cannot be read|cannot read", True),
    ],
)
def test_damage_is_found(tmp_path: Path, damage: t.Callable[[Path], t.Any], words: str, seen: bool) -> None:
    add_chain(tmp_path)
    damage(tmp_path / "web1" / FIRST / "vda.qcow2")
    found = list_backups(str(tmp_path), "web1")
    # What can be seen without reading everything keeps the next backup from being built on it.
    assert (verify.problem_of(found, found.by_id[SECOND]) is not None) == seen
    with pytest.raises(HostError, match=words):
        verify.verify_chain(found, found.chain(SECOND), GO_ON)
    # And so does what was found by reading it.
    found = list_backups(str(tmp_path), "web1")
    assert list(found.damaged) == [FIRST]
    assert str(verify.problem_of(found, found.by_id[SECOND])).startswith(f"it is built on {FIRST}, which is damaged: ")
    assert verify.problem_of(found, found.by_id[FULL]) is None
    # To an earlier version, it is nothing of somebody's.
    assert foreign_in(found.path_of(FIRST), found.by_id[FIRST].files) in (
        None,
        "it has a file x in it, which is not of the backup",
    )


def test_one_that_has_gone_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    add_chain(tmp_path)
    found = list_backups(str(tmp_path), "web1")
    remove(found.path, SECOND, found.by_id[SECOND].files)
    (tmp_path / "web1" / FULL / "domain.xml").unlink()
    verify.look_for_damage(found)
    assert found.damaged == {FULL: "domain.xml: No such file or directory"}
    assert found.damage_of(FIRST) == f"it is built on {FULL}, which is damaged: domain.xml: No such file or directory"


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 100000], ids=["empty", "JSON", "zeros"])
def test_a_note_of_damage_counts_whatever_is_in_it(tmp_path: Path, content: bytes) -> None:
    add_chain(tmp_path)
    path = tmp_path / "web1" / FIRST / DAMAGED
    path.write_bytes(content)
    found = list_backups(str(tmp_path), "web1")
    assert found.damaged == {FIRST: "it was found damaged"}
    # When it was all read again, it goes; and so it does with the backup.
    verify.verify_chain(found, found.chain(SECOND), GO_ON, files={"vda.qcow2"})
    assert path.exists()
    verify.verify_chain(found, found.chain(SECOND), GO_ON)
    assert not path.exists()
    assert found.damaged == {}
    path.write_bytes(content)
    remove(found.path, FIRST, found.by_id[FIRST].files)
    assert not path.parent.exists()
    assert list_backups(str(tmp_path), "web1").unfinished == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: rebase(path, "-F", "qcow2", "-b", "/etc/passwd"), "is backed by"),
        (lambda path: rebase(path, "-F", "raw", "-b", "../x/vda.qcow2"), "is backed by"),
        (lambda path: rebase(path, "-b", ""), "is backed by nothing"),
        (lambda path: run("qemu-img", "resize", "-q", "-f", "qcow2", str(path), "8M"), "is a disk of 8388608 bytes"),
        (lambda path: path.write_bytes(b"\0" * 4096), "is not a qcow2 image"),
        (
            lambda path: run(
                *("qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={path}.raw", str(path), str(SIZE))
            ),
            "is backed by",
        ),
    ],
)
def test_an_image_leads_to_its_parent_alone(tmp_path: Path, make: t.Callable[[Path], t.Any], words: str) -> None:
    *_earlier, second = add_chain(tmp_path)
    path = tmp_path / "web1" / SECOND / "vda.qcow2"
    make(path)
    with pytest.raises(HostError, match=words):
        verify.check_image(str(path.parent), second.disks[0])


def test_a_damaged_structure_is_found(tmp_path: Path) -> None:
    *_earlier, second = add_chain(tmp_path)
    path = tmp_path / "web1" / SECOND / "vda.qcow2"
    content = bytearray(path.read_bytes())
    # The reference counts, which begin in the second cluster.
    content[65536:131072] = b"\xff" * 65536
    path.write_bytes(content)
    with pytest.raises(HostError, match="is damaged|cannot be checked"):
        verify.check_image(str(path.parent), second.disks[0])


def test_who_stops_waiting_ends_it(tmp_path: Path) -> None:
    add_chain(tmp_path)
    stop = threading.Event()
    stop.set()
    found = list_backups(str(tmp_path), "web1")
    with pytest.raises(StoppedError):
        verify.verify_chain(found, found.chain(SECOND), stop)


def test_what_a_guest_wrote_later_is_not_in_it(tmp_path: Path) -> None:
    """The checksum is of the file as it was when the backup was made."""
    add_chain(tmp_path)
    write(tmp_path / "web1" / SECOND / "vda.qcow2", 0, 65536, 99)
    found = list_backups(str(tmp_path), "web1")
    with pytest.raises(HostError, match="vda.qcow2"):
        verify.verify_backup(found, found.by_id[SECOND], GO_ON)


@pytest.mark.parametrize("merged", [True, False])
def test_a_backup_that_another_run_has_changed_since_it_was_listed_is_not_damaged(tmp_path: Path, merged: bool) -> None:
    """Whoever reads may have no lock, or may have waited for it."""
    add_chain(tmp_path)
    before = list_backups(str(tmp_path), "web1")
    chain = before.chain(SECOND)
    if merged:
        merge_backup(list_backups(str(tmp_path), "web1"), SECOND, None, GO_ON)
    for name in (FIRST, FULL) if merged else (SECOND, FIRST):
        remove(before.path, name, before.by_id[name].files)
    with pytest.raises(VirtError, match="have changed meanwhile" if merged else "No such file"):
        verify.verify_chain(before, chain, GO_ON)
    now = list_backups(str(tmp_path), "web1")
    assert not now.damaged
    for left in now.by_id.values():
        verify.verify_backup(now, left, GO_ON)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(-9, b"", b""), "cannot be checked: qemu-img check ended with status -9"),
        (Answer(1, b"", b"no memory\n"), "cannot be checked: no memory"),
    ],
)
def test_a_check_that_did_not_come_to_its_end_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str
) -> None:
    """The checksum is right, so that it is what it was when the backup was made."""
    add_chain(tmp_path)
    found = list_backups(str(tmp_path), "web1")
    monkeypatch.setattr(qemu_img, "run_qemu_img", lambda *_words, **_settings: answer)
    with pytest.raises(HostError, match=words):
        verify.verify_chain(found, found.chain(SECOND), GO_ON)
    assert not list_backups(str(tmp_path), "web1").damaged
