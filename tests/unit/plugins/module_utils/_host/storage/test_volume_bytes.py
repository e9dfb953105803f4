# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of volumes through libvirt: what cannot be read is not taken for the end of the volume."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_bytes import (
    read_start,
    read_volume,
    zero_logical,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource


class Stream:
    """One that ends before anything came, and says at its end that reading failed."""

    def recv(self, _length: int) -> bytes:
        return b""

    def finish(self) -> None:
        raise libvirt.libvirtError("virStreamFinish() failed")


class Handle:
    """A pool, its connection and its volume in one."""

    def storageVolLookupByName(self, _name: str) -> t.Any:
        return self

    def connect(self) -> t.Any:
        return self

    def name(self) -> str:
        return "web1.qcow2"

    def newStream(self, _flags: int) -> Stream:
        return Stream()

    def download(self, *_arguments: t.Any) -> None:
        return None


def test_a_read_that_failed_at_its_end_is_no_empty_volume() -> None:
    pool = Pool("default", "/srv/pool", 0, Handle())
    path = "/srv/pool/web1.qcow2"
    volume = Volume("web1.qcow2", "default", path, 1, 1, "qcow2", DiskSource("file", path))
    # Its header would not be read: an empty volume is backed by nothing.
    with pytest.raises(HostError, match=r"^cannot read volume web1.qcow2 of pool default: virStreamFinish\(\) failed"):
        read_volume(pool, volume)


def test_the_start_of_a_shorter_volume_is_all_of_it() -> None:
    assert read_start(Handle(), Handle(), 65536) == b""


OLD = b"of the machine before" * 50_000


class Device(Handle):
    """A logical volume, as a file; libvirt has no other way to its bytes than these."""

    def __init__(self, path: Path) -> None:
        self.file = path
        self.sent: list[tuple[int, bytes]] = []

    def path(self) -> str:
        return str(self.file)

    def info(self) -> list[int]:
        return [0, self.file.stat().st_size, 0]

    def wipe(self, _flags: int) -> None:
        self.file.write_bytes(bytes(self.file.stat().st_size))

    def newStream(self, _flags: int) -> t.Any:
        return self

    def upload(self, _stream: t.Any, offset: int, length: int, _flags: int) -> None:
        self.place, self.left = offset, length

    def send(self, content: bytes) -> int:
        # It may take less than it is given.
        taken = content[:70_000]
        with self.file.open("r+b") as file:
            file.seek(self.place)
            file.write(taken)
        self.place, self.left = self.place + len(taken), self.left - len(taken)
        return len(taken)

    def finish(self) -> None:
        assert self.left == 0


@pytest.fixture
def device(tmp_path: Path) -> Device:
    path = tmp_path / "web1-data"
    path.write_bytes(OLD)
    return Device(path)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("start", [0, 1, 4096, 300_000, len(OLD) - 1, len(OLD), len(OLD) + 512])
def test_what_was_on_a_logical_volume_before_is_gone_from_a_place_on(device: Device, start: int, local: bool) -> None:
    zero_logical(Pool("vg", "/dev/vg", 0, device, type="logical", local=local), device, start)
    assert device.file.read_bytes() == OLD[:start] + bytes(max(0, len(OLD) - start))


def test_what_libvirt_alone_may_open_it_wipes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: t.Any) -> t.NoReturn:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as without:
        without.setattr("os.open", forbidden)
        zero_logical(Pool("vg", "/dev/vg", 0, device, type="logical", local=True), device, 0)
    assert device.file.read_bytes() == bytes(len(OLD))


def test_a_device_that_cannot_be_wiped_is_no_disk_for_a_machine(device: Device) -> None:
    device.file.unlink()
    with pytest.raises(HostError, match=r"cannot wipe volume web1.qcow2 of pool vg: No such file"):
        zero_logical(Pool("vg", "/dev/vg", 0, device, type="logical", local=True), device, 0)


def test_volumes_of_other_pools_have_nothing_of_others(device: Device) -> None:
    zero_logical(Pool("files", "/srv", 0, device, local=True), device, 0)
    assert device.file.read_bytes() == OLD
