# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the host itself has as devices, as the kernel says it in /sys and /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import delete_unused
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import (
    DeviceOnFile,
    devices_on_files,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.kernel import Kernel

POOL = "<pool type='dir'><name>shared</name><target><path>{}</path></target></pool>"
VOLUME = "<volume><name>{}</name><capacity>1048576</capacity><target><format type='raw'/></target></volume>"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path / "kernel", monkeypatch)


def test_loop_devices(kernel: Kernel) -> None:
    assert list(devices_on_files()) == []
    kernel.loop("loop7", "/srv/shared/loop.raw")
    kernel.loop("loop8", os.fsdecode(b"/srv/shared/\xff .iso"), read_only=True)
    # One that is set up for nothing.
    (kernel.block / "loop0").mkdir()
    assert sorted(devices_on_files(), key=lambda one: one.name) == [
        DeviceOnFile("loop7", "/srv/shared/loop.raw", True),
        DeviceOnFile("loop8", os.fsdecode(b"/srv/shared/\xff .iso"), False),
    ]


def test_devices_of_qemu_nbd(kernel: Kernel) -> None:
    kernel.nbd("nbd0", 42, "qemu-nbd", "/srv/shared/a.qcow2", "socket:[7]", "/srv/shared/base.qcow2", read_only=True)
    # Its files are elsewhere.
    kernel.nbd("nbd1", 43, "nbd-client", "/var/log/nbd")
    # One that has ended meanwhile.
    kernel.nbd("nbd2", 44, None)
    assert sorted(one.path for one in devices_on_files()) == ["/srv/shared/a.qcow2", "/srv/shared/base.qcow2"]
    assert {(one.name, one.writes) for one in devices_on_files()} == {("nbd0", False)}


@pytest.mark.parametrize("kind", ["loop", "nbd"])
def test_what_the_host_has_as_a_device_is_not_deleted(tmp_path: Path, kernel: Kernel, kind: str) -> None:
    """By whatever path it was set up."""
    directory, link = tmp_path / "disks", tmp_path / "link"
    directory.mkdir()
    link.symlink_to(directory)
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        handle = conn.storagePoolCreateXML(POOL.format(directory), 0)
        for name in ("loop.raw", "free.raw"):
            handle.createXML(VOLUME.format(name), 0)
            (directory / name).touch()
        if kind == "loop":
            kernel.loop("loop7", f"{link}/loop.raw")
        else:
            kernel.nbd("nbd7", 42, "qemu-nbd (deleted)", f"{link}/loop.raw")
        pool = Pools(conn).get("shared")
        words = r"^volume loop.raw of pool shared is kept: it is used by the host itself \(/dev/(loop7|nbd7)\)\. Detach"
        with pytest.raises(ConflictError, match=words):
            delete_unused(conn, [(pool, "loop.raw")], fresh=True)
        assert delete_unused(conn, [(pool, "free.raw")]) == ["free.raw"]
