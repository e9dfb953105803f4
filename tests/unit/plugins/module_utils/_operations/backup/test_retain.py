# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run removes and merges after its backup; what keeps it from that is a remark, and nothing is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, StoppedError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import directory, merge, verify
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import Backups, list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile, ProgressMeter
from ansible_collections.brine.virt.plugins.module_utils._host.storage.disk_lock import first_open
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import Manifest
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import kept, machines, retain
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.machines import preview, verify_all
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.result import BackupResult
from ansible_collections.brine.virt.plugins.modules.virt_backup import as_diff
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FIRST,
    FULL,
    SECOND,
    add_backup,
    guest_content,
    require_whole,
    run,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    UUID,
    BackupHost,
)

pytestmark = pytest.mark.medium

# The new one, and the newest of the chain.
KEEP = Keep({"last": 2})
OLDER = "20261119T020000Z-full"
MERGED = f"merge backup {SECOND} of web1 with those that it is built on, into a full one"


def add_chain(machine: BackupHost) -> None:
    for number, name in enumerate((FULL, FIRST, SECOND)):
        add_backup(machine.destination, name, number + 1, uuid=UUID)


def ids(machine: BackupHost) -> list[str]:
    return sorted(list_backups(str(machine.destination), "web1").by_id)


def shown(machine: BackupHost, **options: t.Any) -> BackupResult:
    (result,) = preview(machine.conn, ["web1"], dataclasses.replace(machine.options, **options))
    assert result.error is None, str(result.error)
    return result


def same_in_check_mode(before: BackupResult, made: BackupResult) -> None:
    assert made.made is not None
    assert (before.merged, before.removed) == (made.merged, made.removed)
    assert [one.replace(f": {made.made.id}", "") for one in made.actions] == before.actions
    assert as_diff(before.as_result()) == as_diff(made.as_result())


def test_the_oldest_kept_one_becomes_whole_and_the_others_go(machine: BackupHost) -> None:
    add_chain(machine)
    image = machine.destination / "web1" / SECOND / "vda.qcow2"
    before = guest_content(image)
    foreseen = shown(machine, keep=KEEP, merge_above=1)
    assert ids(machine) == [FULL, FIRST, SECOND]
    result = machine.made(keep=KEEP, merge_above=1)
    assert result.made is not None
    assert (result.merged, result.removed) == ([SECOND], [FIRST, FULL])
    assert result.actions[1:] == [MERGED, f"remove backup {FIRST} of web1", f"remove backup {FULL} of web1"]
    same_in_check_mode(foreseen, result)
    assert as_diff(result.as_result())["after"].endswith(f"merged:\n- {SECOND}\n")
    assert result.as_result()["merged"] == [SECOND]
    assert ids(machine) == [SECOND, result.made.id]
    require_whole(machine.destination)
    assert guest_content(image) == before
    entry = result.as_result()["backups"][1]
    assert (entry["id"], entry["kind"], entry["parent"]) == (SECOND, "full", None)
    # The next run has nothing to do.
    again = machine.made(keep=Keep({"last": 3}), merge_above=0)
    assert (again.merged, again.removed, len(again.actions)) == ([], [], 1)


@pytest.mark.parametrize("options", [{}, {"merge_above": 2}, {"full_every": 3}])
def test_while_no_more_are_there_than_may_be_nothing_is_touched(machine: BackupHost, options: dict[str, int]) -> None:
    add_chain(machine)
    files = {path: path.read_bytes() for path in (machine.destination / "web1").glob("2*/*")}
    assert shown(machine, keep=KEEP, **options).merged == []
    result = machine.made(keep=KEEP, **options)
    assert (result.merged, result.removed, result.remarks) == ([], [], [])
    assert {path: path.read_bytes() for path in files} == files


