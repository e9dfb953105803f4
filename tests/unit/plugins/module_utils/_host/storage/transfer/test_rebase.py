# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A qcow2 file on another base, with real files of qemu-img."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    StoppedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar
from ansible_collections.brine.virt.plugins.module_utils._host.storage import disk_lock
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer import rebase
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.rebase import (
    Base,
    RebasedFile,
    header_of,
    leftovers,
    snapshots_inside,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import (
    HEAD_BYTES,
    add_qcow2_mark,
    read_qcow2_mark,
)

pytestmark = [pytest.mark.medium, pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")]
MIB = 1024 * 1024


def qemu_img(*words: str) -> None:
    subprocess.run(["qemu-img", *words], check=True, stdout=subprocess.DEVNULL)


def write(path: Path, pattern: int, offset: int, length: int, image_format: str = "qcow2") -> None:
    words = ["qemu-io", "-f", image_format, "-c", f"write -P {pattern} {offset} {length}", str(path)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def content(path: Path, tmp_path: Path) -> bytes:
    qemu_img("convert", "-f", "qcow2", "-O", "raw", str(path), str(tmp_path / "raw"))
    return (tmp_path / "raw").read_bytes()


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """An overlay of 4 MiB on a base of two, beside another base that differs in the first MiB and is longer."""
    for name, pattern, size in (("old", 1, 2), ("new", 2, 3)):
        base = tmp_path / f"{name}.qcow2"
        qemu_img("create", "-q", "-f", "qcow2", str(base), f"{size}M")
        write(base, pattern, 0, MIB)
        write(base, 9, MIB, (size - 1) * MIB)
    path = tmp_path / "web1.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", "-b", str(tmp_path / "old.qcow2"), "-F", "qcow2", str(path), "4M")
    write(path, 5, MIB // 2, 65536)
    write(path, 6, 3 * MIB, 65536)
    return path


@contextlib.contextmanager
def rebased(path: Path, base: Base | None, stop: threading.Event | None = None) -> t.Iterator[RebasedFile]:
    file = RebasedFile(str(path), base, stop or threading.Event(), lambda _far: None)
    try:
        file.begin()
        file.make()
        yield file
    finally:
        file.end()


def parts(path: Path) -> list[str]:
    return [each.name for each in path.parent.glob(".*")]


@pytest.mark.parametrize("base", ["new.qcow2", None])
def test_it_reads_the_same_on_another_base_and_on_none(overlay: Path, tmp_path: Path, base: str | None) -> None:
    before = content(overlay, tmp_path)
    overlay.chmod(0o640)
    os.setxattr(overlay, "user.mark", b"web1")
    marked = add_qcow2_mark(overlay.read_bytes()[:HEAD_BYTES], "f" * 32)
    assert marked is not None
    with overlay.open("r+b") as disk:
        disk.write(marked)
    with rebased(overlay, None if base is None else Base(str(tmp_path / base), "qcow2")) as file:
        assert header_of(str(overlay)).backing_file == str(tmp_path / "old.qcow2")
        file.put_in_place()
    header = header_of(str(overlay))
    assert header.backing_file == (None if base is None else str(tmp_path / base))
    assert header.backing_format == (None if base is None else "qcow2")
    # The old base is needed no more, and what is beyond the end of it is still zeros.
    (tmp_path / "old.qcow2").unlink()
    assert content(overlay, tmp_path) == before
    assert overlay.stat().st_mode & 0o777 == 0o640
    # Both of what says whose it is.
    assert os.getxattr(overlay, "user.mark") == b"web1"
    assert read_qcow2_mark(overlay.read_bytes()[:HEAD_BYTES]) == "f" * 32
    assert sorted(path.name for path in tmp_path.glob("*.qcow2")) == ["new.qcow2", "web1.qcow2"]


def test_each_part_of_the_work_is_told(overlay: Path) -> None:
    """How much of it is compared as well, which takes as long as the rest."""
    told: list[HowFar] = []
    file = RebasedFile(str(overlay), None, threading.Event(), told.append)
    try:
        file.begin()
        file.make()
    finally:
        file.end()
    assert list(dict.fromkeys(far.phase for far in told)) == ["copy", "rebase", "comparing both"]
    assert (told[0].total_bytes, told[-1].percent) == (overlay.stat().st_size, 0.0)


def test_bitmaps_of_backups_stay(overlay: Path, tmp_path: Path) -> None:
    qemu_img("bitmap", "--add", str(overlay), "since")
    with rebased(overlay, Base(str(tmp_path / "new.qcow2"), "qcow2")) as file:
        file.put_in_place()
    told = subprocess.run(["qemu-img", "info", str(overlay)], check=True, capture_output=True, text=True).stdout
    assert "name: since" in told


def test_bitmaps_that_were_not_written_are_a_full_disk_or_an_error(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu_img("bitmap", "--add", str(overlay), "since")
    real = rebase.run_qemu_img

    def lossy(command: str, image_format: str, *words: str, **settings: t.Any) -> Answer:
        answer = real(command, image_format, *words, **settings)
        if command == "rebase":
            real("bitmap", image_format, "--remove", words[-1], "since", timeout_seconds=10)
        return answer

    monkeypatch.setattr(rebase, "run_qemu_img", lossy)
    with pytest.raises(HostError, match="has other bitmaps than"), rebased(overlay, None):
        pass
    assert parts(overlay) == []


def test_nothing_stays_of_a_run_that_is_stopped(overlay: Path) -> None:
    before = overlay.read_bytes()
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError), rebased(overlay, None, stop):
        pass
    with rebased(overlay, None):
        pass
    assert overlay.read_bytes() == before and parts(overlay) == []


def test_what_a_killed_run_has_left_is_found_and_no_link(overlay: Path) -> None:
    left = overlay.parent / ".web1.qcow2.rebase-abc"
    left.write_bytes(b"half")
    (overlay.parent / ".web1.qcow2.rebase-link").symlink_to(overlay)
    (overlay.parent / ".web1.qcow2.rebase-folder").mkdir()
    (overlay.parent / ".web11.qcow2.rebase-other").write_bytes(b"other")
    assert leftovers(str(overlay)) == [str(left)]


def test_two_runs_do_not_work_on_one_disk(overlay: Path) -> None:
    first = RebasedFile(str(overlay), None, threading.Event(), lambda _far: None)
    first.begin()
    with pytest.raises(ConflictError, match=r"another run is at work on .*/web1.qcow2"), rebased(overlay, None):
        pass
    # QEMU has locks of its own, and is not in the way.
    qemu_img("info", str(overlay))
    first.end()
    with rebased(overlay, None) as second:
        second.put_in_place()


def test_what_somebody_has_put_in_the_place_of_the_new_file_is_not_taken(overlay: Path) -> None:
    before = overlay.read_bytes()
    with rebased(overlay, None) as file:
        (part,) = overlay.parent.glob(".web1.qcow2.rebase-*")
        part.unlink()
        part.write_bytes(b"theirs")
        with pytest.raises(ConflictError, match="has been replaced by somebody else"):
            file.put_in_place()
    assert overlay.read_bytes() == before


def test_a_new_file_that_reads_otherwise_is_refused(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = rebase.run_qemu_img

    def name_only(command: str, image_format: str, *words: str, **settings: t.Any) -> Answer:
        """As if nothing were copied."""
        more = ["-u"] if command == "rebase" else []
        return real(command, image_format, *more, *words, **settings)

    monkeypatch.setattr(rebase, "run_qemu_img", name_only)
    new = Base(str(tmp_path / "new.qcow2"), "qcow2")
    with pytest.raises(HostError, match=r"the new file does not read as \(Content mismatch"), rebased(overlay, new):
        pass
    assert header_of(str(overlay)).backing_file == str(tmp_path / "old.qcow2")


@pytest.mark.parametrize("short_bytes", [2_000_000, 60_000])
def test_a_full_disk(overlay: Path, small_disk: Path, short_bytes: int) -> None:
    path = small_disk / "web1.qcow2"
    shutil.copy(overlay, path)
    qemu_img("bitmap", "--add", str(path), "since")
    with rebased(path, None):
        needed = sum(each.stat().st_blocks * 512 for each in small_disk.glob(".web1*"))
    (small_disk / "rest").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096 - needed + short_bytes))
    before = path.read_bytes()
    with pytest.raises(HostError, match=r"cannot (copy|rebase) .* is full|needs .* are free"), rebased(path, None):
        pass
    assert path.read_bytes() == before and not list(small_disk.glob(".web1*"))


def test_internal_snapshots_are_counted(overlay: Path) -> None:
    assert snapshots_inside(str(overlay)) == 0
    qemu_img("snapshot", "-c", "one", str(overlay))
    assert snapshots_inside(str(overlay)) == 1


def test_no_qcow2_image_has_a_header(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(512))
    with pytest.raises(HostError, match="is not a qcow2 image, although the machine has it as one"):
        header_of(str(tmp_path / "raw"))


def test_a_lock_on_a_file_that_was_just_replaced_is_none(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.fcntl

    def late(descriptor: int, command: int, argument: bytes) -> t.Any:
        os.replace(shutil.copy(overlay, f"{overlay}.new"), overlay)
        return real(descriptor, command, argument)

    monkeypatch.setattr(disk_lock.fcntl, "fcntl", late)
    with pytest.raises(ConflictError, match="was replaced a moment ago"), rebased(overlay, None):
        pass
