# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups made by hand, of real images, as virt_backup leaves them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.backup import directory, images
from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.backup.merge import end_merge
from ansible_collections.brine.virt.plugins.module_utils._host.backup.verify import digest_file, verify_backup
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import (
    DOMAIN_XML,
    DiskEntry,
    Manifest,
    is_backup_id,
)

SIZE = 4 * 1024 * 1024
UUID = "4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10"
FULL, FIRST, SECOND = "20261120T020000Z-full", "20261121T020000Z-incremental", "20261122T020000Z-incremental"
GO_ON = threading.Event()
# What changes something that others see, or that has to be on the disk first.
CALLS = ("mkdir", "replace", "rename", "fsync", "unlink", "rmdir")


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)


def write(image: Path, offset: int, length: int, pattern: int) -> None:
    """Bytes of one value in a qcow2 image, as a guest would write them."""
    run("qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} {offset} {length}", str(image))


def add_backup(
    destination: Path,
    name: str,
    pattern: int,
    *,
    machine: str = "web1",
    uuid: str = UUID,
    targets: tuple[str, ...] = ("vda",),
    size: int = SIZE,
    changes: t.Sequence[str] | None = None,
) -> Manifest:
    """One more backup of a machine, with disks on which 64 KiB have changed; the newest one is its parent.

    changes: what has changed instead, in commands of qemu-io.
    """
    path = destination / machine
    path.mkdir(mode=0o711, exist_ok=True)
    earlier = sorted(one.name for one in path.iterdir() if is_backup_id(one.name))
    parent = None if name.endswith("full") else earlier[-1]
    partial = Path(directory.begin(str(path), name))
    disks = []
    for target in targets:
        file = f"{target}.qcow2"
        disks.append(DiskEntry(target, file, parent, size, "qcow2", "default", f"web1-{target}.qcow2", "system"))
        backing = [] if parent is None else ["-F", "qcow2", "-b", f"../{parent}/{file}"]
        run("qemu-img", "create", "-q", "-f", "qcow2", *backing, str(partial / file), str(size))
        written = [f"write -P {pattern} {(pattern % 32) * 65536} 65536"] if changes is None else changes
        if written:
            run("qemu-io", "-f", "qcow2", *(word for one in written for word in ("-c", one)), str(partial / file))
    xml = f"<domain type='kvm'><name>{machine}</name><uuid>{uuid}</uuid><devices/></domain>"
    (partial / DOMAIN_XML).write_text(xml, encoding="utf-8")
    manifest = Manifest(
        id=name,
        machine=machine,
        uuid=uuid,
        series="0123456789abcdef",
        kind=name.partition("-")[2],
        parent=parent,
        checkpoint="",
        reason="" if parent else "there is no earlier one",
        running=True,
        quiesced=False,
        disks=tuple(disks),
        files={},
    )
    files = {file: digest_file(str(partial), file, GO_ON) for file in (*(disk.file for disk in disks), DOMAIN_XML)}
    manifest = replace(manifest, files=files)
    directory.complete(str(path), str(partial), manifest)
    return manifest


def add_chain(destination: Path) -> list[Manifest]:
    """A full backup, and two that are built on it."""
    return [add_backup(destination, name, number + 1) for number, name in enumerate((FULL, FIRST, SECOND))]


def guest_content(image: Path) -> bytes:
    """What a guest would read from it, in small: of each 64 KiB the first byte."""
    raw = image.with_name("raw-of-a-test")
    run("qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(image), str(raw))
    try:
        return raw.read_bytes()[::65536]
    finally:
        raw.unlink()


def require_whole(destination: Path, machine: str = "web1") -> None:
    """Each backup there, with those that it needs, is what it was."""
    found = list_backups(str(destination), machine)
    assert not found.broken, found.broken
    for name in found.by_id:
        found.chain(name)
        verify_backup(found, found.by_id[name], GO_ON)


def recover(place: Path) -> None:
    """As the next run begins."""
    found = list_backups(str(place), "web1")
    for manifest in found.merging:
        end_merge(found, manifest, GO_ON)
    for name in list_backups(str(place), "web1").unfinished:
        directory.remove(found.path, name)


def killer(number: int) -> t.Callable[[pytest.MonkeyPatch], None]:
    """Have this process be killed just before its nth step."""
    steps = 0

    def counted(whole: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def call(*arguments: t.Any, **settings: t.Any) -> t.Any:
            nonlocal steps
            steps += 1
            if steps == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*arguments, **settings)

        return call

    def arm(patch: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(images, "run_qemu_img", counted(images.run_qemu_img))

    return arm


def killed(number: int, work: t.Callable[[], t.Any]) -> bool:
    """Whether a process that does this was killed at its nth step; it has ended otherwise."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch:
                killer(number)(patch)
                work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)