def test_what_is_kept_between_is_built_on_what_is_kept_before(machine: BackupHost) -> None:
    days = ["full", *["incremental"] * 9]
    names = [f"202611{number + 9:02}T020000Z-{kind}" for number, kind in enumerate(days)]
    for number, name in enumerate(names):
        add_backup(machine.destination, name, number + 1, uuid=UUID)
    before = {name: guest_content(machine.destination / "web1" / name / "vda.qcow2") for name in names}
    keep = Keep({"weekly": 3, "last": 2})
    foreseen = shown(machine, keep=keep, merge_above=0)
    result = machine.made(keep=keep, merge_above=0)
    # From Monday, the 9th, to the Wednesday of the next week.
    assert (result.merged, result.remarks) == ([names[6], names[9]], [])
    same_in_check_mode(foreseen, result)
    assert ids(machine)[:2] == [names[6], names[9]]
    found = list_backups(str(machine.destination), "web1").by_id
    assert (found[names[6]].parent, found[names[9]].parent) == (None, names[6])
    require_whole(machine.destination)
    for name in (names[6], names[9]):
        assert guest_content(machine.destination / "web1" / name / "vda.qcow2") == before[name]


def test_without_room_nothing_is_merged_and_the_backup_is_made(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_chain(machine)
    monkeypatch.setattr(retain, "free_in", lambda _path: 0)
    monkeypatch.setattr(merge, "free_in", lambda _path: 0)
    words = f"backups that are not to be kept stay: cannot merge backup {SECOND} with those that it is built on: "
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    result = machine.made(keep=KEEP, merge_above=0)
    for one in (foreseen, result):
        (remark,) = one.remarks
        assert remark.startswith(words)
        assert "is full" in remark
        assert (one.merged, one.removed) == ([], [])
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]
    require_whole(machine.destination)


def test_what_runs_full_on_the_way_leaves_all_of_them(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chain(machine)

    def fail(*_arguments: t.Any, **_settings: t.Any) -> None:
        raise merge.images.full("cannot copy x", str(machine.destination))

    made = machine.made().made
    with monkeypatch.context() as patch:
        patch.setattr(merge, "_new_form", fail)
        result = BackupResult("web1")
        options = dataclasses.replace(machine.options, keep=KEEP, merge_above=0)
        retain.retain(machine.conn, result, UUID, options, threading.Event(), ProgressMeter(lambda _line: None, "web1"))
    (remark,) = result.remarks
    assert "cannot copy x: " in remark
    assert "is full" in remark
    assert made is not None
    assert ids(machine) == [FULL, FIRST, SECOND, made.id]
    assert list_backups(str(machine.destination), "web1").unfinished == []
    require_whole(machine.destination)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", [FULL, FIRST, SECOND])
def test_of_a_damaged_chain_nothing_is_merged_and_nothing_goes(machine: BackupHost, name: str) -> None:
    add_chain(machine)
    flip(machine.destination / "web1" / name / "vda.qcow2")
    files = {path: path.read_bytes() for path in (machine.destination / "web1").glob("2*/*")}
    result = machine.made(keep=KEEP, merge_above=0)
    (remark,) = result.remarks
    assert (
        f"/{name}/vda.qcow2 has another content than when the backup was made. The next backup is a full one" in remark
    )
    assert (result.merged, result.removed) == ([], [])
    assert {path: path.read_bytes() for path in files} == files


def test_what_one_that_cannot_be_read_may_be_built_on_is_not_merged_away(machine: BackupHost) -> None:
    add_chain(machine)
    unread = machine.destination / "web1" / "20261121T030000Z-incremental"
    unread.mkdir()
    result = machine.made(keep=KEEP, merge_above=0)
    assert (result.merged, result.removed) == ([], [])
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]


def test_nothing_goes_when_what_was_merged_does_not_look_right(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_chain(machine)
    whole = retain.merge_backup

    def merge_badly(*arguments: t.Any) -> t.Any:
        made = whole(*arguments)
        (machine.destination / "web1" / SECOND / "vda.qcow2").write_bytes(b"")
        return made

    monkeypatch.setattr(retain, "merge_backup", merge_badly)
    result = machine.made(keep=KEEP, merge_above=0)
    assert "has 0 bytes" in result.remarks[0]
    assert result.removed == []
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]


