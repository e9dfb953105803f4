# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image files on a real file system: whole or not there, one at a time, nothing left."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
import sys
import textwrap
import typing as t
from contextlib import nullcontext

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.images import files as image_files
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import CHUNK_BYTES, HashedContent

MIXED = os.urandom(CHUNK_BYTES) + bytes(3 * CHUNK_BYTES) + os.urandom(1000) + bytes(2 * CHUNK_BYTES + 5)


@pytest.mark.parametrize(
    "content", [b"", b"x", bytes(5 * CHUNK_BYTES), MIXED], ids=["empty", "one byte", "zeros", "data and zeros"]
)
def test_a_copy_has_all_bytes_and_keeps_holes(tmp_path: t.Any, content: bytes) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(content)
    with open(target, "wb") as file:
        copied = image_files.copy_file(str(source), file.fileno(), str(tmp_path), ["sha512"])
    assert target.read_bytes() == content
    digests = {name: hashlib.new(name, content).hexdigest() for name in ("sha256", "sha512")}
    assert copied == HashedContent(len(content), digests)
    assert image_files.hash_file(str(source), ["sha512"]) == copied
    assert target.stat().st_blocks * 512 <= len(content.replace(bytes(CHUNK_BYTES), b"")) + CHUNK_BYTES


def test_a_full_file_system_is_one_sentence() -> None:
    with (
        pytest.raises(HostError, match="cannot store it: No space left on device. Free some space"),
        image_files.disk_errors("cannot store it"),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"x")


def test_a_file_that_would_fill_the_file_system_is_refused_before_it_does(tmp_path: t.Any) -> None:
    image_files.require_free_disk_space(str(tmp_path), 1, "image.raw")
    with pytest.raises(HostError, match=r"image\.raw needs 1048576\.0T in .* are free"):
        image_files.require_free_disk_space(str(tmp_path), 2**60, "image.raw")


def test_a_published_part_is_read_only_and_an_unpublished_one_is_gone(tmp_path: t.Any) -> None:
    final = tmp_path / "image.raw"
    with image_files.partial_file(str(tmp_path)) as part:
        assert os.path.basename(part.path).startswith(image_files.PART_PREFIX)
        os.write(part.fd, b"x")
        image_files.publish(part, str(final))
    assert final.read_bytes() == b"x"
    assert final.stat().st_mode & 0o777 == 0o444
    with pytest.raises(KeyError), image_files.partial_file(str(tmp_path)) as part:
        raise KeyError
    assert os.listdir(tmp_path) == ["image.raw"]


HOLDER = """
    import sys, time
    from ansible_collections.brine.virt.plugins.module_utils._host.images import files as image_files
    with image_files.locked_directory(sys.argv[1], image_files.Deadline(600)), image_files.partial_file(sys.argv[1]):
        print("held", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: t.Any) -> t.Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock of tmp_path and has a part in it."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        if process.stdout is None or process.stdout.readline() != b"held\n":
            raise RuntimeError("the other process did not start")
        yield process
        process.kill()


def test_a_second_run_waits_and_then_says_for_whom(tmp_path: t.Any, holder: subprocess.Popen[bytes]) -> None:
    with (
        pytest.raises(
            HostError, match=f"another run is working on the images in {tmp_path}, and did not finish within 0.1 s"
        ),
        image_files.locked_directory(str(tmp_path), Deadline(0.1)),
    ):
        raise AssertionError("the lock was given twice")
    assert len(os.listdir(tmp_path)) == 1


def test_a_killed_run_holds_no_lock_and_what_it_left_is_removed(
    tmp_path: t.Any, holder: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "image.raw").touch()
    holder.kill()
    holder.wait()
    left = [name for name in os.listdir(tmp_path) if name != "image.raw"]
    assert len(left) == 1
    with image_files.locked_directory(str(tmp_path), Deadline(600)):
        assert image_files.clear_parts(str(tmp_path)) == left
    assert os.listdir(tmp_path) == ["image.raw"]


@pytest.fixture
def other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """flock of a directory as on NFS, and of what user space serves: each host has locks of its own."""
    flock = fcntl.flock

    def flock_of_one_host(fd: int, operation: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock_of_one_host)


@pytest.mark.usefixtures("other_host")
def test_a_directory_that_other_hosts_see_is_locked_for_them_as_well(tmp_path: t.Any) -> None:
    with image_files.locked_directory(str(tmp_path), Deadline(600), shared=True):
        with (
            pytest.raises(HostError, match=f"another run is working on the images in {tmp_path}, and"),
            image_files.locked_directory(str(tmp_path), Deadline(0), shared=True),
        ):
            pass
        assert os.listdir(tmp_path) == [image_files.LOCK_FILE]
    with image_files.locked_directory(str(tmp_path), Deadline(0), shared=True):
        pass


@pytest.mark.parametrize(("error", "goes_on"), [(errno.ENOLCK, True), (errno.EIO, False)])
def test_a_mount_without_locks_is_worked_on_all_the_same(
    tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch, error: int, goes_on: bool
) -> None:
    flock = fcntl.flock

    def no_flock_of_files(fd: int, operation: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(error, os.strerror(error))
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", no_flock_of_files)
    expected = nullcontext() if goes_on else pytest.raises(HostError, match="cannot lock .*: Input/output error")
    with expected, image_files.locked_directory(str(tmp_path), Deadline(0), shared=True):
        pass


def test_a_directory_of_this_host_alone_gets_no_file(tmp_path: t.Any) -> None:
    with image_files.locked_directory(str(tmp_path), Deadline(0)):
        assert os.listdir(tmp_path) == []


def test_a_directory_that_is_not_there_is_one_sentence(tmp_path: t.Any) -> None:
    with (
        pytest.raises(HostError, match="cannot lock .*No such file or directory"),
        image_files.locked_directory(str(tmp_path / "gone"), Deadline(0)),
    ):
        pass
