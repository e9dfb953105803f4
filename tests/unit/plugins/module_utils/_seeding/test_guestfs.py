# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said when a disk cannot be seeded. That it can be, the lab shows in the scenario seeding."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._seeding.guestfs import failure, seed_disk
from ansible_collections.brine.virt.plugins.module_utils._seeding.offline import seed_archive

ADVICE = (
    " To see full error messages you may need to enable debugging. Do: export LIBGUESTFS_DEBUG=1 LIBGUESTFS_TRACE=1 and"
    " run the command again. For further information, read: http://libguestfs.org/guestfs-faq.1.html"
)


@pytest.fixture(name="archive")
def _archive() -> bytes:
    return seed_archive(read_machine({"name": "web1", "vcpus": 1, "memory": 512, "seed": {"method": "guestfs"}}), ())


def test_without_guestfish(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no guestfish .* virt_hypervisor_guestfs"):
        seed_disk("/x.qcow2", "qcow2", archive)


def test_the_seed_goes_through_a_pipe(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in guestfish's place tells its words, and how many bytes came in: a tar has no less than 10240."""
    program = tmp_path / "guestfish"
    program.write_text('#!/bin/sh\necho "$LIBGUESTFS_BACKEND $LIBGUESTFS_BACKEND_SETTINGS $* $(wc -c)" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(HostError) as caught:
        seed_disk("/x.qcow2", "qcow2", archive, emulated=True)
    words = str(caught.value).split()
    assert "direct force_tcg --format=qcow2 -a /x.qcow2 -i" in " ".join(words)
    assert int(words[-1]) >= 10240


def test_it_does_not_wait_for_ever(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "guestfish"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(HostError, match="did not seed /x.qcow2 within 1 s"):
        seed_disk("/x.qcow2", "qcow2", archive, timeout_seconds=1)


@pytest.mark.parametrize(
    ("complaint", "kind", "words"),
    [
        (
            "guestfish: no operating system was found on this disk If using guestfish '-i' option, remove this option",
            UnsupportedError,
            "guestfish cannot seed the disk /x.qcow2: libguestfs finds no operating system on it. Use an image",
        ),
        (
            "guestfish: multi-boot operating systems are not supported If using guestfish '-i' option, remove it",
            UnsupportedError,
            "guestfish cannot seed the disk /x.qcow2: it has more than one operating system. Use an image",
        ),
        (
            f"libguestfs: error: /usr/bin/supermin exited with error status 1.{ADVICE}",
            UnsupportedError,
            "libguestfs cannot build its appliance on this hypervisor. It needs a kernel",
        ),
        (
            "*stdin*:0: libguestfs: error: sh: the image has no time zone Etc/Nowhere",
            HostError,
            "guestfish could not seed the disk /x.qcow2: the image has no time zone Etc/Nowhere",
        ),
        (
            f"libguestfs: error: something else.{ADVICE}",
            HostError,
            "guestfish could not seed the disk /x.qcow2: something else.",
        ),
    ],
)
def test_complaints_in_one_sentence(complaint: str, kind: type[Exception], words: str) -> None:
    """As guestfish 1.48 said them."""
    found = failure("/x.qcow2", "qcow2", complaint)
    assert isinstance(found, kind)
    assert str(found).startswith(words)
    assert "LIBGUESTFS_DEBUG" not in str(found)


def test_a_disk_that_qemu_refuses(tmp_path: Path) -> None:
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed")
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(65536))
    complaint = f"libguestfs: error: guestfs_launch failed. This usually means that it crashed.{ADVICE}"
    assert "not in qcow2 format" in str(failure(str(disk), "qcow2", complaint))
    assert "libguestfs-test-tool" in str(failure(str(disk), "raw", complaint))