def test_each_is_read_back_once_in_a_run(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    days = ["full", *["incremental"] * 9]
    names = [f"202611{number + 9:02}T020000Z-{kind}" for number, kind in enumerate(days)]
    for number, name in enumerate(names):
        add_backup(machine.destination, name, number + 1, uuid=UUID)
    read: list[str] = []
    whole = verify.verify_backup

    def count(found: Backups, one: Manifest, *more: t.Any, **settings: t.Any) -> None:
        read.append(one.id)
        whole(found, one, *more, **settings)

    monkeypatch.setattr(verify, "verify_backup", count)
    machine.made(keep=Keep({"weekly": 3, "last": 2}), merge_above=0)
    assert sorted(read) == names


def interrupt(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: t.Any) -> None:
        raise HostError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(merge, "_finish", fail)
        merging = list_backups(str(machine.destination), "web1")
        with pytest.raises(HostError):
            merge.merge_backup(merging, SECOND, None, threading.Event())


def test_the_next_run_ends_an_interrupted_merge(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chain(machine)
    interrupt(machine, monkeypatch)
    (verified,) = verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))
    assert (sorted(verified.verified), verified.error) == ([FULL, FIRST, SECOND], None)
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    assert list_backups(str(machine.destination), "web1").merging
    result = machine.made(keep=KEEP, merge_above=0)
    assert result.actions[0] == f"end the interrupted merge of backup {SECOND} of web1"
    same_in_check_mode(foreseen, result)
    # As it is a full one then, the others can go without another merge.
    assert (result.merged, result.removed) == ([], [FIRST, FULL])
    require_whole(machine.destination)
    assert not list_backups(str(machine.destination), "web1").unfinished


def test_one_with_a_file_of_somebody_in_it_stays_with_those_that_it_needs(machine: BackupHost) -> None:
    add_chain(machine)
    (machine.destination / "web1" / FIRST / "vda.raw").write_bytes(b"precious")
    result = machine.made(keep=Keep({"last": 1}))
    assert result.removed == [SECOND]
    (remark,) = result.as_result()["remarks"]
    assert f"/{FIRST}, with all that it is built on, is kept: it has a file vda.raw in it" in remark
    assert ids(machine)[:2] == [FULL, FIRST]


def test_one_with_a_file_of_somebody_in_it_keeps_no_others(machine: BackupHost) -> None:
    """OLDER is whole, before and after a chain in which a file was put."""
    add_backup(machine.destination, OLDER, 4, uuid=UUID)
    add_chain(machine)
    (machine.destination / "web1" / FIRST / "vda.raw").write_bytes(b"precious")
    foreseen = shown(machine, keep=Keep({"last": 1}))
    result = machine.made(keep=Keep({"last": 1}))
    assert result.removed == [SECOND, OLDER]
    same_in_check_mode(foreseen, result)
    assert foreseen.as_result()["remarks"] == result.as_result()["remarks"]
    assert ids(machine)[:2] == [FULL, FIRST]
    require_whole(machine.destination)


def test_what_a_file_of_somebody_keeps_is_left_when_the_others_are_merged(machine: BackupHost) -> None:
    add_chain(machine)
    (machine.destination / "web1" / FULL / "vda.raw").write_bytes(b"precious")
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    result = machine.made(keep=KEEP, merge_above=0)
    assert (result.merged, result.removed) == ([SECOND], [FIRST])
    same_in_check_mode(foreseen, result)
    assert ids(machine)[:2] == [FULL, SECOND]


def test_nothing_is_merged_for_what_stays_all_the_same(machine: BackupHost) -> None:
    add_chain(machine)
    (machine.destination / "web1" / FIRST / "vda.raw").write_bytes(b"precious")
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    result = machine.made(keep=KEEP, merge_above=0)
    assert (result.merged, result.removed) == ([], [])
    same_in_check_mode(foreseen, result)
    (remark,) = result.as_result()["remarks"]
    assert f"/{FIRST}, with all that it is built on, is kept: it has a file vda.raw in it" in remark


