# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup that is built on an older one than before, or on none: the same content, whatever ends the run."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    HostError,
    InputError,
    NotFoundError,
    StoppedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.backup import directory, images, merge
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups, remove
from ansible_collections.brine.virt.plugins.module_utils._host.backup.merge import (
    end_merge,
    merge_backup,
    needed_bytes,
    require_free,
)
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    GO_ON,
    SECOND,
    add_backup,
    add_chain,
    guest_content,
    killed,
    recover,
    require_whole,
    run,
)

pytestmark = pytest.mark.medium

THIRD = "20261123T020000Z-incremental"
DISKS = ("vda", "vdb")
FOLDER = f".unfinished-merged-{SECOND}"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full backup and three that are built on it, of a machine with two disks."""
    path = tmp_path_factory.mktemp("chain")
    for number, name in enumerate((FULL, FIRST, SECOND, THIRD)):
        add_backup(path, name, number + 1, targets=DISKS)
    return path


@pytest.fixture
def chain(template: Path, tmp_path: Path) -> Path:
    """A copy of it: the directory with the backups of all machines."""
    shutil.copytree(template / "web1", tmp_path / "backup" / "web1")
    return tmp_path / "backup"


def contents(place: Path) -> dict[str, bytes]:
    found = sorted(path for path in place.glob("web1/2*/*.qcow2"))
    return {str(path.relative_to(place)): guest_content(path) for path in found}


def files(place: Path) -> dict[str, bytes]:
    """All files of the backups, by their content as it is in them."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.glob("web1/2*/*")}


def do(place: Path, name: str = SECOND, onto: str | None = None) -> Manifest:
    return merge_backup(list_backups(str(place), "web1"), name, onto, GO_ON)


def left(place: Path) -> list[str]:
    return sorted(os.listdir(place / "web1"))


def test_it_becomes_a_full_one_and_what_is_built_on_it_stays_valid(chain: Path) -> None:
    before = contents(chain)
    made = merge_backup(list_backups(str(chain), "web1"), SECOND, None, GO_ON)
    assert (made.kind, made.parent, [disk.backing for disk in made.disks]) == ("full", None, [None, None])
    found = list_backups(str(chain), "web1")
    assert found.by_id[SECOND] == made
    assert contents(chain) == before
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]
    for name in (FIRST, FULL):
        remove(found.path, name)
    require_whole(chain)
    assert contents(chain) == {name: data for name, data in before.items() if SECOND in name or THIRD in name}
    assert [one.id for one in list_backups(str(chain), "web1").chain(THIRD)] == [THIRD, SECOND]


def test_it_is_built_on_an_older_one_and_takes_what_is_between(chain: Path) -> None:
    before = contents(chain)
    made = do(chain, THIRD, FULL)
    assert (made.kind, made.parent, [disk.backing for disk in made.disks]) == ("incremental", FULL, [FULL, FULL])
    for name in (SECOND, FIRST):
        remove(str(chain / "web1"), name)
    require_whole(chain)
    assert contents(chain) == {name: data for name, data in before.items() if FULL in name or THIRD in name}


def test_one_after_the_other(chain: Path) -> None:
    before = contents(chain)
    do(chain, FIRST)
    do(chain, THIRD, FIRST)
    do(chain, THIRD)
    assert contents(chain) == before
    require_whole(chain)
    assert [one.parent for one in list_backups(str(chain), "web1").newest_first()] == [None, FIRST, None, None]


def test_what_stands_alone_beside_them_stays(tmp_path: Path) -> None:
    """As the seed, and the definition."""
    add_chain(tmp_path)
    home = tmp_path / "web1" / SECOND
    before = {path.name: path.stat().st_ino for path in home.iterdir()}
    do(tmp_path)
    after = {path.name: path.stat().st_ino for path in home.iterdir()}
    assert set(after) == set(before)
    assert after["domain.xml"] == before["domain.xml"]
    assert after["vda.qcow2"] != before["vda.qcow2"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in home.glob("*.qcow2"))


@pytest.mark.parametrize("onto", [None, FULL])
def test_killed_at_any_step_it_is_one_that_verifies_and_the_next_run_ends_it(
    template: Path, tmp_path: Path, onto: str | None
) -> None:
    before, number, halfway, again = contents(template), 0, 0, False
    while True:
        number += 1
        place = tmp_path / str(number)
        shutil.copytree(template / "web1", place / "web1")
        if not killed(number, lambda: do(place, SECOND, onto)):  # noqa: B023 - it is called at once
            break
        found = list_backups(str(place), "web1")
        halfway += bool(found.merging)
        if files(place) == files(template):
            recover(place)
            assert left(place) == [FULL, FIRST, SECOND, THIRD]
            if not again:
                do(place, SECOND, onto)
                again = True
            shutil.rmtree(place)
            continue
        # What was there can be restored, and nothing that it needs is thought to be of no use.
        assert sorted(found.by_id) == [FULL, FIRST, SECOND, THIRD]
        require_whole(place)
        recover(place)
        assert left(place) == [FULL, FIRST, SECOND, THIRD]
        assert list_backups(str(place), "web1").by_id[SECOND].parent == onto
        remove(str(place / "web1"), FIRST)
        require_whole(place)
        assert contents(place) == {name: data for name, data in before.items() if FIRST not in name}
        shutil.rmtree(place)
    # As many as there are, and some of them while the files take their places.
    assert number > 20
    assert halfway > 3


def test_a_recovery_that_is_killed_is_ended_by_the_next_one(template: Path, tmp_path: Path) -> None:
    before, number, begun = contents(template), 0, tmp_path / "begun"
    shutil.copytree(template / "web1", begun / "web1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_finish", fail)
        with pytest.raises(HostError):
            do(begun)
    assert left(begun)[0] == FOLDER
    assert list_backups(str(begun), "web1").unfinished == []
    while True:
        number += 1
        place = tmp_path / str(number)
        shutil.copytree(begun / "web1", place / "web1")
        if not killed(number, lambda: recover(place)):  # noqa: B023 - it is called at once
            break
        require_whole(place)
        recover(place)
        assert left(place) == [FULL, FIRST, SECOND, THIRD]
        assert list_backups(str(place), "web1").by_id[SECOND].kind == "full"
        require_whole(place)
        assert contents(place) == before
        shutil.rmtree(place)
    assert number > 10


def fail(*_arguments: t.Any, **_settings: t.Any) -> t.NoReturn:
    raise HostError("it fails")


def begin(place: Path) -> None:
    """A merge that has begun, with no new file in its place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_finish", fail)
        with pytest.raises(HostError, match="it fails"):
            do(place)
    assert list_backups(str(place), "web1").by_id[SECOND].merging


def test_new_files_that_are_gone_take_it_back_to_its_beginning(chain: Path) -> None:
    """As when another version of the collection has removed them."""
    before = list_backups(str(chain), "web1").by_id[SECOND]
    begin(chain)
    shutil.rmtree(chain / "web1" / FOLDER)
    require_whole(chain)
    recover(chain)
    assert list_backups(str(chain), "web1").by_id[SECOND] == before
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]
    require_whole(chain)


def test_a_new_file_that_is_damaged_is_not_taken(chain: Path) -> None:
    before = list_backups(str(chain), "web1").by_id[SECOND]
    begin(chain)
    with open(chain / "web1" / FOLDER / "vdb.qcow2", "r+b") as file:
        file.write(b"x")
    recover(chain)
    assert list_backups(str(chain), "web1").by_id[SECOND] == before
    require_whole(chain)


def test_what_is_left_of_a_new_file_that_is_in_its_place_is_not_taken(chain: Path) -> None:
    """As where a file system has brought a name back after a power cut, and not what was in it."""
    before = contents(chain)
    begin(chain)
    folder, home = chain / "web1" / FOLDER, chain / "web1" / SECOND
    os.rename(folder / "vda.qcow2", home / "vda.qcow2")
    (folder / "vda.qcow2").write_bytes(b"")
    recover(chain)
    assert list_backups(str(chain), "web1").by_id[SECOND].kind == "full"
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]
    require_whole(chain)
    assert contents(chain) == before


def test_what_can_go_neither_way_stays_and_can_be_restored(chain: Path) -> None:
    before = contents(chain)
    begin(chain)
    os.rename(chain / "web1" / FOLDER / "vda.qcow2", chain / "web1" / SECOND / "vda.qcow2")
    (chain / "web1" / FOLDER / "vdb.qcow2").unlink()
    found = list_backups(str(chain), "web1")
    with pytest.raises(HostError, match="are damaged or gone, so that it still needs what it was built on"):
        end_merge(found, found.by_id[SECOND], GO_ON)
    require_whole(chain)
    assert contents(chain) == before
    with pytest.raises(HostError, match="was interrupted, and cannot be ended"):
        do(chain)
    assert [one.id for one in list_backups(str(chain), "web1").chain(SECOND)] == [SECOND, FIRST, FULL]


def test_what_the_end_of_a_merge_needs_is_kept_for_one_that_cannot_be_read(chain: Path) -> None:
    begin(chain)
    manifest = chain / "web1" / SECOND / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"format": 2', '"format": 3'), encoding="utf-8")
    assert list_backups(str(chain), "web1").unfinished == []
    manifest.write_text(text, encoding="utf-8")
    recover(chain)
    assert list_backups(str(chain), "web1").by_id[SECOND].kind == "full"


def full_disk(*_arguments: t.Any, **_settings: t.Any) -> Answer:
    return Answer(1, b"", b"qemu-img: error while writing at byte 0: No space left on device")


@pytest.mark.parametrize("onto", [None, FULL])
def test_a_directory_that_fills_up_leaves_it_as_it_was(
    chain: Path, monkeypatch: pytest.MonkeyPatch, onto: str | None
) -> None:
    before = list_backups(str(chain), "web1")
    monkeypatch.setattr(images, "run_qemu_img", full_disk)
    with pytest.raises(HostError, match=r"is full, .* are free"):
        do(chain, SECOND, onto)
    assert list_backups(str(chain), "web1") == before
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]


def test_no_room_is_seen_beforehand(chain: Path) -> None:
    found = list_backups(str(chain), "web1")
    whole, part = (needed_bytes(found, found.chain(THIRD), onto) for onto in (None, SECOND))
    assert 0 < part < whole
    require_free("x", str(chain), whole)
    with pytest.raises(HostError, match="cannot merge it: .* is full"):
        require_free("cannot merge it", str(chain), whole, whole - 1)
    with pytest.raises(HostError, match="cannot inspect"):
        require_free("x", str(chain / "gone"), 1)


def test_what_reads_otherwise_is_not_taken(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_backups(str(chain), "web1")
    whole = images.convert

    def convert(source: str, image_format: str, target: str, *more: t.Any) -> None:
        whole(source, image_format, target, *more)
        run("qemu-io", "-f", "qcow2", "-c", "write -P 9 0 512", target)

    monkeypatch.setattr(images, "convert", convert)
    with pytest.raises(HostError, match=r"vda.qcow2 does not read as .*vda.qcow2, which it was made of"):
        do(chain)
    assert list_backups(str(chain), "web1") == before
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("call", "number", "words"),
    [
        ("rename", errno.EIO, f"cannot merge backup {SECOND} in .*: Input/output error"),
        ("rename", errno.ENOSPC, f"cannot merge backup {SECOND} in .*: .* is full"),
        ("mkdir", errno.EROFS, f"cannot merge backup {SECOND} in .*: Read-only file system"),
    ],
)
def test_an_error_of_the_system_is_one_sentence(
    chain: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, words: str
) -> None:
    def refuse(*_what: t.Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(HostError, match=words):
            do(chain)
    require_whole(chain)
    recover(chain)
    assert left(chain) == [FULL, FIRST, SECOND, THIRD]
    require_whole(chain)


def test_a_run_that_is_told_to_stop_leaves_it_as_it_was(chain: Path) -> None:
    before = list_backups(str(chain), "web1")
    stop = threading.Event()
    stop.set()
    for onto in (None, FULL):
        with pytest.raises(StoppedError):
            merge_backup(before, SECOND, onto, stop)
        assert list_backups(str(chain), "web1") == before
        assert left(chain) == [FULL, FIRST, SECOND, THIRD]


def test_what_cannot_be_merged_is_not(chain: Path) -> None:
    with pytest.raises(InputError, match=f"is not built on {THIRD}"):
        do(chain, SECOND, THIRD)
    (chain / "web1" / FIRST / "vdb.qcow2").unlink()
    with pytest.raises(HostError, match="No such file"):
        do(chain)
    directory.remove(str(chain / "web1"), FIRST)
    with pytest.raises(NotFoundError, match=f"needs {FIRST}"):
        do(chain)
    assert left(chain) == [FULL, SECOND, THIRD]


def test_a_link_in_its_place_is_not_followed(chain: Path) -> None:
    target = chain / "victim"
    target.write_bytes(b"precious")
    (chain / "web1" / FOLDER).mkdir()
    (chain / "web1" / FOLDER / "vda.qcow2").symlink_to(target)
    with pytest.raises(VirtError, match="File exists"):
        do(chain)
    assert target.read_bytes() == b"precious"
    assert (chain / "web1" / FOLDER / "vda.qcow2").is_symlink()
