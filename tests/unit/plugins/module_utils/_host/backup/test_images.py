# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images written by qemu-img: into a backup, out of it, and compared."""

from __future__ import annotations

import os
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, StoppedError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import images
from ansible_collections.brine.virt.plugins.module_utils._host.backup.verify import nothing
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    FULL,
    GO_ON,
    SECOND,
    SIZE,
    add_chain,
    run,
    write,
)


def test_a_chain_is_restored_and_compared(tmp_path: Path) -> None:
    add_chain(tmp_path)
    source, target = str(tmp_path / "web1" / SECOND / "vda.qcow2"), tmp_path / "new.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(target), str(SIZE))
    images.convert(source, "qcow2", str(target), GO_ON, nothing, into="qcow2")
    assert images.same_content(source, str(target), "qcow2", GO_ON)
    assert not images.same_content(str(tmp_path / "web1" / FULL / "vda.qcow2"), str(target), "qcow2", GO_ON)
    write(target, 0, 512, 7)
    assert not images.same_content(source, str(target), "qcow2", GO_ON)


def test_who_stops_waiting_ends_it(tmp_path: Path) -> None:
    add_chain(tmp_path)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        images.convert(str(tmp_path / "web1" / FULL / "vda.qcow2"), "qcow2", str(tmp_path / "x"), stop, nothing)


def test_what_is_being_written_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may enter the directories of backups, as QEMU has to, and the names in them can be guessed."""
    modes = []
    real = images.run_qemu_img

    def run_qemu_img(*words: str, **settings: t.Any) -> Answer:
        answer = real(*words, **settings)
        modes.append(os.stat(words[-1]).st_mode & 0o777)
        return answer

    monkeypatch.setattr(images, "run_qemu_img", run_qemu_img)
    source = tmp_path / "disk.raw"
    source.write_bytes(b"x" * SIZE)
    images.convert(str(source), "raw", str(tmp_path / "vda.qcow2"), GO_ON, nothing)
    assert modes == [0o600]
    assert images.same_content(str(tmp_path / "vda.qcow2"), str(source), "raw", GO_ON)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot copy .*gone to .*x: .*No such file"):
        images.convert(str(tmp_path / "gone"), "qcow2", str(tmp_path / "x"), GO_ON, nothing)
    with pytest.raises(HostError, match="cannot set the backing file"):
        images.set_backing(str(tmp_path), "gone", FULL)


def test_what_a_full_backup_takes_is_what_the_chain_holds(tmp_path: Path) -> None:
    add_chain(tmp_path)
    path = str(tmp_path / "web1" / SECOND / "vda.qcow2")
    held = images.chain_bytes(path, "qcow2", 1 << 40)
    assert 3 * 65536 <= held < SIZE
    assert images.chain_bytes(path, "qcow2", 1000) == 1000
    assert images.chain_bytes(str(tmp_path / "gone"), "qcow2", SIZE) == SIZE


def test_what_a_guest_has_written_into_a_raw_disk_leads_to_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "of_the_host").write_bytes(b"x" * (1 << 20))
    raw = tmp_path / "disk.raw"
    run("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "of_the_host", str(raw), str(SIZE))
    own = images.allocated_bytes(str(raw))
    assert images.chain_bytes(str(raw), "raw", SIZE) == own
    # As measured, it has some tables more than lie on the disk.
    assert 0 <= images.chain_bytes(str(raw), "qcow2", SIZE) - own - (1 << 20) < 1 << 19
    overlay = tmp_path / "overlay.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(raw), str(overlay), str(SIZE))
    assert 0 <= images.chain_bytes(str(overlay), "qcow2", SIZE) - own - images.allocated_bytes(str(overlay)) < 1 << 19


def test_what_is_compressed_counts_as_it_will_be(tmp_path: Path) -> None:
    """As in the images of distributions; also under a machine that runs."""
    (tmp_path / "raw").write_bytes(b"x" * SIZE)
    base, overlay = tmp_path / 'a "base".qcow2', tmp_path / "overlay.qcow2"
    run("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", str(tmp_path / "raw"), str(base))
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(overlay))
    assert images.allocated_bytes(str(base)) < SIZE // 2
    words = ["qemu-io", "-f", "qcow2", str(overlay)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        user.stdout.read(1)
        assert SIZE <= images.chain_bytes(str(overlay), "qcow2", 1 << 40) < 2 * SIZE
        user.communicate(b"quit\n")


def test_what_is_encrypted_counts_as_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "vda.qcow2")
    run("qemu-img", "create", "-q", "-f", "qcow2", path, "1G")
    with open(path, "r+b") as file:
        # crypt_method of the header: LUKS. https://www.qemu.org/docs/master/interop/qcow2.html
        file.seek(32)
        file.write((2).to_bytes(4, "big"))
    assert images.chain_bytes(path, "qcow2", 1 << 30) == images.allocated_bytes(path)


def test_a_full_directory_says_how_full(tmp_path: Path) -> None:
    error = images.full("cannot back up machine web1", str(tmp_path), 1 << 60)
    assert images.is_full(HostError("write: No space left on device"))
    assert "is full" in str(error)
    assert "have fewer backups kept" in str(error)


def test_a_settled_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o644)
    images.settle(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic"):
        images.settle(str(tmp_path / "link"))