def use_image(machine: BackupHost, name: str) -> None:
    """Somebody has a machine other of a file of this backup."""
    machine.define_other(str(machine.destination / "web1" / name / "vda.qcow2"))


def use_overlay(machine: BackupHost, name: str) -> None:
    """The same through an overlay, which is in no pool either."""
    overlay, backing = machine.destination.parent / "other.qcow2", machine.destination / "web1" / name / "vda.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(backing), str(overlay))
    machine.define_other(str(overlay))


@pytest.mark.parametrize("use", [use_image, use_overlay])
def test_what_a_machine_uses_stays_and_the_result_names_it(
    machine: BackupHost, use: t.Callable[[BackupHost, str], None]
) -> None:
    add_backup(machine.destination, OLDER, 4, uuid=UUID)
    add_chain(machine)
    use(machine, FIRST)
    foreseen = shown(machine, keep=Keep({"last": 1}))
    result = machine.made(keep=Keep({"last": 1}))
    assert result.removed == [SECOND, OLDER]
    same_in_check_mode(foreseen, result)
    (remark,) = result.as_result()["remarks"]
    place = machine.destination / "web1"
    assert remark == f"{place}/{FIRST}, with all that it is built on, is kept: it is used by machine other"
    assert foreseen.as_result()["remarks"] == [remark]
    assert ids(machine)[:2] == [FULL, FIRST]
    require_whole(machine.destination)


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_what_a_machine_uses_is_not_merged_either(machine: BackupHost, name: str) -> None:
    add_chain(machine)
    use_image(machine, name)
    files = {path: path.read_bytes() for path in (machine.destination / "web1").glob("2*/*")}
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    result = machine.made(keep=KEEP, merge_above=0)
    assert (result.merged, result.removed) == ([], [])
    same_in_check_mode(foreseen, result)
    assert {path: path.read_bytes() for path in files} == files
    assert any("is kept: it is used by machine other" in remark for remark in result.as_result()["remarks"])


def test_what_a_machine_has_taken_into_use_during_a_merge_stays(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_chain(machine)
    whole = retain.merge_backup

    def meanwhile(*arguments: t.Any) -> Manifest:
        made = whole(*arguments)
        use_image(machine, FIRST)
        return made

    monkeypatch.setattr(retain, "merge_backup", meanwhile)
    result = machine.made(keep=KEEP, merge_above=0)
    assert (result.merged, result.removed) == ([SECOND], [])
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]


def test_where_it_cannot_be_known_who_uses_them_all_stay(machine: BackupHost) -> None:
    add_chain(machine)
    machine.host.add_pool("asleep", active=False)
    result = machine.made(keep=Keep({"last": 1}))
    assert result.removed == []
    (remark,) = result.as_result()["remarks"]
    assert remark.endswith("cannot be determined whether something uses it: storage pool asleep is not active")


