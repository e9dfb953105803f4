# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a device: wipefs on real images, and programs that are not there or say something else."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    NotFoundError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.setup import devices

needs_wipefs = pytest.mark.skipif(not shutil.which("wipefs"), reason="wipefs is not installed")
MACHINE = """
<domain type='test'><name>db1</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='block'><source dev='{path}'/><target dev='vda'/></disk></devices></domain>
"""


def image(path: Path, content: bytes = b"", at: int = 0) -> str:
    """A file of 4 MiB in place of a device."""
    with path.open("wb") as file:
        file.truncate(4 * 1024 * 1024)
        file.seek(at)
        file.write(content)
    return str(path)


# The magic numbers of file systems and volumes, by libblkid's src/superblocks.
SIGNED = {
    "dos": (b"\x55\xaa", 510),
    "crypto_LUKS": (b"LUKS\xba\xbe\x00\x01", 0),
}


@needs_wipefs
def test_an_empty_device_has_nothing_on_it(tmp_path: Path) -> None:
    assert devices.signatures_on(image(tmp_path / "a")) == []


@needs_wipefs
@pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="mkfs.ext4 is not installed")
def test_a_file_system_is_seen(tmp_path: Path) -> None:
    path = image(tmp_path / "a")
    subprocess.run(["mkfs.ext4", "-q", path], check=True)
    before = Path(path).read_bytes()
    assert devices.signatures_on(path) == ["ext4"]
    assert Path(path).read_bytes() == before


@needs_wipefs
@pytest.mark.parametrize("kind", SIGNED)
def test_what_is_no_file_system_is_seen_too(tmp_path: Path, kind: str) -> None:
    content, at = SIGNED[kind]
    assert devices.signatures_on(image(tmp_path / "a", content, at)) == [kind]


@needs_wipefs
def test_what_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="what is on .* cannot be read"):
        devices.signatures_on(str(tmp_path / "missing"))


def test_without_the_program_nothing_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="wipefs is not installed on this host. Install the package util-linux"):
        devices.signatures_on(image(tmp_path / "a"))


def test_only_a_block_device_is_blank(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match=r"device: .*/a is not a block device"):
        devices.require_blank(image(tmp_path / "a"), "device")
    with pytest.raises(NotFoundError, match=r"device: .*/b cannot be inspected: No such file or directory"):
        devices.require_blank(str(tmp_path / "b"), "device")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_device_of_a_machine_is_not_taken(tmp_path: Path, kind: str) -> None:
    path = Path(image(tmp_path / "a"))
    named = path
    if kind == "link":
        named = tmp_path / "by-id"
        named.symlink_to(path)
    with open_connection("test:///default") as conn:
        domain = conn.defineXML(MACHINE.format(path=path))
        try:
            with pytest.raises(ConflictError, match=r"devices: .* is used by machine db1. Nothing is made on it"):
                devices.require_unused_device(conn, str(named), "devices")
            devices.require_unused_device(conn, image(tmp_path / "other"), "devices")
        finally:
            domain.undefine()


@pytest.mark.parametrize(("pool", "machine"), [("nopd3", "nopd"), ("nopd", "nopd3"), ("nopd3", "nopd3")])
def test_a_disk_and_its_parts_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str, machine: str) -> None:
    # As sysfs has them: the directory of a partition is in that of its disk, and has a file `partition`.
    part = tmp_path / "devices" / "nopd" / "nopd3"
    part.mkdir(parents=True)
    (part / "partition").write_text("3", encoding="utf-8")
    (tmp_path / "nopd").symlink_to(part.parent)
    (tmp_path / "nopd3").symlink_to(part)
    monkeypatch.setattr(devices, "_SYSFS", str(tmp_path))
    with open_connection("test:///default") as conn:
        domain = conn.defineXML(MACHINE.format(path=f"/dev/{machine}"))
        try:
            with pytest.raises(ConflictError, match=rf"device: /dev/{pool} is used by machine db1. Two systems"):
                devices.require_not_used_by_machine(conn, ["/dev/nope", f"/dev/{pool}"], "device")
            devices.require_not_used_by_machine(conn, ["/dev/nopd4"], "device")
            with pytest.raises(ConflictError, match="Nothing is made on it"):
                devices.require_unused_device(conn, f"/dev/{pool}", "device")
        finally:
            domain.undefine()


def program(folder: Path, name: str, output: str, status: int = 0) -> None:
    """A program of this name that writes this."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return lambda *words: program(tmp_path, *words)


def test_the_physical_volumes_of_a_group(programs: t.Callable[..., None]) -> None:
    # As pvs(8) of LVM 2.03 writes it: two blanks before each line, and a device without a group has an empty name.
    programs("pvs", "  \t/dev/sdd\n  vg0\t/dev/sdb\n  vg00\t/dev/sde\n  vg0\t/dev/sdc")
    assert devices.devices_of_group("vg0") == ["/dev/sdb", "/dev/sdc"]
    assert devices.devices_of_group("vg") is None
    programs("pvs", "  no permission", 5)
    with pytest.raises(HostError, match="the volume groups cannot be listed: no permission"):
        devices.devices_of_group("vg0")


def test_a_dataset_is_found_by_its_whole_name(programs: t.Callable[..., None]) -> None:
    programs("zfs", "tank\ntank/vms")
    assert [devices.has_dataset(name) for name in ("tank", "tank/vms", "tank/vm", "vms")] == [True, True, False, False]
    programs("zfs", "The ZFS modules are not loaded.", 1)
    with pytest.raises(HostError, match="the ZFS datasets cannot be listed: The ZFS modules are not loaded"):
        devices.has_dataset("tank")


def test_one_device_has_many_names(tmp_path: Path) -> None:
    path = Path(image(tmp_path / "a"))
    (tmp_path / "by-id").symlink_to(path)
    assert devices.real_paths([str(path)]) == devices.real_paths([str(tmp_path / "by-id")])
    assert devices.real_paths([str(path)]) != devices.real_paths([str(tmp_path / "b")])
