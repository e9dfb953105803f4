# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a machine's backups: what has the name of a backup is whole; what is not is removed by proof."""

from __future__ import annotations

import errno
import functools
import os
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import files
from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.backup import directory
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import (
    MARKER,
    begin,
    list_backups,
    locked,
    locked_to_read,
    remove,
    require_destination,
    require_writable,
)
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    SECOND,
    SIZE,
    add_backup,
    add_chain,
    run,
)

pytestmark = pytest.mark.medium

LATER = "20261123T020000Z-full"


def test_backups_are_listed_with_those_that_they_need(tmp_path: Path) -> None:
    full, first, second = add_chain(tmp_path)
    found = list_backups(str(tmp_path), "web1")
    assert found.newest_first() == [second, first, full]
    assert found.chain(SECOND) == [second, first, full]
    assert not found.broken
    assert not found.unfinished
    assert list_backups(str(tmp_path), "web2").by_id == {}


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    add_chain(tmp_path)
    remove(str(tmp_path / "web1"), FIRST)
    with pytest.raises(NotFoundError, match=f"backup {SECOND} needs {FIRST}, which is not in"):
        list_backups(str(tmp_path), "web1").chain(SECOND)
    with pytest.raises(NotFoundError, match=f"there is no backup {LATER}"):
        list_backups(str(tmp_path), "web1").chain(LATER)


def test_a_chain_is_of_one_machine(tmp_path: Path) -> None:
    add_backup(tmp_path, FULL, 1)
    add_backup(tmp_path, FIRST, 2, uuid="11111111-1d52-4f1f-9a1c-7b2f5a3d6e10")
    with pytest.raises(InputError, match="built on one of another machine"):
        list_backups(str(tmp_path), "web1").chain(FIRST)


def test_what_is_being_written_is_no_backup_and_is_removed_by_its_marker(tmp_path: Path) -> None:
    add_chain(tmp_path)
    path = tmp_path / "web1"
    partial = Path(begin(str(path), LATER))
    (partial / "vda.qcow2").write_bytes(b"half")
    (path / ".unfinished-of-somebody").mkdir()
    (path / ".unfinished-of-somebody" / "data").write_bytes(b"precious")
    found = list_backups(str(path.parent), "web1")
    assert found.unfinished == [partial.name]
    assert LATER not in found.by_id
    remove(str(path), partial.name)
    assert not partial.exists()
    assert (path / ".unfinished-of-somebody" / "data").exists()