def test_where_libvirt_does_not_say_who_uses_them_the_backup_is_made(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it waits for a server of files that is gone."""
    add_chain(machine)
    place = machine.destination / "web1"
    (place / SECOND).rename(place / f".unfinished-{SECOND}")

    def silent(_conn: t.Any) -> None:
        raise HostError("libvirt does not list the storage pools")

    monkeypatch.setattr(kept, "Usage", silent)
    foreseen = shown(machine, keep=Keep({"last": 1}))
    result = machine.made(keep=Keep({"last": 1}))
    same_in_check_mode(foreseen, result)
    whys = ("what an interrupted run has left stays", "backups that are not to be kept stay")
    assert result.remarks == foreseen.remarks == [f"{why}: libvirt does not list the storage pools" for why in whys]
    assert ids(machine)[:2] == [FULL, FIRST]


def test_that_a_pool_has_them_as_volumes_keeps_none(machine: BackupHost) -> None:
    """As virt-manager makes one of the directory that a disk is chosen from."""
    add_chain(machine)
    machine.host.add_pool("looked", machine.destination / "web1" / SECOND)
    assert machine.made(keep=Keep({"last": 1})).removed == [SECOND, FIRST, FULL]


def test_an_interrupted_merge_is_not_ended_under_a_machine(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_chain(machine)
    interrupt(machine, monkeypatch)
    use_image(machine, SECOND)
    foreseen = shown(machine, keep=KEEP, merge_above=0)
    result = machine.made(keep=KEEP, merge_above=0)
    same_in_check_mode(foreseen, result)
    assert len(result.actions) == 1
    assert list_backups(str(machine.destination), "web1").merging
    assert any("is kept: it is used by machine other" in remark for remark in result.as_result()["remarks"])


def test_what_a_killed_run_has_left_stays_while_a_machine_uses_it(machine: BackupHost) -> None:
    add_chain(machine)
    place = machine.destination / "web1"
    left = place / f".unfinished-{SECOND}"
    (place / SECOND).rename(left)
    machine.define_other(str(left / "vda.qcow2"))
    foreseen = shown(machine)
    result = machine.made()
    same_in_check_mode(foreseen, result)
    assert len(result.actions) == 1
    assert (left / "vda.qcow2").exists()
    assert result.as_result()["remarks"] == [f"{left} is kept: it is used by machine other"]


@pytest.mark.parametrize("at", [FULL, SECOND])
def test_what_is_merged_while_they_are_read_back_is_not_damaged(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Reading all of them takes hours, and keeps nobody from making the next backup."""
    add_chain(machine)
    place = str(machine.destination)
    merged: list[Manifest] = []
    whole = machines.verify_backup

    def meanwhile(found: Backups, one: Manifest, *more: t.Any) -> None:
        if one.id == at and not merged:
            merged.append(merge.merge_backup(list_backups(place, "web1"), SECOND, None, threading.Event()))
            for name in (FIRST, FULL):
                directory.remove(found.path, name)
        whole(found, one, *more)

    monkeypatch.setattr(machines, "verify_backup", meanwhile)
    (result,) = verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))
    assert (result.error, result.verified) == (None, [SECOND] if at == FULL else [FULL, FIRST, SECOND])
    assert result.backups is not None
    assert list(result.backups.by_id) == [SECOND]


def test_a_merge_that_cannot_be_ended_stops_no_backup(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chain(machine)
    interrupt(machine, monkeypatch)

    def fail(*_arguments: t.Any) -> None:
        raise HostError("it cannot be read")

    monkeypatch.setattr(machines, "end_merge", fail)
    result = machine.made(keep=KEEP, merge_above=0)
    assert result.remarks[0] == "an interrupted merge stays as it is: it cannot be read"
    assert len(result.remarks) == 1
    assert (result.merged, result.removed) == ([], [])
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]
    require_whole(machine.destination)


def test_a_run_that_is_told_to_stop_begins_no_merge(machine: BackupHost) -> None:
    add_chain(machine)
    machine.made()
    stop = threading.Event()
    stop.set()
    result = BackupResult("web1")
    options = dataclasses.replace(machine.options, keep=KEEP, merge_above=0)
    with pytest.raises(StoppedError):
        retain.retain(machine.conn, result, UUID, options, stop, ProgressMeter(lambda _line: None, "web1"))
    assert ids(machine)[:3] == [FULL, FIRST, SECOND]


