# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is being copied: QEMU does not write to it, and who does it all the same is found out."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.disk_lock import DiskLock, is_open_in_qemu

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-io"), reason="qemu-utils is not installed")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.raw"
    path.write_bytes(bytes(1024 * 1024))
    return path


def qemu_io(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["qemu-io", "-f", "raw", *words, str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@needs_qemu_img
def test_qemu_does_not_write_to_it_until_it_is_released(disk: Path) -> None:
    held = DiskLock(str(disk))
    held.hold()
    answer = qemu_io(disk, "-c", "write 0 512")
    assert answer.returncode != 0
    assert 'Failed to get "write" lock' in answer.stderr
    assert qemu_io(disk, "-r", "-c", "read 0 512").returncode == 0
    held.check()
    held.release()
    assert qemu_io(disk, "-c", "write 0 512").returncode == 0


def test_whoever_writes_without_asking_is_found_out(disk: Path) -> None:
    held = DiskLock(str(disk))
    held.hold()
    held.check()
    with disk.open("r+b") as file:
        file.write(b"new")
    with pytest.raises(ConflictError, match="was changed while it was being copied"):
        held.check()
    held.release()


def test_a_start_that_fails_for_the_lock_changes_nothing(disk: Path) -> None:
    """libvirt gives the file to QEMU's user, and back."""
    held = DiskLock(str(disk))
    held.hold()
    os.chown(disk, 65534, 65534)
    os.chown(disk, os.getuid(), os.getgid())
    held.check()
    held.release()


def test_another_file_in_its_place_is_found_out(disk: Path) -> None:
    held = DiskLock(str(disk))
    held.hold()
    shutil.copy2(disk, disk.with_suffix(".copy"))
    disk.with_suffix(".copy").replace(disk)
    with pytest.raises(ConflictError):
        held.check()
    held.release()


def test_a_disk_that_somebody_writes_to_is_not_begun(disk: Path) -> None:
    """As QEMU has a disk of a running machine: the byte of what it does."""
    with disk.open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK, 101))
        with pytest.raises(ConflictError, match="has .* open for writing"):
            DiskLock(str(disk)).hold()
    held = DiskLock(str(disk))
    held.hold()
    held.release()


def test_a_disk_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot read"):
        DiskLock(str(tmp_path / "none")).hold()


@needs_qemu_img
@pytest.mark.parametrize("mode", [[], ["-r"]], ids=["writing", "reading"])
def test_whether_a_qemu_has_it_open(disk: Path, mode: list[str]) -> None:
    assert not is_open_in_qemu(str(disk))
    command = ["qemu-io", "-f", "raw", *mode, str(disk)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("length\n")
        process.stdin.flush()
        # It answers when it has the file open.
        assert process.stdout.readline()
        assert is_open_in_qemu(str(disk))
        process.stdin.close()
    assert not is_open_in_qemu(str(disk))


def test_our_own_lock_is_not_qemu(disk: Path) -> None:
    held = DiskLock(str(disk))
    held.hold()
    assert not is_open_in_qemu(str(disk))
    held.release()
    assert not is_open_in_qemu(str(disk.with_suffix(".none")))


def _lock(kind: int, byte: int) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)