def test_a_beginning_that_is_killed_is_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the directory and its marker there is the draft of the marker."""
    (tmp_path / "web1").mkdir()
    for name, call in ((FULL, "replace"), (LATER, "fchmod")):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, call, lambda *_what: os._exit(9))
            child = os.fork()
            if child == 0:
                begin(str(tmp_path / "web1"), name)
            assert os.waitpid(child, 0)[1] != 0
    found = list_backups(str(tmp_path), "web1")
    assert found.unfinished == [f".unfinished-{FULL}", f".unfinished-{LATER}"]
    for name in found.unfinished:
        remove(found.path, name)
    assert os.listdir(found.path) == []


@pytest.mark.parametrize("call", ["unlink", "rename", "rmdir"])
def test_a_removal_that_is_killed_leaves_a_backup_or_what_is_known_as_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    add_chain(tmp_path)
    path, whole = str(tmp_path / "web1"), getattr(os, call)
    calls: list[t.Any] = []

    def kill(*arguments: t.Any) -> None:
        calls.append(arguments)
        if len(calls) > 1 or call != "unlink":
            raise KeyboardInterrupt
        whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(directory.os, call, kill)
        with pytest.raises(KeyboardInterrupt):
            remove(path, SECOND)
    found = list_backups(str(tmp_path), "web1")
    assert (SECOND in found.by_id) != (found.unfinished == [f".unfinished-{SECOND}"])
    for name in [*found.unfinished, *([SECOND] if SECOND in found.by_id else [])]:
        remove(path, name)
    after = list_backups(str(tmp_path), "web1")
    assert (list(after.by_id), after.unfinished, after.broken) == ([FULL, FIRST], [], {})


def test_a_completion_that_is_killed_before_the_rename_is_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_arguments: t.Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(directory.os, "rename", kill)
        with pytest.raises(KeyboardInterrupt):
            add_backup(tmp_path, FULL, 1)
    partial = tmp_path / "web1" / f".unfinished-{FULL}"
    assert not (partial / MARKER).exists()
    assert list_backups(str(tmp_path), "web1").unfinished == [partial.name]


def test_a_backup_with_a_directory_of_somebody_in_it_stays(tmp_path: Path) -> None:
    add_chain(tmp_path)
    (tmp_path / "web1" / SECOND / "mine").mkdir()
    with pytest.raises(HostError, match="is kept: it has a directory mine in it"):
        remove(str(tmp_path / "web1"), SECOND)
    assert SECOND in list_backups(str(tmp_path), "web1").by_id


def test_where_there_is_no_room_left_a_backup_can_still_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or there would never be any."""

    def full(*_what: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = add_chain(tmp_path)[-1]
    monkeypatch.setattr(directory, "write_whole", full)
    remove(str(tmp_path / "web1"), SECOND, made.files)
    assert sorted(os.listdir(tmp_path / "web1")) == [FULL, FIRST]


def test_a_backup_with_a_file_of_somebody_in_it_stays(tmp_path: Path) -> None:
    """As what somebody has converted by hand in there."""
    made = add_chain(tmp_path)[-1]
    home = tmp_path / "web1" / SECOND
    (home / "vda.raw").write_bytes(b"precious")
    with pytest.raises(HostError, match="is kept: it has a file vda.raw in it, which is not of the backup"):
        remove(str(tmp_path / "web1"), SECOND, made.files)
    assert SECOND in list_backups(str(tmp_path), "web1").by_id
    (home / "vda.raw").rename(home / ".nfs0000000000000001")
    remove(str(tmp_path / "web1"), SECOND, made.files)
    assert not home.exists()


def test_a_disk_is_built_on_one_that_is_in_a_manifest(tmp_path: Path) -> None:
    """What is not may lead anywhere, and nobody would have read it back."""
    add_backup(tmp_path, FULL, 1)
    add_backup(tmp_path, FIRST, 2)
    stranger = tmp_path / "web1" / FIRST / "vdb.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", str(stranger), str(SIZE))
    add_backup(tmp_path, SECOND, 3, targets=("vda", "vdb"))
    found = list_backups(str(tmp_path), "web1")
    assert [one.id for one in found.chain(FIRST)] == [FIRST, FULL]
    with pytest.raises(InputError, match=f"disk vdb of backup {SECOND} in .* is built on vdb.qcow2 of {FIRST}, which"):
        found.chain(SECOND)


def test_what_goes_while_they_are_listed_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chain(tmp_path)
    whole = directory.load_manifest

    def load(path: str, name: str, owner: int | None = None) -> Manifest:
        if name == FULL:
            for one in (SECOND, FIRST):
                remove(path, one)
        return whole(path, name, owner)

    monkeypatch.setattr(directory, "load_manifest", load)
    found = list_backups(str(tmp_path), "web1")
    assert (list(found.by_id), found.broken) == ([FULL], {})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda at: (at / "manifest.json").unlink(), "No such file"),
        (lambda at: (at / "manifest.json").write_bytes(b"\xff"), "not UTF-8"),
        (lambda at: (at / "manifest.json").write_bytes(b"{}" * 3 * 1024 * 1024), "too long"),
        (lambda at: (at / "manifest.json").write_text("{}"), "format None"),
        (lambda at: ((at / "manifest.json").unlink(), (at / "manifest.json").symlink_to("/etc/passwd")), "symbolic"),
        (lambda at: (at.rename(at.parent / "elsewhere"), at.symlink_to(at.parent / "elsewhere")), "not a directory"),
    ],
)
def test_what_cannot_be_read_as_a_backup_is_named_and_stays(
    tmp_path: Path, damage: t.Callable[[Path], t.Any], words: str
) -> None:
    add_chain(tmp_path)
    damage(tmp_path / "web1" / FIRST)
    found = list_backups(str(tmp_path), "web1")
    assert list(found.by_id) == [FULL, SECOND]
    assert words in str(found.broken[FIRST])
    with pytest.raises(VirtError, match=words):
        found.chain(SECOND)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        locked(str(tmp_path), "web1", 0),
        pytest.raises(ConflictError, match="another run"),
        locked(str(tmp_path), "web1", 0),
    ):
        pass
    assert list_backups(str(tmp_path), "web1").by_id == {}