def test_the_machine_is_free_while_its_backups_are_merged(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chain(machine)
    held: list[bool] = []

    @contextlib.contextmanager
    def lock(_name: str, **_settings: t.Any) -> t.Iterator[None]:
        held.append(True)
        yield
        held.append(False)

    def look(*_arguments: t.Any) -> t.Any:
        assert held == [True, False]
        raise HostError("seen")

    monkeypatch.setattr(machines, "machine_lock", lock)
    monkeypatch.setattr(retain, "merge_backup", look)
    assert "seen" in machine.made(keep=KEEP, merge_above=0).remarks[0]


@pytest.fixture
def running(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> BackupHost:
    machine.start(monkeypatch, written={"vda": 65536})
    return machine


def test_the_new_one_may_be_merged_at_once_and_the_next_is_built_on_it(running: BackupHost) -> None:
    first = running.made().made
    foreseen = shown(running, keep=Keep({"last": 1}), merge_above=0)
    second = running.made(keep=Keep({"last": 1}), merge_above=0)
    assert first is not None
    assert second.made is not None
    assert (second.plan.kind if second.plan else "", second.made.parent) == ("incremental", first.id)
    assert (second.merged, second.removed) == ([second.made.id], [first.id])
    # Its name is not known before.
    assert (foreseen.merged, foreseen.removed) == ([], [first.id])
    assert foreseen.actions[1].startswith("merge the new backup of web1 with those that it is built on, into a full")
    third = running.made()
    assert third.made is not None
    assert (third.made.kind, third.made.parent) == ("incremental", second.made.id)
    require_whole(running.destination)


def test_what_is_merged_needs_no_full_one_any_more(running: BackupHost) -> None:
    """The chain does not grow longer than full_every, and is never begun anew."""
    kinds = []
    for _number in range(9):
        result = running.made(keep=Keep({"last": 2}), merge_above=1, full_every=4)
        kinds.append(result.plan.kind if result.plan else "")
    assert kinds == ["full", *["incremental"] * 8]
    assert len(ids(running)) <= 3
    require_whole(running.destination)


def test_each_part_of_the_work_is_told(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the lines that are shown while it takes long."""
    told: list[str] = []
    monkeypatch.setattr(ProgressMeter, "at", lambda _meter, phase, _done, _total: told.append(phase))
    monkeypatch.setattr(ProgressMeter, "at_percent", lambda _meter, phase, _percent: told.append(phase))
    add_chain(machine)
    machine.made(keep=KEEP, merge_above=1)
    merge_words = f"merge {SECOND}"
    parts = [merge_words, f"{merge_words}, comparing disk vda", f"{merge_words}, checksum of disk vda"]
    assert list(dict.fromkeys(told)) == ["disks", "checksums", "verify", *parts]
    told.clear()
    machine.made(verify=True)
    assert list(dict.fromkeys(told)) == ["disks", "checksums", "verify"]
    told.clear()
    (result,) = verify_all(["web1"], machine.options, threading.Event(), ProgressFile(None))
    assert (result.error, set(told)) == (None, {"verify"})


@pytest.mark.parametrize("how", ["defined", "running"])
def test_what_came_into_use_since_a_merge_began_is_not_replaced(
    machine: BackupHost, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As a machine that somebody starts from the backup in an emergency; the files of other disks take hours."""
    monkeypatch.setattr(retain, "first_open", functools.partial(first_open, wait_seconds=0))
    add_chain(machine)
    image = machine.destination / "web1" / SECOND / "vda.qcow2"
    inode, form = image.stat().st_ino, merge._new_form
    with contextlib.ExitStack() as users:

        def use_then(*given: t.Any) -> t.Any:
            found = form(*given)
            if how == "defined":
                machine.define_other(str(image))
                return found
            command = ["qemu-io", "-f", "qcow2", str(image)]
            user = users.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            assert user.stdin is not None and user.stdout is not None
            users.callback(user.stdin.close)
            user.stdin.write(b"length\n")
            user.stdin.flush()
            assert user.stdout.readline()
            return found

        monkeypatch.setattr(merge, "_new_form", use_then)
        result = machine.made(keep=KEEP, merge_above=1)
    assert result.error is None
    assert (result.merged, result.removed) == ([], [])
    assert any("its files came into use while that was prepared" in remark for remark in result.remarks)
    assert image.stat().st_ino == inode
    monkeypatch.setattr(merge, "_new_form", form)
    require_whole(machine.destination)
