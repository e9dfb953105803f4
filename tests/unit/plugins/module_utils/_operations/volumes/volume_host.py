# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor for virt_volume: that of purge's tests, and what its daemon does with what is in volumes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import HEADER_BYTES, disk_format
from ansible_collections.brine.virt.plugins.modules import virt_volume
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.files import have_volumes
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost


class Stream:
    """What libvirt sends to a file, or reads from one."""

    def __init__(self) -> None:
        self.file: t.Any = None

    def send(self, data: bytes) -> int:
        return int(self.file.write(data))

    def recv(self, length: int) -> bytes:
        return bytes(self.file.read(length))

    def sparseSendAll(self, read: t.Any, section: t.Any, skip: t.Any, opaque: t.Any) -> None:
        while True:
            data, length = section(self, opaque)
            if length == 0:
                return
            if data:
                length = self.send(read(self, length, opaque))
            else:
                skip(self, length, opaque)
                self.file.seek(length, os.SEEK_CUR)

    def finish(self) -> None:
        self.file.close()

    def abort(self) -> None:
        self.file.close()


def upload(volume: t.Any, stream: t.Any, offset: int, _length: int, _flags: int) -> None:
    stream.file = Path(volume.path()).open("r+b")  # noqa: SIM115 - the stream closes it
    stream.file.seek(offset)


def download(volume: t.Any, stream: t.Any, offset: int, _length: int, _flags: int) -> None:
    stream.file = Path(volume.path()).open("rb")  # noqa: SIM115 - the stream closes it
    stream.file.seek(offset)


def resize(volume: t.Any, size_bytes: int, _flags: int = 0) -> int:
    path = Path(volume.path())
    with path.open("rb") as file:
        image_format = disk_format(file.read(HEADER_BYTES))
    subprocess.run(["qemu-img", "resize", "-q", "-f", image_format, str(path), str(size_bytes)], check=True)
    return 0


def play_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the daemon does with volumes, and the test driver does not."""
    monkeypatch.setattr(libvirt.virConnect, "newStream", lambda _conn, _flags=0: Stream())
    monkeypatch.setattr(libvirt.virStorageVol, "upload", upload)
    monkeypatch.setattr(libvirt.virStorageVol, "download", download)
    monkeypatch.setattr(libvirt.virStorageVol, "resize", resize)


class VolumeHost:
    """purge: the hypervisor; controller: a directory of the controller. sent: what was sent from there."""

    def __init__(self, purge: PurgeHost, directory: Path) -> None:
        self.purge = purge
        self.pool = purge.pool
        self.outside = purge.outside
        self.controller = directory / "controller"
        self.controller.mkdir()
        self.remote = directory / "remote"
        self.remote.mkdir()
        self.sent: list[str] = []

    def module(self, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        """What the module returns, or fails with."""
        beside = {name: params.pop(name, None) for name in virt_volume.BESIDE}
        validated = ArgumentSpecValidator(virt_volume.ARGUMENTS).validate(params)
        assert not validated.error_messages
        failures: list[dict[str, t.Any]] = []
        module = types.SimpleNamespace(
            params={"uri": "test:///x", **validated.validated_parameters, **beside},
            check_mode=check_mode,
            fail_json=lambda **result: failures.append({**result, "failed": True}),
        )
        answer = virt_volume.work(t.cast("t.Any", module))
        return failures[0] if failures else answer

    def run(self, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        """The same through the action plugin."""

        def send(path: str, _subject: str, name: str) -> str:
            self.sent.append(name)
            return str(shutil.copy(path, self.remote / name))

        return have_volumes(
            params,
            find=lambda src, _where: str(self.controller / src),
            ask=lambda args: self.module(check_mode, **args),
            send=send,
        )

    def one(self, **params: t.Any) -> dict[str, t.Any]:
        """What becomes of one volume: in check mode first, which changes nothing and says the same."""
        before = self.purge.files()
        ahead = self.run(True, **params)
        assert self.purge.files() == before
        answer = self.run(**params)
        assert {**answer, "volumes": ahead["volumes"]} == answer
        assert (ahead["changed"], ahead["diff"]) == (answer["changed"], answer["diff"])
        result: dict[str, t.Any] = answer["volumes"][0]
        return result

    def volumes(self) -> set[str]:
        return set(self.purge.handle.listVolumes())

    def info(self, name: str) -> tuple[str, int]:
        """The format of a file of the pool by its first bytes, and the size of its disk."""
        command = ["qemu-img", "info", "--output=json", str(self.pool / name)]
        said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return said["format"], said["virtual-size"]