def test_who_reads_keeps_writers_out_and_nobody_who_reads(tmp_path: Path) -> None:
    place = str(tmp_path)
    add_chain(tmp_path)
    reading = functools.partial(locked_to_read, place, "web1", 0)
    with reading(), reading(), pytest.raises(ConflictError, match="another run"), locked(place, "web1", 0):
        pass
    with locked(place, "web1", 0), pytest.raises(ConflictError, match="another run"), reading():
        pass


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOLCK])
def test_a_directory_that_can_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    add_chain(tmp_path)
    before = sorted(os.listdir(tmp_path / "web1"))

    def refuse(*_what: t.Any, **_settings: t.Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "open", refuse)
    with locked_to_read(str(tmp_path), "web1", 0):
        assert sorted(os.listdir(tmp_path / "web1")) == before
    monkeypatch.undo()
    with pytest.raises(HostError, match="cannot read"), locked_to_read(str(tmp_path), "db1", 0):
        pass
    assert not (tmp_path / "db1").exists()


def test_a_directory_that_leads_elsewhere_or_is_everybodys_is_refused(tmp_path: Path) -> None:
    (tmp_path / "web1").symlink_to("/etc")
    (tmp_path / "web2").mkdir()
    (tmp_path / "web2").chmod(0o777)
    not_one = "is not a directory, so there are no backups in it. Choose"
    for name, words in (("web1", not_one), ("web2", "can be written to by everybody")):
        with pytest.raises(HostError, match=words):
            list_backups(str(tmp_path), name)
        with pytest.raises(HostError, match=words), locked(str(tmp_path), name, 0):
            pass


def test_the_destination(tmp_path: Path) -> None:
    require_destination(str(tmp_path), "dest")
    with pytest.raises(InputError, match="dest: 'srv' is not an absolute path"):
        require_destination("srv", "dest")
    with pytest.raises(NotFoundError, match="is not created here"):
        require_destination(str(tmp_path / "typo"), "dest")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a directory"):
        require_destination(str(tmp_path / "file"), "dest")


def test_what_has_to_be_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share that is not mounted leaves an empty directory, on whatever file system the one above it is."""
    share, other = tmp_path / "share", tmp_path / "other"
    (share / "backup").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(share)
    inside = str(share / "backup")
    mounted = {"/", "/tmp", "/mnt", str(tmp_path)}
    # As if tmp_path were a file system of its own.
    monkeypatch.setattr(directory.os.path, "ismount", lambda path: path in mounted)
    whole = os.stat
    monkeypatch.setattr(
        directory.os, "stat", lambda path, **how: SimpleNamespace(st_dev=-1) if path == "/" else whole(path, **how)
    )
    leave = "leave out must_be_mounted (virt_backup_must_be_mounted in the playbook)"
    with pytest.raises(ConflictError) as caught:
        require_destination(inside, "dest", mounted="")
    assert str(caught.value) == (
        f"dest: {inside} is no mount point, and is on the file system of {tmp_path}. Mount it, or, if {tmp_path} is "
        f"what has to be mounted, set must_be_mounted: {tmp_path}, or {leave}"
    )
    for path in (str(share), str(tmp_path / "link")):
        with pytest.raises(ConflictError, match=f"dest: {path} is no mount point, and is on the file system of"):
            require_destination(inside, "dest", mounted=path)
    mounted.add(str(share))
    for path in (str(share), str(tmp_path / "link"), str(tmp_path)):
        require_destination(inside, "dest", mounted=path)
    require_destination(str(share), "dest", mounted="")
    with pytest.raises(InputError, match=f"^must_be_mounted: {inside} is not in {other}. Name a directory above it"):
        require_destination(inside, "dest", mounted=str(other))


def test_root_is_nothing_that_was_mounted() -> None:
    for mounted in ("", "/"):
        with pytest.raises(ConflictError) as caught:
            require_destination("/", "dest", mounted=mounted)
        assert str(caught.value).startswith("dest: / is on the file system of /. Mount a share there, or leave out")


@pytest.mark.parametrize(("flags", "words"), [(os.ST_RDONLY, "Read-only file system"), (0, "Permission denied")])
def test_what_cannot_be_written_is_seen_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, words: str
) -> None:
    require_writable(str(tmp_path), "web1")
    monkeypatch.setattr(directory.os, "access", lambda *_what: False)
    monkeypatch.setattr(directory.os, "statvfs", lambda _path: SimpleNamespace(f_flag=flags))
    for _there in (False, True):
        with pytest.raises(HostError, match=f"^cannot write to {tmp_path}/web1: {words}"):
            require_writable(str(tmp_path), "web1")
        (tmp_path / "web1").mkdir(exist_ok=True)
