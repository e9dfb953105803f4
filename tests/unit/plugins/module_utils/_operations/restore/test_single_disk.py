# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is restored beside its machine, and what a killed run leaves of it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import threading
import typing as t
from pathlib import Path

import libvirt
import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import images
from ansible_collections.brine.virt.plugins.module_utils._host.storage import usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import mark_of, mark_volume
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.fill import upload_of
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload, sending
from ansible_collections.brine.virt.plugins.module_utils._operations import plan as plans
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.outside_volume import outside_volume
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import plan as restore_plan
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.machine import preview
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import BackupHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.restore.test_restore import (
    backup_image,
    bring_back,
    read,
)

pytestmark = pytest.mark.medium

NAME = "friday.qcow2"


@pytest.fixture(autouse=True)
def with_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test driver leaves the file of a volume."""
    real = libvirt.virStorageVol.delete

    def delete(volume: t.Any, flags: int = 0) -> t.Any:
        Path(volume.path()).unlink(missing_ok=True)
        return real(volume, flags)

    monkeypatch.setattr(libvirt.virStorageVol, "delete", delete)


def run_without_undo(steps: t.Sequence[plans.Step]) -> None:
    for step in steps:
        step.apply()


def die(*_args: t.Any, **_settings: t.Any) -> t.NoReturn:
    raise KeyboardInterrupt


def begin(machine: BackupHost, monkeypatch: pytest.MonkeyPatch, at: str, **params: t.Any) -> None:
    """A restore that is killed. at: the function that it does not come to."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(plans, "run", run_without_undo)
        patch.setattr(volumes.images, at, die)
        bring_back(machine, disk="vda", volume="friday", **params)


def pool_of(machine: BackupHost) -> Pool:
    return Hypervisor(machine.conn, image_pool="images").pools.get("default")


def attach(machine: BackupHost) -> t.Any:
    hypervisor = Hypervisor(machine.conn, image_pool="images")
    return outside_volume(hypervisor.pools.get("default"), NAME, None, hypervisor, "disks[1].source")


def is_whole(machine: BackupHost, name: str = NAME) -> bool:
    volume = str(machine.image.parent / name)
    image_format = name.rpartition(".")[2]
    return images.same_content(str(backup_image(machine)), volume, image_format, threading.Event())


@pytest.mark.parametrize("at", ["convert", "same_content"])
def test_the_same_restore_after_a_kill(machine: BackupHost, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    begin(machine, monkeypatch, at)
    with pytest.raises(ConflictError, match=rf"volume {NAME} of pool default is incomplete"):
        attach(machine)
    words = f"delete the unfinished volume {NAME} of pool default"
    assert preview(machine.conn, read(machine, disk="vda", volume="friday")).actions[0] == words
    assert bring_back(machine, disk="vda", volume="friday").actions[0] == words
    assert is_whole(machine)
    assert attach(machine).format == "qcow2"
    # It is somebody's now.
    with pytest.raises(ConflictError, match=f"has a volume '{NAME}' already"):
        bring_back(machine, disk="vda", volume="friday")


def test_one_that_was_raw(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mark is beside its content."""
    real = volumes.plan_volume

    def plan_raw(entry: t.Any, *args: t.Any, **settings: t.Any) -> t.Any:
        return real(dataclasses.replace(entry, format="raw"), *args, **settings)

    monkeypatch.setattr(restore_plan, "plan_volume", plan_raw)
    begin(machine, monkeypatch, "same_content")
    assert upload_of(pool_of(machine), "friday.raw") is not None
    assert bring_back(machine, disk="vda", volume="friday").actions[0].startswith("delete the unfinished volume friday")
    assert upload_of(pool_of(machine), "friday.raw") is None
    assert is_whole(machine, "friday.raw")


def test_one_that_is_being_restored_stays(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(machine, monkeypatch, "same_content")
    upload = upload_of(pool_of(machine), NAME)
    assert upload is not None
    with sending(upload), pytest.raises(ConflictError, match="is incomplete: process .* Wait for it to end"):
        bring_back(machine, disk="vda", volume="friday")
    assert (machine.image.parent / NAME).exists()


def test_one_that_a_machine_has_stays(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has attached it with virsh."""
    begin(machine, monkeypatch, "same_content")
    (planned,) = preview(machine.conn, read(machine, disk="vda", volume="friday")).plan.volumes
    machine.define_other(str(machine.image.parent / NAME))
    with pytest.raises(ConflictError, match="has left its volume: .* is used by machine other"):
        bring_back(machine, disk="vda", volume="friday")
    # Since it was looked at.
    assert planned.leftover is not None
    with pytest.raises(ConflictError, match=f"volume {NAME} of pool default is kept: it is used by machine other"):
        planned.leftover.clear_step(Hypervisor(machine.conn, image_pool="images")).apply()
    assert (machine.image.parent / NAME).exists()


def test_one_that_another_hypervisor_may_use_stays(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the pool as well."""
    begin(machine, monkeypatch, "same_content")
    monkeypatch.setattr(usage, "seen_elsewhere", lambda pool: f"pool {pool.name} is shared")
    with pytest.raises(ConflictError, match=r"cannot be determined .* pool default is shared.* virsh vol-delete"):
        bring_back(machine, disk="vda", volume="friday")
    assert (machine.image.parent / NAME).exists()


def empty(machine: BackupHost, *, mark: str = "", written: bool = False) -> None:
    (planned,) = preview(machine.conn, read(machine, disk="vda")).plan.volumes
    size = planned.entry.size_bytes
    pool = pool_of(machine)
    volumes.create_empty(pool, NAME, size_bytes=size, image_format="qcow2", mark=mark)
    path = str(machine.image.parent / NAME)
    if written:
        subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 0 64k", path], check=True, capture_output=True)


def test_one_that_was_killed_before_its_mark(machine: BackupHost) -> None:
    empty(machine)
    assert bring_back(machine, disk="vda", volume="friday").actions[0].startswith("delete the unfinished volume")
    assert is_whole(machine)


@pytest.mark.parametrize("what", [{"mark": "0" * 32}, {"written": True}])
def test_what_somebody_else_has_made_stays(machine: BackupHost, what: dict[str, t.Any]) -> None:
    empty(machine, **what)
    with pytest.raises(ConflictError, match=f"has a volume '{NAME}' already"):
        bring_back(machine, disk="vda", volume="friday")


def test_what_fails_is_taken_back(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes.images, "same_content", lambda *_args: False)
    with pytest.raises(HostError, match="differs from backup"):
        bring_back(machine, disk="vda", volume="friday")
    assert not (machine.image.parent / NAME).exists()


def test_a_mark_that_cannot_be_taken_away_is_told(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "mark_volume", lambda *_args: None)
    with pytest.raises(HostError, match=f"volume {NAME} of pool default .* cannot be marked as whole"):
        bring_back(machine, disk="vda", volume="friday")
    assert not (machine.image.parent / NAME).exists()


def test_a_mark_of_another_start_of_this_host(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut."""
    begin(machine, monkeypatch, "same_content")
    pool = pool_of(machine)
    upload = dataclasses.replace(new_upload(machine.conn.getHostname()), boot="before", pid=os.getppid())
    mark_volume(pool, pool.handle.storageVolLookupByName(NAME), "qcow2", upload.to_mark())
    assert mark_of(pool, NAME) == upload.to_mark()
    assert bring_back(machine, disk="vda", volume="friday").actions[0].startswith("delete the unfinished volume")
